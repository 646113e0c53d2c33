package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/harness-go/harness/event"
)

// Bounds of pages, beside their limits: a page ends early with the item that brings its payloads to PageBytes. A page
// that is shorter than its limit and smaller than that is the last one.
const (
	PageBytes = 4 << 20
	// MaxSteering is how many undelivered messages a run may have.
	MaxSteering = 64
	// MaxTitle is the length in bytes that titles are cut to.
	MaxTitle = 200
)

// Conversation is what a conversation's runs add up to. A conversation exists while it has a run, or as a fork.
type Conversation struct {
	ID       string
	TenantID string
	// Title is the first run's prompt on one line, cut to MaxTitle bytes; that of a fork is its origin's.
	Title string
	// AgentID is that of the last run.
	AgentID   string
	CreatedAt time.Time
	UpdatedAt time.Time
	Runs      int
	// Items counts the transcript's items by kind. Lists leave it nil.
	Items map[string]int
	// LastRunID and LastStatus are empty for a fork without a run.
	LastRunID  string
	LastStatus Status
	// Usage and Cost are sums over the runs; what they say of a last turn is that of the last run. The cost's status
	// is the least certain one of the runs that have any.
	Usage event.UsageTotals
	Cost  event.CostTotals
	// ForkedFrom and ForkedRun tell where a fork came from.
	ForkedFrom string
	ForkedRun  string
}

// ConversationList pages through conversations. The one whose last run was created last comes first.
type ConversationList struct {
	TenantID string
	// AgentID, when set, lists those whose last run has it.
	AgentID string
	Cursor  string
	Limit   int // 1 to 200; 0 means 50
}

// OpenRunsError refuses the deletion of a conversation at work. Runs are some of its open runs, oldest first.
type OpenRunsError struct {
	ConversationID string
	Runs           []string
}

func (e *OpenRunsError) Error() string {
	return fmt.Sprintf("conversation %s has open runs: %s", e.ConversationID, strings.Join(e.Runs, ", "))
}

// Deletion is a conversation that is deleted and not yet gone from the store.
type Deletion struct {
	// Key tells it from other conversations that have, or had, the same id.
	Key            int64
	TenantID       string
	ConversationID string
	// Files: what is kept outside of the store under the conversation's id has not been removed yet.
	Files bool
}

// Fork makes a conversation that begins as a copy of another.
type Fork struct {
	TenantID       string
	ConversationID string // the origin
	// RunID is the run after which the copy ends; empty means the last one that has ended. It may also be a run that
	// the origin was itself copied from.
	RunID string
	// ID is the new conversation's. It must not be in use.
	ID string
	// Prepare, when set, is called when the copy is durable and before anybody can see it. Its error abandons the fork.
	Prepare func(ctx context.Context) error
}

// Conversations is the part of the store that deals with whole conversations.
type Conversations interface {
	GetConversation(ctx context.Context, tenantID, id string) (Conversation, error)
	ListConversations(ctx context.Context, o ConversationList) (list []Conversation, next string, err error)
	// OldConversations lists ids of conversations without an open run and without a change since before, oldest first,
	// at most limit.
	OldConversations(ctx context.Context, tenantID string, before time.Time, limit int) ([]string, error)

	// DeleteConversation deletes a conversation in one commit for all readers, whatever its size: its runs, events,
	// approvals, questions, transcript and notes. Its id is free for a new conversation at once, which has nothing of
	// the old one. Open runs refuse it with an *OpenRunsError. The rows go by calls of Purge; files is kept for the
	// caller until FilesRemoved.
	DeleteConversation(ctx context.Context, tenantID, id string) (Deletion, error)
	// Deletions lists what was deleted and is not gone yet, at most limit; also forks that a crash left half made.
	Deletions(ctx context.Context, limit int) ([]Deletion, error)
	// FilesRemoved notes that what was kept outside of the store is removed.
	FilesRemoved(ctx context.Context, d Deletion) error
	// Purge removes a bounded number of a deleted conversation's rows in one commit, its texts in the search index
	// too, and reports whether there are more. It refuses a deletion whose Files are not removed.
	Purge(ctx context.Context, d Deletion) (more bool, err error)

	// Fork copies a transcript, item by item as it lies in the store, and the conversation's notes. The copy is made in
	// bounded commits and is seen by nobody before it is whole; what a crash or an error leaves of it is a Deletion. A
	// run that is open is an *event.ConflictError, an unknown one, or an origin that is deleted meanwhile, ErrNotFound.
	Fork(ctx context.Context, f Fork) (Conversation, error)
}

// FeedItem is a transcript item on its way to the search index. Cursor grows in the order in which items become
// visible, over all conversations, and is never used twice.
type FeedItem struct {
	Cursor int64
	TranscriptItem
}

// SearchText is the text of one transcript item. Body is what people and models said; Tool is of tool calls.
type SearchText struct {
	Cursor int64 // of the item
	Role   string
	Body   string
	Tool   string
}

// SearchQuery finds texts of a tenant.
type SearchQuery struct {
	TenantID string
	// Text holds words, all of which must occur; "some words" in a row; begin* for a beginning; -word for one that must
	// not occur. Everything else is read as words. A text without a word finds nothing.
	Text string
	// Tools searches the texts of tool calls too.
	Tools  bool
	Cursor string
	Limit  int // 1 to 100; 0 means 20
}

// SearchHit is one item that was found.
type SearchHit struct {
	ConversationID string
	Title          string
	RunID          string
	Idx            int64 // of the transcript item
	Role           string
	At             time.Time
	Snippet        []SnippetPart
}

// SnippetPart is a piece of text around what was found. Match marks what was found.
type SnippetPart struct {
	Text  string
	Match bool
}

// Search is the index over what was said. It follows the transcripts at its own pace: it is no part of their commits,
// and can be lost and built again.
type Search interface {
	// TranscriptFeed returns items of all conversations after a cursor, in order, at most limit (0: 256).
	TranscriptFeed(ctx context.Context, after int64, limit int) ([]FeedItem, error)
	// Indexed is the cursor up to which texts were taken in.
	Indexed(ctx context.Context) (int64, error)
	// Index takes texts in and moves the cursor, in one commit. Texts of conversations that were deleted meanwhile are
	// left out. Taking a text in again replaces it.
	Index(ctx context.Context, texts []SearchText, upTo int64) error
	// Search lists what was found, best first. What belongs to another tenant, or is deleted, is never found.
	Search(ctx context.Context, q SearchQuery) (hits []SearchHit, next string, err error)
}
