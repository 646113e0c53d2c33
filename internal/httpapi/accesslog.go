package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// maxLoggedPath bounds what a client's path takes of a line.
const maxLoggedPath = 200

// access writes the line of one request: who asked what, of which run, and how it was answered. Queries, headers and
// bodies stay out of it.
func (s *Server) access(a *answer, r *http.Request, took time.Duration) {
	if !s.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	path := r.URL.Path
	if len(path) > maxLoggedPath {
		path = path[:maxLoggedPath] + "…"
	}
	attrs := []slog.Attr{
		slog.String("method", shortMethod(r.Method)), slog.String("path", path), slog.Int("status", a.status),
		slog.Duration("took", took),
	}
	if run := runOf(a, r.URL.Path); run != "" {
		attrs = append(attrs, slog.String("run", run))
	}
	if a.key != "" {
		attrs = append(attrs, slog.String("key", a.key))
	}
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "request", attrs...)
}

// runOf is the run that a request was about: that of its path, or the one that it made.
func runOf(a *answer, path string) string {
	const runs = "/v1/runs/"
	_, route, _ := strings.Cut(a.pattern, " ")
	if strings.HasPrefix(route, runs+"{id}") {
		id, _, _ := strings.Cut(strings.TrimPrefix(path, runs), "/")
		return id[:min(len(id), maxLoggedPath)]
	}
	id, _ := strings.CutPrefix(a.Header().Get("Location"), runs)
	return id
}
