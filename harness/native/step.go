package native

import (
	"context"
	"encoding/json"

	"fmt"
	"strings"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/model"
)

// maxEmptyRetries is how often a model that answers nothing is asked again.
const maxEmptyRetries = 2

// modelStep makes one model call, with its retries and fallbacks, and records the answer.
func (t *turn) modelStep(step int) error {
	if _, err := t.takeSteering(step); err != nil {
		return err
	}
	prev, hadAnswer := lastAnswer(t.s.items)
	if err := t.checkBudget(step, prev, hadAnswer); err != nil {
		return err
	}
	made, open := attempts(t.s.items, step)
	var opening []event.Fact
	if made == 0 {
		opening = append(t.stepEnd(prev, hadAnswer), at(step, event.RunStepStartedPayload{StepStartMS: t.s.h.set.Now().UnixMilli()})...)
		if step == 1 {
			opening = append(opening, at(step, event.ProviderResolvedPayload{Model: t.targets[t.target].ModelID, Provider: t.targets[t.target].Provider})...)
		}
	}
	if open { // the process died in the middle of a call
		opening = append(opening, at(step, event.LLMAttemptDiscardedPayload{Attempt: made, Reason: "interrupted"})...)
	}
	empty, onTarget := 0, 0
	for attempt := made + 1; ; attempt++ {
		onTarget++
		res, err := t.attempt(step, attempt, opening)
		opening = nil
		if err == nil && res.empty() {
			err = &model.Error{Kind: model.ErrIncomplete, Provider: t.targets[t.target].Provider, Message: "the answer was empty"}
			if empty++; empty > maxEmptyRetries {
				return t.providerFailed(step, attempt, err)
			}
			if err := t.discard(step, attempt, err, 0, event.LLMEmptyResponseRetryPayload{Retry: empty, MaxRetries: maxEmptyRetries}); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			return t.record(step, res)
		}
		if stop := t.stop(); stop != nil {
			return stop
		}
		v := t.s.h.set.Retry.Next(err, onTarget)
		switch {
		case v.Again:
			if err := t.discard(step, attempt, err, v.Wait); err != nil {
				return err
			}
			if err := t.wait(v.Wait); err != nil {
				return err
			}
		case t.target+1 < len(t.targets):
			t.target++
			onTarget = 0
			next := t.targets[t.target]
			if err := t.discard(step, attempt, err, 0, event.ProviderResolvedPayload{Model: next.ModelID, Provider: next.Provider}); err != nil {
				return err
			}
		default:
			return t.providerFailed(step, attempt, err)
		}
	}
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
	return at(prev.item.Step, event.RunStepCompletedPayload{ToolCalls: len(calls), DurationMS: max(t.working()-prev.item.ActiveMS, 0)})
}

func (t *turn) providerFailed(step, attempt int, err error) error {
	if derr := t.discard(step, attempt, err, 0); derr != nil {
		return derr
	}
	return &TurnError{Reason: event.ReasonProvider, Message: err.Error(), Err: err}
}

// discard records that an attempt's deltas do not count.
func (t *turn) discard(step, attempt int, err error, wait time.Duration, more ...event.Payload) error {
	p := event.LLMAttemptDiscardedPayload{Attempt: attempt, Reason: "error", RetryInMS: wait.Milliseconds()}
	if e, ok := model.AsError(err); ok {
		p.Reason, p.Status = string(e.Kind), e.Status
	}
	if err := t.s.append(t.ctx, Item{Kind: KindAttempt, Step: step, Attempt: attempt, Error: p.Reason}); err != nil {
		return err
	}
	t.s.emit(step, append([]event.Payload{p}, more...)...)
	return nil
}

func (t *turn) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.suspending:
		return errSuspended
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}

// received is a whole answer.
type received struct {
	message   ai.Message
	truncated []string
	finish    ai.FinishReason
	usage     ai.Usage
	model     string
	text      strings.Builder
	reasoning strings.Builder
	ttft      time.Duration
	took      time.Duration
}

func (r *received) empty() bool {
	return len(r.message.ToolCalls()) == 0 && r.text.Len() == 0 && r.finish.Unified != ai.FinishLength && r.finish.Unified != ai.FinishContentFilter
}

