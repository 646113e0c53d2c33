package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// keyLife is how long an idempotency key is remembered.
const keyLife = 24 * time.Hour

// CreateRun stores a run with its first event. See store.Store.
func (s *Store) CreateRun(ctx context.Context, n store.NewRun) (store.Created, error) {
	if n.ID == "" || n.ConversationID == "" {
		return store.Created{}, errors.New("sqlite: create run: ID and ConversationID are required")
	}
	queued, err := event.Encode(n.ConversationID, event.Fact{Payload: event.RunQueuedPayload{Prompt: n.Prompt}})
	if err != nil {
		return store.Created{}, err
	}
	size := 2*len(n.Prompt) + len(n.Request)
	return do(ctx, s.w, "create", size, func(t *txn) (store.Created, error) {
		if n.IdempotencyKey != "" {
			first, found, err := t.firstRun(n)
			if err != nil || found {
				return store.Created{Run: first, Existed: found}, err
			}
		}
		return t.create(n, queued)
	})
}

// firstRun finds the run that used the idempotency key before.
func (t *txn) firstRun(n store.NewRun) (store.Run, bool, error) {
	var digest string
	var run, at int64
	err := t.row(`SELECT body_digest, run, created_at FROM idempotency WHERE tenant_id = ? AND key = ?`,
		[]any{n.TenantID, n.IdempotencyKey}, &digest, &run, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.Run{}, false, nil
	case err != nil:
		return store.Run{}, false, err
	case !fromNanos(at).After(t.now.Add(-keyLife)):
		return store.Run{}, false, nil
	case digest != n.BodyDigest:
		return store.Run{}, false, fmt.Errorf("idempotency key %q: %w", n.IdempotencyKey, store.ErrIdempotencyMismatch)
	}
	r, err := t.readRun(run)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Run{}, false, nil // it was deleted with its conversation
	}
	return r, err == nil, err
}

// create inserts the run. The caller has checked everything.
func (t *txn) create(n store.NewRun, queued []byte) (store.Created, error) {
	key, err := t.nextKey()
	if err != nil {
		return store.Created{}, err
	}
	conv, free := int64(0), true
	found := `SELECT conv FROM live WHERE tenant_id = ?1 AND conversation_id = ?2 LIMIT 1`
	if t.w.forks {
		found = `SELECT coalesce(` + convOf + `, 0)`
	}
	if err := t.row(found, []any{n.TenantID, n.ConversationID}, &conv); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return store.Created{}, err
	}
	switch {
	case conv == 0:
		conv = key
	case n.Lease:
		if err := t.row(`SELECT NOT EXISTS (SELECT 1 FROM runs WHERE conv = ? AND finished_at IS NULL)`,
			[]any{conv}, &free); err != nil {
			return store.Created{}, err
		}
	}

	r := &runState{id: n.ID, key: key, tenant: n.TenantID, conversation: n.ConversationID, conv: conv, status: store.StatusQueued}
	if n.Lease && free {
		r.status, r.epoch = store.StatusRunning, 1
	}
	now := nanos(t.now)
	if err := t.exec(`INSERT INTO runs (id, run_id, tenant_id, conversation_id, conv, previous_run_id, agent_id, status, epoch,
		created_by, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		key, n.ID, n.TenantID, n.ConversationID, conv, n.PreviousRunID, n.AgentID, string(r.status), r.epoch, n.CreatedBy, now, now); err != nil {
		return store.Created{}, fmt.Errorf("run %s: %w", n.ID, err)
	}
	t.w.last = key
	t.touch(r)
	if err := t.exec(`INSERT INTO run_inputs (run, prompt, request) VALUES (?, ?, ?)`, key, n.Prompt, blob(n.Request)); err != nil {
		return store.Created{}, err
	}
	if n.IdempotencyKey != "" {
		if err := t.rememberKey(n, key); err != nil {
			return store.Created{}, err
		}
	}
	if err := t.append(r, store.NewEvent{Type: event.RunQueued, Payload: queued}); err != nil {
		return store.Created{}, err
	}
	return store.Created{
		Leased: r.status == store.StatusRunning,
		Run: store.Run{
			ID: n.ID, TenantID: n.TenantID, ConversationID: n.ConversationID, PreviousRunID: n.PreviousRunID,
			Status: r.status, Prompt: n.Prompt, Request: n.Request, Epoch: r.epoch, Head: r.head, CreatedBy: n.CreatedBy,
			CreatedAt: fromNanos(now), UpdatedAt: fromNanos(now),
		},
	}, nil
}

// nextKey is the key of the next run or fork. It is in use once the caller has stored it in writer.last; keys of deleted
// rows are not given away again.
func (t *txn) nextKey() (int64, error) {
	if t.w.last == 0 {
		if err := t.row(`SELECT max((SELECT coalesce(max(id), 0) FROM runs), (SELECT coalesce(max(conv), 0) FROM forks),
			(SELECT value FROM marks WHERE name = 'runs'))`, nil, &t.w.last); err != nil {
			return 0, err
		}
	}
	return t.w.last + 1, nil
}

// rememberKey stores the idempotency key, and forgets a few old ones so that the table stays bounded by a day's keys.
func (t *txn) rememberKey(n store.NewRun, run int64) error {
	old := nanos(t.now.Add(-keyLife))
	if err := t.exec(`DELETE FROM idempotency WHERE (tenant_id, key) IN
		(SELECT tenant_id, key FROM idempotency WHERE created_at <= ? ORDER BY created_at LIMIT 4)`, old); err != nil {
		return err
	}
	return t.exec(`INSERT OR REPLACE INTO idempotency (tenant_id, key, body_digest, run, created_at) VALUES (?, ?, ?, ?, ?)`,
		n.TenantID, n.IdempotencyKey, n.BodyDigest, run, nanos(t.now))
}

// blob makes an absent value NULL.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
