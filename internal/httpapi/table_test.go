package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; read the change and run the test with -update\n%s", path, got)
	}
}

type routeCase struct{ method, path, body string }

// routeTable makes a request for every documented operation, with the ids run_0001 and ap_0002, and every route that
// is not built.
func routeTable(s *Server) []routeCase {
	var list []routeCase
	for path, item := range s.api.OpenAPI().Paths {
		concrete := strings.NewReplacer("/runs/{id}", "/runs/run_0001", "/approvals/{id}", "/approvals/ap_0002", "/conversations/{id}", "/conversations/run_0001").Replace(path)
		if item.Get != nil {
			list = append(list, routeCase{"GET", concrete, ""})
		}
		if item.Delete != nil {
			list = append(list, routeCase{"DELETE", concrete, ""})
		}
		if item.Post != nil {
			body := ""
			if rb := item.Post.RequestBody; rb != nil && rb.Required {
				body = bodies[path]
			}
			list = append(list, routeCase{"POST", concrete, body})
		}
		if item.Put != nil {
			list = append(list, routeCase{"PUT", concrete, bodies[path]})
		}
	}
	for _, n := range notBuilt {
		for _, r := range strings.Split(n.routes, ",") {
			method, path, ok := strings.Cut(strings.TrimSpace(r), " ")
			if !ok {
				method, path = "GET", method
			}
			list = append(list, routeCase{method, strings.NewReplacer("{id}", "x", "{name}", "x", "{$}", "").Replace(path), ""})
		}
	}
	slices.SortFunc(list, func(a, b routeCase) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return list
}

var bodies = map[string]string{
	"/v1/runs/{id}/todos":    `{"todos":[{"text":"a"}]}`,
	"/v1/runs":               `{"prompt":"a"}`,
	"/v1/runs/{id}/continue": `{"prompt":"a"}`,
	"/v1/runs/{id}/steer":    `{"prompt":"a"}`,
	"/v1/runs/{id}/input":    `{"answers":{"Which?":"c"}}`,
	"/v1/approvals/{id}":     `{"decision":"approve"}`,

	"/v1/conversations/cleanup": `{"max_age_days":1}`,
}

func TestAnotherTenantFindsNothing(t *testing.T) {
	s, f, keys := locked(t)
	a, b := keys.add(t, "a", engine.ScopeAdmin), keys.add(t, "b", engine.ScopeAdmin)
	decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Authorization", "Bearer "+a), 202)
	f.ask("run_0001", "bash")
	f.emit("run_0001", event.RunCompleted)
	checked := 0
	for _, r := range routeTable(s) {
		if !strings.Contains(r.path, "run_0001") && !strings.Contains(r.path, "ap_0002") {
			continue
		}
		if mine := ask(s, r.method, r.path, r.body, "Authorization", "Bearer "+a); mine.Code == 404 {
			t.Errorf("%s %s is 404 for its own tenant: %s", r.method, r.path, mine.Body)
		}
		if p := problem(t, ask(s, r.method, r.path, r.body, "Authorization", "Bearer "+b)); p.Code != api.CodeNotFound {
			t.Errorf("%s %s for another tenant: %+v", r.method, r.path, p)
		}
		checked++
	}
	if checked < 11 {
		t.Fatalf("only %d routes were checked", checked)
	}
}

func TestEveryAnswerThatIsNoSuccessIsAProblem(t *testing.T) {
	s, _ := open(t)
	notBuiltSeen := 0
	for _, r := range routeTable(s) {
		w := ask(s, r.method, r.path, r.body)
		if w.Code < 300 {
			continue
		}
		p := problem(t, w)
		if p.Status == http.StatusNotImplemented {
			notBuiltSeen++
			if !strings.Contains(p.Detail, "not available on this node") {
				t.Errorf("%s %s: %+v", r.method, r.path, p)
			}
		}
		w = ask(s, "TRACE", r.path, "")
		if strings.HasPrefix(r.path, "/v1/model-settings") || r.path == "/v1/relay/" {
			continue
		}
		if p := problem(t, w); p.Code != api.CodeMethodNotAllowed || !strings.Contains(w.Header().Get("Allow"), r.method) {
			t.Errorf("TRACE %s: %+v, Allow %q", r.path, p, w.Header().Get("Allow"))
		}
	}
	if notBuiltSeen < 60 {
		t.Errorf("only %d documented routes say that they are not built", notBuiltSeen)
	}
	for _, r := range []routeCase{
		{"GET", "/", ""}, {"GET", "/v2/runs", ""}, {"POST", "/v1/runs/x/y/z", ""}, {"GET", "/v1/runs/", ""}, {"GET", "//v1/runs", ""},
		{"GET", "/v1/../healthz", ""}, {"GET", "/v1/runs/%2e%2e", ""}, {"DELETE", "/v1/runs", ""}, {"OPTIONS", "/v1/runs", ""},
		{"GET", "/v1/runs/run_x", ""}, {"GET", "/v1/runs/run_x/events", ""}, {"GET", "/v1/runs?token=x", ""}, {"CONNECT", "/v1/runs", ""},
	} {
		if w := ask(s, r.method, r.path, r.body); w.Code < 400 {
			t.Errorf("%s %s: %d", r.method, r.path, w.Code)
		} else {
			problem(t, w)
		}
	}
}

func TestProblemsLookAsTheyDid(t *testing.T) {
	s, f := open(t)
	ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Idempotency-Key", "k")
	ap := f.ask("run_0001", "bash")
	f.approvals[ap].Status = event.ApprovalDenied
	var out bytes.Buffer
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/runs", `{"prompt":"x","sandbox":"workspace"}`},
		{"POST", "/v1/runs", `{"prompt":"x","max_steps":"many"}`},
		{"POST", "/v1/runs", `{"prompt":`},
		{"GET", "/v1/runs?limit=1000&state=x", ""},
		{"GET", "/v1/runs/run_none", ""},
		{"GET", "/v1/runs/run_0001/events?after=run_other:3", ""},
		{"POST", "/v1/approvals/" + ap, `{"decision":"approve"}`},
		{"DELETE", "/v1/runs", ""},
		{"GET", "/v1/skills", ""},
		{"GET", "/nope", ""},
	} {
		w := ask(s, c.method, c.path, c.body)
		problem(t, w)
		out.WriteString(c.method + " " + c.path + " " + c.body + "\n")
		if err := json.Indent(&out, w.Body.Bytes(), "", "  "); err != nil {
			t.Fatal(err)
		}
		out.WriteString("\n")
	}
	golden(t, "problems.golden", out.Bytes())
}

func TestTheDescriptionOfTheAPILooksAsItDid(t *testing.T) {
	s, _ := open(t)
	got, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "openapi.json", got)
	w := ask(s, "GET", "/openapi.json", "")
	if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), got) || w.Header().Get("Content-Type") != "application/openapi+json" {
		t.Errorf("GET /openapi.json: %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	if w := ask(s, "GET", "/openapi.yaml", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "openapi: 3.1.0") {
		t.Errorf("GET /openapi.yaml: %d", w.Code)
	}
}

// serve runs a server on a loopback port until the test ends, and returns its base URL.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

func serveOne(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
