package ai

import (
	"context"
	"encoding/json"
)

// Tool is a tool that the host offers to a runtime. Without Execute it is a client tool: a call of it pauses the turn
// until the caller gives the result.
type Tool struct {
	// Name is what the model calls. In a map of tools it may be empty: the key is the name.
	Name        string
	Title       string
	Description string
	// InputSchema is the JSON Schema of the input (an object). Nil accepts any JSON.
	InputSchema json.RawMessage
	// OutputSchema documents the result; nothing is checked against it.
	OutputSchema json.RawMessage
	// Execute runs one call. The result must marshal to JSON. An error is a failed call, whose text the model reads.
	Execute func(ctx context.Context, input json.RawMessage, opts ToolExecutionOptions) (any, error)
	// NeedsApproval reports whether this call waits for a person. It is asked only where no static configuration
	// names the tool. An error counts as yes.
	NeedsApproval func(ctx context.Context, input json.RawMessage, opts ToolExecutionOptions) (bool, error)
	// ReadOnly declares that a call has no side effect. Gates and approval policies decide by it.
	ReadOnly bool
}

// ToolExecutionOptions tell a tool about its call.
type ToolExecutionOptions struct {
	ToolCallID string
	// ToolContext is the value that the caller registered for this tool.
	ToolContext any
	// RuntimeContext is the turn's runtime context.
	RuntimeContext any
	// ApprovalReason is what the person wrote who approved the call.
	ApprovalReason string
}
