package harnesstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The scripted adapter, with a small loop as its script, passes the suite.
func TestTheScriptedAdapterPassesTheSuite(t *testing.T) { Run(t, newLoop) }

// loop is a small agent loop over a transcript in memory. It follows the adapter contract, with and without a gate.
type loop struct {
	script  Script
	hanging chan struct{}

	mu      sync.Mutex
	answers int                                       // model answers so far
	open    []Use                                     // calls of the last answer, until all have results
	outputs map[string]Result                         // by call
	order   []Result                                  // as given to the model
	decided map[string]harness.ToolApprovalSubmission // without a gate, by approval
	given   map[string]string                         // results of the host, by call
	hung    map[int]bool
	writes  int
}

func newLoop(_ *testing.T, script Script) Subject {
	l := &loop{
		script: script, hanging: make(chan struct{}, 8), outputs: map[string]Result{},
		decided: map[string]harness.ToolApprovalSubmission{}, given: map[string]string{}, hung: map[int]bool{},
	}
	return Subject{
		Open: func() harness.Harness {
			return &Mock{Builtins: loopTools(), Script: l.play, OnApproval: l.onApproval, OnResult: l.onResult}
		},
		Names:   map[Tool]string{Read: "read", Write: "write", Question: "askUserQuestions"},
		Results: func() []Result { l.mu.Lock(); defer l.mu.Unlock(); return append([]Result(nil), l.order...) },
		Writes:  func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.writes },
		Hanging: l.hanging,
	}
}

func loopTools() map[string]harness.BuiltinTool {
	std := harness.StandardBuiltinTools()
	out := map[string]harness.BuiltinTool{}
	for _, n := range []harness.BuiltinToolName{harness.BuiltinToolRead, harness.BuiltinToolWrite, harness.BuiltinToolAskUserQuestions} {
		out[string(n)] = std[n]
	}
	return out
}