// attempt makes one model call. opening are the facts that go with its request in one commit.
func (t *turn) attempt(step, attempt int, opening []event.Fact) (*received, error) {
	tg := t.targets[t.target]
	if err := t.s.append(t.ctx, Item{Kind: KindAttempt, Step: step, Attempt: attempt}); err != nil {
		return nil, err
	}
	t.s.journal(append(opening, at(step, event.LLMTurnRequestedPayload{Attempt: attempt, Provider: tg.Provider, Model: tg.ModelID})...)...)

	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	go func() { // a suspension ends the call; it is made again when the turn continues
		select {
		case <-t.suspending:
			cancel(errSuspended)
		case <-ctx.Done():
		}
	}()

	t.s.h.set.Fault("model.before")
	res := &received{message: ai.Message{Role: ai.RoleAssistant}, model: tg.ModelID}
	deltas := deltaFacts{t: t, step: step}
	start := time.Now()
	for p, err := range tg.Model.Stream(ctx, t.request(tg)) {
		if err != nil {
			return nil, err
		}
		if res.ttft == 0 {
			res.ttft = time.Since(start)
		}
		switch p.Kind {
		case model.PartTextDelta:
			res.text.WriteString(p.Text)
			t.s.emit(step, event.AssistantMessageDeltaPayload{Content: p.Text})
			t.out.text(p.Text)
		case model.PartReasoningDelta:
			res.reasoning.WriteString(p.Text)
			t.s.emit(step, event.AssistantThinkingDeltaPayload{Content: p.Text})
			t.out.reasoning(p.Text)
		case model.PartToolCallDelta:
			deltas.add(p)
		case model.PartContent:
			t.out.closeBlocks()
			if c, ok := p.Content.(ai.ToolCallPart); ok {
				c = t.unique(res, c)
				if p.Truncated {
					res.truncated = append(res.truncated, c.ToolCallID)
				}
				p.Content = c
			}
			res.message.Content = append(res.message.Content, p.Content)
		case model.PartFinish:
			res.finish, res.usage = p.Finish, p.Usage
			if p.ServedModel != "" {
				res.model = p.ServedModel
			}
		}
	}
	deltas.flush()
	t.out.closeBlocks()
	res.took = time.Since(start)
	t.s.h.set.Fault("model.after")
	if res.finish.Unified == "" {
		return nil, &model.Error{Kind: model.ErrIncomplete, Provider: tg.Provider, Message: "the stream ended without a finish"}
	}
	if res.finish.Unified == ai.FinishError {
		return nil, &model.Error{Kind: model.ErrServer, Provider: tg.Provider, Message: "the provider ended the answer with an error: " + res.finish.Raw}
	}
	return res, nil
}

// unique gives a call an id that no other call of the turn has. Some servers send none, or count anew in each answer.
func (t *turn) unique(res *received, c ai.ToolCallPart) ai.ToolCallPart {
	taken := func(id string) bool {
		for _, o := range res.message.ToolCalls() {
			if o.ToolCallID == id {
				return true
			}
		}
		for _, it := range turnItems(t.s.items) {
			if it.Kind == KindAnswer {
				for _, o := range it.Message.ToolCalls() {
					if o.ToolCallID == id {
						return true
					}
				}
			}
		}
		return false
	}
	if c.ToolCallID != "" && !taken(c.ToolCallID) {
		return c
	}
	base := c.ToolCallID
	if base == "" {
		base = "call"
	}
	for n := 2; ; n++ {
		if id := fmt.Sprintf("%s_%d", base, n); !taken(id) {
			c.ToolCallID, c.Raw = id, nil
			return c
		}
	}
}

// request is the model call for what the transcript holds.
func (t *turn) request(tg Target) model.Request {
	r := model.Request{
		Model: tg.ModelID, System: t.systemPrompt(), Messages: history(t.s.items), Tools: t.tools(),
		MaxOutputTokens: tg.MaxOutputTokens, ReasoningEffort: t.s.h.set.ReasoningEffort,
		SessionID: t.s.opts.SessionID, Headers: t.s.opts.Headers,
	}
	if f := t.o.ResponseFormat; f != nil && f.Type == harness.ResponseFormatJSON {
		r.ResponseSchema = f.Schema
	}
	return r
}

