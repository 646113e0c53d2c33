package native_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

// A call that cannot be made as it is written is never made: the model reads why, the log has it, the turn goes on.
func TestWrongCallsAreRefusedPrecisely(t *testing.T) {
	for name, c := range map[string]struct {
		use  use
		code string
		says []string
	}{
		"not JSON":                 {use{"c1", "write", `{"path":"a","content":`}, tool.CodeInvalidArguments, []string{"write", "not valid JSON"}},
		"no object":                {use{"c1", "write", `["a"]`}, tool.CodeInvalidArguments, []string{"JSON object"}},
		"a wrong type":             {use{"c1", "write", `{"path":7,"content":"x"}`}, tool.CodeInvalidArguments, []string{"path"}},
		"a missing argument":       {use{"c1", "bash", `{"timeout_seconds":3}`}, tool.CodeInvalidArguments, []string{"command"}},
		"an argument too many":     {use{"c1", "write", `{"path":"a","content":"x","sudo":true}`}, tool.CodeInvalidArguments, []string{"sudo"}},
		"no such tool":             {use{"c1", "rm", `{}`}, tool.CodeUnknownTool, []string{`"rm"`, "available:", "write"}},
		"no arguments where some":  {use{"c1", "write", ``}, tool.CodeInvalidArguments, []string{"write"}},
		"a question without words": {use{"c1", "AskUserQuestion", `{"questions":[]}`}, tool.CodeInvalidArguments, []string{"AskUserQuestion"}},
		"the same question twice": {use{"c1", "AskUserQuestion", `{"questions":[` + question("A?") + `,` + question("A?") + `]}`},
			tool.CodeInvalidArguments, []string{`"A?"`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, call(c.use, use{"c2", "glob", `{"pattern":"*"}`}), say("done"))
			r.wantText(r.prompt("hi"), "done")
			ids, out := r.model.results(1)
			if !slices.Equal(ids, []string{"c1", "c2"}) || !strings.Contains(out["c1"], `"code":"`+c.code+`"`) {
				t.Errorf("results %v: %q", ids, out["c1"])
			}
			for _, s := range c.says {
				if !strings.Contains(strings.ReplaceAll(out["c1"], `\"`, `"`), s) {
					t.Errorf("%q is not in %q", s, out["c1"])
				}
			}
			b := of[event.ToolCallBlockedPayload](r.journal)
			if len(b) != 1 || b[0].CallID != "c1" || b[0].Tool != c.use.tool || b[0].Stage != "arguments" || b[0].Reason == "" {
				t.Errorf("tool.call.blocked %+v", b)
			}
			if s := of[event.ToolCallStartedPayload](r.journal); len(s) != 1 || s[0].CallID != "c2" {
				t.Errorf("tool.call.started %+v", s)
			}
			if r.has("a") {
				t.Error("the call was made")
			}
		})
	}
}

func question(text string) string {
	return `{"question":"` + text + `","header":"H","options":[{"label":"yes","description":"y"},{"label":"no","description":"n"}]}`
}

// What a cut answer asks for is not known to its end, even where a call of it looks whole.
func TestCallsOfACutAnswerAreNotMade(t *testing.T) {
	for name, kind := range map[string]ai.FinishReasonKind{"length": ai.FinishLength, "content filter": ai.FinishContentFilter} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil,
				parts(append(callParts(use{"c1", "write", `{"path":"a","content":"x"}`}, use{"c2", "write", `{"path":"b","cont`}), finish(kind, usage(1, 1)))...),
				say("done"))
			r.wantText(r.prompt("hi"), "done")
			if _, out := r.model.results(1); !strings.Contains(out["c1"], "cut") || !strings.Contains(out["c2"], "cut") {
				t.Errorf("the model reads %q", out)
			}
			if r.has("a") || r.has("b") || len(of[event.ToolCallBlockedPayload](r.journal)) != 2 {
				t.Error("a call was made")
			}
		})
	}
	t.Run("one call is marked", func(t *testing.T) {
		list := callParts(use{"c1", "write", `{"path":"a","content":"x"}`})
		list[1].Truncated = true
		r := newRig(t, nil, parts(append(list, finish(ai.FinishToolCalls, usage(1, 1)))...), say("done"))
		r.wantText(r.prompt("hi"), "done")
		if r.has("a") {
			t.Error("the call was made")
		}
	})
	t.Run("a text alone ends the turn", func(t *testing.T) {
		r := newRig(t, nil, parts(append(textParts("so far"), finish(ai.FinishLength, usage(1, 1)))...))
		res := r.prompt("hi")
		r.wantText(res, "so far")
		if res.FinishReason.Unified != ai.FinishLength {
			t.Errorf("finish %s", res.FinishReason.Unified)
		}
	})
}

