package responses

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
)

// itemJSON is one item of the input: a message, a call or the output of one. Items that are replayed are
// json.RawMessage instead.
type itemJSON struct {
	Type      string        `json:"type,omitempty"` // empty: a message
	Role      string        `json:"role,omitempty"`
	Content   []contentJSON `json:"content,omitempty"`
	CallID    string        `json:"call_id,omitempty"`
	Name      string        `json:"name,omitempty"`
	Arguments *string       `json:"arguments,omitempty"`
	Output    any           `json:"output,omitempty"` // a text, or a list of contentJSON
}

type contentJSON struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

const (
	inputText  = "input_text"
	outputText = "output_text"
)

// conversation is the history as it is sent.
type conversation struct {
	requested string
	items     []any
	// answered are the results that stand behind their calls, by message and part.
	answered map[history.Place]bool
}

// input writes the conversation. Whatever order the results have, they stand directly behind the items of the answer
// that asked for them, one for each call; a result that no call asked for leaves a note in its place.
func input(req model.Request) ([]any, error) {
	h := conversation{requested: req.Model, answered: map[history.Place]bool{}}
	for i, m := range req.Messages {
		var err error
		switch m.Role {
		case ai.RoleSystem:
			h.message("developer", content(inputText, m.Text()))
		case ai.RoleUser, ai.RoleTool:
			h.user(i, m)
		case ai.RoleAssistant:
			err = h.assistant(i, req.Messages)
		default:
			err = fmt.Errorf("unknown role %q", m.Role)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return h.items, nil
}

func content(kind, s string) []contentJSON {
	if s == "" {
		return nil
	}
	return []contentJSON{{Type: kind, Text: s}}
}

func (h *conversation) message(role string, parts []contentJSON) {
	if len(parts) > 0 {
		h.items = append(h.items, itemJSON{Role: role, Content: parts})
	}
}

func (h *conversation) user(at int, m ai.Message) {
	var parts []contentJSON
	for n, p := range m.Content {
		switch p := p.(type) {
		case ai.TextPart:
			if m.Role == ai.RoleUser {
				parts = append(parts, content(inputText, p.Text)...)
			}
		case ai.FilePart:
			if m.Role == ai.RoleUser {
				parts = append(parts, file(p))
			}
		case ai.ToolResultContent:
			if !h.answered[history.Place{Message: at, Part: n}] {
				parts = append(parts, contentJSON{Type: inputText, Text: history.Stray(p)})
			}
		}
	}
	h.message("user", parts)
}

// sentCall is a call as it stands in the request: key is its id here, id the one on the wire.
type sentCall struct{ key, id string }

// assistant writes an answer of the model and the results of its calls. Items are replayed where this wire and model
// made them; elsewhere their texts and calls are written anew. Reasoning behind which nothing of its answer is left (it
// was cut there) is not sent: the service refuses reasoning without the item that it led to.
func (h *conversation) assistant(at int, messages []ai.Message) error {
	var calls []sentCall
	whole := len(h.items) // without reasoning at the end
	for _, p := range messages[at].Content {
		switch p := p.(type) {
		case ai.TextPart:
			raw, err := history.Replay(p.Raw, Wire, h.requested)
			switch {
			case err != nil:
				return fmt.Errorf("raw form of a text: %w", err)
			case raw != nil:
				h.items = append(h.items, raw)
			default:
				h.message("assistant", content(outputText, p.Text))
			}
		case ai.ReasoningPart:
			raw, err := history.Replay(p.Raw, Wire, h.requested)
			if err != nil {
				return fmt.Errorf("raw form of the reasoning: %w", err)
			}
			if raw != nil {
				h.items = append(h.items, raw)
			}
			continue
		case ai.ToolCallPart:
			if p.ProviderExecuted {
				continue
			}
			item, id, err := h.call(p)
			if err != nil {
				return fmt.Errorf("tool call %q: %w", p.ToolCallID, err)
			}
			h.items = append(h.items, item)
			calls = append(calls, sentCall{p.ToolCallID, id})
		}
		whole = len(h.items)
	}
	h.items = h.items[:whole]
	return h.results(calls, at, messages)
}

// call writes one call, replayed where that is possible: its output must then name the id that the server gave it.
func (h *conversation) call(p ai.ToolCallPart) (any, string, error) {
	raw, err := history.Replay(p.Raw, Wire, h.requested)
	if err != nil {
		return nil, "", err
	}
	if raw != nil {
		var w struct {
			Type   string
			CallID string `json:"call_id"`
		}
		if json.Unmarshal(raw, &w) != nil || w.Type != "function_call" || w.CallID == "" {
			return nil, "", errors.New("its raw form is not a function_call")
		}
		return raw, w.CallID, nil
	}
	id, args := p.ToolCallID, p.Input
	if len(id) > maxName {
		id = shortened(id)
	}
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	return itemJSON{Type: "function_call", CallID: id, Name: p.ToolName, Arguments: &args}, id, nil
}

// shortened is an id or key within the length that the service takes.
func shortened(s string) string {
	sum := sha256.Sum256([]byte(s))
	return s[:maxName-25] + "_" + hex.EncodeToString(sum[:12])
}

// results writes one output for each call, from the results that follow the calls up to the model's next answer.
func (h *conversation) results(calls []sentCall, at int, messages []ai.Message) error {
	if len(calls) == 0 {
		return nil
	}
	found := history.Results(messages, at)
	for _, c := range calls {
		item := itemJSON{Type: "function_call_output", CallID: c.id, Output: history.Failed(history.NoResult)}
		if f, ok := found[c.key]; ok {
			h.answered[f.Place] = true
			var err error
			if item.Output, err = output(f.Result.Output); err != nil {
				return fmt.Errorf("result of call %q: %w", c.key, err)
			}
		}
		h.items = append(h.items, item)
	}
	return nil
}

// output is a result as a text, or as a list where it holds files. The wire has no mark for failures, so the text says
// it.
func output(o ai.ToolResultOutput) (any, error) {
	if o.IsError() {
		return history.Failed(o.Text()), nil
	}
	if o.Type != ai.OutputContent {
		return o.Text(), nil
	}
	parts, err := o.Parts()
	if err != nil {
		return nil, err
	}
	list := []contentJSON{}
	files := false
	var texts strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case ai.TextPart:
			texts.WriteString(p.Text)
			list = append(list, content(inputText, p.Text)...)
		case ai.FilePart:
			files = true
			list = append(list, file(p))
		}
	}
	if !files {
		return texts.String(), nil
	}
	return list, nil
}

// file writes a file. One that the wire cannot carry is named in a text, so that the model knows of it.
func file(p ai.FilePart) contentJSON {
	mt, _, _ := strings.Cut(strings.ToLower(p.MediaType), ";")
	mt = strings.TrimSpace(mt)
	name := p.Filename
	switch mt {
	case "image/jpg":
		mt = "image/jpeg"
		fallthrough
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return contentJSON{Type: "input_image", ImageURL: dataURL(mt, p.Data)}
	case "application/pdf":
		if name == "" {
			name = "file.pdf"
		}
		return contentJSON{Type: "input_file", Filename: name, FileData: dataURL(mt, p.Data)}
	}
	if (strings.HasPrefix(mt, "text/") || mt == "application/json") && len(p.Data) > 0 {
		s := strings.ToValidUTF8(string(p.Data), "\uFFFD")
		if name != "" {
			s = name + ":\n" + s
		}
		return contentJSON{Type: inputText, Text: s}
	}
	if name == "" {
		name = "A file"
	}
	return contentJSON{Type: inputText, Text: fmt.Sprintf("[%s of type %s, %d bytes, cannot be shown to this model.]", name, p.MediaType, len(p.Data))}
}

func dataURL(mediaType string, data []byte) string {
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(data)
}
