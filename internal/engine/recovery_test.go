package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// A graceful stop interrupts a running call, and the run goes on after the restart.
func TestAShutdownInTheMiddleOfARunLosesNothing(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"bash","in":{"command":"echo going; sleep 100","timeout_seconds":200}},{"text":"went on"}]`)})
	r.until(run.ID, has(event.ToolOutputDelta))
	r.close()
	r.open()
	all := r.finish(run.ID)
	p := payload[event.ToolCallCompletedPayload](t, all, event.ToolCallCompleted)
	if !p.Interrupted || !strings.Contains(p.Output, "outcome unknown") {
		t.Errorf("%+v", p)
	}
	if got := payload[event.RunCompletedPayload](t, all, event.RunCompleted); got.Output != "went on" {
		t.Errorf("output %q", got.Output)
	}
	if count(all, event.RunRecovered) != 1 {
		t.Errorf("%d × run.recovered", count(all, event.RunRecovered))
	}
}

// blocking is a model whose first call waits until the test lets it go; it says a word first.
type blocking struct {
	mu    sync.Mutex
	calls int
	said  chan struct{}
}

func (b *blocking) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		b.mu.Lock()
		b.calls++
		first := b.calls == 1
		b.mu.Unlock()
		if !yield(model.Part{Kind: model.PartTextDelta, Text: "half "}, nil) {
			return
		}
		if first {
			close(b.said)
			<-ctx.Done()
			yield(model.Part{}, ctx.Err())
			return
		}
		yield(model.Part{Kind: model.PartFinish, Finish: finishStop}, nil)
	}
}

func TestAModelCallThatIsMadeAgainRetractsItsDeltas(t *testing.T) {
	m := &blocking{said: make(chan struct{})}
	r := &rig{t: t, dir: t.TempDir(), workspace: t.TempDir(), me: engine.Local(), model: m}
	r.open()
	t.Cleanup(r.close)
	run := r.submit(engine.RunRequest{Prompt: "go"})
	<-m.said
	r.until(run.ID, has(event.AssistantMessageDelta))
	r.close()
	r.open()
	all := r.finish(run.ID)
	p := payload[event.LLMAttemptDiscardedPayload](t, all, event.LLMAttemptDiscarded)
	if p.Attempt != 1 || all[p.FromSeq-1].Type != event.LLMTurnRequested {
		t.Fatalf("%+v, at from_seq is %s", p, all[p.FromSeq-1].Type)
	}
	// A reader that drops what the discard retracts reads the answer once.
	text, attempt := "", ""
	for _, e := range all {
		var d struct {
			Content string `json:"content"`
			FromSeq int64  `json:"from_seq"`
		}
		_ = json.Unmarshal(e.Payload, &d)
		switch e.Type {
		case event.AssistantMessageDelta:
			attempt += d.Content
		case event.LLMAttemptDiscarded:
			attempt = ""
		case event.AssistantMessage:
			text += d.Content
		}
	}
	if attempt != text {
		t.Errorf("deltas say %q, the message %q", attempt, text)
	}
}

func TestARunThatIsTakenOverWithoutProgressIsGivenUp(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"true"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	r.close()
	// An owner that dies again and again: each start takes the run over and leaves it open.
	open := func() *rigStore { return openStore(t, r.dir) }
	st := open()
	if _, w, err := st.Decide(bg, store.Decision{ApprovalID: onlyApproval(t, st, run.ID), TenantID: "default", Approve: true, DecidedBy: "t"}); err != nil || w.RunID == "" {
		t.Fatal(w, err)
	}
	st.close()
	for range engine.MaxAttempts {
		st := open()
		if runs, err := st.Recover(bg); err != nil || len(runs) != 1 {
			t.Fatal(len(runs), err)
		}
		st.close()
	}
	r.open()
	all := r.finish(run.ID)
	p := payload[event.RunFailedPayload](t, all, event.RunFailed)
	if p.Reason != event.ReasonRecoveryExhausted {
		t.Errorf("%+v", p)
	}
}

func TestBackgroundJobsEndVisiblyWhenTheRunParks(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyNone), Prompt: script(`[{"tool":"bash","in":{"command":"echo up; sleep 1000","run_in_background":true}},{"tool":"AskUserQuestion","in":{"questions":[{"question":"Go?","header":"Go","options":[{"label":"y","description":"x"},{"label":"n","description":"y"}]}]}},{"tool":"job_output","in":{"shell_id":"job_1"}},{"text":"done"}]`)})
	all := r.until(run.ID, has(event.JobCompleted))
	if p := payload[event.JobCompletedPayload](t, all, event.JobCompleted); p.Status != "killed" {
		t.Errorf("%+v", p)
	}
	if _, err := r.engine.Answer(bg, r.me, run.ID, map[string][]string{"Go?": {"y"}}); err != nil {
		t.Fatal(err)
	}
	r.finish(run.ID)
}

func TestACancelledRunReportsTheJobsThatEndWithIt(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"bash","in":{"command":"sleep 1000","run_in_background":true}},{"tool":"bash","in":{"command":"echo going; sleep 1000","timeout_seconds":2000}},{"text":"done"}]`)})
	r.until(run.ID, has(event.ToolOutputDelta))
	if _, err := r.engine.Cancel(bg, r.me, run.ID); err != nil {
		t.Fatal(err)
	}
	all := r.finish(run.ID)
	if p := payload[event.JobCompletedPayload](t, all, event.JobCompleted); p.Status != "killed" {
		t.Errorf("%+v", p)
	}
}

