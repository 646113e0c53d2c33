package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/tool"
)

func codeOf(err error) string {
	var e *engine.Error
	errors.As(err, &e)
	if e == nil {
		return ""
	}
	return e.Code + " " + e.Field
}

func TestASummaryTellsWhatARunDid(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tools":[{"tool":"bash","in":{"command":"true"}},{"tool":"read","in":{"path":"none"}}]},{"status":500,"times":1,"tool":"bash","in":{"command":"exit 3"}},{"text":"done","inTok":1000,"cachedTok":250}]`)})
	r.finish(run.ID)
	s, err := r.engine.Summary(bg, r.me, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if s.CallsTotal != 3 || len(s.Calls) != 3 || s.ModelCalls != 4 || s.Discarded != 1 || s.Run.Steps != 3 {
		t.Fatalf("%+v", s)
	}
	if c := s.Calls[0]; c.Tool != "bash" || c.Step != 1 || !c.Done || c.Error != "" {
		t.Errorf("first call %+v", c)
	}
	if c := s.Calls[1]; c.Tool != "read" || c.Error != "not_found" {
		t.Errorf("second call %+v", c)
	}
	if c := s.Calls[2]; c.Step != 2 || c.Error != "exit_status" {
		t.Errorf("third call %+v", c)
	}
}

func TestTheContextOfARunIsReadFromItsTranscript(t *testing.T) {
	r := newRig(t, func(o *engine.Options) { o.ContextWindow = func(string, string) int64 { return 2000 } })
	run := r.submit(engine.RunRequest{Prompt: script(`[{"text":"done","inTok":900,"outTok":100}]`)})
	r.finish(run.ID)
	st, err := r.engine.Context(bg, r.me, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	if st.Messages != 2 || st.Tokens != 1000 || st.Estimated || st.Window != 2000 || st.Pressure != 0.5 {
		t.Errorf("%+v", st)
	}
}

// What somebody writes is there at once, and the session has it; what the session writes is there too.
func TestTodosAreSharedBetweenPeopleAndTheRun(t *testing.T) {
	r := newRig(t, nil)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(
		`[{"tool":"todos","in":{"action":"set","todos":[{"text":"one"},{"text":"two"}]}},{"tool":"bash","in":{"command":"true"}},{"tool":"todos","in":{"action":"get"}},{"text":"done"}]`)})
	approve := func() {
		t.Helper()
		if _, err := r.engine.DecideOnly(bg, r.me, run.ID, engine.Decision{Approve: true}); err != nil {
			t.Fatal(err)
		}
	}
	waits := func(n int) func([]event.Event) bool {
		return func(all []event.Event) bool {
			c := 0
			for _, e := range all {
				if e.Type == event.RunWaitingForApproval {
					c++
				}
			}
			return c >= n
		}
	}
	r.until(run.ID, waits(1))
	approve()
	r.until(run.ID, waits(2))
	if list, err := r.engine.Todos(bg, r.me, run.ID); err != nil || len(list) != 2 || list[1].Text != "two" {
		t.Fatalf("%+v, %v", list, err)
	}
	set, err := r.engine.SetTodos(bg, r.me, run.ID, []event.Todo{{Text: "from a person"}, {ID: "x", Text: "other", Status: "completed"}})
	if err != nil || set[0].ID == "" || set[0].Status != "pending" {
		t.Fatalf("%+v, %v", set, err)
	}
	if list, err := r.engine.Todos(bg, r.me, run.ID); err != nil || len(list) != 2 || list[0].Text != "from a person" {
		t.Fatalf("%+v, %v", list, err)
	}
	r.until(run.ID, waits(2))
	approve()
	r.until(run.ID, waits(3))
	approve()
	all := r.finish(run.ID)
	var got string
	for _, e := range all {
		if e.Type == event.ToolCallCompleted && strings.Contains(string(e.Payload), `"tool":"todos"`) {
			got = string(e.Payload)
		}
	}
	if !strings.Contains(got, "from a person") || strings.Contains(got, "one") {
		t.Errorf("the run read %s", got)
	}
	if list, err := r.engine.Todos(bg, r.me, run.ID); err != nil || len(list) != 2 || list[1].Status != "completed" {
		t.Errorf("after the end: %+v, %v", list, err)
	}
	if _, err := r.engine.SetTodos(bg, r.me, run.ID, nil); codeOf(err) != "run_not_active " {
		t.Errorf("an ended run: %v", err)
	}
}

