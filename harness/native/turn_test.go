package native_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
)

func TestATextTurnAnswers(t *testing.T) {
	r := newRig(t, nil, say("hello"), say("again"))
	res := r.prompt("hi")
	r.wantText(res, "hello")
	if *res.TotalUsage.InputTokens.Total != 10 || len(res.Steps) != 1 {
		t.Errorf("usage %+v in %d steps", res.TotalUsage, len(res.Steps))
	}
	r.wantText(r.prompt("more"), "again")
	var said []string
	for _, m := range r.model.request(1).Messages {
		said = append(said, string(m.Role)+": "+m.Text())
	}
	if want := []string{"user: hi", "assistant: hello", "user: more"}; !slices.Equal(said, want) {
		t.Errorf("the model reads %q, want %q", said, want)
	}
	if c := of[event.ConversationContinuedPayload](r.journal); len(c) != 1 || c[0].PriorMessageCount != 2 {
		t.Errorf("conversation.continued %+v", c)
	}
}

// A model that sends whole items alone is understood too.
func TestAnswersWithoutDeltasAreShown(t *testing.T) {
	r := newRig(t, nil, parts(
		model.Part{Kind: model.PartContent, Content: ai.ReasoningPart{Text: "hm"}},
		model.Part{Kind: model.PartContent, Content: ai.TextPart{Text: "one "}},
		model.Part{Kind: model.PartContent, Content: ai.TextPart{Text: "two"}}, finish(ai.FinishStop, usage(1, 1))))
	r.wantText(r.prompt("hi"), "one two")
	if d := of[event.AssistantMessageDeltaPayload](r.journal); len(d) != 2 {
		t.Errorf("deltas %+v", d)
	}
}

