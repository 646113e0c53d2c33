package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/harness-go/harness/store"
)

// Bounds of the writer's work. Beyond queueBytes a caller waits until the writer has taken some.
const (
	queueBytes = 32 << 20
	queueOps   = 16384
	groupBytes = 4 << 20
	groupOps   = 512
	opOverhead = 512 // what an operation counts beside its payloads
	// lingerTime is how long a batch that nobody waits for may lie in the queue, so that what follows it shares its
	// commit. Readers see it that much later.
	lingerTime = 3 * time.Millisecond
)

// op is one write on its way through the writer.
type op struct {
	kind  string
	lazy  bool // nobody waits for it yet
	size  int
	ctx   context.Context // nil: cannot be cancelled
	apply func(*txn) error
	done  chan struct{}
	err   error // valid once done is closed
}

// queue is the bounded line of writes before the writer, first in, first out.
type queue struct {
	mu     sync.Mutex
	ops    []*op
	bytes  int
	closed bool
	urgent bool          // somebody waits for what is queued
	wake   chan struct{} // has a value while there may be work
	haste  chan struct{} // has a value when the queue became urgent
	room   chan struct{} // made by a waiting caller, closed when the writer took something
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), haste: make(chan struct{}, 1)}
}

// push appends o, waiting while the queue is full.
func (q *queue) push(o *op) error {
	var cancelled <-chan struct{}
	if o.ctx != nil {
		cancelled = o.ctx.Done()
	}
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return store.ErrClosed
		}
		if q.fits(o) {
			q.add(o)
			q.mu.Unlock()
			return nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-cancelled:
			return o.ctx.Err()
		}
	}
}

// offer appends o unless the queue is full or closed.
func (q *queue) offer(o *op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed && q.fits(o) {
		q.add(o)
	}
}

// fits and add belong together under the lock. An operation of any size fits into an empty queue.
func (q *queue) fits(o *op) bool {
	return len(q.ops) == 0 || (len(q.ops) < queueOps && q.bytes+o.size <= queueBytes)
}

func (q *queue) add(o *op) {
	q.ops = append(q.ops, o)
	q.bytes += o.size
	if !o.lazy || len(q.ops) >= groupOps {
		q.hurryLocked()
	}
	q.signal()
}

// hurry tells the writer that somebody waits.
func (q *queue) hurry() {
	q.mu.Lock()
	q.hurryLocked()
	q.mu.Unlock()
}

func (q *queue) hurryLocked() {
	q.urgent = true
	select {
	case q.haste <- struct{}{}:
	default:
	}
}

// linger returns when somebody waits for what is queued, and after lingerTime at the latest.
func (q *queue) linger(t *time.Timer) {
	q.mu.Lock()
	now := q.urgent || q.closed || len(q.ops) == 0
	if !now {
		select {
		case <-q.haste: // of a group that is written
		default:
		}
	}
	q.mu.Unlock()
	if now {
		return
	}
	t.Reset(lingerTime)
	select {
	case <-q.haste:
		t.Stop()
	case <-t.C:
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take moves the next group into buf. more is false once the queue is closed and empty.
func (q *queue) take(buf []*op) (group []*op, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.ops) && n < groupOps && (n == 0 || bytes+q.ops[n].size <= groupBytes) {
		bytes += q.ops[n].size
		n++
	}
	group = append(buf[:0], q.ops[:n]...)
	rest := copy(q.ops, q.ops[n:])
	clear(q.ops[rest:])
	q.ops = q.ops[:rest]
	if rest == 0 && cap(q.ops) > 1024 {
		q.ops = nil // a burst must not keep its memory
	}
	q.bytes -= bytes
	q.release()
	if rest == 0 {
		q.urgent = false
	}
	if rest > 0 || q.closed {
		q.signal() // one signal can stand for several: a close among them must be seen after this group
	}
	return group, n > 0 || !q.closed
}

// release lets the waiting callers look again. The lock must be held.
func (q *queue) release() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// close refuses further writes. What is queued is still written.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.hurryLocked()
	q.release()
	q.mu.Unlock()
	q.signal()
}
