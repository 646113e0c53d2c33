package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// insightPage is how many events or items are read at once for what is told about a run.
const insightPage = 1000

// eachEvent calls f for each event of a run's log.
func (e *Engine) eachEvent(ctx context.Context, runID string, f func(event.Event) error) error {
	for after := int64(0); ; {
		page, err := e.o.Store.Events(ctx, runID, after, insightPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, ev := range page {
			if err := f(ev); err != nil {
				return err
			}
			after = ev.Seq
		}
	}
}

// ToolUse is one call of a run.
type ToolUse struct {
	Tool       string
	Step       int
	CallID     string
	Error      string
	DurationMS int64
	Done       bool
}

// Summary is what a run did, read from its log.
type Summary struct {
	Run   store.Run
	Calls []ToolUse
	// CallsTotal counts all calls; Calls has the first ones.
	CallsTotal int
	ModelCalls int
	Discarded  int
}

// maxSummaryCalls bounds the calls that a summary lists.
const maxSummaryCalls = 2000

// Summary tells what a run did. An active one is told so far.
func (e *Engine) Summary(ctx context.Context, p Principal, runID string) (Summary, error) {
	r, err := e.Run(ctx, p, runID)
	if err != nil {
		return Summary{}, err
	}
	s := Summary{Run: r}
	at := map[string]int{}
	err = e.eachEvent(ctx, runID, func(ev event.Event) error {
		var c struct {
			Step       int    `json:"step"`
			CallID     string `json:"call_id"`
			Tool       string `json:"tool"`
			Error      string `json:"error"`
			DurationMS int64  `json:"duration_ms"`
		}
		switch ev.Type {
		case event.LLMTurnRequested:
			s.ModelCalls++
			return nil
		case event.LLMAttemptDiscarded:
			s.Discarded++
			return nil
		case event.ToolCallStarted, event.ToolCallCompleted:
		default:
			return nil
		}
		if err := json.Unmarshal(ev.Payload, &c); err != nil {
			return fmt.Errorf("engine: event %d of run %s: %w", ev.Seq, runID, err)
		}
		i, known := at[c.CallID]
		if !known {
			s.CallsTotal++
			if len(s.Calls) == maxSummaryCalls {
				return nil
			}
			i = len(s.Calls)
			at[c.CallID] = i
			s.Calls = append(s.Calls, ToolUse{Tool: c.Tool, Step: c.Step, CallID: c.CallID})
		}
		if ev.Type == event.ToolCallCompleted {
			s.Calls[i].Done, s.Calls[i].Error, s.Calls[i].DurationMS = true, c.Error, c.DurationMS
		}
		return nil
	})
	return s, err
}

// Context tells how full the context of a run's session is, as far as its last commit.
func (e *Engine) Context(ctx context.Context, p Principal, runID string) (tool.ContextStatus, error) {
	plan, err := e.keptHere(ctx, p, runID, "the context")
	if err != nil {
		return tool.ContextStatus{}, err
	}
	r, err := e.Run(ctx, p, runID)
	if err != nil {
		return tool.ContextStatus{}, err
	}
	items, err := e.transcript(ctx, r)
	if err != nil {
		return tool.ContextStatus{}, err
	}
	var window int64
	if e.o.ContextWindow != nil {
		window = e.o.ContextWindow(plan.Model, plan.ProviderName)
	}
	return native.ContextOf(items, window), nil
}

// transcript reads the items of a run's conversation.
func (e *Engine) transcript(ctx context.Context, r store.Run) ([]native.Item, error) {
	var items []native.Item
	for after := int64(0); ; {
		rows, err := e.o.Store.Transcript(ctx, r.TenantID, r.ConversationID, after, insightPage)
		if err != nil || len(rows) == 0 {
			return items, err
		}
		for _, row := range rows {
			it, err := native.DecodeItem(row.Data)
			if err != nil {
				return nil, fmt.Errorf("engine: transcript item %d of conversation %s: %w", row.Idx, r.ConversationID, err)
			}
			items = append(items, it)
			after = row.Idx
		}
	}
}

// Todos is the todo list of a run: what somebody set and the session has not taken yet, else what its log says last.
func (e *Engine) Todos(ctx context.Context, p Principal, runID string) ([]event.Todo, error) {
	r, err := e.Run(ctx, p, runID)
	if err != nil {
		return nil, err
	}
	list := []event.Todo{}
	if !r.Status.Terminal() {
		msgs, err := e.o.Store.Steering(ctx, runID)
		if err != nil {
			return nil, err
		}
		for i := len(msgs) - 1; i >= 0; i-- {
			if msgs[i].Kind == store.SteerTodos {
				m, err := messageOf(msgs[i])
				if err != nil {
					return nil, err
				}
				return append(list, *m.Todos...), nil
			}
		}
	}
	err = e.eachEvent(ctx, runID, func(ev event.Event) error {
		if ev.Type != event.TodosUpdated {
			return nil
		}
		var t event.TodosUpdatedPayload
		if err := json.Unmarshal(ev.Payload, &t); err != nil {
			return fmt.Errorf("engine: event %d of run %s: %w", ev.Seq, runID, err)
		}
		list = append([]event.Todo{}, t.Todos...)
		return nil
	})
	return list, err
}
