package api

import (
	"encoding/json"

	"github.com/harness-go/harness/event"
)

// Decisions of an approval.
const (
	DecisionApprove = "approve"
	DecisionDeny    = "deny"
)

// DecisionRequest answers an approval by its id.
type DecisionRequest struct {
	Decision string `json:"decision" enum:"approve,deny"`
	Reason   string `json:"reason,omitempty" maxLength:"4096"`
	Scope    string `json:"scope,omitempty" enum:"once,session" doc:"how far an approval reaches: this call, or equal calls of the session; once by default"`
}

// ReasonRequest is the optional body of a run's approve and deny.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"4096"`
}

// RunDecided answers a run's approve and deny.
type RunDecided struct {
	Status     string `json:"status"`
	ApprovalID string `json:"approval_id"`
}

// ApprovalList is a page of approvals, newest first.
type ApprovalList struct {
	Approvals  []event.Approval `json:"approvals"`
	NextCursor string           `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last one"`
}

// Tool describes a tool. Schema is the JSON Schema of its arguments.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Tier        string          `json:"tier" enum:"core,deferred"`
	Kind        string          `json:"kind" doc:"what a call does to the world; approvals go by it"`
	Mutating    bool            `json:"mutating" doc:"whether a call can have a side effect"`
	Parallel    bool            `json:"parallel"`
	Tags        []string        `json:"tags,omitempty"`
	Schema      json.RawMessage `json:"schema"`
}

// ToolList lists the tools that runs of the caller can use.
type ToolList struct {
	Tools []Tool `json:"tools"`
}

// Health answers GET /healthz.
type Health struct {
	Status string `json:"status" enum:"ok"`
}
