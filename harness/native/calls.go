package native

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

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
		a.results = mustAnswer(t.s.items).results
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
		select {
		case <-t.wake:
		case <-t.suspending:
			return errSuspended
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
}

func mustAnswer(items []Item) answer {
	a, _ := lastAnswer(items)
	return a
}

func usageOf(it Item) ai.Usage {
	if it.Usage == nil {
		return ai.Usage{}
	}
	return *it.Usage
}

// announce sends a call as a part, once in this segment. n is the number of calls that the step still has open. A
// call that waits is announced after all others were worked on: the host may suspend the turn as soon as it has seen
// every call of the step.
func (t *turn) announce(c ai.ToolCallPart, n int) {
	if t.announced[c.ToolCallID] {
		return
	}
	t.announced[c.ToolCallID] = true
	p := harness.ToolCall{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Input: c.Input, StepToolCallCount: n}
	if p.Input == "" {
		p.Input = "{}"
	}
	yes := true
	switch {
	case t.isHostTool(c.ToolName):
	case c.ToolName == questionTool:
		if in, err := commonQuestions(c.Input); err == nil {
			p.ToolName, p.NativeName, p.Input = string(harness.BuiltinToolAskUserQuestions), questionTool, in
		} else {
			p.ProviderExecuted = &yes // it will be refused, not asked
		}
	default:
		p.ProviderExecuted, p.NativeName = &yes, c.ToolName
	}
	t.out.send(p)
}

func (t *turn) isHostTool(name string) bool {
	for _, h := range t.o.Tools {
		if h.Name == name {
			return true
		}
	}
	return false
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
				t.announce(c, len(open))
				if d.ask != nil {
					t.out.send(*d.ask)
				}
			})
			continue
		}
		t.announce(c, len(open))
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
		return t.submitted(c.ToolCallID)
	}
	blocked := func(code, format string, args ...any) disposition {
		res := tool.Failure(code, format, args...)
		return refused(res, event.ToolCallBlockedPayload{CallID: c.ToolCallID, Tool: c.ToolName, Stage: string(control.StageArguments), Reason: failureMessage(res)})
	}
	tl, ok := t.s.h.tools.Lookup(c.ToolName)
	switch {
	case !ok:
		return blocked(tool.CodeUnknownTool, "there is no tool %q; available: %s", c.ToolName, strings.Join(t.toolNames(), ", ")), nil
	case contains(a.item.Truncated, c.ToolCallID):
		return blocked(tool.CodeInvalidArguments, "the arguments of %s were cut by the output limit, so the call was not made: send it again with less in one call", c.ToolName), nil
	}
	args, err := tl.CheckArguments(c.Input)
	if err != nil {
		return blocked(tool.CodeInvalidArguments, "%s", err), nil
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
		if key := c.ToolCallID + "/" + d.ApprovalID; !t.announced[key] {
			t.announced[key] = true
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
	return control.Call{
		ID: c.ToolCallID, Step: step, Harness: HarnessID, Tool: d.Name, Kind: d.Kind, Arguments: args,
		Cwd: t.s.opts.SessionWorkDir, Deferred: d.Tier == tool.TierDeferred,
		Check: func(raw json.RawMessage) error {
			_, err := tl.CheckArguments(string(raw))
			return err
		},
	}
}

// submitted takes the result that the host gave for a call of its own tools.
func (t *turn) submitted(callID string) (disposition, error) {
	t.mu.Lock()
	r, ok := t.results[callID]
	t.mu.Unlock()
	if !ok {
		return disposition{waiting: true}, nil
	}
	text, err := outputValue(r.Output)
	if err != nil {
		return disposition{}, err
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

func failureMessage(r tool.Result) string {
	var w struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(r.Output), &w) == nil {
		return w.Error.Message
	}
	return r.Output
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// runner runs the permitted calls of one pass.
type runner struct {
	t      *turn
	step   int
	cancel context.CancelCauseFunc
	slots  chan struct{}
	wg     sync.WaitGroup
	mu     sync.Mutex
	err    error
}

func (r *runner) start(ctx context.Context, c ai.ToolCallPart, d disposition) {
	r.slots <- struct{}{}
	r.wg.Add(1)
	go func() {
		defer func() { <-r.slots; r.wg.Done() }()
		r.one(ctx, c, d)
	}()
}

func (r *runner) one(ctx context.Context, c ai.ToolCallPart, d disposition) {
	env := r.t.s.env(r.step, c.ToolCallID, c.ToolName)
	env.Fault = r.t.s.h.set.Fault
	res, err := tool.Execute(ctx, d.tool, d.permit, env)
	var ref *control.RefusedError
	if errors.As(err, &ref) {
		res, err = tool.Failure(tool.CodePermissionDenied, "%s", ref.Decision.Reason), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		err = r.t.recordResult(r.step, c, res, res.Facts...)
	}
	if err != nil && r.err == nil {
		r.err = err
		r.cancel(err)
	}
}

func (r *runner) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *runner) wait() { r.wg.Wait() }

// recordResult puts one result into the transcript, with the typed state that it brings, and reports it.
func (t *turn) recordResult(step int, c ai.ToolCallPart, res tool.Result, facts ...event.Payload) error {
	items := []Item{{Kind: KindResult, Step: step, CallID: c.ToolCallID, Tool: c.ToolName, Output: res.Output, Error: res.Error, Seen: res.Seen}}
	for _, f := range facts {
		switch p := f.(type) {
		case event.TodosUpdatedPayload:
			items = append(items, Item{Kind: KindTodos, Step: step, Todos: p.Todos})
		case event.ToolActivatedPayload:
			items = append(items, Item{Kind: KindActivated, Step: step, Activated: p.Tools})
		}
	}
	t.recordMu.Lock()
	defer t.recordMu.Unlock()
	if err := t.s.append(context.WithoutCancel(t.ctx), items...); err != nil {
		return err
	}
	t.s.emit(step, facts...)
	name := c.ToolName
	if name == questionTool {
		name = string(harness.BuiltinToolAskUserQuestions)
	}
	t.out.result(c.ToolCallID, name, res.Output, res.Error != "")
	return nil
}
