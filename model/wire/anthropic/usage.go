package anthropic

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

type usageJSON struct {
	Input      *int64 `json:"input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	Output     *int64 `json:"output_tokens"`
	Details    struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// split tells that the input is counted by what the cache did.
func (u *usageJSON) split() bool { return u.CacheRead != nil || u.CacheWrite != nil }

// counts gathers the usage of an answer. It comes in several events, the later ones being cumulative: the last split of
// the input that is whole counts, and the last output. A later count that is 0 and no split is a server's way to say
// nothing.
type counts struct {
	input, output usageJSON
	raw           json.RawMessage
	seen          bool
}

func (c *counts) take(raw json.RawMessage) {
	var w usageJSON
	if len(raw) == 0 || json.Unmarshal(raw, &w) != nil {
		return
	}
	for _, n := range []**int64{&w.Input, &w.CacheWrite, &w.CacheRead, &w.Output, &w.Details.Thinking} {
		if *n != nil && (**n < 0 || **n > maxCount) {
			*n = nil
		}
	}
	if w.Input != nil && (w.split() || !c.input.split() && (*w.Input > 0 || c.input.Input == nil)) {
		c.input = w
	}
	if w.Output != nil {
		c.output.Output = w.Output
	}
	if w.Details.Thinking != nil {
		c.output.Details = w.Details
	}
	if w.Input != nil || w.Output != nil {
		c.seen = true
		if len(raw) <= maxRawUsage {
			c.raw = bytes.ToValidUTF8(bytes.Clone(raw), []byte("\uFFFD"))
		}
	}
}

// usage is what was gathered. The wire counts what was read from the cache and written to it beside the input.
func (c *counts) usage() (u ai.Usage) {
	if !c.seen {
		return u
	}
	u.Raw = c.raw
	if in := c.input.Input; in != nil {
		total := *in
		u.InputTokens.NoCache = in
		for _, n := range []*int64{c.input.CacheRead, c.input.CacheWrite} {
			if n != nil {
				total += *n
			}
		}
		u.InputTokens.Total = &total
		u.InputTokens.CacheRead, u.InputTokens.CacheWrite = c.input.CacheRead, c.input.CacheWrite
	}
	u.OutputTokens.Total, u.OutputTokens.Reasoning = c.output.Output, c.output.Details.Thinking
	if t, r := u.OutputTokens.Total, u.OutputTokens.Reasoning; t != nil && r != nil && *r <= *t {
		u.OutputTokens.Text = ai.Tokens(*t - *r)
	}
	return u
}
