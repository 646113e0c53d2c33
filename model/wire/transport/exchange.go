package transport

import (
	"context"
	"errors"
	"io"
	"time"
)

var (
	errIdle      = errors.New("idle timeout")
	errExchanged = errors.New("exchange is over")
	// ErrTooLarge ends an answer that is larger than its bound.
	ErrTooLarge = errors.New("answer is larger than the bound")
)

// exchange is one HTTP call. Its timer runs only while the call waits for the server, never while the reader of the
// stream works; firing, it cancels the call and so ends the Read that waits.
type exchange struct {
	caller  context.Context
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	waiting time.Duration
	idle    time.Duration
	body    io.ReadCloser
	left    int64
}

func newExchange(caller context.Context, cfg Config) *exchange {
	x := &exchange{caller: caller, idle: cfg.IdleTimeout, left: cfg.MaxAnswer}
	x.ctx, x.cancel = context.WithCancelCause(caller)
	x.timer = time.AfterFunc(time.Hour, func() { x.cancel(errIdle) })
	x.timer.Stop()
	return x
}

func (x *exchange) arm(d time.Duration) {
	x.waiting = d
	x.timer.Reset(d)
}

func (x *exchange) disarm() { x.timer.Stop() }

// Read reads the body under the idle timeout and the bound of the whole answer.
func (x *exchange) Read(p []byte) (int, error) {
	if x.left <= 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > x.left {
		p = p[:x.left]
	}
	x.arm(x.idle)
	n, err := x.body.Read(p)
	x.disarm()
	x.left -= int64(n)
	return n, err
}

// drain reads the little that may follow the end of the answer, so that the connection can be used again. A server
// that holds the stream open costs one short wait and its connection.
func (x *exchange) drain() {
	x.idle = drainTimeout
	x.left = min(x.left, drainBytes)
	_, _ = io.Copy(io.Discard, x)
}

func (x *exchange) close() {
	x.timer.Stop()
	x.cancel(errExchanged)
	if x.body != nil {
		_ = x.body.Close() // the answer was read or is given up; nothing depends on this
	}
}
