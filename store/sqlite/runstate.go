package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// runState is what the writer remembers of a run: what a fenced append needs without reading the file.
type runState struct {
	id           string
	key          int64
	tenant       string
	conversation string
	conv         int64
	status       store.Status
	epoch        int64
	attempts     int
	steps        int
	head         int64
	cancel       bool
	asks         bool // it may have approvals or questions; false only for a run whose whole life was seen

	touched bool          // seen by the current transaction
	fresh   []event.Event // appended in the current transaction
}

const loadRun = `SELECT id, tenant_id, conversation_id, conv, status, epoch, attempts, steps, cancel,
	coalesce((SELECT max(seq) FROM events WHERE run = live.id), 0) FROM live WHERE run_id = ?`

// run returns the state of a run. An unknown run is store.ErrNotFound.
func (t *txn) run(id string) (*runState, error) {
	r, ok := t.w.active[id]
	if !ok {
		r = &runState{id: id, asks: true}
		err := t.row(loadRun, []any{id}, &r.key, &r.tenant, &r.conversation, &r.conv, &r.status, &r.epoch, &r.attempts,
			&r.steps, &r.cancel, &r.head)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("run %s: %w", id, store.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
	}
	t.touch(r)
	return r, nil
}

// touch makes the state part of the transaction: kept after the commit while the run is running, forgotten after a
// rollback.
func (t *txn) touch(r *runState) {
	if !r.touched {
		r.touched = true
		t.w.active[r.id] = r
		t.touched = append(t.touched, r)
	}
}

// owned is run for a write of its owner. It refuses every epoch but that of the run's present owner.
func (t *txn) owned(id string, epoch int64) (*runState, error) {
	r, err := t.run(id)
	if err != nil {
		return nil, err
	}
	if r.status != store.StatusRunning || r.epoch != epoch {
		return nil, fmt.Errorf("run %s, epoch %d: %w", id, epoch, store.ErrFenced)
	}
	return r, nil
}

// visible is run for a request of a tenant: another tenant's run does not exist for it.
func (t *txn) visible(tenant, id string) (*runState, error) {
	r, err := t.run(id)
	if err == nil && r.tenant != tenant {
		return nil, fmt.Errorf("run %s: %w", id, store.ErrNotFound)
	}
	return r, err
}

// lease gives the run a new owner.
func (t *txn) lease(r *runState) (store.Wake, error) {
	r.epoch++
	r.status = store.StatusRunning
	err := t.exec(`UPDATE runs SET status = 'running', epoch = ?, attempts = ?, updated_at = ? WHERE id = ?`,
		r.epoch, r.attempts, nanos(t.now), r.key)
	return store.Wake{RunID: r.id, Epoch: r.epoch}, err
}

// wakeParked leases the run if it is parked, since something has arrived for it.
func (t *txn) wakeParked(r *runState) (store.Wake, error) {
	if !r.status.Waiting() {
		return store.Wake{}, nil
	}
	return t.lease(r)
}

// append gives the events the run's next seqs.
func (t *txn) append(r *runState, events ...store.NewEvent) error {
	at := nanos(t.now)
	for _, e := range events {
		payload := e.Payload
		if len(payload) == 0 {
			payload = emptyPayload
		}
		r.head++
		if err := t.exec(`INSERT INTO events (run, seq, type, time, payload) VALUES (?, ?, ?, ?, ?)`,
			r.key, r.head, string(e.Type), at, []byte(payload)); err != nil {
			return err
		}
		r.fresh = append(r.fresh, event.Event{RunID: r.id, Seq: r.head, Type: e.Type, Timestamp: fromNanos(at), Payload: payload})
	}
	return nil
}

// appendFact is append for an event that the store itself makes.
func (t *txn) appendFact(r *runState, step int, p event.Payload) error {
	payload, err := event.Encode(r.conversation, event.Fact{Step: step, Payload: p})
	if err != nil {
		return err
	}
	return t.append(r, store.NewEvent{Type: p.EventType(), Payload: payload})
}

var emptyPayload = []byte("{}")

// nanos is how a time is kept: as nanoseconds, so that a deadline in the store equals the one in its event. 0 is the
// zero time.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// nanosOrNull and fromNullable are the same for times that may be missing.
func nanosOrNull(t *time.Time) any {
	if t == nil || t.IsZero() {
		return nil
	}
	return t.UnixNano()
}

func fromNullable(n sql.NullInt64) *time.Time {
	if !n.Valid {
		return nil
	}
	t := fromNanos(n.Int64)
	return &t
}
