package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// The fake's conversations are its runs by their conversation ids. Each has the messages that a test gave it.

func (f *fakeRuns) Conversations(ctx context.Context, p engine.Principal, o store.ConversationList) ([]store.Conversation, string, error) {
	runs, next, err := f.Runs(ctx, p, store.ListOptions{Cursor: o.Cursor, Limit: o.Limit})
	var list []store.Conversation
	for _, r := range runs {
		c, err := f.Conversation(ctx, p, r.ConversationID)
		if err != nil {
			return nil, "", err
		}
		c.Items = nil
		if o.AgentID == "" || o.AgentID == c.AgentID {
			list = append(list, c)
		}
	}
	return list, next, err
}

func (f *fakeRuns) Conversation(_ context.Context, p engine.Principal, id string) (store.Conversation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := store.Conversation{ID: id, TenantID: p.TenantID, CreatedAt: epoch, UpdatedAt: epoch, Items: map[string]int{"prompt": 1, "answer": 1, "result": 2}}
	for _, r := range f.runs {
		if r.TenantID == p.TenantID && r.ConversationID == id {
			c.Runs++
			c.Title, c.LastRunID, c.LastStatus = r.Prompt, r.ID, r.Status
			c.Cost.CostStatus = event.CostPending
		}
	}
	if c.Runs == 0 {
		return c, refuse(engine.KindNotFound, "not_found", "conversation %s does not exist", id)
	}
	return c, nil
}

func (f *fakeRuns) ConversationRuns(ctx context.Context, p engine.Principal, id, cursor string, limit int) ([]store.Run, string, error) {
	if _, err := f.Conversation(ctx, p, id); err != nil {
		return nil, "", err
	}
	return f.Runs(ctx, p, store.ListOptions{ConversationID: id, Cursor: cursor, Limit: limit})
}

func (f *fakeRuns) Messages(ctx context.Context, p engine.Principal, id string, after int64, limit int) ([]engine.Message, int64, error) {
	if _, err := f.Conversation(ctx, p, id); err != nil {
		return nil, 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failMessages != nil {
		if err := f.failMessages(after); err != nil {
			return nil, 0, err
		}
	}
	list := f.messages[id]
	list = list[min(int(after), len(list)):]
	if len(list) > limit {
		return list[:limit], after + int64(limit), nil
	}
	return list, 0, nil
}

// say gives a conversation messages.
func (f *fakeRuns) say(id string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.messages == nil {
		f.messages = map[string][]engine.Message{}
	}
	for range n {
		i := int64(len(f.messages[id]) + 1)
		m := engine.Message{ID: i, Role: engine.RoleUser, RunID: id, Time: epoch, Text: fmt.Sprint("<b> message ", i)}
		if i%2 == 0 {
			m.Role, m.Step, m.Reasoning, m.Provider, m.Model = engine.RoleAssistant, 1, "thought", "fake", "scripted"
			m.ToolCalls = []engine.ToolCall{{ID: "c", Tool: "read", Arguments: `{"path":"f"}`, Result: &engine.ToolResult{Output: "one\n", Time: epoch.Add(time.Second)}}}
		}
		f.messages[id] = append(f.messages[id], m)
	}
}

func (f *fakeRuns) SearchConversations(_ context.Context, p engine.Principal, q store.SearchQuery) ([]store.SearchHit, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var hits []store.SearchHit
	for id, r := range f.runs {
		if r.TenantID == p.TenantID && strings.Contains(r.Prompt, q.Text) && id > q.Cursor {
			hits = append(hits, store.SearchHit{
				ConversationID: r.ConversationID, Title: r.Prompt, RunID: id, Idx: 1, Role: "user", At: epoch,
				Snippet: []store.SnippetPart{{Text: "the "}, {Text: q.Text, Match: true}},
			})
		}
	}
	slices.SortFunc(hits, func(a, b store.SearchHit) int { return strings.Compare(a.RunID, b.RunID) })
	if len(hits) > q.Limit {
		return hits[:q.Limit], hits[q.Limit-1].RunID, nil
	}
	return hits, "", nil
}

func (f *fakeRuns) DeleteConversation(ctx context.Context, p engine.Principal, id string) error {
	c, err := f.Conversation(ctx, p, id)
	if err == nil && !c.LastStatus.Terminal() {
		return &engine.Error{Kind: engine.KindConflict, Code: "conversation_active", Message: "conversation " + id + " has runs that have not ended", Details: map[string]any{"runs": []string{c.LastRunID}}}
	}
	return err
}

func (f *fakeRuns) ForkConversation(ctx context.Context, p engine.Principal, id string, req engine.ForkRequest) (store.Conversation, error) {
	c, err := f.Conversation(ctx, p, id)
	c.ID, c.ForkedFrom, c.ForkedRun = "conv_1", id, req.RunID
	return c, err
}

func (f *fakeRuns) CleanUpConversations(_ context.Context, _ engine.Principal, maxAgeDays int) (int, bool, error) {
	if maxAgeDays < 1 {
		return 0, false, &engine.Error{Kind: engine.KindInvalid, Code: "invalid_request", Field: "max_age_days", Message: "must be between 1 and 36500"}
	}
	return maxAgeDays, true, nil
}
