package gemini

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
	roleUser  = "user"
	roleModel = "model"
)

// contentJSON is one turn. Parts are partJSON, or json.RawMessage where a part is replayed.
type contentJSON struct {
	Role  string `json:"role,omitempty"`
	Parts []any  `json:"parts"`
}

type partJSON struct {
	Text             *string       `json:"text,omitempty"`
	InlineData       *blobJSON     `json:"inlineData,omitempty"`
	FunctionCall     *callJSON     `json:"functionCall,omitempty"`
	FunctionResponse *responseJSON `json:"functionResponse,omitempty"`
	ThoughtSignature string        `json:"thoughtSignature,omitempty"`
}

type blobJSON struct {
	MimeType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

type callJSON struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// noSignature stands for the signature of a call that another model made. The service documents it for histories that
// come from elsewhere; models that check signatures refuse a call without one.
const noSignature = "skip_thought_signature_validator"

// conversation is the history as it is sent. Turns of one role that follow each other are one.
type conversation struct {
	requested string
	system    []any
	turns     []contentJSON
	// answered are the results that stand behind the turn of their calls, by message and part.
	answered map[history.Place]bool
}

// contents writes the conversation. Whatever order the results have, they stand directly behind the turn that asked
// for them, one for each call and in the calls' order; a result that no call asked for leaves a note in its place.
// System messages at the beginning are instructions, later ones, for which the wire has no place, are said by the user.
func contents(req model.Request) (*contentJSON, []contentJSON, error) {
	h := conversation{requested: req.Model, answered: map[history.Place]bool{}}
	if req.System != "" {
		h.system = append(h.system, text(req.System))
	}
	for i, m := range req.Messages {
		var err error
		switch m.Role {
		case ai.RoleSystem:
			h.systemMessage(m)
		case ai.RoleUser, ai.RoleTool:
			err = h.user(i, m)
		case ai.RoleAssistant:
			err = h.assistant(i, req.Messages)
		default:
			err = fmt.Errorf("unknown role %q", m.Role)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(h.system) == 0 {
		return nil, h.turns, nil
	}
	return &contentJSON{Parts: h.system}, h.turns, nil
}

func text(s string) partJSON { return partJSON{Text: &s} }

func (h *conversation) add(role string, parts ...any) {
	if len(parts) == 0 {
		return
	}
	if n := len(h.turns); n > 0 && h.turns[n-1].Role == role {
		h.turns[n-1].Parts = append(h.turns[n-1].Parts, parts...)
		return
	}
	h.turns = append(h.turns, contentJSON{Role: role, Parts: parts})
}

func (h *conversation) systemMessage(m ai.Message) {
	switch t := m.Text(); {
	case t == "":
	case len(h.turns) == 0:
		h.system = append(h.system, text(t))
	default:
		h.add(roleUser, text(t))
	}
}

func (h *conversation) user(at int, m ai.Message) error {
	for n, p := range m.Content {
		switch p := p.(type) {
		case ai.TextPart:
			if p.Text != "" && m.Role == ai.RoleUser {
				h.add(roleUser, text(p.Text))
			}
		case ai.FilePart:
			if m.Role != ai.RoleUser {
				continue
			}
			f, err := file(p)
			if err != nil {
				return err
			}
			h.add(roleUser, f)
		case ai.ToolResultContent:
			if !h.answered[history.Place{Message: at, Part: n}] {
				h.add(roleUser, text("[A result of the tool "+p.ToolName+" is left out: no open call asked for it.]"))
			}
		}
	}
	return nil
}

// sentCall is a call as it stands in the request.
type sentCall struct{ key, id, name string }

// assistant writes a turn of the model and the results of its calls. Parts are replayed where this wire and model made
// them and are dropped elsewhere.
func (h *conversation) assistant(at int, messages []ai.Message) error {
	var calls []sentCall
	signed := false
	for _, p := range messages[at].Content {
		switch p := p.(type) {
		case ai.TextPart:
			raw, err := history.Replay(p.Raw, Wire, h.requested)
			switch {
			case err != nil:
				return fmt.Errorf("raw form of a text: %w", err)
			case raw != nil:
				h.add(roleModel, raw)
			case p.Text != "":
				h.add(roleModel, text(p.Text))
			}
		case ai.ReasoningPart:
			raw, err := history.Replay(p.Raw, Wire, h.requested)
			if err != nil {
				return fmt.Errorf("raw form of the reasoning: %w", err)
			}
			if raw != nil {
				h.add(roleModel, raw)
			}
		case ai.ToolCallPart:
			if p.ProviderExecuted {
				continue
			}
			part, sent, err := h.call(p, !signed)
			if err != nil {
				return fmt.Errorf("tool call %q: %w", p.ToolCallID, err)
			}
			signed = true
			h.add(roleModel, part)
			calls = append(calls, sent)
		}
	}
	return h.results(calls, at, messages)
}

// call writes one call. A replayed one has the id that the server gave it, or none; its result must say the same.
func (h *conversation) call(p ai.ToolCallPart, first bool) (any, sentCall, error) {
	sent := sentCall{key: p.ToolCallID, id: p.ToolCallID, name: p.ToolName}
	raw, err := history.Replay(p.Raw, Wire, h.requested)
	if err != nil {
		return nil, sent, err
	}
	if raw != nil {
		var w struct {
			FunctionCall *functionCall `json:"functionCall"`
		}
		if json.Unmarshal(raw, &w) != nil || w.FunctionCall == nil {
			return nil, sent, errors.New("its raw form holds no functionCall")
		}
		sent.id, sent.name = string(w.FunctionCall.ID), string(w.FunctionCall.Name)
		return raw, sent, nil
	}
	out := partJSON{FunctionCall: &callJSON{ID: p.ToolCallID, Name: p.ToolName, Args: history.Object(p.Input)}}
	if first {
		out.ThoughtSignature = noSignature
	}
	return out, sent, nil
}

// file writes a file of a user, or of a result that cannot hold it.
func file(p ai.FilePart) (partJSON, error) {
	mt, kind := mediaType(p)
	switch {
	case kind == "text" || mt == "application/json":
		return text(named(p)), nil
	case kind == "image" || kind == "audio" || kind == "video" || mt == "application/pdf":
		return partJSON{InlineData: &blobJSON{MimeType: mt, Data: p.Data}}, nil
	}
	return partJSON{}, fmt.Errorf("files of type %q cannot be sent on this wire", p.MediaType)
}

func mediaType(p ai.FilePart) (whole, kind string) {
	whole, _, _ = strings.Cut(p.MediaType, ";")
	whole = strings.ToLower(strings.TrimSpace(whole))
	kind, _, _ = strings.Cut(whole, "/")
	return whole, kind
}

// named is the text of a text file behind its name.
func named(p ai.FilePart) string {
	if p.Filename == "" {
		return string(p.Data)
	}
	return p.Filename + ":\n" + string(p.Data)
}