func TestLeftOutToolsAreNeitherShownNorRun(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"inactive": func(r *rig) { r.agents.InactiveTools = []string{"write", "askUserQuestions"} },
		"active":   func(r *rig) { r.agents.ActiveTools = []string{"read", "glob"} },
	} {
		for _, gate := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, func(r *rig) {
					change(r)
					if gate { // one that knows nothing of the filter
						r.agents.Gate = newGate(t, r.journal)
					}
				}, call(use{"c1", "write", `{"path":"a","content":"x"}`}, use{"c2", "AskUserQuestion", `{"questions":[` + question("A?") + `]}`}), say("done"))
				r.wantText(r.prompt("hi"), "done")
				if names := toolNames(r.model.request(0)); slices.Contains(names, "write") || slices.Contains(names, "AskUserQuestion") || !slices.Contains(names, "read") {
					t.Errorf("tools %v", names)
				}
				_, out := r.model.results(1)
				if r.has("a") || !strings.Contains(out["c1"], tool.CodePermissionDenied) || !strings.Contains(out["c2"], tool.CodePermissionDenied) {
					t.Errorf("the model reads %q", out)
				}
				if b := of[event.ToolCallBlockedPayload](r.journal); len(b) != 2 || b[0].Stage != "declared" {
					t.Errorf("tool.call.blocked %+v", b)
				}
			})
		}
	}
}

// A deferred tool runs when find_tool has activated it, and only in that turn.
func TestADeferredToolRunsAfterItsActivation(t *testing.T) {
	deferred := func(d *tool.Definition) { d.Tier, d.Tags = tool.TierDeferred, []string{"weather"} }
	find := func(id string) use { return use{id, "find_tool", `{"query":"weather"}`} }
	r := newRig(t, func(r *rig) {
		withTools(r, testTool(t, "forecast", tool.KindReadonly, deferred, ok("sunny")), testTool(t, "weather_bomb", tool.KindReadonly, deferred, ok("boom")))
		r.agents.InactiveTools = []string{"weather_bomb"}
	},
		call(use{"c1", "forecast", `{}`}),                                              // refused
		call(find("c2"), use{"c3", "forecast", `{}`}, use{"c4", "weather_bomb", `{}`}), // activated and run in one step
		call(use{"c5", "forecast", `{}`}),
		say("done"),
		call(use{"c6", "forecast", `{}`}), // the next turn
		say("done"))
	r.wantText(r.prompt("hi"), "done")
	_, out := r.model.results(3)
	if !strings.Contains(out["c1"], "find_tool") || out["c3"] != "sunny" || out["c5"] != "sunny" {
		t.Errorf("the model reads %q", out)
	}
	if !strings.Contains(out["c4"], tool.CodePermissionDenied) || strings.Contains(out["c2"], "weather_bomb") {
		t.Errorf("the tool that is left out was found or run: %q, %q", out["c2"], out["c4"])
	}
	for n, want := range []bool{false, false, true, true} {
		names := toolNames(r.model.request(n))
		if slices.Contains(names, "forecast") != want || slices.Contains(names, "weather_bomb") {
			t.Errorf("request %d shows %v", n, names)
		}
	}
	if a := of[event.ToolActivatedPayload](r.journal); len(a) != 1 || !slices.Equal(a[0].Tools, []string{"forecast"}) {
		t.Errorf("tool.activated %+v", a)
	}
	r.wantText(r.prompt("again"), "done")
	if _, out := r.model.results(5); !strings.Contains(out["c6"], "find_tool") || slices.Contains(toolNames(r.model.request(4)), "forecast") {
		t.Errorf("activation outlives its turn: %q", out["c6"])
	}
}

// A turn that is continued elsewhere has its activated tools and its todos.
func TestActivationAndTodosSurviveASuspension(t *testing.T) {
	waiting := make(chan struct{}, 1)
	r := newRig(t, func(r *rig) {
		withTools(r, testTool(t, "forecast", tool.KindReadonly, func(d *tool.Definition) { d.Tier = tool.TierDeferred }, ok("sunny")))
	},
		call(use{"c1", "find_tool", `{"query":"select:forecast"}`}, use{"c2", "todos", `{"action":"set","todos":[{"text":"one"}]}`}),
		hang(waiting),
		call(use{"c3", "forecast", `{}`}, use{"c4", "todos", `{"action":"get"}`}),
		say("done"))
	end := r.background(r.ctx, "hi")
	receive(t, waiting)
	state := r.suspend()
	if _, err := end(); err != nil {
		t.Fatal(err)
	}
	r.set.Activation = nil // of another process
	r.elsewhere(state)
	r.wantText(r.goOn(nil, nil), "done")
	if _, out := r.model.results(3); out["c3"] != "sunny" || !strings.Contains(out["c4"], "one") {
		t.Errorf("the model reads %q", out)
	}
	if !slices.Contains(toolNames(r.model.request(2)), "forecast") {
		t.Error("the activated tool is not shown")
	}
}

func TestAUserToolWinsOverABuiltInOne(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.agents.UserTools = map[string]ai.Tool{"write": {Description: "mine", Execute: echo}}
	}, call(use{"c1", "write", `{"path":"a","content":"x"}`}, use{"c2", "glob", `{"pattern":"*"}`}), say("done"))
	r.wantText(r.prompt("hi"), "done")
	if _, out := r.model.results(1); r.has("a") || !strings.HasPrefix(out["c1"], "echo") {
		t.Errorf("the model reads %q", out["c1"])
	}
	n := 0
	for _, tl := range r.model.request(0).Tools {
		if tl.Name == "write" {
			n++
			if tl.Description != "mine" {
				t.Errorf("the model sees %q", tl.Description)
			}
		}
	}
	if n != 1 {
		t.Errorf("write is listed %d times", n)
	}
}
