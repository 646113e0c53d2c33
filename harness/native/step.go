package native

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/model"
)

// maxEmptyRetries is how often a model that answers nothing is asked again.
const maxEmptyRetries = 2

// modelStep makes one model call, with its retries and fallbacks, and records the answer. How often the call was made
// follows from the transcript, so that the bound holds over continuations too.
func (t *turn) modelStep(step int) error {
	if _, err := t.takeSteering(step, false); err != nil {
		return err
	}
	prev, hadAnswer := lastAnswer(t.s.all())
	if err := t.checkBudget(step, prev, hadAnswer); err != nil {
		return err
	}
	tried := attempts(t.s.all(), step)
	opening := t.opening(step, tried, prev, hadAnswer)
	if tried.reached >= model.MaxAttempts && !t.fallBack() {
		t.s.journal(opening...)
		return t.providerFailed(errLost)
	}
	for {
		if err := t.requested(step, tried.made+1, opening); err != nil {
			return err
		}
		opening = nil
		res, err := t.attempt(step)
		if err == nil {
			return t.record(step, res)
		}
		tried = attempts(t.s.all(), step)
		if stop := t.stop(); stop != nil {
			_ = t.discard(step, tried, res, errInterrupted, 0, false) // the turn ends anyway
			return stop
		}
		again, wait := t.again(err, tried)
		if err := t.discard(step, tried, res, err, wait, again); err != nil {
			return err
		}
		switch {
		case again:
			if err := t.wait(wait); err != nil {
				return err
			}
		case !t.fallBack():
			return t.providerFailed(err)
		}
	}
}

var (
	// errLost is the failure of a call that was made as often as it may be, and whose process died each time.
	errLost error = &model.Error{Kind: model.ErrIncomplete, Message: "the call was made again and again, and its process ended each time"}
	// errInterrupted ends an attempt whose turn was cancelled or suspended.
	errInterrupted error = &model.Error{Kind: attemptInterrupted}
)

// opening are the facts that go into one commit with the step's first request of this segment.
func (t *turn) opening(step int, tried tries, prev answer, hadAnswer bool) []event.Fact {
	var facts []event.Fact
	if tried.made == 0 {
		facts = append(t.stepEnd(prev, hadAnswer), at(step, event.RunStepStartedPayload{StepStartMS: t.s.h.set.Now().UnixMilli()})...)
	}
	if tried.open { // the process died in the middle of a call
		facts = append(facts, at(step, event.LLMAttemptDiscardedPayload{Attempt: tried.made, Reason: attemptInterrupted})...)
	}
	return facts
}

// resolved says which model serves the turn, where it is another one than before.
func (t *turn) resolved(step int) []event.Fact {
	tg := t.targets[t.target]
	if provider, modelID := servedBy(t.s.all()); provider == tg.Provider && modelID == tg.ModelID {
		return nil
	}
	return at(step, event.ProviderResolvedPayload{Model: tg.ModelID, Provider: tg.Provider})
}

// again tells whether and when a failed call is made again on the same provider.
func (t *turn) again(err error, tried tries) (bool, time.Duration) {
	v := t.s.h.set.Retry.Next(err, tried.reached)
	if isEmpty(err) {
		return v.Again && tried.empty < maxEmptyRetries, 0
	}
	return v.Again, v.Wait
}

// fallBack moves on to the next target that the budget can count.
func (t *turn) fallBack() bool {
	for i := t.target + 1; i < len(t.targets); i++ {
		if t.s.h.set.Budget.MaxCostUSD > 0 && t.targets[i].Cost == nil {
			continue
		}
		t.target = i
		return true
	}
	return false
}

// at makes facts of a step.
func at(step int, payloads ...event.Payload) []event.Fact {
	facts := make([]event.Fact, len(payloads))
	for i, p := range payloads {
		facts[i] = event.Fact{Step: step, Payload: p}
	}
	return facts
}

