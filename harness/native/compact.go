package native

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/tool"
)

// enough is how full of its limit a context may be after outputs were cut out, so that no summary is made beside it.
const enough = 0.7

// compaction is one that is due.
type compaction struct {
	cause        string
	mode         tool.CompactMode
	keepLast     int
	instructions string
}

func (c Compaction) automatic() compaction {
	return compaction{mode: cmp.Or(c.Mode, tool.CompactHybrid), keepLast: keptLast(c.KeepLast)}
}

// limit is the size at which the history is made shorter, 0 when it never is.
func (t *turn) limit() int64 {
	c, tg := t.s.h.set.Compaction, t.targets[t.target]
	if !c.Auto || tg.ContextWindow <= 0 {
		return 0
	}
	return min(int64(c.threshold()*float64(tg.ContextWindow)), usable(tg))
}

func (c Compaction) threshold() float64 {
	if c.Threshold <= 0 || c.Threshold > 1 {
		return 0.8
	}
	return c.Threshold
}

// makeRoom sees to it that the step's request fits the model's window, as far as that is known, and does the
// compactions that were asked for. What is due follows from the transcript, so a process that died in the middle of
// one is followed by another that does it.
func (t *turn) makeRoom(step int, o *opening) error {
	set := t.s.h.set.Compaction
	auto := set.automatic()
	if r := t.s.tally().request; r != nil {
		t.measure()
		c := compaction{cause: causeRequested, mode: cmp.Or(r.Mode, auto.mode), keepLast: auto.keepLast, instructions: r.Instructions}
		if r.KeepLast > 0 {
			c.keepLast = keptLast(r.KeepLast)
		}
		if _, err := t.compact(step, o, c); err != nil {
			return err
		}
	}
	if times, compacted := tooLong(t.s.all(), step); times == 1 && !compacted && set.Auto {
		if _, err := t.shorten(step, o, auto); err != nil {
			return err
		}
	}
	limit := t.limit()
	if limit == 0 || t.s.size() <= limit {
		return nil
	}
	t.measure()
	tg := t.targets[t.target]
	if size := t.irreducible(); size > usable(tg) {
		return t.tooLarge("system prompt, tools and task alone", size)
	}
	auto.cause = causeThreshold
	items := t.s.all()
	if helped(items) && t.worthwhile(items, auto) {
		if _, err := t.compact(step, o, auto); err != nil {
			return err
		}
	}
	if size := t.s.size(); size > usable(tg) {
		return t.tooLarge("the next request, of which no more can be left out,", size)
	}
	return nil
}

// shorten makes the history shorter after a provider refused it. It reports whether that is worth another attempt.
func (t *turn) shorten(step int, o *opening, c compaction) (bool, error) {
	t.measure()
	c.cause = causeLength
	items := t.s.all()
	if !helped(items) || !t.worthwhile(items, c) {
		return false, nil
	}
	return t.compact(step, o, c)
}

// irreducible is the estimate of what every request of the turn holds.
func (t *turn) irreducible() int64 {
	n := t.s.prefixSize()
	if turn := turnItems(t.s.all()); len(turn) > 0 && turn[0].Kind == KindPrompt {
		text := cutText(turn[0].Message.Text(), maxTaskBytes)
		n += messageTokens + textTokens(text) + int64(len(filesOf(&turn[0])))*fileTokens
	}
	return n
}

func (t *turn) tooLarge(what string, size int64) error {
	tg := t.targets[t.target]
	items := t.s.all()
	rec := recordOf(items)
	return &TurnError{Reason: event.ReasonContextLength, Message: fmt.Sprintf(
		"%s holds about %d tokens, more than the %d of %d that a prompt may fill for %s: system prompt and tools take %d, the messages %d. Start with less, take tools away, or use a model with a larger context window",
		what, size, usable(tg), tg.ContextWindow, tg.ModelID, t.s.prefixSize(), sizeWith(items, &rec))}
}

