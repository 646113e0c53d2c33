package httpapi

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/harness-go/harness/event"
)

const (
	frameChunk  = 32 << 10 // written at once, each with a deadline of its own
	frameRetain = 256 << 10
)

var frameBuffers = sync.Pool{New: func() any { b := make([]byte, 0, frameChunk+4<<10); return &b }}

// frames writes server-sent events, and other streams of lines. It borrows its buffer between flushes only, so that an idle stream holds none.
type frames struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	buf     *[]byte
}

// newFrames makes a writer for a stream. The connection's read deadline is lifted: the server's limit for reading a
// request would end the stream in its midst.
func newFrames(w http.ResponseWriter, stall time.Duration) *frames {
	f := &frames{w: w, control: http.NewResponseController(w), stall: stall}
	_ = f.control.SetReadDeadline(time.Time{})
	return f
}

func (f *frames) borrow() []byte {
	if f.buf == nil {
		f.buf = frameBuffers.Get().(*[]byte)
	}
	return *f.buf
}

func (f *frames) comment(text string) {
	b := append(f.borrow(), text...)
	*f.buf = b
}

// raw appends bytes as they are, and writes what has come together.
func (f *frames) raw(p []byte) error {
	b := append(f.borrow(), p...)
	*f.buf = b
	if len(b) >= frameChunk {
		return f.write()
	}
	return nil
}

// event appends one event, and writes what has come together.
func (f *frames) event(e *event.Event) error {
	b := f.borrow()
	b = append(b, "id: "...)
	b = strconv.AppendInt(b, e.Seq, 10)
	b = append(b, "\nevent: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: "...)
	start := len(b)
	b = e.AppendJSON(b)
	if bytes.ContainsAny(b[start:], "\r\n") { // between tokens: inside strings JSON has no raw line ends
		for i := start; i < len(b); i++ {
			if b[i] == '\n' || b[i] == '\r' {
				b[i] = ' '
			}
		}
	}
	b = append(b, "\n\n"...)
	*f.buf = b
	if len(b) >= frameChunk {
		return f.write()
	}
	return nil
}

// write sends the buffer in pieces. Each gets the reader's whole patience anew, so that only one who takes nothing is
// cut off. In-process connections have no deadlines; theirs ends with the request.
func (f *frames) write() error {
	b := *f.buf
	for len(b) > 0 {
		n := min(len(b), frameChunk)
		if err := f.control.SetWriteDeadline(time.Now().Add(f.stall)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := f.w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	*f.buf = (*f.buf)[:0]
	return nil
}

// flush sends everything and gives the buffer back.
func (f *frames) flush() error {
	if f.buf == nil {
		return nil
	}
	if err := f.write(); err != nil {
		return err
	}
	if cap(*f.buf) <= frameRetain {
		frameBuffers.Put(f.buf)
	}
	f.buf = nil
	return f.control.Flush()
}
