package httpapi

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/harness-go/harness/internal/apikey"
	"github.com/harness-go/harness/store"
)

type noKeys struct{}

func (noKeys) KeyByHash(context.Context, [32]byte) (store.Key, error) {
	return store.Key{}, store.ErrNotFound
}

var _ apikey.Lookup = noKeys{}

func trustedServer(t *testing.T) *Server {
	t.Helper()
	s, err := New(Options{Runs: newFake(), Keys: noKeys{}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTrustedCallersNeedNoKeyAndOthersDo(t *testing.T) {
	s := trustedServer(t)
	for name, tt := range map[string]struct {
		h    http.Handler
		host string
		want int
	}{
		"trusted":                   {s.Trusted(), "localhost", http.StatusOK},
		"not trusted":               {s, "localhost", http.StatusUnauthorized},
		"trusted, but a wrong host": {s.Trusted(), "evil.example", http.StatusMisdirectedRequest},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://"+tt.host+"/v1/tools", nil)
		w := httptest.NewRecorder()
		tt.h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: %d, want %d: %s", name, w.Code, tt.want, w.Body)
		}
	}
}

func TestOnlyASocketIsServedWithoutKeys(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := trustedServer(t).ServeTrusted(t.Context(), l); err == nil || !strings.Contains(err.Error(), "Unix socket") {
		t.Fatalf("err = %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the listener was left open")
	}
}
