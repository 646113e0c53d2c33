package sqlite

import (
	"context"
	"fmt"

	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// Bounds of one commit of Purge and of Fork, so that the writes of runs do not wait behind it.
const (
	stepRows  = 256
	stepBytes = 1 << 20
	// openNamed is how many open runs the refusal of a deletion names.
	openNamed = 10
)

// DeleteConversation hides a conversation. See store.Conversations. What is bounded and found by the conversation's
// id goes at once, since the id is free afterwards; everything else is found by the conversation's key.
func (s *Store) DeleteConversation(ctx context.Context, tenantID, id string) (store.Deletion, error) {
	d, err := do(ctx, s.w, "delete", 0, func(t *txn) (store.Deletion, error) {
		conv, err := t.conversation(tenantID, id)
		if err != nil {
			return store.Deletion{}, err
		}
		var open []string
		if err := t.ids(&open, `SELECT run_id FROM runs WHERE conv = ? AND finished_at IS NULL ORDER BY id LIMIT ?`, conv, openNamed); err != nil {
			return store.Deletion{}, err
		}
		if len(open) > 0 {
			return store.Deletion{}, &store.OpenRunsError{ConversationID: id, Runs: open}
		}
		if err := t.exec(`INSERT INTO tombstones (conv, tenant_id, conversation_id, files, forking, at) VALUES (?, ?, ?, 1, 0, ?)`,
			conv, tenantID, id, nanos(t.now)); err != nil {
			return store.Deletion{}, err
		}
		if err := t.exec(`DELETE FROM memory WHERE tenant_id = ? AND scope = ? AND scope_id = ?`,
			tenantID, string(tool.MemoryConversation), id); err != nil {
			return store.Deletion{}, err
		}
		if err := t.mark(); err != nil {
			return store.Deletion{}, err
		}
		return store.Deletion{Key: conv, TenantID: tenantID, ConversationID: id, Files: true}, nil
	})
	if err == nil {
		s.feeds.clear() // events that were kept in memory
	}
	return d, err
}

// mark notes the highest keys in use, before rows go that have them: idempotency keys point at runs, and the cursor of
// the search index at transcript items.
func (t *txn) mark() error {
	for _, stmt := range []string{
		`UPDATE marks SET value = max(value, (SELECT coalesce(max(id), 0) FROM runs), (SELECT coalesce(max(conv), 0) FROM forks)) WHERE name = 'runs'`,
		`UPDATE marks SET value = max(value, (SELECT coalesce(max(id), 0) FROM transcript)) WHERE name = 'transcript'`,
	} {
		if err := t.exec(stmt); err != nil {
			return err
		}
	}
	return nil
}

// conversation finds the key of a conversation that readers see.
func (t *txn) conversation(tenantID, id string) (int64, error) {
	var conv int64
	if err := t.row(`SELECT coalesce(`+convOf+`, 0)`, []any{tenantID, id}, &conv); err != nil {
		return 0, err
	}
	if conv == 0 {
		return 0, fmt.Errorf("conversation %s: %w", id, store.ErrNotFound)
	}
	return conv, nil
}

// Deletions lists what is still to be purged. See store.Conversations.
func (s *Store) Deletions(ctx context.Context, limit int) ([]store.Deletion, error) {
	var list []store.Deletion
	err := s.readers.rows(ctx, `SELECT conv, tenant_id, conversation_id, files FROM tombstones ORDER BY conv`, nil, func(sc scanner) error {
		var d store.Deletion
		if err := sc.Scan(&d.Key, &d.TenantID, &d.ConversationID, &d.Files); err != nil {
			return err
		}
		if _, making := s.forking.Load(d.Key); making {
			return nil
		}
		if list = append(list, d); len(list) >= limit {
			return errEnough
		}
		return nil
	})
	return list, err
}

// FilesRemoved notes that nothing is left outside of the store. See store.Conversations.
func (s *Store) FilesRemoved(ctx context.Context, d store.Deletion) error {
	_, err := do(ctx, s.w, "delete", 0, func(t *txn) (struct{}, error) {
		return struct{}{}, t.exec(`UPDATE tombstones SET files = 0 WHERE conv = ?`, d.Key)
	})
	return err
}

// Purge removes some rows of a deleted conversation. See store.Conversations. The texts of the search index go first:
// the index asks for the tombstone before it takes a text in, so none comes after them.
func (s *Store) Purge(ctx context.Context, d store.Deletion) (bool, error) {
	if _, making := s.forking.Load(d.Key); making {
		return false, nil
	}
	left, err := do(ctx, s.w, "purge", 0, func(t *txn) (left bool, err error) {
		var files, forking bool
		err = t.row(`SELECT count(*), coalesce(max(files), 0), coalesce(max(forking), 0) FROM tombstones WHERE conv = ?`, []any{d.Key},
			&left, &files, &forking)
		switch {
		case err != nil || !left:
			return false, err
		case files:
			return false, fmt.Errorf("conversation %s: its files are not removed yet", d.ConversationID)
		case forking:
			if err = t.exec(`UPDATE tombstones SET forking = 0 WHERE conv = ?`, d.Key); err == nil {
				err = t.mark()
			}
		}
		return true, err
	})
	if err != nil || !left {
		return false, err
	}
	if more, err := s.index.purge(ctx, d.Key); err != nil || more {
		return more, err
	}
	return do(ctx, s.w, "purge", 0, func(t *txn) (bool, error) { return t.purge(d) })
}

// budget is what a step may still change.
type budget struct{ rows, bytes int }

func (b *budget) spent() bool { return b.rows <= 0 || b.bytes <= 0 }

// purge removes rows within a budget; the tombstone is the last of them.
func (t *txn) purge(d store.Deletion) (more bool, err error) {
	b := &budget{rows: stepRows, bytes: stepBytes}
	if err := t.remove(b, "transcript", `SELECT id, length(data) FROM transcript WHERE conv = ? ORDER BY idx LIMIT ?`, d.Key); err != nil || b.spent() {
		return true, err
	}
	for {
		var run int64
		var id string
		if err := t.row(`SELECT coalesce(max(id), 0), coalesce(max(run_id), '') FROM (SELECT id, run_id FROM runs
			WHERE tenant_id = ? AND conversation_id = ? AND conv = ? ORDER BY id LIMIT 1)`,
			[]any{d.TenantID, d.ConversationID, d.Key}, &run, &id); err != nil {
			return true, err
		}
		if run == 0 {
			break
		}
		if err := t.purgeRun(b, d.TenantID, id, run); err != nil || b.spent() {
			return true, err
		}
	}
	for _, stmt := range []string{`DELETE FROM forks WHERE conv = ?`, `DELETE FROM tombstones WHERE conv = ?`} {
		if err := t.exec(stmt, d.Key); err != nil {
			return true, err
		}
	}
	return false, nil
}

// purgeRun removes a run's rows, the run last.
func (t *txn) purgeRun(b *budget, tenantID, id string, run int64) error {
	for _, q := range []struct{ table, query string }{
		{"events", `SELECT id, length(payload) FROM events WHERE run = ? ORDER BY seq LIMIT ?`},
		{"approvals", `SELECT id, length(arguments) FROM approvals WHERE run = ? ORDER BY id LIMIT ?`},
		{"questions", `SELECT id, length(questions) FROM questions WHERE run = ? ORDER BY id LIMIT ?`},
		{"steering", `SELECT id, length(text) FROM steering WHERE run = ? ORDER BY id LIMIT ?`},
	} {
		if err := t.remove(b, q.table, q.query, run); err != nil || b.spent() {
			return err
		}
	}
	if err := t.exec(`DELETE FROM memory WHERE tenant_id = ? AND scope = ? AND scope_id = ?`, tenantID, string(tool.MemoryRun), id); err != nil {
		return err
	}
	for _, stmt := range []string{
		`DELETE FROM checkpoints WHERE run = ?`, `DELETE FROM run_inputs WHERE run = ?`, `DELETE FROM runs WHERE id = ?`,
	} {
		if err := t.exec(stmt, run); err != nil {
			return err
		}
	}
	b.rows--
	return nil
}

// remove deletes rows of a table within the budget. The query gives their ids and sizes.
func (t *txn) remove(b *budget, table, query string, key int64) error {
	var ids []int64
	err := t.rows(query, []any{key, b.rows}, func(sc scanner) error {
		var id int64
		var size int
		if err := sc.Scan(&id, &size); err != nil {
			return err
		}
		ids = append(ids, id)
		b.rows--
		if b.bytes -= size; b.spent() {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := t.exec(`DELETE FROM `+table+` WHERE id = ?`, id); err != nil {
			return err
		}
	}
	return nil
}
