package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/harness-go/harness/internal/api"
)

// answer is the writer of one request. It remembers whether an answer has begun, so that a panic is answered once.
type answer struct {
	http.ResponseWriter
	status  int
	pattern string // of the route
	key     string // id of the caller's key
}

// Unwrap lets http.ResponseController reach the server's writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if a.status != 0 {
		return // a second status, after the client went away in mid answer
	}
	if status >= 200 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(b)
}

// ServeHTTP guards every request: panics, headers, host, origin, authentication, then the route.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w}
	begun := time.Now()
	defer func() { s.finish(a, r, begun, recover()) }()

	h := a.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")

	if err := s.admit(a, r); err != nil {
		if a.status == 0 {
			writeProblem(a, s.problemOf(r.Context(), err))
		}
		return
	}
}

// admit runs the request once every check has passed.
func (s *Server) admit(a *answer, r *http.Request) error {
	if p := s.checkHost(r); p != nil {
		return p
	}
	if p := s.checkOrigin(r); p != nil {
		return p
	}
	if s.auth.off() {
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && !loopbackAddr(addr) {
			return api.NewProblem(api.CodeAuthRequired, "authentication is switched off, which is for loopback connections only")
		}
	}
	if r.URL.Path == "/healthz" {
		return s.route(a, r)
	}
	c, err := s.auth.authenticate(a, r)
	if err != nil {
		return err
	}
	a.key = c.principal.KeyID
	return s.route(a, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
}

// finish answers a panic, counts the answer and writes the access log.
func (s *Server) finish(a *answer, r *http.Request, begun time.Time, panicked any) {
	defer func() { s.count(a, time.Since(begun)) }()
	if panicked != nil {
		if panicked == http.ErrAbortHandler {
			panic(panicked)
		}
		err, isErr := panicked.(error)
		_, isNet := errors.AsType[net.Error](err)
		if isErr && a.status != 0 && (isNet || r.Context().Err() != nil) {
			s.log.Debug("client went away in mid answer", "path", r.URL.Path)
			return
		}
		p := s.internal(r.Context(), "panic in a handler",
			slog.Any("panic", panicked), slog.String("path", r.URL.Path), slog.String("stack", string(debug.Stack())))
		if a.status == 0 {
			writeProblem(a, p)
			return
		}
		panic(http.ErrAbortHandler) // an answer that is cut must not look complete
	}
	s.access(a, r, time.Since(begun))
}

// checkHost refuses names that are not ours: a page whose own name was pointed at this address must not reach it.
// Addresses cannot be pointed elsewhere, so the address that the connection came in on is fine.
func (s *Server) checkHost(r *http.Request) *api.Problem {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || s.hosts[host] {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.IsLoopback() {
			return nil
		}
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.AddrPort().Addr().Unmap() == ip.Unmap() {
			return nil
		}
	}
	return api.NewProblem(api.CodeHostNotAllowed, "this server does not answer for the host of the request; name it in the server's allowed hosts").At("Host")
}

// checkOrigin refuses requests of pages of other origins, reads too: what a page can read it can leak.
func (s *Server) checkOrigin(r *http.Request) *api.Problem {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return nil // not a browser
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		probe := *r
		probe.Method = http.MethodPost // the check passes reads as safe
		r = &probe
	}
	if err := s.origin.Check(r); err != nil {
		return api.NewProblem(api.CodeCrossOrigin, "requests from pages of other origins are refused")
	}
	return nil
}

func loopbackAddr(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
