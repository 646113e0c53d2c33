package api

import (
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
)

// Conversation is what a conversation's runs add up to.
type Conversation struct {
	ID           string            `json:"id"`
	Title        string            `json:"title" doc:"the first prompt, cut"`
	AgentID      string            `json:"agent_id,omitempty" doc:"of the last run"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	RunCount     int               `json:"run_count"`
	MessageCount *int              `json:"message_count,omitempty" doc:"absent in lists"`
	LastRunID    string            `json:"last_run_id,omitempty" doc:"absent in a fork that no run went on with"`
	LastStatus   string            `json:"last_status,omitempty" enum:"queued,running,waiting_for_user,waiting_for_approval,completed,failed,cancelled"`
	UsageTotals  event.UsageTotals `json:"usage_totals" doc:"of all runs"`
	CostTotals   event.CostTotals  `json:"cost_totals" doc:"of all runs; the status is the least certain of theirs"`
	ForkedFrom   string            `json:"forked_from,omitempty" doc:"the conversation that it began as a copy of"`
	ForkedRun    string            `json:"forked_after_run,omitempty" doc:"the last run of the copy"`
}

// ConversationList is a page of conversations. The one whose last run was created last comes first.
type ConversationList struct {
	Conversations []Conversation `json:"conversations"`
	NextCursor    string         `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last one"`
}

// MessageList is a page of messages, oldest first.
type MessageList struct {
	Messages   []engine.Message `json:"messages"`
	NextCursor string           `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last one"`
}

// SearchHit is a message that was found.
type SearchHit struct {
	ConversationID string        `json:"conversation_id"`
	Title          string        `json:"title" doc:"of the conversation"`
	RunID          string        `json:"run_id"`
	MessageID      int64         `json:"message_id" doc:"of the message, or for role tool of the entry after it that has the call's result"`
	Role           string        `json:"role" enum:"user,assistant,tool"`
	Time           time.Time     `json:"time"`
	Snippet        []SnippetPart `json:"snippet" doc:"the text around what was found, in pieces"`
}

// SnippetPart is a piece of text.
type SnippetPart struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty" doc:"this piece is what was found"`
}

// SearchResult is a page of what was found, best first.
type SearchResult struct {
	Hits       []SearchHit `json:"hits"`
	NextCursor string      `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last one"`
}

// ConversationForked answers a fork.
type ConversationForked struct {
	ConversationID string `json:"conversation_id"`
	ForkedFrom     string `json:"forked_from"`
	ForkedRun      string `json:"forked_after_run,omitempty"`
	MessageCount   int    `json:"message_count"`
}

// CleanUpRequest deletes what is old.
type CleanUpRequest struct {
	MaxAgeDays int `json:"max_age_days" minimum:"1" maximum:"36500" doc:"conversations that did not change for so many days are deleted"`
}

// CleanedUp answers a CleanUpRequest.
type CleanedUp struct {
	Deleted int  `json:"deleted"`
	More    bool `json:"more" doc:"there are further ones: ask again"`
}

// ExportFormat and ExportVersion are those of exported conversations. The version grows with a change that a reader
// of an older one cannot pass over.
const (
	ExportFormat  = "harness.conversation"
	ExportVersion = 1
)

// ExportLine is one line of an exported conversation. The first is of type conversation, the last of type end; a file
// without it was cut. Lines between are of type message or event.
type ExportLine struct {
	Type         string          `json:"type" enum:"conversation,message,event,end"`
	Format       string          `json:"format,omitempty"`
	Version      int             `json:"version,omitempty"`
	ExportedAt   *time.Time      `json:"exported_at,omitempty"`
	Conversation *Conversation   `json:"conversation,omitempty"`
	Message      *engine.Message `json:"message,omitempty"`
	Event        *event.Event    `json:"event,omitempty"`
	Lines        int             `json:"lines,omitempty" doc:"of the line of type end: the lines before it"`
}
