package harness

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/harness-go/harness/ai"
)

// hostCalls are the calls of the turn that the driver knows. driver.mu guards it.
type hostCalls struct {
	byID  map[string]*callState
	order []*callState
	// running host goroutines; idle is closed when the last one ends.
	running int
	idle    chan struct{}
}

// callState is one call.
type callState struct {
	call ToolCall
	// host: the host answers the call.
	host bool
	// fromState: the call was announced before the turn was continued.
	fromState bool
	// dropEcho: the result was, or will be, shown by the driver or never; the adapter's echo is not shown.
	dropEcho bool
	// asked is the record of a host call that waited for a decision before the turn was continued.
	asked *PendingToolApproval
	// announced: the call waits, and was announced since the turn began or continued.
	announced bool
	// unasked: a call of the runtime that was neither asked about nor has a result.
	unasked bool
	// unsettled: the continuation decided the call, and its result has not come yet.
	unsettled bool

	completed *CompletedToolResult // the host's result
	submitted bool                 // and the adapter has it
	duration  time.Duration
}

func (h *hostCalls) add(c *callState) {
	if h.byID == nil {
		h.byID = map[string]*callState{}
	}
	h.byID[c.call.ToolCallID] = c
	h.order = append(h.order, c)
}

// display is a call as the consumer sees it.
func (d *driver) display(p ToolCall) ai.ToolCall {
	input := p.Input
	if input == "" {
		input = "{}"
	}
	return ai.ToolCall{
		ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: jsonText(d.stripJSON.text(input)), Dynamic: isTrue(p.Dynamic),
		ProviderExecuted: isTrue(p.ProviderExecuted), ProviderMetadata: ai.ProviderMetadata(p.ProviderMetadata),
	}
}

// toolCall takes a call. One that is known is announced again by an adapter that continues the turn.
func (d *driver) toolCall(p ToolCall) {
	if c := d.calls.byID[p.ToolCallID]; c != nil {
		if c.fromState && d.waits(p.ToolCallID) && !d.waitsForAdapter(p.ToolCallID) {
			c.announced = true
			d.maybePause()
		}
		return
	}
	d.ensureStep()
	d.stepCalls++
	if p.StepToolCallCount > 0 {
		d.stepCount = p.StepToolCallCount
	}
	if p.Input == "" {
		p.Input = "{}"
	}
	_, isUser := d.cfg.tools.all[p.ToolName]
	_, isBuiltin := d.a.builtin[p.ToolName]
	user, offered := d.cfg.tools.active[p.ToolName]
	isUser = isUser && (offered || !isBuiltin)
	byRuntime := isTrue(p.ProviderExecuted) || isBuiltin && !offered
	question := isBuiltin && !offered && p.ToolName == string(BuiltinToolAskUserQuestions)

	c := &callState{call: p, host: !byRuntime || question}
	d.calls.add(c)
	shown := d.display(p)
	problem := d.checkCall(p, isUser || isBuiltin, c.host && !question)
	if problem != nil {
		shown.Dynamic, shown.Invalid = true, true
		shown.Error = &ai.StreamError{Name: errorName(problem), Message: problem.Error()}
	}
	d.content = append(d.content, shown)
	d.send(shown)

	switch {
	case !c.host:
		c.unasked = true
		d.unasked++
	case problem != nil:
		d.answer(c, problem.Error(), true)
	case question:
		d.wait(c)
	case !offered:
		d.answer(c, denied(BuiltinToolFilteringDenialReason(p.ToolName)), false)
	default:
		d.hostCall(c, user, shown)
	}
	d.maybePause()
}

// checkCall says what is wrong with a call.
func (d *driver) checkCall(p ToolCall, known, byHost bool) error {
	if !known && !isTrue(p.Dynamic) {
		return &ai.NoSuchToolError{ToolName: p.ToolName, AvailableTools: mergedOrder(d.a.builtin, d.cfg.tools.all)}
	}
	if !json.Valid([]byte(p.Input)) {
		return &ai.InvalidToolInputError{ToolName: p.ToolName, ToolInput: p.Input, Cause: errors.New("the input is not valid JSON")}
	}
	if check := d.cfg.tools.checks[p.ToolName]; check != nil && byHost {
		if err := check([]byte(p.Input)); err != nil {
			return &ai.InvalidToolInputError{ToolName: p.ToolName, ToolInput: p.Input, Cause: err}
		}
	}
	return nil
}

