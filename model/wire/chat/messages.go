package chat

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
)

// messageJSON is one message. Content is a string, a list of contentJSON or nil (null).
type messageJSON struct {
	Role       string            `json:"role"`
	Content    any               `json:"content"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
	ToolCalls  []json.RawMessage `json:"tool_calls,omitempty"`
	// extra holds members that are replayed as a server sent them.
	extra map[string]json.RawMessage
}

// value is what is encoded. The members have a fixed order, the replayed ones last, so that equal histories give equal
// bytes and prompt caches hit.
func (m messageJSON) value() (any, error) {
	if m.extra == nil {
		return m, nil
	}
	b, err := history.Marshal(m)
	if err != nil {
		return nil, err
	}
	b, err = withMembers(b, m.extra)
	return json.RawMessage(b), err
}

// withMembers adds members to a JSON object, in the order of their names.
func withMembers(object []byte, extra map[string]json.RawMessage) ([]byte, error) {
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		name, err := history.Marshal(k)
		if err != nil {
			return nil, err
		}
		object = append(object[:len(object)-1], ',')
		object = append(append(append(object, name...), ':'), extra[k]...)
		object = append(object, '}')
	}
	return object, nil
}

type contentJSON struct {
	Type       string     `json:"type"`
	Text       *string    `json:"text,omitempty"`
	ImageURL   *imageJSON `json:"image_url,omitempty"`
	File       *fileJSON  `json:"file,omitempty"`
	InputAudio *audioJSON `json:"input_audio,omitempty"`
}

type imageJSON struct {
	URL string `json:"url"`
}

type fileJSON struct {
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

type audioJSON struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type callJSON struct {
	ID       string           `json:"id"`
	Type     string           `json:"type"`
	Function callFunctionJSON `json:"function"`
}

type callFunctionJSON struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// messages writes the history. Whatever order the results have, they stand directly behind the turn that asked for
// them, one for each call and in the calls' order; a result that no call asked for is left out.
func messages(req model.Request) ([]messageJSON, error) {
	var out []messageJSON
	if req.System != "" {
		out = append(out, messageJSON{Role: "system", Content: req.System})
	}
	for i, m := range req.Messages {
		switch m.Role {
		case ai.RoleSystem:
			if t := m.Text(); t != "" {
				out = append(out, messageJSON{Role: "system", Content: t})
			}
		case ai.RoleUser:
			parts, err := userContent(m)
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
			if parts != nil {
				out = append(out, messageJSON{Role: "user", Content: parts})
			}
		case ai.RoleAssistant:
			turn, calls, err := assistant(m, req.Model)
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
			if turn == nil {
				continue
			}
			results, err := resultsOf(calls, req.Messages[i+1:])
			if err != nil {
				return nil, fmt.Errorf("results of message %d: %w", i, err)
			}
			out = append(append(out, *turn), results...)
		case ai.RoleTool: // written behind the turn of its calls
		default:
			return nil, fmt.Errorf("message %d has the unknown role %q", i, m.Role)
		}
	}
	return out, nil
}

// userContent is a string for plain text, else a list. nil means that there is nothing to send.
func userContent(m ai.Message) (any, error) {
	var parts []contentJSON
	texts := 0
	for _, p := range m.Content {
		switch p := p.(type) {
		case ai.TextPart:
			if p.Text != "" {
				parts = append(parts, textContent(p.Text))
				texts++
			}
		case ai.FilePart:
			c, err := fileContent(p)
			if err != nil {
				return nil, err
			}
			parts = append(parts, c)
		}
	}
	switch {
	case len(parts) == 0:
		return nil, nil
	case len(parts) == 1 && texts == 1:
		return *parts[0].Text, nil
	}
	return parts, nil
}

func textContent(s string) contentJSON { return contentJSON{Type: "text", Text: &s} }

func fileContent(p ai.FilePart) (contentJSON, error) {
	data := func() string { return base64.StdEncoding.EncodeToString(p.Data) }
	switch mt, _, _ := strings.Cut(p.MediaType, ";"); {
	case strings.HasPrefix(mt, "image/"):
		return contentJSON{Type: "image_url", ImageURL: &imageJSON{URL: "data:" + mt + ";base64," + data()}}, nil
	case strings.HasPrefix(mt, "text/"), mt == "application/json":
		text := string(p.Data)
		if p.Filename != "" {
			text = p.Filename + ":\n" + text
		}
		return textContent(text), nil
	case mt == "application/pdf":
		name := p.Filename
		if name == "" {
			name = "document.pdf"
		}
		return contentJSON{Type: "file", File: &fileJSON{Filename: name, FileData: "data:" + mt + ";base64," + data()}}, nil
	case mt == "audio/wav", mt == "audio/mpeg", mt == "audio/mp3":
		format := "mp3"
		if mt == "audio/wav" {
			format = "wav"
		}
		return contentJSON{Type: "input_audio", InputAudio: &audioJSON{Data: data(), Format: format}}, nil
	}
	return contentJSON{}, fmt.Errorf("files of type %q cannot be sent on this wire", p.MediaType)
}

// assistant writes a turn of the model. Raw items are replayed where this wire and model made them and are dropped
// elsewhere. A turn with nothing left in it is nil.
func assistant(m ai.Message, requested string) (*messageJSON, []ai.ToolCallPart, error) {
	out := messageJSON{Role: "assistant"}
	var calls []ai.ToolCallPart
	for _, p := range m.Content {
		switch p := p.(type) {
		case ai.ReasoningPart:
			members, err := replay(p.Raw, requested)
			if err != nil {
				return nil, nil, fmt.Errorf("raw form of the reasoning: %w", err)
			}
			for k, v := range members {
				switch k {
				case "role", "content", "tool_calls", "tool_call_id":
				default:
					if out.extra == nil {
						out.extra = map[string]json.RawMessage{}
					}
					out.extra[k] = v
				}
			}
		case ai.ToolCallPart:
			if p.ProviderExecuted {
				continue
			}
			raw, err := callOf(p, requested)
			if err != nil {
				return nil, nil, fmt.Errorf("tool call %q: %w", p.ToolCallID, err)
			}
			out.ToolCalls = append(out.ToolCalls, raw)
			calls = append(calls, p)
		}
	}
	switch text := m.Text(); {
	case text != "":
		out.Content = text
	case len(out.ToolCalls) == 0 && out.extra == nil:
		return nil, nil, nil
	case len(out.ToolCalls) == 0:
		out.Content = ""
	}
	return &out, calls, nil
}

func callOf(p ai.ToolCallPart, requested string) (json.RawMessage, error) {
	args := p.Input
	if strings.TrimSpace(args) == "" {
		args = "{}"
	}
	b, err := history.Marshal(callJSON{ID: p.ToolCallID, Type: "function", Function: callFunctionJSON{Name: p.ToolName, Arguments: args}})
	if err != nil {
		return nil, err
	}
	members, err := replay(p.Raw, requested)
	if err != nil {
		return nil, err
	}
	for _, own := range []string{"id", "type", "index", "function"} {
		delete(members, own)
	}
	return withMembers(b, members)
}

func replay(raw *ai.RawItem, requested string) (map[string]json.RawMessage, error) {
	if raw == nil || raw.Wire != Wire || raw.Model != requested {
		return nil, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw.JSON, &members); err != nil {
		return nil, err
	}
	return members, nil
}