// worthwhile reports whether a compaction would free enough to be made.
func (t *turn) worthwhile(items []Item, c compaction) bool {
	now := recordOf(items)
	before := sizeWith(items, &now)
	whole := t.s.prefixSize() + before
	least := worth * float64(whole)
	if t.s.size() > 3*whole { // the provider counts quite otherwise: the estimate tells nothing of the whole
		least = 0
	}
	strip, drop := ways(items, c.keepLast)
	for _, r := range []*CompactionRecord{&strip, &drop} {
		if r.idle() || c.mode == tool.CompactStrip && r == &drop {
			continue
		}
		r.State = t.state(items, r.From)
		after := sizeWith(items, r)
		if r == &drop {
			after += min(summaryTokens, before/8) // a summary is to come
		}
		if freed := float64(before - after); freed > 0 && freed >= least {
			return true
		}
	}
	return false
}

// compact makes the history shorter and commits that with its facts. It reports whether anything was taken away.
func (t *turn) compact(step int, o *opening, c compaction) (bool, error) {
	t.s.h.set.Fault("compact.before")
	items := t.s.all()
	before, window := t.s.size(), t.targets[t.target].ContextWindow
	strip, drop := ways(items, c.keepLast)
	strip.State, drop.State = t.state(items, strip.From), t.state(items, drop.From)
	if c.cause != causeRequested && !summaryBegun(items, step) {
		p := event.AutoCompactStartedPayload{Cause: c.cause, Mode: string(c.mode), KeepLast: c.keepLast, Tokens: before, Window: window}
		if c.cause == causeThreshold {
			p.Threshold = t.s.h.set.Compaction.threshold()
		}
		o.add(step, p)
	}
	rec, sum := strip, summary{}
	if t.needsSummary(items, c, &strip, &drop, before) {
		var err error
		sum, err = t.summarise(step, o, items, drop.From, c.instructions)
		var failed *summaryError
		switch {
		case err == nil:
			rec, rec.Summary = drop, sum.text
		case errors.As(err, &failed):
			rec.SummaryError = failed.Error()
		default:
			return false, err
		}
	}
	if rec.From == 0 {
		rec.State = nil // nothing was dropped that it would have to stand for
	}
	rec.Cause, rec.TokensBefore = c.cause, before
	rec.TokensAfter = t.s.prefixSize() + sizeWith(items, &rec)
	if rec.idle() {
		rec.TokensAfter = before
	}
	it := Item{Kind: KindCompaction, Step: step, Compaction: &rec}
	if sum.made {
		it.Provider, it.Model, it.Usage, it.CostUSD = sum.target.Provider, sum.model, &sum.usage, sum.cost
	}
	if err := t.append(it); err != nil {
		return false, err
	}
	facts := o.take()
	if sum.made {
		facts = append(facts, at(step, event.LLMTurnCompletedPayload{
			Purpose: event.PurposeSummary, TotalDurationMS: sum.took.Milliseconds(), TTFTMS: sum.ttft.Milliseconds(),
			Provider: sum.target.Provider, Model: sum.model, FinishReason: string(sum.finish.Unified),
		}, t.usageDelta(sum.usage, sum.cost, sum.status, sum.target.PricingVersion))...)
	}
	var done event.Payload = event.CompactHistoryCompletedPayload{Compacted: rec.done(c.mode, c.keepLast)}
	trigger := "manual"
	if c.cause != causeRequested {
		trigger, done = "auto", event.AutoCompactCompletedPayload{Cause: c.cause, Compacted: rec.done(c.mode, c.keepLast)}
	}
	t.s.level = levelOf(t.s.size(), window)
	t.s.journal(append(facts, at(step, done, snapshot(t.s.Status()))...)...)
	t.out.send(harness.Compaction{Trigger: trigger, Summary: rec.Summary, TokensBefore: &rec.TokensBefore, TokensAfter: &rec.TokensAfter})
	t.s.h.set.Fault("compact.after")
	return !rec.idle(), nil
}

// needsSummary decides for the mode whether to drop messages for a summary, or only to cut outputs out. Messages that
// are no longer than what would stand for them are left.
func (t *turn) needsSummary(items []Item, c compaction, strip, drop *CompactionRecord, before int64) bool {
	now := recordOf(items)
	switch {
	case drop.idle() || c.mode == tool.CompactStrip || sizeWith(items, drop) >= sizeWith(items, &now):
		return false
	case c.mode == tool.CompactSummarize || strip.idle():
		return true
	}
	goal := t.limit()
	if goal == 0 || c.cause != causeThreshold {
		goal = before
	}
	return float64(t.s.prefixSize()+sizeWith(items, strip)) > enough*float64(goal)
}