// hostCall takes a valid call of an active host tool.
func (d *driver) hostCall(c *callState, t ai.Tool, shown ai.ToolCall) {
	decision := ResolveCustomToolApproval(d.a.set.ToolApproval, c.call.ToolName)
	_, configured := d.a.set.ToolApproval[c.call.ToolName]
	switch decision.Type {
	case CustomToolApprovalDeny:
		id := generateID()
		d.sendContent(ai.ToolApprovalRequest{ApprovalID: id, ToolCall: shown, IsAutomatic: true})
		d.sendContent(ai.ToolApprovalResponse{ApprovalID: id, ToolCall: shown, Reason: decision.Reason})
		d.answer(c, denied(decision.Reason), false)
	case CustomToolApprovalRequest:
		if d.a.set.Gate == nil {
			d.ask(c, generateID())
			return
		}
		fallthrough // the gate keeps the record of what is asked
	default:
		needs := t.NeedsApproval
		if configured {
			needs = nil
		}
		if t.Execute == nil && d.a.set.Gate == nil && needs == nil {
			d.wait(c)
			return
		}
		d.spawn(func() { d.decideAndRun(c, t, needs, decision.Type == CustomToolApprovalRequest) })
	}
}

func (d *driver) sendContent(p interface {
	ai.StreamPart
	ai.StepContent
}) {
	d.content = append(d.content, p)
	d.send(p)
}

// ask puts a host call on the list of those that wait for a decision.
func (d *driver) ask(c *callState, approvalID string) {
	no := false
	d.approvals = append(d.approvals, PendingToolApproval{
		ApprovalID: approvalID, ToolCallID: c.call.ToolCallID, ToolName: c.call.ToolName, Input: c.call.Input,
		Kind: PendingToolApprovalCustom, ProviderExecuted: &no,
	})
	d.ensureStep()
	d.sendContent(ai.ToolApprovalRequest{ApprovalID: approvalID, ToolCall: d.display(c.call)})
	c.announced = true
	d.maybePause()
}

// wait puts a call on the list of those that wait for the caller's result.
func (d *driver) wait(c *callState) {
	d.waiting = append(d.waiting, PendingToolResult{
		ToolCallID: c.call.ToolCallID, ToolName: c.call.ToolName, Input: c.call.Input, ProviderOptions: c.call.ProviderMetadata,
	})
	c.announced = true
	d.maybePause()
}

// waits reports whether a call is on one of the lists.
func (d *driver) waits(callID string) bool {
	for _, w := range d.waiting {
		if w.ToolCallID == callID {
			return true
		}
	}
	for _, a := range d.approvals {
		if a.ToolCallID == callID {
			return true
		}
	}
	return false
}

// waitsForAdapter reports whether a call waits for a decision that the adapter asks for itself.
func (d *driver) waitsForAdapter(callID string) bool {
	for _, a := range d.approvals {
		if a.ToolCallID == callID {
			return a.Kind == PendingToolApprovalBuiltin
		}
	}
	return false
}

// approvalRequest takes an adapter's request for one of its own calls.
func (d *driver) approvalRequest(p ToolApprovalRequest) {
	c := d.calls.byID[p.ToolCallID]
	if c == nil {
		d.failLocked(NewHarnessError("Tool approval request '"+p.ApprovalID+"' references unknown tool call '"+p.ToolCallID+"'.", nil))
		return
	}
	if !IsBuiltinToolIncluded(d.cfg.tools.filtering, c.call.ToolName) {
		d.asked(c)
		reason := BuiltinToolFilteringDenialReason(c.call.ToolName)
		d.spawn(func() { d.submitApproval(ToolApprovalSubmission{ApprovalID: p.ApprovalID, Reason: reason}) })
		return
	}
	for i := range d.approvals {
		if d.approvals[i].ToolCallID != p.ToolCallID {
			continue
		}
		// The adapter asks again. Where it has a new id for it, that one is the one to answer.
		d.approvals[i].ApprovalID = p.ApprovalID
		c.announced = true
		d.maybePause()
		return
	}
	if c.unsettled {
		return // decided, and asked again before the decision arrived
	}
	d.asked(c)
	d.ensureStep()
	d.approvals = append(d.approvals, PendingToolApproval{
		ApprovalID: p.ApprovalID, ToolCallID: p.ToolCallID, ToolName: c.call.ToolName, Input: c.call.Input,
		Kind: PendingToolApprovalBuiltin, ProviderExecuted: c.call.ProviderExecuted, NativeName: c.call.NativeName,
	})
	d.sendContent(ai.ToolApprovalRequest{ApprovalID: p.ApprovalID, ToolCall: d.display(c.call)})
	c.announced = true
	d.maybePause()
}

