package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// Steer sends a message to an active run. It is part of the next model request, also when the run waits now.
func (e *Engine) Steer(ctx context.Context, p Principal, runID, text string) error {
	switch {
	case text == "":
		return invalid("prompt", "must not be empty")
	case len(text) > maxPromptBytes:
		return invalid("prompt", "has %d bytes; at most %d are taken", len(text), maxPromptBytes)
	}
	return e.leave(ctx, p, runID, store.SteerInput{Text: text})
}

// Bounds of a todo list.
const (
	maxTodos     = 100
	maxTodoText  = 1000
	maxTodoID    = 64
	todoStatuses = "pending, in_progress, completed, cancelled"
)

// SetTodos replaces the todo list of an active run. The session has it before its next model call; Todos returns it at
// once. Entries without an id are numbered, those without a status are pending.
func (e *Engine) SetTodos(ctx context.Context, p Principal, runID string, list []event.Todo) ([]event.Todo, error) {
	list, err := checkTodos(list)
	if err != nil {
		return nil, err
	}
	if _, err := e.keptHere(ctx, p, runID, "todos"); err != nil {
		return nil, err
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("engine: encode todos: %w", err)
	}
	return list, e.leave(ctx, p, runID, store.SteerInput{Kind: store.SteerTodos, Text: string(text)})
}

func checkTodos(list []event.Todo) ([]event.Todo, error) {
	if len(list) > maxTodos {
		return nil, invalid("todos", "has %d entries; at most %d are taken", len(list), maxTodos)
	}
	out := make([]event.Todo, len(list))
	seen := map[string]bool{}
	for i, t := range list {
		field := fmt.Sprintf("todos[%d]", i)
		switch {
		case t.Text == "" || len(t.Text) > maxTodoText || !utf8.ValidString(t.Text):
			return nil, invalid(field+".text", "must be a text of 1 to %d bytes", maxTodoText)
		case len(t.ID) > maxTodoID:
			return nil, invalid(field+".id", "has more than %d bytes", maxTodoID)
		}
		switch t.Status {
		case "":
			t.Status = "pending"
		case "pending", "in_progress", "completed", "cancelled":
		default:
			return nil, invalid(field+".status", "%q is not one of %s", t.Status, todoStatuses)
		}
		for n := i + 1; t.ID == "" || (list[i].ID == "" && seen[t.ID]); n++ {
			t.ID = fmt.Sprint(n)
		}
		if seen[t.ID] {
			return nil, invalid(field+".id", "%q is used twice", t.ID)
		}
		seen[t.ID] = true
		out[i] = t
	}
	return out, nil
}

// Compact asks an active run to make its history shorter before its next model call. An ended run has none: continue
// it, and compact the run that goes on.
func (e *Engine) Compact(ctx context.Context, p Principal, runID string, req native.CompactRequest) error {
	if err := checkCompact("", req); err != nil {
		return err
	}
	if _, err := e.keptHere(ctx, p, runID, "compaction"); err != nil {
		return err
	}
	text, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("engine: encode compaction: %w", err)
	}
	return e.leave(ctx, p, runID, store.SteerInput{Kind: store.SteerCompact, Text: string(text)})
}

// checkCompact checks a request whose members stand behind a prefix.
func checkCompact(prefix string, req native.CompactRequest) error {
	switch req.Mode {
	case "", tool.CompactStrip, tool.CompactSummarize, tool.CompactHybrid:
	default:
		return invalid(prefix+"mode", "%q is not one of strip, summarize, hybrid", req.Mode)
	}
	if req.KeepLast != 0 && req.KeepLast < 2 {
		return invalid(prefix+"keep_last", "must be at least 2, or 0 for the node's setting")
	}
	if len(req.Instructions) > maxPromptBytes {
		return invalid(prefix+"instructions", "has %d bytes; at most %d are taken", len(req.Instructions), maxPromptBytes)
	}
	return nil
}

// CompactConversation is Compact for the newest run of a conversation.
func (e *Engine) CompactConversation(ctx context.Context, p Principal, id string, req native.CompactRequest) error {
	r, err := e.o.Store.LastRun(ctx, p.TenantID, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return notFound("conversation %s does not exist", id)
	case err != nil:
		return err
	}
	return e.Compact(ctx, p, r.ID, req)
}

// keptHere finds a run whose harness keeps its own history and todos.
func (e *Engine) keptHere(ctx context.Context, p Principal, runID, what string) (Plan, error) {
	r, err := e.Run(ctx, p, runID)
	if err != nil {
		return Plan{}, err
	}
	plan, err := e.Plan(r)
	if err == nil && plan.Harness != native.HarnessID {
		err = notBuilt("harness", "%s is not available for the harness %s", what, plan.Harness)
	}
	return plan, err
}

// leave stores a message for an active run and wakes the run where it waits.
func (e *Engine) leave(ctx context.Context, p Principal, runID string, m store.SteerInput) error {
	r, err := e.Run(ctx, p, runID)
	if err != nil {
		return err
	}
	if r.Status.Terminal() {
		return conflict("run_not_active", "run %s is %s: continue it instead", runID, r.Status)
	}
	m.By = p.Identity()
	w, err := e.o.Store.Steer(ctx, p.TenantID, runID, m)
	var c *event.ConflictError
	switch {
	case errors.As(err, &c):
		return conflict("run_not_active", "run %s is %s: continue it instead", runID, c.Status)
	case errors.Is(err, store.ErrNotFound):
		return notFound("run %s does not exist", runID)
	case errors.Is(err, store.ErrSteeringFull):
		return conflict("steering_buffer_full", "%d messages wait for run %s: send the next one when it has read some", store.MaxSteering, runID)
	case err != nil:
		return err
	}
	e.dispatch(w)
	e.mu.Lock()
	defer e.mu.Unlock()
	if seg := e.segments[runID]; seg != nil {
		seg.steerArrived()
	} else {
		e.steered[runID] = true
	}
	return nil
}

// inbox hands the messages that people left for the run to the harness, each once in this segment. The store is asked
// only when there may be some.
func (s *segment) inbox(ctx context.Context) ([]native.Message, error) {
	var list []native.Message
	if s.compact {
		s.compact = false
		s.mu.Lock()
		s.steering = append(s.steering, 0)
		s.mu.Unlock()
		list = append(list, native.Message{Compact: s.plan.Compact})
	}
	if !s.steered.Swap(false) {
		return list, nil
	}
	msgs, err := s.e.o.Store.Steering(ctx, s.run.ID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range msgs {
		if m.ID <= s.handed {
			continue
		}
		message, err := messageOf(m)
		if err != nil {
			return nil, err
		}
		s.handed = m.ID
		s.steering = append(s.steering, m.ID)
		list = append(list, message)
	}
	return list, nil
}

func messageOf(m store.SteerMessage) (native.Message, error) {
	var err error
	switch m.Kind {
	case store.SteerPrompt:
		return native.Message{Text: m.Text}, nil
	case store.SteerTodos:
		var list []event.Todo
		if err = json.Unmarshal([]byte(m.Text), &list); err == nil {
			return native.Message{Todos: &list}, nil
		}
	case store.SteerCompact:
		var req native.CompactRequest
		if err = json.Unmarshal([]byte(m.Text), &req); err == nil {
			return native.Message{Compact: &req}, nil
		}
	default:
		err = errors.New("its kind is not known")
	}
	return native.Message{}, fmt.Errorf("engine: message %d of kind %q: %w", m.ID, m.Kind, err)
}
