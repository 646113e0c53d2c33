package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/tool"
)

// decideAndRun decides a host call and runs it where it is allowed. It runs in a host goroutine.
func (d *driver) decideAndRun(c *callState, t ai.Tool, needs func(context.Context, json.RawMessage, ai.ToolExecutionOptions) (bool, error), ask bool) {
	if needs != nil {
		yes, err := needs(d.ctx, json.RawMessage(c.call.Input), d.toolOptions(c, ""))
		ask = ask || yes || err != nil
	}
	gate := d.a.set.Gate
	if gate == nil {
		if ask {
			d.locked(func() { d.ask(c, generateID()) })
			return
		}
		d.runAllowed(c, t, nil, "")
		return
	}
	rec, err := gate.Recall(d.ctx, c.call.ToolCallID)
	if err != nil {
		d.fail(err)
		return
	}
	if rec.Started {
		d.runRecorded(c, t, rec)
		return
	}
	call := d.gateCall(c, t)
	if ask {
		call.Ask = c.call.ToolName + " is configured to ask for every call"
		if needs != nil {
			call.Ask = c.call.ToolName + " asks for this call"
		}
	}
	dec, err := gate.Decide(d.ctx, call)
	if err != nil {
		d.fail(err)
		return
	}
	switch dec.Outcome {
	case control.Allow:
		d.runAllowed(c, t, dec.Permit, dec.Reason)
	case control.Ask:
		d.locked(func() {
			if c.asked == nil {
				d.ask(c, dec.ApprovalID)
				return
			}
			d.approvals = append(d.approvals, *c.asked)
			c.announced = true
			d.maybePause()
		})
	default:
		d.complete(c, mustJSON(denied(dec.Reason)), false)
	}
}

// runRecorded goes on with a call whose start is on record: its result is given again; without one it is settled.
func (d *driver) runRecorded(c *callState, t ai.Tool, rec control.Record) {
	if rec.Ended != nil {
		d.complete(c, mustJSON(rec.Ended.Output), rec.Ended.Error != "")
		return
	}
	permit, outcome, err := d.a.set.Gate.Settle(d.ctx, d.gateCall(c, t), rec)
	switch {
	case err != nil:
		d.fail(err)
	case outcome != nil:
		d.complete(c, mustJSON(outcome.Output), true)
	default:
		d.runAllowed(c, t, permit, "")
	}
}

// gateCall is a host call as the gate sees it. Host calls belong to no step that the driver could number.
func (d *driver) gateCall(c *callState, t ai.Tool) control.Call {
	kind := tool.KindOther
	if t.ReadOnly {
		kind = tool.KindReadonly
	}
	check := d.cfg.tools.checks[c.call.ToolName]
	return control.Call{
		ID: c.call.ToolCallID, Harness: d.a.HarnessID(), Tool: c.call.ToolName, Kind: kind,
		Arguments: json.RawMessage(c.call.Input), Cwd: d.s.ws.workDir,
		Check: func(args json.RawMessage) error {
			if check == nil {
				return nil
			}
			return check(args)
		},
	}
}

func (d *driver) toolOptions(c *callState, reason string) ai.ToolExecutionOptions {
	return ai.ToolExecutionOptions{
		ToolCallID: c.call.ToolCallID, ToolContext: d.cfg.toolsContext[c.call.ToolName],
		RuntimeContext: d.cfg.runtimeContext, ApprovalReason: reason,
	}
}

// runAllowed runs a call that is allowed. With a permit its start and result are recorded. A client tool is not run:
// the caller gives its result.
func (d *driver) runAllowed(c *callState, t ai.Tool, permit *control.Permit, reason string) {
	if t.Execute == nil {
		d.locked(func() {
			if c.fromState {
				// It was approved; its result is the next thing to wait for.
				d.resolve(c.call.ToolCallID)
			}
			c.dropEcho = false
			d.wait(c)
		})
		return
	}
	input := json.RawMessage(c.call.Input)
	if permit != nil {
		if err := permit.Begin(d.ctx); err != nil {
			var refused *control.RefusedError
			if errors.As(err, &refused) {
				d.complete(c, mustJSON(denied(refused.Error())), false)
				return
			}
			d.fail(fmt.Errorf("start of call %s of %s: %w", c.call.ToolCallID, c.call.ToolName, err))
			return
		}
		input = permit.Arguments()
	}
	began := time.Now()
	output, err := execute(d.ctx, t, input, d.toolOptions(c, reason))
	c.duration = time.Since(began)
	failed := err != nil
	if failed {
		output = mustJSON(err.Error())
	}
	if permit != nil {
		o := control.CallOutcome{Output: outputText(output)}
		if failed {
			o.Error = tool.CodeFailed
		}
		if err := permit.End(context.WithoutCancel(d.ctx), o); err != nil {
			d.fail(fmt.Errorf("result of call %s of %s: %w", c.call.ToolCallID, c.call.ToolName, err))
			return
		}
	}
	d.complete(c, output, failed)
}

