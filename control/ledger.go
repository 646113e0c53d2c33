package control

import (
	"context"

	"github.com/harness-go/harness/event"
)

// Ledger is the durable memory of the gate: asks, starts and results of calls. The daemon's is the run's log; Memory
// is the library's. An error of a Ledger is an infrastructure failure: the call is not made and the turn ends.
type Ledger interface {
	// Recall returns what is recorded of a call. An unknown call is the zero Record.
	Recall(ctx context.Context, callID string) (Record, error)
	// Request commits a pending approval (row and tool.approval_required) before it returns.
	Request(ctx context.Context, step int, a event.Approval) error
	// Begin records that a call starts. It returns after the commit when the call is durable (see Start.Durable);
	// with an approval it consumes it in the same commit and fails with *event.ConflictError when that is not
	// approved any more.
	Begin(ctx context.Context, s Start) error
	// End records a call's result.
	End(ctx context.Context, e End) error
	// Block records a refused call.
	Block(ctx context.Context, step int, b event.ToolCallBlockedPayload) error
	// Granted finds a session-wide grant for a digest and returns its approval's id.
	Granted(ctx context.Context, digest string) (string, bool, error)
	// Question commits a pending question (row and run.waiting_for_user). Asking again for the same call returns the
	// first record.
	Question(ctx context.Context, step int, q event.PendingQuestion) (event.PendingQuestion, error)
}

// Record is what the ledger knows of a call.
type Record struct {
	Approval *event.Approval
	Started  bool
	// Arguments are those the call was started with.
	Arguments string
	// Ended is the result, nil while there is none.
	Ended *CallOutcome
	// Blocked is the reason, when the gate refused the call.
	Blocked *event.ToolCallBlockedPayload
}

// Start is the start record of a call. Durable: the call can have a side effect, so Begin must wait for the commit.
type Start struct {
	Step       int
	CallID     string
	Tool       string
	Kind       string
	Arguments  string
	Digest     string
	ApprovalID string
	Durable    bool
}

// End is the result record of a call.
type End struct {
	Step    int
	CallID  string
	Tool    string
	Outcome CallOutcome
	// DurationMS is the time since Begin.
	DurationMS int64
}
