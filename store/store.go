// Package store is the persistence seam of the daemon: runs, their event log, approvals, questions, transcripts,
// notes, API keys.
//
// It owns no run logic. Its promises, which storetest holds for every implementation:
//
//   - A run's events are numbered 1, 2, 3 … by the store when they are committed; no gap, no duplicate, no change.
//   - Durable before visible: Events, Watch and every other read show committed facts only.
//   - A write by a run's owner names the run's epoch. A stale epoch writes nothing and returns ErrFenced.
//   - Each Batch, and each of the other writing methods, is one commit: all of it or nothing.
//   - Batches of one run are applied in the order of their Submit calls.
//   - Time comes from the store's clock, so that a test can move it.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

// Errors that callers branch on.
var (
	ErrNotFound = errors.New("not found")
	// ErrFenced: the run has another owner or ended; the write was refused and nothing of it is stored.
	ErrFenced = errors.New("the run has another owner: write refused")
	// ErrIdempotencyMismatch: the key was used with another body.
	ErrIdempotencyMismatch = errors.New("idempotency key was used with another request body")
	// ErrBadCursor: the cursor is not one that this list returned.
	ErrBadCursor = errors.New("cursor is not one of this list")
	// ErrSteeringFull: the run has not read the messages that were sent to it.
	ErrSteeringFull = errors.New("too many messages wait for the run")
	// ErrMemoryBound: a note is larger, or they are more, than a scope may hold.
	ErrMemoryBound = errors.New("memory is full")
	// ErrLocked: another process holds the store.
	ErrLocked = errors.New("the state directory is in use by another process")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
)

// Status is the state of a run.
type Status string

// The states of a run. The last three are terminal.
const (
	StatusQueued             Status = "queued"
	StatusRunning            Status = "running"
	StatusWaitingForUser     Status = "waiting_for_user"
	StatusWaitingForApproval Status = "waiting_for_approval"
	StatusCompleted          Status = "completed"
	StatusFailed             Status = "failed"
	StatusCancelled          Status = "cancelled"
)

// Terminal reports whether the run has ended.
func (s Status) Terminal() bool {
	return s == StatusCompleted || s == StatusFailed || s == StatusCancelled
}

// Waiting reports whether the run waits for a person.
func (s Status) Waiting() bool { return s == StatusWaitingForUser || s == StatusWaitingForApproval }

// Run is one run as it is kept.
type Run struct {
	ID             string
	TenantID       string
	ConversationID string
	PreviousRunID  string
	Status         Status
	Prompt         string
	// Request is the accepted request with every default filled in, as the engine wrote it.
	Request json.RawMessage
	Output  string
	Error   string
	Reason  string
	Usage   event.UsageTotals
	Cost    event.CostTotals
	Steps   int
	// Epoch counts the run's owners. It grows with each segment.
	Epoch int64
	// Attempts counts the recoveries since the run last made progress.
	Attempts int
	// Head is the seq of the last event.
	Head int64
	// State is the lifecycle state of the last checkpoint (a continue-turn or resume-session state), nil before the first.
	State           json.RawMessage
	CancelRequested bool
	// CancelledBy is who asked for the cancel first.
	CancelledBy string
	CreatedBy   string
	CreatedAt   time.Time
	UpdatedAt   time.Time
	FinishedAt  *time.Time
}

// NewRun is what CreateRun stores. IDs are made by the caller.
type NewRun struct {
	ID             string
	TenantID       string
	ConversationID string
	PreviousRunID  string
	// AgentID groups conversations. Empty: none.
	AgentID   string
	Prompt    string
	Request   json.RawMessage
	CreatedBy string
	// Idempotency: a repeated key of the tenant returns the first run. BodyDigest tells a changed body.
	IdempotencyKey string
	BodyDigest     string
	// Lease asks for the lease in the same commit (the run gets status running and epoch 1), which is granted when
	// no earlier run of the conversation is open.
	Lease bool
}

// Created is the outcome of CreateRun. Existed: the idempotency key named an earlier run, which Run is. Leased: the
// caller owns Run.Epoch and must execute it.
type Created struct {
	Run     Run
	Existed bool
	Leased  bool
}

// Batch is one fenced write by a run's owner. Its events get the next seqs in order.
type Batch struct {
	RunID  string
	Epoch  int64
	Events []NewEvent
	// Transcript items are appended to the run's conversation.
	Transcript []TranscriptItem
	// Approvals and Questions are inserted.
	Approvals []event.Approval
	Questions []event.PendingQuestion
	// Consume moves an approved approval to consumed. If it is not approved (any more), nothing of the batch is
	// written and the result is an *event.ConflictError.
	Consume string
	// SettleApprovals and SettleQuestions mark answers as delivered to the model.
	SettleApprovals []string
	SettleQuestions []string
	// State, when not nil, replaces the run's lifecycle state (a checkpoint).
	State json.RawMessage
	// Update changes the run's row.
	Update *RunUpdate
	// Steer marks steering messages up to this id as delivered.
	SteerDelivered int64
}

