package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// turnJSON is one turn. Content is *blockJSON, or json.RawMessage where a block is replayed.
type turnJSON struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type blockJSON struct {
	Type   string      `json:"type"`
	Text   string      `json:"text,omitempty"`
	Source *sourceJSON `json:"source,omitempty"`
	Title  string      `json:"title,omitempty"`
	// Of a call.
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
	// Of a result.
	ToolUseID string       `json:"tool_use_id,omitempty"`
	Content   []*blockJSON `json:"content,omitempty"`
	IsError   bool         `json:"is_error,omitempty"`

	Cache *cacheJSON `json:"cache_control,omitempty"`
}

type sourceJSON struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
}

// conversation is the history as it is sent. Turns of one role that follow each other are one.
type conversation struct {
	requested string
	system    []*blockJSON
	turns     []turnJSON
	// answered are the results that stand behind the turn of their calls, by message and part.
	answered map[history.Place]bool
	taken    map[string]bool // ids of calls
}

// messages writes the conversation. Whatever order the results have, they stand directly behind the turn that asked for
// them, at the beginning of one turn of the user, one for each call; a result that no call asked for leaves a note in
// its place. System messages at the beginning are instructions, later ones, for which the wire has no place, are said by
// the user.
func messages(req model.Request) ([]*blockJSON, []turnJSON, error) {
	h := conversation{requested: req.Model, answered: map[history.Place]bool{}, taken: map[string]bool{}}
	if req.System != "" {
		h.system = append(h.system, text(req.System))
	}
	for i, m := range req.Messages {
		var err error
		switch m.Role {
		case ai.RoleSystem:
			h.systemMessage(m)
		case ai.RoleUser, ai.RoleTool:
			h.user(i, m)
		case ai.RoleAssistant:
			err = h.assistant(i, req.Messages)
		default:
			err = fmt.Errorf("unknown role %q", m.Role)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(h.turns) > 0 && h.turns[0].Role == roleAssistant {
		h.turns = append([]turnJSON{{roleUser, []any{text("[The conversation begins with the answer.]")}}}, h.turns...)
	}
	h.trim()
	h.marks()
	return h.system, h.turns, nil
}

func text(s string) *blockJSON { return &blockJSON{Type: "text", Text: s} }

func (h *conversation) add(role string, blocks ...any) {
	if len(blocks) == 0 {
		return
	}
	if n := len(h.turns); n > 0 && h.turns[n-1].Role == role {
		h.turns[n-1].Content = append(h.turns[n-1].Content, blocks...)
		return
	}
	h.turns = append(h.turns, turnJSON{role, blocks})
}

// trim takes the blanks off the end of an answer that is to be continued: the wire refuses them there.
func (h *conversation) trim() {
	if n := len(h.turns); n > 0 && h.turns[n-1].Role == roleAssistant {
		content := h.turns[n-1].Content
		if b, ok := content[len(content)-1].(*blockJSON); ok && b.Type == "text" {
			b.Text = strings.TrimRight(b.Text, " \t\r\n")
		}
	}
}

func (h *conversation) marks() {
	if n := len(h.system); n > 0 {
		h.system[n-1].Cache = mark
	}
	for i, left := len(h.turns)-1, markedTurns; i >= 0 && left > 0; i-- {
		if t := h.turns[i]; t.Role == roleUser {
			t.Content[len(t.Content)-1].(*blockJSON).Cache = mark // a user's turn holds no replayed block
			left--
		}
	}
}

func (h *conversation) systemMessage(m ai.Message) {
	switch t := m.Text(); {
	case strings.TrimSpace(t) == "":
	case len(h.turns) == 0:
		h.system = append(h.system, text(t))
	default:
		h.add(roleUser, text(t))
	}
}

// user writes what the user said. Texts of blanks alone are left out: the wire refuses them.
func (h *conversation) user(at int, m ai.Message) {
	for n, p := range m.Content {
		switch p := p.(type) {
		case ai.TextPart:
			if m.Role == ai.RoleUser && strings.TrimSpace(p.Text) != "" {
				h.add(roleUser, text(p.Text))
			}
		case ai.FilePart:
			if m.Role == ai.RoleUser {
				h.add(roleUser, file(p))
			}
		case ai.ToolResultContent:
			if !h.answered[history.Place{Message: at, Part: n}] {
				h.add(roleUser, text(history.Stray(p)))
			}
		}
	}
}

// sentCall is a call as it stands in the request: key is its id here, id the one on the wire.
type sentCall struct{ key, id string }

// assistant writes a turn of the model and the results of its calls. Blocks are replayed where this wire and model made
// them and are dropped elsewhere. Reasoning that nothing follows is left out: the wire refuses a turn that ends in it.
func (h *conversation) assistant(at int, messages []ai.Message) error {
	var blocks []any
	var calls []sentCall
	replay := func(what string, raw *ai.RawItem) (bool, error) {
		item, err := history.Replay(raw, Wire, h.requested)
		if err != nil {
			return false, fmt.Errorf("raw form of %s: %w", what, err)
		}
		if item != nil {
			blocks = append(blocks, item)
		}
		return item != nil, nil
	}
	for _, p := range messages[at].Content {
		switch p := p.(type) {
		case ai.TextPart:
			done, err := replay("a text", p.Raw)
			if err != nil {
				return err
			}
			if !done && strings.TrimSpace(p.Text) != "" {
				blocks = append(blocks, text(p.Text))
			}
		case ai.ReasoningPart:
			if _, err := replay("the reasoning", p.Raw); err != nil {
				return err
			}
		case ai.ToolCallPart:
			if p.ProviderExecuted {
				if _, err := replay("a call of the server's own", p.Raw); err != nil {
					return err
				}
				continue
			}
			block, id, err := h.call(p)
			if err != nil {
				return fmt.Errorf("tool call %q: %w", p.ToolCallID, err)
			}
			blocks = append(blocks, block)
			calls = append(calls, sentCall{p.ToolCallID, id})
		}
	}
	for len(blocks) > 0 && isReasoning(blocks[len(blocks)-1]) {
		blocks = blocks[:len(blocks)-1]
	}
	h.add(roleAssistant, blocks...)
	return h.results(calls, at, messages)
}

// call writes one call, replayed where that is possible: its result must then have the id that the server gave it. An
// id that occurred before cannot be used again.
func (h *conversation) call(p ai.ToolCallPart) (any, string, error) {
	raw, err := history.Replay(p.Raw, Wire, h.requested)
	if err != nil {
		return nil, "", err
	}
	if raw != nil {
		var w struct{ Type, ID string }
		if json.Unmarshal(raw, &w) != nil || w.Type != "tool_use" || w.ID == "" {
			return nil, "", errors.New("its raw form is not a tool_use")
		}
		if !h.taken[w.ID] {
			h.taken[w.ID] = true
			return raw, w.ID, nil
		}
	}
	id := h.id(p.ToolCallID)
	return &blockJSON{Type: "tool_use", ID: id, Name: p.ToolName, Input: history.Object(p.Input)}, id, nil
}

// id is a call's id in the characters that the wire takes, and one of its own.
func (h *conversation) id(given string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, given)
	if id == "" {
		id = "call"
	}
	base := id
	for n := 2; h.taken[id]; n++ {
		id = fmt.Sprintf("%s_%d", base, n)
	}
	h.taken[id] = true
	return id
}

// file writes a file. One that the wire cannot carry is named in a text, so that the model knows of it.
func file(p ai.FilePart) *blockJSON {
	mt, _, _ := strings.Cut(strings.ToLower(p.MediaType), ";")
	mt = strings.TrimSpace(mt)
	if mt == "image/jpg" {
		mt = "image/jpeg"
	}
	switch {
	case len(p.Data) == 0: // named below
	case mt == "image/png", mt == "image/jpeg", mt == "image/gif", mt == "image/webp":
		return &blockJSON{Type: "image", Source: &sourceJSON{"base64", mt, p.Data}}
	case mt == "application/pdf":
		return &blockJSON{Type: "document", Title: p.Filename, Source: &sourceJSON{"base64", mt, p.Data}}
	}
	name := p.Filename
	if (strings.HasPrefix(mt, "text/") || mt == "application/json") && len(strings.TrimSpace(string(p.Data))) > 0 {
		s := strings.ToValidUTF8(string(p.Data), "\uFFFD")
		if name != "" {
			s = name + ":\n" + s
		}
		return text(s)
	}
	if name == "" {
		name = "A file"
	}
	return text(fmt.Sprintf("[%s of type %s, %d bytes, cannot be shown to this model.]", name, p.MediaType, len(p.Data)))
}
