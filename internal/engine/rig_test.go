package engine_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/sandbox/local"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/store/sqlite"
	"github.com/harness-go/harness/tool"
	"github.com/harness-go/harness/tool/builtin"
)

// rig is a node in the test's process: a real store, the real loop and tools, and the scripted model.
type rig struct {
	t         testing.TB
	dir       string
	workspace string
	store     *sqlite.Store
	engine    *engine.Engine
	me        engine.Principal
	change    func(*engine.Options)
	// storeFault is called at the store's fault points.
	storeFault func(point string, kinds []string)
	model      model.Model
	clock      func() time.Time
}

func newRig(t testing.TB, change func(*engine.Options)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), workspace: t.TempDir(), me: engine.Local(), change: change}
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	st, err := sqlite.Open(context.Background(), sqlite.Options{Dir: r.dir, FaultPoint: r.storeFault, Clock: r.clock})
	if err != nil {
		r.t.Fatal(err)
	}
	m := r.model
	if m == nil {
		if m, err = scripted.New(scripted.Options{}); err != nil {
			r.t.Fatal(err)
		}
	}
	tools, err := tool.NewCatalog(builtin.Core()...)
	if err != nil {
		r.t.Fatal(err)
	}
	base, err := native.New(native.Settings{
		Resolve: func(string) ([]native.Target, error) {
			return []native.Target{{Model: m, Provider: "fake", ModelID: "scripted"}}, nil
		},
		Tools: tools, Retry: model.Retry{Base: time.Millisecond, Max: time.Millisecond},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	o := engine.Options{
		Store: st, Dispatcher: engine.NewLocalDispatcher(0, nil), Sandbox: local.NewProvider(local.Options{}),
		Harnesses: map[string]engine.HarnessFactory{"native": func(e engine.SegmentEnv) (harness.Harness, error) {
			return base.With(func(s *native.Settings) {
				s.Transcript, s.Artifacts, s.Activation, s.Inbox, s.Fault = e.Transcript, e.Artifacts, e.Activation, e.Inbox, e.Fault
				s.Memory = e.Memory
				s.Budget = native.Budget{MaxSteps: e.Plan.MaxSteps, MaxTokens: e.Plan.MaxTokensTotal, MaxCostUSD: e.Plan.MaxCostUSD,
					Timeout: time.Duration(e.Plan.TimeoutSeconds) * time.Second}
			}), nil
		}},
		Workspace: r.workspace, StateDir: r.dir,
	}
	if r.change != nil {
		r.change(&o)
	}
	e, err := engine.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.store, r.engine = st, e
}

func (r *rig) close() {
	r.t.Helper()
	if r.engine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.engine.Shutdown(ctx); err != nil {
		r.t.Error(err)
	}
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
	r.engine = nil
}

func (r *rig) file(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.workspace, name), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.workspace, name))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return string(b)
}

func script(steps string) string { return "do it @@" + steps + "@@" }

func (r *rig) submit(req engine.RunRequest) store.Run {
	r.t.Helper()
	run, _, err := r.engine.Submit(context.Background(), r.me, req, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return run
}

// until follows a run's log until want says so, and returns all events so far.
func (r *rig) until(runID string, want func([]event.Event) bool) []event.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ch, stop := r.store.Watch(runID)
	defer stop()
	var all []event.Event
	for {
		after := int64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		page, err := r.store.Events(ctx, runID, after, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, page...)
		if want(all) {
			return all
		}
		if len(page) > 0 {
			continue
		}
		select {
		case <-ch:
		case <-ctx.Done():
			r.t.Fatalf("run %s: what was waited for did not come; log:\n%s", runID, dump(all))
		}
	}
}

func ended(all []event.Event) bool { return len(all) > 0 && all[len(all)-1].Type.Terminal() }

func (r *rig) finish(runID string) []event.Event {
	r.t.Helper()
	all := r.until(runID, ended)
	checkLog(r.t, all)
	return all
}

// checkLog holds what is true of every log: seqs without a gap, one end, no call twice.
func checkLog(t testing.TB, all []event.Event) {
	t.Helper()
	started, completed, terminal := map[string]int{}, map[string]int{}, 0
	for i, e := range all {
		if e.Seq != int64(i+1) {
			t.Errorf("event %d has seq %d", i+1, e.Seq)
		}
		var p struct {
			CallID string `json:"call_id"`
		}
		_ = json.Unmarshal(e.Payload, &p)
		switch {
		case e.Type == event.ToolCallStarted:
			started[p.CallID]++
		case e.Type == event.ToolCallCompleted:
			completed[p.CallID]++
		case e.Type.Terminal():
			terminal++
		}
	}
	for id, n := range started {
		if n != 1 {
			t.Errorf("call %s was started %d times", id, n)
		}
	}
	for id, n := range completed {
		if n != 1 {
			t.Errorf("call %s was completed %d times", id, n)
		}
	}
	if terminal != 1 {
		t.Errorf("%d terminal events", terminal)
	}
	if t.Failed() {
		t.Log(dump(all))
	}
}

func dump(all []event.Event) string {
	var s string
	for _, e := range all {
		s += string(e.AppendJSON(nil)) + "\n"
	}
	return s
}

func has(typ event.Type) func([]event.Event) bool {
	return func(all []event.Event) bool { return count(all, typ) > 0 }
}

func count(all []event.Event, typ event.Type) int {
	n := 0
	for _, e := range all {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func payload[P any](t testing.TB, all []event.Event, typ event.Type) P {
	t.Helper()
	for _, e := range all {
		if e.Type == typ {
			var p P
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Fatalf("no %s in\n%s", typ, dump(all))
	panic("unreachable")
}

var listAll = store.ListOptions{TenantID: engine.DefaultTenant}

var finishStop = ai.FinishReason{Unified: ai.FinishStop}

// rigStore is a store without an engine.
type rigStore struct {
	*sqlite.Store
	t testing.TB
}

func openStore(t testing.TB, dir string) *rigStore {
	t.Helper()
	st, err := sqlite.Open(context.Background(), sqlite.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return &rigStore{st, t}
}

func (s *rigStore) close() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Fatal(err)
	}
}

func onlyApproval(t testing.TB, s *rigStore, runID string) string {
	t.Helper()
	list, err := s.RunApprovals(context.Background(), runID)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0].ID
}
