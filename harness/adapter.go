package harness

import (
	"context"
	"encoding/json"

	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/sandbox"
)

// SpecificationVersion is the adapter contract that this package speaks.
const SpecificationVersion = "harness-v1"

// Harness is an adapter: it drives one kind of agent runtime.
type Harness interface {
	// SpecificationVersion is the literal "harness-v1".
	SpecificationVersion() string
	// HarnessID is a stable kebab-case slug. It is checked against lifecycle state.
	HarnessID() string
	// BuiltinTools are the runtime's own tools, by the tool name that stream parts carry.
	BuiltinTools() map[string]BuiltinTool
	// DoStart starts, resumes or continues a session. It must never stop or destroy the sandbox.
	DoStart(ctx context.Context, opts StartOptions) (AdapterSession, error)
}

// BuiltinToolApprovalSupport is implemented by adapters that can emit approval requests for built-in tools.
type BuiltinToolApprovalSupport interface{ SupportsBuiltinToolApprovals() bool }

// BuiltinToolFilteringSupport is implemented by adapters that can hide inactive built-in tools.
type BuiltinToolFilteringSupport interface{ SupportsBuiltinToolFiltering() bool }

// LifecycleStateValidator is implemented by adapters that validate the data of lifecycle state.
type LifecycleStateValidator interface {
	ValidateLifecycleStateData(data json.RawMessage) error
}

// StartOptions is what an adapter gets to start a session. The fields from Journal on are additions to the plain
// contract; an adapter must work with all of them nil.
type StartOptions struct {
	// Headers have lower-cased names.
	Headers    map[string]string
	SessionID  string
	ResumeFrom *ResumeSessionState
	// ContinueFrom is also set when it came nested in ResumeFrom.
	ContinueFrom         *ContinueTurnState
	PermissionMode       PermissionMode // always resolved
	BuiltinToolFiltering *BuiltinToolFiltering
	Observability        *Observability
	SandboxSession       sandbox.Session
	SessionWorkDir       string // absolute

	// Journal receives facts as they happen, before the consumer's stream is shaped.
	Journal Journal
	// Checkpoint persists the adapter's lifecycle data, in one commit with the facts emitted before it. It is called
	// once the turn's prompt is recorded and after each step.
	Checkpoint func(ctx context.Context, data json.RawMessage) error
	// Decide is the gate for the runtime's own tools. With it, every call is asked, whatever the permission mode.
	Decide Decider
}

// Decider is the gate as adapters see it; *control.Gate implements it.
type Decider interface {
	Decide(ctx context.Context, c control.Call) (control.Decision, error)
	Recall(ctx context.Context, callID string) (control.Record, error)
	Settle(ctx context.Context, c control.Call, rec control.Record) (*control.Permit, *control.CallOutcome, error)
	Question(ctx context.Context, step int, callID, tool string, questions []event.Question) (event.PendingQuestion, error)
	// Resolve takes a decision that a caller submitted, see control.Gate.Resolve.
	Resolve(ctx context.Context, callID, approvalID string, approved bool, reason string) error
}

var _ Decider = (*control.Gate)(nil)

// Journal takes the facts of a session in their order. The facts of one call are one commit. Emit is pipelined: it
// returns at once, and the facts are committed in order. Barrier returns when its facts, and all before them, are
// committed. After an error nothing further is committed, and the turn must end.
type Journal interface {
	Emit(facts ...event.Fact)
	Barrier(ctx context.Context, facts ...event.Fact) error
}

// AdapterSession is one session of a runtime. Its methods are called by one goroutine at a time, except for
// DoSuspendTurn, which may come while a turn runs.
type AdapterSession interface {
	SessionID() string
	// IsResume reports whether ResumeFrom or ContinueFrom was given.
	IsResume() bool
	// DoPromptTurn starts a turn with one user message. It returns once the turn runs. ctx bounds the whole turn:
	// its end aborts it.
	DoPromptTurn(ctx context.Context, opts PromptTurnOptions) (TurnControl, error)
	// DoContinueTurn goes on with the unfinished turn of ContinueFrom.
	DoContinueTurn(ctx context.Context, opts ContinueTurnOptions) (TurnControl, error)
	// DoSuspendTurn stops the turn at a precise place; Done of the active turn is closed, without error, after the
	// buffered parts were emitted.
	DoSuspendTurn(ctx context.Context) (*ContinueTurnState, error)
	// DoDetach ends the use of the session between turns; the runtime may stay.
	DoDetach(ctx context.Context) (*ResumeSessionState, error)
	// DoStop persists the session and stops the runtime.
	DoStop(ctx context.Context) (*ResumeSessionState, error)
	// DoDestroy stops the runtime without state.
	DoDestroy(ctx context.Context) error
	// DoCompact triggers compaction; the outcome comes as a compaction part.
	DoCompact(ctx context.Context, customInstructions string) error
}

// TurnOptions are what prompt and continued turns have in common.
type TurnOptions struct {
	Model          string
	Skills         []Skill
	Instructions   string
	Tools          []ToolSpec // host tools
	ResponseFormat *ResponseFormat
	// Emit takes the turn's parts in order. It is synchronous and must not be called after Done is closed.
	Emit func(StreamPart)
}

// PromptTurnOptions start a turn.
type PromptTurnOptions struct {
	TurnOptions
	Prompt Prompt
}

// ContinueTurnOptions continue a turn.
type ContinueTurnOptions struct{ TurnOptions }

// TurnControl is the host's hand on a running turn.
type TurnControl interface {
	// SubmitToolResult gives the result of a host tool or of the questions tool. The adapter echoes it as a
	// tool-result part.
	SubmitToolResult(ctx context.Context, r ToolResultSubmission) error
	// Done is closed when the turn ended or was suspended; Err is then its error.
	Done() <-chan struct{}
	Err() error
}

// ToolApprovalSubmitter is implemented by turn controls whose adapter can ask for approval.
type ToolApprovalSubmitter interface {
	SubmitToolApproval(ctx context.Context, a ToolApprovalSubmission) error
}

// UserMessageSubmitter is implemented by turn controls whose runtime can be steered.
type UserMessageSubmitter interface {
	SubmitUserMessage(ctx context.Context, text string) error
}

// ToolResultSubmission is the result of a call that the host executed. ToolResult is the full form, when the output
// alone does not carry it.
type ToolResultSubmission struct {
	ToolCallID string
	Output     any
	IsError    bool
	ToolResult any
}

// ToolApprovalSubmission answers a tool-approval-request part.
type ToolApprovalSubmission struct {
	ApprovalID string
	Approved   bool
	Reason     string
}
