package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/tool"
)

var errFenced = errors.New("fenced")

// brokenTranscript fails from its n-th Append on.
type brokenTranscript struct {
	native.MemoryTranscript
	mu   sync.Mutex
	left int
}

func (b *brokenTranscript) Append(ctx context.Context, session string, items ...native.Item) error {
	b.mu.Lock()
	b.left--
	broken := b.left < 0
	b.mu.Unlock()
	if broken {
		return errFenced
	}
	return b.MemoryTranscript.Append(ctx, session, items...)
}

// A transcript that cannot be written ends the turn at once, wherever it breaks: nothing more is asked of the model,
// and no call is made whose start is not on record.
func TestABrokenTranscriptEndsTheTurn(t *testing.T) {
	for n := range 9 {
		var c counter
		tr := &brokenTranscript{left: n}
		other := &play{steps: []step{say("never")}}
		r := newRig(t, func(r *rig) {
			r.set.Transcript = tr
			r.set.Resolve = func(string) ([]native.Target, error) {
				return []native.Target{r.target("main", r.model), r.target("other", other)}, nil
			}
			withTools(r, testTool(t, "change", tool.KindEdit, nil, c.body))
		}, failing(status(500, 0)), call(use{"c1", "change", `{}`}), say("done"))
		_, err := r.try(r.ctx, "hi")
		// prompt, attempt, its failure, attempt, answer, start, result, attempt, answer
		if !errors.Is(err, errFenced) {
			t.Errorf("after %d items: error %v", n, err)
		}
		if calls := []int{0, 0, 1, 1, 2, 2, 2, 2, 3}[n]; r.model.calls() != calls || other.calls() != 0 {
			t.Errorf("after %d items: the model was called %d times, the fallback %d times", n, r.model.calls(), other.calls())
		}
		if runs := c.of("c1"); (runs == 1) != (n >= 6) {
			t.Errorf("after %d items: the call ran %d times", n, runs)
		}
		if r.session.TurnState() != harness.TurnStateIdle {
			t.Errorf("after %d items: the turn is %s", n, r.session.TurnState())
		}
	}
}

// A journal that commits nothing more ends the turn before a side effect.
func TestABrokenJournalStopsSideEffects(t *testing.T) {
	var c counter
	r := newRig(t, func(r *rig) {
		r.journal.barrier = errFenced
		withTools(r, testTool(t, "change", tool.KindEdit, nil, c.body), testTool(t, "look", tool.KindReadonly, nil, c.body))
	}, call(use{"c1", "look", `{}`}, use{"c2", "change", `{}`}), say("never"))
	_, err := r.try(r.ctx, "hi")
	if !errors.Is(err, errFenced) || c.of("c1") != 1 || c.of("c2") != 0 || r.model.calls() != 1 {
		t.Errorf("%v; runs %v, %d model calls", err, c.runs, r.model.calls())
	}
}

func TestAFailedCheckpointEndsTheTurn(t *testing.T) {
	for n := range 3 {
		checkpoints := 0
		r := newRig(t, func(r *rig) {
			r.agents.Checkpoint = func(context.Context, *harness.ContinueTurnState) error {
				if checkpoints++; checkpoints > n {
					return errFenced
				}
				return nil
			}
		}, call(use{"c1", "glob", `{"pattern":"*"}`}), say("done"))
		_, err := r.try(r.ctx, "hi")
		if !errors.Is(err, errFenced) || r.model.calls() != n {
			t.Errorf("checkpoint %d: %v after %d model calls", n+1, err, r.model.calls())
		}
	}
}

// brokenLedger fails at one of its methods.
type brokenLedger struct {
	control.Memory
	at string
}

func (b *brokenLedger) fail(at string) error {
	if b.at == at {
		return errFenced
	}
	return nil
}

func (b *brokenLedger) Recall(ctx context.Context, id string) (control.Record, error) {
	rec, err := b.Memory.Recall(ctx, id)
	return rec, errors.Join(err, b.fail("recall"))
}

func (b *brokenLedger) Request(ctx context.Context, step int, a event.Approval) error {
	return errors.Join(b.fail("request"), b.Memory.Request(ctx, step, a))
}

func (b *brokenLedger) Begin(ctx context.Context, s control.Start) error {
	if err := b.fail("begin"); err != nil {
		return err
	}
	return b.Memory.Begin(ctx, s)
}

func (b *brokenLedger) End(ctx context.Context, e control.End) error {
	return errors.Join(b.fail("end"), b.Memory.End(ctx, e))
}

func (b *brokenLedger) Block(ctx context.Context, step int, p event.ToolCallBlockedPayload) error {
	return errors.Join(b.fail("block"), b.Memory.Block(ctx, step, p))
}

func (b *brokenLedger) Question(ctx context.Context, step int, q event.PendingQuestion) (event.PendingQuestion, error) {
	if err := b.fail("question"); err != nil {
		return event.PendingQuestion{}, err
	}
	return b.Memory.Question(ctx, step, q)
}

