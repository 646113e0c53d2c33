package harnesstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
)

func textTurn(t *testing.T, f Factory) {
	w := start(t, f, Script{{Text: "one"}, {Text: "two"}}, nil)
	w.wantText(w.prompt(), "one")
	want := []string{"start", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish"}
	if got := slices.Compact(w.types()); !slices.Equal(got, want) {
		t.Errorf("parts %v, want %v", got, want)
	}
	w.wantText(w.prompt(), "two")
}

func plainTurn(t *testing.T, f Factory) {
	w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Read}}}, {Text: "done"}}, nil, plain)
	w.wantText(w.prompt(), "done")
	if out := w.wantResults("c1"); !contains(out, 0, ReadContent) {
		t.Errorf("the model read %q", out)
	}
}

func callTurn(t *testing.T, f Factory) {
	w := start(t, f, Script{{Text: "I look.", Calls: []Use{{ID: "c1", Tool: Read}}}, {Calls: []Use{{ID: "c2", Tool: Write}}}, {Text: "done"}}, nil)
	r := w.prompt()
	w.wantText(r, "done")
	w.wantWrites(1)
	if out := w.wantResults("c1", "c2"); !contains(out, 0, ReadContent) {
		t.Errorf("the model read %q", out)
	}
	if len(r.Steps) != 3 || w.count("tool-call") != 2 || w.count("tool-result") != 2 {
		t.Errorf("%d steps, parts %v", len(r.Steps), w.types())
	}
	for i, id := range []string{"c1", "c2"} {
		if calls := r.Steps[i].ToolCalls(); len(calls) != 1 || calls[0].ToolCallID != id || calls[0].Invalid {
			t.Errorf("step %d has the calls %+v", i, calls)
		}
	}
}

func hostTurn(t *testing.T, f Factory) {
	w := start(t, f, Script{{Calls: []Use{{ID: "c1", Host: "echo", Input: `{"say":"hello"}`}, {ID: "c2", Host: "echo", Input: `{"say":7}`}}}, {Text: "done"}}, nil,
		func(s *harness.AgentSettings) {
			s.UserTools = map[string]ai.Tool{"echo": {
				Description: "Says it back", InputSchema: json.RawMessage(`{"type":"object","properties":{"say":{"type":"string"}},"required":["say"],"additionalProperties":false}`),
				Execute: func(_ context.Context, in json.RawMessage, _ ai.ToolExecutionOptions) (any, error) {
					return "echo of " + string(in), nil
				}}}
		})
	w.wantText(w.prompt(), "done")
	out := w.wantResults("c1", "c2")
	if !strings.Contains(out[0], "echo of") || strings.Contains(out[1], "echo of") {
		t.Errorf("the model read %q", out)
	}
}

// continued runs a test in the process that paused, and in another one.
func continued(t *testing.T, test func(t *testing.T, move func(w *world))) {
	t.Run("same process", func(t *testing.T) { test(t, func(*world) {}) })
	t.Run("another process", func(t *testing.T) { test(t, func(w *world) { w.elsewhere(w.suspend()) }) })
	t.Run("nested in a resumed session", func(t *testing.T) {
		test(t, func(w *world) {
			s, err := w.session.Stop(w.ctx)
			if err != nil {
				t.Fatal(err)
			}
			w.elsewhere(s)
		})
	})
}

func approvedTurn(t *testing.T, f Factory) {
	continued(t, func(t *testing.T, move func(*world)) {
		w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Write}}}, {Text: "done"}}, []Tool{Write})
		r := w.prompt()
		w.wantState(harness.TurnStateAwaitingApproval)
		if r.FinishReason.Unified != ai.FinishToolCalls || len(r.ToolApprovalRequests()) != 1 {
			t.Errorf("the pause says %s with %d requests", r.FinishReason.Unified, len(r.ToolApprovalRequests()))
		}
		w.wantWrites(0)
		move(w)
		w.wantState(harness.TurnStateAwaitingApproval)
		r = w.decide(w.wantPending("c1")[0], true, "fine")
		w.wantText(r, "done")
		w.wantWrites(1)
		w.wantResults("c1")
		if w.count("tool-result") != 1 || w.count("tool-call") != 0 || w.count("tool-approval-response") != 1 {
			t.Errorf("the continuation's parts are %v", w.types())
		}
	})
}

func deniedTurn(t *testing.T, f Factory) {
	continued(t, func(t *testing.T, move func(*world)) {
		w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Write}}}, {Text: "done"}}, []Tool{Write})
		w.prompt()
		move(w)
		w.wantText(w.decide(w.wantPending("c1")[0], false, "not on a Friday"), "done")
		w.wantWrites(0)
		if out := w.wantResults("c1"); !contains(out, 0, "not on a Friday") {
			t.Errorf("the model read %q", out)
		}
	})
}

