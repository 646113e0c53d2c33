package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
	"github.com/harness-go/harness/model/wire/transport"
)

// member is a member of an object.
type member struct {
	name  string
	value any
}

// item is a block as it goes into the transcript; the zero part where nothing of it is to be kept. A text that the
// request's encoder writes anew just as well has no raw form. Reasoning without a signature was cut and cannot be
// replayed.
func (d *decoder) item(b *block, cut bool) (model.Part, error) {
	p := model.Part{Kind: model.PartContent}
	text := b.text.String()
	var err error
	switch b.kind {
	case "text":
		part := ai.TextPart{Text: text}
		switch {
		case len(b.citations) > 0:
			part.Raw, err = d.raw(b, member{"text", text}, member{"citations", b.citations})
		case text == "":
			return model.Part{}, nil
		}
		p.Content = part
	case "thinking":
		part := ai.ReasoningPart{Text: text}
		switch {
		case b.signature.Len() > 0:
			part.Raw, err = d.raw(b, member{"thinking", text}, member{"signature", b.signature.String()})
		case text == "":
			return model.Part{}, nil
		}
		p.Content = part
	case "tool_use":
		// The calls of a cut answer are marked, all of them: what the model would have said next is not known.
		p.Index, p.ID, p.Name, p.Truncated = b.call, b.id, b.name, cut
		p.Content, err = d.toolCall(b, text)
	default: // of a kind that is not known here: it says nothing and is replayed in its place
		s := strings.TrimSpace(text)
		if b.strange || s != "" && !json.Valid([]byte(s)) {
			return model.Part{}, nil // half of it cannot be replayed
		}
		var raw *ai.RawItem
		if s == "" {
			raw, err = d.raw(b)
		} else {
			raw, err = d.raw(b, member{"input", json.RawMessage(s)})
		}
		p.Content = ai.TextPart{Raw: raw}
		if b.kind == "redacted_thinking" {
			p.Content = ai.ReasoningPart{Raw: raw}
		}
	}
	return p, err
}

// toolCall has a raw form where the service takes it back: with arguments that are an object and an id of its own.
func (d *decoder) toolCall(b *block, args string) (ai.ToolCallPart, error) {
	s := strings.TrimSpace(args)
	if s == "" {
		args, s = "{}", "{}"
	}
	c := ai.ToolCallPart{ToolCallID: b.id, ToolName: b.name, Input: args}
	if b.made || s[0] != '{' || !json.Valid([]byte(s)) {
		return c, nil
	}
	var err error
	c.Raw, err = d.raw(b, member{"input", json.RawMessage(s)})
	return c, err
}

// raw is a block as the service wants it back: as it began, with what the pieces added in its members.
func (d *decoder) raw(b *block, more ...member) (*ai.RawItem, error) {
	item := []byte(b.start)
	var err error
	if b.grown {
		item, err = withMembers(b.start, more)
	}
	var compact bytes.Buffer
	if err == nil {
		err = json.Compact(&compact, item)
	}
	if err != nil {
		return nil, transport.Protocolf("a block cannot be kept: %v", err)
	}
	return &ai.RawItem{Wire: Wire, Model: d.model, JSON: compact.Bytes()}, nil
}

// withMembers is an object with the values of some members replaced, in their place, and those that it lacks at its
// end.
func withMembers(object []byte, more []member) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return nil, err
	}
	var out bytes.Buffer
	write := func(name string, value any) error {
		key, err := history.Marshal(name)
		if err != nil {
			return err
		}
		v, err := history.Marshal(value)
		if err != nil {
			return err
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(v)
		return nil
	}
	written := make([]bool, len(more))
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string) // a member's name is one
		var old json.RawMessage
		if err := dec.Decode(&old); err != nil {
			return nil, err
		}
		value := any(old)
		for i, m := range more {
			if m.name == name {
				value, written[i] = m.value, true
			}
		}
		if err := write(name, value); err != nil {
			return nil, err
		}
	}
	for i, m := range more {
		if !written[i] {
			if err := write(m.name, m.value); err != nil {
				return nil, err
			}
		}
	}
	return append(append([]byte{'{'}, out.Bytes()...), '}'), nil
}
