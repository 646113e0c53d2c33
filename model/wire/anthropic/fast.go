package anthropic

import "github.com/harness-go/harness/model/wire/transport"

// piece is a delta of a block: what it adds to, and the text.
type piece struct {
	index int
	kind  string // the type of the delta
	text  string
}

// plainPiece reads the most frequent events without the general decoder: a delta of one text, its members in the order
// in which the service writes them. It takes no event of which the general decoder would make anything else; what it
// does not take is left to that one.
func plainPiece(data []byte) (p piece, ok bool) {
	s := scan{data: data}
	if !s.all(`{`, `"type"`, `:`, `"content_block_delta"`, `,`, `"index"`, `:`) {
		return p, false
	}
	if p.index, ok = s.number(); !ok {
		return p, false
	}
	if !s.all(`,`, `"delta"`, `:`, `{`, `"type"`, `:`) {
		return p, false
	}
	kind, ok := s.quoted()
	if !ok {
		return p, false
	}
	switch string(kind) {
	case `"text_delta"`:
		p.kind, ok = "text_delta", s.all(`,`, `"text"`, `:`)
	case `"thinking_delta"`:
		p.kind, ok = "thinking_delta", s.all(`,`, `"thinking"`, `:`)
	case `"input_json_delta"`:
		p.kind, ok = "input_json_delta", s.all(`,`, `"partial_json"`, `:`)
	case `"signature_delta"`:
		p.kind, ok = "signature_delta", s.all(`,`, `"signature"`, `:`)
	default:
		ok = false
	}
	if !ok {
		return p, false
	}
	text, ok := s.quoted()
	if !ok || !s.all(`}`, `}`) {
		return p, false
	}
	s.blanks()
	if s.at != len(data) {
		return p, false
	}
	var err error
	p.text, err = transport.Unquote(text)
	return p, err == nil
}

// scan is a place in a JSON text.
type scan struct {
	data []byte
	at   int
}

func (s *scan) blanks() {
	for s.at < len(s.data) && s.data[s.at] == ' ' {
		s.at++
	}
}

// all goes past the tokens and the blanks before them, if they are what comes.
func (s *scan) all(tokens ...string) bool {
	for _, t := range tokens {
		s.blanks()
		if len(s.data)-s.at < len(t) || string(s.data[s.at:s.at+len(t)]) != t {
			return false
		}
		s.at += len(t)
	}
	return true
}

// number reads a small number that is not negative.
func (s *scan) number() (n int, ok bool) {
	s.blanks()
	start := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' && s.at-start < 10 {
		n = n*10 + int(s.data[s.at]-'0')
		s.at++
	}
	digits := s.at - start
	return n, digits > 0 && digits < 10 && (digits == 1 || s.data[start] != '0')
}

// quoted reads a string with its quotes.
func (s *scan) quoted() ([]byte, bool) {
	s.blanks()
	start := s.at
	if start >= len(s.data) || s.data[start] != '"' {
		return nil, false
	}
	for i := start + 1; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.at = i + 1
			return s.data[start:s.at], true
		case c == '\\':
			i++
		case c < ' ':
			return nil, false
		}
	}
	return nil, false
}
