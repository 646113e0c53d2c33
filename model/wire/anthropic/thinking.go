package anthropic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/harness-go/harness/model"
)

// The forms in which the effort of a request is said, Config.Thinking.
const (
	// ThinkingAdaptive lets the model choose how much to think, within the effort. It is the form of newer models.
	ThinkingAdaptive = "adaptive"
	// ThinkingBudget gives the model a number of tokens to think with. It is the form of older models.
	ThinkingBudget = "budget"
)

const (
	thinkingEnabled = "enabled"
	summarized      = "summarized"
	// minBudget is the smallest budget that the wire takes.
	minBudget = 1024
)

// budgets are what the words of an effort stand for where models take a number.
var budgets = map[string]int{"minimal": minBudget, "low": 4096, "medium": 12288, "high": 24576, "xhigh": 32768, "max": 32768}

// effort maps the reasoning effort. "none" and 0 switch thinking off; another number is a budget of thinking tokens;
// a word is an effort in the form that the configuration names. A budget counts within the limit of output tokens: it is
// added to our own default, and is at most half of a limit that the request names. Nothing is said where that is too
// little to think with.
func (c *Client) effort(req model.Request, limit *int) (*thinkingJSON, *outputJSON, error) {
	word := strings.ToLower(strings.TrimSpace(req.ReasoningEffort))
	n, err := strconv.Atoi(word)
	switch isNumber := err == nil; {
	case word == "":
		return nil, nil, nil
	case word == "none", isNumber && n == 0:
		return &thinkingJSON{Type: "disabled"}, nil, nil
	case isNumber && n < minBudget:
		return nil, nil, fmt.Errorf("reasoning effort %d: a budget of thinking tokens is at least %d", n, minBudget)
	case !isNumber && c.thinking != ThinkingBudget:
		return &thinkingJSON{Type: ThinkingAdaptive, Display: summarized}, &outputJSON{Effort: word}, nil
	case !isNumber:
		if n = budgets[word]; n == 0 {
			return nil, nil, fmt.Errorf("reasoning effort %q: use none, a number of tokens or one of %s", req.ReasoningEffort,
				strings.Join(slices.SortedFunc(maps.Keys(budgets), func(a, b string) int { return budgets[a] - budgets[b] }), ", "))
		}
	}
	if req.MaxOutputTokens == 0 {
		*limit += n
	} else if n = min(n, req.MaxOutputTokens/2); n < minBudget {
		return nil, nil, nil
	}
	return &thinkingJSON{Type: thinkingEnabled, Budget: n, Display: summarized}, nil, nil
}

// mayThink reports whether a model with a budget may think in this call. The wire refuses that where results are
// answered and the turn that asked for them did not begin with reasoning, as after a switch from another model in the
// middle of it.
func mayThink(turns []turnJSON) bool {
	at := len(turns) - 1
	for ; at > 0 && holdsResults(turns[at]); at -= 2 { // turns alternate, and results follow their calls
		if !holdsResults(turns[max(at-2, 0)]) {
			return isReasoning(turns[at-1].Content[0])
		}
	}
	return true
}

func holdsResults(t turnJSON) bool {
	b, ok := t.Content[0].(*blockJSON)
	return ok && b.Type == "tool_result"
}

func isReasoning(block any) bool {
	raw, ok := block.(json.RawMessage)
	var w struct{ Type string }
	return ok && json.Unmarshal(raw, &w) == nil && (w.Type == "thinking" || w.Type == "redacted_thinking")
}
