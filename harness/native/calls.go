package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/tool"
)

// settleCalls brings every call of an answer to a result. Calls that may run do so, readonly ones side by side;
// those that wait for a person, or for the host, leave the turn waiting without holding the others up.
func (t *turn) settleCalls(step int, a answer) error {
	for {
		select {
		case <-t.wake: // whatever was submitted so far is seen by the pass below
		default:
		}
		if _, err := t.takeSteering(step, false); err != nil {
			return err
		}
		if now, ok := lastAnswer(t.s.all()); ok {
			a.results = now.results
		}
		open := a.open()
		if len(open) == 0 {
			t.out.finishStep(ai.FinishReason{Unified: ai.FinishToolCalls}, usageOf(a.item))
			return t.s.checkpoint(t.ctx)
		}
		waiting, err := t.pass(step, a, open)
		if err != nil {
			return err
		}
		if waiting == 0 {
			continue
		}
		if err := t.s.checkpoint(t.ctx); err != nil {
			return err
		}
		if err := t.idle(a); err != nil {
			return err
		}
	}
}

// idle waits for something to be submitted. Waiting for people is no work; a host tool that runs is.
func (t *turn) idle(a answer) error {
	if !slices.ContainsFunc(a.open(), func(c ai.ToolCallPart) bool { return t.isHostTool(c.ToolName) }) {
		t.clock.stop()
		defer t.clock.start()
	}
	select {
	case <-t.wake:
		return nil
	case <-t.suspending:
		return errSuspended
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}

func usageOf(it Item) ai.Usage {
	if it.Usage == nil {
		return ai.Usage{}
	}
	return *it.Usage
}

// announce sends a call as a part, once in this segment. n is the number of calls that the step still has open. A
// call that waits is announced after all others were worked on: the host may suspend the turn as soon as it has seen
// every call of the step. A question that is refused is not announced as one: nobody is to answer it.
func (t *turn) announce(c ai.ToolCallPart, n int, d disposition) {
	t.recordMu.Lock()
	defer t.recordMu.Unlock()
	if t.announced[c.ToolCallID] != "" {
		return
	}
	p := harness.ToolCall{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Input: c.Input, StepToolCallCount: n}
	if p.Input == "" {
		p.Input = "{}"
	}
	yes := true
	switch {
	case t.isHostTool(c.ToolName):
	case c.ToolName == questionTool:
		p.NativeName = questionTool
		in, err := commonQuestions(c.Input)
		if (d.waiting || d.answered) && err == nil {
			p.ToolName, p.Input = t.partName(questionTool), in
		} else {
			p.ProviderExecuted, p.Dynamic = &yes, &yes
		}
	default:
		p.ProviderExecuted, p.NativeName = &yes, c.ToolName
	}
	t.announced[c.ToolCallID] = p.ToolName
	t.out.send(p)
}

// partName is the name of a tool on the stream.
func (t *turn) partName(toolName string) string {
	if toolName == questionTool && !t.isHostTool(toolName) {
		return string(harness.BuiltinToolAskUserQuestions)
	}
	return toolName
}

func (t *turn) isHostTool(name string) bool {
	return slices.ContainsFunc(t.o.Tools, func(h harness.ToolSpec) bool { return h.Name == name })
}

// pass goes over the open calls once, in order, and returns how many still wait.
func (t *turn) pass(step int, a answer, open []ai.ToolCallPart) (waiting int, err error) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	r := runner{t: t, step: step, cancel: cancel, slots: make(chan struct{}, t.s.h.set.MaxParallel)}
	var late []func()
	for _, c := range open {
		if err := t.stop(); err != nil {
			r.wait()
			return 0, err
		}
		d, err := t.decide(ctx, step, a, c)
		if err != nil {
			r.wait()
			return 0, errors.Join(err, r.err)
		}
		if d.waiting {
			waiting++
			late = append(late, func() {
				t.announce(c, len(open), d)
				if d.ask != nil {
					t.out.send(*d.ask)
				}
			})
			continue
		}
		t.announce(c, len(open), d)
		switch {
		case d.result != nil:
			if err := t.recordResult(step, c, *d.result, d.facts...); err != nil {
				r.wait()
				return 0, err
			}
		case d.parallel:
			r.start(ctx, c, d)
		default:
			r.wait() // a call with side effects runs alone
			if r.err == nil {
				r.one(ctx, c, d)
			}
		}
		if r.failed() != nil {
			break
		}
	}
	r.wait()
	if err := r.failed(); err != nil {
		return 0, err
	}
	for _, announce := range late {
		announce()
	}
	return waiting, nil
}

// disposition is what is to be done with a call: it waits, it has its result, or it runs with its permit.
type disposition struct {
	waiting  bool
	ask      *harness.ToolApprovalRequest // to be announced with a waiting call
	answered bool                         // the result is a person's answer
	result   *tool.Result
	facts    []event.Payload
	tool     *tool.Tool
	permit   *control.Permit
	parallel bool
}

func refused(res tool.Result, facts ...event.Payload) disposition {
	return disposition{result: &res, facts: facts}
}

