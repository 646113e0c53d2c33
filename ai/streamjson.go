package ai

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MarshalStreamPart writes a part with its "type", in the form of the AI SDK's full stream.
func MarshalStreamPart(p StreamPart) ([]byte, error) {
	if p == nil {
		return nil, fmt.Errorf("ai: nil stream part")
	}
	var v any = p
	switch t := p.(type) {
	case StartStepPart:
		v = struct {
			Request  struct{}   `json:"request"`
			Warnings []struct{} `json:"warnings"`
		}{Warnings: []struct{}{}}
	case FinishStepPart:
		v = struct {
			FinishReason     FinishReasonKind `json:"finishReason"`
			RawFinishReason  string           `json:"rawFinishReason,omitempty"`
			Usage            flatUsage        `json:"usage"`
			ProviderMetadata ProviderMetadata `json:"providerMetadata,omitempty"`
			Response         ResponseMetadata `json:"response"`
		}{t.FinishReason.Unified, t.FinishReason.Raw, flatten(t.Usage), t.ProviderMetadata, t.Response}
	case FinishPart:
		v = struct {
			FinishReason    FinishReasonKind `json:"finishReason"`
			RawFinishReason string           `json:"rawFinishReason,omitempty"`
			TotalUsage      flatUsage        `json:"totalUsage"`
		}{t.FinishReason.Unified, t.FinishReason.Raw, flatten(t.TotalUsage)}
	case ToolApprovalRequest:
		call, err := MarshalStreamPart(t.ToolCall)
		if err != nil {
			return nil, err
		}
		v = struct {
			ApprovalID  string          `json:"approvalId"`
			ToolCall    json.RawMessage `json:"toolCall"`
			IsAutomatic bool            `json:"isAutomatic,omitempty"`
		}{t.ApprovalID, call, t.IsAutomatic}
	case ToolApprovalResponse:
		call, err := MarshalStreamPart(t.ToolCall)
		if err != nil {
			return nil, err
		}
		v = struct {
			ApprovalID       string          `json:"approvalId"`
			ToolCall         json.RawMessage `json:"toolCall"`
			Approved         bool            `json:"approved"`
			Reason           string          `json:"reason,omitempty"`
			ProviderExecuted bool            `json:"providerExecuted"`
		}{t.ApprovalID, call, t.Approved, t.Reason, t.ProviderExecuted}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("ai: encode %s part: %w", p.PartType(), err)
	}
	b := bytes.TrimRight(buf.Bytes(), "\n")
	head := `{"type":"` + p.PartType() + `"`
	if len(b) > 2 {
		head += ","
	}
	return append([]byte(head), b[1:]...), nil
}

// flatUsage is usage as consumers of the AI SDK read it.
type flatUsage struct {
	InputTokens       *int64 `json:"inputTokens,omitempty"`
	InputTokenDetails struct {
		NoCacheTokens    *int64 `json:"noCacheTokens,omitempty"`
		CacheReadTokens  *int64 `json:"cacheReadTokens,omitempty"`
		CacheWriteTokens *int64 `json:"cacheWriteTokens,omitempty"`
	} `json:"inputTokenDetails"`
	OutputTokens       *int64 `json:"outputTokens,omitempty"`
	OutputTokenDetails struct {
		TextTokens      *int64 `json:"textTokens,omitempty"`
		ReasoningTokens *int64 `json:"reasoningTokens,omitempty"`
	} `json:"outputTokenDetails"`
	TotalTokens *int64          `json:"totalTokens,omitempty"`
	Raw         json.RawMessage `json:"raw,omitempty"`
}

func flatten(u Usage) flatUsage {
	var f flatUsage
	f.InputTokens, f.OutputTokens, f.Raw = u.InputTokens.Total, u.OutputTokens.Total, u.Raw
	f.InputTokenDetails.NoCacheTokens = u.InputTokens.NoCache
	f.InputTokenDetails.CacheReadTokens = u.InputTokens.CacheRead
	f.InputTokenDetails.CacheWriteTokens = u.InputTokens.CacheWrite
	f.OutputTokenDetails.TextTokens = u.OutputTokens.Text
	f.OutputTokenDetails.ReasoningTokens = u.OutputTokens.Reasoning
	f.TotalTokens = addTokens(u.InputTokens.Total, u.OutputTokens.Total)
	return f
}
