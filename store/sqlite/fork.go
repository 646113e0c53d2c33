package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// forkPlan is what a fork copies: the items of from up to the number upTo, to the conversation to.
type forkPlan struct {
	from, to int64
	upTo     int64
}

// Fork copies a conversation. See store.Conversations. Until it is whole the copy lies under a tombstone, so that a
// crash leaves a deletion and nothing that could be taken for a conversation.
func (s *Store) Fork(ctx context.Context, f store.Fork) (store.Conversation, error) {
	if f.ID == "" || f.ConversationID == "" {
		return store.Conversation{}, errors.New("sqlite: fork: ID and ConversationID are required")
	}
	// The mark that keeps Purge away must be there before the tombstone is.
	var key int64
	defer func() { s.forking.Delete(key) }()
	p, err := do(ctx, s.w, "fork", 0, func(t *txn) (forkPlan, error) {
		p, err := t.beginFork(f)
		s.forking.Delete(key) // of a try that was rolled back
		key = p.to
		s.forking.Store(key, struct{}{})
		return p, err
	})
	if err != nil {
		return store.Conversation{}, err
	}
	for at := int64(0); at < p.upTo; {
		if at, err = do(ctx, s.w, "fork", stepBytes, func(t *txn) (int64, error) { return t.copyItems(p, at) }); err != nil {
			return store.Conversation{}, err
		}
	}
	if f.Prepare != nil {
		if err := f.Prepare(ctx); err != nil {
			return store.Conversation{}, err
		}
	}
	if _, err := do(ctx, s.w, "fork", 0, func(t *txn) (struct{}, error) {
		if err := t.alive(p.from); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, t.exec(`DELETE FROM tombstones WHERE conv = ?`, p.to)
	}); err != nil {
		return store.Conversation{}, err
	}
	return s.GetConversation(ctx, f.TenantID, f.ID)
}

