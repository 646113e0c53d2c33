package event

import (
	"encoding/json"
	"time"
)

// The kinds of events that a run emits. The comment on each payload says when.
const (
	RunQueued             Type = "run.queued"
	RunStarted            Type = "run.started"
	RunRecovered          Type = "run.recovered"
	RunStepStarted        Type = "run.step.started"
	RunStepCompleted      Type = "run.step.completed"
	RunWaitingForApproval Type = "run.waiting_for_approval"
	RunWaitingForUser     Type = "run.waiting_for_user"
	RunResumed            Type = "run.resumed"
	RunCostLimitReached   Type = "run.cost_limit_reached"
	RunCompleted          Type = "run.completed"
	RunFailed             Type = "run.failed"
	RunCancelled          Type = "run.cancelled"

	LLMTurnRequested       Type = "llm.turn.requested"
	LLMTurnCompleted       Type = "llm.turn.completed"
	LLMAttemptDiscarded    Type = "llm.attempt.discarded"
	LLMEmptyResponseRetry  Type = "llm.empty_response.retry"
	ProviderResolved       Type = "provider.resolved"
	AssistantMessageDelta  Type = "assistant.message.delta"
	AssistantThinkingDelta Type = "assistant.thinking.delta"
	AssistantMessage       Type = "assistant.message"
	ReasoningComplete      Type = "reasoning.complete"
	UsageDelta             Type = "usage.delta"

	ToolCallDelta        Type = "tool.call.delta"
	ToolCallStarted      Type = "tool.call.started"
	ToolOutputDelta      Type = "tool.output.delta"
	ToolCallCompleted    Type = "tool.call.completed"
	ToolCallBlocked      Type = "tool.call.blocked"
	ToolApprovalRequired Type = "tool.approval_required"
	ToolApprovalGranted  Type = "tool.approval_granted"
	ToolApprovalDenied   Type = "tool.approval_denied"
	ToolActivated        Type = "tool.activated"

	ConversationContinued Type = "conversation.continued"
	SteeringReceived      Type = "steering.received"
	TodosUpdated          Type = "todos.updated"
	PromptWarning         Type = "prompt.warning"
	PromptResolved        Type = "prompt.resolved"
	JobCompleted          Type = "job.completed"

	ContextWindowSnapshot   Type = "context.window.snapshot"
	ContextWindowWarning    Type = "context.window.warning"
	AutoCompactStarted      Type = "auto_compact.started"
	AutoCompactCompleted    Type = "auto_compact.completed"
	CompactHistoryCompleted Type = "compact_history.completed"
)

// payloads makes an empty payload of each kind. It is the catalogue: a kind that is missing here does not exist.
var payloads = map[Type]func() Payload{
	RunQueued:              func() Payload { return new(RunQueuedPayload) },
	RunStarted:             func() Payload { return new(RunStartedPayload) },
	RunRecovered:           func() Payload { return new(RunRecoveredPayload) },
	RunStepStarted:         func() Payload { return new(RunStepStartedPayload) },
	RunStepCompleted:       func() Payload { return new(RunStepCompletedPayload) },
	RunWaitingForApproval:  func() Payload { return new(RunWaitingForApprovalPayload) },
	RunWaitingForUser:      func() Payload { return new(RunWaitingForUserPayload) },
	RunResumed:             func() Payload { return new(RunResumedPayload) },
	RunCostLimitReached:    func() Payload { return new(RunCostLimitReachedPayload) },
	RunCompleted:           func() Payload { return new(RunCompletedPayload) },
	RunFailed:              func() Payload { return new(RunFailedPayload) },
	RunCancelled:           func() Payload { return new(RunCancelledPayload) },
	LLMTurnRequested:       func() Payload { return new(LLMTurnRequestedPayload) },
	LLMTurnCompleted:       func() Payload { return new(LLMTurnCompletedPayload) },
	LLMAttemptDiscarded:    func() Payload { return new(LLMAttemptDiscardedPayload) },
	LLMEmptyResponseRetry:  func() Payload { return new(LLMEmptyResponseRetryPayload) },
	ProviderResolved:       func() Payload { return new(ProviderResolvedPayload) },
	AssistantMessageDelta:  func() Payload { return new(AssistantMessageDeltaPayload) },
	AssistantThinkingDelta: func() Payload { return new(AssistantThinkingDeltaPayload) },
	AssistantMessage:       func() Payload { return new(AssistantMessagePayload) },
	ReasoningComplete:      func() Payload { return new(ReasoningCompletePayload) },
	UsageDelta:             func() Payload { return new(UsageDeltaPayload) },
	ToolCallDelta:          func() Payload { return new(ToolCallDeltaPayload) },
	ToolCallStarted:        func() Payload { return new(ToolCallStartedPayload) },
	ToolOutputDelta:        func() Payload { return new(ToolOutputDeltaPayload) },
	ToolCallCompleted:      func() Payload { return new(ToolCallCompletedPayload) },
	ToolCallBlocked:        func() Payload { return new(ToolCallBlockedPayload) },
	ToolApprovalRequired:   func() Payload { return new(ToolApprovalRequiredPayload) },
	ToolApprovalGranted:    func() Payload { return new(ToolApprovalGrantedPayload) },
	ToolApprovalDenied:     func() Payload { return new(ToolApprovalDeniedPayload) },
	ToolActivated:          func() Payload { return new(ToolActivatedPayload) },
	ConversationContinued:  func() Payload { return new(ConversationContinuedPayload) },
	SteeringReceived:       func() Payload { return new(SteeringReceivedPayload) },
	TodosUpdated:           func() Payload { return new(TodosUpdatedPayload) },
	PromptWarning:          func() Payload { return new(PromptWarningPayload) },
	JobCompleted:           func() Payload { return new(JobCompletedPayload) },
	PromptResolved:         func() Payload { return new(PromptResolvedPayload) },

	ContextWindowSnapshot:   func() Payload { return new(ContextWindowSnapshotPayload) },
	ContextWindowWarning:    func() Payload { return new(ContextWindowWarningPayload) },
	AutoCompactStarted:      func() Payload { return new(AutoCompactStartedPayload) },
	AutoCompactCompleted:    func() Payload { return new(AutoCompactCompletedPayload) },
	CompactHistoryCompleted: func() Payload { return new(CompactHistoryCompletedPayload) },
}

