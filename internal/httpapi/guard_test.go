package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

func TestEveryPathButHealthAsksForAKey(t *testing.T) {
	s, _, keys := locked(t)
	for _, r := range routeTable(s) {
		w := ask(s, r.method, r.path, r.body)
		if r.path == "/healthz" {
			decodeBody[api.Health](t, w, 200)
			continue
		}
		if p := problem(t, w); p.Code != api.CodeUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s without a key: %+v", r.method, r.path, p)
		}
	}
	for _, path := range []string{"/", "/nope", "/openapi.json", "/v1/runs/../healthz"} {
		if p := problem(t, ask(s, "GET", path, "")); p.Code != api.CodeUnauthorized {
			t.Errorf("%s: %+v", path, p)
		}
	}
	good := keys.add(t, "default", engine.ScopeRunsRead)
	for name, header := range map[string]string{
		"unknown key": "Bearer " + "harness_sk_" + strings.Repeat("0", 43), "no scheme": good, "other scheme": "Basic " + good,
		"garbage": "Bearer x", "empty": "Bearer ", "key and more": "Bearer " + good + " x",
	} {
		w := ask(s, "GET", "/v1/runs", "", "Authorization", header)
		if p := problem(t, w); p.Code != api.CodeUnauthorized || strings.Contains(w.Body.String(), good) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if w := ask(s, "GET", "/v1/runs", "", "Authorization", "bearer "+good); w.Code != 200 {
		t.Errorf("a good key: %s", w.Body)
	}
	w := ask(s, "GET", "/v1/runs?token="+good, "")
	if p := problem(t, w); p.Code != api.CodeUnauthorized || !strings.Contains(p.Detail, "URL") || strings.Contains(w.Body.String(), good) {
		t.Errorf("a key in the URL: %+v", p)
	}
}

func TestARevokedOrExpiredKeyIsRefusedWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, keys := locked(t)
		plain := keys.add(t, "default", engine.ScopeRunsRead)
		get := func() int { return ask(s, "GET", "/v1/runs", "", "Authorization", "Bearer "+plain).Code }
		if get() != 200 {
			t.Fatal("a good key is refused")
		}
		k := keys.get(plain)
		at := time.Now()
		k.RevokedAt = &at
		keys.put(k)
		time.Sleep(keyCacheTTL)
		if get() != 401 {
			t.Fatal("a revoked key is accepted")
		}
		k.RevokedAt = nil
		soon := time.Now().Add(500 * time.Millisecond)
		k.ExpiresAt = &soon
		keys.put(k)
		if get() != 200 {
			t.Fatal("a key is refused before it expires")
		}
		time.Sleep(500 * time.Millisecond)
		if get() != 401 {
			t.Fatal("an expired key is accepted from the cache")
		}
		keys.err = errDisk
		plain = keys.add(t, "default", engine.ScopeRunsRead)
		if p := problem(t, ask(s, "GET", "/v1/runs", "", "Authorization", "Bearer "+plain)); p.Code != api.CodeInternal {
			t.Fatalf("a failing store: %+v", p)
		}
	})
}

func TestAKeyNeedsTheScopeOfTheRoute(t *testing.T) {
	s, f, keys := locked(t)
	admin := keys.add(t, "default", engine.ScopeAdmin)
	id := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Authorization", "Bearer "+admin), 202).RunID
	ap := f.ask(id, "bash")
	scopes := map[string]string{}
	for _, sc := range []string{engine.ScopeRunsRead, engine.ScopeRunsWrite, engine.ScopeApprovals, engine.ScopeRunsUnrestricted} {
		scopes[sc] = keys.add(t, "default", sc)
	}
	for _, c := range []struct {
		method, path, body string
		allowed            []string
	}{
		{"GET", "/v1/runs", "", []string{engine.ScopeRunsRead, engine.ScopeRunsWrite}},
		{"GET", "/v1/runs/" + id, "", []string{engine.ScopeRunsRead, engine.ScopeRunsWrite}},
		{"POST", "/v1/runs", `{"prompt":"a"}`, []string{engine.ScopeRunsWrite}},
		{"POST", "/v1/runs/" + id + "/cancel", "", []string{engine.ScopeRunsWrite}},
		{"POST", "/v1/runs/" + id + "/approve", "", []string{engine.ScopeApprovals}},
		{"POST", "/v1/approvals/" + ap, `{"decision":"approve"}`, []string{engine.ScopeApprovals}},
		{"GET", "/v1/approvals", "", []string{engine.ScopeApprovals, engine.ScopeRunsRead, engine.ScopeRunsWrite}},
		{"GET", "/v1/tools", "", []string{engine.ScopeRunsRead, engine.ScopeRunsWrite}},
	} {
		for sc, key := range scopes {
			w := ask(s, c.method, c.path, c.body, "Authorization", "Bearer "+key)
			allowed := false
			for _, a := range c.allowed {
				allowed = allowed || a == sc
			}
			switch {
			case allowed && w.Code >= 300:
				t.Errorf("%s %s with %s: %s", c.method, c.path, sc, w.Body)
			case !allowed:
				if p := problem(t, w); p.Code != api.CodeInsufficientScope || p.Required != c.allowed[0] && p.Required != engine.ScopeRunsRead {
					t.Errorf("%s %s with %s: %+v", c.method, c.path, sc, p)
				}
			}
		}
	}
}

