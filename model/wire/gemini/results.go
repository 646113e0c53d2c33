package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model/wire/history"
)

type responseJSON struct {
	ID       string         `json:"id,omitempty"`
	Name     string         `json:"name"`
	Response answerJSON     `json:"response"`
	Parts    []responsePart `json:"parts,omitempty"`
}

// answerJSON holds one of the two members that the service reads.
type answerJSON struct {
	Output any `json:"output,omitempty"`
	Error  any `json:"error,omitempty"`
}

type responsePart struct {
	InlineData blobJSON `json:"inlineData"`
}

// results writes one response for each call, from the results that follow the calls up to the model's next turn. All
// of them stand in one turn, and files that a response cannot hold stand behind the last.
func (h *conversation) results(calls []sentCall, at int, messages []ai.Message) error {
	if len(calls) == 0 {
		return nil
	}
	found := history.Results(messages, at)
	var files []any
	for _, c := range calls {
		out := responseJSON{ID: c.id, Name: c.name, Response: answerJSON{Error: history.NoResult}}
		if f, ok := found[c.key]; ok {
			h.answered[f.Place] = true
			attached, err := out.fill(f.Result.Output)
			if err != nil {
				return fmt.Errorf("result of call %q: %w", c.key, err)
			}
			if len(attached) > 0 {
				files = append(files, text("Files of the result of "+c.name+":"))
				files = append(files, attached...)
			}
		}
		h.add(roleUser, partJSON{FunctionResponse: &out})
	}
	h.add(roleUser, files...)
	return nil
}

// fill puts an output into the response and returns the files that go beside it.
func (r *responseJSON) fill(o ai.ToolResultOutput) (attached []any, err error) {
	var value any
	switch o.Type {
	case ai.OutputJSON, ai.OutputErrorJSON:
		if !json.Valid(o.Value) {
			return nil, errors.New("its value is not JSON")
		}
		value = o.Value
	case ai.OutputContent:
		if value, attached, err = r.content(o); err != nil {
			return nil, err
		}
	default:
		value = o.Text()
	}
	r.Response = answerJSON{Output: value}
	if o.IsError() {
		r.Response = answerJSON{Error: value}
	}
	return attached, nil
}

// content takes a list of texts and files. Images and documents are parts of the response; files that the wire cannot
// carry are named in the text, so that the model knows of them.
func (r *responseJSON) content(o ai.ToolResultOutput) (string, []any, error) {
	parts, err := o.Parts()
	if err != nil {
		return "", nil, err
	}
	var texts []string
	var attached []any
	for _, p := range parts {
		switch p := p.(type) {
		case ai.TextPart:
			texts = append(texts, p.Text)
		case ai.FilePart:
			name := or(p.Filename, "file")
			mt, kind := mediaType(p)
			f, err := file(p)
			switch {
			case err != nil:
				texts = append(texts, fmt.Sprintf("[%s of type %s, %d bytes, cannot be shown]", name, p.MediaType, len(p.Data)))
			case f.Text != nil:
				texts = append(texts, *f.Text)
			case kind == "image" || mt == "application/pdf":
				r.Parts = append(r.Parts, responsePart{*f.InlineData})
			default:
				texts = append(texts, fmt.Sprintf("[%s of type %s: see behind the results]", name, p.MediaType))
				attached = append(attached, f)
			}
		}
	}
	return strings.Join(texts, "\n"), attached, nil
}