// stepEnd is the end of the step before, when it had calls. It goes into one commit with what follows it, so that it
// is neither lost nor repeated when the process dies between the two.
func (t *turn) stepEnd(prev answer, had bool) []event.Fact {
	calls := prev.calls()
	if !had || len(calls) == 0 {
		return nil
	}
	return at(prev.item.Step, event.RunStepCompletedPayload{ToolCalls: len(calls), DurationMS: t.sinceBegan(prev.item.Step)})
}

// sinceBegan is the step's working time in milliseconds.
func (t *turn) sinceBegan(step int) int64 {
	return max(t.clock.elapsed().Milliseconds()-stepBegan(t.s.all(), step), 0)
}

func (t *turn) providerFailed(err error) error {
	return &TurnError{Reason: event.ReasonProvider, Message: err.Error(), Err: err}
}

// discard records that an attempt's deltas do not count. What it consumed does.
func (t *turn) discard(step int, tried tries, res *received, err error, wait time.Duration, again bool) error {
	tg := t.targets[t.target]
	p := event.LLMAttemptDiscardedPayload{Attempt: tried.made, Reason: "error", RetryInMS: wait.Milliseconds()}
	if e, ok := model.AsError(err); ok {
		p.Reason, p.Status = string(e.Kind), e.Status
	}
	it := Item{Kind: KindAttempt, Step: step, Attempt: tried.made, Provider: tg.Provider, Model: tg.ModelID, Error: p.Reason}
	more := []event.Payload{p}
	if isEmpty(err) {
		it.Error = attemptEmpty
		if again {
			more = append(more, event.LLMEmptyResponseRetryPayload{Retry: tried.empty + 1, MaxRetries: maxEmptyRetries})
		}
	}
	status := event.CostUnpricedModel
	paid := res.usage.Known()
	if paid {
		it.Usage = &res.usage
		if tg.Cost != nil {
			it.CostUSD, status = tg.Cost(res.usage)
		}
	}
	if err := t.append(it); err != nil {
		return err
	}
	if paid {
		more = append(more, t.usageDelta(res.usage, it.CostUSD, status, tg.PricingVersion))
	}
	t.s.emit(step, more...)
	if t.stop() == nil {
		t.out.discard(res.usage)
	}
	return nil
}

func (t *turn) wait(d time.Duration) error {
	if d <= 0 {
		return t.stop()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.suspending:
		return errSuspended
	case <-t.ctx.Done():
		return t.stop()
	}
}

// record commits the answer with its facts. A step without calls ends here.
func (t *turn) record(step int, res *received) error {
	tg := t.targets[t.target]
	it := Item{
		Kind: KindAnswer, Step: step, Message: &res.message, Finish: &res.finish, Usage: &res.usage,
		Provider: tg.Provider, Model: res.model, Truncated: res.truncated,
	}
	status := event.CostUnpricedModel
	if tg.Cost != nil {
		it.CostUSD, status = tg.Cost(res.usage)
	}
	if err := t.append(it); err != nil {
		return err
	}
	calls := res.message.ToolCalls()
	for _, c := range calls {
		t.s.callIDs[c.ToolCallID] = true
	}
	var facts []event.Payload
	if s := reasoningOf(res.message); s != "" {
		facts = append(facts, event.ReasoningCompletePayload{Text: s, Tokens: count(res.usage.OutputTokens.Reasoning)})
	}
	if s := res.message.Text(); s != "" {
		facts = append(facts, event.AssistantMessagePayload{Content: s})
	}
	facts = append(facts, t.usageDelta(res.usage, it.CostUSD, status, tg.PricingVersion),
		event.LLMTurnCompletedPayload{
			ToolCalls: len(calls), TotalDurationMS: res.took.Milliseconds(), TTFTMS: res.ttft.Milliseconds(),
			Provider: tg.Provider, Model: res.model, FinishReason: string(res.finish.Unified),
		})
	if len(calls) == 0 {
		facts = append(facts, event.RunStepCompletedPayload{DurationMS: t.sinceBegan(step)})
	}
	t.s.emit(step, facts...)
	if len(calls) > 0 {
		return nil
	}
	t.out.finishStep(res.finish, res.usage)
	return t.s.checkpoint(t.ctx)
}