func TestNoKeyListsAnotherTenant(t *testing.T) {
	s, _, keys := locked(t)
	a, b := keys.add(t, "a", engine.ScopeRunsWrite), keys.add(t, "b", engine.ScopeRunsWrite)
	admin := keys.add(t, "ops", engine.ScopeAdmin)
	decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Authorization", "Bearer "+a), 202)
	for _, key := range []string{b, admin} {
		if p := problem(t, ask(s, "GET", "/v1/runs?tenant_id=a", "", "Authorization", "Bearer "+key)); p.Code != api.CodeForbidden || p.Field != "tenant_id" {
			t.Errorf("%+v", p)
		}
	}
	for key, want := range map[string]int{a: 1, b: 0, admin: 0} {
		if l := decodeBody[api.RunList](t, ask(s, "GET", "/v1/runs", "", "Authorization", "Bearer "+key), 200); len(l.Runs) != want {
			t.Errorf("%d runs, want %d", len(l.Runs), want)
		}
	}
}

func TestHostsThatAreNotOursAreRefused(t *testing.T) {
	f := newFake()
	s, err := New(Options{Runs: f, AuthDisabled: true, Hosts: []string{"Harness.Example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST": true, "localhost.": true, "127.0.0.1:1": true, "127.0.0.9": true,
		"[::1]:80": true, "::1": true, "harness.example.com": true, "harness.example.com:443": true,
		"": false, "evil.example": false, "localhost.evil.example": false, "10.0.0.1": false, "127.0.0.1.evil.example": false,
		"xharness.example.com": false, "localhost:80:80": false, "[fe80::1]": false,
	} {
		w := ask(s, "GET", "/healthz", "", "Host", host)
		if ok {
			if w.Code != 200 {
				t.Errorf("%q refused: %s", host, w.Body)
			}
		} else if p := problem(t, w); p.Code != api.CodeHostNotAllowed {
			t.Errorf("%q: %+v", host, p)
		}
	}
}

func TestPagesOfOtherOriginsAreRefusedOnReadsToo(t *testing.T) {
	s, _ := open(t)
	for _, c := range []struct {
		header []string
		ok     bool
	}{
		{nil, true},
		{[]string{"Sec-Fetch-Site", "same-origin"}, true},
		{[]string{"Sec-Fetch-Site", "none"}, true},
		{[]string{"Origin", "http://localhost:8080"}, true},
		{[]string{"Sec-Fetch-Site", "cross-site"}, false},
		{[]string{"Sec-Fetch-Site", "same-site"}, false},
		{[]string{"Origin", "http://evil.example"}, false},
		{[]string{"Origin", "http://localhost:9999"}, false},
		{[]string{"Origin", "null"}, false},
	} {
		for _, m := range []string{"GET", "POST"} {
			body := ""
			if m == "POST" {
				body = `{"prompt":"a"}`
			}
			w := ask(s, m, "/v1/runs", body, c.header...)
			if c.ok && w.Code >= 300 {
				t.Errorf("%s %v refused: %s", m, c.header, w.Body)
			}
			if !c.ok {
				if p := problem(t, w); p.Code != api.CodeCrossOrigin {
					t.Errorf("%s %v: %+v", m, c.header, p)
				}
			}
			if h := w.Header(); h.Get("Access-Control-Allow-Origin") != "" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", h)
			}
		}
	}
}

func TestBodiesMustBeJSON(t *testing.T) {
	s, f := open(t)
	id := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`), 202).RunID
	for _, ct := range []string{"text/plain", "", "application/x-www-form-urlencoded", "application/json; charset=latin1", "multipart/form-data; boundary=x", ";"} {
		if p := problem(t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Content-Type", ct)); p.Code != api.CodeMediaType {
			t.Errorf("%q: %+v", ct, p)
		}
	}
	if w := ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Content-Type", "Application/JSON; charset=UTF-8"); w.Code != 202 {
		t.Errorf("%s", w.Body)
	}
	if p := problem(t, ask(s, "POST", "/v1/runs", "")); p.Code != api.CodeInvalidJSON {
		t.Errorf("no body: %+v", p)
	}
	for _, verb := range []string{"approve", "cancel"} {
		f.ask(id, "bash")
		if p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/"+verb, "", "Content-Type", "text/plain")); p.Code != api.CodeMediaType {
			t.Errorf("%s as a form of another page sends it: %+v", verb, p)
		}
		if w := ask(s, "POST", "/v1/runs/"+id+"/"+verb, ""); w.Code != 200 {
			t.Errorf("%s without a body: %s", verb, w.Body)
		}
	}
	if p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/cancel", `{"now":true}`)); p.Code != api.CodeUnknownField {
		t.Errorf("%+v", p)
	}
}

// counted counts what is read of it.
type counted struct {
	n    atomic.Int64
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), c.left))
	clear(p[:n])
	c.n.Add(int64(n))
	c.left -= int64(n)
	return n, nil
}

func TestALargeBodyIsRefusedBeforeItIsReadWhole(t *testing.T) {
	s, _ := open(t)
	srv := serve(t, s)
	for name, length := range map[string]int64{"announced": 64 << 20, "chunked": -1} {
		body := &counted{left: 64 << 20}
		req, err := http.NewRequest("POST", srv+"/v1/runs", body)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data := readAll(t, res.Body)
		_ = res.Body.Close()
		if p := problemIn(t, res.StatusCode, res.Header.Get("Content-Type"), []byte(data)); p.Code != api.CodeBodyTooLarge {
			t.Errorf("%s: %+v", name, p)
		}
		if body.n.Load() > 32<<20 { // what is taken, and what fits into socket buffers; the body is twice that
			t.Errorf("%s: %d bytes were taken", name, body.n.Load())
		}
	}
	fits := `{"prompt":"` + strings.Repeat("x", MaxRunBody-13) + `"}`
	if w := ask(s, "POST", "/v1/runs", fits); len(fits) != MaxRunBody || w.Code != 202 {
		t.Errorf("a body of %d bytes: %d", len(fits), w.Code)
	}
	if p := problem(t, ask(s, "POST", "/v1/runs", fits+" ")); p.Code != api.CodeBodyTooLarge {
		t.Errorf("one byte more: %+v", p)
	}
}

// syncBuffer is a log that handlers write while the test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestAPanicIsAProblemAndIsLogged(t *testing.T) {
	var log syncBuffer
	f := newFake()
	s, err := New(Options{Runs: f, AuthDisabled: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	f.submit = func() error { panic("boom") }
	p := problem(t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`))
	if p.Code != api.CodeInternal || strings.Contains(p.Detail, "boom") {
		t.Fatalf("%+v", p)
	}
	if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), p.Instance) {
		t.Fatalf("log: %s", log.String())
	}
}

