package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

type streamInput struct {
	RunPath
	LastEventID string `header:"Last-Event-ID" doc:"cursor: the id of the last event that was read; delivery starts after it"`
	After       string `query:"after" doc:"the same cursor, for clients that cannot set headers: a seq, or run:seq"`
}

const streamDoc = "Server-sent events: every event of the run from the cursor on, in order, then new ones as they are committed. " +
	"The id of an event is its seq, the event its type, the data its JSON. The stream ends after the run's last event; " +
	"asked again from there it answers 204, upon which browsers stop reconnecting. An idle stream carries comments. " +
	"A reader that takes nothing for a minute is disconnected and may come back with its cursor: nothing is skipped."

func (s *Server) streamRoute() {
	handle(s, operation{
		method: http.MethodGet, path: "/v1/runs/{id}/events", id: "stream-events", scopes: readRuns,
		summary: "Follow the events of a run",
		doc:     streamDoc,
		responses: map[string]*huma.Response{
			"200": {
				Description: "The events",
				Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
			},
			"204": {Description: "The run has ended and the cursor is at its end"},
		},
	}, func(ctx context.Context, p engine.Principal, in *streamInput, _ *none) (*huma.StreamResponse, error) {
		c := callOf(ctx)
		after, refused := cursorOf(in)
		if refused != nil {
			return nil, refused
		}
		return &huma.StreamResponse{Body: func(huma.Context) {
			if err := s.follow(c, in.ID, after); err != nil {
				writeProblem(c.w, s.problemOf(c.r.Context(), err))
			}
		}}, nil
	})
}

// cursorOf reads the cursor from where it stands. Two that differ are refused.
func cursorOf(in *streamInput) (int64, *api.Problem) {
	header, err := event.ParseCursor(in.ID, in.LastEventID)
	if err != nil {
		return 0, api.NewProblem(api.CodeInvalidCursor, "Last-Event-ID: %s", err).At("Last-Event-ID")
	}
	query, err := event.ParseCursor(in.ID, in.After)
	if err != nil {
		return 0, api.NewProblem(api.CodeInvalidCursor, "after: %s", err).At("after")
	}
	switch {
	case in.LastEventID == "":
		return query, nil
	case in.After == "" || header == query:
		return header, nil
	}
	return 0, api.NewProblem(api.CodeInvalidCursor, "Last-Event-ID and after name different places; give one of them").At("after")
}

