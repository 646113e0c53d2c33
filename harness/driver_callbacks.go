package harness

import (
	"context"

	"github.com/harness-go/harness/ai"
)

func (d *driver) onStepStart() {
	cb := &d.a.set.Callbacks
	if !d.calledBack {
		d.calledBack = true
		if cb.OnStart != nil {
			cb.OnStart(d.ctx, ai.OnStartEvent{
				CallID: d.callID, OperationID: "ai.harness", Model: d.model(), ToolNames: mergedOrder(d.a.builtin, d.cfg.tools.active),
				RuntimeContext: d.cfg.runtimeContext, Instructions: d.cfg.instructions,
			})
		}
	}
	if cb.OnStepStart != nil {
		cb.OnStepStart(d.ctx, ai.OnStepStartEvent{CallID: d.callID, StepNumber: len(d.steps), Model: d.model(), RuntimeContext: d.cfg.runtimeContext})
	}
	if cb.OnLanguageModelCallStart != nil {
		cb.OnLanguageModelCallStart(d.ctx, ai.OnLanguageModelCallStartEvent{CallID: d.callID, Model: d.model()})
	}
}

func (d *driver) onStepEnd(step ai.StepResult) {
	cb := &d.a.set.Callbacks
	if cb.OnLanguageModelCallEnd != nil {
		cb.OnLanguageModelCallEnd(d.ctx, ai.OnLanguageModelCallEndEvent{
			CallID: d.callID, Model: step.Model, ResponseID: step.Response.ID, FinishReason: step.FinishReason,
			Usage: step.Usage, Content: step.Content, ProviderMetadata: step.ProviderMetadata,
		})
	}
	if cb.OnToolExecutionStart != nil || cb.OnToolExecutionEnd != nil {
		d.onToolExecutions(step)
	}
	e := ai.OnStepFinishEvent{CallID: d.callID, Step: step, RuntimeContext: d.cfg.runtimeContext}
	if cb.OnStepEnd != nil {
		cb.OnStepEnd(d.ctx, e)
	}
	if d.in.opts.OnStepEnd != nil {
		d.in.opts.OnStepEnd(d.ctx, e)
	}
}

// onToolExecutions reports the calls of a step that have a result, in the order of the results.
func (d *driver) onToolExecutions(step ai.StepResult) {
	shown := map[string]ai.ToolCall{}
	for _, c := range step.Content {
		switch v := c.(type) {
		case ai.ToolCall:
			shown[v.ToolCallID] = v
		case ai.ToolResult:
			if !v.Preliminary {
				d.onToolExecution(shown, v.ToolCallID, v.ToolName, ai.OnToolCallFinishEvent{Output: v.Output})
			}
		case ai.ToolError:
			d.onToolExecution(shown, v.ToolCallID, v.ToolName, ai.OnToolCallFinishEvent{Error: v.Error})
		}
	}
}

func (d *driver) onToolExecution(shown map[string]ai.ToolCall, id, name string, e ai.OnToolCallFinishEvent) {
	call, ok := shown[id]
	c := d.calls.byID[id]
	switch {
	case !ok && c != nil:
		call = d.display(c.call)
	case !ok:
		call = ai.ToolCall{ToolCallID: id, ToolName: name}
	}
	if c != nil {
		e.Duration = c.duration
	}
	e.CallID, e.ToolCall, e.ToolContext = d.callID, call, d.cfg.toolsContext[name]
	cb := &d.a.set.Callbacks
	if cb.OnToolExecutionStart != nil {
		cb.OnToolExecutionStart(d.ctx, ai.OnToolCallStartEvent{CallID: d.callID, ToolCall: call, ToolContext: e.ToolContext})
	}
	if cb.OnToolExecutionEnd != nil {
		cb.OnToolExecutionEnd(d.ctx, e)
	}
}

func (d *driver) onEnd(r *ai.GenerateTextResult) {
	if len(d.steps) > 0 && d.a.set.Callbacks.OnEnd != nil {
		d.a.set.Callbacks.OnEnd(context.WithoutCancel(d.ctx), ai.OnFinishEvent{CallID: d.callID, Result: r, RuntimeContext: d.cfg.runtimeContext})
	}
}