func TestAnotherTenantSeesNothing(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"true"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	id := r.pending(run.ID)[0].ID
	other := engine.Principal{KeyID: "k", TenantID: "other", Scopes: []string{engine.ScopeAdmin}}
	for name, f := range map[string]func() error{
		"run":    func() error { _, err := r.engine.Run(bg, other, run.ID); return err },
		"events": func() error { _, err := r.engine.Events(bg, other, run.ID, 0, 0); return err },
		"watch":  func() error { _, _, err := r.engine.Watch(bg, other, run.ID); return err },
		"cancel": func() error { _, err := r.engine.Cancel(bg, other, run.ID); return err },
		"steer":  func() error { return r.engine.Steer(bg, other, run.ID, "x") },
		"continue": func() error {
			_, err := r.engine.Continue(bg, other, run.ID, engine.ContinueRequest{Prompt: "x"}, "")
			return err
		},
		"decide": func() error { _, err := r.engine.Decide(bg, other, id, engine.Decision{Approve: true}); return err },
		"only": func() error {
			_, err := r.engine.DecideOnly(bg, other, run.ID, engine.Decision{Approve: true})
			return err
		},
		"approval": func() error { _, err := r.engine.Approval(bg, other, id); return err },
		"question": func() error { _, err := r.engine.PendingQuestion(bg, other, run.ID); return err },
		"answer":   func() error { _, err := r.engine.Answer(bg, other, run.ID, nil); return err },
	} {
		var e *engine.Error
		if err := f(); !errors.As(err, &e) || e.Kind != engine.KindNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, _, _ := r.engine.Approvals(bg, other, store.ListOptions{}); len(list) != 0 {
		t.Errorf("the other tenant lists %d approvals", len(list))
	}
}

func TestRequestsAreRefusedByFieldAndCapabilitiesByName(t *testing.T) {
	r := newRig(t, nil)
	conf := func(sandbox, network string) *tool.PermissionConfig {
		return &tool.PermissionConfig{Sandbox: tool.SandboxScope(sandbox), Network: tool.NetworkPolicy(network)}
	}
	for _, c := range []struct {
		name  string
		req   engine.RunRequest
		kind  engine.ErrorKind
		field string
	}{
		{"no prompt", engine.RunRequest{}, engine.KindInvalid, "prompt"},
		{"workspace scope is not built", engine.RunRequest{Prompt: "x", Permissions: conf("workspace", "")}, engine.KindNotBuilt, "permissions.sandbox"},
		{"local scope is not built", engine.RunRequest{Prompt: "x", Permissions: conf("local", "deny")}, engine.KindNotBuilt, "permissions.sandbox"},
		{"unrestricted with deny is a contradiction", engine.RunRequest{Prompt: "x", Permissions: conf("", "deny")}, engine.KindInvalid, "permissions.network"},
		{"unknown scope", engine.RunRequest{Prompt: "x", Permissions: conf("moon", "")}, engine.KindInvalid, "permissions.sandbox"},
		{"other harness", engine.RunRequest{Prompt: "x", Harness: "codex"}, engine.KindNotBuilt, "harness"},
		{"unknown harness", engine.RunRequest{Prompt: "x", Harness: "hal"}, engine.KindInvalid, "harness"},
		{"named agent", engine.RunRequest{Prompt: "x", Agent: "a"}, engine.KindNotBuilt, "agent"},
		{"mcp", engine.RunRequest{Prompt: "x", MCPServers: json.RawMessage(`[]`)}, engine.KindNotBuilt, "mcp_servers"},
		{"relative workspace", engine.RunRequest{Prompt: "x", Workspace: "w"}, engine.KindInvalid, "workspace"},
		{"absent workspace", engine.RunRequest{Prompt: "x", Workspace: "/no/such/folder"}, engine.KindInvalid, "workspace"},
		{"the daemon's own state", engine.RunRequest{Prompt: "x", Workspace: r.dir}, engine.KindInvalid, "workspace"},
		{"another tenant", engine.RunRequest{Prompt: "x", TenantID: "t2"}, engine.KindInvalid, "tenant_id"},
		{"negative steps", engine.RunRequest{Prompt: "x", MaxSteps: -1}, engine.KindInvalid, "max_steps"},
		{"bad deadline", engine.RunRequest{Prompt: "x", ApprovalDeadline: "soon"}, engine.KindInvalid, "approval_deadline"},
		{"bad conversation", engine.RunRequest{Prompt: "x", ConversationID: "a b"}, engine.KindInvalid, "conversation_id"},
	} {
		_, _, err := r.engine.Submit(bg, r.me, c.req, "")
		var e *engine.Error
		if !errors.As(err, &e) || e.Kind != c.kind || e.Field != c.field {
			t.Errorf("%s: %+v", c.name, err)
		}
	}
	weak := engine.Principal{KeyID: "k", TenantID: "default", Scopes: []string{engine.ScopeRunsWrite}}
	var e *engine.Error
	if _, _, err := r.engine.Submit(bg, weak, engine.RunRequest{Prompt: "x"}, ""); !errors.As(err, &e) || e.Kind != engine.KindForbidden {
		t.Errorf("a key without runs:unrestricted: %v", err)
	}
}

func TestARunGoesOnWithoutStepLimit(t *testing.T) {
	r := newRig(t, nil)
	steps := strings.Repeat(`{"tool":"todos","in":{"action":"get"}},`, 20)
	run := r.submit(engine.RunRequest{Prompt: script(`[` + steps + `{"text":"done"}]`)})
	all := r.finish(run.ID)
	if all[len(all)-1].Type != event.RunCompleted || count(all, event.RunStepStarted) != 21 {
		t.Errorf("%s after %d steps", all[len(all)-1].Type, count(all, event.RunStepStarted))
	}
}

func TestARunOverItsStepsFailsAndKeepsItsWork(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{MaxSteps: 2, Prompt: script(`[{"tool":"bash","in":{"command":"echo 1 >> n"}},{"tool":"bash","in":{"command":"echo 2 >> n"}},{"tool":"bash","in":{"command":"echo 3 >> n"}},{"text":"x"}]`)})
	all := r.finish(run.ID)
	p := payload[event.RunFailedPayload](t, all, event.RunFailed)
	if p.Reason != event.ReasonMaxSteps || p.MaxSteps != 2 || r.read("n") != "1\n2\n" {
		t.Errorf("%+v, n=%q", p, r.read("n"))
	}
	next, err := r.engine.Continue(bg, r.me, run.ID, engine.ContinueRequest{Prompt: script(`[{"text":"continued"}]`)}, "")
	if err != nil {
		t.Fatal(err)
	}
	all = r.finish(next.ID)
	if got := payload[event.RunCompletedPayload](t, all, event.RunCompleted); got.Output != "continued" {
		t.Errorf("%+v", got)
	}
}

