// Package sse reads server-sent events from a byte stream.
//
// It owns the framing alone: lines, fields and their joining. It knows no JSON and no provider, starts no goroutine
// and does not close what it reads. Line ends may be LF, CR or CRLF; comments and unknown fields are skipped;
// consecutive data lines are joined by a line feed. There is no fixed cap of a line: the Reader's own bound holds for
// one line and for one event, and going over it is an error and not a cut.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// DefaultMaxEvent bounds one line and one event's data when the Reader is given no bound: 64 MiB.
const DefaultMaxEvent = 64 << 20

// ErrTooLarge means that a line or an event is larger than the Reader's bound.
var ErrTooLarge = errors.New("sse: event is larger than the bound")

// Event is one event. Data is valid until the next call of Next.
type Event struct {
	Name string // "" when the event had no name
	Data []byte
	// Cut says that the stream ended inside the event, before its blank line. Its last line may be incomplete.
	Cut bool
}

// Reader reads events. It is for one goroutine.
type Reader struct {
	src    io.Reader
	max    int
	buf    []byte
	r, w   int // buf[r:w] is unread
	data   []byte
	err    error
	began  bool
	skipLF bool
}

// NewReader reads from src. maxEvent bounds one line and one event in bytes; 0 means DefaultMaxEvent.
func NewReader(src io.Reader, maxEvent int) *Reader {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Reader{src: src, max: maxEvent, buf: make([]byte, min(16<<10, maxEvent+2))}
}

// Next returns the next event that has data. At the end of the stream the error is io.EOF; an event that the stream's
// end cut off comes before it with Cut set. Any other error is that of the source and ends the reading: what came of
// an event before it is dropped.
func (d *Reader) Next() (Event, error) {
	var name string
	lines := 0
	d.data = d.data[:0]
	for {
		line, err := d.line()
		if err != nil && !errors.Is(err, io.EOF) {
			return Event{}, err
		}
		if err != nil && len(line) == 0 {
			if lines > 0 {
				return Event{Name: name, Data: d.data, Cut: true}, nil
			}
			return Event{}, io.EOF
		}
		if len(line) == 0 {
			if lines > 0 {
				return Event{Name: name, Data: d.data}, nil
			}
			name = "" // a blank line ends an event without data too
			continue
		}
		field, value := split(line)
		switch field {
		case "data":
			if lines > 0 {
				d.data = append(d.data, '\n')
			}
			if len(d.data)+len(value) > d.max {
				d.err, d.r = ErrTooLarge, d.w // nothing behind it is read either
				return Event{}, ErrTooLarge
			}
			d.data = append(d.data, value...)
			lines++
		case "event":
			name = eventName(value)
		}
	}
}

// eventName avoids an allocation for the names that occur.
func eventName(v []byte) string {
	switch string(v) {
	case "message":
		return "message"
	case "error":
		return "error"
	}
	return string(v)
}

// split gives the field and its value without the one blank that may follow the colon. A comment has no field.
func split(line []byte) (field string, value []byte) {
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		i = len(line)
	} else {
		value = line[i+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(line[:i]) {
	case "data":
		return "data", value
	case "event":
		return "event", value
	}
	return "", nil
}

// line returns the next line without its end, valid until the next call. The last line comes with io.EOF when it has
// no end.
func (d *Reader) line() ([]byte, error) {
	scanned := 0
	for {
		if d.skipLF && d.r < d.w {
			if d.buf[d.r] == '\n' {
				d.r++
			}
			d.skipLF = false
		}
		pending := d.buf[d.r:d.w]
		if i := lineEnd(pending, scanned); i >= 0 {
			d.skipLF = pending[i] == '\r'
			d.r += i + 1
			return d.trimBOM(pending[:i]), nil
		}
		if scanned = len(pending); scanned > d.max {
			d.err = ErrTooLarge
		}
		if d.err != nil {
			if !errors.Is(d.err, io.EOF) {
				return nil, d.err
			}
			d.r = d.w
			return d.trimBOM(pending), io.EOF
		}
		d.fill()
	}
}

func lineEnd(b []byte, from int) int {
	i := bytes.IndexByte(b[from:], '\n')
	if i < 0 {
		if i = bytes.IndexByte(b[from:], '\r'); i < 0 {
			return -1
		}
		return from + i
	}
	if j := bytes.IndexByte(b[from:from+i], '\r'); j >= 0 {
		i = j
	}
	return from + i
}

func (d *Reader) trimBOM(line []byte) []byte {
	if d.began {
		return line
	}
	d.began = true
	return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
}

func (d *Reader) fill() {
	if d.r > 0 {
		copy(d.buf, d.buf[d.r:d.w])
		d.w -= d.r
		d.r = 0
	}
	if d.w == len(d.buf) {
		grown := make([]byte, min(2*len(d.buf), d.max+2))
		copy(grown, d.buf[:d.w])
		d.buf = grown
	}
	for range 100 {
		n, err := d.src.Read(d.buf[d.w:])
		d.w += n
		if err != nil {
			d.err = err
		}
		if n > 0 || err != nil {
			return
		}
	}
	d.err = io.ErrNoProgress
}
