package native_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
)

// Of callers that race for what is left, no more get it than it is enough for.
func TestAPoolIsNeverSpentTwice(t *testing.T) {
	p := native.NewPool(native.Amount{CostUSD: 1}, native.Amount{CostUSD: 0.5})
	cent := native.Amount{CostUSD: 0.01}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 200 {
		wg.Go(func() {
			r, err := p.Reserve(context.Background(), cent, cent)
			if err != nil {
				var te *native.TurnError
				if !errors.As(err, &te) || te.Reason != event.ReasonMaxCost {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			got++
			mu.Unlock()
			r.Settle(cent)
			r.Settle(cent) // counts once
		})
	}
	wg.Wait()
	if used := p.Used().CostUSD; got != 50 || math.Abs(used-1) > 1e-9 {
		t.Errorf("%d got a cent, %f used", got, used)
	}
}

func TestAReservationWaitsForThoseThatMayUseLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := native.NewPool(native.Amount{Tokens: 100}, native.Amount{})
		first, err := p.Reserve(t.Context(), native.Amount{Tokens: 50}, native.Amount{Tokens: 1000})
		if err != nil || first.Granted.Tokens != 100 {
			t.Fatal(first, err)
		}
		done := make(chan *native.Reservation)
		go func() {
			r, err := p.Reserve(t.Context(), native.Amount{Tokens: 60}, native.Amount{Tokens: 80})
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("it did not wait")
		default:
		}
		first.Settle(native.Amount{Tokens: 30})
		second := <-done
		if second.Granted.Tokens != 70 {
			t.Errorf("granted %d", second.Granted.Tokens)
		}
		// Who waits ends with its context; what is used up is refused at once.
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		if _, err := p.Reserve(ctx, native.Amount{Tokens: 10}, native.Amount{Tokens: 10}); !errors.Is(err, errStop) {
			t.Error(err)
		}
		second.Settle(native.Amount{Tokens: 70})
		if _, err := p.Reserve(t.Context(), native.Amount{Tokens: 1}, native.Amount{}); err == nil || !strings.Contains(err.Error(), "100 tokens") {
			t.Error(err)
		}
	})
}

// Sessions of a tree share what they may spend, steps included.
func TestTheSessionsOfATreeShareTheirBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		limit  native.Amount
		reason string
		calls  int
	}{
		"money": {native.Amount{CostUSD: 0.10}, event.ReasonMaxCost, 5},
		"steps": {native.Amount{Steps: 7}, event.ReasonMaxSteps, 7},
	} {
		t.Run(name, func(t *testing.T) {
			pool := native.NewPool(tc.limit, native.Amount{})
			var wg sync.WaitGroup
			var mu sync.Mutex
			calls := 0
			for range 3 {
				wg.Go(func() {
					r := newRig(t, func(r *rig) {
						looking(r, native.Budget{})
						priced(r, 0.02)
						r.set.Pool = pool
					}, endless(9)...)
					_, err := r.try(r.ctx, "hi")
					var te *native.TurnError
					if !errors.As(err, &te) || te.Reason != tc.reason {
						t.Errorf("it ended with %v", err)
					}
					if c := of[event.RunCostLimitReachedPayload](r.journal); (len(c) == 1) != (tc.reason == event.ReasonMaxCost) {
						t.Errorf("run.cost_limit_reached %+v", c)
					}
					mu.Lock()
					calls += r.model.calls()
					mu.Unlock()
				})
			}
			wg.Wait()
			if calls != tc.calls {
				t.Errorf("%d calls were made, want %d", calls, tc.calls)
			}
		})
	}
}

