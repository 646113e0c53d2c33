package ai

import "encoding/json"

// Usage is what one model call consumed. A nil count means that the provider did not say, which is not zero.
type Usage struct {
	InputTokens  InputTokens     `json:"inputTokens"`
	OutputTokens OutputTokens    `json:"outputTokens"`
	Raw          json.RawMessage `json:"raw,omitempty"`
}

// InputTokens splits the prompt's tokens. Total includes CacheRead and CacheWrite.
type InputTokens struct {
	Total      *int64 `json:"total,omitempty"`
	NoCache    *int64 `json:"noCache,omitempty"`
	CacheRead  *int64 `json:"cacheRead,omitempty"`
	CacheWrite *int64 `json:"cacheWrite,omitempty"`
}

// OutputTokens splits the answer's tokens. Total includes Reasoning.
type OutputTokens struct {
	Total     *int64 `json:"total,omitempty"`
	Text      *int64 `json:"text,omitempty"`
	Reasoning *int64 `json:"reasoning,omitempty"`
}

// Tokens returns a count for the fields of Usage.
func Tokens(n int64) *int64 { return &n }

// Known reports whether the provider gave any total.
func (u Usage) Known() bool { return u.InputTokens.Total != nil || u.OutputTokens.Total != nil }

// Add sums two usages field by field; a count that only one side knows is kept.
func (u Usage) Add(o Usage) Usage {
	return Usage{
		InputTokens: InputTokens{
			Total:      addTokens(u.InputTokens.Total, o.InputTokens.Total),
			NoCache:    addTokens(u.InputTokens.NoCache, o.InputTokens.NoCache),
			CacheRead:  addTokens(u.InputTokens.CacheRead, o.InputTokens.CacheRead),
			CacheWrite: addTokens(u.InputTokens.CacheWrite, o.InputTokens.CacheWrite),
		},
		OutputTokens: OutputTokens{
			Total:     addTokens(u.OutputTokens.Total, o.OutputTokens.Total),
			Text:      addTokens(u.OutputTokens.Text, o.OutputTokens.Text),
			Reasoning: addTokens(u.OutputTokens.Reasoning, o.OutputTokens.Reasoning),
		},
	}
}

func addTokens(a, b *int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return Tokens(*a + *b)
}

// FinishReasonKind is why a model stopped, in the words shared by all wires.
type FinishReasonKind string

// The unified finish reasons.
const (
	FinishStop          FinishReasonKind = "stop"
	FinishLength        FinishReasonKind = "length"
	FinishContentFilter FinishReasonKind = "content-filter"
	FinishToolCalls     FinishReasonKind = "tool-calls"
	FinishError         FinishReasonKind = "error"
	FinishOther         FinishReasonKind = "other"
)

// FinishReason is the unified reason with the provider's own word.
type FinishReason struct {
	Unified FinishReasonKind `json:"unified"`
	Raw     string           `json:"raw,omitempty"`
}
