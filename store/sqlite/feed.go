package sqlite

import (
	"container/list"
	"sync"

	"github.com/harness-go/harness/event"
)

// Bounds of the events that are kept in memory for watched runs. Beyond feedBytes the runs that were quiet for
// longest lose theirs; a run that writes more than runBytes loses the older half. Readers then go to the file.
const (
	feedBytes     = 4 << 20
	runBytes      = 512 << 10
	eventOverhead = 128
)

// feeds wake the watchers of runs, and keep the last committed events of watched runs so that many subscribers of one
// run do not each read the file. Runs that nobody watches have no feed. The zero value is ready.
type feeds struct {
	mu    sync.RWMutex
	runs  map[string]*feed
	lru   list.List // of *feed that hold events, the latest written first
	bytes int
}

// feed belongs to one watched run. Its events are the end of the committed log, without a gap.
type feed struct {
	watchers map[chan struct{}]struct{}
	events   []event.Event
	bytes    int
	elem     *list.Element
}

// watch registers a watcher.
func (f *feeds) watch(runID string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	fd := f.runs[runID]
	if fd == nil {
		if f.runs == nil {
			f.runs = map[string]*feed{}
		}
		fd = &feed{watchers: map[chan struct{}]struct{}{}}
		f.runs[runID] = fd
	}
	fd.watchers[ch] = struct{}{}
	return ch, func() { f.unwatch(runID, ch) }
}

func (f *feeds) unwatch(runID string, ch chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fd := f.runs[runID]
	if fd == nil {
		return
	}
	delete(fd.watchers, ch)
	if len(fd.watchers) == 0 {
		f.drop(fd)
		delete(f.runs, runID)
	}
}

// publish tells of committed events of a run. Every commit of the run passes here, in order.
func (f *feeds) publish(runID string, events []event.Event) {
	if len(events) == 0 {
		return
	}
	f.mu.RLock()
	watched := f.runs[runID] != nil
	f.mu.RUnlock()
	if !watched {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fd := f.runs[runID]
	if fd == nil {
		return
	}
	f.keep(fd, events)
	for ch := range fd.watchers {
		select {
		case ch <- struct{}{}:
		default: // it has a wake-up that it has not taken yet, and will read these events then
		}
	}
}

// keep appends to the feed within the bounds.
func (f *feeds) keep(fd *feed, events []event.Event) {
	if n := len(fd.events); n > 0 && fd.events[n-1].Seq+1 != events[0].Seq {
		f.drop(fd) // cannot happen while every commit passes publish; a gap must not be served
	}
	for i := range events {
		n := len(events[i].Payload) + eventOverhead
		fd.bytes += n
		f.bytes += n
	}
	fd.events = append(fd.events, events...)
	if fd.bytes > runBytes {
		f.shrink(fd)
	}
	if fd.elem == nil {
		fd.elem = f.lru.PushFront(fd)
	} else {
		f.lru.MoveToFront(fd.elem)
	}
	for f.bytes > feedBytes {
		f.drop(f.lru.Back().Value.(*feed))
	}
}

// shrink drops the older events until half of the bound is left. Readers hold copies of the slice's elements only, so
// the kept ones may move.
func (f *feeds) shrink(fd *feed) {
	i := 0
	for ; i < len(fd.events) && fd.bytes > runBytes/2; i++ {
		n := len(fd.events[i].Payload) + eventOverhead
		fd.bytes -= n
		f.bytes -= n
	}
	fd.events = append([]event.Event(nil), fd.events[i:]...)
}

func (f *feeds) drop(fd *feed) {
	f.bytes -= fd.bytes
	fd.events, fd.bytes = nil, 0
	if fd.elem != nil {
		f.lru.Remove(fd.elem)
		fd.elem = nil
	}
}

// clear drops all kept events, for a store that is closed.
func (f *feeds) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range f.runs {
		f.drop(fd)
	}
}

// read answers Events from memory. ok is false where the feed does not reach back to after.
func (f *feeds) read(runID string, after int64, limit int) (events []event.Event, ok bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	fd := f.runs[runID]
	if fd == nil || len(fd.events) == 0 || after+1 < fd.events[0].Seq {
		return nil, false
	}
	i := min(after+1-fd.events[0].Seq, int64(len(fd.events)))
	rest := fd.events[i:]
	return append([]event.Event(nil), rest[:min(len(rest), limit)]...), true // runBytes is far below store.PageBytes
}
