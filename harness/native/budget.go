package native

import (
	"errors"
	"fmt"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
)

// An answer below this many tokens is not worth a call, unless the answers so far were as short. It is what a limit
// must leave room for.
const (
	worthwhileOutput = 256
	shortestOutput   = 16
)

// boundless is an answer so long that a provider's own bound is left to hold it.
const boundless = 32 << 10

// checkBudget refuses a step that the turn's budget does not cover, whatever its call would cost.
func (t *turn) checkBudget(step int) error {
	b := t.s.h.set.Budget
	switch {
	case b.MaxSteps > 0 && step > b.MaxSteps:
		return &TurnError{Reason: event.ReasonMaxSteps, Message: fmt.Sprintf("the run used its %d steps without an end", b.MaxSteps)}
	case b.Timeout > 0 && t.clock.elapsed() >= b.Timeout:
		return timedOut(b.Timeout)
	}
	return nil
}

// hold is what a model call has set aside.
type hold struct {
	maxOutput int // of the call, 0: the provider's own bound
	least     Amount
	shared    *Reservation
}

// settle counts what the call really used. What a provider does not report counts as it was reserved.
func (h *hold) settle(u ai.Usage, cost float64, answered bool) {
	if h.shared == nil {
		return
	}
	used := Amount{Tokens: count(u.InputTokens.Total) + count(u.OutputTokens.Total), CostUSD: cost}
	if answered && !u.Known() {
		used = Amount{Tokens: h.least.Tokens, CostUSD: h.least.CostUSD}
	}
	if answered {
		used.Steps = h.least.Steps
	}
	h.shared.Settle(used)
}

// reserve sets aside what a model call of the given prompt may use, in the turn's own budget and in the tree's. A call
// is taken to cost at least what the last one did, and what its prompt costs; its answer is bounded by what is left.
// What a provider does not report is unknown and not nothing: a limit over it cannot be kept.
func (t *turn) reserve(step int, tg Target, prompt int64, maxOutput, steps int) (*hold, error) {
	own, sums := Amount{Tokens: t.s.h.set.Budget.MaxTokens, CostUSD: t.s.h.set.Budget.MaxCostUSD}, t.s.tally()
	var tree Amount
	if p := t.s.h.set.Pool; p != nil {
		tree = p.Limit()
	}
	h := &hold{maxOutput: maxOutput, least: Amount{Steps: steps}}
	money, tokens := own.CostUSD > 0 || tree.CostUSD > 0, own.Tokens > 0 || tree.Tokens > 0
	if err := t.countable(tg, sums, money, tokens); err != nil {
		return nil, err
	}
	price := func(int64, int64) float64 { return 0 }
	if tg.Cost != nil {
		price = func(in, out int64) float64 {
			usd, _ := tg.Cost(ai.Usage{InputTokens: ai.InputTokens{Total: &in}, OutputTokens: ai.OutputTokens{Total: &out}})
			return usd
		}
	}
	shortest := int64(shortestOutput)
	if sums.lastOutput > 0 {
		shortest = min(sums.lastOutput, worthwhileOutput)
	}
	longest := int64(maxOutput)
	if longest == 0 {
		longest = boundless
	}
	shortest = min(shortest, longest)
	h.least.Tokens, h.least.CostUSD = prompt, max(sums.lastCost, price(prompt, shortest))
	most := Amount{Steps: steps, Tokens: prompt + longest, CostUSD: max(h.least.CostUSD, price(prompt, longest))}
	granted, err := t.ownRoom(step, sums, own, h.least, most)
	if err != nil {
		return nil, err
	}
	if p := t.s.h.set.Pool; p != nil {
		ctx, cancel := t.callContext()
		h.shared, err = p.Reserve(ctx, h.least, granted)
		cancel()
		if err != nil {
			return nil, t.treeRefused(step, err)
		}
		granted = h.shared.Granted
	}
	room := longest
	if tokens {
		room = min(room, granted.Tokens-prompt)
	}
	if perToken := (price(prompt, 1_000_000) - price(prompt, 0)) / 1e6; money && perToken > 0 {
		room = min(room, int64((granted.CostUSD*rounding-price(prompt, 0))/perToken))
	}
	if room < longest {
		h.maxOutput = int(max(room, shortest))
	}
	return h, nil
}

// countable refuses limits over what is not known.
func (t *turn) countable(tg Target, sums tally, money, tokens bool) error {
	switch {
	case tokens && sums.unreported:
		return &TurnError{Reason: event.ReasonMaxTokens, Message: "the provider does not report what it uses, so a limit of tokens cannot be kept"}
	case money && tg.Cost == nil:
		return &TurnError{Reason: event.ReasonMaxCost, Message: fmt.Sprintf("the model %s has no price, so max_cost_usd cannot be kept: add its price to the model catalogue or leave the limit out", tg.ModelID)}
	case money && sums.unreported:
		return &TurnError{Reason: event.ReasonMaxCost, Message: "the provider does not report what it uses, so max_cost_usd cannot be kept"}
	}
	return nil
}

// ownRoom is how much of most the turn's own budget has room for; less than least is refused.
func (t *turn) ownRoom(step int, sums tally, own, least, most Amount) (Amount, error) {
	used := Amount{Tokens: Totals(sums.usage, ai.Usage{}).TotalTokens, CostUSD: sums.cost}
	switch used.plus(least).over(own) {
	case event.ReasonMaxTokens:
		return Amount{}, &TurnError{Reason: event.ReasonMaxTokens, Message: fmt.Sprintf("the next model call could exceed the limit of %d tokens (%d used, its prompt holds about %d)", own.Tokens, used.Tokens, least.Tokens)}
	case event.ReasonMaxCost:
		t.s.emit(max(step-1, 1), event.RunCostLimitReachedPayload{MaxCostUSD: own.CostUSD, CumulativeCostUSD: sums.cost})
		return Amount{}, &TurnError{Reason: event.ReasonMaxCost, Message: fmt.Sprintf("the next model call could exceed the limit of %.4f USD (%.4f used, %.4f needed)", own.CostUSD, sums.cost, least.CostUSD)}
	}
	return own.between(used, least, most), nil
}

// treeRefused tells the run's log of a limit that the whole tree has reached.
func (t *turn) treeRefused(step int, err error) error {
	var te *TurnError
	if errors.As(err, &te) && te.Reason == event.ReasonMaxCost {
		p := t.s.h.set.Pool
		t.s.emit(max(step-1, 1), event.RunCostLimitReachedPayload{MaxCostUSD: p.Limit().CostUSD, CumulativeCostUSD: p.Used().CostUSD})
	}
	return err
}

// nextPrompt is the size of the step's prompt for its reservation. Until a provider has counted, only the messages
// are taken: the estimate of system prompt and tools is too rough to refuse a call for it.
func (s *session) nextPrompt() int64 {
	s.itemsMu.Lock()
	defer s.itemsMu.Unlock()
	return s.gauge.tokens
}