func TestTodosAreChecked(t *testing.T) {
	r := newRig(t, nil)
	for field, list := range map[string][]event.Todo{
		"todos":           make([]event.Todo, 101),
		"todos[0].text":   {{}},
		"todos[1].status": {{Text: "a"}, {Text: "b", Status: "maybe"}},
		"todos[1].id":     {{ID: "a", Text: "a"}, {ID: "a", Text: "b"}},
		"todos[0].id":     {{ID: strings.Repeat("x", 65), Text: "a"}},
	} {
		if _, err := r.engine.SetTodos(bg, r.me, "none", list); codeOf(err) != "invalid_request "+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestAnActiveRunIsCompactedOnRequest(t *testing.T) {
	r := newRig(t, nil)
	long := strings.Repeat("word ", 4000)
	r.file("long.txt", long)
	run := r.submit(engine.RunRequest{Permissions: asking(tool.ApprovalPolicyDestructive), Prompt: script(
		`[{"tool":"read","in":{"path":"long.txt"}},{"tool":"ls","in":{}},{"tool":"ls","in":{}},{"tool":"bash","in":{"command":"true"}},{"text":"done"}]`)})
	r.until(run.ID, has(event.RunWaitingForApproval))
	for field, req := range map[string]native.CompactRequest{"mode": {Mode: "shred"}, "keep_last": {KeepLast: 1}} {
		if err := r.engine.Compact(bg, r.me, run.ID, req); codeOf(err) != "invalid_request "+field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := r.engine.Compact(bg, r.me, run.ID, native.CompactRequest{Mode: tool.CompactStrip, KeepLast: 2}); err != nil {
		t.Fatal(err)
	}
	r.until(run.ID, has(event.RunWaitingForApproval))
	if _, err := r.engine.DecideOnly(bg, r.me, run.ID, engine.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	all := r.finish(run.ID)
	p := payload[event.CompactHistoryCompletedPayload](t, all, event.CompactHistoryCompleted)
	if p.Mode != string(tool.CompactStrip) || p.OutputsStripped != 1 {
		t.Errorf("%+v", p)
	}
	if err := r.engine.CompactConversation(bg, r.me, run.ConversationID, native.CompactRequest{}); codeOf(err) != "run_not_active " {
		t.Errorf("an ended run: %v", err)
	}
}

// A continued run can begin with a shorter history.
func TestAContinuedRunIsCompactedFirst(t *testing.T) {
	r := newRig(t, nil)
	r.file("long.txt", strings.Repeat("word ", 4000))
	first := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"read","in":{"path":"long.txt"}},{"tool":"ls","in":{}},{"tool":"ls","in":{}},{"text":"done"}]`)})
	r.finish(first.ID)
	if _, err := r.engine.Continue(bg, r.me, first.ID, engine.ContinueRequest{Prompt: "on", Compact: &native.CompactRequest{Mode: "shred"}}, ""); codeOf(err) != "invalid_request compact.mode" {
		t.Errorf("%v", err)
	}
	next, err := r.engine.Continue(bg, r.me, first.ID, engine.ContinueRequest{Prompt: script(`[{"text":"well"}]`), Compact: &native.CompactRequest{Mode: tool.CompactStrip, KeepLast: 2}}, "")
	if err != nil {
		t.Fatal(err)
	}
	all := r.finish(next.ID)
	if p := payload[event.CompactHistoryCompletedPayload](t, all, event.CompactHistoryCompleted); p.OutputsStripped != 1 {
		t.Errorf("%+v", p)
	}
}

// Two tenants may use one conversation id at the same time and share nothing.
func TestTenantsShareNoSession(t *testing.T) {
	r := newRig(t, nil)
	other := engine.Principal{KeyID: "k", TenantID: "other", Scopes: []string{engine.ScopeAdmin}}
	req := engine.RunRequest{ConversationID: "same", Prompt: script(`[{"tool":"todos","in":{"action":"set","todos":[{"text":"mine"}]}},{"text":"done"}]`)}
	mine := r.submit(req)
	theirs, _, err := r.engine.Submit(bg, other, engine.RunRequest{ConversationID: "same", Prompt: script(`[{"tool":"todos","in":{"action":"get"}},{"text":"done"}]`)}, "")
	if err != nil {
		t.Fatal(err)
	}
	r.finish(mine.ID)
	r.me = other
	if got := outputs(r.finish(theirs.ID)); strings.Contains(got, "mine") {
		t.Errorf("the other tenant reads %s", got)
	}
}
