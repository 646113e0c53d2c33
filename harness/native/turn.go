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

// turn is one run of the loop, from a prompt or a continuation to its end or its suspension. Its goroutine owns the
// session's transcript; the submit methods only leave messages for it.
type turn struct {
	s       *session
	o       harness.TurnOptions
	targets []Target
	target  int // index of the target in use

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
	wake    chan struct{} // capacity 1: something was submitted

	// recordMu orders the results of calls that ran side by side.
	recordMu sync.Mutex

	out       partWriter
	announced map[string]bool // calls and asks whose parts were emitted
	began     time.Time
	activeMS  int64 // working time of earlier segments
}

func newTurn(ctx context.Context, s *session, o harness.TurnOptions, targets []Target) *turn {
	t := &turn{
		s: s, o: o, targets: targets, done: make(chan struct{}), suspending: make(chan struct{}),
		results: map[string]harness.ToolResultSubmission{}, wake: make(chan struct{}, 1),
		announced: map[string]bool{}, began: s.h.set.Now(), out: partWriter{emit: o.Emit},
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
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
	if t.isDone() {
		return fmt.Errorf("native: the turn has ended: result of call %s refused", r.ToolCallID)
	}
	t.mu.Lock()
	t.results[r.ToolCallID] = r
	t.mu.Unlock()
	t.nudge()
	return nil
}

// SubmitToolApproval implements harness.ToolApprovalSubmitter.
func (t *turn) SubmitToolApproval(ctx context.Context, a harness.ToolApprovalSubmission) error {
	if t.isDone() {
		return fmt.Errorf("native: the turn has ended: approval %s refused", a.ApprovalID)
	}
	callID := t.callOfApproval(ctx, a.ApprovalID)
	if err := t.s.gate.Resolve(ctx, callID, a.ApprovalID, a.Approved, a.Reason); err != nil {
		return err
	}
	t.nudge()
	return nil
}

// callOfApproval finds the unanswered call that an approval belongs to.
func (t *turn) callOfApproval(ctx context.Context, approvalID string) string {
	t.s.itemsMu.Lock()
	ans, _ := lastAnswer(t.s.items)
	t.s.itemsMu.Unlock()
	for _, c := range ans.calls() {
		if rec, err := t.s.gate.Recall(ctx, c.ToolCallID); err == nil && rec.Approval != nil && rec.Approval.ID == approvalID {
			return c.ToolCallID
		}
	}
	return ""
}

// SubmitUserMessage implements harness.UserMessageSubmitter: the text goes to the model before its next call.
func (t *turn) SubmitUserMessage(_ context.Context, text string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isDone() {
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
	err := t.loop(prompt)
	switch {
	case errors.Is(err, errSuspended):
		err = nil
	case err != nil && t.ctx.Err() != nil:
		err = context.Cause(t.ctx)
	}
	t.out.close()
	t.mu.Lock()
	t.err = err
	close(t.done)
	t.mu.Unlock()
	t.cancel(nil)
}

// loop does what the transcript says is next, until the turn is done.
func (t *turn) loop(prompt *ai.Message) error {
	t.out.send(harness.StreamStart{ModelID: t.targets[t.target].ModelID})
	if prompt != nil {
		if err := t.begin(*prompt); err != nil {
			return err
		}
	}
	t.activeMS = activeTime(t.s.items)
	if limit := t.s.h.set.Budget.Timeout; limit > 0 {
		left := limit - time.Duration(t.activeMS)*time.Millisecond
		timer := time.AfterFunc(left, func() {
			t.cancel(&TurnError{Reason: event.ReasonTimeout, Message: fmt.Sprintf("the run worked longer than its limit of %s", limit)})
		})
		defer timer.Stop()
	}
	for {
		if err := t.stop(); err != nil {
			return err
		}
		switch w := nextWork(t.s.items); w.phase {
		case phaseModel:
			if err := t.modelStep(w.step); err != nil {
				return err
			}
		case phaseCalls:
			if err := t.settleCalls(w.step, w.answer); err != nil {
				return err
			}
		case phaseDone:
			steered, err := t.takeSteering(w.step)
			if err != nil || steered {
				if err != nil {
					return err
				}
				continue
			}
			t.out.done(w.answer, turnUsage(t.s.items))
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
	prior := 0
	for _, it := range t.s.items {
		if it.Message != nil {
			prior++
		}
	}
	t.s.h.set.Activation.Cleanup(t.s.opts.SessionID)
	t.s.todos.Set(nil)
	if err := t.s.append(t.ctx, Item{Kind: KindPrompt, Message: &prompt}); err != nil {
		return err
	}
	if prior > 0 {
		t.s.emit(0, event.ConversationContinuedPayload{PriorMessageCount: prior})
	}
	return t.s.checkpoint(t.ctx)
}

// takeSteering moves submitted messages into the transcript and reports whether there were any.
func (t *turn) takeSteering(step int) (bool, error) {
	t.mu.Lock()
	texts := t.steer
	t.steer = nil
	t.mu.Unlock()
	for _, text := range texts {
		msg := ai.UserMessage(text)
		if err := t.s.append(t.ctx, Item{Kind: KindSteer, Step: step, Message: &msg}); err != nil {
			return false, err
		}
		t.s.emit(step, event.SteeringReceivedPayload{Message: text})
	}
	return len(texts) > 0, nil
}

// working is the turn's working time so far, in milliseconds.
func (t *turn) working() int64 { return t.activeMS + t.s.h.set.Now().Sub(t.began).Milliseconds() }

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
	b, err := json.Marshal(v)
	return string(b), err
}
