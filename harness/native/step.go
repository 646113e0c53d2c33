package native

import (
	"encoding/json"
	"errors"
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
	o := t.open(step)
	err := t.prepare(step, o)
	if err == nil {
		err = t.callModel(step, o)
	}
	var te *TurnError
	if errors.As(err, &te) {
		t.s.journal(o.ending()...)
	}
	return err
}

// prepare sees to it that the call may be made and fits the model.
func (t *turn) prepare(step int, o *opening) error {
	if err := t.checkBudget(step); err != nil {
		return err
	}
	if n := pauses(t.s.all()); n > maxPauses {
		return &TurnError{Reason: event.ReasonProvider, Message: fmt.Sprintf("the provider paused its answer %d times without an end", n)}
	}
	t.gaugeStep()
	o.add(step, t.pressure()...)
	return t.makeRoom(step, o)
}

// callModel makes the step's model call until it is answered, or cannot be.
func (t *turn) callModel(step int, o *opening) error {
	tried := attempts(t.s.all(), step, "")
	if tried.reached >= model.MaxAttempts && !t.fallBack() {
		t.s.journal(o.take()...)
		return t.providerFailed(errLost)
	}
	for {
		tg := t.targets[t.target]
		h, err := t.reserve(step, tg, t.s.nextPrompt(), t.outputBound(tg), 1)
		if err != nil {
			return err
		}
		if err := t.requested(step, tried.made+1, o.take()); err != nil {
			return err
		}
		res, err := t.attempt(step, h)
		h.settle(res.usage, costOf(tg, res.usage), err == nil)
		if err == nil {
			return t.record(step, res)
		}
		tried = attempts(t.s.all(), step, "")
		if stop := t.stop(); stop != nil {
			_ = t.discard(step, "", tg, tried, res, errInterrupted, 0, false) // the turn ends anyway
			return stop
		}
		again, wait := t.again(err, tried)
		if err := t.discard(step, "", tg, tried, res, err, wait, again); err != nil {
			return err
		}
		shorter, serr := t.shorterAfter(step, o, err)
		switch {
		case serr != nil:
			return serr
		case shorter: // another call of the same provider
		case again:
			if err := t.wait(wait); err != nil {
				return err
			}
		case !t.fallBack():
			return t.providerFailed(err)
		}
	}
}

// shorterAfter makes the history shorter when the provider refused its length, once for the step.
func (t *turn) shorterAfter(step int, o *opening, err error) (bool, error) {
	set := t.s.h.set.Compaction
	times, _ := tooLong(t.s.all(), step)
	if e, ok := model.AsError(err); !ok || e.Kind != model.ErrContextLength || times != 1 || !set.Auto {
		return false, nil
	}
	return t.shorten(step, o, set.automatic())
}

func costOf(tg Target, u ai.Usage) float64 {
	if tg.Cost == nil || !u.Known() {
		return 0
	}
	usd, _ := tg.Cost(u)
	return usd
}

var (
	// errLost is the failure of a call that was made as often as it may be, and whose process died each time.
	errLost error = &model.Error{Kind: model.ErrIncomplete, Message: "the call was made again and again, and its process ended each time"}
	// errInterrupted ends an attempt whose turn was cancelled or suspended.
	errInterrupted error = &model.Error{Kind: attemptInterrupted}
)

// opening are the facts that go into one commit with the first thing that is recorded of a step in this segment.
type opening struct {
	facts []event.Fact
	ends  int // the first of them, which end the step before
}

func (t *turn) open(step int) *opening {
	o := &opening{}
	items := t.s.all()
	if !begun(items, step) {
		prev, had := lastAnswer(items)
		o.facts = t.stepEnd(prev, had)
		o.ends = len(o.facts)
		o.add(step, event.RunStepStartedPayload{StepStartMS: t.s.h.set.Now().UnixMilli()})
	}
	if tried := attempts(items, step, ""); tried.open { // the process died in the middle of a call
		o.add(step, event.LLMAttemptDiscardedPayload{Attempt: tried.made, Reason: attemptInterrupted})
	}
	return o
}

func (o *opening) add(step int, payloads ...event.Payload) {
	o.facts = append(o.facts, at(step, payloads...)...)
}

// take gives the facts, once.
func (o *opening) take() []event.Fact {
	facts := o.facts
	o.facts, o.ends = nil, 0
	return facts
}

// ending is what is left to say of the step before when this one is not made.
func (o *opening) ending() []event.Fact {
	facts := o.facts[:o.ends]
	o.facts, o.ends = nil, 0
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

// next is the target after the i-th that the budget can count, -1 when there is none.
func (t *turn) next(i int) int {
	money := t.s.h.set.Budget.MaxCostUSD > 0 || t.s.h.set.Pool != nil && t.s.h.set.Pool.Limit().CostUSD > 0
	for i++; i < len(t.targets); i++ {
		if !money || t.targets[i].Cost != nil {
			return i
		}
	}
	return -1
}

// fallBack moves on to the next target.
func (t *turn) fallBack() bool {
	i := t.next(t.target)
	if i < 0 {
		return false
	}
	t.target = i
	return true
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
	e := &TurnError{Reason: event.ReasonProvider, Message: err.Error(), Err: err}
	if m, ok := model.AsError(err); ok && m.Kind == model.ErrContextLength {
		t.measure()
		items := t.s.all()
		rec := recordOf(items)
		e.Reason = event.ReasonContextLength
		e.Message += fmt.Sprintf(" (by estimate system prompt and tools hold %d tokens, the messages %d)", t.s.prefixSize(), sizeWith(items, &rec))
	}
	return e
}

// discard records that an attempt's deltas do not count. What it consumed does.
func (t *turn) discard(step int, purpose string, tg Target, tried tries, res *received, err error, wait time.Duration, again bool) error {
	p := event.LLMAttemptDiscardedPayload{Attempt: tried.made, Purpose: purpose, Reason: "error", RetryInMS: wait.Milliseconds()}
	if e, ok := model.AsError(err); ok {
		p.Reason, p.Status = string(e.Kind), e.Status
	}
	it := Item{Kind: KindAttempt, Step: step, Attempt: tried.made, Purpose: purpose, Provider: tg.Provider, Model: tg.ModelID, Error: p.Reason}
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
	if t.stop() == nil && purpose == "" {
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
