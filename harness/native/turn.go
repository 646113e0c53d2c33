package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/tool"
)

// TurnError is how a turn fails. Reason is one of the Reason constants of package event.
type TurnError struct {
	Reason  string
	Message string
	Err     error
}

func (e *TurnError) Error() string { return e.Message }
func (e *TurnError) Unwrap() error { return e.Err }

// errSuspended ends a turn that is to be continued later.
var errSuspended = errors.New("native: turn suspended")

// turn is one run of the loop, from a prompt or a continuation to its end or its suspension. Its goroutine owns what
// follows from the transcript; the submit methods only leave messages for it.
type turn struct {
	s       *session
	o       harness.TurnOptions
	targets []Target
	target  int // index of the target in use
	clock   stopwatch

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	err    error

	// suspending is closed by suspend.
	suspending  chan struct{}
	suspendOnce sync.Once

	mu      sync.Mutex
	steer   []string
	results map[string]harness.ToolResultSubmission
	closed  bool          // nothing is taken any more
	wake    chan struct{} // capacity 1: something was submitted

	out partWriter
	// resumed: the turn goes on from an earlier segment.
	resumed bool

	recordMu  sync.Mutex        // orders the results of calls that ran side by side
	announced map[string]string // names of the calls whose parts were emitted, by call id
	asked     map[string]bool   // of the turn's goroutine: asks whose parts were emitted
}

func newTurn(ctx context.Context, s *session, o harness.TurnOptions, targets []Target) *turn {
	t := &turn{
		s: s, o: o, targets: targets, done: make(chan struct{}), suspending: make(chan struct{}),
		results: map[string]harness.ToolResultSubmission{}, wake: make(chan struct{}, 1),
		announced: map[string]string{}, asked: map[string]bool{}, out: partWriter{emit: o.Emit},
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	limit := s.h.set.Budget.Timeout
	t.clock = stopwatch{now: s.h.set.Now, limit: limit, expired: func() { t.cancel(timedOut(limit)) }}
	return t
}

func timedOut(limit time.Duration) error {
	return &TurnError{Reason: event.ReasonTimeout, Message: fmt.Sprintf("the run worked longer than its limit of %s", limit)}
}

// Done implements harness.TurnControl.
func (t *turn) Done() <-chan struct{} { return t.done }

// Err implements harness.TurnControl.
func (t *turn) Err() error {
	select {
	case <-t.done:
		return t.err
	default:
		return nil
	}
}

func (t *turn) isDone() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func (t *turn) suspend()          { t.suspendOnce.Do(func() { close(t.suspending) }) }
func (t *turn) abort(cause error) { t.cancel(cause) }

func (t *turn) isSuspending() bool {
	select {
	case <-t.suspending:
		return true
	default:
		return false
	}
}

// SubmitToolResult implements harness.TurnControl.
func (t *turn) SubmitToolResult(_ context.Context, r harness.ToolResultSubmission) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("native: the turn has ended: result of call %s refused", r.ToolCallID)
	}
	t.results[r.ToolCallID] = r
	t.nudge()
	return nil
}

// SubmitToolApproval implements harness.ToolApprovalSubmitter. The decision may be on record already, and the call made
// upon it, before it is submitted: that is no conflict.
func (t *turn) SubmitToolApproval(ctx context.Context, a harness.ToolApprovalSubmission) error {
	callID := t.callOfApproval(ctx, a.ApprovalID)
	if t.isDone() {
		rec, err := t.s.gate.Recall(ctx, callID)
		if err != nil {
			return err
		}
		if rec.Approval == nil || !rec.Approval.Status.Decided() {
			return fmt.Errorf("native: the turn has ended: approval %s refused", a.ApprovalID)
		}
	}
	if err := t.s.gate.Resolve(ctx, callID, a.ApprovalID, a.Approved, a.Reason); err != nil {
		return err
	}
	t.nudge()
	return nil
}

// callOfApproval finds the call that an approval belongs to.
func (t *turn) callOfApproval(ctx context.Context, approvalID string) string {
	if t.s.own != nil {
		return t.s.own.callOf(approvalID)
	}
	items := turnItems(t.s.all())
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].Kind != KindAnswer {
			continue
		}
		for _, c := range items[i].Message.ToolCalls() {
			if rec, err := t.s.gate.Recall(ctx, c.ToolCallID); err == nil && rec.Approval != nil && rec.Approval.ID == approvalID {
				return c.ToolCallID
			}
		}
	}
	return ""
}

