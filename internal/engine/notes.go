package engine

import (
	"context"
	"fmt"

	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// notes are a run's view of the notes in the store: its own, those of its conversation and those of its agent id.
type notes struct {
	store store.Store
	run   store.Run
	agent string
}

var _ tool.Memory = notes{}

// place is where a scope's notes are.
func (n notes) place(scope tool.MemoryScope) (tool.MemoryScope, string, error) {
	switch scope {
	case "", tool.MemoryRun:
		return tool.MemoryRun, n.run.ID, nil
	case tool.MemoryConversation:
		return scope, n.run.ConversationID, nil
	case tool.MemoryAgent:
		if n.agent == "" {
			return "", "", fmt.Errorf("%w: the run has no agent_id", tool.ErrNoMemoryScope)
		}
		return scope, n.agent, nil
	}
	return "", "", fmt.Errorf("%w: %q is not run, conversation or agent", tool.ErrNoMemoryScope, scope)
}

// Get implements tool.Memory.
func (n notes) Get(ctx context.Context, scope tool.MemoryScope, key string) (string, bool, error) {
	s, id, err := n.place(scope)
	if err != nil {
		return "", false, err
	}
	return n.store.MemoryGet(ctx, n.run.TenantID, s, id, key)
}

// Set implements tool.Memory.
func (n notes) Set(ctx context.Context, scope tool.MemoryScope, key, value string) error {
	s, id, err := n.place(scope)
	if err != nil {
		return err
	}
	return n.store.MemorySet(ctx, n.run.TenantID, s, id, key, value)
}

// Delete implements tool.Memory.
func (n notes) Delete(ctx context.Context, scope tool.MemoryScope, key string) (bool, error) {
	s, id, err := n.place(scope)
	if err != nil {
		return false, err
	}
	return n.store.MemoryDelete(ctx, n.run.TenantID, s, id, key)
}

// List implements tool.Memory.
func (n notes) List(ctx context.Context, scope tool.MemoryScope) ([]string, error) {
	s, id, err := n.place(scope)
	if err != nil {
		return nil, err
	}
	return n.store.MemoryList(ctx, n.run.TenantID, s, id)
}
