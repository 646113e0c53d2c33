package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxPipe bounds what a pipe can still hold when its tree is gone.
const maxPipe = 1 << 20

// output is our end of a child's stream. It ends with the pipe or, when somebody outside of the tree keeps that open,
// once the tree is gone and what the pipe held was read.
type output struct {
	f      *os.File
	ended  atomic.Bool
	rest   int // what may still be read after the end
	closed atomic.Bool
}

func newOutput(f *os.File) *output { return &output{f: f, rest: maxPipe} }

// end lets readers finish. It is called when the tree is gone.
func (o *output) end() {
	o.ended.Store(true)
	_ = o.f.SetReadDeadline(time.Now().Add(drainTime))
}

func (o *output) Read(b []byte) (int, error) {
	n, err := o.f.Read(b)
	if n > 0 || !o.ended.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	return o.readRest(b)
}

// readRest takes what is in the pipe and does not wait for more.
func (o *output) readRest(b []byte) (n int, err error) {
	if o.rest <= 0 || len(b) == 0 {
		return 0, io.EOF
	}
	b = b[:min(len(b), o.rest)]
	conn, err := o.f.SyscallConn()
	if err != nil {
		return 0, err
	}
	// Control, unlike Read, does not mind that the deadline has passed. The pipe is in non-blocking mode.
	cerr := conn.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), b); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	switch {
	case cerr != nil:
		return 0, cerr
	case errors.Is(err, syscall.EAGAIN) || (err == nil && n == 0):
		return 0, io.EOF
	case err != nil:
		return 0, &os.PathError{Op: "read", Path: o.f.Name(), Err: err}
	}
	o.rest -= n
	return n, nil
}

// Close may be called more than once. A process that writes on gets SIGPIPE.
func (o *output) Close() error {
	if o.closed.Swap(true) {
		return nil
	}
	return o.f.Close()
}

// capture keeps the beginning and the end of a stream.
type capture struct {
	limit int
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring goes on
	total int64
}

// drain reads to the end and closes.
func (c *capture) drain(r io.ReadCloser) {
	defer r.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		c.add(buf[:n])
		if err != nil {
			return
		}
	}
}

func (c *capture) add(b []byte) {
	c.total += int64(len(b))
	half := max(c.limit/2, 1)
	n := min(len(b), half-len(c.head))
	c.head = append(c.head, b[:n]...)
	b = b[n:]
	if len(b) > half {
		b = b[len(b)-half:]
	}
	n = min(len(b), half-len(c.tail))
	c.tail = append(c.tail, b[:n]...)
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = copy(c.tail[c.next:], b)
		c.next = (c.next + n) % half
	}
}

func (c *capture) String() string {
	kept := int64(len(c.head) + len(c.tail))
	out := make([]byte, 0, int(kept)+80)
	out = append(out, c.head...)
	if left := c.total - kept; left > 0 {
		out = fmt.Appendf(out, "\n[... %d bytes of output left out ...]\n", left)
	}
	out = append(out, c.tail[c.next:]...)
	out = append(out, c.tail[:c.next]...)
	return string(out)
}
