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

// counter counts the runs of a tool by call.
type counter struct {
	mu   sync.Mutex
	runs map[string]int
}

func (c *counter) body(_ context.Context, env tool.Env, _ json.RawMessage) (tool.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs = map[string]int{}
	}
	c.runs[env.CallID]++
	return tool.Result{Output: "ran " + env.CallID}, nil
}

func (c *counter) of(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[id]
}

func TestPermissionModesAskByKind(t *testing.T) {
	kinds := []tool.Kind{tool.KindReadonly, tool.KindEdit, tool.KindBash, tool.KindNetwork, tool.KindAgent, tool.KindOther}
	for mode, free := range map[harness.PermissionMode][]tool.Kind{
		harness.PermissionModeAllowReads: {tool.KindReadonly},
		harness.PermissionModeAllowEdits: {tool.KindReadonly, tool.KindEdit},
		harness.PermissionModeAllowAll:   kinds,
	} {
		t.Run(string(mode), func(t *testing.T) {
			var c counter
			var uses []use
			var tools []*tool.Tool
			for _, k := range kinds {
				tools = append(tools, testTool(t, "do_"+string(k), k, nil, c.body))
				uses = append(uses, use{string(k), "do_" + string(k), `{}`})
			}
			r := newRig(t, func(r *rig) { r.agents.PermissionMode = mode; withTools(r, tools...) }, call(uses...), say("done"))
			r.prompt("hi")
			asked, _ := r.session.Pending()
			for _, k := range kinds {
				isFree := slices.Contains(free, k)
				isAsked := slices.ContainsFunc(asked, func(a harness.PendingToolApproval) bool { return a.ToolCallID == string(k) })
				if isFree == isAsked || c.of(string(k)) != map[bool]int{true: 1}[isFree] {
					t.Errorf("%s: asked %v, ran %d times", k, isAsked, c.of(string(k)))
				}
			}
			for _, a := range asked {
				r.goOn(r.approve(a.ApprovalID, true), nil)
			}
			if r.session.TurnState() != harness.TurnStateIdle {
				t.Fatalf("the turn is %s", r.session.TurnState())
			}
			ids, _ := r.model.results(1)
			for i, k := range kinds {
				if c.of(string(k)) != 1 || ids[i] != string(k) {
					t.Errorf("%s ran %d times; results %v", k, c.of(string(k)), ids)
				}
			}
		})
	}
}

// moves are the ways from a pause to its continuation.
var moves = map[string]func(*rig){
	"in the live session": func(*rig) {},
	"in another process":  func(r *rig) { r.elsewhere(r.suspend()) },
	"after a stop": func(r *rig) {
		s, err := r.session.Stop(r.ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		r.elsewhere(s)
	},
}

func withFile(r *rig) { r.set.Transcript = &native.FileTranscript{Dir: r.t.TempDir()} }

func TestADecidedCallRunsOnceOrNever(t *testing.T) {
	for name, move := range moves {
		for _, yes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, approved %v", name, yes), func(t *testing.T) {
				r := newRig(t, func(r *rig) { withFile(r); r.agents.PermissionMode = harness.PermissionModeAllowReads },
					call(use{"c1", "bash", `{"command":"echo line >> log"}`}), say("done"))
				r.prompt("hi")
				asked, _ := r.session.Pending()
				if len(asked) != 1 || asked[0].ToolCallID != "c1" || asked[0].ToolName != "bash" || r.has("log") {
					t.Fatalf("pending %+v, log %v", asked, r.has("log"))
				}
				move(r)
				r.wantText(r.goOn(r.approve(asked[0].ApprovalID, yes), nil), "done")
				if want := map[bool]string{true: "line\n"}[yes]; r.read("log") != want {
					t.Errorf("the command left %q", r.read("log"))
				}
				_, out := r.model.results(1)
				if !yes && (!strings.Contains(out["c1"], tool.CodePermissionDenied) || !strings.Contains(out["c1"], "because")) {
					t.Errorf("the model reads %q", out["c1"])
				}
				granted, denied := of[event.ToolApprovalGrantedPayload](r.journal), of[event.ToolApprovalDeniedPayload](r.journal)
				if (len(granted) == 1) != yes || (len(denied) == 1) == yes || len(of[event.ToolApprovalRequiredPayload](r.journal)) != 1 {
					t.Errorf("granted %+v, denied %+v", granted, denied)
				}
			})
		}
	}
}

