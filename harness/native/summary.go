package native

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/model"
)

const (
	// maxSummaryOutput bounds the summarising call's answer in tokens, its reasoning included.
	maxSummaryOutput = 8 << 10
	// maxSummaryBytes bounds the text that is kept of it.
	maxSummaryBytes = 16 << 10
	// summaryTokens is what a summary is taken to need before it is there.
	summaryTokens = 1500
)

const summaryPrompt = `Summarise the conversation above for whoever goes on with the work and will not see it.
Say what was found out, what was changed and where, which commands were run with what outcome, what failed and why, which decisions were made for which reason, and what is left to do. Name files, functions, numbers and error texts exactly. Leave out the task itself, the todo list and the messages of the user: they are kept as they are. Report only what happened; make no rules.
Answer with the summary as plain text, at most a page. Call no tool.`

// summary is what the summarising call gave.
type summary struct {
	received
	made   bool
	text   string
	target Target
	cost   float64
	status event.CostStatus
}

// summaryError is a summary that could not be had. The compaction goes on without it.
type summaryError struct{ err error }

func (e *summaryError) Error() string { return e.err.Error() }
func (e *summaryError) Unwrap() error { return e.err }

// summaryBegun reports whether a summarising call of the step was made already.
func summaryBegun(items []Item, step int) bool {
	return attempts(items, step, event.PurposeSummary).made > 0
}

// summarise lets the model summarise what is before the cut. The call has its own attempts, with the retries and
// fallbacks of any other; how often it was made follows from the transcript.
func (t *turn) summarise(step int, o *opening, items []Item, cut int, instructions string) (summary, error) {
	tried := attempts(items, step, event.PurposeSummary)
	target := t.target
	for i, tg := range t.targets {
		if tried.made > 0 && tg.Provider == tried.provider && tg.ModelID == tried.model {
			target = i
		}
	}
	if tried.open { // the process died in the middle of the call
		o.add(step, event.LLMAttemptDiscardedPayload{Attempt: tried.made, Purpose: event.PurposeSummary, Reason: attemptInterrupted})
	}
	for {
		tg := t.targets[target]
		err := errLost
		if tried.reached < model.MaxAttempts {
			var sum summary
			if sum, err = t.summaryAttempt(step, o, tg, tried.made+1, t.summaryRequest(tg, items, cut, instructions)); err == nil {
				return sum, nil
			}
			var refused *summaryError
			if errors.As(err, &refused) {
				return summary{}, err
			}
			tried = attempts(t.s.all(), step, event.PurposeSummary)
			if stop := t.stop(); stop != nil {
				_ = t.discard(step, event.PurposeSummary, tg, tried, &sum.received, errInterrupted, 0, false) // the turn ends anyway
				return summary{}, stop
			}
			again, wait := t.again(err, tried)
			if derr := t.discard(step, event.PurposeSummary, tg, tried, &sum.received, err, wait, again); derr != nil {
				return summary{}, derr
			}
			if again {
				if err := t.wait(wait); err != nil {
					return summary{}, err
				}
				continue
			}
		}
		if target = t.next(target); target < 0 {
			return summary{}, &summaryError{err}
		}
		tried = tries{made: tried.made}
	}
}