func TestKeysAndQueriesAreNotLogged(t *testing.T) {
	var log syncBuffer
	f, keys := newFake(), &memoryKeys{}
	s, err := New(Options{Runs: f, Keys: keys, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	plain := keys.add(t, "default", engine.ScopeAdmin)
	ask(s, "GET", "/v1/runs?token="+plain, "", "Authorization", "Bearer "+plain)
	ask(s, "GET", "/v1/runs?token="+plain, "")
	if strings.Contains(log.String(), plain) || !strings.Contains(log.String(), "path=/v1/runs") {
		t.Fatalf("log: %s", log.String())
	}
}

// elsewhere is a listener that claims an address which others can reach.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

func TestAuthenticationIsOffOnLoopbackOnly(t *testing.T) {
	s, _ := open(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(t.Context(), elsewhere{l}); !errors.Is(err, ErrOpenBind) {
		t.Fatalf("Serve = %v", err)
	}
	for _, ip := range []net.IP{net.IPv4(192, 0, 2, 1), net.IPv4zero} {
		r, _ := http.NewRequest("GET", "http://localhost/healthz", nil)
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: ip})))
		if p := problem(t, serveOne(s, r)); p.Code != api.CodeAuthRequired {
			t.Errorf("%s: %+v", ip, p)
		}
	}
	for name, o := range map[string]Options{
		"no engine": {AuthDisabled: true}, "no keys": {Runs: newFake()}, "both": {Runs: newFake(), Keys: &memoryKeys{}, AuthDisabled: true},
		"bad host": {Runs: newFake(), AuthDisabled: true, Hosts: []string{"*.example.com"}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAWriteGoesOnWhenItsClientGoesAway(t *testing.T) {
	s, f := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "POST", "http://localhost/v1/runs", strings.NewReader(`{"prompt":"a"}`))
	r.Header.Set("Content-Type", "application/json")
	cancelled := make(chan error, 1)
	s.runs = watchCtx{f, func(inner context.Context) {
		cancel()
		cancelled <- inner.Err()
	}}
	serveOne(s, r)
	if err := <-cancelled; err != nil {
		t.Fatalf("the engine's context ended with its client: %v", err)
	}
	if len(f.runs) != 1 {
		t.Fatal("the run was not created")
	}
}

type watchCtx struct {
	*fakeRuns
	see func(context.Context)
}

func (w watchCtx) Submit(ctx context.Context, p engine.Principal, req engine.RunRequest, key string) (r store.Run, existed bool, err error) {
	w.see(ctx)
	return w.fakeRuns.Submit(ctx, p, req, key)
}
