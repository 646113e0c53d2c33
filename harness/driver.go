package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/harness-go/harness/ai"
)

// turnGrace bounds the wait for an adapter, or for host tools, to end after they were told to.
const turnGrace = 30 * time.Second

var (
	errTurnEnded  = errors.New("harness: the turn has ended")
	errTurnFailed = errors.New("harness: the turn has failed")
)

// driver runs one turn, from its start or continuation to where it ends, pauses or is suspended. The adapter's parts
// come in through emit; run waits for what ends the turn. Host tools run in goroutines of their own, all of which end
// before run returns, unless they ignore their context for longer than turnGrace.
type driver struct {
	a   *Agent
	s   *AgentSession
	in  turnInput
	out sink

	ctx    context.Context
	cancel context.CancelCauseFunc
	// ready is closed when control is set, or when the turn could not start; ended when the session's state is that
	// after the turn.
	ready   chan struct{}
	ended   chan struct{}
	control TurnControl

	suspends chan suspendRequest
	// stopping is signalled when the driver itself wants the turn suspended: for a pause, or by StopWhen.
	stopping chan struct{}
	// failing is closed when the turn has failed.
	failing chan struct{}

	cfg       *turnConfig
	strip     stripper
	stripJSON stripper

	mu sync.Mutex
	turnParts
	calls hostCalls
}

type suspendRequest struct {
	ctx   context.Context
	reply chan error
}

func newDriver(ctx context.Context, s *AgentSession, in turnInput, out sink) *driver {
	d := &driver{
		a: s.agent, s: s, in: in, out: out,
		ready: make(chan struct{}), ended: make(chan struct{}),
		suspends: make(chan suspendRequest), stopping: make(chan struct{}, 1), failing: make(chan struct{}),
	}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	d.strip = newStripper(s.ws.workDir)
	d.stripJSON = stripper{dir: string(d.strip.jsonDir), jsonDir: d.strip.jsonDir}
	return d
}

// started takes the adapter's control over the turn.
func (d *driver) started(c TurnControl) {
	d.control = c
	close(d.ready)
}

// notStarted ends a driver whose turn did not start.
func (d *driver) notStarted(err error) {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel(err)
	d.waitHosts(nil)
	close(d.ready)
	close(d.ended)
}

// awaitControl waits until the turn runs, and reports whether it does.
func (d *driver) awaitControl(ctx context.Context) bool {
	select {
	case <-d.ready:
		return d.control != nil
	case <-ctx.Done():
		return false
	}
}

// suspend asks the turn to suspend and waits. Nil means that the turn does not run any more: it was suspended, or
// ended before it could be; the session's state tells.
func (d *driver) suspend(ctx context.Context) error {
	req := suspendRequest{ctx: ctx, reply: make(chan error, 1)}
	select {
	case d.suspends <- req:
	case <-d.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-req.reply:
		return err
	case <-d.ended:
		return nil
	}
}

// run waits for the turn to end, to pause or to be suspended.
func (d *driver) run() (*ai.GenerateTextResult, error) {
	defer d.cancel(errTurnEnded)
	defer d.stopSettling()
	d.submitContinuations()
	for {
		select {
		case <-d.control.Done():
			return d.finish()
		default:
		}
		select {
		case <-d.control.Done():
			return d.finish()
		case <-d.failing:
			d.waitDone()
			return d.finish()
		case <-d.ctx.Done():
			d.waitDone()
			return d.finish()
		case <-d.stopping:
			if !d.waitHosts(d.control.Done()) {
				continue // the turn ended, or was cancelled
			}
			if state, err := d.suspendAdapter(d.ctx); err != nil {
				d.fail(err)
			} else {
				return d.park(state)
			}
		case req := <-d.suspends:
			state, err := d.suspendAdapter(req.ctx)
			if err != nil {
				d.resumeSubmissions()
				req.reply <- err
				continue
			}
			r, err := d.park(state)
			req.reply <- nil
			return r, err
		}
	}
}

func (d *driver) stopSettling() { d.locked(d.stopSettlingLocked) }

func (d *driver) stopSettlingLocked() {
	d.settleLate = false
	if d.settleTimer != nil {
		d.settleTimer.Stop()
		d.settleTimer = nil
	}
}

// suspendAdapter freezes the adapter's turn. Afterwards no part comes any more.
func (d *driver) suspendAdapter(ctx context.Context) (*ContinueTurnState, error) {
	d.mu.Lock()
	d.suspending = true
	d.mu.Unlock()
	state, err := d.s.adapter.DoSuspendTurn(ctx)
	if err != nil {
		return nil, err
	}
	if state == nil {
		return nil, NewHarnessError(fmt.Sprintf("Harness '%s' gave no state for a suspended turn.", d.a.HarnessID()), nil)
	}
	if !d.waitDone() {
		return nil, NewHarnessError(fmt.Sprintf("Harness '%s' did not end the turn that it suspended.", d.a.HarnessID()), nil)
	}
	d.waitHosts(nil)
	return state, nil
}

