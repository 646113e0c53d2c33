package gemini

import (
	"bytes"
	"encoding/json"

	"github.com/harness-go/harness/ai"
)

const maxRawUsage = 8 << 10

type usageJSON struct {
	Prompt     *int64 `json:"promptTokenCount"`
	Cached     *int64 `json:"cachedContentTokenCount"`
	Candidates *int64 `json:"candidatesTokenCount"`
	Thoughts   *int64 `json:"thoughtsTokenCount"`
	ToolUse    *int64 `json:"toolUsePromptTokenCount"`
	Total      *int64 `json:"totalTokenCount"`
}

// parseUsage reads a usage object. Without any count the usage stays unknown, which is not zero.
//
// The service leaves a count of zero out, counts what its own tools put into the prompt beside the prompt, and counts
// thoughts beside the answer, except where the total tells that the answer includes them.
func parseUsage(raw []byte) (u ai.Usage) {
	var w usageJSON
	if len(raw) == 0 || json.Unmarshal(raw, &w) != nil {
		return u
	}
	for _, n := range []**int64{&w.Prompt, &w.Cached, &w.Candidates, &w.Thoughts, &w.ToolUse, &w.Total} {
		if *n != nil && (**n < 0 || **n > maxCount) {
			*n = nil
		}
	}
	if w.Prompt == nil && w.Candidates == nil && w.Total == nil {
		return u
	}
	in := w.Prompt
	if in != nil && w.ToolUse != nil {
		in = ai.Tokens(*in + *w.ToolUse)
	}
	u.InputTokens.Total, u.InputTokens.CacheRead = in, w.Cached
	if in != nil && w.Cached != nil && *w.Cached <= *in {
		u.InputTokens.NoCache = ai.Tokens(*in - *w.Cached)
	}
	u.OutputTokens = w.output(in)
	u.Raw = append(json.RawMessage(nil), bytes.ToValidUTF8(raw, []byte("\uFFFD"))...)
	return u
}

// maxCount keeps sums of counts from overflowing. No call consumes so much.
const maxCount = 1 << 50

func (w usageJSON) output(in *int64) (o ai.OutputTokens) {
	o.Reasoning = w.Thoughts
	switch {
	case w.Candidates == nil: // an answer that was cut while the model thought
		if w.Total != nil && in != nil && *w.Total >= *in {
			o.Total = ai.Tokens(*w.Total - *in)
		}
	case w.Thoughts == nil:
		o.Total = w.Candidates
	case *w.Thoughts <= *w.Candidates && w.Total != nil && in != nil && *w.Total == *in+*w.Candidates:
		o.Total = w.Candidates
	default:
		o.Total = ai.Tokens(*w.Candidates + *w.Thoughts)
	}
	if o.Total != nil && o.Reasoning != nil && *o.Reasoning <= *o.Total {
		o.Text = ai.Tokens(*o.Total - *o.Reasoning)
	}
	return o
}