// Types lists every kind of event.
func Types() []Type {
	list := make([]Type, 0, len(payloads))
	for t := range payloads {
		list = append(list, t)
	}
	return list
}

// UsageTotals is the token usage of a run so far. A provider that reports nothing adds nothing.
type UsageTotals struct {
	PromptTokensTotal     int64 `json:"prompt_tokens_total"`
	CompletionTokensTotal int64 `json:"completion_tokens_total"`
	CachedTokensTotal     int64 `json:"cached_tokens_total"`
	ReasoningTokensTotal  int64 `json:"reasoning_tokens_total"`
	TotalTokens           int64 `json:"total_tokens"`
	LastTurnTokens        int64 `json:"last_turn_tokens"`
}

// CostStatus tells how far a cost can be trusted.
type CostStatus string

// The four cost statuses.
const (
	CostAvailable          CostStatus = "available"
	CostUnpricedModel      CostStatus = "unpriced_model"
	CostProviderUnreported CostStatus = "provider_unreported"
	CostPending            CostStatus = "pending"
)

// CostTotals is the money of a run so far, in US dollars.
type CostTotals struct {
	CostUSDTotal    float64    `json:"cost_usd_total"`
	LastTurnCostUSD float64    `json:"last_turn_cost_usd"`
	CostStatus      CostStatus `json:"cost_status"`
	PricingVersion  string     `json:"pricing_version,omitempty"`
}

// Permissions are the effective permissions of a run, after the node's floor was applied.
type Permissions struct {
	Sandbox      string   `json:"sandbox"`
	Network      string   `json:"network"`
	AllowedHosts []string `json:"allowed_hosts,omitempty"`
	Approval     string   `json:"approval"`
}

// RunQueuedPayload: the run was accepted.
type RunQueuedPayload struct {
	Prompt string `json:"prompt"`
}

// RunStartedPayload: a worker took the run for the first time. Notes say what is not enforced on this node, in whole
// sentences for people.
type RunStartedPayload struct {
	Prompt string `json:"prompt"`
	// Attachments are the files that went to the model with the prompt.
	Attachments   []Attached  `json:"attachments,omitempty"`
	PreviousRunID string      `json:"previous_run_id,omitempty"`
	Harness       string      `json:"harness"`
	Model         string      `json:"model,omitempty"`
	Workspace     string      `json:"workspace"`
	Permissions   Permissions `json:"permissions"`
	SandboxTier   int         `json:"sandbox_tier"`
	Notes         []string    `json:"notes,omitempty"`
}

// Attached is a file of a prompt, without its content.
type Attached struct {
	MediaType string `json:"media_type"`
	Filename  string `json:"filename,omitempty"`
	Size      int    `json:"size" doc:"in bytes"`
}

// RunRecoveredPayload: a worker took over a run whose worker died.
type RunRecoveredPayload struct {
	Epoch    int64 `json:"epoch"`
	Attempts int   `json:"attempts"`
}

