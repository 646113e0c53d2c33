package apiclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/model/wire/sse"
)

const (
	maxEvent = 64 << 20
	// silence is how long a stream may be without a byte: the server sends a comment every 15 s.
	silence = 60 * time.Second
	minWait = 100 * time.Millisecond
	maxWait = 5 * time.Second
)

// Events follows a run: its events with a seq above after, in order and without gaps, up to and including its last
// one. A broken stream is taken up again from where it was. The sequence ends after the run's last event, or with one
// error: a *Problem that a retry does not mend, the end of ctx, or a server that stayed away longer than
// Options.Patience.
func (c *Client) Events(ctx context.Context, runID string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		f := follower{c: c, runID: runID, after: after}
		wait, lastSign := minWait, time.Now()
		for {
			before := f.after
			err := f.once(ctx, func(e event.Event) bool { return yield(e, nil) })
			switch {
			case err == nil || f.stopped:
				return
			case ctx.Err() != nil:
				yield(event.Event{}, context.Cause(ctx))
				return
			case !retryable(err):
				yield(event.Event{}, err)
				return
			}
			if f.after > before || f.alive {
				wait, lastSign = minWait, time.Now()
			}
			if time.Since(lastSign) > c.patience {
				yield(event.Event{}, fmt.Errorf("api client: events of %s: no answer for %s: %w", runID, c.patience, err))
				return
			}
			select {
			case <-ctx.Done():
				yield(event.Event{}, context.Cause(ctx))
				return
			case <-time.After(wait/2 + rand.N(wait/2+1)):
			}
			wait = min(2*wait, maxWait)
		}
	}
}

// retryable reports whether asking again can help: the network failed, or the server is restarting or busy.
func retryable(err error) bool {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status >= 500 && p.Status != http.StatusNotImplemented
	}
	return !errors.Is(err, errGap) && !errors.Is(err, sse.ErrTooLarge)
}

var errGap = errors.New("the server's event stream has a gap")

// errCut means that a stream ended before the run's last event.
var errCut = errors.New("the event stream ended early")

// follower is where a sequence stands.
type follower struct {
	c       *Client
	runID   string
	after   int64
	alive   bool // the last connection was accepted
	stopped bool // the caller wants no more
}

// once reads one connection. Nil means that the run's last event was delivered.
func (f *follower) once(ctx context.Context, deliver func(event.Event) bool) error {
	f.alive = false
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := f.c.request(ctx, http.MethodGet, runRoute(f.runID, "events"), nil, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	if f.after > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(f.after, 10))
	}
	// The watchdog covers the time to the answer too: a connection into nowhere must not hold us.
	dog := time.AfterFunc(silence, cancel)
	defer dog.Stop()
	res, err := f.c.http.Do(req)
	if err != nil {
		return fmt.Errorf("api client: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	switch mt, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); {
	case res.StatusCode == http.StatusNoContent:
		return nil
	case res.StatusCode != http.StatusOK:
		return problemOf(res)
	case mt != "text/event-stream":
		p := problemOf(res)
		p.Status = http.StatusNotImplemented
		return p
	}
	f.alive = true
	frames := sse.NewReader(watched{res.Body, dog}, maxEvent)
	for {
		fr, err := frames.Next()
		switch {
		case errors.Is(err, io.EOF) || (err == nil && fr.Cut):
			return errCut
		case err != nil:
			return fmt.Errorf("api client: events of %s: %w", f.runID, err)
		}
		var e event.Event
		if err := json.Unmarshal(fr.Data, &e); err != nil {
			return fmt.Errorf("api client: events of %s: %w", f.runID, err)
		}
		switch {
		case e.RunID != f.runID || e.Seq > f.after+1:
			return fmt.Errorf("api client: events of %s: %w: %s after seq %d", f.runID, errGap, e.ID(), f.after)
		case e.Seq <= f.after:
			continue // sent twice
		}
		f.after = e.Seq
		if !deliver(e) {
			f.stopped = true
			return nil
		}
		if e.Type.Terminal() {
			return nil
		}
	}
}

// watched puts the watchdog off with every byte that comes.
type watched struct {
	r   io.Reader
	dog *time.Timer
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.dog.Reset(silence)
	}
	return n, err
}
