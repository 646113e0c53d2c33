// Package model is the contract between the loop and a language model: one streaming method.
//
// A Model makes exactly one attempt of one call. Retries, fallbacks and budgets belong to the caller. Only a request that
// the service refused for its form, with nothing generated, may be made once more in a form that the service takes. An
// implementation never executes a tool, never logs a header and never puts a key into an error.
package model

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/harness-go/harness/ai"
)

// Model streams one answer. The sequence yields parts in order; an error ends it and comes last, with a zero part.
// A stream that ends without a PartFinish is incomplete: the implementation reports it as a retryable *Error. Leaving
// the loop early releases the connection.
type Model interface {
	Stream(ctx context.Context, req Request) iter.Seq2[Part, error]
}

// Request is one model call. Zero values mean: the provider's default.
type Request struct {
	Model           string
	System          string
	Messages        []ai.Message
	Tools           []Tool
	ToolChoice      ToolChoice
	MaxOutputTokens int
	Temperature     *float64
	ReasoningEffort string
	ResponseSchema  json.RawMessage
	// SessionID groups the calls of one conversation, for prompt caching.
	SessionID string
	// Headers are added to the HTTP request. Managed headers (authorization and the like) cannot be set here.
	Headers map[string]string
}

// Tool is what a model sees of a tool. Schema is a JSON Schema, sent unchanged.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// ToolChoice says whether the model may, must or must not call tools. The zero value lets it choose.
type ToolChoice string

// The tool choices beyond the zero value.
const (
	ToolChoiceNone     ToolChoice = "none"
	ToolChoiceRequired ToolChoice = "required"
)

// PartKind tells which fields of a Part are set.
type PartKind uint8

// The kinds of parts.
const (
	// PartTextDelta: Text is a piece of the answer.
	PartTextDelta PartKind = iota + 1
	// PartReasoningDelta: Text is a piece of reasoning.
	PartReasoningDelta
	// PartToolCallDelta: Text is a piece of the arguments of the call Index, with ID and Name once known.
	PartToolCallDelta
	// PartContent: Content is a finished item (text, reasoning or tool call) as it goes into the transcript, with
	// its raw form. Items come in the order of the answer. A cut call has Truncated set and must not run.
	PartContent
	// PartFinish: Finish, Usage, ResponseID and ServedModel are set. It is the last part.
	PartFinish
)

// Part is one piece of a streamed answer.
type Part struct {
	Kind      PartKind
	Index     int
	ID        string
	Name      string
	Text      string
	Content   ai.Part
	Truncated bool

	Finish      ai.FinishReason
	Usage       ai.Usage
	ResponseID  string
	ServedModel string
}
