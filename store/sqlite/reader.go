package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/harness-go/harness/store"
)

// scanner is a row that can be read: *sql.Row and *sql.Rows.
type scanner interface{ Scan(dest ...any) error }

// errEnough ends each without a failure: the caller has what it wants.
var errEnough = errors.New("enough rows")

// each calls scan for each row and closes rows.
func each(rows *sql.Rows, scan func(scanner) error) error {
	defer rows.Close()
	for rows.Next() {
		switch err := scan(rows); {
		case err == errEnough:
			return nil
		case err != nil:
			return err
		}
	}
	return rows.Err()
}

// reader is the pool of reading connections with the statements of the fixed queries.
type reader struct {
	db     *sql.DB
	mu     sync.RWMutex
	stmts  map[string]*sql.Stmt
	closed bool
}

func openReader(file string, n int) (*reader, error) {
	db, err := sql.Open("sqlite", readerDSN(file))
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", file, err)
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return &reader{db: db, stmts: map[string]*sql.Stmt{}}, nil
}

func (r *reader) stmt(query string) (*sql.Stmt, error) {
	r.mu.RLock()
	s, closed := r.stmts[query], r.closed
	r.mu.RUnlock()
	if closed {
		return nil, store.ErrClosed
	}
	if s != nil {
		return s, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, store.ErrClosed
	}
	if s := r.stmts[query]; s != nil {
		return s, nil
	}
	s, err := r.db.Prepare(query)
	if err != nil {
		return nil, fmt.Errorf("sqlite: prepare: %w", err)
	}
	r.stmts[query] = s
	return s, nil
}

// row reads one row of a fixed query by a unique key. No row is store.ErrNotFound. Such reads are short, so ctx is
// only looked at before: watching it costs a goroutine per query.
func (r *reader) row(ctx context.Context, query string, args []any, dest ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := r.stmt(query)
	if err != nil {
		return err
	}
	switch err := s.QueryRowContext(context.Background(), args...).Scan(dest...); {
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrNotFound
	case err != nil:
		return r.failed(err)
	}
	return nil
}

// rows calls scan for each row of a fixed query with a bounded number of rows.
func (r *reader) rows(ctx context.Context, query string, args []any, scan func(scanner) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := r.stmt(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	if err == nil {
		err = each(rows, scan)
	}
	if err != nil {
		return r.failed(err)
	}
	return nil
}

// search is rows for a query that was put together for this call. It may read far, so the end of ctx stops it.
func (r *reader) search(ctx context.Context, query string, args []any, scan func(scanner) error) error {
	r.mu.RLock()
	closed := r.closed
	r.mu.RUnlock()
	if closed {
		return store.ErrClosed
	}
	rows, err := r.db.QueryContext(ctx, query, args...)
	if err == nil {
		err = each(rows, scan)
	}
	if err != nil {
		return r.failed(err)
	}
	return nil
}

func (r *reader) failed(err error) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.closed {
		return store.ErrClosed
	}
	return fmt.Errorf("sqlite: %w", err)
}

func (r *reader) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	errs := make([]error, 0, len(r.stmts)+1)
	for _, s := range r.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, r.db.Close())...)
}
