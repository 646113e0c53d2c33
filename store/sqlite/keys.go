package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// usedEvery is how precisely a key's last use is kept. A key in constant use costs one write in this time.
const usedEvery = time.Minute

const selectKey = `SELECT id, prefix, hash, tenant_id, name, scopes, created_at, expires_at, revoked_at, last_used FROM api_keys`

func scanKey(sc scanner) (store.Key, error) {
	var k store.Key
	var hash []byte
	var scopes string
	var created int64
	var expires, revoked, used sql.NullInt64
	if err := sc.Scan(&k.ID, &k.Prefix, &hash, &k.TenantID, &k.Name, &scopes, &created, &expires, &revoked, &used); err != nil {
		return k, err
	}
	if len(hash) != len(k.Hash) {
		return k, fmt.Errorf("key %s: hash has %d bytes", k.ID, len(hash))
	}
	copy(k.Hash[:], hash)
	k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.LastUsed = fromNanos(created), fromNullable(expires), fromNullable(revoked), fromNullable(used)
	if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil {
		return k, fmt.Errorf("key %s: scopes: %w", k.ID, err)
	}
	return k, nil
}

// PutKey stores a key, or changes the one with the same id.
func (s *Store) PutKey(ctx context.Context, k store.Key) error {
	if k.ID == "" || k.Hash == [32]byte{} {
		return errors.New("sqlite: put key: ID and Hash are required")
	}
	scopes, err := json.Marshal(k.Scopes)
	if err != nil {
		return fmt.Errorf("key %s: %w", k.ID, err)
	}
	_, err = do(ctx, s.w, "key", len(scopes), func(t *txn) (struct{}, error) {
		created := k.CreatedAt
		if created.IsZero() {
			created = t.now
		}
		return struct{}{}, t.exec(`INSERT INTO api_keys (id, prefix, hash, tenant_id, name, scopes, created_at, expires_at, revoked_at,
			last_used) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET prefix = excluded.prefix, hash = excluded.hash,
			tenant_id = excluded.tenant_id, name = excluded.name, scopes = excluded.scopes, created_at = excluded.created_at,
			expires_at = excluded.expires_at, revoked_at = excluded.revoked_at, last_used = excluded.last_used`,
			k.ID, k.Prefix, k.Hash[:], k.TenantID, k.Name, string(scopes), nanos(created), nanosOrNull(k.ExpiresAt),
			nanosOrNull(k.RevokedAt), nanosOrNull(k.LastUsed))
	})
	return err
}

// KeyByHash returns the key with the hash, also when it is revoked or expired: the caller checks that. It notes the
// use of a valid key, to the minute, without waiting for the write.
func (s *Store) KeyByHash(ctx context.Context, hash [32]byte) (store.Key, error) {
	var k store.Key
	var found bool
	err := s.readers.rows(ctx, selectKey+` WHERE hash = ?`, []any{hash[:]}, func(sc scanner) (err error) {
		k, err = scanKey(sc)
		found = true
		return err
	})
	if err != nil {
		return store.Key{}, err
	}
	if !found {
		return store.Key{}, fmt.Errorf("key: %w", store.ErrNotFound)
	}
	now := s.clock()
	valid := k.RevokedAt == nil && (k.ExpiresAt == nil || k.ExpiresAt.After(now))
	if valid && (k.LastUsed == nil || now.Sub(*k.LastUsed) >= usedEvery) {
		s.noteUse(k.ID, now)
	}
	return k, nil
}

// noteUse queues the time of a key's use. Of several at once all but the first change nothing.
func (s *Store) noteUse(id string, now time.Time) {
	o := &op{kind: "key", lazy: true, size: opOverhead, done: make(chan struct{}), apply: func(t *txn) error {
		var used int64
		err := t.row(`SELECT coalesce(last_used, 0) FROM api_keys WHERE id = ?`, []any{id}, &used)
		if err != nil || now.Sub(fromNanos(used)) < usedEvery {
			return err
		}
		return t.exec(`UPDATE api_keys SET last_used = ? WHERE id = ?`, nanos(now), id)
	}}
	// A full queue or a closed store loses the note, not the request.
	s.w.queue.offer(o)
}

// ListKeys lists the keys of a tenant, oldest first.
func (s *Store) ListKeys(ctx context.Context, tenantID string) ([]store.Key, error) {
	var list []store.Key
	err := s.readers.rows(ctx, selectKey+` WHERE tenant_id = ? ORDER BY created_at, id`, []any{tenantID}, func(sc scanner) error {
		k, err := scanKey(sc)
		list = append(list, k)
		return err
	})
	return list, err
}

// RevokeKey ends a key of the tenant. Revoking it again changes nothing.
func (s *Store) RevokeKey(ctx context.Context, tenantID, id string) error {
	_, err := do(ctx, s.w, "key", 0, func(t *txn) (struct{}, error) {
		var revoked bool
		err := t.row(`SELECT revoked_at IS NOT NULL FROM api_keys WHERE id = ? AND tenant_id = ?`, []any{id, tenantID}, &revoked)
		if err != nil || revoked {
			return struct{}{}, notFound(err, "key", id)
		}
		return struct{}{}, t.exec(`UPDATE api_keys SET revoked_at = ? WHERE id = ?`, nanos(t.now), id)
	})
	return err
}

// RotateKey stores the successor of a key and lets that one end. See store.Store.
func (s *Store) RotateKey(ctx context.Context, tenantID, id string, next store.Key, until time.Time) error {
	if next.ID == "" || next.ID == id || next.Hash == [32]byte{} || next.TenantID != tenantID {
		return errors.New("sqlite: rotate key: the successor needs an ID and a Hash of its own, and the same tenant")
	}
	scopes, err := json.Marshal(next.Scopes)
	if err != nil {
		return fmt.Errorf("key %s: %w", next.ID, err)
	}
	_, err = do(ctx, s.w, "key", len(scopes), func(t *txn) (struct{}, error) {
		var expires, revoked sql.NullInt64
		err := t.row(`SELECT expires_at, revoked_at FROM api_keys WHERE id = ? AND tenant_id = ?`, []any{id, tenantID}, &expires, &revoked)
		switch {
		case err != nil:
			return struct{}{}, notFound(err, "key", id)
		case revoked.Valid:
			return struct{}{}, &event.ConflictError{What: "key " + id, Status: "revoked"}
		case expires.Valid && expires.Int64 <= nanos(t.now):
			return struct{}{}, &event.ConflictError{What: "key " + id, Status: "expired"}
		}
		created := next.CreatedAt
		if created.IsZero() {
			created = t.now
		}
		if err := t.exec(`INSERT INTO api_keys (id, prefix, hash, tenant_id, name, scopes, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			next.ID, next.Prefix, next.Hash[:], tenantID, next.Name, string(scopes), nanos(created), nanosOrNull(next.ExpiresAt)); err != nil {
			return struct{}{}, err
		}
		end := nanos(until)
		if expires.Valid {
			end = min(end, expires.Int64)
		}
		return struct{}{}, t.exec(`UPDATE api_keys SET expires_at = ? WHERE id = ?`, end, id)
	})
	return err
}
