package chat

import (
	"encoding/json"

	"github.com/harness-go/harness/ai"
)

const maxRawUsage = 8 << 10

type usageJSON struct {
	Prompt     *int64 `json:"prompt_tokens"`
	Completion *int64 `json:"completion_tokens"`
	Total      *int64 `json:"total_tokens"`
	Details    struct {
		Cached     *int64 `json:"cached_tokens"`
		CacheWrite *int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	OutDetails struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	// Two servers' own words for cached input.
	CacheHit *int64 `json:"prompt_cache_hit_tokens"`
	Cached   *int64 `json:"cached_tokens"`
}

// parseUsage reads a usage object. ok is false for null, for nonsense and for an object without any total: then the
// usage stays unknown, which is not zero.
func parseUsage(raw json.RawMessage) (u ai.Usage, ok bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return u, false
	}
	var w usageJSON
	if json.Unmarshal(raw, &w) != nil {
		return u, false
	}
	for _, n := range []*(*int64){
		&w.Prompt, &w.Completion, &w.Total, &w.Details.Cached, &w.Details.CacheWrite, &w.OutDetails.Reasoning, &w.CacheHit, &w.Cached,
	} {
		if *n != nil && **n < 0 {
			*n = nil
		}
	}
	if w.Prompt == nil && w.Completion == nil {
		return u, false
	}
	u.InputTokens.Total = w.Prompt
	u.InputTokens.CacheRead = first(w.Details.Cached, w.CacheHit, w.Cached)
	u.InputTokens.CacheWrite = w.Details.CacheWrite
	u.InputTokens.NoCache = minus(w.Prompt, u.InputTokens.CacheRead, u.InputTokens.CacheWrite)
	u.OutputTokens.Total = w.Completion
	u.OutputTokens.Reasoning = w.OutDetails.Reasoning
	// Some servers count reasoning beside the completion. Their total gives them away.
	if r := w.OutDetails.Reasoning; r != nil && *r > 0 && w.Prompt != nil && w.Completion != nil && w.Total != nil &&
		*w.Total == *w.Prompt+*w.Completion+*r {
		u.OutputTokens.Total = ai.Tokens(*w.Completion + *r)
	}
	if u.OutputTokens.Reasoning != nil {
		u.OutputTokens.Text = minus(u.OutputTokens.Total, u.OutputTokens.Reasoning, nil)
	}
	if len(raw) <= maxRawUsage {
		u.Raw = append(json.RawMessage(nil), validUTF8(raw)...)
	}
	return u, true
}

func first(ns ...*int64) *int64 {
	for _, n := range ns {
		if n != nil {
			return n
		}
	}
	return nil
}

// minus takes the known counts off a total. It is nil when the total is unknown, when nothing is known to take off,
// or when the counts contradict each other.
func minus(total, a, b *int64) *int64 {
	if total == nil || (a == nil && b == nil) {
		return nil
	}
	n := *total
	for _, p := range []*int64{a, b} {
		if p != nil {
			n -= *p
		}
	}
	if n < 0 {
		return nil
	}
	return &n
}
