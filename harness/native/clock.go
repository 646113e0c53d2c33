package native

import (
	"sync"
	"time"
)

// stopwatch counts a turn's working time and ends the turn when its limit is reached. While the turn waits for a
// person it stands still.
type stopwatch struct {
	now     func() time.Time
	limit   time.Duration // none when zero
	expired func()

	mu      sync.Mutex
	counted time.Duration
	since   time.Time // of the running stretch
	running bool
	timer   *time.Timer
}

// add takes over time that earlier segments of the turn counted.
func (w *stopwatch) add(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted += d
}

func (w *stopwatch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return
	}
	w.running, w.since = true, w.now()
	if w.limit > 0 {
		w.timer = time.AfterFunc(w.limit-w.counted, w.expired)
	}
}

func (w *stopwatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		return
	}
	w.running = false
	w.counted += w.now().Sub(w.since)
	if w.timer != nil {
		w.timer.Stop()
	}
}

// elapsed is the working time so far.
func (w *stopwatch) elapsed() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return w.counted + w.now().Sub(w.since)
	}
	return w.counted
}
