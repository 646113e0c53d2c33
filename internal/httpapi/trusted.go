package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
)

type trustedKey struct{}

// Trusted is the API for callers that need no key, because they could read and change the store anyway: the program
// itself, and the user that it runs as. Its requests are those of engine.Local. All other checks hold.
func (s *Server) Trusted() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), trustedKey{}, true)))
	})
}

func trusted(ctx context.Context) bool { return ctx.Value(trustedKey{}) != nil }

// ServeTrusted answers on a Unix socket without asking for keys, until ctx ends; then it shuts the whole server down,
// as Serve does. Who can connect is the business of the socket's and its folder's modes. Other listeners are refused.
func (s *Server) ServeTrusted(ctx context.Context, l net.Listener) error {
	if _, ok := l.Addr().(*net.UnixAddr); !ok {
		_ = l.Close()
		return fmt.Errorf("http api: %s: only a Unix socket can be served without keys", l.Addr())
	}
	return s.serve(ctx, s.local, l)
}
