package anthropic

import (
	"fmt"
	"strings"

	"github.com/harness-go/harness/ai"
)

// noResult answers a call of the history that has no result, which the service refuses.
const noResult = "no result of this call was recorded; it may or may not have run"

// results writes one result for each call, from those that follow the calls up to the model's next turn.
func (h *history) results(calls []sentCall, at int, messages []ai.Message) error {
	if len(calls) == 0 {
		return nil
	}
	found := find(at, messages)
	for _, c := range calls {
		out := &blockJSON{Type: "tool_result", ToolUseID: c.id, IsError: true, Content: []*blockJSON{text(noResult)}}
		if f, ok := found[c.key]; ok {
			h.answered[f.at] = true
			var err error
			if out.Content, err = content(f.result.Output); err != nil {
				return fmt.Errorf("result of call %q: %w", c.key, err)
			}
			out.IsError = f.result.Output.IsError()
		}
		h.add(roleUser, out)
	}
	return nil
}

type foundResult struct {
	at     [2]int
	result ai.ToolResultContent
}

func find(at int, messages []ai.Message) map[string]foundResult {
	found := map[string]foundResult{}
	for i := at + 1; i < len(messages) && messages[i].Role != ai.RoleAssistant; i++ {
		for n, p := range messages[i].Content {
			if r, ok := p.(ai.ToolResultContent); ok {
				if _, twice := found[r.ToolCallID]; !twice {
					found[r.ToolCallID] = foundResult{[2]int{i, n}, r}
				}
			}
		}
	}
	return found
}

// content is an output as blocks. Empty texts are left out: a result may have no content.
func content(o ai.ToolResultOutput) ([]*blockJSON, error) {
	parts, err := o.Parts()
	if err != nil {
		return nil, err
	}
	var out []*blockJSON
	for _, p := range parts {
		switch p := p.(type) {
		case ai.TextPart:
			if strings.TrimSpace(p.Text) != "" {
				out = append(out, text(p.Text))
			}
		case ai.FilePart:
			out = append(out, file(p))
		}
	}
	return out, nil
}
