package sqlite

import (
	"context"
	"encoding/json"

	"github.com/harness-go/harness/store"
)

// Bounds of pages of transcripts.
const (
	maxItems  = 10_000
	feedItems = 256
)

// convOf is the key of the conversation that readers see under tenant ?1 and id ?2; null where there is none.
const convOf = `coalesce((SELECT conv FROM live WHERE tenant_id = ?1 AND conversation_id = ?2 LIMIT 1),
	(SELECT conv FROM live_forks WHERE tenant_id = ?1 AND conversation_id = ?2))`

// selectItem reads transcript items.
const selectItem = `SELECT t.id, t.idx, coalesce(r.run_id, t.origin), t.kind, t.data, t.at FROM transcript t LEFT JOIN runs r ON r.id = t.run`

// items reads a page of transcript items with the keys of their rows.
func (s *Store) items(ctx context.Context, query string, args []any, add func(key int64, it store.TranscriptItem)) error {
	size := 0
	return s.readers.rows(ctx, query, args, func(sc scanner) error {
		var it store.TranscriptItem
		var key, at int64
		var data []byte
		if err := sc.Scan(&key, &it.Idx, &it.RunID, &it.Kind, &data, &at); err != nil {
			return err
		}
		it.Data, it.At = data, fromNanos(at)
		add(key, it)
		if size += len(data); size >= store.PageBytes {
			return errEnough
		}
		return nil
	})
}

// Transcript returns the items of a conversation with idx > after. See store.Store. A limit below 1 means 1,000; it is
// never above 10,000.
func (s *Store) Transcript(ctx context.Context, tenantID, conversationID string, after int64, limit int) ([]store.TranscriptItem, error) {
	if limit <= 0 {
		limit = 1000
	}
	var list []store.TranscriptItem
	err := s.items(ctx, selectItem+` WHERE t.conv = `+convOf+` AND t.idx > ?3 ORDER BY t.idx LIMIT ?4`,
		[]any{tenantID, conversationID, after, min(limit, maxItems)}, func(_ int64, it store.TranscriptItem) { list = append(list, it) })
	return list, err
}

// TranscriptFeed returns items of all conversations after a cursor, which is the key of an item's row. See
// store.Search.
func (s *Store) TranscriptFeed(ctx context.Context, after int64, limit int) ([]store.FeedItem, error) {
	if limit <= 0 {
		limit = feedItems
	}
	var list []store.FeedItem
	err := s.items(ctx, selectItem+` WHERE t.id > ? ORDER BY t.id LIMIT ?`, []any{after, min(limit, maxItems)},
		func(key int64, it store.TranscriptItem) {
			list = append(list, store.FeedItem{Cursor: key, TranscriptItem: it})
		})
	return list, err
}

// nextItem is the key of the next transcript item. Keys of deleted items are not given away again: the search index
// follows them.
func (t *txn) nextItem() (int64, error) {
	if t.w.item == 0 {
		if err := t.row(`SELECT max((SELECT coalesce(max(id), 0) FROM transcript), (SELECT value FROM marks WHERE name = 'transcript'))`,
			nil, &t.w.item); err != nil {
			return 0, err
		}
	}
	return t.w.item + 1, nil
}

// appendTranscript gives the items the conversation's next numbers.
func (t *txn) appendTranscript(r *runState, items []store.TranscriptItem) error {
	var idx int64
	if err := t.row(`SELECT coalesce(max(idx), 0) FROM transcript WHERE conv = ?`, []any{r.conv}, &idx); err != nil {
		return err
	}
	key, err := t.nextItem()
	if err != nil {
		return err
	}
	for _, it := range items {
		idx++
		data := it.Data
		if data == nil {
			data = json.RawMessage("null")
		}
		if err := t.exec(`INSERT INTO transcript (id, conv, idx, run, kind, data, at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			key, r.conv, idx, r.key, it.Kind, []byte(data), nanos(t.now)); err != nil {
			return err
		}
		t.w.item = key
		key++
	}
	return nil
}
