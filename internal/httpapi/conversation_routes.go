package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// Conversations is what the API needs of the engine about conversations. One of another tenant is not found.
type Conversations interface {
	Conversations(ctx context.Context, p engine.Principal, o store.ConversationList) ([]store.Conversation, string, error)
	Conversation(ctx context.Context, p engine.Principal, id string) (store.Conversation, error)
	ConversationRuns(ctx context.Context, p engine.Principal, id, cursor string, limit int) ([]store.Run, string, error)
	Messages(ctx context.Context, p engine.Principal, id string, after int64, limit int) ([]engine.Message, int64, error)
	SearchConversations(ctx context.Context, p engine.Principal, q store.SearchQuery) ([]store.SearchHit, string, error)
	DeleteConversation(ctx context.Context, p engine.Principal, id string) error
	ForkConversation(ctx context.Context, p engine.Principal, id string, req engine.ForkRequest) (store.Conversation, error)
	CleanUpConversations(ctx context.Context, p engine.Principal, maxAgeDays int) (deleted int, more bool, err error)
}

// ConversationPath names the conversation of a route.
type ConversationPath struct {
	ID string `path:"id" doc:"id of the conversation"`
}

type listConversationsInput struct {
	AgentID string `query:"agent_id" doc:"only those whose last run has this agent_id"`
	Cursor  string `query:"cursor" doc:"next_cursor of the page before"`
	Limit   int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

type conversationPage struct {
	ConversationPath
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

type searchInput struct {
	Query  string `query:"q" required:"true" minLength:"1" maxLength:"1000" doc:"words that must all occur; \"some words\" in a row; begin* for a beginning; -word for one that must not occur"`
	Tools  bool   `query:"tools" doc:"also the beginnings of tools' arguments and outputs"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20"`
}

type forkedConversation struct {
	Location string `header:"Location" doc:"path of the new conversation"`
	Body     api.ConversationForked
}

func (s *Server) conversationRoutes() {
	handle(s, operation{
		method: http.MethodGet, path: "/v1/conversations", id: "list-conversations", scopes: readRuns,
		summary: "List conversations, the one with the newest run first",
	}, s.listConversations)
	s.mux.HandleFunc("GET /v1/conversations/{$}", func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = "/v1/conversations", ""
		s.mux.ServeHTTP(w, r)
	})

	handle(s, operation{
		method: http.MethodGet, path: "/v1/conversations/search", id: "search-conversations", scopes: readRuns,
		summary: "Find what was said, best first",
		doc:     "Any text is a valid query. What was said is found soon after its run has ended.",
	}, s.searchConversations)

	handle(s, operation{
		method: http.MethodGet, path: "/v1/conversations/{id}", id: "get-conversation", scopes: readRuns,
		summary: "One conversation",
	}, func(ctx context.Context, p engine.Principal, in *ConversationPath, _ *none) (*output[api.Conversation], error) {
		c, err := s.runs.Conversation(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		return ok(conversationView(c)), nil
	})

	handle(s, operation{
		method: http.MethodGet, path: "/v1/conversations/{id}/runs", id: "list-conversation-runs", scopes: readRuns,
		summary: "List the runs of a conversation, newest first",
		doc:     "Long prompts and outputs are cut; truncated names what was cut.",
	}, s.conversationRuns)

	handle(s, operation{
		method: http.MethodGet, path: "/v1/conversations/{id}/messages", id: "list-messages", scopes: readRuns,
		summary: "Read a conversation, oldest message first",
		doc:     "What people sent, what models answered with their readable reasoning, and each call with its result. A page has fewer messages than its limit where they are large.",
	}, s.listMessages)
	s.exportRoute()

	handle(s, operation{
		method: http.MethodPost, path: "/v1/conversations/{id}/fork", id: "fork-conversation", status: http.StatusCreated, scopes: writeRuns, bodyOptional: true,
		summary: "Make a conversation that begins as a copy of this one",
		doc:     "A run whose conversation_id is the new one goes on from there. The origin is not changed.",
	}, func(ctx context.Context, p engine.Principal, in *ConversationPath, body *engine.ForkRequest) (*forkedConversation, error) {
		c, err := s.runs.ForkConversation(ctx, p, in.ID, *body)
		if err != nil {
			return nil, err
		}
		return &forkedConversation{
			Location: "/v1/conversations/" + c.ID,
			Body: api.ConversationForked{
				ConversationID: c.ID, ForkedFrom: c.ForkedFrom, ForkedRun: c.ForkedRun, MessageCount: engine.MessageCount(c.Items),
			},
		}, nil
	})

	handle(s, operation{
		method: http.MethodDelete, path: "/v1/conversations/{id}", id: "delete-conversation", status: http.StatusNoContent, scopes: writeRuns,
		summary: "Delete a conversation with everything that belongs to it",
		doc:     "Its runs, events, messages, approvals, notes and artifacts are gone at once and for good. Open runs are a conflict whose details name them.",
	}, func(ctx context.Context, p engine.Principal, in *ConversationPath, _ *none) (*struct{}, error) {
		return nil, s.runs.DeleteConversation(ctx, p, in.ID)
	})

	handle(s, operation{
		method: http.MethodPost, path: "/v1/conversations/cleanup", id: "clean-up-conversations", scopes: admin,
		summary: "Delete the conversations that did not change for some days",
		doc:     "Those of the key's tenant, oldest first. Conversations with open runs stay.",
	}, func(ctx context.Context, p engine.Principal, _ *noParams, body *api.CleanUpRequest) (*output[api.CleanedUp], error) {
		n, more, err := s.runs.CleanUpConversations(ctx, p, body.MaxAgeDays)
		if err != nil {
			return nil, err
		}
		return ok(api.CleanedUp{Deleted: n, More: more}), nil
	})
}

func conversationView(c store.Conversation) api.Conversation {
	v := api.Conversation{
		ID: c.ID, Title: c.Title, AgentID: c.AgentID, CreatedAt: c.CreatedAt.UTC(), UpdatedAt: c.UpdatedAt.UTC(),
		RunCount: c.Runs, LastRunID: c.LastRunID, LastStatus: string(c.LastStatus), UsageTotals: c.Usage, CostTotals: c.Cost,
		ForkedFrom: c.ForkedFrom, ForkedRun: c.ForkedRun,
	}
	if c.Items != nil {
		n := engine.MessageCount(c.Items)
		v.MessageCount = &n
	}
	return v
}

func (s *Server) listConversations(ctx context.Context, p engine.Principal, in *listConversationsInput, _ *none) (*output[api.ConversationList], error) {
	list := strings.Join([]string{"conversations", p.TenantID, in.AgentID}, "\x00")
	cursor, refused := openCursor(list, in.Cursor)
	if refused != nil {
		return nil, refused
	}
	found, next, err := s.runs.Conversations(ctx, p, store.ConversationList{TenantID: p.TenantID, AgentID: in.AgentID, Cursor: cursor, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := api.ConversationList{Conversations: make([]api.Conversation, 0, len(found)), NextCursor: sealCursor(list, next)}
	for _, c := range found {
		out.Conversations = append(out.Conversations, conversationView(c))
	}
	return ok(out), nil
}

func (s *Server) conversationRuns(ctx context.Context, p engine.Principal, in *conversationPage, _ *none) (*output[api.RunList], error) {
	list := strings.Join([]string{"conversation runs", p.TenantID, in.ID}, "\x00")
	cursor, refused := openCursor(list, in.Cursor)
	if refused != nil {
		return nil, refused
	}
	runs, next, err := s.runs.ConversationRuns(ctx, p, in.ID, cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	out := api.RunList{Runs: make([]api.Run, 0, len(runs)), NextCursor: sealCursor(list, next)}
	for _, r := range runs {
		v, err := s.runView(r)
		if err != nil {
			return nil, err
		}
		cut(&v)
		out.Runs = append(out.Runs, v)
	}
	return ok(out), nil
}

func (s *Server) listMessages(ctx context.Context, p engine.Principal, in *conversationPage, _ *none) (*output[api.MessageList], error) {
	list := strings.Join([]string{"messages", p.TenantID, in.ID}, "\x00")
	cursor, refused := openCursor(list, in.Cursor)
	if refused != nil {
		return nil, refused
	}
	after := int64(0)
	if cursor != "" {
		var err error
		if after, err = strconv.ParseInt(cursor, 10, 64); err != nil || after < 0 {
			return nil, api.NewProblem(api.CodeInvalidCursor, "cursor: not a next_cursor of this list").At("cursor")
		}
	}
	msgs, next, err := s.runs.Messages(ctx, p, in.ID, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := api.MessageList{Messages: msgs}
	if msgs == nil {
		out.Messages = []engine.Message{}
	}
	if next != 0 {
		out.NextCursor = sealCursor(list, strconv.FormatInt(next, 10))
	}
	return ok(out), nil
}

func (s *Server) searchConversations(ctx context.Context, p engine.Principal, in *searchInput, _ *none) (*output[api.SearchResult], error) {
	list := strings.Join([]string{"search", p.TenantID, in.Query, strconv.FormatBool(in.Tools)}, "\x00")
	cursor, refused := openCursor(list, in.Cursor)
	if refused != nil {
		return nil, refused
	}
	hits, next, err := s.runs.SearchConversations(ctx, p, store.SearchQuery{TenantID: p.TenantID, Text: in.Query, Tools: in.Tools, Cursor: cursor, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	out := api.SearchResult{Hits: make([]api.SearchHit, 0, len(hits)), NextCursor: sealCursor(list, next)}
	for _, h := range hits {
		v := api.SearchHit{
			ConversationID: h.ConversationID, Title: h.Title, RunID: h.RunID, MessageID: h.Idx, Role: h.Role, Time: h.At.UTC(),
			Snippet: make([]api.SnippetPart, 0, len(h.Snippet)),
		}
		for _, part := range h.Snippet {
			v.Snippet = append(v.Snippet, api.SnippetPart{Text: part.Text, Match: part.Match})
		}
		out.Hits = append(out.Hits, v)
	}
	return ok(out), nil
}
