package native

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/model"
)

// received is what a model call gave.
type received struct {
	message   ai.Message
	truncated []string
	finish    ai.FinishReason
	usage     ai.Usage
	model     string
	ttft      time.Duration
	took      time.Duration

	textDeltas, reasoningDeltas bool // the server sends them
	ids                         map[int]callName
}

// callName is a call's id as the server gave it, and the one that it has here.
type callName struct{ given, id string }

func (r *received) empty() bool {
	return len(r.message.ToolCalls()) == 0 && r.message.Text() == "" && !cuts(r.finish.Unified) && !paused(&r.finish)
}

// cuts tells of a finish after which an answer may lack its end.
func cuts(k ai.FinishReasonKind) bool { return k == ai.FinishLength || k == ai.FinishContentFilter }

func reasoningOf(m ai.Message) string {
	var b strings.Builder
	for _, p := range m.Content {
		if r, ok := p.(ai.ReasoningPart); ok {
			b.WriteString(r.Text)
		}
	}
	return b.String()
}

// emptyAnswer is the error of an answer that holds nothing.
func emptyAnswer(provider string) error {
	return &model.Error{Kind: model.ErrIncomplete, Provider: provider, Code: attemptEmpty, Message: "the answer was empty"}
}

func isEmpty(err error) bool {
	e, ok := model.AsError(err)
	return ok && e.Code == attemptEmpty
}

// requested records that a model call is about to be made. opening are the facts that go with it in one commit.
func (t *turn) requested(step, attempt int, opening []event.Fact) error {
	tg := t.targets[t.target]
	facts := append(opening, t.resolved(step)...)
	if err := t.append(Item{Kind: KindAttempt, Step: step, Attempt: attempt, Provider: tg.Provider, Model: tg.ModelID}); err != nil {
		return err
	}
	t.s.journal(append(facts, at(step, event.LLMTurnRequestedPayload{Attempt: attempt, Provider: tg.Provider, Model: tg.ModelID})...)...)
	return nil
}