func TestTheSameRequestTwiceIsOneRun(t *testing.T) {
	r := newRig(t, nil)
	req := engine.RunRequest{Prompt: script(`[{"tool":"bash","in":{"command":"echo x >> f"}},{"text":"done"}]`)}
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			run, _, err := r.engine.Submit(bg, r.me, req, "k1")
			if err != nil {
				t.Error(err)
			}
			ids[i] = run.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("several runs: %v", ids)
		}
	}
	r.finish(ids[0])
	if r.read("f") != "x\n" {
		t.Errorf("f is %q", r.read("f"))
	}
	req.Prompt += "!"
	var e *engine.Error
	if _, _, err := r.engine.Submit(bg, r.me, req, "k1"); !errors.As(err, &e) || e.Kind != engine.KindConflict {
		t.Errorf("%v", err)
	}
}

func TestFiftyScriptedRunsEachPlayTheirOwnScript(t *testing.T) {
	r := newRig(t, nil)
	runs := make([]store.Run, 50)
	for i := range runs {
		runs[i] = r.submit(engine.RunRequest{Prompt: script(fmt.Sprintf(`[{"text":"answer %d"}]`, i))})
	}
	for i, run := range runs {
		all := r.finish(run.ID)
		if got := payload[event.RunCompletedPayload](t, all, event.RunCompleted); got.Output != fmt.Sprintf("answer %d", i) {
			t.Errorf("run %d answered %q", i, got.Output)
		}
	}
}

// BenchmarkRecovery is the start of a daemon that finds 1,000 open runs.
func BenchmarkRecoverAThousandOpenRuns(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		st := openStore(b, dir)
		for i := range 1000 {
			if _, err := st.CreateRun(bg, store.NewRun{ID: fmt.Sprintf("run_%d", i), TenantID: "default", ConversationID: fmt.Sprintf("c_%d", i), Prompt: script(`[{"text":"ok"}]`),
				Request: json.RawMessage(`{"harness":"native","workspace":"/tmp","permissions":{"sandbox":"unrestricted","network":"allow","approval":"none"},"approval_deadline":"72h0m0s"}`), Lease: true}); err != nil {
				b.Fatal(err)
			}
		}
		st.close()
		r := &rig{t: b, dir: dir, workspace: b.TempDir(), me: engine.Local()}
		b.StartTimer()
		start := time.Now()
		r.open()
		for i := range 1000 {
			r.waitEnd(b, fmt.Sprintf("run_%d", i))
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/1000runs")
		b.StopTimer()
		r.close()
		b.StartTimer()
	}
}