// summaryAttempt makes the call once.
func (t *turn) summaryAttempt(step int, o *opening, tg Target, attempt int, req model.Request) (sum summary, err error) {
	prompt := int64(messageTokens)
	for _, m := range req.Messages {
		prompt += messageSize(m)
	}
	h, err := t.reserve(step, tg, prompt, req.MaxOutputTokens, 0)
	if err != nil {
		var te *TurnError
		if errors.As(err, &te) {
			return sum, &summaryError{err}
		}
		return sum, err
	}
	defer func() { h.settle(sum.usage, sum.cost, err == nil) }()
	req.MaxOutputTokens = h.maxOutput
	if err := t.append(Item{Kind: KindAttempt, Step: step, Attempt: attempt, Purpose: event.PurposeSummary, Provider: tg.Provider, Model: tg.ModelID}); err != nil {
		return sum, err
	}
	t.s.journal(append(o.take(), at(step, event.LLMTurnRequestedPayload{Attempt: attempt, Purpose: event.PurposeSummary, Provider: tg.Provider, Model: tg.ModelID})...)...)

	ctx, cancel := t.callContext()
	defer cancel()
	t.s.h.set.Fault("summary.before")
	sum.target, sum.model = tg, tg.ModelID
	start := time.Now()
	err = sum.read(ctx, tg, req, start)
	sum.took = time.Since(start)
	if sum.status = event.CostUnpricedModel; tg.Cost != nil && sum.usage.Known() {
		sum.cost, sum.status = tg.Cost(sum.usage)
	}
	t.s.h.set.Fault("summary.after")
	if err != nil {
		return sum, err
	}
	sum.text = cutText(strings.TrimSpace(sum.message.Text()), maxSummaryBytes)
	if sum.text == "" {
		return sum, emptyAnswer(tg.Provider)
	}
	sum.made = true
	return sum, nil
}

// read takes the answer's text. What else it holds is not asked for.
func (s *summary) read(ctx context.Context, tg Target, req model.Request, start time.Time) error {
	for p, err := range tg.Model.Stream(ctx, req) {
		if err != nil {
			return err
		}
		if s.ttft == 0 {
			s.ttft = time.Since(start)
		}
		switch p.Kind {
		case model.PartContent:
			if text, ok := p.Content.(ai.TextPart); ok {
				s.message.Content = append(s.message.Content, text)
			}
		case model.PartFinish:
			s.finish, s.usage = p.Finish, p.Usage
			if p.ServedModel != "" {
				s.model = p.ServedModel
			}
		}
	}
	return finished(&s.received, tg.Provider)
}

// summaryRequest is the conversation before the cut with the request to summarise it. It begins like the requests
// before it, so that a provider's prompt cache serves it; what would not fit is left out.
func (t *turn) summaryRequest(tg Target, items []Item, cut int, instructions string) model.Request {
	r := t.request(tg, nil)
	r.ToolChoice, r.ResponseSchema = model.ToolChoiceNone, nil
	r.MaxOutputTokens = maxSummaryOutput
	if tg.MaxOutputTokens > 0 {
		r.MaxOutputTokens = min(r.MaxOutputTokens, tg.MaxOutputTokens)
	}
	ask := summaryPrompt
	if instructions != "" {
		ask += "\nThe user asks you to mind this: " + cutText(instructions, maxStateText)
	}
	r.Messages = append(t.summarised(tg, items, cut), ai.UserMessage(ask))
	return r
}

// summarised are the messages before the cut: as the model has seen them where they fit, else without long outputs,
// and else without the oldest.
func (t *turn) summarised(tg Target, items []Item, cut int) []ai.Message {
	rec := recordOf(items)
	var h history
	room := t.summaryRoom(tg, items) - t.s.prefixSize()
	if room > 0 && sizeWith(items[:cut], &rec) > room {
		rec.StripBefore = cut
		for size := sizeWith(items[:cut], &rec); rec.From < cut && size > room; rec.From++ {
			size -= sizeIn(&items[rec.From], true)
		}
	}
	return h.compacted(items[:cut], &rec)
}

// summaryRoom is what the summarising call's prompt may hold: what the window takes, and clearly less than what the
// provider has just refused.
func (t *turn) summaryRoom(tg Target, items []Item) int64 {
	room := int64(math.MaxInt64)
	if tg.ContextWindow > 0 {
		room = usable(tg) - summaryTokens
	}
	tail, _ := sinceAnswer(items)
	for i := range tail {
		if tail[i].Kind == KindAttempt && tail[i].Error == causeLength {
			room = min(room, t.s.size()/2)
		}
	}
	return room
}
