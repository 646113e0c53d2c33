package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

var bg = context.Background()

func TestARunWithoutToolsCompletes(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Prompt: script(`[{"text":"hello there"}]`)})
	all := r.finish(run.ID)
	p := payload[event.RunCompletedPayload](t, all, event.RunCompleted)
	if p.Output != "hello there" {
		t.Errorf("output %q", p.Output)
	}
	got, err := r.engine.Run(bg, r.me, run.ID)
	if err != nil || got.Status != store.StatusCompleted || got.Output != "hello there" || got.Head != int64(len(all)) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAStepWithCallsRunsThemAndGoesOn(t *testing.T) {
	r := newRig(t, nil)
	r.file("a.txt", "one\n")
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tools":[{"tool":"read","in":{"path":"a.txt"}},{"tool":"write","in":{"path":"b.txt","content":"two\n"}}]},{"tool":"bash","in":{"command":"cat a.txt b.txt"}},{"text":"done"}]`)})
	all := r.finish(run.ID)
	if r.read("b.txt") != "two\n" {
		t.Errorf("b.txt is %q", r.read("b.txt"))
	}
	if n := count(all, event.ToolCallCompleted); n != 3 {
		t.Errorf("%d calls completed", n)
	}
	if s, c := count(all, event.RunStepStarted), count(all, event.RunStepCompleted); s != 3 || c != 3 {
		t.Errorf("%d steps started, %d completed\n%s", s, c, dump(all))
	}
}

func TestTwoCallsThatNeedApprovalCanBeDecidedInAnyOrder(t *testing.T) {
	r := newRig(t, nil)
	r.file("f", "x")
	perms := tool.DefaultPermissionConfig()
	perms.Approval = tool.ApprovalPolicyDestructive
	run := r.submit(engine.RunRequest{Permissions: &perms, Prompt: script(`[{"tools":[
		{"tool":"write","in":{"path":"one","content":"1"}},{"tool":"read","in":{"path":"f"}},{"tool":"write","in":{"path":"two","content":"2"}}]},{"text":"done"}]`)})
	all := r.until(run.ID, has(event.RunWaitingForApproval))
	if count(all, event.ToolApprovalRequired) != 2 || count(all, event.ToolCallCompleted) != 1 {
		t.Fatalf("the read must be done while both writes wait\n%s", dump(all))
	}
	list, _, err := r.engine.Approvals(bg, r.me, store.ListOptions{Status: "pending"})
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	var several *engine.Error
	if _, err := r.engine.DecideOnly(bg, r.me, run.ID, engine.Decision{Approve: true}); !errors.As(err, &several) || several.Code != "several_pending_approvals" {
		t.Errorf("%v", err)
	}
	by := map[string]event.Approval{}
	for _, a := range list {
		by[a.Arguments] = a
	}
	var second, first event.Approval
	for args, a := range by {
		if strings.Contains(args, "two") {
			second = a
		} else {
			first = a
		}
	}
	if _, err := r.engine.Decide(bg, r.me, second.ID, engine.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	r.until(run.ID, func(all []event.Event) bool { return count(all, event.RunWaitingForApproval) == 2 })
	if r.read("two") != "2" || r.read("one") != "" {
		t.Fatalf("one=%q two=%q: only the approved call may have run", r.read("one"), r.read("two"))
	}
	if _, err := r.engine.Decide(bg, r.me, first.ID, engine.Decision{Approve: false, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	r.finish(run.ID)
	if r.read("one") != "" {
		t.Error("a denied call ran")
	}
	if got, _ := r.engine.Run(bg, r.me, run.ID); got.Status != store.StatusCompleted {
		t.Errorf("status %s: a denial must not fail the run (%s)", got.Status, got.Error)
	}
}

func TestAQuestionWaitsForItsAnswer(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"AskUserQuestion","in":{"questions":[{"question":"Which?","header":"Pick","options":[{"label":"a, b","description":"x"},{"label":"c","description":"y"}],"multiSelect":true}]}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForUser))
	q, err := r.engine.PendingQuestion(bg, r.me, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.engine.Answer(bg, r.me, run.ID, map[string][]string{"Which?": {"a, b", "my own"}}); err != nil {
		t.Fatal(err)
	}
	all := r.finish(run.ID)
	if p := payload[event.RunResumedPayload](t, all, event.RunResumed); p.CallID != q.CallID {
		t.Errorf("%+v", p)
	}
	items, _ := r.store.Transcript(bg, "default", run.ConversationID, 0, 0)
	found := false
	for _, it := range items {
		found = found || strings.Contains(string(it.Data), `a, b`) && strings.Contains(string(it.Data), `my own`) && it.Kind == "result"
	}
	if !found {
		t.Error("the two values did not reach the model as two values")
	}
}

func TestACancelledRunEndsWithItsProcesses(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"bash","in":{"command":"echo going; sleep 100","timeout_seconds":200}},{"text":"done"}]`)})
	r.until(run.ID, has(event.ToolOutputDelta))
	if _, err := r.engine.Cancel(bg, r.me, run.ID); err != nil {
		t.Fatal(err)
	}
	all := r.finish(run.ID)
	if all[len(all)-1].Type != event.RunCancelled {
		t.Errorf("ended with %s", all[len(all)-1].Type)
	}
	if p := payload[event.ToolCallCompletedPayload](t, all, event.ToolCallCompleted); !p.Interrupted {
		t.Errorf("the call's record: %+v", p)
	}
}

func TestRunsOfOneConversationFollowEachOther(t *testing.T) {
	r := newRig(t, nil)
	a := r.submit(engine.RunRequest{ConversationID: "c1", Prompt: script(`[{"tool":"bash","in":{"command":"echo a >> log"}},{"text":"A"}]`)})
	b := r.submit(engine.RunRequest{ConversationID: "c1", Prompt: script(`[{"tool":"bash","in":{"command":"echo b >> log"}},{"text":"B"}]`)})
	r.finish(a.ID)
	all := r.finish(b.ID)
	if r.read("log") != "a\nb\n" {
		t.Errorf("log %q", r.read("log"))
	}
	if p := payload[event.ConversationContinuedPayload](t, all, event.ConversationContinued); p.PriorMessageCount == 0 {
		t.Error("the second run does not know the first")
	}
}
