package engine

import (
	"context"
	"time"

	"github.com/harness-go/harness/store"
)

// How the search index follows the runs: when none has ended for indexQuiet, and indexLag after the first at the
// latest, so that a burst of runs is not slowed down by it.
const (
	indexQuiet = 500 * time.Millisecond
	indexLag   = 5 * time.Second
	indexPage  = 64
)

// keeper is the work on conversations that nobody waits for: rows of deleted ones are removed, and what was said is
// taken into the search index. Its goroutine is the engine's.
type keeper struct {
	purges chan struct{}
	spoke  chan struct{}
}

func newKeeper() keeper {
	return keeper{purges: make(chan struct{}, 1), spoke: make(chan struct{}, 1)}
}

// purge tells that there is something to remove.
func (k keeper) purge() { nudge(k.purges) }

// spoken tells that there is something to index.
func (k keeper) spoken() { nudge(k.spoke) }

func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// buryAll removes the files of what was deleted when the process before this one ended. No run may have begun.
func (e *Engine) buryAll(ctx context.Context) error {
	list, err := e.o.Store.Deletions(ctx, maxLeft)
	for i := 0; err == nil && i < len(list); i++ {
		err = e.removeFiles(ctx, &list[i])
	}
	return err
}

// maxLeft is more than what can be deleted and have files when a process ends: each deletion and each fork at work has
// one.
const maxLeft = 10_000

// keep works until ctx ends. What an earlier process left is its first work.
func (e *Engine) keep(ctx context.Context) {
	defer e.wg.Done()
	e.keeper.purge()
	e.keeper.spoken()
	quiet := time.NewTimer(indexQuiet)
	quiet.Stop()
	defer quiet.Stop()
	var latest time.Time // when the index is due; zero: it is not
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.keeper.purges:
			e.purgeAll(ctx)
		case <-e.keeper.spoke:
			now := time.Now()
			if latest.IsZero() {
				latest = now.Add(indexLag)
			}
			quiet.Reset(min(indexQuiet, max(0, latest.Sub(now))))
		case <-quiet.C:
			latest = time.Time{}
			if err := e.FlushSearch(ctx); err != nil && ctx.Err() == nil {
				e.o.Logger.Error("search index not brought up to date", "error", err)
			}
		}
	}
}

// purgeAll removes the rows of all deleted conversations. What fails is tried again at the next occasion.
func (e *Engine) purgeAll(ctx context.Context) {
	for {
		list, err := e.o.Store.Deletions(ctx, 100)
		for i := 0; err == nil && i < len(list); i++ {
			if err = e.finishDeletion(ctx, list[i]); err != nil {
				break
			}
		}
		if err != nil && ctx.Err() == nil {
			e.o.Logger.Error("deleted conversations not purged", "error", err)
		}
		if err != nil || len(list) == 0 {
			return
		}
	}
}

func (e *Engine) finishDeletion(ctx context.Context, d store.Deletion) error {
	if d.Files {
		e.births.Lock()
		err := e.removeFiles(ctx, &d)
		e.births.Unlock()
		if err != nil {
			return err
		}
	}
	return e.purge(ctx, d)
}

// FlushSearch takes everything that was said so far into the search index.
func (e *Engine) FlushSearch(ctx context.Context) error {
	e.indexing.Lock()
	defer e.indexing.Unlock()
	at, err := e.o.Store.Indexed(ctx)
	if err != nil {
		return err
	}
	for {
		feed, err := e.o.Store.TranscriptFeed(ctx, at, indexPage)
		if err != nil || len(feed) == 0 {
			return err
		}
		texts := make([]store.SearchText, 0, len(feed))
		for _, it := range feed {
			if t, ok := searchText(it); ok {
				texts = append(texts, t)
			}
		}
		at = feed[len(feed)-1].Cursor
		if err := e.o.Store.Index(ctx, texts, at); err != nil {
			return err
		}
	}
}