func modeTurn(t *testing.T, f Factory) {
	continued(t, func(t *testing.T, move func(*world)) {
		w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Read}}}, {Calls: []Use{{ID: "c2", Tool: Write}}}, {Text: "done"}}, nil, plain,
			func(s *harness.AgentSettings) { s.PermissionMode = harness.PermissionModeAllowReads })
		w.prompt()
		w.wantWrites(0)
		move(w)
		w.wantText(w.decide(w.wantPending("c2")[0], true, ""), "done")
		w.wantWrites(1)
		w.wantResults("c1", "c2")
	})
}

func twoAsks(t *testing.T, f Factory) {
	for _, first := range []int{0, 1} {
		t.Run(fmt.Sprintf("number %d first", first+1), func(t *testing.T) {
			continued(t, func(t *testing.T, move func(*world)) {
				w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Write}, {ID: "c2", Tool: Write}}}, {Text: "done"}}, []Tool{Write})
				w.prompt()
				both := w.wantPending("c1", "c2")
				move(w)
				w.decide(both[first], true, "")
				w.wantState(harness.TurnStateAwaitingApproval)
				w.wantWrites(1)
				left := w.wantPending(both[1-first].ToolCallID)
				move(w)
				w.wantText(w.decide(left[0], true, ""), "done")
				w.wantWrites(2)
				w.wantResults("c1", "c2")
			})
		})
	}
}

func mixedCalls(t *testing.T, f Factory) {
	continued(t, func(t *testing.T, move func(*world)) {
		w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Write}, {ID: "c2", Tool: Read}}}, {Text: "done"}}, []Tool{Write})
		w.prompt()
		w.wantWrites(0)
		move(w)
		w.wantText(w.decide(w.wantPending("c1")[0], true, ""), "done")
		w.wantWrites(1)
		if out := w.wantResults("c1", "c2"); !contains(out, 1, ReadContent) {
			t.Errorf("the model read %q", out)
		}
	})
}

func questionTurn(t *testing.T, f Factory) {
	continued(t, func(t *testing.T, move func(*world)) {
		w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Question}}}, {Text: "done"}}, nil)
		w.prompt()
		w.wantState(harness.TurnStateAwaitingResult)
		move(w)
		_, waiting := w.session.Pending()
		if len(waiting) != 1 || waiting[0].ToolCallID != "c1" || waiting[0].ToolName != string(harness.BuiltinToolAskUserQuestions) {
			t.Fatalf("results are wanted of %+v", waiting)
		}
		in, err := harness.ParseQuestionsToolInput([]byte(waiting[0].Input))
		if err != nil {
			t.Fatal(err)
		}
		q := in.Questions[0]
		at := slices.IndexFunc(q.Options, func(o harness.QuestionOption) bool { return strings.Contains(o.ID+o.Label, "coffee") })
		if at < 0 {
			t.Fatalf("the question is %+v", q)
		}
		answer, err := json.Marshal(harness.QuestionsToolOutput{Action: harness.QuestionsActionAnswered,
			Answers: map[string]harness.QuestionAnswer{q.ID: {OptionIDs: []string{q.Options[at].ID}}}})
		if err != nil {
			t.Fatal(err)
		}
		r := w.goOn(nil, []ai.ToolResultContent{{ToolCallID: "c1", ToolName: waiting[0].ToolName, Output: ai.ToolResultOutput{Type: ai.OutputJSON, Value: answer}}})
		w.wantText(r, "done")
		if out := w.wantResults("c1"); !contains(out, 0, "coffee") {
			t.Errorf("the model read %q", out)
		}
		asked := 0
		for _, fact := range w.journal.all() {
			if fact.Type() == event.RunWaitingForUser {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("the question was recorded %d times", asked)
		}
	})
}

func abortTurn(t *testing.T, f Factory) {
	w := start(t, f, Script{{Hang: true, Text: "one"}, {Text: "two"}}, nil)
	ctx, cancel := context.WithCancelCause(w.ctx)
	_, err := w.during(ctx, func() { cancel(errUser) })
	if !errors.Is(err, errUser) || w.count("abort") != 1 || w.count("error") != 0 {
		t.Errorf("error %v, parts %v", err, w.types())
	}
	w.wantState(harness.TurnStateIdle)
	w.wantText(w.prompt(), "one")
}

