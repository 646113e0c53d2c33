package anthropic

import (
	"encoding/json"
	"errors"
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
	if o.Type != ai.OutputContent {
		if t := o.Text(); strings.TrimSpace(t) != "" {
			return []*blockJSON{text(t)}, nil
		}
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(o.Value, &items); err != nil {
		return nil, fmt.Errorf("its content is not a list: %w", err)
	}
	var out []*blockJSON
	for i, raw := range items {
		var t struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, fmt.Errorf("content %d: %w", i, err)
		}
		switch t.Type {
		case "text", "file":
		case "media", "image-data", "file-data": // the AI SDK's names for files
			var f ai.FilePart
			if err := json.Unmarshal(raw, &f); err != nil {
				return nil, fmt.Errorf("content %d: %w", i, err)
			}
			out = append(out, file(f))
			continue
		default:
			return nil, fmt.Errorf("content of type %q is not known", t.Type)
		}
		p, err := ai.UnmarshalPart(raw)
		if err != nil {
			return nil, fmt.Errorf("content %d: %w", i, err)
		}
		switch p := p.(type) {
		case ai.TextPart:
			if strings.TrimSpace(p.Text) != "" {
				out = append(out, text(p.Text))
			}
		case ai.FilePart:
			out = append(out, file(p))
		default:
			return nil, errors.New("content that is neither text nor a file")
		}
	}
	return out, nil
}