// RunStepStartedPayload: a step begins.
type RunStepStartedPayload struct {
	StepStartMS int64 `json:"step_start_ms"` // Unix time in milliseconds
}

// RunStepCompletedPayload: a step and all its tool calls ended.
type RunStepCompletedPayload struct {
	ToolCalls  int   `json:"tool_calls"`
	DurationMS int64 `json:"duration_ms"`
}

// RunWaitingForApprovalPayload: the run waits for people and holds no worker.
type RunWaitingForApprovalPayload struct {
	ApprovalIDs []string `json:"approval_ids"`
}

// QuestionOption is one choice of a question.
type QuestionOption struct {
	Label       string `json:"label"`
	Description string `json:"description"`
}

// Question is one question to a person.
type Question struct {
	Question    string           `json:"question"`
	Header      string           `json:"header"`
	Options     []QuestionOption `json:"options"`
	MultiSelect bool             `json:"multiSelect,omitempty"`
}

// RunWaitingForUserPayload: the model asked the user; the answer comes by POST /v1/runs/{id}/input.
type RunWaitingForUserPayload struct {
	CallID     string     `json:"call_id"`
	Tool       string     `json:"tool"`
	Questions  []Question `json:"questions"`
	DeadlineAt time.Time  `json:"deadline_at"`
}

// RunResumedPayload: a question was answered or its deadline passed. Answers maps each question's text to
// its chosen labels or free text.
type RunResumedPayload struct {
	CallID     string              `json:"call_id"`
	Tool       string              `json:"tool"`
	AnsweredAt time.Time           `json:"answered_at"`
	AnsweredBy string              `json:"answered_by,omitempty"`
	TimedOut   bool                `json:"timed_out,omitempty"`
	Answers    map[string][]string `json:"answers,omitempty"`
}

// RunCostLimitReachedPayload: the next model call could exceed the run's budget, so it is not made.
type RunCostLimitReachedPayload struct {
	MaxCostUSD        float64 `json:"max_cost_usd"`
	CumulativeCostUSD float64 `json:"cumulative_cost_usd"`
}

// RunCompletedPayload: the run ended well.
type RunCompletedPayload struct {
	Output      string      `json:"output"`
	UsageTotals UsageTotals `json:"usage_totals"`
	CostTotals  CostTotals  `json:"cost_totals"`
}

// Reasons of a failed run that programs act on.
const (
	ReasonMaxSteps          = "max_steps_reached"
	ReasonMaxCost           = "max_cost_reached"
	ReasonMaxTokens         = "max_tokens_reached"
	ReasonTimeout           = "timeout"
	ReasonProvider          = "provider_error"
	ReasonContextLength     = "context_length"
	ReasonHarness           = "harness_error"
	ReasonRecoveryExhausted = "recovery_exhausted"
	ReasonInternal          = "internal_error"
)

// RunFailedPayload: the run ended badly; what it did is kept.
type RunFailedPayload struct {
	Error       string      `json:"error"`
	Reason      string      `json:"reason,omitempty"`
	MaxSteps    int         `json:"max_steps,omitempty"`
	UsageTotals UsageTotals `json:"usage_totals"`
	CostTotals  CostTotals  `json:"cost_totals"`
}

// RunCancelledPayload: somebody cancelled the run.
type RunCancelledPayload struct {
	CancelledBy string      `json:"cancelled_by,omitempty"`
	UsageTotals UsageTotals `json:"usage_totals"`
	CostTotals  CostTotals  `json:"cost_totals"`
}

// PurposeSummary marks the facts of a model call that summarises old messages. All other calls have no purpose.
const PurposeSummary = "summary"

