package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/harness-go/harness/store"
)

// searchFile is the index's file in the state directory. It holds nothing that cannot be made again.
const searchFile = "search.db"

const (
	// searchVersion is the user_version of the index. A file of another version is made anew.
	searchVersion = 1
	searchSchema  = `
		CREATE VIRTUAL TABLE texts USING fts5(owner, body, tool, role UNINDEXED, tokenize = 'unicode61 remove_diacritics 2');
		INSERT INTO texts (texts, rank) VALUES ('rank', 'bm25(0.0, 1.0, 0.5)');
		INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
		CREATE TABLE docs (id INTEGER PRIMARY KEY, conv INTEGER NOT NULL) STRICT;
		CREATE INDEX docs_conv ON docs (conv);
		CREATE TABLE state (identity INTEGER NOT NULL, cursor INTEGER NOT NULL) STRICT;
		PRAGMA user_version = 1;`
	// Bounds of a text in the index, in bytes. What is longer is found by its beginning.
	maxBody = 64 << 10
	maxTool = 4 << 10
	// Control characters that mark what was found in a snippet. No text in the index has them.
	markBegin, markEnd = "\x02", "\x03"
)

// searchIndex is a full-text index in a file of its own, so that its writes neither share commits with those of runs
// nor hold them up. It is opened by the first use. A text's row id is the key of its transcript item. The mutex is held
// over each write: a text is taken in only after a look for the tombstone of its conversation, and Purge removes texts
// after the tombstone is there, so no text of a deleted conversation stays.
type searchIndex struct {
	file string
	main *reader // of the store

	mu     sync.Mutex
	db     *sql.DB
	closed bool
}

// open opens the index, or makes it. The mutex must be held.
func (x *searchIndex) open(ctx context.Context) (*sql.DB, error) {
	if x.closed {
		return nil, store.ErrClosed
	}
	if x.db != nil {
		return x.db, nil
	}
	var identity, items int64
	if err := x.main.row(ctx, `SELECT (SELECT value FROM marks WHERE name = 'identity'),
		max((SELECT value FROM marks WHERE name = 'transcript'), (SELECT coalesce(max(id), 0) FROM transcript))`, nil, &identity, &items); err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		db, err := x.try(ctx, identity, items)
		if err == nil {
			x.db = db
			return db, nil
		}
		if again || !errors.Is(err, errStale) {
			return nil, fmt.Errorf("sqlite: search index: %w", err)
		}
		if err := x.remove(); err != nil {
			return nil, err
		}
	}
}

// remove gives the file up. No connection to it may be open.
func (x *searchIndex) remove() error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(x.file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("sqlite: search index: %w", err)
		}
	}
	return nil
}

// errStale means that the file is not the index of this store and must be made anew.
var errStale = errors.New("not the index of this store")

