package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are a configuration with the scripted model in folders of the test.
func settings(t *testing.T, env ...string) config.Config {
	t.Helper()
	// The path of a socket is short, that of a test's folder can be long.
	state, err := os.MkdirTemp("", "hd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	c, err := config.Load(config.Sources{
		Env: append([]string{"HARNESS_STATE_DIR=" + state, "HARNESS_PROVIDER=fake", "HARNESS_ADDR=127.0.0.1:0"}, env...), Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, c config.Config) *Node {
	t.Helper()
	n, err := Open(t.Context(), Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

// get asks over the local socket.
func get(t *testing.T, stateDir, path string, out any) {
	t.Helper()
	tr := LocalTransport(stateDir)
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get("http://localhost" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", path, res.StatusCode, err, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
}

func TestTheLocalSocketNeedsNoKeyAndIsForItsUserOnly(t *testing.T) {
	c := settings(t)
	n := open(t, c)
	path := filepath.Join(c.StateDir, SocketName)
	if err := os.WriteFile(path, nil, 0o644); err != nil { // what a killed process left
		t.Fatal(err)
	}
	if err := n.ListenLocal(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, c.StateDir} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", name, info.Mode())
		}
	}
	var tools api.ToolList
	get(t, c.StateDir, "/v1/tools", &tools)
	if len(tools.Tools) == 0 {
		t.Error("no tools")
	}
	if left, _ := filepath.Glob(filepath.Join(c.StateDir, ".s*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestAStateDirectoryHasOneProcess(t *testing.T) {
	c := settings(t)
	open(t, c)
	if _, err := Open(t.Context(), Options{Config: c}); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("err = %v", err)
	}
}

func TestAPathThatIsTooLongForASocketIsNoError(t *testing.T) {
	c := settings(t)
	c.StateDir = filepath.Join(c.StateDir, strings.Repeat("d", 90))
	n := open(t, c)
	if err := n.ListenLocal(); err != nil {
		t.Fatal(err)
	}
}

func TestANodeThatWasOnlyOpenedExecutesNothing(t *testing.T) {
	c := settings(t)
	n := open(t, c)
	r, _, err := n.engine.Submit(t.Context(), engine.Local(), engine.RunRequest{Prompt: "hello"}, "")
	if err != nil {
		t.Fatal(err)
	}
	events, err := n.store.Events(t.Context(), r.ID, 0, 0)
	if err != nil || len(events) != 1 {
		t.Fatalf("events %v, %v", events, err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := open(t, c)
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, again, r.ID, store.StatusCompleted)
}

// waitFor waits until a run has a status.
func waitFor(t *testing.T, n *Node, runID string, want store.Status) store.Run {
	t.Helper()
	ch, stop, err := n.engine.Watch(t.Context(), engine.Local(), runID)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	deadline := time.After(20 * time.Second)
	for {
		r, err := n.engine.Run(t.Context(), engine.Local(), runID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == want {
			return r
		}
		select {
		case <-ch:
		case <-deadline:
			t.Fatalf("the run is %s, not %s: %s", r.Status, want, r.Error)
		}
	}
}

func TestServeAnswersAndStopsWithTheContext(t *testing.T) {
	for name, env := range map[string][]string{"with keys": nil, "without": {"HARNESS_AUTH_DISABLED=true"}} {
		t.Run(name, func(t *testing.T) {
			c := settings(t, env...)
			var log bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			addr, done := make(chan net.Addr, 1), make(chan error, 1)
			go func() {
				done <- Serve(ctx, Options{Config: c, Logger: slog.New(slog.NewJSONHandler(&log, nil))}, func(a net.Addr) { addr <- a })
			}()
			var a net.Addr
			select {
			case a = <-addr:
			case err := <-done:
				t.Fatal(err)
			}
			res, err := http.Get("http://" + a.String() + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			http.DefaultClient.CloseIdleConnections()
			cancel()
			if err := <-done; err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%d, %v", res.StatusCode, err)
			}
			if hint := strings.Contains(log.String(), "harness keys create"); hint == c.AuthDisabled {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

func TestAStopLeavesARunThatWorksForTheNextStart(t *testing.T) {
	c := settings(t, "HARNESS_AUTH_DISABLED=true")
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Serve(ctx, Options{Config: c}, func(net.Addr) { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	tr := LocalTransport(c.StateDir)
	defer tr.CloseIdleConnections()
	// The first answer hangs for longer than the test may take.
	body := strings.NewReader(`{"prompt":"wait @@[{\"hang\":3600,\"text\":\"never\"}]@@"}`)
	res, err := (&http.Client{Transport: tr}).Post("http://localhost/v1/runs", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var run api.RunAccepted
	if err := json.NewDecoder(res.Body).Decode(&run); err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatalf("%d, %v", res.StatusCode, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	n := open(t, c)
	r, err := n.engine.Run(t.Context(), engine.Local(), run.RunID)
	if err != nil || r.Status.Terminal() {
		t.Fatalf("the run is %s (%s), %v", r.Status, r.Error, err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := n.engine.Cancel(t.Context(), engine.Local(), run.RunID); err != nil {
		t.Fatal(err)
	}
	waitFor(t, n, run.RunID, store.StatusCancelled)
}

func TestServeTellsWhatStandsInItsWay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := settings(t)
	c.Addr = l.Addr().String()
	if err := Serve(t.Context(), Options{Config: c}, nil); err == nil || !strings.Contains(err.Error(), "HARNESS_ADDR") {
		t.Errorf("a taken address: %v", err)
	}
	c.Addr = "127.0.0.1:0"
	open(t, c)
	if err := Serve(t.Context(), Options{Config: c}, nil); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "HARNESS_STATE_DIR") {
		t.Errorf("a taken folder: %v", err)
	}
}

func TestDevModeIsSaidOnEachRun(t *testing.T) {
	n := open(t, settings(t, "HARNESS_DEV=true"))
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, _, err := n.engine.Submit(t.Context(), engine.Local(), engine.RunRequest{Prompt: "hello"}, "")
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, n, r.ID, store.StatusCompleted)
	events, err := n.store.Events(t.Context(), r.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) < 2 || !strings.Contains(string(events[1].Payload), "no sandbox: dev mode") {
		t.Errorf("events: %v", events)
	}
}

func TestModelsAreFoundByNameProviderAndFallback(t *testing.T) {
	c := settings(t)
	c.Provider = ""
	c.Providers = []model.ProviderConfig{
		{Name: "one", BaseURL: "http://127.0.0.1:1/v1", Models: []string{"a"}},
		{Name: "two", Type: model.TypeOpenAICompat, BaseURL: "http://127.0.0.1:2/v1", Models: []string{"b"}},
		{Name: "later", Type: model.TypeBedrock, Models: []string{"c"}},
	}
	m, err := newModels(c)
	if err != nil {
		t.Fatal(err)
	}
	list, err := m.targets("a", "", []string{"two/b"})
	if err != nil || len(list) != 2 || list[0].Provider != "one" || list[1].Provider != "two" || list[1].ModelID != "b" {
		t.Fatalf("targets %+v, %v", list, err)
	}
	if list[0].PricingVersion == "" || list[0].Cost != nil {
		t.Error("a model that the catalogue does not know has no price, and says of which prices that is so")
	}
	for name, tt := range map[string]struct {
		model, provider string
		fallbacks       []string
		want            error
	}{
		"no such model":     {"z", "one", nil, model.ErrUnknownModel},
		"no such provider":  {"a", "none", nil, model.ErrUnknownProvider},
		"no such fallback":  {"a", "", []string{"none"}, model.ErrUnknownProvider},
		"a wire to come":    {"c", "later", nil, model.ErrTypeNotBuilt},
		"no model anywhere": {"", "", nil, nil},
	} {
		err := m.check(tt.model, tt.provider, tt.fallbacks)
		if tt.want == nil && err != nil || !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m, err = newModels(settings(t)); err != nil {
		t.Fatal(err)
	}
	if list, err = m.targets("any/name", "", nil); err != nil || list[0].Cost != nil {
		t.Errorf("the scripted model: %+v, %v", list, err)
	}
}

func TestAPriceFilePricesTheScriptedModelAndMustBeRight(t *testing.T) {
	c := settings(t)
	c.PriceFile = filepath.Join(t.TempDir(), "prices.json")
	if _, err := newModels(c); err == nil {
		t.Error("a missing file was accepted")
	}
	write := func(s string) {
		if err := os.WriteFile(c.PriceFile, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"providers":[{"id":"fake","models":[{"id":"scripted","cost_per_1m_inn":1}]}]}`)
	if _, err := newModels(c); err == nil || !strings.Contains(err.Error(), c.PriceFile) {
		t.Errorf("err = %v", err)
	}
	write(`{"version":"v1","providers":[{"id":"fake","models":[{"id":"scripted","cost_per_1m_in":1,"cost_per_1m_out":2}]}]}`)
	m, err := newModels(c)
	if err != nil {
		t.Fatal(err)
	}
	list, err := m.targets("scripted", "", nil)
	if err != nil || list[0].Cost == nil || !strings.HasSuffix(list[0].PricingVersion, "+v1") {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestToolsThatTheGateWouldRefuseAreHidden(t *testing.T) {
	for name, tt := range map[string]struct {
		allowed, denied []string
		want            bool
	}{
		"bash":            {nil, nil, true},
		"read":            {[]string{"read"}, nil, true},
		"write":           {[]string{"read"}, nil, false},
		"AskUserQuestion": {[]string{"read"}, nil, true},
		"find_tool":       {nil, []string{"find_tool"}, false},
		"edit":            {[]string{"edit"}, []string{"edit"}, false},
	} {
		if got := visible(engine.Plan{AllowedTools: tt.allowed, DeniedTools: tt.denied}, name); got != tt.want {
			t.Errorf("%s with %v, without %v: %v", name, tt.allowed, tt.denied, got)
		}
	}
}

func TestLogLinesAreForPeopleOrForPrograms(t *testing.T) {
	var b bytes.Buffer
	NewLogger(&b, false, "warn").Info("hidden")
	NewLogger(&b, false, "warn").Warn("seen", "key", model.NewSecret("sk-1"))
	if s := b.String(); !strings.HasPrefix(s, "{") || strings.Contains(s, "hidden") || strings.Contains(s, "sk-1") {
		t.Errorf("log: %s", s)
	}
	b.Reset()
	NewLogger(&b, true, "nonsense").Info("seen")
	if !strings.Contains(b.String(), "msg=seen") {
		t.Errorf("log: %s", b.String())
	}
}

// BenchmarkStart measures what a command without a daemon pays: open, start and close a node on an existing store.
func BenchmarkStart(b *testing.B) {
	state := b.TempDir()
	c, err := config.Load(config.Sources{Env: []string{"HARNESS_STATE_DIR=" + state, "HARNESS_PROVIDER=fake"}, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		n, err := Open(b.Context(), Options{Config: c})
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(n.Start(b.Context()), n.Close(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
}