// LLMTurnRequestedPayload: a model call is about to be made.
type LLMTurnRequestedPayload struct {
	Attempt  int    `json:"attempt"`
	Purpose  string `json:"purpose,omitempty"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// LLMTurnCompletedPayload: a model call ended.
type LLMTurnCompletedPayload struct {
	Purpose         string `json:"purpose,omitempty"`
	ToolCalls       int    `json:"tool_calls"`
	TotalDurationMS int64  `json:"total_duration_ms"`
	TTFTMS          int64  `json:"ttft_ms"`
	Provider        string `json:"provider,omitempty"`
	Model           string `json:"model,omitempty"`
	FinishReason    string `json:"finish_reason,omitempty"`
}

// LLMAttemptDiscardedPayload: an attempt failed or was lost. Readers drop its deltas, which began after FromSeq.
// The journal fills FromSeq with the seq of the attempt's llm.turn.requested.
type LLMAttemptDiscardedPayload struct {
	Attempt   int    `json:"attempt"`
	Purpose   string `json:"purpose,omitempty"`
	FromSeq   int64  `json:"from_seq"`
	Reason    string `json:"reason"`
	Status    int    `json:"status,omitempty"`
	RetryInMS int64  `json:"retry_in_ms,omitempty"`
}

// LLMEmptyResponseRetryPayload: the model answered nothing and is asked again.
type LLMEmptyResponseRetryPayload struct {
	Retry      int `json:"retry"`
	MaxRetries int `json:"max_retries"`
}

// ProviderResolvedPayload: which provider and model serve the run from here on.
type ProviderResolvedPayload struct {
	Model    string `json:"model"`
	Provider string `json:"provider"`
}

// AssistantMessageDeltaPayload: a piece of the answer.
type AssistantMessageDeltaPayload struct {
	Content string `json:"content"`
}

// AssistantThinkingDeltaPayload: a piece of reasoning.
type AssistantThinkingDeltaPayload struct {
	Content string `json:"content"`
}

// AssistantMessagePayload: the whole text of one answer.
type AssistantMessagePayload struct {
	Content string `json:"content"`
}

// ReasoningCompletePayload: the whole reasoning of one answer.
type ReasoningCompletePayload struct {
	Text   string `json:"text"`
	Tokens int64  `json:"tokens"`
}

// UsageDeltaPayload: the usage of one model call, and the totals.
type UsageDeltaPayload struct {
	UsageStatus       string          `json:"usage_status"` // reported | unreported
	CostStatus        CostStatus      `json:"cost_status"`
	TurnUsage         json.RawMessage `json:"turn_usage"`
	TurnCostUSD       float64         `json:"turn_cost_usd"`
	CumulativeUsage   UsageTotals     `json:"cumulative_usage"`
	CumulativeCostUSD float64         `json:"cumulative_cost_usd"`
	PricingVersion    string          `json:"pricing_version,omitempty"`
}

// ToolCallDeltaPayload: a piece of a call's arguments.
type ToolCallDeltaPayload struct {
	Index     int    `json:"index"`
	CallID    string `json:"call_id"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
}

// ToolCallStartedPayload: the call is about to run. It is committed before any side effect.
type ToolCallStartedPayload struct {
	CallID     string `json:"call_id"`
	Tool       string `json:"tool"`
	Arguments  string `json:"arguments"`
	Kind       string `json:"kind"`
	ApprovalID string `json:"approval_id,omitempty"`
}

// ToolOutputDeltaPayload: a piece of a running call's output.
type ToolOutputDeltaPayload struct {
	CallID      string `json:"call_id"`
	Tool        string `json:"tool"`
	StreamIndex int    `json:"stream_index"` // 0 standard output, 1 standard error
	Content     string `json:"content"`
}

// ToolCallCompletedPayload: the call ended. Output is what the model reads; Artifact names the full output when it
// was cut. Error is a code; Interrupted tells of a call whose process ended before its outcome was known.
type ToolCallCompletedPayload struct {
	CallID      string          `json:"call_id"`
	Tool        string          `json:"tool"`
	Output      string          `json:"output"`
	DurationMS  int64           `json:"duration_ms"`
	Error       string          `json:"error,omitempty"`
	Interrupted bool            `json:"interrupted,omitempty"`
	Truncated   bool            `json:"truncated,omitempty"`
	Artifact    string          `json:"artifact,omitempty"`
	Diff        string          `json:"diff,omitempty"`
	Details     json.RawMessage `json:"details,omitempty"`
}

// ToolCallBlockedPayload: the gate refused the call.
type ToolCallBlockedPayload struct {
	CallID string `json:"call_id"`
	Tool   string `json:"tool"`
	Skill  string `json:"skill,omitempty"`
	Stage  string `json:"stage"`
	Reason string `json:"reason"`
}

// ToolApprovalRequiredPayload: the call waits for a person. Arguments are the final ones.
type ToolApprovalRequiredPayload struct {
	ApprovalID string    `json:"approval_id"`
	CallID     string    `json:"call_id"`
	Tool       string    `json:"tool"`
	Arguments  string    `json:"arguments"`
	Digest     string    `json:"digest"`
	Reason     string    `json:"reason,omitempty"`
	DeadlineAt time.Time `json:"deadline_at"`
}

