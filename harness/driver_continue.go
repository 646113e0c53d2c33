package harness

import (
	"fmt"

	"github.com/harness-go/harness/ai"
)

// resumeFrom takes over the calls of an unfinished turn, before the adapter continues it. With a gate the decisions on
// host calls are recorded here: a decision that contradicts the record is an error, and the turn stays as it is.
func (d *driver) resumeFrom(state *ContinueTurnState) error {
	if gate := d.a.set.Gate; gate != nil {
		for _, r := range d.in.approvals {
			p, ok := findApproval(state.PendingToolApprovals, r.ApprovalID)
			if !ok || p.Kind != PendingToolApprovalCustom {
				continue
			}
			if err := gate.Resolve(d.ctx, p.ToolCallID, p.ApprovalID, r.Approved, r.Reason); err != nil {
				return fmt.Errorf("decision on approval %s: %w", p.ApprovalID, err)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resumed = true
	for _, p := range state.PendingToolApprovals {
		d.swallow = true
		d.approvals = append(d.approvals, p)
		d.calls.add(&callState{
			fromState: true, host: p.Kind == PendingToolApprovalCustom, dropEcho: p.Kind == PendingToolApprovalCustom,
			call: ToolCall{ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: p.Input, ProviderExecuted: p.ProviderExecuted, NativeName: p.NativeName},
		})
	}
	for _, p := range state.PendingToolResults {
		c := &callState{
			fromState: true, host: true, dropEcho: true, completed: p.CompletedResult,
			call: ToolCall{ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: p.Input, ProviderMetadata: Metadata(p.ProviderOptions)},
		}
		if p.CompletedResult == nil {
			d.swallow = true
			d.waiting = append(d.waiting, p)
		}
		d.calls.add(c)
	}
	return nil
}

func findApproval(list []PendingToolApproval, id string) (PendingToolApproval, bool) {
	for _, p := range list {
		if p.ApprovalID == id {
			return p, true
		}
	}
	return PendingToolApproval{}, false
}

// submitContinuations gives the adapter the decisions and results that the turn is continued with. Those that answer
// nothing are ignored. Only then can the turn pause again, so that no decision is lost to a pause.
func (d *driver) submitContinuations() {
	d.mu.Lock()
	var builtin []ToolApprovalSubmission
	approvals := d.approvals
	for _, r := range d.in.approvals {
		p, ok := findApproval(approvals, r.ApprovalID)
		if !ok {
			continue
		}
		c := d.calls.byID[p.ToolCallID]
		d.decided = true
		d.sendResponse(p, r)
		if p.Kind == PendingToolApprovalBuiltin {
			c.unsettled = true
			d.unsettled++
			d.resolve(p.ToolCallID)
			builtin = append(builtin, ToolApprovalSubmission{ApprovalID: r.ApprovalID, Approved: r.Approved, Reason: r.Reason})
			continue
		}
		d.continueHostCall(c, r)
	}
	if d.a.set.Gate != nil {
		d.askGateAgain()
	}
	var results []ToolResultSubmission
	for _, r := range d.in.results {
		for _, w := range d.waiting {
			if w.ToolCallID == r.ToolCallID {
				d.decided = true
				r.ToolName = w.ToolName
				results = append(results, submissionOf(r, w.ProviderOptions))
				d.calls.byID[r.ToolCallID].submitted = true
				d.resolve(r.ToolCallID)
				break
			}
		}
	}
	var completed []*callState
	for _, c := range d.calls.order {
		if c.fromState && c.completed != nil && !c.submitted {
			completed = append(completed, c)
		}
	}
	d.mu.Unlock()

	for _, a := range builtin {
		d.submitApproval(a)
	}
	for _, r := range results {
		if err := d.control.SubmitToolResult(d.ctx, r); err != nil {
			d.fail(fmt.Errorf("give the result of call %s to the harness: %w", r.ToolCallID, err))
		}
	}
	for _, c := range completed {
		d.submit(c)
	}
	d.locked(func() {
		d.submitted = true
		d.maybePause()
	})
}

// sendResponse shows a decision.
func (d *driver) sendResponse(p PendingToolApproval, r ai.ToolApprovalResponseContent) {
	d.sendContent(ai.ToolApprovalResponse{
		ApprovalID: p.ApprovalID, Approved: r.Approved, Reason: r.Reason, ProviderExecuted: isTrue(p.ProviderExecuted),
		ToolCall: d.display(ToolCall{ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: p.Input, ProviderExecuted: p.ProviderExecuted}),
	})
}

// continueHostCall does what was decided about a host call. It runs with the input that was recorded when it was asked
// about, whatever the caller's messages say. With a gate askGateAgain does it, because the gate has the decision.
func (d *driver) continueHostCall(c *callState, r ai.ToolApprovalResponseContent) {
	if d.a.set.Gate != nil {
		return
	}
	t, offered := d.cfg.tools.active[c.call.ToolName]
	c.unsettled = true
	d.unsettled++
	d.resolve(c.call.ToolCallID)
	switch {
	case !r.Approved:
		d.answer(c, denied(r.Reason), false)
	case !offered:
		d.answer(c, denied(BuiltinToolFilteringDenialReason(c.call.ToolName)), false)
	default:
		d.spawn(func() { d.runAllowed(c, t, nil, r.Reason) })
	}
}

// askGateAgain takes every host call that waits for a decision back to the gate: the record says what became of it.
func (d *driver) askGateAgain() {
	for _, p := range append([]PendingToolApproval(nil), d.approvals...) {
		if p.Kind != PendingToolApprovalCustom {
			continue
		}
		c := d.calls.byID[p.ToolCallID]
		c.asked = &p
		d.resolve(p.ToolCallID) // it waits again when the gate says so
		t, offered := d.cfg.tools.active[c.call.ToolName]
		if !offered {
			d.answer(c, denied(BuiltinToolFilteringDenialReason(c.call.ToolName)), false)
			continue
		}
		d.spawn(func() { d.decideAndRun(c, t, nil, false) })
	}
}
