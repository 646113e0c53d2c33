package responses

import (
	"bytes"
	"encoding/json"

	"github.com/harness-go/harness/ai"
)

const (
	maxRawUsage = 8 << 10
	// maxCount keeps sums of counts from overflowing. No call consumes so much.
	maxCount = 1 << 50
)

// parseUsage reads a usage object. Without any count the usage stays unknown, which is not zero. Cached tokens are part
// of the input, reasoning is part of the output.
func parseUsage(raw json.RawMessage) (u ai.Usage) {
	var w struct {
		Input        *int64 `json:"input_tokens"`
		Output       *int64 `json:"output_tokens"`
		InputDetails struct {
			Cached *int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning *int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &w) != nil {
		return u
	}
	for _, n := range []**int64{&w.Input, &w.Output, &w.InputDetails.Cached, &w.OutputDetails.Reasoning} {
		if *n != nil && (**n < 0 || **n > maxCount) {
			*n = nil
		}
	}
	if w.Input == nil && w.Output == nil {
		return u
	}
	u.InputTokens = ai.InputTokens{Total: w.Input, CacheRead: w.InputDetails.Cached, NoCache: minus(w.Input, w.InputDetails.Cached)}
	u.OutputTokens = ai.OutputTokens{Total: w.Output, Reasoning: w.OutputDetails.Reasoning}
	if w.OutputDetails.Reasoning != nil {
		u.OutputTokens.Text = minus(w.Output, w.OutputDetails.Reasoning)
	}
	if len(raw) <= maxRawUsage {
		u.Raw = bytes.ToValidUTF8(bytes.Clone(raw), []byte("\uFFFD"))
	}
	return u
}

// minus is the rest of a whole; nil where it is not known.
func minus(whole, part *int64) *int64 {
	switch {
	case whole == nil || part == nil:
		return whole
	case *part > *whole:
		return nil
	}
	return ai.Tokens(*whole - *part)
}