// NewEvent is an event before it has a seq and a time. Payload is what event.Encode made.
type NewEvent struct {
	Type    event.Type
	Payload json.RawMessage
}

// RunUpdate changes a run's row; nil fields stay.
type RunUpdate struct {
	Status *Status
	Output *string
	Error  *string
	Reason *string
	Usage  *event.UsageTotals
	Cost   *event.CostTotals
	Steps  *int
	// Progress resets Attempts to 0.
	Progress bool
}

// Receipt is a submitted batch on its way to the commit.
type Receipt interface {
	// Wait returns after the commit with the seq of the batch's last event (the run's head), or with the reason why
	// nothing was written. It may be called more than once. When ctx ends first the batch may still be committed.
	Wait(ctx context.Context) (head int64, err error)
	// Done is closed after the commit or the refusal.
	Done() <-chan struct{}
}

// Park is the end of a segment that waits for people.
type Park struct {
	RunID  string
	Epoch  int64
	Status Status // waiting_for_user or waiting_for_approval
	State  json.RawMessage
	Events []NewEvent // appended only when the run is parked
	Update *RunUpdate
}

// Decision answers an approval.
type Decision struct {
	ApprovalID string
	TenantID   string
	Approve    bool
	Scope      event.ApprovalScope
	Reason     string
	DecidedBy  string
}

// Answer answers a question.
type Answer struct {
	QuestionID string
	TenantID   string
	Answers    map[string][]string
	AnsweredBy string
}

// Wake names a run that became runnable by a write: its new owner must execute it at this epoch. The zero value
// means that nothing has to be done.
type Wake struct {
	RunID string
	Epoch int64
}

// ListOptions page through lists, newest first. Cursor is the opaque NextCursor of the page before.
type ListOptions struct {
	TenantID       string
	ConversationID string
	RunID          string
	Status         string
	Cursor         string
	Limit          int // 1 to 200; 0 means 50
}

// TranscriptItem is one entry of a conversation's transcript. Data is opaque to the store. Idx and At are set by the
// store: the number, from 1 without gaps, and the time of the commit. RunID is the run that appended it; in a fork that
// may be a run of the origin.
type TranscriptItem struct {
	Idx   int64
	RunID string
	Kind  string
	Data  json.RawMessage
	At    time.Time
}

// SteerKind says what a steering message is. The zero value is SteerPrompt.
type SteerKind string

// The kinds of steering messages. Text holds the words of a SteerPrompt, and for the others the JSON of the command.
const (
	SteerPrompt  SteerKind = ""
	SteerTodos   SteerKind = "todos"
	SteerCompact SteerKind = "compact"
)

// SteerInput is what Steer stores.
type SteerInput struct {
	Kind SteerKind
	Text string
	By   string
}

// SteerMessage is a message that a person added to an active run.
type SteerMessage struct {
	ID   int64
	Kind SteerKind
	Text string
	By   string
}

// Key is an API key. The secret itself is never stored: Hash is its SHA-256.
type Key struct {
	ID        string
	Prefix    string
	Hash      [32]byte
	TenantID  string
	Name      string
	Scopes    []string
	CreatedAt time.Time
	ExpiresAt *time.Time
	RevokedAt *time.Time
	LastUsed  *time.Time
}

