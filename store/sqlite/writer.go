package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// maxActive bounds what the writer remembers of active runs. Beyond it arbitrary ones are forgotten and read again
// when they write next.
const maxActive = 8192

// writer owns the writing connection. Its fields are touched by its goroutine alone, but for the queue.
type writer struct {
	queue *queue
	clock func() time.Time
	fault func(string, []string)
	feeds *feeds
	// committed is told of each commit; nil: nobody is.
	committed func(Commit)

	db     *sql.DB
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	active map[string]*runState
	last   int64 // the highest key of runs and forks in use, 0: unknown
	item   int64 // the highest key of transcript items in use, 0: unknown
	forks  bool  // there are, or were, forks: a conversation may exist without a run

	done     chan struct{}
	closeErr error
}

func newWriter(ctx context.Context, db *sql.DB, clock func() time.Time, fault func(string, []string), f *feeds) (*writer, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("sqlite: writer: %w", err)
	}
	var forks bool
	if err := conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM forks)`).Scan(&forks); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: writer: %w", err), conn.Close())
	}
	return &writer{
		forks:  forks,
		queue:  newQueue(),
		clock:  clock,
		fault:  fault,
		feeds:  f,
		db:     db,
		conn:   conn,
		stmts:  map[string]*sql.Stmt{},
		active: map[string]*runState{},
		done:   make(chan struct{}),
	}, nil
}

// do runs f in the writer and returns after its commit. Once f is queued, do waits for the outcome whatever happens to
// ctx: a caller must not miss that it became the owner of a run. A ctx that ends earlier stops f from being run.
func do[T any](ctx context.Context, w *writer, kind string, size int, f func(*txn) (T, error)) (T, error) {
	var out, zero T
	o := &op{
		kind: kind,
		size: size + opOverhead,
		ctx:  ctx,
		done: make(chan struct{}),
		apply: func(t *txn) (err error) {
			out, err = f(t)
			return err
		},
	}
	if err := w.queue.push(o); err != nil {
		return zero, err
	}
	<-o.done
	return out, o.err
}

// loop writes groups until the queue is closed and empty.
func (w *writer) loop() {
	defer close(w.done)
	var buf []*op
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for range w.queue.wake {
		w.queue.linger(timer)
		group, more := w.queue.take(buf)
		if !more {
			break
		}
		if len(group) > 0 {
			w.write(group)
		}
		wide := len(group) > 1
		buf = group
		clear(buf)
		if wide {
			// The callers of this group are about to queue their next writes: let them, so that those share a commit.
			// It costs nothing when none is ready.
			runtime.Gosched()
		}
	}
	errs := make([]error, 0, len(w.stmts)+2)
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	w.closeErr = errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

func (w *writer) close() error {
	w.queue.close()
	<-w.done
	return w.closeErr
}

// write commits a group and tells its callers.
func (w *writer) write(group []*op) {
	if again := w.commit(group); again {
		for i := range group {
			w.commit(group[i : i+1])
		}
	}
	for _, o := range group {
		close(o.done)
	}
	for id := range w.active {
		if len(w.active) <= maxActive {
			break
		}
		delete(w.active, id)
	}
}

// commit runs a group in one transaction and sets the error of each of its ops. again is true when one of several
// spoiled the transaction: then nothing is written, and each must run by itself.
func (w *writer) commit(group []*op) (again bool) {
	t := &txn{w: w}
	if w.fault != nil {
		w.fault("commit.before", kinds(group))
	}
	var begun time.Time
	if w.committed != nil {
		begun = time.Now()
	}
	if err := t.exec(`BEGIN IMMEDIATE`); err != nil {
		fail(group, fmt.Errorf("sqlite: begin: %w", err))
		return false
	}
	for _, o := range group {
		if o.ctx != nil && o.ctx.Err() != nil {
			o.err = o.ctx.Err()
			continue
		}
		t.now, t.wrote = w.clock(), false
		if o.err = o.apply(t); o.err == nil || (!t.wrote && t.broken == nil) {
			continue
		}
		w.rollback(t)
		return len(group) > 1
	}
	if err := t.exec(`COMMIT`); err != nil {
		w.rollback(t)
		fail(group, fmt.Errorf("sqlite: commit: %w", err))
		return false
	}
	if w.fault != nil {
		w.fault("commit.after", kinds(group))
	}
	if w.committed != nil {
		w.told(t, begun, len(group))
	}
	for _, r := range t.touched {
		w.feeds.publish(r.id, r.fresh)
		r.fresh, r.touched = nil, false
		if r.status != store.StatusRunning {
			delete(w.active, r.id)
		}
	}
	return false
}

// rollback undoes the transaction and forgets what it had changed in memory.
func (w *writer) rollback(t *txn) {
	t.exec(`ROLLBACK`) // fails where SQLite has rolled back by itself
	for _, r := range t.touched {
		delete(w.active, r.id)
	}
	w.last, w.item = 0, 0
}

func fail(group []*op, err error) {
	for _, o := range group {
		o.err = err
	}
}

func kinds(group []*op) []string {
	list := make([]string, len(group))
	for i, o := range group {
		list[i] = o.kind
	}
	return list
}

// txn is what a write sees of its transaction. now is the store's time for the write.
type txn struct {
	w       *writer
	now     time.Time
	wrote   bool  // the current write has changed something
	broken  error // SQLite failed: the transaction cannot go on
	touched []*runState
	ended   map[event.ApprovalStatus]int
}

func (t *txn) stmt(query string) (*sql.Stmt, error) {
	s, ok := t.w.stmts[query]
	if !ok {
		var err error
		if s, err = t.w.conn.PrepareContext(context.Background(), query); err != nil {
			t.broken = err
			return nil, fmt.Errorf("sqlite: prepare: %w", err)
		}
		t.w.stmts[query] = s
	}
	return s, nil
}

// exec runs a statement that changes something, or ends or begins the transaction.
func (t *txn) exec(query string, args ...any) error {
	s, err := t.stmt(query)
	if err != nil {
		return err
	}
	t.wrote = true
	if _, err := s.ExecContext(context.Background(), args...); err != nil {
		t.broken = err
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}

// row reads one row. No row is sql.ErrNoRows.
func (t *txn) row(query string, args []any, dest ...any) error {
	s, err := t.stmt(query)
	if err != nil {
		return err
	}
	err = s.QueryRowContext(context.Background(), args...).Scan(dest...)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.broken = err
		return fmt.Errorf("sqlite: %w", err)
	}
	return err
}

// rows calls scan for each row.
func (t *txn) rows(query string, args []any, scan func(scanner) error) error {
	s, err := t.stmt(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	if err == nil {
		err = each(rows, scan)
	}
	if err != nil {
		t.broken = err
		return fmt.Errorf("sqlite: %w", err)
	}
	return nil
}