func failedTurn(t *testing.T, f Factory) {
	w := start(t, f, Script{{Fail: "no more credit"}, {Text: "two"}}, nil)
	_, err := w.try(w.ctx)
	if err == nil || !strings.Contains(err.Error(), "no more credit") || w.count("error") != 1 || w.types()[len(w.parts)-1] != "error" {
		t.Errorf("error %v, parts %v", err, w.types())
	}
	w.wantState(harness.TurnStateIdle)
	w.wantText(w.prompt(), "two")
}

func suspendTurn(t *testing.T, f Factory) {
	w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Write}}}, {Hang: true, Text: "done"}}, nil)
	var state *harness.ContinueTurnState
	r, err := w.during(w.ctx, func() { state = w.suspend() })
	if err != nil || r.FinishReason.Unified != ai.FinishOther {
		t.Fatalf("the suspended turn gave %+v, %v", r, err)
	}
	w.elsewhere(state)
	w.wantState(harness.TurnStateSuspended)
	w.wantText(w.goOn(nil, nil), "done")
	w.wantWrites(1)
	w.wantResults("c1")
}

func stopSession(t *testing.T, f Factory) {
	for name, end := range map[string]func(*world) (*harness.ResumeSessionState, error){
		"stop":   func(w *world) (*harness.ResumeSessionState, error) { return w.session.Stop(w.ctx) },
		"detach": func(w *world) (*harness.ResumeSessionState, error) { return w.session.Detach(w.ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Read}}}, {Text: "one"}, {Text: "two"}}, nil)
			w.wantText(w.prompt(), "one")
			s, err := end(w)
			if err != nil {
				t.Fatal(err)
			}
			w.elsewhere(s)
			w.wantState(harness.TurnStateIdle)
			w.wantText(w.prompt(), "two")
			w.wantResults("c1")
		})
	}
}

func killedProcess(t *testing.T, f Factory) {
	w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Write}}}, {Hang: true, Text: "done"}}, nil)
	dead := w.session
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = w.agent.Generate(w.ctx, agent.AgentGenerateOptions{HarnessSession: dead, Prompt: "go"})
	}()
	t.Cleanup(func() {
		_ = dead.Destroy(context.Background())
		<-ended
	})
	w.waitHanging()
	w.mu.Lock()
	n := len(w.checkpoints)
	if n < 2 {
		w.mu.Unlock()
		t.Fatalf("%d checkpoints before the second step", n)
	}
	last := w.checkpoints[n-1]
	w.mu.Unlock()
	w.elsewhere(last)
	w.wantText(w.goOn(nil, nil), "done")
	w.wantWrites(1)
	w.wantResults("c1")
}

func factsInOrder(t *testing.T, f Factory) {
	w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Read}, {ID: "c2", Tool: Write}}}, {Text: "done"}}, nil)
	w.wantText(w.prompt(), "done")
	at := map[string]int{}
	var order []string
	for i, fact := range w.journal.all() {
		name := fmt.Sprintf("%s %d", fact.Type(), fact.Step)
		switch p := fact.Payload.(type) {
		case event.ToolCallStartedPayload:
			name = "started " + p.CallID
		case event.ToolCallCompletedPayload:
			name = "completed " + p.CallID
		case event.AssistantMessagePayload:
			name = "said " + p.Content
		}
		if _, twice := at[name]; twice && !strings.Contains(name, "delta") {
			t.Errorf("%s is reported twice", name)
		}
		at[name] = i
		order = append(order, name)
	}
	for _, pair := range [][2]string{
		{"run.step.started 1", "started c1"}, {"run.step.started 1", "started c2"},
		{"started c1", "completed c1"}, {"started c2", "completed c2"},
		{"completed c1", "run.step.completed 1"}, {"completed c2", "run.step.completed 1"},
		{"run.step.completed 1", "run.step.started 2"}, {"run.step.started 2", "said done"}, {"said done", "run.step.completed 2"},
	} {
		a, ok := at[pair[0]]
		b, ok2 := at[pair[1]]
		if !ok || !ok2 || a >= b {
			t.Errorf("%q is not before %q in %q", pair[0], pair[1], order)
		}
	}
}

// A compaction is made or refused as a capability that the adapter does not have; the session goes on either way.
func compactedSession(t *testing.T, f Factory) {
	w := start(t, f, Script{{Calls: []Use{{ID: "c1", Tool: Read}}}, {Text: "one"}, {Text: "two"}}, nil)
	w.wantText(w.prompt(), "one")
	var none *harness.CapabilityUnsupportedError
	if err := w.session.Compact(w.ctx, "keep the numbers"); err != nil && !errors.As(err, &none) {
		t.Fatal(err)
	}
	w.wantText(w.prompt(), "two")
	w.wantResults("c1")
}