// record commits the answer with its facts. A step without calls ends here.
func (t *turn) record(step int, res *received) error {
	tg := t.targets[t.target]
	it := Item{
		Kind: KindAnswer, Step: step, Message: &res.message, Finish: &res.finish, Usage: &res.usage,
		Provider: tg.Provider, Model: res.model, ActiveMS: t.working(), Truncated: res.truncated,
	}
	status := event.CostUnpricedModel
	if tg.Cost != nil {
		it.CostUSD, status = tg.Cost(res.usage)
	}
	calls := res.message.ToolCalls()
	if err := t.s.append(t.ctx, it); err != nil {
		return err
	}
	var facts []event.Payload
	if res.reasoning.Len() > 0 {
		facts = append(facts, event.ReasoningCompletePayload{Text: res.reasoning.String(), Tokens: count(res.usage.OutputTokens.Reasoning)})
	}
	if res.text.Len() > 0 {
		facts = append(facts, event.AssistantMessagePayload{Content: res.text.String()})
	}
	facts = append(facts, t.usageDelta(res.usage, it.CostUSD, status, tg.PricingVersion),
		event.LLMTurnCompletedPayload{
			ToolCalls: len(calls), TotalDurationMS: res.took.Milliseconds(), TTFTMS: res.ttft.Milliseconds(),
			Provider: tg.Provider, Model: res.model, FinishReason: string(res.finish.Unified),
		})
	if len(calls) == 0 {
		facts = append(facts, event.RunStepCompletedPayload{DurationMS: res.took.Milliseconds()})
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
	total, _ := turnCost(t.s.items)
	p := event.UsageDeltaPayload{
		UsageStatus: "reported", CostStatus: status, TurnUsage: raw, TurnCostUSD: cost,
		CumulativeUsage: Totals(turnUsage(t.s.items), u), CumulativeCostUSD: total, PricingVersion: pricing,
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
// call is taken to cost what the last one did.
func (t *turn) checkBudget(step int, prev answer, hadAnswer bool) error {
	b := t.s.h.set.Budget
	ended := t.stepEnd(prev, hadAnswer)
	if b.MaxSteps > 0 && step > b.MaxSteps {
		t.s.journal(ended...)
		return &TurnError{Reason: event.ReasonMaxSteps, Message: fmt.Sprintf("the run used its %d steps without an end", b.MaxSteps)}
	}
	if used := Totals(turnUsage(t.s.items), ai.Usage{}).TotalTokens; b.MaxTokens > 0 && used >= b.MaxTokens {
		t.s.journal(ended...)
		return &TurnError{Reason: event.ReasonMaxTokens, Message: fmt.Sprintf("the run used %d of %d tokens", used, b.MaxTokens)}
	}
	if b.MaxCostUSD <= 0 {
		return nil
	}
	if t.targets[t.target].Cost == nil {
		return &TurnError{Reason: event.ReasonMaxCost, Message: fmt.Sprintf("the model %s has no price, so max_cost_usd cannot be kept: add its price to the model catalogue or leave the limit out", t.targets[t.target].ModelID)}
	}
	total, last := turnCost(t.s.items)
	if total+last > b.MaxCostUSD && total > 0 {
		t.s.journal(append(ended, at(step-1, event.RunCostLimitReachedPayload{MaxCostUSD: b.MaxCostUSD, CumulativeCostUSD: total})...)...)
		return &TurnError{Reason: event.ReasonMaxCost, Message: fmt.Sprintf("the next model call could exceed the limit of %.4f USD (%.4f used)", b.MaxCostUSD, total)}
	}
	return nil
}

// deltaFacts joins the many small pieces of arguments into fewer facts.
type deltaFacts struct {
	t    *turn
	step int
	cur  model.Part
	buf  strings.Builder
}

const deltaBytes = 512

func (d *deltaFacts) add(p model.Part) {
	if p.Index != d.cur.Index || (p.ID != "" && d.cur.ID != "" && p.ID != d.cur.ID) {
		d.flush()
		d.cur = model.Part{Index: p.Index}
	}
	if p.ID != "" {
		d.cur.ID = p.ID
	}
	if p.Name != "" {
		d.cur.Name = p.Name
	}
	d.cur.Index = p.Index
	d.buf.WriteString(p.Text)
	if d.buf.Len() >= deltaBytes {
		d.flush()
	}
}

func (d *deltaFacts) flush() {
	if d.buf.Len() == 0 {
		return
	}
	d.t.s.emit(d.step, event.ToolCallDeltaPayload{Index: d.cur.Index, CallID: d.cur.ID, Tool: d.cur.Name, Arguments: d.buf.String()})
	d.buf.Reset()
}