func (l *loop) onApproval(ctx context.Context, t *Turn, a harness.ToolApprovalSubmission) error {
	if t.Start.Decide != nil {
		l.mu.Lock()
		open := append([]Use(nil), l.open...)
		l.mu.Unlock()
		for _, u := range open {
			if rec, err := t.Start.Decide.Recall(ctx, u.ID); err == nil && rec.Approval != nil && rec.Approval.ID == a.ApprovalID {
				return t.Start.Decide.Resolve(ctx, u.ID, a.ApprovalID, a.Approved, a.Reason)
			}
		}
		return errors.New("no open call has the approval " + a.ApprovalID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decided[a.ApprovalID] = a
	return nil
}

func (l *loop) onResult(_ context.Context, _ *Turn, r harness.ToolResultSubmission) error {
	b, err := json.Marshal(r.Output)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given[r.ToolCallID] = string(b)
	return nil
}

func (l *loop) emit(t *Turn, step int, p ...event.Payload) {
	if t.Start.Journal == nil {
		return
	}
	for _, v := range p {
		t.Start.Journal.Emit(event.Fact{Step: step, Payload: v})
	}
}

func (l *loop) checkpoint(t *Turn) error {
	if t.Start.Checkpoint == nil {
		return nil
	}
	return t.Start.Checkpoint(t.Context(), json.RawMessage(`{"loop":true}`))
}

func (l *loop) play(t *Turn) error {
	if err := l.checkpoint(t); err != nil {
		return err
	}
	t.Emit(harness.StreamStart{ModelID: "loop"})
	for {
		l.mu.Lock()
		n, open := l.answers, len(l.open) > 0
		l.mu.Unlock()
		if open {
			if err := l.settle(t, n); err != nil {
				return err
			}
			continue
		}
		if n >= len(l.script) {
			return errors.New("the script has no further step")
		}
		done, err := l.answer(t, n)
		if err != nil || done {
			return err
		}
	}
}

// answer makes the n-th model call.
func (l *loop) answer(t *Turn, n int) (done bool, err error) {
	s := l.script[n]
	l.mu.Lock()
	hang := s.Hang && !l.hung[n]
	l.hung[n] = true
	l.mu.Unlock()
	l.emit(t, n+1, event.RunStepStartedPayload{})
	if hang {
		l.hanging <- struct{}{}
		<-t.Context().Done()
		return false, context.Cause(t.Context())
	}
	l.mu.Lock()
	l.answers++
	l.open = s.Calls
	l.mu.Unlock()
	if s.Fail != "" {
		return false, errors.New("provider: " + s.Fail)
	}
	if s.Text != "" {
		id := fmt.Sprint("t", n)
		t.Emit(harness.TextStart{ID: id}, harness.TextDelta{ID: id, Delta: s.Text}, harness.TextEnd{ID: id})
		l.emit(t, n+1, event.AssistantMessagePayload{Content: s.Text})
	}
	if len(s.Calls) > 0 {
		return false, nil
	}
	l.emit(t, n+1, event.RunStepCompletedPayload{})
	if err := l.checkpoint(t); err != nil {
		return false, err
	}
	stop := ai.FinishReason{Unified: ai.FinishStop}
	t.Emit(harness.FinishStep{FinishReason: stop}, harness.Finish{FinishReason: stop})
	return true, nil
}

// settle brings the calls of step n to their results. Those that wait are announced last.
func (l *loop) settle(t *Turn, n int) error {
	announced := map[string]bool{}
	announce := func(u Use) {
		if !announced[u.ID] {
			announced[u.ID] = true
			t.Emit(l.part(u, len(l.open)))
		}
	}
	for {
		changed := t.Changed()
		var waiting []func()
		for _, u := range l.open {
			if _, ok := l.result(u.ID); ok {
				continue
			}
			out, failed, ask, err := l.try(t, n, u)
			switch {
			case err != nil:
				return err
			case ask != nil:
				waiting = append(waiting, func() {
					announce(u)
					if ask.ApprovalID != "" && !announced[ask.ApprovalID] {
						announced[ask.ApprovalID] = true
						t.Emit(*ask)
					}
				})
				continue
			}
			announce(u)
			l.mu.Lock()
			l.outputs[u.ID] = Result{CallID: u.ID, Output: out}
			l.mu.Unlock()
			t.Emit(harness.ToolResult{ToolCallID: u.ID, ToolName: l.part(u, 0).ToolName, Result: mustMarshal(out), IsError: &failed})
		}
		if len(waiting) == 0 {
			break
		}
		for _, f := range waiting {
			f()
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			return context.Cause(t.Context())
		}
	}
	l.mu.Lock()
	for _, u := range l.open {
		l.order = append(l.order, l.outputs[u.ID])
	}
	l.open = nil
	l.mu.Unlock()
	l.emit(t, n, event.RunStepCompletedPayload{})
	if err := l.checkpoint(t); err != nil {
		return err
	}
	t.Emit(harness.FinishStep{FinishReason: ai.FinishReason{Unified: ai.FinishToolCalls}})
	return nil
}

func (l *loop) result(id string) (Result, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.outputs[id]
	return r, ok
}

const questions = `{"allowPartialAnswers":false,"questions":[{"id":"drink","question":"What to drink?","options":[{"id":"tea","label":"Tea"},{"id":"coffee","label":"Coffee"}]}]}`

func (l *loop) part(u Use, count int) harness.ToolCall {
	yes := true
	switch {
	case u.Host != "":
		return harness.ToolCall{ToolCallID: u.ID, ToolName: u.Host, Input: u.Input, StepToolCallCount: count}
	case u.Tool == Question:
		return harness.ToolCall{ToolCallID: u.ID, ToolName: string(harness.BuiltinToolAskUserQuestions), Input: questions, StepToolCallCount: count}
	}
	return harness.ToolCall{ToolCallID: u.ID, ToolName: string(u.Tool), Input: `{"file_path":"a"}`, ProviderExecuted: &yes, StepToolCallCount: count}
}

// try brings one call to its result, or says that it waits.
func (l *loop) try(t *Turn, n int, u Use) (out string, failed bool, ask *harness.ToolApprovalRequest, err error) {
	if u.Host != "" || u.Tool == Question {
		l.mu.Lock()
		out, ok := l.given[u.ID]
		l.mu.Unlock()
		if ok {
			return out, false, nil, nil
		}
		if u.Tool == Question && t.Start.Decide != nil {
			if _, err := t.Start.Decide.Question(t.Context(), n, u.ID, "askUserQuestions", []event.Question{{Question: "What to drink?"}}); err != nil {
				return "", false, nil, err
			}
		}
		return "", false, &harness.ToolApprovalRequest{}, nil
	}
	if t.Start.Decide == nil {
		return l.tryAlone(t, u)
	}
	return l.tryGate(t, n, u)
}

func (l *loop) tryAlone(t *Turn, u Use) (string, bool, *harness.ToolApprovalRequest, error) {
	if u.Tool == Write && t.Start.PermissionMode == harness.PermissionModeAllowReads {
		id := "for-" + u.ID
		l.mu.Lock()
		a, ok := l.decided[id]
		l.mu.Unlock()
		if !ok {
			return "", false, &harness.ToolApprovalRequest{ApprovalID: id, ToolCallID: u.ID}, nil
		}
		if !a.Approved {
			return "denied: " + a.Reason, true, nil, nil
		}
	}
	return l.do(u), false, nil, nil
}

func (l *loop) tryGate(t *Turn, n int, u Use) (string, bool, *harness.ToolApprovalRequest, error) {
	gate, ctx := t.Start.Decide, t.Context()
	kind := tool.KindReadonly
	if u.Tool == Write {
		kind = tool.KindEdit
	}
	call := control.Call{ID: u.ID, Step: n, Harness: "mock", Tool: string(u.Tool), Kind: kind, Arguments: json.RawMessage(`{"file_path":"a"}`)}
	d, err := gate.Decide(ctx, call)
	if err != nil {
		return "", false, nil, err
	}
	switch d.Outcome {
	case control.Ask:
		return "", false, &harness.ToolApprovalRequest{ApprovalID: d.ApprovalID, ToolCallID: u.ID}, nil
	case control.Deny:
		return d.Reason, true, nil, nil
	}
	if err := d.Permit.Begin(ctx); err != nil {
		return "", false, nil, err
	}
	out := l.do(u)
	return out, false, nil, d.Permit.End(context.WithoutCancel(ctx), control.CallOutcome{Output: out})
}

func (l *loop) do(u Use) string {
	if u.Tool == Read {
		return ReadContent
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	return "written"
}

func mustMarshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