// ToolApprovalGrantedPayload: a person approved the call.
type ToolApprovalGrantedPayload struct {
	ApprovalID string `json:"approval_id"`
	CallID     string `json:"call_id"`
	Tool       string `json:"tool"`
	Arguments  string `json:"arguments"`
	DecidedBy  string `json:"decided_by,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Scope      string `json:"scope,omitempty"`
}

// ToolApprovalDeniedPayload: a person denied the call, or its deadline passed, or the run ended (withdrawn).
type ToolApprovalDeniedPayload struct {
	ApprovalID string `json:"approval_id"`
	CallID     string `json:"call_id"`
	Tool       string `json:"tool"`
	Arguments  string `json:"arguments"`
	DecidedBy  string `json:"decided_by,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Status     string `json:"status"` // denied | expired | withdrawn
}

// ToolActivatedPayload: find_tool made deferred tools callable for the rest of the run.
type ToolActivatedPayload struct {
	Tools []string `json:"tools"`
	Query string   `json:"query"`
}

// ConversationContinuedPayload: the run goes on with an earlier conversation.
type ConversationContinuedPayload struct {
	PriorMessageCount int `json:"prior_message_count"`
}

// SteeringReceivedPayload: a message was added to the run while it was active.
type SteeringReceivedPayload struct {
	Message string `json:"message"`
}

// Todo is one entry of a run's todo list.
type Todo struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Status string `json:"status"` // pending | in_progress | completed | cancelled
}

// TodosUpdatedPayload: the todo list as it is now.
type TodosUpdatedPayload struct {
	Todos []Todo `json:"todos"`
}

// PromptWarningPayload: something about the request is worth knowing.
type PromptWarningPayload struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// JobCompletedPayload: a background job ended.
type JobCompletedPayload struct {
	JobID    string `json:"job_id"`
	CallID   string `json:"call_id"`
	ExitCode int    `json:"exit_code"`
	Status   string `json:"status"` // exited | killed
}

// PromptFile is an instruction file of the workspace. Bytes is the size that goes to the model; with Cut the file is
// longer. Skipped says why a file that is there was left out.
type PromptFile struct {
	Path    string `json:"path"`
	Bytes   int    `json:"bytes"`
	Cut     bool   `json:"cut,omitempty"`
	Skipped string `json:"skipped,omitempty"`
}

// PromptResolvedPayload: the instruction files that are part of the system prompt from here on, farthest first.
type PromptResolvedPayload struct {
	Files []PromptFile `json:"files"`
}

// ContextUse tells how full the model's context is. Tokens is what the next request is taken to hold; with Estimated
// no provider's count is its base. Window and Pressure are absent where the model's window is not known.
type ContextUse struct {
	Messages  int     `json:"message_count"`
	Tokens    int64   `json:"estimated_tokens"`
	Estimated bool    `json:"estimated"`
	Window    int64   `json:"context_window,omitempty"`
	Pressure  float64 `json:"context_pressure,omitempty"`
}

// ContextWindowSnapshotPayload: the state of the context, beside a warning or after a compaction.
type ContextWindowSnapshotPayload struct {
	ContextUse
	Compactions int `json:"compactions"`
}

// ContextWindowWarningPayload: the context has grown beyond Threshold, a part of the window.
type ContextWindowWarningPayload struct {
	ContextUse
	Threshold float64 `json:"threshold"`
}

// AutoCompactStartedPayload: the history is about to be made shorter, because it fills too much of the window
// (threshold) or because the provider refused it (context_length).
type AutoCompactStartedPayload struct {
	Cause     string  `json:"cause"` // threshold | context_length
	Mode      string  `json:"mode"`  // strip | summarize | hybrid
	KeepLast  int     `json:"keep_last"`
	Tokens    int64   `json:"tokens_before"`
	Window    int64   `json:"context_window,omitempty"`
	Threshold float64 `json:"threshold,omitempty"`
}

// Compacted tells what a compaction did. Mode is what was done, which is strip where a summary was wanted and failed:
// SummaryError says why.
type Compacted struct {
	Mode            string `json:"mode"` // strip | summarize
	RequestedMode   string `json:"requested_mode"`
	KeepLast        int    `json:"keep_last"`
	MessagesRemoved int    `json:"messages_removed"`
	OutputsStripped int    `json:"outputs_stripped"`
	TokensBefore    int64  `json:"tokens_before"`
	TokensAfter     int64  `json:"tokens_after"`
	SummaryError    string `json:"summary_error,omitempty"`
}

// AutoCompactCompletedPayload: the history was made shorter by itself.
type AutoCompactCompletedPayload struct {
	Cause string `json:"cause"` // threshold | context_length
	Compacted
}

// CompactHistoryCompletedPayload: the history was made shorter because the model or a person asked for it.
type CompactHistoryCompletedPayload struct {
	Compacted
}
