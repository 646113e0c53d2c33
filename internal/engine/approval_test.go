package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

func asking(p tool.ApprovalPolicy) *tool.PermissionConfig {
	c := tool.DefaultPermissionConfig()
	c.Approval = p
	return &c
}

func (r *rig) pending(runID string) []event.Approval {
	r.t.Helper()
	list, _, err := r.engine.Approvals(bg, r.me, store.ListOptions{Status: "pending", RunID: runID})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// A restart in the middle of a wait loses nothing: the same approval is pending, and the call runs once.
func TestAnApprovalSurvivesARestart(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyDestructive), Prompt: script(`[{"tool":"bash","in":{"command":"echo ran >> ok"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	before := r.pending(run.ID)
	r.close()
	r.open()
	after := r.pending(run.ID)
	if len(before) != 1 || len(after) != 1 || before[0].ID != after[0].ID || !before[0].ExpiresAt.Equal(after[0].ExpiresAt) {
		t.Fatalf("before %+v, after %+v", before, after)
	}
	if _, err := r.engine.DecideOnly(bg, r.me, run.ID, engine.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	all := r.finish(run.ID)
	if r.read("ok") != "ran\n" {
		t.Errorf("the command ran %d times", strings.Count(r.read("ok"), "ran"))
	}
	p := payload[event.ToolApprovalRequiredPayload](t, all, event.ToolApprovalRequired)
	if !p.DeadlineAt.Equal(before[0].ExpiresAt) || p.Digest != before[0].Digest || p.Arguments != before[0].Arguments {
		t.Errorf("the event and the row differ:\n%+v\n%+v", p, before[0])
	}
}

func TestAToolDoesNotRunBeforeItsApproval(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"echo x >> n"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	if r.read("n") != "" {
		t.Fatal("the command ran before it was approved")
	}
	if _, err := r.engine.DecideOnly(bg, r.me, run.ID, engine.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	r.finish(run.ID)
	if r.read("n") != "x\n" {
		t.Errorf("n is %q", r.read("n"))
	}
}

func TestAHundredConcurrentApprovalsRunTheCallOnce(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"echo $$ >> pids"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	id := r.pending(run.ID)[0].ID
	var wg sync.WaitGroup
	var ok, conflicts atomic.Int32
	for i := range 100 {
		wg.Go(func() {
			_, err := r.engine.Decide(bg, r.me, id, engine.Decision{Approve: i%2 == 0})
			var e *engine.Error
			switch {
			case err == nil:
				ok.Add(1)
			case errors.As(err, &e) && e.Kind == engine.KindConflict:
				conflicts.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all := r.finish(run.ID)
	if n := count(all, event.ToolApprovalGranted) + count(all, event.ToolApprovalDenied); n != 1 {
		t.Errorf("%d decisions in the log", n)
	}
	if ok.Load() != 50 || conflicts.Load() != 50 {
		t.Errorf("%d equal answers, %d conflicts", ok.Load(), conflicts.Load())
	}
	if n := strings.Count(r.read("pids"), "\n"); n != count(all, event.ToolApprovalGranted) {
		t.Errorf("the command ran %d times", n)
	}
}

func TestALateAnswerDoesNotHitTheNextCall(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"echo 1 >> n"}},{"tool":"bash","in":{"command":"echo 2 >> n"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	first := r.pending(run.ID)[0]
	if _, err := r.engine.Decide(bg, r.me, first.ID, engine.Decision{Approve: false, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	r.until(run.ID, func(all []event.Event) bool { return count(all, event.RunWaitingForApproval) == 2 })
	var e *engine.Error
	if _, err := r.engine.Decide(bg, r.me, first.ID, engine.Decision{Approve: true}); !errors.As(err, &e) || e.Code != "approval_conflict" {
		t.Errorf("%v", err)
	}
	if p := r.pending(run.ID); len(p) != 1 || p[0].ID == first.ID {
		t.Fatalf("%+v", p)
	}
	if _, err := r.engine.DecideOnly(bg, r.me, run.ID, engine.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	r.finish(run.ID)
	if r.read("n") != "2\n" {
		t.Errorf("n is %q", r.read("n"))
	}
}

// clock is a clock that a test moves.
type clock struct{ off atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.off.Load())) }
func (c *clock) advance(d time.Duration) { c.off.Add(int64(d)) }

func TestAnApprovalThatNobodyAnswersExpiresAsADenial(t *testing.T) {
	c := &clock{}
	r := &rig{t: t, dir: t.TempDir(), workspace: t.TempDir(), me: engine.Local(), clock: c.now}
	r.change = func(o *engine.Options) { o.Now = c.now }
	r.open()
	t.Cleanup(r.close)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), ApprovalDeadline: "1h", Prompt: script(`[{"tool":"bash","in":{"command":"echo ran > n"}},{"text":"went on"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	c.advance(2 * time.Hour)
	r.close() // a restart finds what is due; so does the sweeper when its time comes
	r.open()
	all := r.finish(run.ID)
	p := payload[event.ToolApprovalDeniedPayload](t, all, event.ToolApprovalDenied)
	if p.Status != "expired" || r.read("n") != "" {
		t.Errorf("%+v, n=%q", p, r.read("n"))
	}
	if got := payload[event.RunCompletedPayload](t, all, event.RunCompleted); got.Output != "went on" {
		t.Errorf("output %q", got.Output)
	}
	if got := payload[event.ToolCallBlockedPayload](t, all, event.ToolCallBlocked); !strings.Contains(got.Reason, "deadline") {
		t.Errorf("the model reads %q", got.Reason)
	}
}

func TestAQuestionThatNobodyAnswersGivesATimeoutAndTheRunGoesOn(t *testing.T) {
	c := &clock{}
	r := &rig{t: t, dir: t.TempDir(), workspace: t.TempDir(), me: engine.Local(), clock: c.now}
	r.change = func(o *engine.Options) { o.Now = c.now }
	r.open()
	t.Cleanup(r.close)
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"AskUserQuestion","in":{"questions":[{"question":"Which?","header":"Pick","options":[{"label":"a","description":"x"},{"label":"b","description":"y"}]}]}},{"text":"went on"}]`)})
	r.until(run.ID, has(event.RunWaitingForUser))
	c.advance(25 * time.Hour)
	r.close()
	r.open()
	all := r.finish(run.ID)
	if p := payload[event.RunResumedPayload](t, all, event.RunResumed); !p.TimedOut {
		t.Errorf("%+v", p)
	}
	if got := payload[event.RunCompletedPayload](t, all, event.RunCompleted); got.Output != "went on" {
		t.Errorf("output %q", got.Output)
	}
}

func TestManyRunsWaitAndAreListedWithAllThatADecisionNeeds(t *testing.T) {
	r := newRig(t, nil)
	for i := range 3 {
		run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(fmt.Sprintf(`[{"tool":"bash","in":{"command":"echo %d"}},{"text":"done"}]`, i))})
		r.until(run.ID, has(event.RunWaitingForApproval))
	}
	list := r.pending("")
	if len(list) != 3 {
		t.Fatalf("%d pending", len(list))
	}
	for _, a := range list {
		if a.RunID == "" || a.CallID == "" || a.Tool != "bash" || !strings.Contains(a.Arguments, "echo") || a.Why == "" || a.Digest == "" || a.RequestedAt.IsZero() || a.ExpiresAt.IsZero() || a.Cwd == "" {
			t.Errorf("%+v", a)
		}
	}
}

func TestSteeringReachesARunThatWaits(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"true"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	if err := r.engine.Steer(bg, r.me, run.ID, "also look at the tests"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.engine.DecideOnly(bg, r.me, run.ID, engine.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	all := r.finish(run.ID)
	if p := payload[event.SteeringReceivedPayload](t, all, event.SteeringReceived); p.Message != "also look at the tests" {
		t.Errorf("%+v", p)
	}
	if n := count(all, event.SteeringReceived); n != 1 {
		t.Errorf("the message was delivered %d times", n)
	}
}

func TestACancelledWaitWithdrawsItsApprovals(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"echo x > n"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	id := r.pending(run.ID)[0].ID
	if _, err := r.engine.Cancel(bg, r.me, run.ID); err != nil {
		t.Fatal(err)
	}
	all := r.finish(run.ID)
	if all[len(all)-1].Type != event.RunCancelled {
		t.Errorf("ended with %s", all[len(all)-1].Type)
	}
	a, err := r.engine.Approval(bg, r.me, id)
	if err != nil || a.Status != event.ApprovalWithdrawn {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := r.engine.Decide(bg, r.me, id, engine.Decision{Approve: true}); err == nil {
		t.Error("a withdrawn approval was granted")
	}
}

func TestASessionGrantIsNotAskedAgainForTheEqualCall(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"echo x >> n"}},{"tool":"bash","in":{"command":"echo x >> n"}},{"tool":"bash","in":{"command":"echo y >> n"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	if _, err := r.engine.DecideOnly(bg, r.me, run.ID, engine.Decision{Approve: true, Scope: event.ScopeSession}); err != nil {
		t.Fatal(err)
	}
	r.until(run.ID, func(all []event.Event) bool { return count(all, event.RunWaitingForApproval) == 2 })
	if r.read("n") != "x\nx\n" {
		t.Errorf("n is %q: the equal call must run, the other must wait", r.read("n"))
	}
}