// waitDone waits for the adapter to end its turn, and reports whether it did. After turnGrace the turn is cancelled;
// then the adapter has turnGrace again.
func (d *driver) waitDone() bool {
	for range 2 {
		t := time.NewTimer(turnGrace)
		select {
		case <-d.control.Done():
			t.Stop()
			return true
		case <-t.C:
			d.cancel(errTurnFailed)
		}
	}
	return false
}

// park ends the driver with an unfinished turn: paused where calls wait for somebody, else suspended. A turn that
// ended just before it could be frozen has ended.
func (d *driver) park(state *ContinueTurnState) (*ai.GenerateTextResult, error) {
	d.mu.Lock()
	over := d.finished != nil || d.failure != nil || d.control.Err() != nil
	d.mu.Unlock()
	if over {
		return d.finish()
	}
	full := d.s.continueState(state.Data, d.cfg)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.addPendingLocked(full)
	move, reason := moveSuspend, ai.FinishReason{Unified: ai.FinishOther}
	switch {
	case d.cut:
		reason = d.steps[len(d.steps)-1].FinishReason
	case d.pausing && len(d.approvals)+len(d.waiting) > 0:
		move = movePauseApproval
		if len(d.approvals) == 0 {
			move = movePauseResult
		}
		reason = ai.FinishReason{Unified: ai.FinishToolCalls}
		d.flushResults()
		if d.stepOpen {
			d.endStep(FinishStep{FinishReason: reason})
		}
	}
	usage := d.sumUsage()
	r := d.result(reason, usage)
	d.onEnd(r)
	d.s.endTurn(move, full)
	d.sendLast(ai.FinishPart{FinishReason: reason, TotalUsage: usage})
	close(d.ended)
	return r, nil
}

// finish ends the driver with a turn that is over.
func (d *driver) finish() (*ai.GenerateTextResult, error) {
	aborted := context.Cause(d.ctx)
	adapterErr := d.control.Err()
	if aborted == nil {
		d.mu.Lock()
		if d.failure == nil && d.finished == nil && adapterErr == nil && d.stepOpen {
			d.failLocked(errUnclosedStep)
		}
		d.mu.Unlock()
	}
	d.cancel(errTurnEnded)
	d.waitHosts(nil)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	reason, usage := ai.FinishReason{Unified: ai.FinishOther}, d.sumUsage()
	if f := d.finished; f != nil {
		reason = f.FinishReason
		if f.TotalUsage.Known() {
			usage = f.TotalUsage
		}
	}
	failure := d.failure
	if failure == nil && adapterErr != nil {
		failure = &TurnError{Value: streamErrorJSON(adapterErr), Cause: adapterErr}
	}
	var last ai.StreamPart = ai.FinishPart{FinishReason: reason, TotalUsage: usage}
	var err error
	switch {
	case d.finished != nil && failure == nil:
		// A turn that finished before it was cancelled has finished.
	case failure != nil && (aborted == nil || errors.Is(aborted, errTurnFailed)):
		last, err = ai.ErrorPart{Error: failure.Value}, failure
		reason = ai.FinishReason{Unified: ai.FinishError}
	case aborted != nil:
		last, err = ai.AbortPart{Reason: aborted.Error()}, aborted
	default:
		err = NewHarnessError(fmt.Sprintf("Harness '%s' ended the turn without a finish part.", d.a.HarnessID()), nil)
	}
	r := d.result(reason, usage)
	if err == nil {
		d.parseOutput(r)
	}
	d.onEnd(r)
	d.s.endTurn(moveFinish, nil)
	d.sendLast(last)
	close(d.ended)
	return r, err
}

// fail ends the turn with an error of ours.
func (d *driver) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failLocked(err)
}

// failLocked records the failure and stops the adapter.
func (d *driver) failLocked(err error) {
	d.failWith(&TurnError{Value: streamErrorJSON(err), Cause: err})
	d.cancel(errTurnFailed)
}

// failWith records the turn's failure. The first one counts.
func (d *driver) failWith(e *TurnError) {
	if d.failure != nil || d.closed {
		return
	}
	d.failure = e
	close(d.failing)
}

func (d *driver) parseOutput(r *ai.GenerateTextResult) {
	if d.a.output != nil {
		r.Output, r.OutputErr = d.a.output.Parse(r.Text)
	}
}

// addPending puts the calls that wait into a state.
func (d *driver) addPending(state *ContinueTurnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addPendingLocked(state)
}

func (d *driver) addPendingLocked(state *ContinueTurnState) {
	state.PendingToolApprovals = append([]PendingToolApproval(nil), d.approvals...)
	state.PendingToolResults = append([]PendingToolResult(nil), d.waiting...)
	for _, c := range d.calls.order {
		if c.completed != nil && !c.submitted {
			state.PendingToolResults = append(state.PendingToolResults, PendingToolResult{
				ToolCallID: c.call.ToolCallID, ToolName: c.call.ToolName, Input: c.call.Input,
				ProviderOptions: c.call.ProviderMetadata, CompletedResult: c.completed,
			})
		}
	}
}