func TestTwoAsksAreDecidedInReverse(t *testing.T) {
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			var c counter
			r := newRig(t, func(r *rig) {
				withFile(r)
				r.agents.PermissionMode = harness.PermissionModeAllowReads
				withTools(r, testTool(t, "change", tool.KindEdit, nil, c.body))
			}, call(use{"c1", "change", `{"n":1}`}, use{"c2", "change", `{"n":2}`}, use{"c3", "glob", `{"pattern":"*"}`}), say("done"))
			r.prompt("hi")
			asked, _ := r.session.Pending()
			if len(asked) != 2 {
				t.Fatalf("pending %+v", asked)
			}
			// The free call did not wait for the others.
			if s := of[event.ToolCallCompletedPayload](r.journal); len(s) != 1 || s[0].CallID != "c3" {
				t.Errorf("tool.call.completed %+v", s)
			}
			move(r)
			r.goOn(r.approve(asked[1].ApprovalID, true), nil)
			if c.of("c2") != 1 || c.of("c1") != 0 || r.model.calls() != 1 {
				t.Fatalf("runs %v, %d model calls", c.runs, r.model.calls())
			}
			left, _ := r.session.Pending()
			if len(left) != 1 || left[0].ApprovalID != asked[0].ApprovalID {
				t.Fatalf("pending %+v, want %s", left, asked[0].ApprovalID)
			}
			move(r)
			r.wantText(r.goOn(r.approve(asked[0].ApprovalID, true), nil), "done")
			if c.of("c1") != 1 || c.of("c2") != 1 {
				t.Errorf("runs %v", c.runs)
			}
			if ids, _ := r.model.results(1); !slices.Equal(ids, []string{"c1", "c2", "c3"}) {
				t.Errorf("results %v", ids)
			}
		})
	}
}

