package responses

import "github.com/harness-go/harness/model/wire/transport"

// deltaKind is what a delta adds to.
type deltaKind uint8

const (
	noDelta deltaKind = iota
	textDelta
	summaryDelta // of reasoning
	reasoningDelta
	argsDelta
)

// deltaKindOf is the kind that an event's type stands for.
func deltaKindOf(event string) deltaKind {
	switch event {
	case "response.output_text.delta", "response.refusal.delta":
		return textDelta
	case "response.reasoning_summary_text.delta":
		return summaryDelta
	case "response.reasoning_text.delta":
		return reasoningDelta
	case "response.function_call_arguments.delta":
		return argsDelta
	}
	return noDelta
}

// delta is a piece of an item.
type delta struct {
	kind            deltaKind
	output, summary int
	text            string
}

// flatDelta reads the most frequent events without the general decoder: an object whose members are strings, numbers
// and the like, and of which the decoder needs four. It takes no event of which the general decoder would make
// anything else; what it does not take is left to that one.
func flatDelta(data []byte) (d delta, ok bool) {
	s := flat{data: data}
	if !s.skip('{') {
		return d, false
	}
	var text []byte
	for more := true; more; more = s.skip(',') {
		key, ok := s.key()
		if !ok {
			return d, false
		}
		switch string(key) {
		case "type":
			v, plain, ok := s.quoted()
			if !ok || !plain {
				return d, false
			}
			if d.kind = deltaKindOf(string(v[1 : len(v)-1])); d.kind == noDelta {
				return d, false
			}
		case "delta":
			if text, _, ok = s.quoted(); !ok {
				return d, false
			}
		case "output_index":
			if d.output, ok = s.number(); !ok || d.output > maxItems {
				return d, false
			}
		case "summary_index":
			if d.summary, ok = s.number(); !ok {
				return d, false
			}
		case "item", "response", "error":
			return d, false
		default:
			if !s.other() {
				return d, false
			}
		}
	}
	if !s.skip('}') || s.at != len(data) || d.kind == noDelta {
		return d, false
	}
	if text == nil {
		return d, true
	}
	v, err := transport.Unquote(text)
	d.text = v
	return d, err == nil
}

// flat is a place in the text of a flat object.
type flat struct {
	data []byte
	at   int
}

func (s *flat) blanks() {
	for s.at < len(s.data) && s.data[s.at] == ' ' {
		s.at++
	}
}

// skip goes past one character and the blanks around it, if it is there.
func (s *flat) skip(c byte) bool {
	s.blanks()
	if s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	if c != '}' {
		s.blanks()
	}
	return true
}

// key reads a member's name and the colon. Names in other letters are left to the general decoder, which does not
// tell capitals from small letters.
func (s *flat) key() ([]byte, bool) {
	v, plain, ok := s.quoted()
	if !ok || !plain {
		return nil, false
	}
	v = v[1 : len(v)-1]
	for _, c := range v {
		if c != '_' && (c < 'a' || c > 'z') {
			return nil, false
		}
	}
	return v, s.skip(':')
}

// quoted reads a string with its quotes. plain tells that no escape is in it.
func (s *flat) quoted() (v []byte, plain, ok bool) {
	start := s.at
	if start >= len(s.data) || s.data[start] != '"' {
		return nil, false, false
	}
	plain = true
	for i := start + 1; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.at = i + 1
			return s.data[start:s.at], plain, true
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			return nil, false, false
		}
	}
	return nil, false, false
}

// number reads a small number that is not negative.
func (s *flat) number() (n int, ok bool) {
	start := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		n = n*10 + int(s.data[s.at]-'0')
		s.at++
	}
	digits := s.at - start
	return n, digits > 0 && digits < 10 && (digits == 1 || s.data[start] != '0')
}

// other goes past a value that nobody needs.
func (s *flat) other() bool {
	if s.at >= len(s.data) {
		return false
	}
	switch s.data[s.at] {
	case '"':
		_, plain, ok := s.quoted()
		return ok && plain
	case '[':
		return s.word("[]")
	case '{':
		return s.word("{}")
	case 'n':
		return s.word("null")
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	}
	_, ok := s.number()
	return ok
}

func (s *flat) word(w string) bool {
	if len(s.data)-s.at < len(w) || string(s.data[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}
