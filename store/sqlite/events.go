package sqlite

import (
	"context"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// maxEvents is the most that one call of Events returns.
const maxEvents = 10_000

// Events returns events of a run with seq > after, in order. See store.Store. A limit below 1 means 1,000; it is never
// above 10,000. An unknown run has no events. The payloads are shared between callers: do not change them.
func (s *Store) Events(ctx context.Context, runID string, after int64, limit int) ([]event.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	limit = min(limit, maxEvents)
	after = max(after, 0)
	if events, ok := s.feeds.read(runID, after, limit); ok {
		return events, ctx.Err()
	}
	return s.storedEvents(ctx, runID, after, limit)
}

// storedEvents reads events from the file.
func (s *Store) storedEvents(ctx context.Context, runID string, after int64, limit int) ([]event.Event, error) {
	var list []event.Event
	size := 0
	err := s.readers.rows(ctx, `SELECT seq, type, time, payload FROM events
		WHERE run = (SELECT id FROM live WHERE run_id = ?) AND seq > ? ORDER BY seq LIMIT ?`, []any{runID, after, limit},
		func(sc scanner) error {
			e := event.Event{RunID: runID}
			var at int64
			var payload []byte
			err := sc.Scan(&e.Seq, &e.Type, &at, &payload)
			e.Timestamp, e.Payload = fromNanos(at), payload
			list = append(list, e)
			if size += len(payload); err == nil && size >= store.PageBytes {
				err = errEnough
			}
			return err
		})
	return list, err
}

// Watch tells of commits to a run's log. See store.Store. It may be called before the run exists.
func (s *Store) Watch(runID string) (<-chan struct{}, func()) { return s.feeds.watch(runID) }
