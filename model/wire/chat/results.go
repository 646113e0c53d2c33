package chat

import (
	"fmt"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model/wire/history"
)

// resultsOf writes one tool message for each call, from the results that follow the calls up to the model's next
// turn, and then one user message with the files that came with them: tool messages hold text alone, and nothing may
// stand between them.
func resultsOf(calls []ai.ToolCallPart, later []ai.Message) ([]messageJSON, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	found := map[string]ai.ToolResultContent{}
	for _, m := range later {
		if m.Role == ai.RoleAssistant {
			break
		}
		for _, p := range m.Content {
			if r, ok := p.(ai.ToolResultContent); ok {
				if _, twice := found[r.ToolCallID]; !twice {
					found[r.ToolCallID] = r
				}
			}
		}
	}
	var out []messageJSON
	var files []contentJSON
	for _, c := range calls {
		text := history.Failed(history.NoResult)
		if r, ok := found[c.ToolCallID]; ok {
			var attached []contentJSON
			var err error
			if text, attached, err = output(r.Output); err != nil {
				return nil, fmt.Errorf("result of call %q: %w", c.ToolCallID, err)
			}
			if len(attached) > 0 {
				files = append(files, textContent("Files of the result of "+c.ToolName+" ("+c.ToolCallID+"):"))
				files = append(files, attached...)
			}
		}
		out = append(out, messageJSON{Role: "tool", Content: text, ToolCallID: c.ToolCallID})
	}
	if len(files) > 0 {
		out = append(out, messageJSON{Role: "user", Content: files})
	}
	return out, nil
}

// output gives the text of a result and the files that go beside it. Files that the wire cannot carry are named in
// the text, so that the model knows of them.
func output(o ai.ToolResultOutput) (string, []contentJSON, error) {
	if o.IsError() {
		return history.Failed(o.Text()), nil, nil
	}
	if o.Type != ai.OutputContent {
		return o.Text(), nil, nil
	}
	parts, err := o.Parts()
	if err != nil {
		return "", nil, err
	}
	var texts []string
	var files []contentJSON
	for _, p := range parts {
		switch p := p.(type) {
		case ai.TextPart:
			texts = append(texts, p.Text)
		case ai.FilePart:
			name := p.Filename
			if name == "" {
				name = "file"
			}
			c, err := fileContent(p)
			if err != nil {
				texts = append(texts, fmt.Sprintf("[%s of type %s, %d bytes, cannot be shown]", name, p.MediaType, len(p.Data)))
				continue
			}
			if c.Text != nil {
				texts = append(texts, *c.Text)
				continue
			}
			texts = append(texts, fmt.Sprintf("[%s of type %s: see the next message]", name, p.MediaType))
			files = append(files, c)
		}
	}
	return strings.Join(texts, "\n"), files, nil
}
