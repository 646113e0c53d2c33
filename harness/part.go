package harness

import (
	"encoding/json"

	"github.com/harness-go/harness/ai"
)

// StreamPart is one piece of what an adapter reports of a turn. The implementations are the structs of this file;
// their JSON names are those of the AI SDK's harness stream.
type StreamPart interface{ PartType() string }

// Metadata is opaque data by harness id.
type Metadata map[string]map[string]any

// The stream parts.
type (
	// StreamStart opens a turn. ModelID is the resolved model.
	StreamStart struct {
		Warnings []CallWarning `json:"warnings,omitempty"`
		ModelID  string        `json:"modelId,omitempty"`
	}
	TextStart struct {
		ID              string   `json:"id"`
		HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
	}
	TextDelta struct {
		ID              string   `json:"id"`
		Delta           string   `json:"delta"`
		HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
	}
	TextEnd struct {
		ID              string   `json:"id"`
		HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
	}
	ReasoningStart struct {
		ID              string   `json:"id"`
		HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
	}
	ReasoningDelta struct {
		ID              string   `json:"id"`
		Delta           string   `json:"delta"`
		HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
	}
	ReasoningEnd struct {
		ID              string   `json:"id"`
		HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
	}
	ToolInputStart struct {
		ID               string   `json:"id"`
		ToolName         string   `json:"toolName"`
		ProviderMetadata Metadata `json:"providerMetadata,omitempty"`
		ProviderExecuted *bool    `json:"providerExecuted,omitempty"`
		Dynamic          *bool    `json:"dynamic,omitempty"`
		Title            string   `json:"title,omitempty"`
	}
	ToolInputDelta struct {
		ID               string   `json:"id"`
		Delta            string   `json:"delta"`
		ProviderMetadata Metadata `json:"providerMetadata,omitempty"`
	}
	ToolInputEnd struct {
		ID               string   `json:"id"`
		ProviderMetadata Metadata `json:"providerMetadata,omitempty"`
	}
	// ToolCall: Input is JSON text. StepToolCallCount, when positive, is the number of calls of the step.
	ToolCall struct {
		ToolCallID        string   `json:"toolCallId"`
		ToolName          string   `json:"toolName"`
		Input             string   `json:"input"`
		ProviderExecuted  *bool    `json:"providerExecuted,omitempty"`
		Dynamic           *bool    `json:"dynamic,omitempty"`
		ProviderMetadata  Metadata `json:"providerMetadata,omitempty"`
		NativeName        string   `json:"nativeName,omitempty"`
		StepToolCallCount int      `json:"stepToolCallCount,omitempty"`
	}
	// ToolApprovalRequest must follow the ToolCall that it names.
	ToolApprovalRequest struct {
		ApprovalID       string   `json:"approvalId"`
		ToolCallID       string   `json:"toolCallId"`
		ProviderMetadata Metadata `json:"providerMetadata,omitempty"`
	}
	// ToolResult: Result is any JSON, null included.
	ToolResult struct {
		ToolCallID       string          `json:"toolCallId"`
		ToolName         string          `json:"toolName"`
		Result           json.RawMessage `json:"result"`
		IsError          *bool           `json:"isError,omitempty"`
		Preliminary      *bool           `json:"preliminary,omitempty"`
		Dynamic          *bool           `json:"dynamic,omitempty"`
		ProviderMetadata Metadata        `json:"providerMetadata,omitempty"`
	}
	FinishStep struct {
		FinishReason    ai.FinishReason `json:"finishReason"`
		Usage           ai.Usage        `json:"usage"`
		HarnessMetadata Metadata        `json:"harnessMetadata,omitempty"`
	}
	Finish struct {
		FinishReason    ai.FinishReason `json:"finishReason"`
		TotalUsage      ai.Usage        `json:"totalUsage"`
		HarnessMetadata Metadata        `json:"harnessMetadata,omitempty"`
	}
	// FileChange reports a mutation without a visible tool call. Event is create, modify or delete.
	FileChange struct {
		Event           string   `json:"event"`
		Path            string   `json:"path"`
		HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
	}
	// Compaction: Trigger is manual or auto.
	Compaction struct {
		Trigger         string   `json:"trigger"`
		Summary         string   `json:"summary"`
		TokensBefore    *int64   `json:"tokensBefore,omitempty"`
		TokensAfter     *int64   `json:"tokensAfter,omitempty"`
		HarnessMetadata Metadata `json:"harnessMetadata,omitempty"`
	}
	// ErrorPart: Error is any JSON value.
	ErrorPart struct {
		Error json.RawMessage `json:"error"`
	}
	Raw struct {
		RawValue json.RawMessage `json:"rawValue"`
	}
)

func (StreamStart) PartType() string         { return "stream-start" }
func (TextStart) PartType() string           { return "text-start" }
func (TextDelta) PartType() string           { return "text-delta" }
func (TextEnd) PartType() string             { return "text-end" }
func (ReasoningStart) PartType() string      { return "reasoning-start" }
func (ReasoningDelta) PartType() string      { return "reasoning-delta" }
func (ReasoningEnd) PartType() string        { return "reasoning-end" }
func (ToolInputStart) PartType() string      { return "tool-input-start" }
func (ToolInputDelta) PartType() string      { return "tool-input-delta" }
func (ToolInputEnd) PartType() string        { return "tool-input-end" }
func (ToolCall) PartType() string            { return "tool-call" }
func (ToolApprovalRequest) PartType() string { return "tool-approval-request" }
func (ToolResult) PartType() string          { return "tool-result" }
func (FinishStep) PartType() string          { return "finish-step" }
func (Finish) PartType() string              { return "finish" }
func (FileChange) PartType() string          { return "file-change" }
func (Compaction) PartType() string          { return "compaction" }
func (ErrorPart) PartType() string           { return "error" }
func (Raw) PartType() string                 { return "raw" }