// A decision that was taken and not used before its turn was suspended is kept: it is not asked for again, and cannot
// be turned.
func TestADecisionOutlivesItsProcess(t *testing.T) {
	for _, yes := range []bool{true, false} {
		t.Run(fmt.Sprint("approved ", yes), func(t *testing.T) {
			var c counter
			p := &play{steps: []step{call(use{"c1", "change", `{}`}), say("done")}}
			tr := &native.MemoryTranscript{}
			change := testTool(t, "change", tool.KindEdit, nil, c.body)
			_, s := bare(t, p, func(o *native.Settings) { o.Transcript = tr }, change)
			asks := make(chan string, 4)
			emit := func(p harness.StreamPart) {
				if a, ok := p.(harness.ToolApprovalRequest); ok {
					asks <- a.ApprovalID
				}
			}
			ctl, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi"), TurnOptions: harness.TurnOptions{Emit: emit}})
			if err != nil {
				t.Fatal(err)
			}
			id := receive(t, asks)
			if _, err := s.DoSuspendTurn(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-ctl.Done()
			if err := ctl.(harness.ToolApprovalSubmitter).SubmitToolApproval(t.Context(), harness.ToolApprovalSubmission{ApprovalID: id, Approved: yes}); err == nil {
				t.Error("a turn that was suspended takes decisions")
			}
			// In the live turn the decision may come just before the suspension.
			ctl, err = s.DoContinueTurn(t.Context(), harness.ContinueTurnOptions{TurnOptions: harness.TurnOptions{Emit: emit}})
			if err != nil {
				t.Fatal(err)
			}
			if err := ctl.(harness.ToolApprovalSubmitter).SubmitToolApproval(t.Context(), harness.ToolApprovalSubmission{ApprovalID: id, Approved: yes, Reason: "why"}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.DoSuspendTurn(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, s = bare(t, p, func(o *native.Settings) { o.Transcript = tr }, change)
			ctl, err = s.DoContinueTurn(t.Context(), harness.ContinueTurnOptions{TurnOptions: harness.TurnOptions{Emit: func(p harness.StreamPart) {
				if a, ok := p.(harness.ToolApprovalRequest); ok {
					t.Errorf("asked again: %+v", a)
				}
			}}})
			if err != nil {
				t.Fatal(err)
			}
			<-ctl.Done()
			if ctl.Err() != nil || c.of("c1") != map[bool]int{true: 1}[yes] || p.calls() != 2 {
				t.Errorf("%v; ran %d times, %d model calls", ctl.Err(), c.of("c1"), p.calls())
			}
		})
	}
}

// A call that a process had started when it died is not run again. One without side effects is.
func TestAStartedCallOfADeadProcessIsNotRunAgain(t *testing.T) {
	for _, kind := range []tool.Kind{tool.KindEdit, tool.KindReadonly} {
		t.Run(string(kind), func(t *testing.T) {
			var c counter
			r := newRig(t, func(r *rig) { withTools(r, testTool(t, "do", kind, nil, c.body)) }, call(use{"c1", "do", `{"n":7}`}), say("done"), say("done"))
			r.wantText(r.prompt("hi"), "done")
			items := itemsOf(t, r.set.Transcript)
			at := slices.IndexFunc(items, func(it native.Item) bool { return it.Kind == native.KindResult })
			r.set.Transcript = copyTranscript(t, r.set.Transcript, at) // killed before the result was recorded
			r.elsewhere(continuation(t, r.set.Transcript))
			r.wantText(r.goOn(nil, nil), "done")
			_, out := r.model.results(2)
			if kind == tool.KindEdit && (c.of("c1") != 1 || !strings.Contains(out["c1"], "interrupted: outcome unknown") || !strings.Contains(out["c1"], `\"n\":7`)) {
				t.Errorf("it ran %d times; the model reads %q", c.of("c1"), out["c1"])
			}
			if kind == tool.KindReadonly && (c.of("c1") != 2 || out["c1"] != "ran c1") {
				t.Errorf("it ran %d times; the model reads %q", c.of("c1"), out["c1"])
			}
		})
	}
}

// An approved call that was started when the process died is settled, though the host's state still has its ask, and
// the turn comes to its end for the host as well.
func TestAStaleStateIsCaughtUpWith(t *testing.T) {
	var c counter
	setup := func(t *testing.T) (*rig, *harness.ContinueTurnState, string) {
		c = counter{}
		r := newRig(t, func(r *rig) {
			r.agents.PermissionMode = harness.PermissionModeAllowReads
			withTools(r, testTool(t, "change", tool.KindEdit, nil, c.body))
		}, call(use{"c1", "change", `{}`}), say("done"), say("again"))
		r.prompt("hi")
		asked, _ := r.session.Pending()
		state := r.suspend()
		r.elsewhere(state)
		r.wantText(r.goOn(r.approve(asked[0].ApprovalID, true), nil), "done")
		return r, state, asked[0].ApprovalID
	}
	cut := func(t *testing.T, r *rig, after func(native.Item) bool) {
		items := itemsOf(t, r.set.Transcript)
		at := slices.IndexFunc(items, after)
		r.set.Transcript = copyTranscript(t, r.set.Transcript, at+1)
	}
	for name, after := range map[string]func(native.Item) bool{
		"decided":  func(it native.Item) bool { return it.Kind == native.KindDecision },
		"started":  func(it native.Item) bool { return it.Kind == native.KindStarted },
		"settled":  func(it native.Item) bool { return it.Kind == native.KindResult },
		"answered": func(it native.Item) bool { return it.Kind == native.KindAnswer && it.Step == 2 },
	} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, decided again %v", name, again), func(t *testing.T) {
				r, state, id := setup(t)
				cut(t, r, after)
				r.elsewhere(state)
				r.parts = nil
				var decisions []ai.ToolApprovalResponseContent
				if again {
					decisions = r.approve(id, true)
				}
				want := "again"
				if name == "answered" {
					want = "done"
				}
				r.wantText(r.goOn(decisions, nil), want)
				if n := c.of("c1"); n != map[string]int{"decided": 2}[name] && n != 1 {
					t.Errorf("the call ran %d times", n)
				}
				results := 0
				for _, p := range r.parts {
					if s := p.PartType(); s == "tool-result" || s == "tool-error" {
						results++
					}
				}
				if results != 1 {
					t.Errorf("the host saw %d results", results)
				}
			})
		}
	}
}

