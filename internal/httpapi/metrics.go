package httpapi

import (
	"context"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/harness-go/harness/internal/engine"
)

// Answered is told of each answer: the method and the pattern of the route (both empty where no route was found), the
// status, the time that it took, and whether it was an event stream. It must be quick.
type Answered func(method, route string, status int, took time.Duration, stream bool)

// readMetrics: the figures are those of all tenants, so that reading one tenant's runs is not enough.
var readMetrics = []string{engine.ScopeMetrics}

// metricsRoute serves the metrics. Without a handler the node has no such route.
func (s *Server) metricsRoute(h http.Handler) {
	if h == nil {
		return
	}
	handle(s, operation{
		method: http.MethodGet, path: "/metrics", id: "metrics", scopes: readMetrics,
		summary: "Figures of the node for Prometheus",
		doc:     "They are those of all tenants together and hold no text of any run.",
		responses: map[string]*huma.Response{
			"200": {Description: "The figures", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}}},
		},
	}, func(ctx context.Context, _ engine.Principal, _ *noParams, _ *none) (*huma.StreamResponse, error) {
		c := callOf(ctx)
		return &huma.StreamResponse{Body: func(huma.Context) { h.ServeHTTP(c.w, c.r) }}, nil
	})
}

// Streams is how many event streams are followed now.
func (s *Server) Streams() int64 { return s.streams.Load() }

// count tells of an answer that is through.
func (s *Server) count(a *answer, took time.Duration) {
	if s.answered == nil {
		return
	}
	method, route, _ := strings.Cut(a.pattern, " ")
	if a.pattern != "" && route == "" { // a pattern for every method
		method, route = "any", a.pattern
	}
	kind, _, _ := mime.ParseMediaType(a.Header().Get("Content-Type"))
	status := a.status
	if status == 0 { // nothing was written
		status = http.StatusOK
	}
	s.answered(method, route, status, took, kind == "text/event-stream")
}