// SubmitUserMessage implements harness.UserMessageSubmitter: the text goes to the model before its next call.
func (t *turn) SubmitUserMessage(_ context.Context, text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errors.New("native: the turn has ended: message refused")
	}
	t.steer = append(t.steer, text)
	t.nudge()
	return nil
}

func (t *turn) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run drives the loop to its end.
func (t *turn) run(prompt *ai.Message) {
	if prompt == nil {
		t.resumed = true
		t.resume()
	}
	t.clock.start()
	err := t.loop(prompt)
	t.clock.stop()
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	suspended := errors.Is(err, errSuspended)
	switch {
	case suspended:
		err = t.freeze()
	case err != nil && t.ctx.Err() != nil:
		err = context.Cause(t.ctx)
	}
	if !suspended {
		t.s.h.set.Activation.Cleanup(t.s.opts.SessionID)
	}
	t.out.close()
	t.err = err
	close(t.done)
	t.cancel(nil)
}

// freeze keeps what was submitted and not used yet, so that a suspended turn loses nothing.
func (t *turn) freeze() error {
	a, ok := lastAnswer(t.s.all())
	if _, err := t.takeSteering(a.item.Step, false); err != nil || !ok {
		return err
	}
	for _, c := range a.open() {
		d, err := t.given(c)
		if err != nil {
			return err
		}
		if d.result != nil {
			if err := t.recordResult(a.item.Step, c, *d.result, d.facts...); err != nil {
				return err
			}
		}
	}
	return nil
}

// loop does what the transcript says is next, until the turn is done.
func (t *turn) loop(prompt *ai.Message) error {
	t.out.send(harness.StreamStart{ModelID: t.targets[t.target].ModelID})
	if prompt == nil {
		t.catchUp()
	} else if err := t.begin(*prompt); err != nil {
		return err
	}
	for {
		if err := t.stop(); err != nil {
			return err
		}
		switch w := nextWork(t.s.all()); w.phase {
		case phaseModel:
			if err := t.modelStep(w.step); err != nil {
				return err
			}
		case phaseCalls:
			if err := t.settleCalls(w.step, w.answer); err != nil {
				return err
			}
		case phaseDone:
			steered, err := t.takeSteering(w.step, true)
			if err != nil {
				return err
			}
			if steered {
				continue
			}
			t.out.done(w.answer, t.s.tally().usage)
			return nil
		}
	}
}

// stop is the loop's safe place: it ends the turn when it was cancelled or is to be suspended.
func (t *turn) stop() error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if t.isSuspending() {
		return errSuspended
	}
	return nil
}

// begin records the prompt.
func (t *turn) begin(prompt ai.Message) error {
	prior := t.s.tally().messages
	t.s.h.set.Activation.Cleanup(t.s.opts.SessionID)
	t.s.todos.Set(nil)
	items, read, err := t.instructions()
	if err != nil {
		return err
	}
	if err := t.append(append(items, Item{Kind: KindPrompt, Message: &prompt})...); err != nil {
		return err
	}
	if len(read) > 0 {
		t.s.emit(0, event.PromptResolvedPayload{Files: read})
	}
	if prior > 0 {
		t.s.emit(0, event.ConversationContinuedPayload{PriorMessageCount: prior})
	}
	return t.s.checkpoint(t.ctx)
}

// instructions reads the workspace's instruction files, once in a session's life: later turns begin with the same
// system prompt whatever becomes of the files.
func (t *turn) instructions() ([]Item, []event.PromptFile, error) {
	if t.s.h.set.NoInstructionFiles || len(t.s.all()) > 0 {
		return nil, nil, nil
	}
	files, read, err := readInstructions(t.ctx, t.s.opts.SandboxSession, t.s.opts.SessionWorkDir)
	if err != nil || len(files) == 0 {
		return nil, read, err
	}
	t.s.instructions = files
	return []Item{{Kind: KindInstructions, Instructions: files}}, read, nil
}