// Store is the seam. Methods are safe for concurrent use.
type Store interface {
	Conversations
	Search

	// CreateRun stores the run with its run.queued event (the first of the log) and, where asked and possible, its
	// lease, in one commit.
	CreateRun(ctx context.Context, r NewRun) (Created, error)
	// Submit queues a batch and returns at once. Order per run is the order of the calls.
	Submit(b Batch) Receipt
	// Finish ends a run: the batch's Update must set a terminal status. Pending approvals and questions of the run
	// become withdrawn (each with its tool.approval_denied event before the batch's events), the lease ends, and
	// the next queued run of the conversation, if any, is leased.
	Finish(ctx context.Context, b Batch) (Wake, error)
	// Park ends a segment that waits for people, unless something arrived meanwhile (a decided and unsettled
	// approval, an answered and unsettled question, an undelivered steering message, a cancel request): then it
	// returns parked false and writes nothing, and the caller goes on. Parked runs have no owner; the epoch stays.
	Park(ctx context.Context, p Park) (parked bool, err error)

	// Decide answers a pending approval by compare-and-set and appends its event. The same answer again returns the
	// approval and no error; another one, or an answer to an ended approval, is an *event.ConflictError with the
	// approval returned. If the run is parked it is leased in the same commit.
	Decide(ctx context.Context, d Decision) (event.Approval, Wake, error)
	// AnswerQuestion is the same for a question; its event is run.resumed.
	AnswerQuestion(ctx context.Context, a Answer) (event.PendingQuestion, Wake, error)
	// ExpireDue expires approvals and questions whose time has come, at most limit of them, and returns the runs to
	// wake and the time of the next deadline (zero: none).
	ExpireDue(ctx context.Context, limit int) (wakes []Wake, next time.Time, err error)
	// Steer stores a message for an active run. A parked run is leased in the same commit. An unknown kind is an error;
	// the message after MaxSteering undelivered ones is ErrSteeringFull.
	Steer(ctx context.Context, tenantID, runID string, m SteerInput) (Wake, error)
	// Steering lists undelivered messages in order, at most MaxSteering.
	Steering(ctx context.Context, runID string) ([]SteerMessage, error)
	// RequestCancel sets the cancel flag. A queued or parked run is leased in the same commit, so that its owner
	// can finish it. It is idempotent; a terminal run is returned as it is.
	RequestCancel(ctx context.Context, tenantID, runID, by string) (Run, Wake, error)

	// Recover takes over every open run without a living owner: it bumps the epoch and the attempts of runs in
	// running, and returns them oldest first. Parked runs stay parked. Queued runs whose conversation is free are
	// leased and returned too.
	Recover(ctx context.Context) ([]Wake, error)
	// LeaseQueued leases up to limit queued runs whose conversation is free, oldest first.
	LeaseQueued(ctx context.Context, limit int) ([]Wake, error)

	GetRun(ctx context.Context, id string) (Run, error)
	// ListRuns leaves State nil: a checkpoint can be large, and only an owner needs it.
	ListRuns(ctx context.Context, o ListOptions) (runs []Run, next string, err error)
	// Events returns events with seq > after, in order, at most limit (0: 1,000) and PageBytes.
	Events(ctx context.Context, runID string, after int64, limit int) ([]event.Event, error)
	// Watch returns a channel that gets a value (coalesced) after each commit that appended to the run's log, and a
	// function that ends the watch.
	Watch(runID string) (<-chan struct{}, func())
	GetApproval(ctx context.Context, id string) (event.Approval, error)
	ListApprovals(ctx context.Context, o ListOptions) (list []event.Approval, next string, err error)
	// RunApprovals lists all approvals of a run, oldest first; SessionApprovals those of scope session that were
	// granted in a conversation.
	RunApprovals(ctx context.Context, runID string) ([]event.Approval, error)
	SessionApprovals(ctx context.Context, tenantID, conversationID string) ([]event.Approval, error)
	RunQuestions(ctx context.Context, runID string) ([]event.PendingQuestion, error)
	// Transcript returns the items of a conversation with idx > after, in order, at most limit (0: 1,000) and PageBytes.
	Transcript(ctx context.Context, tenantID, conversationID string, after int64, limit int) ([]TranscriptItem, error)
	// LastRun is the newest run of a conversation.
	LastRun(ctx context.Context, tenantID, conversationID string) (Run, error)

	// MemoryGet reads a note. A note belongs to a tenant, a scope of tool.MemoryScope and the id of what the scope names:
	// a run, a conversation or an agent. The store knows nothing of these ids but that they are not empty.
	MemoryGet(ctx context.Context, tenantID string, scope tool.MemoryScope, scopeID, key string) (value string, ok bool, err error)
	// MemorySet writes a note, or replaces it. One beyond the bounds tool.MaxMemoryKeyBytes, MaxMemoryValueBytes or, for a
	// new key, MaxMemoryKeys of the scope id is refused with an error that wraps ErrMemoryBound and names the bound; two
	// writes at once cannot pass it together.
	MemorySet(ctx context.Context, tenantID string, scope tool.MemoryScope, scopeID, key, value string) error
	// MemoryDelete removes a note and reports whether it was there.
	MemoryDelete(ctx context.Context, tenantID string, scope tool.MemoryScope, scopeID, key string) (existed bool, err error)
	// MemoryList lists the keys in the order of their bytes.
	MemoryList(ctx context.Context, tenantID string, scope tool.MemoryScope, scopeID string) (keys []string, err error)

	PutKey(ctx context.Context, k Key) error
	KeyByHash(ctx context.Context, hash [32]byte) (Key, error)
	ListKeys(ctx context.Context, tenantID string) ([]Key, error)
	RevokeKey(ctx context.Context, tenantID, id string) error
	// RotateKey stores next and lets the key with the id expire at until, if it does not expire earlier, in one commit.
	// A key that was revoked or has expired is an *event.ConflictError.
	RotateKey(ctx context.Context, tenantID, id string, next Key, until time.Time) error

	// Ping reports whether the store can serve.
	Ping(ctx context.Context) error
	Close() error
}