// follow serves one stream. An error means that nothing has been sent yet.
func (s *Server) follow(c *call, runID string, after int64) error {
	if s.streams.Add(1) > int64(s.limits.Streams) {
		s.streams.Add(-1)
		return api.NewProblem(api.CodeTooManyStreams, "the server follows %d event streams already", s.limits.Streams)
	}
	defer s.streams.Add(-1)
	ctx := c.r.Context()

	// The watch comes before the first read: what is committed in between wakes us.
	wake, stop, err := s.runs.Watch(ctx, c.principal, runID)
	if err != nil {
		return err
	}
	defer stop()
	ended, err := s.atEnd(ctx, c.principal, runID, after)
	if err != nil {
		return err
	}
	if ended {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	page, err := s.runs.Events(ctx, c.principal, runID, after, s.limits.Page)
	if err != nil {
		return err
	}

	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // proxies must pass events on as they come
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method == http.MethodHead {
		return nil
	}
	out := newFrames(c.w, s.limits.Stall)
	out.comment("retry: 3000\n\n")
	if err := s.pump(ctx, c, runID, after, page, wake, out); err != nil && ctx.Err() == nil {
		s.log.Debug("event stream ended early", "run", runID, "error", err)
	}
	return nil
}

// atEnd reports whether the event at the cursor is a terminal one, which nothing follows. A cursor behind the end of
// the log is refused: waiting there would skip what comes before it.
func (s *Server) atEnd(ctx context.Context, p engine.Principal, runID string, after int64) (bool, error) {
	if after == 0 {
		return false, nil
	}
	at, err := s.runs.Events(ctx, p, runID, after-1, 1)
	if err != nil {
		return false, err
	}
	if len(at) == 0 || at[0].Seq != after {
		return false, api.NewProblem(api.CodeInvalidCursor, "the cursor %d is behind the end of the run's log", after)
	}
	return at[0].Type.Terminal(), nil
}

// errStreamGap would mean that the log broke its promise. The stream ends; it must not show a hole.
var errStreamGap = errors.New("event log: seq is not the next one")

// pump sends pages until a terminal event was sent. Whether the run has ended is read from the log alone: a status
// could say so before the last events were read.
func (s *Server) pump(ctx context.Context, c *call, runID string, after int64, page []event.Event, wake <-chan struct{}, out *frames) error {
	beat := time.NewTimer(s.limits.Heartbeat)
	defer beat.Stop()
	checked := keyCheck{time.Now(), c.ended}
	for {
		for {
			for i := range page {
				if page[i].Seq != after+1 {
					return errStreamGap
				}
				if err := out.event(&page[i]); err != nil {
					return err
				}
				after = page[i].Seq
				if page[i].Type.Terminal() {
					return out.flush()
				}
			}
			if err := out.flush(); err != nil {
				return err
			}
			if len(page) < s.limits.Page && sizeOf(page) < store.PageBytes {
				break
			}
			var err error
			if page, err = s.more(ctx, c, runID, after, &checked, out); err != nil {
				return err
			}
		}
		beat.Reset(s.limits.Heartbeat)
		for idle := true; idle; {
			select {
			case <-wake:
				idle = false
			case <-beat.C:
				out.comment(": still here\n\n")
				if err := out.flush(); err != nil {
					return err
				}
				beat.Reset(s.limits.Heartbeat)
				if err := s.recheck(ctx, c, &checked, out); err != nil {
					return err
				}
			case <-checked.ended:
				if err := s.recheck(ctx, c, &checked, out); err != nil {
					return err
				}
			case <-s.closing:
				out.comment(": server is shutting down\n\n")
				return out.flush()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var err error
		if page, err = s.more(ctx, c, runID, after, &checked, out); err != nil {
			return err
		}
	}
}

// sizeOf is what a page's payloads have together: one that is short may have been cut because it is large.
func sizeOf(page []event.Event) int {
	n := 0
	for i := range page {
		n += len(page[i].Payload)
	}
	return n
}

// more reads the next page, unless the stream has to end.
func (s *Server) more(ctx context.Context, c *call, runID string, after int64, checked *keyCheck, out *frames) ([]event.Event, error) {
	select {
	case <-s.closing:
		out.comment(": server is shutting down\n\n")
		return nil, errors.Join(out.flush(), http.ErrServerClosed)
	default:
	}
	if err := s.recheck(ctx, c, checked, out); err != nil {
		return nil, err
	}
	page, err := s.runs.Events(ctx, c.principal, runID, after, s.limits.Page)
	if err != nil && ctx.Err() == nil {
		_ = s.problemOf(ctx, err) // logs what is not a refusal
		out.comment(": the stream cannot go on; come back with your cursor\n\n")
		_ = out.flush()
	}
	return page, err
}

// keyCheck is the last look at a stream's key. ended is closed when keys were ended after it.
type keyCheck struct {
	at    time.Time
	ended <-chan struct{}
}

func (k keyCheck) stale(after time.Duration) bool {
	select {
	case <-k.ended:
		return true
	default:
		return time.Since(k.at) >= after
	}
}

// recheck ends the stream of a key that was revoked or has expired meanwhile: at once where it was revoked here, with
// the next beat else.
func (s *Server) recheck(ctx context.Context, c *call, checked *keyCheck, out *frames) error {
	if !checked.stale(s.limits.Heartbeat) {
		return nil
	}
	*checked = keyCheck{time.Now(), nil}
	if !c.keyed {
		return nil
	}
	checked.ended = s.auth.watch()
	_, err := s.auth.check(ctx, c.key)
	if _, refused := errors.AsType[*api.Problem](err); refused {
		out.comment(": the API key is no longer valid\n\n")
		return errors.Join(out.flush(), err)
	}
	return nil // a store that cannot answer now refuses the next read
}