func TestABrokenLedgerEndsTheTurn(t *testing.T) {
	for at, u := range map[string]use{
		"recall": {"c1", "change", `{}`}, "request": {"c1", "asked", `{}`}, "begin": {"c1", "change", `{}`}, "end": {"c1", "change", `{}`},
		"block": {"c1", "denied", `{}`}, "question": {"c1", "AskUserQuestion", `{"questions":[` + question("A?") + `]}`},
	} {
		t.Run(at, func(t *testing.T) {
			var c counter
			r := newRig(t, func(r *rig) {
				gate, err := control.NewGate(control.Config{Ledger: &brokenLedger{at: at}, Policy: control.Policy{RequiresApproval: []string{"asked"}, Denied: []string{"denied"}}})
				if err != nil {
					t.Fatal(err)
				}
				r.agents.Gate = gate
				withTools(r, testTool(t, "change", tool.KindEdit, nil, c.body), testTool(t, "asked", tool.KindEdit, nil, c.body), testTool(t, "denied", tool.KindEdit, nil, c.body))
			}, call(u), say("never"))
			_, err := r.try(r.ctx, "hi")
			if !errors.Is(err, errFenced) || r.model.calls() != 1 || (c.of("c1") == 1) != (at == "end") {
				t.Errorf("%v; the call ran %d times, %d model calls", err, c.of("c1"), r.model.calls())
			}
		})
	}
}

// A call that is refused at its start, after it was allowed, is a refusal that the model reads.
func TestACallMayBeRefusedAtItsStart(t *testing.T) {
	var c counter
	strict := false
	rule := ruleFunc(func(control.Call) control.Verdict {
		if strict {
			return control.Verdict{Outcome: control.Deny, Reason: "no longer"}
		}
		return control.Verdict{}
	})
	r := newRig(t, func(r *rig) {
		gate, err := control.NewGate(control.Config{Ledger: &control.Memory{}, Policy: control.Policy{RequiresApproval: []string{"change"}, Rules: []control.Rule{rule}}})
		if err != nil {
			t.Fatal(err)
		}
		r.agents.Gate = gate
		withTools(r, testTool(t, "change", tool.KindEdit, nil, c.body))
	}, call(use{"c1", "change", `{}`}), say("done"))
	r.prompt("hi")
	asked, _ := r.session.Pending()
	strict = true
	r.wantText(r.goOn(r.approve(asked[0].ApprovalID, true), nil), "done")
	if _, out := r.model.results(1); !strings.Contains(out["c1"], "no longer") || c.of("c1") != 0 {
		t.Errorf("the model reads %q after %d runs", out["c1"], c.of("c1"))
	}
}

// A hook may change what a call is made with, within the tool's schema. A question is asked as it was written or not
// at all.
func TestAHookRewritesACall(t *testing.T) {
	for name, c := range map[string]struct {
		use     use
		rewrite string
		ran     string // what the tool was given
	}{
		"fitting":     {use{"c1", "change", `{"n":1}`}, `{"n":2}`, `{"n":2}`},
		"not fitting": {use{"c1", "change", `{"n":1}`}, `{"m":2}`, ""},
		"a question":  {use{"c1", "AskUserQuestion", `{"questions":[` + question("A?") + `]}`}, `{"questions":[` + question("B?") + `]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ran := ""
			body := func(_ context.Context, _ tool.Env, raw json.RawMessage) (tool.Result, error) {
				ran = string(raw)
				return tool.Result{Output: "ok"}, nil
			}
			hook := ruleFunc(func(control.Call) control.Verdict {
				return control.Verdict{Outcome: control.Allow, Arguments: json.RawMessage(c.rewrite)}
			})
			r := newRig(t, func(r *rig) {
				gate, err := control.NewGate(control.Config{Ledger: &control.Memory{Emit: func(f event.Fact) { r.journal.Emit(f) }}, Policy: control.Policy{Hooks: []control.Hook{hook}}})
				if err != nil {
					t.Fatal(err)
				}
				r.agents.Gate = gate
				withTools(r, testTool(t, "change", tool.KindEdit, nil, body))
			}, call(c.use), say("done"))
			r.wantText(r.prompt("hi"), "done")
			if ran != c.ran || len(of[event.RunWaitingForUserPayload](r.journal)) != 0 {
				t.Errorf("the tool ran with %q, want %q", ran, c.ran)
			}
			if _, out := r.model.results(1); (c.ran == "") != strings.Contains(out["c1"], tool.CodePermissionDenied) {
				t.Errorf("the model reads %q", out["c1"])
			}
			if s := of[event.ToolCallStartedPayload](r.journal); len(s) == 1 && s[0].Arguments != c.ran {
				t.Errorf("on record are the arguments %q", s[0].Arguments)
			}
		})
	}
}

type ruleFunc func(control.Call) control.Verdict

func (ruleFunc) Name() string { return "test" }

func (f ruleFunc) Decide(_ context.Context, c control.Call) (control.Verdict, error) {
	return f(c), nil
}

func TestOneTurnAtATime(t *testing.T) {
	waiting := make(chan struct{}, 1)
	p := &play{steps: []step{hang(waiting)}}
	_, s := bare(t, p, nil)
	if _, err := s.DoContinueTurn(t.Context(), harness.ContinueTurnOptions{}); err == nil || !strings.Contains(err.Error(), "no turn") {
		t.Errorf("a session without a turn continues one: %v", err)
	}
	if _, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi"),
		TurnOptions: harness.TurnOptions{ResponseFormat: &harness.ResponseFormat{Type: harness.ResponseFormatJSON}}}); err == nil {
		t.Error("JSON without a schema is taken")
	}
	if _, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi")}); err != nil {
		t.Fatal(err)
	}
	receive(t, waiting)
	if _, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi")}); err == nil {
		t.Error("two turns run at once")
	}
}

func TestTheAnswerFollowsASchema(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)
	r := newRig(t, func(r *rig) {
		o, err := ai.ObjectOutput(ai.ObjectOutputOptions{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		r.agents.Output = o
	}, say(`{"n":7}`))
	res := r.prompt("hi")
	if got := jsonOf(t, res.Output); got != `{"n":7}` || len(r.model.request(0).ResponseSchema) == 0 {
		t.Errorf("output %s, schema %s", got, r.model.request(0).ResponseSchema)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
