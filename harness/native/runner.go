package native

import (
	"context"
	"errors"
	"sync"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

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
	if err == nil || res.Error == tool.CodeInterrupted {
		err = errors.Join(err, r.t.recordResult(r.step, c, res, res.Facts...))
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
	files, note := fitting(res.Files)
	res.Output += note
	items := []Item{{
		Kind: KindResult, Step: step, CallID: c.ToolCallID, Tool: c.ToolName,
		Output: res.Output, Error: res.Error, Artifact: res.Artifact, Files: files, Seen: res.Seen,
	}}
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
	if err := t.append(items...); err != nil {
		return err
	}
	t.s.emit(step, facts...)
	name := t.announced[c.ToolCallID]
	if name == "" {
		name = t.partName(c.ToolName)
	}
	t.out.result(c.ToolCallID, name, res.Output, res.Error != "")
	return nil
}