// Cached tokens cost what the catalogue says, and the budget goes by the number that the log reports.
func TestBudgetAndReportCountCachedTokensAlike(t *testing.T) {
	info := model.Info{Priced: true, CostPer1MIn: 10, CostPer1MOut: 30, CostCacheRead: 1, CostCacheWrite: 12.5}
	u := ai.Usage{
		InputTokens:  ai.InputTokens{Total: ai.Tokens(2613), NoCache: ai.Tokens(53), CacheRead: ai.Tokens(2560)},
		OutputTokens: ai.OutputTokens{Total: ai.Tokens(100)},
	}
	want := (53*10 + 2560*1 + 100*30) / 1e6 // 0.00609
	r := newRig(t, func(r *rig) {
		looking(r, native.Budget{MaxCostUSD: 0.04})
		r.set.Resolve = func(string) ([]native.Target, error) {
			tg := r.target("main", r.model)
			tg.Cost = func(u ai.Usage) (float64, event.CostStatus) { return model.Cost(info, u) }
			return []native.Target{tg}, nil
		}
	}, parts(append(callParts(use{"c1", "look", `{}`}), finish(ai.FinishToolCalls, u))...), say("never"))
	_, err := r.try(r.ctx, "hi")
	if err != nil {
		t.Fatal(err)
	}
	d := of[event.UsageDeltaPayload](r.journal)
	if math.Abs(d[0].TurnCostUSD-want) > 1e-12 || d[0].CumulativeUsage.CachedTokensTotal != 2560 {
		t.Errorf("usage.delta %+v, want %f", d[0], want)
	}
	for _, it := range itemsOf(t, r.set.Transcript) {
		if it.Kind == native.KindAnswer && it.CostUSD != d[it.Step-1].TurnCostUSD {
			t.Errorf("the budget counts %f for step %d", it.CostUSD, it.Step)
		}
	}
	// A prompt of 2,700 tokens may cost 0.027 without the cache: what is left must be enough for it.
	r = newRig(t, func(r *rig) {
		looking(r, native.Budget{MaxCostUSD: 0.03})
		r.set.Resolve = func(string) ([]native.Target, error) {
			tg := r.target("main", r.model)
			tg.Cost = func(u ai.Usage) (float64, event.CostStatus) { return model.Cost(info, u) }
			return []native.Target{tg}, nil
		}
	}, parts(append(callParts(use{"c1", "look", `{}`}), finish(ai.FinishToolCalls, u))...), say("never"))
	_, err = r.try(r.ctx, "hi")
	r.wantTurnError(err, event.ReasonMaxCost)
	r.wantCalls(1)
}

// An answer may be no longer than what is left can pay for, and no call is made for a few words.
func TestTheAnswerIsBoundedByWhatIsLeft(t *testing.T) {
	perToken := func(r *rig, bound int) {
		r.set.Resolve = func(string) ([]native.Target, error) {
			tg := r.target("main", r.model)
			tg.MaxOutputTokens = bound
			tg.Cost = func(u ai.Usage) (float64, event.CostStatus) {
				return 1e-5 * float64(*u.OutputTokens.Total), event.CostAvailable
			}
			return []native.Target{tg}, nil
		}
	}
	long := func(id string) step {
		return parts(append(callParts(use{id, "look", `{}`}), finish(ai.FinishToolCalls, usage(100, 2000)))...)
	}
	r := newRig(t, func(r *rig) { looking(r, native.Budget{MaxCostUSD: 0.05}); perToken(r, 4096) }, long("c1"), long("c2"), long("c3"))
	_, err := r.try(r.ctx, "hi")
	r.wantTurnError(err, event.ReasonMaxCost)
	var bounds []int
	for n := range r.model.calls() {
		bounds = append(bounds, r.model.request(n).MaxOutputTokens)
	}
	if fmt.Sprint(bounds) != "[4096 3000]" {
		t.Errorf("bounds %v", bounds)
	}
	r = newRig(t, func(r *rig) { looking(r, native.Budget{MaxTokens: 5000}); perToken(r, 0) }, long("c1"), say("never"))
	if _, err = r.try(r.ctx, "hi"); err != nil {
		t.Fatal(err)
	}
	if got := r.model.request(1).MaxOutputTokens; got < 600 || got > 900 {
		t.Errorf("the second answer may have %d tokens", got)
	}
	// An answer also shares its model's window with the prompt.
	r = newRig(t, func(r *rig) {
		tight(r)
		resolve := r.set.Resolve
		r.set.Resolve = func(m string) ([]native.Target, error) {
			list, err := resolve(m)
			list[0].MaxOutputTokens = 12_000
			return list, err
		}
	}, using(12_000, use{"b1", "big", `{}`}), using(0))
	r.wantText(r.prompt("hi"), "done")
	if first, second := r.model.request(0).MaxOutputTokens, r.model.request(1).MaxOutputTokens; first != 12_000 || second > 6000 || second < 5000 {
		t.Errorf("the answers may have %d and %d tokens", first, second)
	}
}