// decide finds out what is to be done with a call.
func (t *turn) decide(ctx context.Context, step int, a answer, c ai.ToolCallPart) (disposition, error) {
	if t.isHostTool(c.ToolName) {
		d, err := t.given(c)
		d.waiting = d.result == nil
		return d, err
	}
	blocked := func(stage control.Stage, code, format string, args ...any) (disposition, error) {
		res := tool.Failure(code, format, args...)
		return refused(res, event.ToolCallBlockedPayload{CallID: c.ToolCallID, Tool: c.ToolName, Stage: string(stage), Reason: fmt.Sprintf(format, args...)}), nil
	}
	tl, ok := t.s.h.tools.Lookup(c.ToolName)
	switch {
	case !ok:
		return blocked(control.StageArguments, tool.CodeUnknownTool, "there is no tool %q; available: %s", c.ToolName, strings.Join(t.toolNames(), ", "))
	case !t.s.included(c.ToolName):
		return blocked(control.StageDeclared, tool.CodePermissionDenied, "%s", harness.BuiltinToolFilteringDenialReason(c.ToolName))
	case slices.Contains(a.item.Truncated, c.ToolCallID):
		return blocked(control.StageArguments, tool.CodeInvalidArguments, "the answer was cut before its end, so the call of %s was not made: send it again with less in one answer", c.ToolName)
	}
	args, err := tl.CheckArguments(c.Input)
	if err == nil && c.ToolName == questionTool {
		_, err = parseQuestions(c.Input)
	}
	if err != nil {
		return blocked(control.StageArguments, tool.CodeInvalidArguments, "%s", err)
	}
	call := t.call(step, c, tl, args)
	rec, err := t.s.gate.Recall(ctx, c.ToolCallID)
	if err != nil {
		return disposition{}, err
	}
	switch {
	case rec.Ended != nil:
		return refused(resultOf(*rec.Ended)), nil
	case rec.Started:
		return t.settleStarted(ctx, call, tl, rec)
	}
	d, err := t.s.gate.Decide(ctx, call)
	if err != nil {
		return disposition{}, err
	}
	switch d.Outcome {
	case control.Allow:
		if c.ToolName == questionTool {
			return t.question(ctx, step, c, d.Arguments)
		}
		return disposition{tool: tl, permit: d.Permit, parallel: tl.Definition().Parallel}, nil
	case control.Ask:
		w := disposition{waiting: true}
		if key := c.ToolCallID + "/" + d.ApprovalID; !t.asked[key] {
			t.asked[key] = true
			w.ask = &harness.ToolApprovalRequest{ApprovalID: d.ApprovalID, ToolCallID: c.ToolCallID}
		}
		return w, nil
	}
	return refused(tool.Failure(tool.CodePermissionDenied, "%s", d.Reason)), nil
}

// settleStarted is for a call that was started by a process that died.
func (t *turn) settleStarted(ctx context.Context, call control.Call, tl *tool.Tool, rec control.Record) (disposition, error) {
	p, outcome, err := t.s.gate.Settle(ctx, call, rec)
	switch {
	case err != nil:
		return disposition{}, err
	case outcome != nil:
		return refused(resultOf(*outcome)), nil
	}
	return disposition{tool: tl, permit: p, parallel: tl.Definition().Parallel}, nil
}

func (t *turn) call(step int, c ai.ToolCallPart, tl *tool.Tool, args json.RawMessage) control.Call {
	d := tl.Definition()
	kind := tl.KindOf(args)
	out := control.Call{
		ID: c.ToolCallID, Step: step, Harness: HarnessID, Tool: d.Name, Kind: kind, Arguments: args,
		Cwd: t.s.opts.SessionWorkDir, Deferred: d.Tier == tool.TierDeferred,
	}
	if d.Name != questionTool { // a question is asked as the model wrote it, or not at all
		out.Check = func(raw json.RawMessage) error {
			checked, err := tl.CheckArguments(string(raw))
			if err == nil && tl.KindOf(checked) != kind {
				// The policy decides by the kind that the model's arguments have.
				err = fmt.Errorf("the call would be of kind %s and not %s", tl.KindOf(checked), kind)
			}
			return err
		}
	}
	return out
}

// given takes what the host submitted for a call: the result of its own tool, or the answer to a question. Without
// that the disposition is empty.
func (t *turn) given(c ai.ToolCallPart) (disposition, error) {
	t.mu.Lock()
	r, ok := t.results[c.ToolCallID]
	t.mu.Unlock()
	switch {
	case !ok:
		return disposition{}, nil
	case c.ToolName == questionTool && !t.isHostTool(questionTool):
		qs, err := parseQuestions(c.Input)
		if err != nil {
			return disposition{}, nil // refused by decide
		}
		d, err := answered(qs, r)
		d.answered = true
		return d, err
	case !t.isHostTool(c.ToolName):
		return disposition{}, nil
	}
	text, err := outputValue(r.Output)
	if err != nil {
		return disposition{}, fmt.Errorf("native: result of call %s: %w", c.ToolCallID, err)
	}
	res := tool.Result{Output: text}
	if r.IsError {
		res.Error = tool.CodeFailed
	}
	return refused(res), nil
}

func resultOf(o control.CallOutcome) tool.Result {
	return tool.Result{Output: o.Output, Error: o.Error, Truncated: o.Truncated, Artifact: o.Artifact, Diff: o.Diff, Details: o.Details}
}
