package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/harness-go/harness/store"
)

// LocalDispatcher is the Dispatcher of one process: a bounded set of goroutines and a queue in memory. What it loses at a kill
// is found again by the store's Recover.
type LocalDispatcher struct {
	limit  int
	logger *slog.Logger

	mu      sync.Mutex
	body    func(ctx context.Context, w store.Wake)
	queue   []store.Wake
	running map[string]*localSegment
	stopped bool
	wg      sync.WaitGroup
}

type localSegment struct{ cancel context.CancelCauseFunc }

var _ Dispatcher = (*LocalDispatcher)(nil)

// NewLocalDispatcher makes a dispatcher that runs at most limit segments at once, 256 when limit is not positive.
func NewLocalDispatcher(limit int, logger *slog.Logger) *LocalDispatcher {
	if limit <= 0 {
		limit = 256
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &LocalDispatcher{limit: limit, logger: logger, running: map[string]*localSegment{}}
}

// Start implements Dispatcher.
func (l *LocalDispatcher) Start(body func(ctx context.Context, w store.Wake)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.body != nil {
		return errors.New("dispatcher: already started")
	}
	l.body = body
	l.fill()
	return nil
}

// Dispatch implements Dispatcher.
func (l *LocalDispatcher) Dispatch(w store.Wake) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return errors.New("dispatcher: stopped")
	}
	l.queue = append(l.queue, w)
	l.fill()
	return nil
}

// fill starts waiting segments while there are free workers. A second segment of a run waits until the first one's
// body has returned.
func (l *LocalDispatcher) fill() {
	if l.body == nil || l.stopped {
		return
	}
	for len(l.running) < l.limit {
		i := slices.IndexFunc(l.queue, func(w store.Wake) bool { return l.running[w.RunID] == nil })
		if i < 0 {
			return
		}
		w := l.queue[i]
		if i == 0 {
			l.queue = l.queue[1:]
		} else {
			l.queue = slices.Delete(l.queue, i, i+1)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		l.running[w.RunID] = &localSegment{cancel: cancel}
		l.wg.Add(1)
		go l.run(ctx, cancel, w)
	}
}

func (l *LocalDispatcher) run(ctx context.Context, cancel context.CancelCauseFunc, w store.Wake) {
	defer func() {
		if r := recover(); r != nil {
			l.logger.Error("segment panicked", "run", w.RunID, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
		cancel(nil)
		l.mu.Lock()
		delete(l.running, w.RunID)
		l.fill()
		l.mu.Unlock()
		l.wg.Done()
	}()
	l.body(ctx, w)
}

// Cancel implements Dispatcher.
func (l *LocalDispatcher) Cancel(runID string, cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.running[runID]
	if ok {
		s.cancel(cause)
	}
	return ok
}

// Stop implements Dispatcher.
func (l *LocalDispatcher) Stop(ctx context.Context, cause error) error {
	l.mu.Lock()
	l.stopped, l.queue = true, nil
	for _, s := range l.running {
		s.cancel(cause)
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dispatcher: segments still running: %w", ctx.Err())
	}
}
