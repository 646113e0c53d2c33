// Package sqlite keeps the store in one SQLite file, for one process.
//
// It owns the state directory (an exclusive lock on it), the file, one writer goroutine with the only writing
// connection, and a few reading connections. It owns no run logic: what a lease, a fence or an approval means is the
// contract of package store, and storetest holds it.
//
// Invariants:
//
//   - Every write is a function that the writer goroutine runs inside a transaction. The functions that are queued
//     when it is free share one transaction and one sync to disk (group commit). Callers, watchers and reading
//     connections learn of a write only after that.
//   - A function checks before it writes. One that refuses has written nothing; one that fails after its first write
//     makes the group roll back, and each function of it runs again alone. So functions must be repeatable.
//   - Only the writer changes the file, so what it remembers of active runs (epoch, status, head) is the truth. It
//     forgets a run that parks or ends: waiting runs cost no memory.
//   - There are no foreign keys: the writer makes every row id itself, and checking them again costs time per event.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"github.com/harness-go/harness/store"
)

// Store implements store.Store on one SQLite file.
type Store struct {
	clock   func() time.Time
	lock    *dirLock
	w       *writer
	readers *reader
	feeds   feeds
	index   *searchIndex
	forking sync.Map // keys of forks that are being made here

	closeOnce sync.Once
	closeErr  error
}

var _ store.Store = (*Store)(nil)

// Options configure Open. Only Dir is required.
type Options struct {
	// Dir is the state directory. It is made with mode 0700 where it is missing. The file in it is harness.db.
	Dir string
	// Clock is the store's time. Nil means time.Now.
	Clock func() time.Time
	// Readers is the number of reading connections. 0 means 4.
	Readers int
	// FaultPoint, when set, is called by the writer at "commit.before" and "commit.after" of each group commit with
	// the kinds of its operations. It exists for fault drills, which end the process in it.
	FaultPoint func(point string, kinds []string)
	// Committed, when set, is called by the writer after each group commit that succeeded. It must be quick.
	Committed func(Commit)
}

// fileName is the database's name in the state directory.
const fileName = "harness.db"

// Open opens the store in its state directory and brings its schema up to date. It returns an error that wraps
// store.ErrLocked and names the owner when another process has it open.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	if o.Dir == "" {
		return nil, errors.New("sqlite: Options.Dir is empty: name the state directory")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("sqlite: state directory %s: %w", o.Dir, err)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("sqlite: state directory: %w", err)
	}
	s := &Store{clock: o.Clock}
	if s.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.lock.release()
		}
	}()
	file := filepath.Join(dir, fileName)
	if err := makePrivate(file); err != nil {
		return nil, err
	}
	// fdatasync is as durable as fsync and spares the journal write for the file's times. Where the platform has no
	// such call, fsync stays.
	if _, err := driver.Fdatasync(true); err != nil && !errors.Is(err, driver.ErrFdatasyncUnavailable) {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	wdb, err := sql.Open("sqlite", writerDSN(file))
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", file, err)
	}
	wdb.SetMaxOpenConns(1)
	defer func() {
		if err != nil {
			wdb.Close()
		}
	}()
	if err := migrate(ctx, wdb, file); err != nil {
		return nil, err
	}
	if s.readers, err = openReader(file, o.Readers); err != nil {
		return nil, err
	}
	if s.w, err = newWriter(ctx, wdb, o.Clock, o.FaultPoint, &s.feeds); err != nil {
		s.readers.close()
		return nil, err
	}
	s.index = &searchIndex{file: filepath.Join(dir, searchFile), main: s.readers}
	s.w.committed = o.Committed
	go s.w.loop()
	return s, nil
}

// makePrivate makes the file with mode 0600, or narrows an existing one. The files that SQLite puts beside it get the
// same mode. It must run before SQLite opens the file: closing a descriptor of it later would drop SQLite's locks.
func makePrivate(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// writerDSN names the one writing connection. Pragmas stand in the DSN, so that no connection is without them.
func writerDSN(file string) string {
	return dsn(file, url.Values{"_pragma": {
		"busy_timeout(5000)",
		"journal_mode(WAL)",
		"synchronous(FULL)",
		"cache_size(-8192)",
		"wal_autocheckpoint(2000)",
		"journal_size_limit(16777216)",
		"temp_store(MEMORY)",
	}})
}

func readerDSN(file string) string {
	return dsn(file, url.Values{
		"mode":    {"ro"},
		"_pragma": {"busy_timeout(5000)", "query_only(1)", "cache_size(-2048)", "temp_store(MEMORY)"},
	})
}

func dsn(file string, q url.Values) string {
	return (&url.URL{Scheme: "file", Path: file, RawQuery: q.Encode()}).String()
}

// Close waits for the queued writes, closes the file and frees the state directory. Later calls of other methods
// return store.ErrClosed.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		// The writer first, so that nothing is published afterwards; the lock last.
		s.closeErr = errors.Join(s.w.close(), s.index.close(), s.readers.close(), s.lock.release())
		s.feeds.clear()
	})
	return s.closeErr
}

// Ping reports whether the store can read its file and its writer runs.
func (s *Store) Ping(ctx context.Context) error {
	if _, err := do(ctx, s.w, "ping", 0, func(*txn) (struct{}, error) { return struct{}{}, nil }); err != nil {
		return err
	}
	var one int
	return s.readers.row(ctx, `SELECT 1`, nil, &one)
}
