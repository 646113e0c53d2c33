package activity

import (
	"encoding/json"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// tracker joins the facts of one segment.
type tracker struct {
	followers []Follower
	call      *ModelCall // the model call that is being made, or has just ended
	ended     bool       // call has ended; its usage may still come, in the same commit
	last      ModelCall  // the call that was told last: late usage belongs to it
	tools     map[string]ToolCall
	end       End
}

// Committed implements engine.SegmentObserver.
func (t *tracker) Committed(at time.Time, facts []event.Fact) {
	for i := range facts {
		t.fact(at, facts[i].Step, facts[i].Payload)
	}
	if t.ended {
		t.tell()
	}
}

func (t *tracker) fact(at time.Time, step int, p event.Payload) {
	switch p := p.(type) {
	case event.RunStartedPayload:
		for _, f := range t.followers {
			f.RunStarted(p)
		}
	case event.LLMTurnRequestedPayload:
		if t.call != nil {
			if !t.ended { // its end was never recorded
				t.finish(at, OutcomeInterrupted)
			}
			t.tell()
		}
		t.call = &ModelCall{Step: step, Attempt: p.Attempt, Purpose: p.Purpose, Provider: p.Provider, Model: p.Model, Start: at}
	case event.LLMTurnCompletedPayload:
		c := t.finish(at, OutcomeOK)
		if c.Provider == "" {
			c.Provider, c.Model, c.Purpose = p.Provider, p.Model, p.Purpose
		}
		c.Served, c.FinishReason, c.TTFT = p.Model, p.FinishReason, time.Duration(p.TTFTMS)*time.Millisecond
	case event.LLMAttemptDiscardedPayload:
		c := t.finish(at, p.Reason)
		c.Attempt, c.Purpose, c.Status = p.Attempt, p.Purpose, p.Status
	case event.UsageDeltaPayload:
		t.usage(at, step, p)
	case event.AssistantMessagePayload:
		if t.call != nil {
			t.call.Text = p.Content
		}
	case event.ToolCallStartedPayload:
		if t.tools == nil {
			t.tools = map[string]ToolCall{}
		}
		t.tools[p.CallID] = ToolCall{
			Step: step, ID: p.CallID, Tool: p.Tool, Kind: p.Kind, ApprovalID: p.ApprovalID, Arguments: p.Arguments, Start: at,
		}
	case event.ToolCallCompletedPayload:
		t.toolEnded(at, step, p)
	case event.ToolCallBlockedPayload:
		t.tool(ToolCall{Step: step, ID: p.CallID, Tool: p.Tool, End: at, Outcome: OutcomeBlocked, Error: p.Stage})
	case event.ToolApprovalRequiredPayload:
		for _, f := range t.followers {
			f.Asked(p)
		}
	case event.RunCompletedPayload:
		t.end.Output = p.Output
	case event.RunFailedPayload:
		t.end.Reason = p.Reason
	}
}

// finish marks the model call as ended. A call of an earlier segment has no start.
func (t *tracker) finish(at time.Time, outcome string) *ModelCall {
	if t.call == nil {
		t.call = &ModelCall{}
	}
	t.call.End, t.call.Outcome, t.ended = at, outcome, true
	return t.call
}

func (t *tracker) tell() {
	for _, f := range t.followers {
		f.ModelCall(*t.call)
	}
	t.last, t.call, t.ended = *t.call, nil, false
}

func (t *tracker) usage(at time.Time, step int, p event.UsageDeltaPayload) {
	var u ai.Usage
	if json.Unmarshal(p.TurnUsage, &u) != nil {
		u = ai.Usage{}
	}
	u.Raw = nil
	if t.call != nil {
		t.call.Usage, t.call.CostUSD = u, p.TurnCostUSD
		return
	}
	c := ModelCall{Step: step, Provider: t.last.Provider, Model: t.last.Model, Served: t.last.Served, End: at, Usage: u, CostUSD: p.TurnCostUSD, Late: true}
	for _, f := range t.followers {
		f.ModelCall(c)
	}
}

func (t *tracker) toolEnded(at time.Time, step int, p event.ToolCallCompletedPayload) {
	c, ok := t.tools[p.CallID]
	if !ok {
		c = ToolCall{Step: step, ID: p.CallID, Tool: p.Tool}
	}
	delete(t.tools, p.CallID)
	c.End, c.Output, c.Error, c.Outcome = at, p.Output, p.Error, OutcomeOK
	switch {
	case p.Interrupted:
		c.Outcome = OutcomeInterrupted
	case p.Error != "":
		c.Outcome = OutcomeError
	}
	t.tool(c)
}

func (t *tracker) tool(c ToolCall) {
	for _, f := range t.followers {
		f.ToolCall(c)
	}
}

// Ended implements engine.SegmentObserver.
func (t *tracker) Ended(at time.Time, status store.Status) {
	if t.call != nil {
		t.call.End, t.call.Outcome, t.call.Open = at, OutcomeInterrupted, true
		t.tell()
	}
	for _, c := range t.tools {
		c.End, c.Outcome, c.Open = at, OutcomeInterrupted, true
		t.tool(c)
	}
	t.end.At, t.end.Status = at, status
	for _, f := range t.followers {
		f.Ended(t.end)
	}
}
