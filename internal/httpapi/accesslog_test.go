package httpapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
)

func TestEachRequestIsALineWithItsRunAndKey(t *testing.T) {
	var out bytes.Buffer
	f, keys := newFake(), &memoryKeys{}
	s, err := New(Options{Runs: f, Keys: keys, Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	plain := keys.add(t, "default", engine.ScopeAdmin)
	type line struct {
		Method, Path, Run, Key string
		Status                 int
	}
	check := func(method, path, body string, want line) {
		t.Helper()
		out.Reset()
		ask(s, method, path, body, bearerOf(plain)...)
		var got line
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if strings.Contains(out.String(), plain) || strings.Contains(out.String(), "hidden") {
			t.Errorf("a secret is in the log: %s", out.String())
		}
	}
	id := keys.get(plain).ID
	check("POST", "/v1/runs", `{"prompt":"hidden"}`, line{"POST", "/v1/runs", "run_0001", id, 202})
	f.emit("run_0001", event.RunCompleted)
	check("GET", "/v1/runs/run_0001?x=hidden", "", line{"GET", "/v1/runs/run_0001", "run_0001", id, 400})
	check("GET", "/v1/runs/run_0001/events", "", line{"GET", "/v1/runs/run_0001/events", "run_0001", id, 200})
	check("GET", "/v1/tools", "", line{"GET", "/v1/tools", "", id, 200})
	long := "/v1/" + strings.Repeat("a", 5000)
	check("GET", long, "", line{"GET", long[:maxLoggedPath] + "…", "", id, 404})
}
