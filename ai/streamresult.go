package ai

import (
	"iter"
	"sync"
)

// streamBuffer is how many parts wait for a slow reader before the turn waits too.
const streamBuffer = 256

// StreamTextResult is a running turn as its consumer sees it. The parts wait in a bounded buffer: a consumer must read
// them (Next, FullStream, TextStream), or call Wait or Discard, or cancel the turn's context; else the turn stands
// still when the buffer is full. One goroutine reads.
type StreamTextResult struct {
	mu       sync.Mutex
	readable sync.Cond
	writable sync.Cond

	buf         []StreamPart // ring
	head, n     int
	closed      bool
	discard     bool
	interrupted bool

	done   chan struct{}
	result *GenerateTextResult
	err    error
}

// Next returns the next part, and false after the last one.
func (r *StreamTextResult) Next() (StreamPart, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.n == 0 && !r.closed && !r.discard {
		r.readable.Wait()
	}
	if r.n == 0 {
		return nil, false
	}
	p := r.buf[r.head]
	r.buf[r.head] = nil
	r.head = (r.head + 1) % len(r.buf)
	r.n--
	r.writable.Signal()
	return p, true
}

// FullStream yields every part. Leaving the loop early discards the rest; the turn goes on.
func (r *StreamTextResult) FullStream() iter.Seq[StreamPart] {
	return func(yield func(StreamPart) bool) {
		for {
			p, ok := r.Next()
			if !ok {
				return
			}
			if !yield(p) {
				r.Discard()
				return
			}
		}
	}
}

// TextStream yields the text deltas.
func (r *StreamTextResult) TextStream() iter.Seq[string] {
	return func(yield func(string) bool) {
		for p := range r.FullStream() {
			if d, ok := p.(TextDeltaPart); ok && !yield(d.Text) {
				return
			}
		}
	}
}

// Discard drops all parts that were not read, now and later.
func (r *StreamTextResult) Discard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.discard = true
	r.buf, r.head, r.n = nil, 0, 0
	r.readable.Broadcast()
	r.writable.Broadcast()
}

// Done is closed when the turn has ended, paused or was suspended.
func (r *StreamTextResult) Done() <-chan struct{} { return r.done }

// Wait discards the parts that were not read and returns the result when the turn has ended, paused or was suspended.
// The error tells of a turn that failed or was cancelled; the result then holds the steps that were finished.
func (r *StreamTextResult) Wait() (*GenerateTextResult, error) {
	r.Discard()
	<-r.done
	return r.result, r.err
}

// Result is Wait without discarding: it returns nil, nil while the turn runs.
func (r *StreamTextResult) Result() (*GenerateTextResult, error) {
	select {
	case <-r.done:
		return r.result, r.err
	default:
		return nil, nil
	}
}

// StreamWriter is the producer's end of a StreamTextResult.
type StreamWriter struct{ r *StreamTextResult }

// NewStream returns both ends of a stream.
func NewStream() (*StreamTextResult, *StreamWriter) {
	r := &StreamTextResult{done: make(chan struct{})}
	r.readable.L, r.writable.L = &r.mu, &r.mu
	return r, &StreamWriter{r: r}
}

// Send adds a part. It waits while the buffer is full, until a part is read, or the stream is discarded or
// interrupted; then the part may be dropped.
func (w *StreamWriter) Send(p StreamPart) {
	r := w.r
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.n >= streamBuffer && !r.discard && !r.interrupted && !r.closed {
		r.writable.Wait()
	}
	if r.discard || r.closed || r.n >= streamBuffer {
		return
	}
	r.push(p)
}

// SendLast adds a part without waiting, beyond the bound if need be. It is for the few parts that end a stream.
func (w *StreamWriter) SendLast(p StreamPart) {
	r := w.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.discard && !r.closed {
		r.push(p)
	}
}

func (r *StreamTextResult) push(p StreamPart) {
	if r.n == len(r.buf) {
		grown := make([]StreamPart, max(16, 2*len(r.buf)))
		for i := range r.n {
			grown[i] = r.buf[(r.head+i)%len(r.buf)]
		}
		r.buf, r.head = grown, 0
	}
	r.buf[(r.head+r.n)%len(r.buf)] = p
	r.n++
	r.readable.Signal()
}

// Interrupt lets no Send wait any more.
func (w *StreamWriter) Interrupt() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.interrupted = true
	w.r.writable.Broadcast()
}

// Close ends the stream with its result. Parts that were not read can still be read.
func (w *StreamWriter) Close(result *GenerateTextResult, err error) {
	r := w.r
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed, r.result, r.err = true, result, err
	r.readable.Broadcast()
	r.writable.Broadcast()
	r.mu.Unlock()
	close(r.done)
}
