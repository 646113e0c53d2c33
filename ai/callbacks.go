package ai

import (
	"context"
	"encoding/json"
	"time"
)

// The events of a result, in their order: one start; for each step its start, the model call's start and end, start
// and end of each tool, and its end; one end. Callbacks run on the turn's own goroutine, between two parts, and must
// not block.
type (
	OnStartEvent struct {
		CallID         string
		OperationID    string
		Model          ModelInfo
		ToolNames      []string
		RuntimeContext any
		Instructions   string
	}
	OnStepStartEvent struct {
		CallID         string
		StepNumber     int
		Model          ModelInfo
		RuntimeContext any
	}
	OnLanguageModelCallStartEvent struct {
		CallID string
		Model  ModelInfo
	}
	OnLanguageModelCallEndEvent struct {
		CallID           string
		Model            ModelInfo
		ResponseID       string
		FinishReason     FinishReason
		Usage            Usage
		Content          []StepContent
		ProviderMetadata ProviderMetadata
	}
	OnToolCallStartEvent struct {
		CallID      string
		ToolCall    ToolCall
		ToolContext any
	}
	// OnToolCallFinishEvent: Error is set instead of Output when the call failed. Duration is zero for tools that the
	// runtime executed itself.
	OnToolCallFinishEvent struct {
		CallID      string
		ToolCall    ToolCall
		ToolContext any
		Output      json.RawMessage
		Error       json.RawMessage
		Duration    time.Duration
	}
	OnStepFinishEvent struct {
		CallID         string
		Step           StepResult
		RuntimeContext any
	}
	OnFinishEvent struct {
		CallID         string
		Result         *GenerateTextResult
		RuntimeContext any
	}
)

// OnLanguageModelCallStartCallback is called when a step's model call begins.
type OnLanguageModelCallStartCallback func(ctx context.Context, e OnLanguageModelCallStartEvent)

// OnLanguageModelCallEndCallback is called when a step's model call has ended.
type OnLanguageModelCallEndCallback func(ctx context.Context, e OnLanguageModelCallEndEvent)