// try opens the file. It must belong to the store with the identity, and not know more than its items.
func (x *searchIndex) try(ctx context.Context, identity, items int64) (_ *sql.DB, err error) {
	if err := makePrivate(x.file); err != nil {
		return nil, err
	}
	// What a power failure takes from the index is indexed again.
	db, err := sql.Open("sqlite", dsn(x.file, url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)", "cache_size(-2048)", "journal_size_limit(4194304)", "temp_store(MEMORY)",
	}}))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(3)
	defer func() {
		if err != nil {
			_ = db.Close()
			if broken(err) {
				err = errStale
			}
		}
	}()
	var version int
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return nil, err
	}
	if version == 0 {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, searchSchema); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO state (identity, cursor) VALUES (?, 0)`, identity); err != nil {
			return nil, err
		}
		return db, tx.Commit()
	}
	if version != searchVersion {
		return nil, errStale
	}
	var have, cursor int64
	if err := db.QueryRowContext(ctx, `SELECT identity, cursor FROM state`).Scan(&have, &cursor); err != nil {
		return nil, err
	}
	if have != identity || cursor > items {
		return nil, errStale
	}
	return db, nil
}

// broken reports whether the file is damaged.
func broken(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return true
	}
	return false
}

func (x *searchIndex) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.db == nil {
		return nil
	}
	return x.db.Close()
}

// reading opens the index for a query.
func (x *searchIndex) reading(ctx context.Context) (*sql.DB, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.open(ctx)
}

// giveUp drops a damaged file, so that the next use makes it anew. The mutex must be held.
func (x *searchIndex) giveUp(db *sql.DB) error {
	if x.db != db {
		return nil // somebody else has
	}
	x.db = nil
	return errors.Join(errors.New("the index is damaged and is made anew"), db.Close(), x.remove())
}

// failed is what a failed read leads to.
func (x *searchIndex) failed(db *sql.DB, err error) error {
	if broken(err) {
		x.mu.Lock()
		err = errors.Join(err, x.giveUp(db))
		x.mu.Unlock()
	}
	return fmt.Errorf("sqlite: search index: %w", err)
}

// write runs f in a transaction of the index. A damaged file is given up, and made anew by the next use.
func (x *searchIndex) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	db, err := x.open(ctx)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		if err = f(tx); err == nil {
			err = tx.Commit()
		} else {
			_ = tx.Rollback()
		}
	}
	if broken(err) {
		err = errors.Join(err, x.giveUp(db))
	}
	if err != nil {
		return fmt.Errorf("sqlite: search index: %w", err)
	}
	return nil
}

// Indexed is the cursor of the index. See store.Search.
func (s *Store) Indexed(ctx context.Context) (cursor int64, err error) {
	db, err := s.index.reading(ctx)
	if err != nil {
		return 0, err
	}
	if err := db.QueryRowContext(ctx, `SELECT cursor FROM state`).Scan(&cursor); err != nil {
		return 0, s.index.failed(db, err)
	}
	return cursor, nil
}

// Index takes texts in. See store.Search.
func (s *Store) Index(ctx context.Context, texts []store.SearchText, upTo int64) error {
	return s.index.write(ctx, func(tx *sql.Tx) error {
		for _, text := range texts {
			conv, tenant, err := s.ownerOf(ctx, text.Cursor)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			for _, q := range []struct {
				stmt string
				args []any
			}{
				{`DELETE FROM texts WHERE rowid = ?`, []any{text.Cursor}},
				{`INSERT INTO texts (rowid, owner, body, tool, role) VALUES (?, ?, ?, ?, ?)`, []any{
					text.Cursor, ownerToken(tenant), plain(text.Body, maxBody), plain(text.Tool, maxTool), text.Role,
				}},
				{`INSERT OR REPLACE INTO docs (id, conv) VALUES (?, ?)`, []any{text.Cursor, conv}},
			} {
				if _, err := tx.ExecContext(ctx, q.stmt, q.args...); err != nil {
					return err
				}
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE state SET cursor = max(cursor, ?)`, upTo)
		return err
	})
}

// ownerOf finds whose an item is. Items of a conversation that is deleted are not found; those of a fork in the making
// are, since the cursor passes them only once.
func (s *Store) ownerOf(ctx context.Context, item int64) (conv int64, tenant string, err error) {
	err = s.readers.row(ctx, `SELECT t.conv, coalesce((SELECT tenant_id FROM forks WHERE conv = t.conv), (SELECT tenant_id FROM runs WHERE id = t.conv))
		FROM transcript t WHERE t.id = ? AND NOT EXISTS (SELECT 1 FROM tombstones d WHERE d.conv = t.conv AND d.forking = 0)`,
		[]any{item}, &conv, &tenant)
	return conv, tenant, err
}

// ownerToken is the tenant as one word of the index.
func ownerToken(tenant string) string {
	sum := sha256.Sum256([]byte(tenant))
	return "t" + hex.EncodeToString(sum[:12])
}

// plain is a text as the index takes it: valid, cut, without the marks of snippets.
func plain(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}

