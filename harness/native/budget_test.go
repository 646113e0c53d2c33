package native_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
)

// endless is a model that never stops.
func endless(n int) []step {
	var steps []step
	for i := range n {
		steps = append(steps, call(use{fmt.Sprint("c", i), "look", `{}`}))
	}
	return steps
}

// priced lets each call of the main provider cost the same.
func priced(r *rig, usd float64) {
	r.set.Resolve = func(string) ([]native.Target, error) {
		tg := r.target("main", r.model)
		tg.Cost = func(ai.Usage) (float64, event.CostStatus) { return usd, event.CostAvailable }
		return []native.Target{tg}, nil
	}
}

func looking(r *rig, budget native.Budget) {
	withTools(r, testTool(r.t, "look", tool.KindReadonly, nil, ok("seen")))
	r.set.Budget = budget
}

func TestStepsAreBounded(t *testing.T) {
	r := newRig(t, func(r *rig) { looking(r, native.Budget{MaxSteps: 3}) }, endless(9)...)
	_, err := r.try(r.ctx, "hi")
	r.wantTurnError(err, event.ReasonMaxSteps)
	r.wantCalls(3)
	// The last step's calls were made, and its end is on record.
	if s := of[event.RunStepCompletedPayload](r.journal); len(s) != 3 || s[2].ToolCalls != 1 {
		t.Errorf("run.step.completed %+v", s)
	}
	// No limit is no limit.
	r = newRig(t, func(r *rig) { looking(r, native.Budget{}) }, append(endless(40), say("done"))...)
	r.wantText(r.prompt("hi"), "done")
}

func TestTokensAreBounded(t *testing.T) {
	r := newRig(t, func(r *rig) { looking(r, native.Budget{MaxTokens: 35}) }, endless(9)...)
	_, err := r.try(r.ctx, "hi")
	r.wantTurnError(err, event.ReasonMaxTokens)
	r.wantCalls(2) // 11 tokens each, and the prompt of the third would not fit
}

// With 0.02 a call and a limit of 0.05 exactly two calls are sent: the third could cross it.
func TestMoneyIsReservedBeforeACall(t *testing.T) {
	r := newRig(t, func(r *rig) { looking(r, native.Budget{MaxCostUSD: 0.05}); priced(r, 0.02) }, endless(9)...)
	_, err := r.try(r.ctx, "hi")
	r.wantTurnError(err, event.ReasonMaxCost)
	r.wantCalls(2)
	if c := of[event.RunCostLimitReachedPayload](r.journal); len(c) != 1 || c[0].CumulativeCostUSD != 0.04 || c[0].MaxCostUSD != 0.05 {
		t.Errorf("run.cost_limit_reached %+v", c)
	}
	if u := of[event.UsageDeltaPayload](r.journal); len(u) != 2 || u[1].CumulativeCostUSD != 0.04 || u[1].TurnCostUSD != 0.02 || u[1].CostStatus != event.CostAvailable {
		t.Errorf("usage.delta %+v", u)
	}
}

func TestATurnThatFinishesOnTheCrossingCallSucceeds(t *testing.T) {
	r := newRig(t, func(r *rig) {
		looking(r, native.Budget{MaxCostUSD: 0.05})
		r.set.Resolve = func(string) ([]native.Target, error) {
			tg := r.target("main", r.model)
			tg.Cost = func(u ai.Usage) (float64, event.CostStatus) {
				return 0.009 * float64(*u.InputTokens.Total), event.CostAvailable
			}
			return []native.Target{tg}, nil
		}
	}, say("done")) // 0.09, which is more than the prompt looked like
	r.wantText(r.prompt("hi"), "done")
	// Reaching the limit to the cent is within it, whatever the sum of the prices is in binary.
	r = newRig(t, func(r *rig) { looking(r, native.Budget{MaxCostUSD: 0.3}); priced(r, 0.1) }, append(endless(2), say("done"))...)
	r.wantText(r.prompt("hi"), "done")
}

func TestALimitOverWhatIsUnknownIsRefused(t *testing.T) {
	unknown := parts(append(callParts(use{"c1", "look", `{}`}), finish(ai.FinishToolCalls, ai.Usage{}))...)
	t.Run("no price", func(t *testing.T) {
		r := newRig(t, func(r *rig) { looking(r, native.Budget{MaxCostUSD: 1}) }, say("never"))
		_, err := r.try(r.ctx, "hi")
		r.wantTurnError(err, event.ReasonMaxCost)
		r.wantCalls(0)
		if !strings.Contains(err.Error(), "main-1") {
			t.Errorf("the error %q does not name the model", err)
		}
	})
	t.Run("no usage, money", func(t *testing.T) {
		r := newRig(t, func(r *rig) { looking(r, native.Budget{MaxCostUSD: 1}); priced(r, 0) }, unknown, say("never"))
		_, err := r.try(r.ctx, "hi")
		r.wantTurnError(err, event.ReasonMaxCost)
		r.wantCalls(1)
		if u := of[event.UsageDeltaPayload](r.journal); len(u) != 1 || u[0].UsageStatus != "unreported" || u[0].CostStatus != event.CostProviderUnreported {
			t.Errorf("usage.delta %+v", u)
		}
	})
	t.Run("no usage, tokens", func(t *testing.T) {
		r := newRig(t, func(r *rig) { looking(r, native.Budget{MaxTokens: 1000}) }, unknown, say("never"))
		_, err := r.try(r.ctx, "hi")
		r.wantTurnError(err, event.ReasonMaxTokens)
		r.wantCalls(1)
	})
	t.Run("no limit", func(t *testing.T) {
		r := newRig(t, func(r *rig) { looking(r, native.Budget{}) }, unknown, say("done"))
		r.wantText(r.prompt("hi"), "done")
	})
	t.Run("a fallback without a price is passed over", func(t *testing.T) {
		never, last := &play{}, &play{steps: []step{say("priced")}}
		r := newRig(t, func(r *rig) {
			r.set.Budget.MaxCostUSD = 1
			r.set.Resolve = func(string) ([]native.Target, error) {
				cost := func(ai.Usage) (float64, event.CostStatus) { return 0.1, event.CostAvailable }
				a, b, c := r.target("main", r.model), r.target("unpriced", never), r.target("last", last)
				a.Cost, c.Cost = cost, cost
				return []native.Target{a, b, c}, nil
			}
		}, failing(status(401, 0)))
		r.wantText(r.prompt("hi"), "priced")
		if never.calls() != 0 {
			t.Error("the model without a price was called")
		}
	})
}

