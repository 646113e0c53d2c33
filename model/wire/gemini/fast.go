package gemini

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// frame is the quick way through a long stream. Most events are one plain part and a usage, and differ from the one
// before only inside the part's string and in the usage's numbers. When an event is the frame with another string and
// other numbers in it, reading those alone gives what decoding the event would give.
//
// That holds because the bytes around them come from a valid event in which their places are known for sure, and
// because the content of one JSON string, or a row of digits, can be replaced by another without a change to the rest.
type frame struct {
	prefix   []byte   // up to the string's content
	between  []byte   // from behind the string's content to the usage, or to the end
	usage    [][]byte // the usage without its numbers; nil where there is none
	suffix   []byte
	thought  bool
	attempts int
}

// maxAttempts bounds the frames that are taken without a single use, for servers whose events differ in other places.
const maxAttempts = 8

// match reads an event that fits the frame: its part, and its usage where it has one.
func (f *frame) match(data []byte) (c content, usage []byte, ok bool) {
	if f.prefix == nil || !bytes.HasPrefix(data, f.prefix) {
		return c, nil, false
	}
	rest := data[len(f.prefix)-1:] // from the quote
	s, n, ok := readString(rest)
	if !ok {
		return c, nil, false
	}
	if rest, ok = bytes.CutPrefix(rest[n:], f.between); !ok {
		return c, nil, false
	}
	if f.usage != nil {
		behind, ok := cutNumbers(rest, f.usage)
		if !ok {
			return c, nil, false
		}
		usage, rest = rest[:len(rest)-len(behind)], behind
	}
	if !bytes.Equal(rest, f.suffix) {
		return c, nil, false
	}
	f.attempts = 0
	return content{text: s, thought: f.thought}, usage, true
}

// learn takes the frame of an event that was decoded into c, if it is one plain part with or without a usage. The
// usage must be that of the event itself.
func (f *frame) learn(data []byte, c *chunk, usage []byte) {
	if f.attempts >= maxAttempts || len(c.Candidates) != 1 || !null(c.Error) || c.PromptFeedback.BlockReason != "" {
		return
	}
	only := &c.Candidates[0]
	if only.Index != 0 || only.FinishReason != "" || len(only.Content.Parts) != 1 {
		return
	}
	raw := only.Content.Parts[0].raw
	p, ok := plainPart(raw)
	at := onlyPlace(data, raw)
	if !ok || at < 0 {
		return
	}
	start := at + bytes.IndexByte(raw, ':') + 1
	start += bytes.IndexByte(data[start:], '"')
	end := start + stringEnd(data[start:])
	f.attempts++
	f.prefix = nil
	between, suffix := data[end:], data[len(data):]
	var numbers [][]byte
	if usage != nil {
		u := onlyPlace(data, usage)
		if u < end || bytes.IndexByte(usage, '\\') >= 0 {
			return
		}
		between, suffix = data[end:u], data[u+len(usage):]
		numbers = cutDigits(bytes.Clone(usage))
	}
	f.prefix, f.between, f.suffix = bytes.Clone(data[:start+1]), bytes.Clone(between), bytes.Clone(suffix)
	f.usage, f.thought = numbers, p.thought
}

// onlyPlace finds a text that occurs once; it is -1 for any other.
func onlyPlace(data, text []byte) int {
	i := bytes.Index(data, text)
	if i != bytes.LastIndex(data, text) {
		return -1
	}
	return i
}

// readString reads the JSON string that b begins with; n is the place behind it. ok is false for what is not one.
func readString(b []byte) (s string, n int, ok bool) {
	plain := true
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			if plain && utf8.Valid(b[1:i]) {
				return string(b[1:i]), i + 1, true
			}
			return s, i + 1, json.Unmarshal(b[:i+1], &s) == nil
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return s, 0, false
		}
	}
	return s, 0, false
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// cutDigits splits a text at its rows of digits.
func cutDigits(text []byte) (pieces [][]byte) {
	start := 0
	for i := 0; i < len(text); {
		if !digit(text[i]) {
			i++
			continue
		}
		pieces = append(pieces, text[start:i:i])
		for i < len(text) && digit(text[i]) {
			i++
		}
		start = i
	}
	return append(pieces, text[start:])
}

// cutNumbers skips the pieces with a number between each two, and returns what is behind.
func cutNumbers(b []byte, pieces [][]byte) ([]byte, bool) {
	for i, p := range pieces {
		if i > 0 {
			n := 0
			for n < len(b) && digit(b[n]) {
				n++
			}
			if n == 0 || (n > 1 && b[0] == '0') {
				return nil, false
			}
			b = b[n:]
		}
		var ok bool
		if b, ok = bytes.CutPrefix(b, p); !ok {
			return nil, false
		}
	}
	return b, true
}
