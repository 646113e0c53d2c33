package ai

import (
	"encoding/json"
	"time"
)

// StreamPart is one piece of what a turn's consumer sees. The implementations are the structs of this file; in JSON
// they have the names of the AI SDK's full stream.
type StreamPart interface{ PartType() string }

// ProviderMetadata is opaque data by the name of who made it.
type ProviderMetadata map[string]map[string]any

// StreamError is an error as a stream carries it.
type StreamError struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

// The parts that carry text and reasoning. Parts with the same ID belong together.
type (
	// StartPart opens the stream.
	StartPart struct{}
	// StartStepPart opens a step.
	StartStepPart struct{}
	TextStartPart struct {
		ID               string           `json:"id"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
	TextDeltaPart struct {
		ID               string           `json:"id"`
		Text             string           `json:"text"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
	TextEndPart struct {
		ID               string           `json:"id"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
	ReasoningStartPart struct {
		ID               string           `json:"id"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
	ReasoningDeltaPart struct {
		ID               string           `json:"id"`
		Text             string           `json:"text"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
	ReasoningEndPart struct {
		ID               string           `json:"id"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
)

// The parts of a tool call, in the order of its life.
type (
	ToolInputStartPart struct {
		ID               string           `json:"id"`
		ToolName         string           `json:"toolName"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
		ProviderExecuted bool             `json:"providerExecuted,omitempty"`
		Dynamic          bool             `json:"dynamic,omitempty"`
		Title            string           `json:"title,omitempty"`
	}
	ToolInputDeltaPart struct {
		ID               string           `json:"id"`
		Delta            string           `json:"delta"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
	ToolInputEndPart struct {
		ID               string           `json:"id"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
	// ToolCall is a call of a model. Input is its parsed input; of an Invalid call it is what the model wrote, as a
	// JSON string where it is not JSON, and Error says what is wrong.
	ToolCall struct {
		ToolCallID       string           `json:"toolCallId"`
		ToolName         string           `json:"toolName"`
		Input            json.RawMessage  `json:"input"`
		Dynamic          bool             `json:"dynamic,omitempty"`
		Invalid          bool             `json:"invalid,omitempty"`
		Error            *StreamError     `json:"error,omitempty"`
		ProviderExecuted bool             `json:"providerExecuted,omitempty"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
		Title            string           `json:"title,omitempty"`
	}
	// ToolApprovalRequest asks for a person's decision. IsAutomatic: the configuration has decided; the response
	// follows.
	ToolApprovalRequest struct {
		ApprovalID  string
		ToolCall    ToolCall
		IsAutomatic bool
	}
	// ToolApprovalResponse is the decision on a request.
	ToolApprovalResponse struct {
		ApprovalID       string
		ToolCall         ToolCall
		Approved         bool
		Reason           string
		ProviderExecuted bool
	}
	// ToolResult is the result of a call. A Preliminary one is followed by another.
	ToolResult struct {
		ToolCallID       string           `json:"toolCallId"`
		ToolName         string           `json:"toolName"`
		Input            json.RawMessage  `json:"input,omitempty"`
		Output           json.RawMessage  `json:"output"`
		ProviderExecuted bool             `json:"providerExecuted,omitempty"`
		Preliminary      bool             `json:"preliminary,omitempty"`
		Dynamic          bool             `json:"dynamic,omitempty"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
	// ToolError is the result of a call that failed. Error is any JSON.
	ToolError struct {
		ToolCallID       string           `json:"toolCallId"`
		ToolName         string           `json:"toolName"`
		Input            json.RawMessage  `json:"input,omitempty"`
		Error            json.RawMessage  `json:"error"`
		ProviderExecuted bool             `json:"providerExecuted,omitempty"`
		Dynamic          bool             `json:"dynamic,omitempty"`
		ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
	}
)

// The parts that end a step or the stream.
type (
	FinishStepPart struct {
		FinishReason     FinishReason
		Usage            Usage
		Response         ResponseMetadata
		ProviderMetadata ProviderMetadata
	}
	FinishPart struct {
		FinishReason FinishReason
		TotalUsage   Usage
	}
	// AbortPart ends a stream whose context was cancelled.
	AbortPart struct {
		Reason string `json:"reason,omitempty"`
	}
	// ErrorPart ends a stream that failed. Error is any JSON.
	ErrorPart struct {
		Error json.RawMessage `json:"error"`
	}
	// RawPart is something that a runtime said in its own words.
	RawPart struct {
		RawValue json.RawMessage `json:"rawValue"`
	}
)

// ResponseMetadata names a model's response. ID is made by the host.
type ResponseMetadata struct {
	ID        string    `json:"id"`
	Timestamp time.Time `json:"timestamp"`
	ModelID   string    `json:"modelId"`
}

func (StartPart) PartType() string            { return "start" }
func (StartStepPart) PartType() string        { return "start-step" }
func (TextStartPart) PartType() string        { return "text-start" }
func (TextDeltaPart) PartType() string        { return "text-delta" }
func (TextEndPart) PartType() string          { return "text-end" }
func (ReasoningStartPart) PartType() string   { return "reasoning-start" }
func (ReasoningDeltaPart) PartType() string   { return "reasoning-delta" }
func (ReasoningEndPart) PartType() string     { return "reasoning-end" }
func (ToolInputStartPart) PartType() string   { return "tool-input-start" }
func (ToolInputDeltaPart) PartType() string   { return "tool-input-delta" }
func (ToolInputEndPart) PartType() string     { return "tool-input-end" }
func (ToolCall) PartType() string             { return "tool-call" }
func (ToolApprovalRequest) PartType() string  { return "tool-approval-request" }
func (ToolApprovalResponse) PartType() string { return "tool-approval-response" }
func (ToolResult) PartType() string           { return "tool-result" }
func (ToolError) PartType() string            { return "tool-error" }
func (FinishStepPart) PartType() string       { return "finish-step" }
func (FinishPart) PartType() string           { return "finish" }
func (AbortPart) PartType() string            { return "abort" }
func (ErrorPart) PartType() string            { return "error" }
func (RawPart) PartType() string              { return "raw" }