// A decision on record cannot be turned: a contrary one fails the turn, or comes too late to say anything.
func TestAContraryDecisionTurnsNothing(t *testing.T) {
	var c counter
	r := newRig(t, func(r *rig) {
		r.agents.PermissionMode = harness.PermissionModeAllowReads
		withTools(r, testTool(t, "change", tool.KindEdit, nil, c.body))
	}, call(use{"c1", "change", `{}`}), say("done"), say("again"))
	r.prompt("hi")
	asked, _ := r.session.Pending()
	state := r.suspend()
	r.elsewhere(state)
	r.wantText(r.goOn(r.approve(asked[0].ApprovalID, false), nil), "done")
	items := itemsOf(t, r.set.Transcript)
	at := slices.IndexFunc(items, func(it native.Item) bool { return it.Kind == native.KindDecision })
	r.set.Transcript = copyTranscript(t, r.set.Transcript, at+1)
	r.elsewhere(state)
	_, err := r.agent.ContinueGenerate(r.ctx, r.options(), r.approve(asked[0].ApprovalID, true), nil)
	if c.of("c1") != 0 {
		t.Errorf("the denied call ran; error %v", err)
	}
	if err != nil && !strings.Contains(err.Error(), asked[0].ApprovalID) {
		t.Errorf("error %v", err)
	}
}

func TestQuestionsAreAnsweredDeclinedOrExpire(t *testing.T) {
	ask := use{"c1", "AskUserQuestion", `{"questions":[` + question("Really?") + `,` + strings.Replace(question("Which?"), `"header"`, `"multiSelect":true,"header"`, 1) + `]}`}
	for name, c := range map[string]struct {
		out   harness.QuestionsToolOutput
		reads []string
	}{
		"answered": {harness.QuestionsToolOutput{Action: harness.QuestionsActionAnswered, Answers: map[string]harness.QuestionAnswer{
			"1": {OptionIDs: []string{"2"}}, "2": {OptionIDs: []string{"1", "2"}, Freeform: ptr("or <both>")}}},
			[]string{`"Really?":["no"]`, `"Which?":["yes","no","or <both>"]`}},
		"in part": {harness.QuestionsToolOutput{Action: harness.QuestionsActionPartiallyAnswered, Answers: map[string]harness.QuestionAnswer{
			"1": {OptionIDs: []string{"1"}}}}, []string{`{"answers":{"Really?":["yes"]}}`}},
		"unknown option": {harness.QuestionsToolOutput{Action: harness.QuestionsActionAnswered, Answers: map[string]harness.QuestionAnswer{
			"1": {OptionIDs: []string{"7"}}}}, []string{tool.CodeFailed, "Really?", "7"}},
		"declined": {harness.QuestionsToolOutput{Action: harness.QuestionsActionDeclined}, []string{tool.CodePermissionDenied, "declined"}},
		"expired":  {native.CommonAnswer(nil, nil), []string{tool.CodeTimeout, "in time"}},
	} {
		for how, move := range moves {
			t.Run(name+" "+how, func(t *testing.T) {
				r := newRig(t, withFile, call(ask), say("done"))
				r.prompt("hi")
				_, waiting := r.session.Pending()
				if len(waiting) != 1 || waiting[0].ToolName != "askUserQuestions" {
					t.Fatalf("pending %+v", waiting)
				}
				if w := of[event.RunWaitingForUserPayload](r.journal); len(w) != 1 || w[0].CallID != "c1" || len(w[0].Questions) != 2 {
					t.Fatalf("run.waiting_for_user %+v", w)
				}
				move(r)
				raw, err := json.Marshal(c.out)
				if err != nil {
					t.Fatal(err)
				}
				r.wantText(r.goOn(nil, []ai.ToolResultContent{{ToolCallID: "c1", ToolName: "askUserQuestions", Output: ai.ToolResultOutput{Type: ai.OutputJSON, Value: raw}}}), "done")
				_, out := r.model.results(1)
				for _, want := range c.reads {
					if !strings.Contains(out["c1"], want) {
						t.Errorf("%q is not in %q", want, out["c1"])
					}
				}
			})
		}
	}
}

// Answers that are kept by question and value come to the model as they were given.
func TestAnswersInWords(t *testing.T) {
	qs := []event.Question{
		{Question: "Which?", Options: []event.QuestionOption{{Label: "a"}, {Label: "b"}}},
		{Question: "Why?", Options: []event.QuestionOption{{Label: "x"}, {Label: "y"}}},
	}
	r := newRig(t, nil, call(use{"c1", "AskUserQuestion", `{"questions":[` + strings.NewReplacer("yes", "a", "no", "b").Replace(question("Which?")) + `,` + question("Why?") + `]}`}), say("done"))
	r.prompt("hi")
	raw := jsonOf(t, native.CommonAnswer(qs, map[string][]string{"Which?": {"b", "a"}, "Why?": {"because", "I say so"}}))
	r.wantText(r.goOn(nil, []ai.ToolResultContent{{ToolCallID: "c1", ToolName: "askUserQuestions", Output: ai.ToolResultOutput{Type: ai.OutputJSON, Value: json.RawMessage(raw)}}}), "done")
	if _, out := r.model.results(1); out["c1"] != `{"answers":{"Which?":["b","a"],"Why?":["because\nI say so"]}}` {
		t.Errorf("the model reads %s", out["c1"])
	}
}