// resume goes on where the turn stood: with the working time that it has used, and with the provider that served it
// last.
func (t *turn) resume() {
	t.clock.add(time.Duration(t.s.tally().activeMS) * time.Millisecond)
	provider, modelID := servedBy(t.s.all())
	for i, tg := range t.targets {
		if tg.Provider == provider && tg.ModelID == modelID {
			t.target = i
		}
	}
}

// catchUp tells the host what became of the calls that its state says are waiting, when a process got further with
// them and died before the host could keep a newer state.
func (t *turn) catchUp() {
	c := t.s.opts.ContinueFrom
	if c == nil || t.s.caughtUp {
		return
	}
	t.s.caughtUp = true
	waiting := map[string]bool{}
	for _, p := range c.PendingToolApprovals {
		waiting[p.ToolCallID] = true
	}
	for _, p := range c.PendingToolResults {
		waiting[p.ToolCallID] = p.CompletedResult == nil
	}
	items := turnItems(t.s.all())
	for i, it := range items {
		if it.Kind != KindAnswer {
			continue
		}
		known, settled := false, true
		results := resultsAfter(items[i+1:])
		for _, call := range it.Message.ToolCalls() {
			r, ok := results[call.ToolCallID]
			known = known || waiting[call.ToolCallID]
			settled = settled && ok
			if ok && waiting[call.ToolCallID] {
				t.recordMu.Lock()
				t.announced[call.ToolCallID] = t.partName(call.ToolName)
				t.recordMu.Unlock()
				t.out.result(call.ToolCallID, t.partName(call.ToolName), r.Output, r.Error != "")
			}
		}
		if known && settled {
			t.out.finishStep(ai.FinishReason{Unified: ai.FinishToolCalls}, usageOf(it))
		}
	}
}

// takeSteering moves submitted messages into the transcript and reports whether there were any. The last look of a
// turn refuses further messages when there are none.
func (t *turn) takeSteering(step int, last bool) (bool, error) {
	take := func() (list []Message) {
		for _, text := range t.steer {
			list = append(list, Message{Text: text})
		}
		t.steer = nil
		return list
	}
	t.mu.Lock()
	list := take()
	t.mu.Unlock()
	if inbox := t.s.h.set.Inbox; inbox != nil {
		more, err := inbox(t.ctx)
		if err != nil {
			return false, err
		}
		list = append(list, more...)
	}
	t.mu.Lock()
	list = append(list, take()...)
	t.closed = t.closed || last && len(list) == 0
	t.mu.Unlock()
	for _, m := range list {
		if err := t.receiveMessage(step, m); err != nil {
			return false, err
		}
	}
	return len(list) > 0, nil
}

// receiveMessage records one message with its fact.
func (t *turn) receiveMessage(step int, m Message) error {
	it := Item{Kind: KindSteer, Step: step}
	switch {
	case m.Todos != nil:
		it.Todos = *m.Todos
		if err := t.append(it); err != nil {
			return err
		}
		t.s.todos.Set(it.Todos)
		t.s.emit(step, event.TodosUpdatedPayload{Todos: t.s.todos.Get()})
	case m.Compact != nil:
		it.Compact = m.Compact
		return t.append(it)
	default:
		msg := ai.UserMessage(m.Text)
		it.Message = &msg
		if err := t.append(it); err != nil {
			return err
		}
		t.s.emit(step, event.SteeringReceivedPayload{Message: m.Text})
	}
	return nil
}

// append adds items to the transcript, with the working time. What happened is recorded also when the turn was
// cancelled meanwhile.
func (t *turn) append(items ...Item) error {
	at := t.clock.elapsed().Milliseconds()
	for i := range items {
		items[i].ActiveMS = at
	}
	return t.s.append(context.WithoutCancel(t.ctx), items...)
}

// outputValue is a submitted result as the text that the model reads.
func outputValue(v any) (string, error) {
	switch x := v.(type) {
	case nil:
		return "", nil
	case string:
		return x, nil
	case json.RawMessage:
		var s string
		if json.Unmarshal(x, &s) == nil {
			return s, nil
		}
		return string(x), nil
	}
	res, err := tool.JSONResult(v)
	return res.Output, err
}