// beginFork finds what is to be copied and reserves the new conversation.
func (t *txn) beginFork(f store.Fork) (p forkPlan, err error) {
	if p.from, err = t.conversation(f.TenantID, f.ConversationID); err != nil {
		return p, err
	}
	switch _, err := t.conversation(f.TenantID, f.ID); {
	case err == nil:
		return p, fmt.Errorf("conversation %s: %w", f.ID, errInUse)
	case !errors.Is(err, store.ErrNotFound):
		return p, err
	}
	run, err := t.forkPoint(p.from, &f)
	if err != nil {
		return p, err
	}
	if run > 0 {
		err = t.row(`SELECT coalesce(max(idx), 0) FROM transcript WHERE conv = ? AND run <= ?`, []any{p.from, run}, &p.upTo)
	} else {
		err = t.row(`SELECT coalesce(max(idx), 0) FROM transcript WHERE conv = ?1 AND run = 0 AND (?2 = '' OR idx <= (
			SELECT max(idx) FROM transcript WHERE conv = ?1 AND run = 0 AND origin = ?2))`, []any{p.from, f.RunID}, &p.upTo)
	}
	if err != nil {
		return p, err
	}
	if p.to, err = t.nextKey(); err != nil {
		return p, err
	}
	var title string
	if err := t.row(`SELECT coalesce((SELECT title FROM forks WHERE conv = ?1), (SELECT prompt FROM run_inputs WHERE run = ?1), '')`,
		[]any{p.from}, &title); err != nil {
		return p, err
	}
	now := nanos(t.now)
	if err := t.exec(`INSERT INTO forks (conv, tenant_id, conversation_id, title, from_conversation, from_run, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, p.to, f.TenantID, f.ID, titleOf(title), f.ConversationID, f.RunID, now); err != nil {
		return p, err
	}
	t.w.last, t.w.forks = p.to, true
	if err := t.exec(`INSERT INTO tombstones (conv, tenant_id, conversation_id, files, forking, at) VALUES (?, ?, ?, 1, 1, ?)`,
		p.to, f.TenantID, f.ID, now); err != nil {
		return p, err
	}
	return p, t.exec(`INSERT INTO memory (tenant_id, scope, scope_id, key, value, at)
		SELECT tenant_id, scope, ?, key, value, at FROM memory WHERE tenant_id = ? AND scope = ? AND scope_id = ?`,
		f.ID, f.TenantID, string(tool.MemoryConversation), f.ConversationID)
}

var errInUse = errors.New("this id is in use")

// forkPoint finds the run after which the copy ends, and puts its id into f: 0 for a run that the origin was itself
// copied from, or for an origin without a run.
func (t *txn) forkPoint(from int64, f *store.Fork) (int64, error) {
	var run int64
	var status string
	if f.RunID != "" {
		if err := t.row(`SELECT coalesce(max(id), 0), coalesce(max(status), '') FROM live WHERE run_id = ? AND conv = ?`, []any{f.RunID, from}, &run, &status); err != nil {
			return 0, err
		}
		if run == 0 {
			var copied bool
			err := t.row(`SELECT EXISTS (SELECT 1 FROM transcript WHERE conv = ? AND run = 0 AND origin = ?)`, []any{from, f.RunID}, &copied)
			if err == nil && !copied {
				err = fmt.Errorf("run %s of conversation %s: %w", f.RunID, f.ConversationID, store.ErrNotFound)
			}
			return 0, err
		}
	} else {
		// The last one that has ended, else the first one that is open, which refuses.
		if err := t.row(`SELECT coalesce(max(id), 0), coalesce(max(run_id), ''), coalesce(max(status), '') FROM (
			SELECT id, run_id, status FROM live WHERE tenant_id = ? AND conversation_id = ? AND conv = ?
			ORDER BY finished_at IS NULL, CASE WHEN finished_at IS NULL THEN id ELSE -id END LIMIT 1)`,
			[]any{f.TenantID, f.ConversationID, from}, &run, &f.RunID, &status); err != nil || run == 0 {
			return 0, err
		}
	}
	if !store.Status(status).Terminal() {
		return 0, &event.ConflictError{What: "run " + f.RunID, Status: status}
	}
	return run, nil
}

// copyItems copies the next items, byte for byte, and returns the number of the last one.
func (t *txn) copyItems(p forkPlan, after int64) (int64, error) {
	if err := t.alive(p.from); err != nil {
		return 0, err
	}
	key, err := t.nextItem()
	if err != nil {
		return 0, err
	}
	last, bytes := after, 0
	if err := t.rows(`SELECT idx, length(data) FROM transcript WHERE conv = ? AND idx > ? AND idx <= ? ORDER BY idx LIMIT ?`,
		[]any{p.from, after, p.upTo, stepRows}, func(sc scanner) error {
			var size int
			if err := sc.Scan(&last, &size); err != nil {
				return err
			}
			if bytes += size; bytes >= stepBytes {
				return errEnough
			}
			return nil
		}); err != nil {
		return 0, err
	}
	if last == after {
		return 0, fmt.Errorf("sqlite: fork: item %d is missing", after+1)
	}
	if err := t.exec(`INSERT INTO transcript (id, conv, idx, run, kind, data, at, origin)
		SELECT ?1 + t.idx - ?2 - 1, ?3, t.idx, 0, t.kind, t.data, t.at,
			CASE WHEN t.run = 0 THEN t.origin ELSE (SELECT run_id FROM runs WHERE id = t.run) END
		FROM transcript t WHERE t.conv = ?4 AND t.idx > ?2 AND t.idx <= ?5`, key, after, p.to, p.from, last); err != nil {
		return 0, err
	}
	t.w.item = key + last - after - 1
	return last, nil
}

// alive refuses to go on with a conversation that was deleted.
func (t *txn) alive(conv int64) error {
	var gone bool
	err := t.row(`SELECT EXISTS (SELECT 1 FROM tombstones WHERE conv = ?1) OR NOT (
		EXISTS (SELECT 1 FROM runs WHERE id = ?1) OR EXISTS (SELECT 1 FROM forks WHERE conv = ?1))`, []any{conv}, &gone)
	if err == nil && gone {
		err = fmt.Errorf("conversation: %w", store.ErrNotFound)
	}
	return err
}