// The facts of a full turn, in their order, with their steps.
func TestFactsOfATurnInOrder(t *testing.T) {
	r := newRig(t, nil,
		parts(append(append([]model.Part{
			{Kind: model.PartReasoningDelta, Text: "first I look"}, {Kind: model.PartContent, Content: ai.ReasoningPart{Text: "first I look"}},
		}, textParts("Looking.")...), append(callParts(use{"c1", "read", `{"path":"a.txt"}`}, use{"c2", "bogus", `{}`}), finish(ai.FinishToolCalls, usage(10, 1)))...)...),
		call(use{"c3", "write", `{"path":"b.txt","content":"b"}`}),
		say("done"))
	r.write("a.txt", "a\n")
	r.wantText(r.prompt("hi"), "done")
	var got []string
	for _, f := range r.journal.all() {
		got = append(got, fmt.Sprintf("%d %s", f.Step, f.Type()))
	}
	want := []string{
		"1 run.step.started", "1 provider.resolved", "1 llm.turn.requested",
		"1 assistant.thinking.delta", "1 assistant.message.delta", "1 tool.call.delta", "1 tool.call.delta",
		"1 reasoning.complete", "1 assistant.message", "1 usage.delta", "1 llm.turn.completed",
		"1 tool.call.started", "1 tool.call.completed", "1 tool.call.blocked",
		"1 run.step.completed", "2 run.step.started", "2 llm.turn.requested",
		"2 tool.call.delta", "2 usage.delta", "2 llm.turn.completed", "2 tool.call.started", "2 tool.call.completed",
		"2 run.step.completed", "3 run.step.started", "3 llm.turn.requested",
		"3 assistant.message.delta", "3 assistant.message", "3 usage.delta", "3 llm.turn.completed", "3 run.step.completed",
	}
	// A refused call does not wait for the one that runs.
	at := slices.Index(got, "1 tool.call.blocked")
	if at < 0 {
		t.Fatalf("no refusal in %q", got)
	}
	got = slices.Insert(slices.Delete(got, at, at+1), 13, "1 tool.call.blocked")
	if !slices.Equal(got, want) {
		t.Errorf("facts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Readonly calls run side by side, never more than the bound, and the model reads their results in the order of the
// calls.
func TestReadonlyCallsRunSideBySideWithinTheBound(t *testing.T) {
	const calls, bound = 200, 5
	var mu sync.Mutex
	running, most := 0, 0
	full := make(chan struct{})
	var order []string
	body := func(ctx context.Context, env tool.Env, _ json.RawMessage) (tool.Result, error) {
		mu.Lock()
		running++
		most = max(most, running)
		if running == bound {
			select {
			case <-full:
			default:
				close(full) // so many are needed at once for any to go on
			}
		}
		mu.Unlock()
		<-full
		mu.Lock()
		defer mu.Unlock()
		running--
		order = append(order, env.CallID)
		return tool.Result{Output: "result of " + env.CallID}, nil
	}
	var uses []use
	var want []string
	for i := range calls {
		id := fmt.Sprintf("c%d", i)
		uses, want = append(uses, use{id, "look", args(`{"n":%d}`, i)}), append(want, id)
	}
	r := newRig(t, func(r *rig) {
		r.set.MaxParallel = bound
		withTools(r, testTool(t, "look", tool.KindReadonly, func(d *tool.Definition) { d.Parallel = true }, body))
	}, call(uses...), say("done"))
	r.wantText(r.prompt("hi"), "done")
	ids, outputs := r.model.results(1)
	if !slices.Equal(ids, want) {
		t.Errorf("the model reads the results of %v", ids)
	}
	for id, out := range outputs {
		if out != "result of "+id {
			t.Errorf("%s has the result %q", id, out)
		}
	}
	if most != bound || len(order) != calls {
		t.Errorf("%d calls ran, %d at once, want %d", len(order), most, bound)
	}
}

// Results keep the order of the calls though the calls end the other way round.
func TestResultsKeepTheOrderOfTheCalls(t *testing.T) {
	const calls = 4
	turn := make([]chan struct{}, calls+1)
	for i := range turn {
		turn[i] = make(chan struct{})
	}
	close(turn[calls])
	body := func(_ context.Context, env tool.Env, _ json.RawMessage) (tool.Result, error) {
		n := int(env.CallID[1] - '0')
		<-turn[n+1] // the later call ends first
		close(turn[n])
		return tool.Result{Output: env.CallID}, nil
	}
	r := newRig(t, func(r *rig) {
		withTools(r, testTool(t, "look", tool.KindReadonly, func(d *tool.Definition) { d.Parallel = true }, body))
	}, call(use{"c0", "look", `{}`}, use{"c1", "look", `{}`}, use{"c2", "look", `{}`}, use{"c3", "look", `{}`}), say("done"))
	res := r.prompt("hi")
	r.wantText(res, "done")
	if ids, _ := r.model.results(1); !slices.Equal(ids, []string{"c0", "c1", "c2", "c3"}) {
		t.Errorf("the model reads the results of %v", ids)
	}
	if got := len(res.Steps[0].ToolResults()); got != calls {
		t.Errorf("the consumer has %d results", got)
	}
}

func TestCallsWithSideEffectsRunAlone(t *testing.T) {
	var mu sync.Mutex
	running := 0
	var seen []string
	body := func(_ context.Context, env tool.Env, _ json.RawMessage) (tool.Result, error) {
		mu.Lock()
		running++
		if strings.HasPrefix(env.CallID, "w") && running > 1 {
			t.Errorf("%s runs beside another call", env.CallID)
		}
		seen = append(seen, env.CallID)
		mu.Unlock()
		mu.Lock()
		running--
		mu.Unlock()
		return tool.Result{Output: "ok"}, nil
	}
	r := newRig(t, func(r *rig) {
		withTools(r, testTool(t, "look", tool.KindReadonly, func(d *tool.Definition) { d.Parallel = true }, body), testTool(t, "change", tool.KindEdit, nil, body))
	}, call(use{"r1", "look", `{}`}, use{"r2", "look", `{}`}, use{"w1", "change", `{}`}, use{"r3", "look", `{}`}, use{"w2", "change", `{}`}, use{"w3", "change", `{}`}), say("done"))
	r.wantText(r.prompt("hi"), "done")
	if len(seen) != 6 || slices.Index(seen, "w1") < 2 || slices.Index(seen, "w2") != 4 || seen[5] != "w3" {
		t.Errorf("the calls ran as %v", seen)
	}
}

func TestACallIDIsGivenOnce(t *testing.T) {
	runs := map[string]int{}
	body := func(_ context.Context, env tool.Env, raw json.RawMessage) (tool.Result, error) {
		runs[env.CallID]++
		return tool.Result{Output: string(raw)}, nil
	}
	r := newRig(t, func(r *rig) { withTools(r, testTool(t, "change", tool.KindEdit, nil, body)) },
		call(use{"call_0", "change", `{"n":1}`}, use{"call_0", "change", `{"n":2}`}, use{"", "change", `{"n":3}`}, use{"", "change", `{"n":4}`}),
		call(use{"call_0", "change", `{"n":5}`}),
		say("done"),
		call(use{"call_0", "change", `{"n":6}`}), // the next turn of the session
		say("done"),
	)
	r.wantText(r.prompt("hi"), "done")
	r.wantText(r.prompt("hi"), "done")
	ids, outputs := r.model.results(4)
	if len(ids) != 6 || len(outputs) != 6 || len(runs) != 6 {
		t.Fatalf("results of %v, runs %v", ids, runs)
	}
	for i, id := range ids {
		if want := args(`{"n":%d}`, i+1); outputs[id] != want || runs[id] != 1 {
			t.Errorf("call %d (%s) has the result %q and ran %d times", i+1, id, outputs[id], runs[id])
		}
	}
	// What was reported of the arguments carries the same ids.
	started := map[string]bool{}
	for _, p := range of[event.ToolCallStartedPayload](r.journal) {
		started[p.CallID] = true
	}
	for _, p := range of[event.ToolCallDeltaPayload](r.journal) {
		if p.CallID != "" && !started[p.CallID] {
			t.Errorf("arguments of the unknown call %q were reported", p.CallID)
		}
	}
}

// A server that sends no index has calls of their own all the same.
func TestCallsWithoutAnIndexStayApart(t *testing.T) {
	c := func(id string) model.Part {
		return model.Part{Kind: model.PartContent, Content: ai.ToolCallPart{ToolCallID: id, ToolName: "look", Input: "{}"}}
	}
	r := newRig(t, func(r *rig) { withTools(r, testTool(t, "look", tool.KindReadonly, nil, ok("seen"))) },
		parts(c("a"), c("a"), c("b"), finish(ai.FinishToolCalls, usage(1, 1))), say("done"))
	r.wantText(r.prompt("hi"), "done")
	if ids, _ := r.model.results(1); !slices.Equal(ids, []string{"a", "a_2", "b"}) {
		t.Errorf("calls %v", ids)
	}
}

func TestAPanicInAToolIsAFailedResult(t *testing.T) {
	body := func(context.Context, tool.Env, json.RawMessage) (tool.Result, error) { panic("boom") }
	r := newRig(t, func(r *rig) { withTools(r, testTool(t, "change", tool.KindEdit, nil, body)) },
		call(use{"c1", "change", `{}`}), say("done"))
	r.wantText(r.prompt("hi"), "done")
	if _, out := r.model.results(1); !strings.Contains(out["c1"], "boom") || !strings.Contains(out["c1"], tool.CodeFailed) {
		t.Errorf("the model reads %q", out["c1"])
	}
	if c := of[event.ToolCallCompletedPayload](r.journal); len(c) != 1 || c[0].Error != tool.CodeFailed {
		t.Errorf("tool.call.completed %+v", c)
	}
}

// The tools of the model are those that may run, and the prompt says where it is.
func TestTheRequestHoldsWhatTheModelNeeds(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agents.Instructions = "Be short."
		r.agents.Skills = []harness.Skill{{Name: "tidy", Description: "tidies", Content: "Tidy up."}}
		r.agents.Headers = map[string]string{"X-Team": "a"}
		r.set.Visible = func(name string) bool { return name != "bash" }
		r.set.ReasoningEffort = "low"
	}, say("ok"))
	r.wantText(r.prompt("hi"), "ok")
	req := r.model.request(0)
	for _, want := range []string{"Be short.", "# Skill tidy: tidies\nTidy up.", r.dir} {
		if !strings.Contains(req.System, want) {
			t.Errorf("the system prompt lacks %q", want)
		}
	}
	names := toolNames(req)
	if slices.Contains(names, "bash") || !slices.Contains(names, "read") || !slices.Contains(names, "AskUserQuestion") {
		t.Errorf("tools %v", names)
	}
	if req.ReasoningEffort != "low" || req.SessionID != "s" || req.Headers["x-team"] != "a" || req.Model != "main-1" {
		t.Errorf("request %+v", req)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	if _, err := native.New(native.Settings{}); err == nil || !strings.Contains(err.Error(), "Resolve") {
		t.Errorf("error %v", err)
	}
	// Settings that a host clears have their defaults again.
	h, err := native.New(newRig(t, nil).set)
	if err != nil {
		t.Fatal(err)
	}
	p := &play{steps: []step{call(use{"c1", "read", `{"path":"a"}`}), say("done")}}
	h = h.With(func(s *native.Settings) {
		*s = native.Settings{Resolve: func(string) ([]native.Target, error) { return []native.Target{{Model: p}}, nil }}
	})
	s, err := h.DoStart(t.Context(), harness.StartOptions{SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	ctl, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi")})
	if err != nil {
		t.Fatal(err)
	}
	if <-ctl.Done(); ctl.Err() != nil || p.calls() != 2 {
		t.Errorf("%v after %d calls", ctl.Err(), p.calls())
	}
	r := newRig(t, func(r *rig) {
		r.set.Resolve = func(name string) ([]native.Target, error) { return nil, nil }
		r.agents.Model = "gone"
	})
	if _, err := r.try(r.ctx, "hi"); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("error %v", err)
	}
}