func count(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func (t *turn) usageDelta(u ai.Usage, cost float64, status event.CostStatus, pricing string) event.UsageDeltaPayload {
	raw, _ := json.Marshal(u) // numbers always marshal
	sums := t.s.tally()
	p := event.UsageDeltaPayload{
		UsageStatus: "reported", CostStatus: status, TurnUsage: raw, TurnCostUSD: cost,
		CumulativeUsage: Totals(sums.usage, u), CumulativeCostUSD: sums.cost, PricingVersion: pricing,
	}
	if !u.Known() {
		p.UsageStatus, p.CostStatus = "unreported", event.CostProviderUnreported
	}
	return p
}

// Totals is a usage as a run reports it. last is the usage of the newest call.
func Totals(u, last ai.Usage) event.UsageTotals {
	return event.UsageTotals{
		PromptTokensTotal: count(u.InputTokens.Total), CompletionTokensTotal: count(u.OutputTokens.Total),
		CachedTokensTotal: count(u.InputTokens.CacheRead), ReasoningTokensTotal: count(u.OutputTokens.Reasoning),
		TotalTokens:    count(u.InputTokens.Total) + count(u.OutputTokens.Total),
		LastTurnTokens: count(last.InputTokens.Total) + count(last.OutputTokens.Total),
	}
}

// checkBudget refuses a model call that the turn's budget does not cover. Money is reserved before the call: the next
// call is taken to cost what the last one did. What a provider does not report is unknown and not nothing: a limit
// over it cannot be kept.
func (t *turn) checkBudget(step int, prev answer, hadAnswer bool) error {
	b, sums := t.s.h.set.Budget, t.s.tally()
	refuse := func(reason, format string, args ...any) error {
		t.s.journal(t.stepEnd(prev, hadAnswer)...)
		return &TurnError{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch used := Totals(sums.usage, ai.Usage{}).TotalTokens; {
	case b.MaxSteps > 0 && step > b.MaxSteps:
		return refuse(event.ReasonMaxSteps, "the run used its %d steps without an end", b.MaxSteps)
	case b.Timeout > 0 && t.clock.elapsed() >= b.Timeout:
		t.s.journal(t.stepEnd(prev, hadAnswer)...)
		return timedOut(b.Timeout)
	case b.MaxTokens > 0 && used >= b.MaxTokens:
		return refuse(event.ReasonMaxTokens, "the run used %d of %d tokens", used, b.MaxTokens)
	case b.MaxTokens > 0 && sums.unreported:
		return refuse(event.ReasonMaxTokens, "the provider does not report what it uses, so the limit of %d tokens cannot be kept", b.MaxTokens)
	case b.MaxCostUSD <= 0:
		return nil
	case t.targets[t.target].Cost == nil:
		return refuse(event.ReasonMaxCost, "the model %s has no price, so max_cost_usd cannot be kept: add its price to the model catalogue or leave the limit out", t.targets[t.target].ModelID)
	case sums.unreported:
		return refuse(event.ReasonMaxCost, "the provider does not report what it uses, so max_cost_usd cannot be kept")
	}
	const rounding = 1 + 1e-9 // sums of prices are not exact
	if sums.cost > 0 && sums.cost+sums.lastCost > b.MaxCostUSD*rounding {
		t.s.journal(append(t.stepEnd(prev, hadAnswer), at(step-1, event.RunCostLimitReachedPayload{MaxCostUSD: b.MaxCostUSD, CumulativeCostUSD: sums.cost})...)...)
		return &TurnError{Reason: event.ReasonMaxCost, Message: fmt.Sprintf("the next model call could exceed the limit of %.4f USD (%.4f used)", b.MaxCostUSD, sums.cost)}
	}
	return nil
}