// Budgets hold over all segments of a turn, and a new turn has its own.
func TestBudgetsHoldOverSuspensions(t *testing.T) {
	for name, b := range map[string]native.Budget{"steps": {MaxSteps: 4}, "tokens": {MaxTokens: 55}, "money": {MaxCostUSD: 0.08}} {
		t.Run(name, func(t *testing.T) {
			waiting := make(chan struct{}, 1)
			steps := endless(2)
			steps = append(steps, hang(waiting))
			steps = append(steps, endless(6)[2:]...)
			steps = append(steps, say("new turn"))
			r := newRig(t, func(r *rig) { looking(r, b); priced(r, 0.02) }, steps...)
			end := r.background(r.ctx, "hi")
			receive(t, waiting)
			state := r.suspend()
			if _, err := end(); err != nil {
				t.Fatal(err)
			}
			r.elsewhere(state)
			_, err := r.agent.ContinueGenerate(r.ctx, r.options(), nil, nil)
			if err == nil {
				t.Fatal("the turn has no end")
			}
			r.wantCalls(5) // 2, the one that was made again, and 2
			r.model.mu.Lock()
			r.model.steps[5] = say("new turn")
			r.model.mu.Unlock()
			r.wantText(r.prompt("more"), "new turn")
		})
	}
}

// The limit of working time counts what the model and the tools take, over all segments, and not what people take.
func TestWaitingForAPersonIsNoWorkingTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		work := func(context.Context, tool.Env, json.RawMessage) (tool.Result, error) {
			time.Sleep(4 * time.Second)
			return tool.Result{Output: "done"}, nil
		}
		slow := func(s step) step {
			return func(ctx context.Context, yield func(modelPart) bool) error {
				if err := model.Sleep(ctx, 2*time.Second); err != nil {
					return err
				}
				return s(ctx, yield)
			}
		}
		r := newRig(t, func(r *rig) {
			r.set.Budget.Timeout = 19 * time.Second
			withTools(r, testTool(t, "work", tool.KindOther, nil, work), testTool(t, "free", tool.KindReadonly, nil, work))
			r.agents.PermissionMode = harness.PermissionModeAllowReads
		},
			slow(call(use{"c0", "free", `{}`}, use{"c1", "work", `{}`})), // 6 s, and 4 s once it is approved
			slow(call(use{"c2", "work", `{}`})),                          // 2 s, and 4 s
			slow(say("done")),                                            // 2 s, 18 s in all
			slow(call(use{"c3", "free", `{}`})), slow(call(use{"c4", "free", `{}`})), slow(call(use{"c5", "free", `{}`})), slow(call(use{"c6", "free", `{}`})), slow(say("never")))
		r.prompt("hi")
		for _, move := range []bool{true, false} {
			time.Sleep(72 * time.Hour)
			approvals, _ := r.session.Pending()
			if len(approvals) != 1 {
				t.Fatalf("pending %+v", approvals)
			}
			if move {
				r.elsewhere(r.suspend())
			}
			r.goOn(r.approve(approvals[0].ApprovalID, true), nil)
		}
		if r.session.TurnState() != harness.TurnStateIdle {
			t.Fatalf("the turn is %s", r.session.TurnState())
		}
		// The next turn has a time of its own, which is over in the middle of its fourth call of the model.
		start := time.Now()
		_, err := r.try(r.ctx, "more")
		r.wantTurnError(err, event.ReasonTimeout)
		if took := time.Since(start); took != 19*time.Second {
			t.Errorf("it ended after %s", took)
		}
		var durations []int64
		for _, p := range of[event.RunStepCompletedPayload](r.journal) {
			durations = append(durations, p.DurationMS)
		}
		if want := []int64{10_000, 6000, 2000, 6000, 6000, 6000}; !slices.Equal(durations, want) {
			t.Errorf("the steps took %v ms, want %v", durations, want)
		}
	})
}

// Waiting in the middle of a turn, with the session live, does not count either.
func TestALiveTurnThatWaitsDoesNotWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := &play{steps: []step{call(use{"c1", "change", `{}`}), say("done")}}
		h, s := bare(t, p, func(o *native.Settings) { o.Budget.Timeout = time.Second },
			testTool(t, "change", tool.KindEdit, nil, ok("changed")))
		_ = h
		asks := make(chan harness.ToolApprovalRequest, 1)
		c, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi"), TurnOptions: harness.TurnOptions{Emit: func(p harness.StreamPart) {
			if a, ok := p.(harness.ToolApprovalRequest); ok {
				asks <- a
			}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		a := <-asks
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := c.(harness.ToolApprovalSubmitter).SubmitToolApproval(t.Context(), harness.ToolApprovalSubmission{ApprovalID: a.ApprovalID, Approved: true}); err != nil {
			t.Fatal(err)
		}
		<-c.Done()
		if c.Err() != nil || p.calls() != 2 {
			t.Errorf("%v after %d calls", c.Err(), p.calls())
		}
	})
}