// purge removes some texts of a conversation. An index that was never made has none.
func (x *searchIndex) purge(ctx context.Context, conv int64) (more bool, err error) {
	if _, err := os.Stat(x.file); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	err = x.write(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id FROM docs WHERE conv = ? LIMIT ?`, conv, stepRows)
		if err != nil {
			return err
		}
		var ids []int64
		if err := each(rows, func(sc scanner) error {
			var id int64
			err := sc.Scan(&id)
			ids = append(ids, id)
			return err
		}); err != nil {
			return err
		}
		for _, id := range ids {
			for _, stmt := range []string{`DELETE FROM texts WHERE rowid = ?`, `DELETE FROM docs WHERE id = ?`} {
				if _, err := tx.ExecContext(ctx, stmt, id); err != nil {
					return err
				}
			}
		}
		more = len(ids) == stepRows
		return nil
	})
	return more, err
}

// place is where a page of hits ends: hits are ordered by rank and key.
type place struct {
	rank float64
	key  int64
}

// Search finds texts. See store.Search.
func (s *Store) Search(ctx context.Context, q store.SearchQuery) ([]store.SearchHit, string, error) {
	limit := q.Limit
	switch {
	case limit == 0:
		limit = 20
	case limit < 0 || limit > 100:
		return nil, "", fmt.Errorf("search: limit %d is not between 1 and 100", limit)
	}
	at := place{rank: math.Inf(-1)}
	if q.Cursor != "" {
		var err error
		if at, err = parsePlace(q.Cursor); err != nil {
			return nil, "", err
		}
	}
	match := matchExpr(q.Text, q.Tools)
	if match == "" {
		return nil, "", nil
	}
	match = `owner : "` + ownerToken(q.TenantID) + `" AND ` + match
	db, err := s.index.reading(ctx)
	if err != nil {
		return nil, "", err
	}
	var hits []store.SearchHit
	var places []place
	for {
		n := 0
		rows, err := db.QueryContext(ctx, `SELECT rowid, rank, role,
			CASE WHEN body <> '' THEN snippet(texts, 1, ?1, ?2, '…', 24) ELSE snippet(texts, 2, ?1, ?2, '…', 24) END
			FROM texts WHERE texts MATCH ?3 AND (rank > ?4 OR (rank = ?4 AND rowid > ?5)) ORDER BY rank, rowid LIMIT ?6`,
			markBegin, markEnd, match, at.rank, at.key, limit+1)
		if err == nil {
			err = each(rows, func(sc scanner) error {
				var h store.SearchHit
				var snippet string
				if err := sc.Scan(&at.key, &at.rank, &h.Role, &snippet); err != nil {
					return err
				}
				n++
				switch err := s.locate(ctx, at.key, q.TenantID, &h); {
				case errors.Is(err, store.ErrNotFound):
					return nil
				case err != nil:
					return err
				}
				h.Snippet = snippetParts(snippet)
				hits, places = append(hits, h), append(places, at)
				if len(hits) > limit {
					return errEnough
				}
				return nil
			})
		}
		if err != nil {
			return nil, "", s.index.failed(db, err)
		}
		if len(hits) > limit {
			return hits[:limit], places[limit-1].String(), nil
		}
		if n <= limit {
			return hits, "", nil
		}
	}
}

// locate reads where a hit stands, from the store itself: what another tenant owns or is deleted is not found there.
func (s *Store) locate(ctx context.Context, item int64, tenant string, h *store.SearchHit) error {
	var at int64
	var title string
	err := s.readers.row(ctx, `SELECT coalesce(f.conversation_id, r.conversation_id), coalesce(f.title, substr(i.prompt, 1, ?3)), t.idx,
			coalesce((SELECT run_id FROM runs WHERE id = t.run), t.origin), t.at
		FROM transcript t LEFT JOIN live_forks f ON f.conv = t.conv LEFT JOIN live r ON r.id = t.conv LEFT JOIN run_inputs i ON i.run = r.id
		WHERE t.id = ?1 AND coalesce(f.tenant_id, r.tenant_id) = ?2`, []any{item, tenant, 2 * store.MaxTitle},
		&h.ConversationID, &title, &h.Idx, &h.RunID, &at)
	h.Title, h.At = titleOf(title), fromNanos(at)
	return err
}

// snippetParts takes the marks out of a snippet.
func snippetParts(s string) []store.SnippetPart {
	var parts []store.SnippetPart
	for s != "" {
		before, rest, found := strings.Cut(s, markBegin)
		if before != "" {
			parts = append(parts, store.SnippetPart{Text: before})
		}
		if !found {
			break
		}
		match, after, _ := strings.Cut(rest, markEnd)
		parts, s = append(parts, store.SnippetPart{Text: match, Match: true}), after
	}
	return parts
}

func (p place) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "search:%x:%d", math.Float64bits(p.rank), p.key))
}

func parsePlace(cursor string) (place, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.Split(string(raw), ":")
	if err == nil && len(parts) == 3 {
		bits, err1 := strconv.ParseUint(parts[1], 16, 64)
		key, err2 := strconv.ParseInt(parts[2], 10, 64)
		p := place{math.Float64frombits(bits), key}
		if err1 == nil && err2 == nil && key > 0 && !math.IsNaN(p.rank) && p.String() == cursor {
			return p, nil
		}
	}
	return place{}, fmt.Errorf("search: cursor %q: %w", clip(cursor), store.ErrBadCursor)
}