// execute runs the tool. A panic and a result that is not JSON are failures of the call.
func execute(ctx context.Context, t ai.Tool, input json.RawMessage, o ai.ToolExecutionOptions) (out json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, &panicError{value: r, stack: debug.Stack()}
		}
	}()
	v, err := t.Execute(ctx, input, o)
	if err != nil {
		return nil, err
	}
	b, err := plainJSON(v)
	if err != nil {
		return nil, errors.New("the tool's result cannot be written as JSON")
	}
	return b, nil
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("the tool panicked: %v", e.value) }

// answer completes a call without running anything. driver.mu is held.
func (d *driver) answer(c *callState, output any, failed bool) {
	out := mustJSON(output)
	d.spawn(func() { d.complete(c, out, failed) })
}

// complete gives a call's result to the adapter, or keeps it in the state of a turn that is being suspended.
func (d *driver) complete(c *callState, output json.RawMessage, failed bool) {
	d.mu.Lock()
	c.completed = &CompletedToolResult{Output: output}
	if failed {
		c.completed.IsError = &failed
	}
	d.resolve(c.call.ToolCallID)
	if d.suspending || c.fromState && c.dropEcho {
		d.showResult(c)
	}
	keep := d.suspending
	d.mu.Unlock()
	if !keep {
		d.submit(c)
	}
}

// showResult shows the result of a call at once, because its echo will not be shown.
func (d *driver) showResult(c *callState) {
	if d.closed || d.failure != nil {
		return
	}
	c.dropEcho = true
	shown := d.display(c.call)
	out := d.strip.json(c.completed.Output.(json.RawMessage))
	if isDenied(out) {
		return
	}
	if isTrue(c.completed.IsError) {
		d.sendContent(ai.ToolError{ToolCallID: shown.ToolCallID, ToolName: shown.ToolName, Input: shown.Input, Error: out})
		return
	}
	d.sendContent(ai.ToolResult{ToolCallID: shown.ToolCallID, ToolName: shown.ToolName, Input: shown.Input, Output: out})
}

// submit gives the host's result to the adapter. If the turn is frozen first, the result stays for its state.
func (d *driver) submit(c *callState) {
	if !d.awaitControl(d.ctx) {
		return
	}
	d.mu.Lock()
	r := ToolResultSubmission{ToolCallID: c.call.ToolCallID, Output: c.completed.Output, IsError: isTrue(c.completed.IsError), ToolResult: c.completed.ToolResult}
	if c.unsettled {
		c.unsettled = false
		d.unsettled--
	}
	c.submitted = true
	d.mu.Unlock()
	if err := d.control.SubmitToolResult(d.ctx, r); err != nil {
		d.mu.Lock()
		c.submitted = false
		frozen := d.suspending
		d.mu.Unlock()
		if !frozen {
			d.fail(fmt.Errorf("give the result of call %s to the harness: %w", c.call.ToolCallID, err))
		}
		return
	}
	d.locked(d.maybePause)
}

// resumeSubmissions gives the adapter what was kept for a suspension that came to nothing.
func (d *driver) resumeSubmissions() {
	d.mu.Lock()
	d.suspending = false
	var kept []*callState
	for _, c := range d.calls.order {
		if c.completed != nil && !c.submitted {
			kept = append(kept, c)
		}
	}
	d.mu.Unlock()
	for _, c := range kept {
		d.submit(c)
	}
}

func (d *driver) submitApproval(a ToolApprovalSubmission) {
	if !d.awaitControl(d.ctx) {
		return
	}
	s, ok := d.control.(ToolApprovalSubmitter)
	if !ok {
		id := d.a.HarnessID()
		d.fail(NewCapabilityUnsupportedError(fmt.Sprintf("Harness '%s' does not support built-in tool approval requests; use permissionMode: 'allow-all'.", id), id, nil))
		return
	}
	if err := s.SubmitToolApproval(d.ctx, a); err != nil {
		d.fail(fmt.Errorf("give the decision on %s to the harness: %w", a.ApprovalID, err))
	}
}

func (d *driver) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// mustJSON is the JSON of values that always have one.
func mustJSON(v any) json.RawMessage {
	b, err := plainJSON(v)
	if err != nil {
		b, _ = plainJSON(err.Error())
	}
	return b
}

// outputText is the text of an output: a string itself, other JSON as it is.
func outputText(out json.RawMessage) string {
	var s string
	if len(out) > 0 && out[0] == '"' && json.Unmarshal(out, &s) == nil {
		return s
	}
	return string(out)
}

func isDenied(out json.RawMessage) bool {
	var v executionDenied
	return json.Unmarshal(out, &v) == nil && v.Type == string(ai.OutputExecutionDenied)
}