func ptr[T any](v T) *T { return &v }

// A question that may not be asked is not waited for.
func TestARefusedQuestionDoesNotPauseTheTurn(t *testing.T) {
	gate := func(r *rig) { r.agents.Gate = denyingGate(r.t, r.journal, "AskUserQuestion") }
	r := newRig(t, gate, call(use{"c1", "AskUserQuestion", `{"questions":[` + question("A?") + `]}`}), say("done"))
	r.wantText(r.prompt("hi"), "done")
	if _, out := r.model.results(1); !strings.Contains(out["c1"], tool.CodePermissionDenied) {
		t.Errorf("the model reads %q", out["c1"])
	}
	if w := of[event.RunWaitingForUserPayload](r.journal); len(w) != 0 {
		t.Errorf("run.waiting_for_user %+v", w)
	}
}

// An approval in a step of reads does not hold up, or undo, what is free.
func TestApprovedCallsShowNoControlRecordsToTheModel(t *testing.T) {
	transcripts := map[string]func(*rig){"memory": func(*rig) {}, "file": withFile}
	seen := map[string]string{}
	for name, change := range transcripts {
		var c counter
		r := newRig(t, func(r *rig) {
			change(r)
			r.agents.PermissionMode = harness.PermissionModeAllowReads
			withTools(r, testTool(t, "change", tool.KindEdit, nil, c.body))
		}, call(use{"c1", "change", `{}`}), say("done"), say("more"))
		r.prompt("hi")
		asked, _ := r.session.Pending()
		r.elsewhere(r.suspend())
		r.wantText(r.goOn(r.approve(asked[0].ApprovalID, true), nil), "done")
		s, err := r.session.Stop(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.elsewhere(s)
		r.wantText(r.prompt("next"), "more")
		req := r.model.request(2)
		for _, m := range req.Messages {
			for _, p := range m.Content {
				switch p.(type) {
				case ai.TextPart, ai.ToolCallPart, ai.ToolResultContent:
				default:
					t.Errorf("%s: the model reads a %T", name, p)
				}
			}
		}
		b, err := json.Marshal(req.Messages)
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = string(b)
	}
	if seen["memory"] != seen["file"] {
		t.Errorf("the model reads\n%s\nfrom memory and\n%s\nfrom a file", seen["memory"], seen["file"])
	}
}

var _ model.Model = (*play)(nil)

// An answer that is there when its turn goes on belongs to a question on the stream too.
func TestAnAnsweredQuestionIsAQuestionOnTheStream(t *testing.T) {
	p := &play{steps: []step{call(use{"c1", "AskUserQuestion", `{"questions":[` + question("A?") + `]}`}), say("done")}}
	_, s := bare(t, p, nil)
	var names []string
	asked := make(chan struct{}, 1)
	opts := harness.TurnOptions{Emit: func(p harness.StreamPart) {
		switch v := p.(type) {
		case harness.ToolCall:
			names = append(names, v.ToolName)
			if len(names) == 1 {
				asked <- struct{}{}
			}
		case harness.ToolResult:
			names = append(names, v.ToolName)
		}
	}}
	if _, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi"), TurnOptions: opts}); err != nil {
		t.Fatal(err)
	}
	receive(t, asked)
	if _, err := s.DoSuspendTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctl, err := s.DoContinueTurn(t.Context(), harness.ContinueTurnOptions{TurnOptions: opts})
	if err != nil {
		t.Fatal(err)
	}
	out := harness.QuestionsToolOutput{Action: harness.QuestionsActionAnswered, Answers: map[string]harness.QuestionAnswer{"1": {OptionIDs: []string{"1"}}}}
	if err := ctl.SubmitToolResult(t.Context(), harness.ToolResultSubmission{ToolCallID: "c1", Output: out}); err != nil {
		t.Fatal(err)
	}
	<-ctl.Done()
	if want := []string{"askUserQuestions", "askUserQuestions", "askUserQuestions"}; ctl.Err() != nil || !slices.Equal(names, want) {
		t.Errorf("%v; the stream names %v", ctl.Err(), names)
	}
}
