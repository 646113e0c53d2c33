package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// checkScope refuses a scope that a reader would never find again.
func checkScope(scope tool.MemoryScope, scopeID string) error {
	switch scope {
	case tool.MemoryRun, tool.MemoryConversation, tool.MemoryAgent:
	default:
		return fmt.Errorf("sqlite: memory: unknown scope %q", clip(string(scope)))
	}
	if scopeID == "" {
		return fmt.Errorf("sqlite: memory: scope %s has no id", scope)
	}
	return nil
}

// MemoryGet reads a note. See store.Store.
func (s *Store) MemoryGet(ctx context.Context, tenantID string, scope tool.MemoryScope, scopeID, key string) (string, bool, error) {
	if err := checkScope(scope, scopeID); err != nil {
		return "", false, err
	}
	var value string
	err := s.readers.row(ctx, `SELECT value FROM memory WHERE tenant_id = ? AND scope = ? AND scope_id = ? AND key = ?`,
		[]any{tenantID, string(scope), scopeID, key}, &value)
	if errors.Is(err, store.ErrNotFound) {
		return "", false, nil
	}
	return value, err == nil, err
}

// MemorySet writes a note. See store.Store.
func (s *Store) MemorySet(ctx context.Context, tenantID string, scope tool.MemoryScope, scopeID, key, value string) error {
	if err := checkScope(scope, scopeID); err != nil {
		return err
	}
	switch {
	case key == "":
		return errors.New("sqlite: memory: the key is empty")
	case len(key) > tool.MaxMemoryKeyBytes:
		return fmt.Errorf("key of %d bytes, at most %d: %w", len(key), tool.MaxMemoryKeyBytes, store.ErrMemoryBound)
	case len(value) > tool.MaxMemoryValueBytes:
		return fmt.Errorf("value of %q has %d bytes, at most %d: %w", clip(key), len(value), tool.MaxMemoryValueBytes, store.ErrMemoryBound)
	}
	_, err := do(ctx, s.w, "memory", len(key)+len(value), func(t *txn) (struct{}, error) {
		var full bool
		if err := t.row(`SELECT count(*) >= ?4 AND NOT max(key = ?5) FROM memory WHERE tenant_id = ?1 AND scope = ?2 AND scope_id = ?3`,
			[]any{tenantID, string(scope), scopeID, tool.MaxMemoryKeys, key}, &full); err != nil {
			return struct{}{}, err
		}
		if full {
			return struct{}{}, fmt.Errorf("scope %s has %d keys, which is the most: delete one first: %w", scope, tool.MaxMemoryKeys, store.ErrMemoryBound)
		}
		return struct{}{}, t.exec(`INSERT OR REPLACE INTO memory (tenant_id, scope, scope_id, key, value, at) VALUES (?, ?, ?, ?, ?, ?)`,
			tenantID, string(scope), scopeID, key, value, nanos(t.now))
	})
	return err
}

// MemoryDelete removes a note. See store.Store.
func (s *Store) MemoryDelete(ctx context.Context, tenantID string, scope tool.MemoryScope, scopeID, key string) (bool, error) {
	if err := checkScope(scope, scopeID); err != nil {
		return false, err
	}
	return do(ctx, s.w, "memory", len(key), func(t *txn) (existed bool, err error) {
		args := []any{tenantID, string(scope), scopeID, key}
		const note = ` FROM memory WHERE tenant_id = ? AND scope = ? AND scope_id = ? AND key = ?`
		if err := t.row(`SELECT EXISTS (SELECT 1`+note+`)`, args, &existed); err != nil || !existed {
			return false, err
		}
		return true, t.exec(`DELETE`+note, args...)
	})
}

// MemoryList lists the keys. See store.Store.
func (s *Store) MemoryList(ctx context.Context, tenantID string, scope tool.MemoryScope, scopeID string) ([]string, error) {
	if err := checkScope(scope, scopeID); err != nil {
		return nil, err
	}
	var keys []string
	err := s.readers.rows(ctx, `SELECT key FROM memory WHERE tenant_id = ? AND scope = ? AND scope_id = ? ORDER BY key`,
		[]any{tenantID, string(scope), scopeID}, func(sc scanner) error {
			var key string
			err := sc.Scan(&key)
			keys = append(keys, key)
			return err
		})
	return keys, err
}
