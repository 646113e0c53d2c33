package chat

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// template is the quick way through a long stream. Servers frame each delta alike: one event differs from the one
// before only inside one string. When an event is the frame with another string in it, decoding that string alone
// gives what decoding the event would give.
//
// That holds because the frame was proven: the bytes before and behind the string's content come from a valid event,
// and changing the content changed the delta and nothing else. Putting any other valid string content there leaves
// the rest of the event as it was.
type template struct {
	prefix, suffix []byte
	delta          delta // of the frame; value points into it
	value          func(*delta) *string
	attempts       int
}

// maxAttempts bounds the proofs without a single use, for servers whose events differ in other places too.
const maxAttempts = 8

// kinds are the strings that a frame can be built around, by the member that ends in them.
var kinds = []struct {
	key   string
	value func(*delta) *string
}{
	{`"content":"`, func(d *delta) *string { return (*string)(&d.Content) }},
	{`"reasoning_content":"`, func(d *delta) *string { return (*string)(&d.ReasoningContent) }},
	{`"reasoning":"`, func(d *delta) *string { return (*string)(&d.Reasoning) }},
	{`"arguments":"`, func(d *delta) *string {
		if len(d.ToolCalls) != 1 {
			return nil
		}
		return (*string)(&d.ToolCalls[0].Function.Arguments)
	}},
}

// match decodes an event that fits the template. The delta is valid until the next call.
func (t *template) match(data []byte) (*delta, bool) {
	n := len(data) - len(t.prefix) - len(t.suffix)
	if t.value == nil || n < 0 || !bytes.HasSuffix(data, t.suffix) || !bytes.HasPrefix(data, t.prefix) {
		return nil, false
	}
	inner := data[len(t.prefix) : len(t.prefix)+n]
	s, ok := stringContent(inner, data[len(t.prefix)-1:len(t.prefix)+n+1])
	if !ok {
		return nil, false
	}
	*t.value(&t.delta) = s
	t.attempts = 0
	return &t.delta, true
}

// stringContent decodes the content of a JSON string; quoted is the same with its quotes. ok is false for what is not
// the content of one string.
func stringContent(inner, quoted []byte) (s string, ok bool) {
	for _, c := range inner {
		if c < ' ' || c == '"' || c == '\\' {
			return s, json.Unmarshal(quoted, &s) == nil
		}
	}
	if !utf8.Valid(inner) {
		return s, json.Unmarshal(quoted, &s) == nil
	}
	return string(inner), true
}

// learn takes the frame of an event that was decoded into c, if it is one pure delta.
func (t *template) learn(data []byte, c *chunk) {
	if t.attempts >= maxAttempts || !pure(c) {
		return
	}
	for _, k := range kinds {
		d := c.Choices[0].Delta
		v := k.value(&d)
		if v == nil || *v == "" {
			continue
		}
		i := bytes.LastIndex(data, []byte(k.key))
		if i < 0 {
			return
		}
		start := i + len(k.key)
		end := stringEnd(data, start)
		if end < 0 {
			return
		}
		t.attempts++
		if !proves(data[:end], data[end:], *v, k.value) {
			return
		}
		t.prefix = append(t.prefix[:0], data[:start]...)
		t.suffix = append(t.suffix[:0], data[end:]...)
		t.delta, t.value = d, k.value
		return
	}
}

// proves puts one more letter at the end of the string and looks for it in the delta.
func proves(before, behind []byte, old string, value func(*delta) *string) bool {
	changed := append(append(append(make([]byte, 0, len(before)+len(behind)+1), before...), 'x'), behind...)
	var c chunk
	if json.Unmarshal(changed, &c) != nil || !pure(&c) {
		return false
	}
	v := value(&c.Choices[0].Delta)
	return v != nil && *v == old+"x"
}

// stringEnd is the place of the quote that ends the string content at start.
func stringEnd(data []byte, start int) int {
	for i := start; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// pure reports whether an event is one string of one delta and nothing else that the decoder looks at.
func pure(c *chunk) bool {
	if len(c.Choices) != 1 || !null(c.Usage) || !null(c.Error) {
		return false
	}
	ch := &c.Choices[0]
	d := &ch.Delta
	if ch.Index != 0 || ch.FinishReason != "" || ch.Message.some() > 0 || d.some() != 1 || len(d.ReasoningDetails) > 0 {
		return false
	}
	if len(d.ToolCalls) == 0 {
		return true
	}
	f := &d.ToolCalls[0]
	return len(d.ToolCalls) == 1 && f.Index != nil && f.ID == "" && f.Function.Name == "" && null(f.ExtraContent)
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// some counts the members that hold anything.
func (d *delta) some() int {
	n := len(d.ToolCalls) + len(d.ReasoningDetails)
	for _, s := range []looseText{d.Content, d.Refusal, d.ReasoningContent, d.Reasoning} {
		if s != "" {
			n++
		}
	}
	return n
}
