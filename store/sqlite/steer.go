package sqlite

import (
	"context"
	"fmt"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// Steer stores a message for an active run. See store.Store. A run that has ended is an *event.ConflictError.
func (s *Store) Steer(ctx context.Context, tenantID, runID string, m store.SteerInput) (store.Wake, error) {
	switch m.Kind {
	case store.SteerPrompt, store.SteerTodos, store.SteerCompact:
	default:
		return store.Wake{}, fmt.Errorf("run %s: steering message of unknown kind %q", runID, clip(string(m.Kind)))
	}
	return do(ctx, s.w, "steer", len(m.Text), func(t *txn) (store.Wake, error) {
		r, err := t.visible(tenantID, runID)
		if err != nil {
			return store.Wake{}, err
		}
		if r.status.Terminal() {
			return store.Wake{}, &event.ConflictError{What: "run " + runID, Status: string(r.status)}
		}
		var full bool
		if err := t.row(`SELECT count(*) >= ? FROM steering WHERE run = ? AND delivered = 0`, []any{store.MaxSteering, r.key}, &full); err != nil {
			return store.Wake{}, err
		}
		if full {
			return store.Wake{}, fmt.Errorf("run %s: %w", runID, store.ErrSteeringFull)
		}
		if err := t.exec(`INSERT INTO steering (run, kind, text, by, at, delivered) VALUES (?, ?, ?, ?, ?, 0)`,
			r.key, string(m.Kind), m.Text, m.By, nanos(t.now)); err != nil {
			return store.Wake{}, err
		}
		return t.wakeParked(r)
	})
}

// Steering lists undelivered messages in order.
func (s *Store) Steering(ctx context.Context, runID string) ([]store.SteerMessage, error) {
	var list []store.SteerMessage
	err := s.readers.rows(ctx, `SELECT id, kind, text, by FROM steering
		WHERE run = (SELECT id FROM live WHERE run_id = ?) AND delivered = 0 ORDER BY id LIMIT ?`, []any{runID, store.MaxSteering}, func(sc scanner) error {
		var m store.SteerMessage
		err := sc.Scan(&m.ID, &m.Kind, &m.Text, &m.By)
		list = append(list, m)
		return err
	})
	return list, err
}

// cancelled is the outcome of RequestCancel.
type cancelled struct {
	run  store.Run
	wake store.Wake
}

// RequestCancel asks the run's owner to end it. See store.Store.
func (s *Store) RequestCancel(ctx context.Context, tenantID, runID, by string) (store.Run, store.Wake, error) {
	out, err := do(ctx, s.w, "cancel", 0, func(t *txn) (out cancelled, err error) {
		r, err := t.visible(tenantID, runID)
		if err != nil {
			return out, err
		}
		if !r.status.Terminal() {
			if !r.cancel {
				r.cancel = true
				if err := t.exec(`UPDATE runs SET cancel = 1, cancelled_by = ?, updated_at = ? WHERE id = ?`,
					by, nanos(t.now), r.key); err != nil {
					return out, err
				}
			}
			if r.status != store.StatusRunning {
				if out.wake, err = t.lease(r); err != nil {
					return out, err
				}
			}
		}
		out.run, err = t.readRun(r.key)
		return out, err
	})
	return out.run, out.wake, err
}

// readRun reads a whole run inside a transaction.
func (t *txn) readRun(key int64) (store.Run, error) {
	var x runRow
	if err := t.row(selectRun+` WHERE r.id = ?`, []any{key}, x.dest()...); err != nil {
		return store.Run{}, fmt.Errorf("run with key %d: %w", key, err)
	}
	return x.run()
}
