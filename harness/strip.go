package harness

import (
	"bytes"
	"encoding/json"
	"strings"
)

// stripper takes the working directory off paths for display. A path counts where the directory stands at the start,
// after a blank, a quote, a backtick or "=", and is followed by "/", the end, or one of the characters that end a word
// in a shell or in JSON. The bare directory becomes ".".
type stripper struct {
	dir string
	// jsonDir is the directory as it stands in JSON text.
	jsonDir []byte
}

func newStripper(dir string) stripper {
	dir = strings.TrimRight(dir, "/")
	quoted, _ := plainJSON(dir) // a string always marshals
	return stripper{dir: dir, jsonDir: bytes.Trim(quoted, `"`)}
}

func opensPath(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', '\v', '\f', '"', '\'', '`', '=':
		return true
	}
	return false
}

func closesPath(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', '\v', '\f', '"', '\'', '`', ';', '|', '&', '<', '>', '(', ')':
		return true
	}
	return false
}

// text strips a whole text.
func (s stripper) text(t string) string {
	if s.dir == "" || !strings.Contains(t, s.dir) {
		return t
	}
	out, _ := s.strip(t, 0, true)
	return out
}

// strip strips t, whose text before is prev (0 at the start). When t is not the end of the text, what may yet become a
// path is left over in rest.
func (s stripper) strip(t string, prev byte, end bool) (out, rest string) {
	var b strings.Builder
	for i := 0; i < len(t); {
		before := prev
		if i > 0 {
			before = t[i-1]
		}
		if before != 0 && !opensPath(before) || t[i] != s.dir[0] {
			b.WriteByte(t[i])
			i++
			continue
		}
		tail := t[i:]
		if !strings.HasPrefix(tail, s.dir) {
			if !end && strings.HasPrefix(s.dir, tail) {
				return b.String(), tail
			}
			b.WriteByte(t[i])
			i++
			continue
		}
		after := i + len(s.dir)
		switch {
		case after == len(t) && !end:
			return b.String(), tail
		case after == len(t) || closesPath(t[after]):
			b.WriteByte('.')
			i = after
		case t[after] == '/':
			i = after + 1
		default:
			b.WriteString(s.dir)
			i = after
		}
	}
	return b.String(), ""
}

// json strips every string in a JSON value. Numbers stay as they are written.
func (s stripper) json(raw json.RawMessage) json.RawMessage {
	if s.dir == "" || !bytes.Contains(raw, s.jsonDir) && !bytes.ContainsRune(raw, '\\') {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	v, changed := s.value(v)
	if !changed {
		return raw
	}
	out, err := plainJSON(v)
	if err != nil {
		return raw
	}
	return out
}

func (s stripper) value(v any) (any, bool) {
	changed := false
	switch t := v.(type) {
	case string:
		out := s.text(t)
		return out, out != t
	case []any:
		for i := range t {
			var c bool
			t[i], c = s.value(t[i])
			changed = changed || c
		}
	case map[string]any:
		for k := range t {
			var c bool
			t[k], c = s.value(t[k])
			changed = changed || c
		}
	}
	return v, changed
}

// deltaStripper strips a text that comes in pieces. It holds back what may yet become a path.
type deltaStripper struct {
	stripper
	prev byte
	held string
}

// add returns what of the text so far can be shown.
func (d *deltaStripper) add(delta string) string {
	if d.dir == "" || delta == "" {
		return delta
	}
	t := d.held + delta
	out, rest := d.strip(t, d.prev, false)
	if shown := t[:len(t)-len(rest)]; shown != "" {
		d.prev = shown[len(shown)-1]
	}
	d.held = rest
	return out
}

// flush returns what was held back, at the end of the text.
func (d *deltaStripper) flush() string {
	if d.held == "" {
		return ""
	}
	out, _ := d.strip(d.held, d.prev, true)
	d.held = ""
	return out
}