// asked notes that nothing more is to be learnt about a call before the turn can pause.
func (d *driver) asked(c *callState) {
	if c.unasked {
		c.unasked = false
		d.unasked--
	}
}

// settleGrace is how long a turn that is to pause waits for what may still come of its calls.
const settleGrace = time.Second

// maybePause pauses the turn when calls wait and nothing more of the step is to be collected first.
//
// In a step that began in this turn that is when all its calls were announced, as far as the adapter says how many
// there are, and each of the runtime's own was asked about or has a result. In a step that goes on after a
// continuation the calls are not all announced again: there the turn pauses when a call that waits was announced and
// the decided calls have their results. Where nothing is announced, the results alone tell that the adapter waits,
// unless a gate may have decided calls that we do not know of.
//
// A runtime may take its calls one after the other, so that the requests and results of the others would never come.
// After settleGrace the turn pauses without them; what a runtime has in hand when it is suspended is the adapter's to
// bring to its end.
func (d *driver) maybePause() {
	if d.closed || d.pausing || !d.submitted || len(d.approvals)+len(d.waiting) == 0 {
		return
	}
	var unsettled int
	switch {
	case !d.resumed:
		if d.stepCalls < d.stepCount {
			return
		}
		if d.stepCount > 0 {
			unsettled = d.unasked
		}
	case d.anyAnnounced():
		unsettled = d.unsettled
	case !d.decided || d.unsettled > 0 || d.a.set.Gate != nil:
		return
	}
	if unsettled > 0 && !d.settleLate {
		d.settleLater()
		return
	}
	d.pausing = true
	d.signalStop()
}

func (d *driver) settleLater() {
	if d.settleTimer != nil {
		return
	}
	d.settleTimer = time.AfterFunc(settleGrace, func() {
		d.locked(func() {
			d.settleLate = true
			d.maybePause()
		})
	})
}

// anyAnnounced reports whether one of the calls that wait was announced since the turn was continued.
func (d *driver) anyAnnounced() bool {
	for _, a := range d.approvals {
		if d.calls.byID[a.ToolCallID].announced {
			return true
		}
	}
	for _, w := range d.waiting {
		if d.calls.byID[w.ToolCallID].announced {
			return true
		}
	}
	return false
}

func (d *driver) signalStop() {
	select {
	case d.stopping <- struct{}{}:
	default:
	}
}

// spawn runs a host goroutine. driver.mu is held.
func (d *driver) spawn(f func()) {
	if d.calls.running == 0 {
		d.calls.idle = make(chan struct{})
	}
	d.calls.running++
	go func() {
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.calls.running--
			if d.calls.running == 0 {
				close(d.calls.idle)
			}
		}()
		f()
	}()
}

// waitHosts waits for the host goroutines, and reports whether they ended. It gives up when stop is closed, or
// turnGrace after the turn was cancelled.
func (d *driver) waitHosts(stop <-chan struct{}) bool {
	cancelled := d.ctx.Done()
	var late <-chan time.Time
	for {
		d.mu.Lock()
		n, idle := d.calls.running, d.calls.idle
		d.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-idle:
		case <-stop:
			return false
		case <-cancelled:
			if stop != nil {
				return false
			}
			t := time.NewTimer(turnGrace)
			defer t.Stop()
			cancelled, late = nil, t.C
		case <-late:
			return false
		}
	}
}
