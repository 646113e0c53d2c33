package anthropic

import (
	"fmt"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model/wire/history"
)

// noMessage is what a model reads of a failure that says nothing.
const noMessage = "the call failed without a message"

// results writes one result for each call, from those that follow the calls up to the model's next turn.
func (h *conversation) results(calls []sentCall, at int, messages []ai.Message) error {
	if len(calls) == 0 {
		return nil
	}
	found := history.Results(messages, at)
	for _, c := range calls {
		out := &blockJSON{Type: "tool_result", ToolUseID: c.id, IsError: true, Content: []*blockJSON{text(history.NoResult)}}
		if f, ok := found[c.key]; ok {
			h.answered[f.Place] = true
			var err error
			if out.Content, err = content(f.Result.Output); err != nil {
				return fmt.Errorf("result of call %q: %w", c.key, err)
			}
			out.IsError = f.Result.Output.IsError()
			if out.IsError && len(out.Content) == 0 { // which the wire refuses
				out.Content = []*blockJSON{text(noMessage)}
			}
		}
		h.add(roleUser, out)
	}
	return nil
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