// callContext ends with the turn and with its suspension: the call is made again when the turn continues.
func (t *turn) callContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	go func() {
		select {
		case <-t.suspending:
			cancel(errSuspended)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// attempt makes one model call. The result, also beside an error, tells what the call consumed.
func (t *turn) attempt(step int, h *hold) (*received, error) {
	tg := t.targets[t.target]
	ctx, cancel := t.callContext()
	defer cancel()
	t.s.h.set.Fault("model.before")
	res := &received{message: ai.Message{Role: ai.RoleAssistant}, model: tg.ModelID, ids: map[int]callName{}}
	start := time.Now()
	err := t.receive(ctx, step, tg, h, res, start)
	t.out.closeBlocks()
	res.took = time.Since(start)
	if err != nil {
		return res, err
	}
	t.s.h.set.Fault("model.after")
	if err := finished(res, tg.Provider); err != nil {
		return res, err
	}
	switch {
	case res.empty():
		return res, emptyAnswer(tg.Provider)
	case cuts(res.finish.Unified): // what the model would have said next is not known
		res.truncated = nil
		for _, c := range res.message.ToolCalls() {
			res.truncated = append(res.truncated, c.ToolCallID)
		}
	}
	return res, nil
}

// finished checks that an answer came to its end.
func finished(r *received, provider string) error {
	switch r.finish.Unified {
	case "":
		return &model.Error{Kind: model.ErrIncomplete, Provider: provider, Message: "the stream ended without a finish"}
	case ai.FinishError:
		return &model.Error{Kind: model.ErrServer, Provider: provider, Message: "the provider ended the answer with an error: " + r.finish.Raw}
	}
	return nil
}

// receive reads the stream to its end.
func (t *turn) receive(ctx context.Context, step int, tg Target, h *hold, res *received, start time.Time) error {
	deltas := deltaFacts{t: t, step: step}
	req := t.request(tg, t.messages(step))
	req.MaxOutputTokens = h.maxOutput
	for p, err := range tg.Model.Stream(ctx, req) {
		if err != nil {
			return err
		}
		if res.ttft == 0 {
			res.ttft = time.Since(start)
		}
		if p.Kind != model.PartToolCallDelta {
			deltas.flush()
		}
		switch p.Kind {
		case model.PartTextDelta:
			t.textDelta(step, res, p.Text)
		case model.PartReasoningDelta:
			t.reasoningDelta(step, res, p.Text)
		case model.PartToolCallDelta:
			if p.ID != "" {
				p.ID = t.callID(res, p.Index, p.ID)
			}
			deltas.add(p)
		case model.PartContent:
			t.content(step, res, p)
		case model.PartFinish:
			res.finish, res.usage = p.Finish, p.Usage
			if p.ServedModel != "" {
				res.model = p.ServedModel
			}
		}
	}
	deltas.flush()
	return nil
}

func (t *turn) textDelta(step int, res *received, text string) {
	res.textDeltas = true
	t.s.emit(step, event.AssistantMessageDeltaPayload{Content: text})
	t.out.text(text)
}

func (t *turn) reasoningDelta(step int, res *received, text string) {
	res.reasoningDeltas = true
	t.s.emit(step, event.AssistantThinkingDeltaPayload{Content: text})
	t.out.reasoning(text)
}

// content takes a whole item. A text of a server that sends no deltas is shown at once.
func (t *turn) content(step int, res *received, p model.Part) {
	switch c := p.Content.(type) {
	case ai.TextPart:
		if !res.textDeltas && c.Text != "" {
			t.textDelta(step, res, c.Text)
			res.textDeltas = false
		}
	case ai.ReasoningPart:
		if !res.reasoningDeltas && c.Text != "" {
			t.reasoningDelta(step, res, c.Text)
			res.reasoningDeltas = false
		}
	case ai.ToolCallPart:
		id := t.callID(res, p.Index, c.ToolCallID)
		delete(res.ids, p.Index) // another call of a server that sends no index is another call
		if id != c.ToolCallID {
			c.ToolCallID, c.Raw = id, nil
		}
		if p.Truncated {
			res.truncated = append(res.truncated, id)
		}
		p.Content = c
	}
	t.out.closeBlocks()
	res.message.Content = append(res.message.Content, p.Content)
}

// callID gives a call an id that no other call of the session has. Some servers send none, or count anew in each
// answer.
func (t *turn) callID(res *received, index int, given string) string {
	if n, ok := res.ids[index]; ok && n.given == given {
		return n.id
	}
	taken := func(id string) bool {
		if id == "" || t.s.callIDs[id] {
			return true
		}
		for _, n := range res.ids {
			if n.id == id {
				return true
			}
		}
		for _, p := range res.message.Content {
			if c, ok := p.(ai.ToolCallPart); ok && c.ToolCallID == id {
				return true
			}
		}
		return false
	}
	id := given
	base := given
	if base == "" {
		base = "call"
	}
	for n := 2; taken(id); n++ {
		id = fmt.Sprintf("%s_%d", base, n)
	}
	res.ids[index] = callName{given, id}
	return id
}

// messages are what the transcript holds for a model. Files that no provider would take are left out, and the log
// says so once in a turn.
func (t *turn) messages(step int) []ai.Message {
	msgs := t.s.history.upTo(t.s.all())
	for _, note := range t.s.history.damaged {
		if !t.resumed {
			t.s.emit(step, event.PromptWarningPayload{Code: "file_left_out", Message: note})
		}
	}
	t.s.history.damaged = nil
	return msgs
}

// request is a model call with the messages.
func (t *turn) request(tg Target, messages []ai.Message) model.Request {
	r := model.Request{
		Model: tg.ModelID, System: t.systemPrompt(), Messages: messages, Tools: t.tools(),
		ReasoningEffort: t.s.h.set.ReasoningEffort, SessionID: t.s.opts.SessionID, Headers: t.s.opts.Headers,
	}
	if f := t.o.ResponseFormat; f != nil && f.Type == harness.ResponseFormatJSON {
		r.ResponseSchema = f.Schema
	}
	return r
}

// outputBound is how long the step's answer may be: what the model can, and what its window has room for beside the
// prompt. 0: the provider's own bound.
func (t *turn) outputBound(tg Target) int {
	if tg.MaxOutputTokens <= 0 || tg.ContextWindow <= 0 {
		return tg.MaxOutputTokens
	}
	left := tg.ContextWindow - t.s.size() - tg.ContextWindow/50 // an estimate may be low
	return int(max(min(int64(tg.MaxOutputTokens), left), worthwhileOutput))
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
