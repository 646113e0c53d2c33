package httpapi

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/internal/engine"
)

type answeredCall struct {
	method, route string
	status        int
	stream        bool
}

func TestAnswersAreCountedByRouteAndStatus(t *testing.T) {
	var mu sync.Mutex
	var got []answeredCall
	f := newFake()
	s, err := New(Options{Runs: f, AuthDisabled: true, Answered: func(method, route string, status int, took time.Duration, stream bool) {
		mu.Lock()
		defer mu.Unlock()
		if took < 0 {
			t.Errorf("took %s", took)
		}
		got = append(got, answeredCall{method, route, status, stream})
	}})
	if err != nil {
		t.Fatal(err)
	}
	ask(s, "POST", "/v1/runs", `{"prompt":"a"}`)
	f.emit("run_0001", "run.completed")
	for _, path := range []string{"/v1/runs/run_0001", "/v1/runs/run_9", "/v1/runs/run_0001/events", "/nope/" + t.Name(), "/v1/skills"} {
		ask(s, "GET", path, "")
	}
	want := []answeredCall{
		{"POST", "/v1/runs", 202, false}, {"GET", "/v1/runs/{id}", 200, false}, {"GET", "/v1/runs/{id}", 404, false},
		{"GET", "/v1/runs/{id}/events", 200, true}, {"", "", 404, false}, {"GET", "/v1/skills", 501, false},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("answer %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestMetricsNeedTheirScope(t *testing.T) {
	keys := &memoryKeys{}
	s, err := New(Options{Runs: newFake(), Keys: keys, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("figures"))
	})})
	if err != nil {
		t.Fatal(err)
	}
	for scope, want := range map[string]int{
		engine.ScopeMetrics: 200, engine.ScopeAdmin: 200, engine.ScopeRunsRead: 403, engine.ScopeRunsWrite: 403, engine.ScopeApprovals: 403,
	} {
		w := ask(s, "GET", "/metrics", "", "Authorization", "Bearer "+keys.add(t, "a", scope))
		if w.Code != want || (want == 200) != (w.Body.String() == "figures") {
			t.Errorf("%s: %d %s", scope, w.Code, w.Body)
		}
	}
	if w := ask(s, "GET", "/metrics", ""); w.Code != 401 {
		t.Errorf("without a key: %d", w.Code)
	}
}
