package transport

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"bytes"

	"github.com/harness-go/harness/model/wire/sse"
)

// Read gives a body to one of two readers: events to those of a stream, object to the one JSON value of a server that
// does not stream, which is valid JSON and within limit bytes. No line of an event stream begins with a brace or a
// bracket, so the body tells more reliably what it is than its content type does.
func Read(src io.Reader, limit int, events func(*sse.Reader) error, object func(body []byte) error) error {
	in := bufio.NewReaderSize(src, 4<<10)
	plain, err := startsWithJSON(in)
	switch {
	case errors.Is(err, io.EOF):
		return ErrIncomplete
	case err != nil:
		return err
	case plain:
		return readObject(in, limit, object)
	}
	return events(sse.NewReader(in, limit))
}

func startsWithJSON(in *bufio.Reader) (bool, error) {
	for {
		b, err := in.Peek(1)
		if err != nil {
			return false, err
		}
		switch b[0] {
		case ' ', '\t', '\r', '\n':
			_, _ = in.Discard(1) // it was peeked
		case '{', '[':
			return true, nil
		case '<':
			return false, Protocolf("the server answered with an HTML page; check the base URL")
		default:
			return false, nil
		}
	}
}

func readObject(in io.Reader, limit int, object func([]byte) error) error {
	body, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err != nil {
		return err
	}
	if len(body) > limit {
		return ErrTooLarge
	}
	if e := ParseErrorBody(body); e != nil && body[0] == '[' {
		return e
	}
	if !json.Valid(body) {
		return ErrIncomplete
	}
	return object(body)
}

// Loose takes a JSON string, or a number or boolean as its text. Anything else is "".
type Loose string

// UnmarshalJSON implements json.Unmarshaler.
func (s *Loose) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) == 0 || b[0] == '{' || b[0] == '[' || string(b) == "null":
		*s = ""
	case b[0] == '"':
		v, err := Unquote(b)
		*s = Loose(v)
		return err
	default:
		*s = Loose(b)
	}
	return nil
}

// Unquote decodes a JSON string. Text without escapes, the common case, is copied as it is.
func Unquote(b []byte) (string, error) {
	if inner := b[1 : len(b)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err
}
