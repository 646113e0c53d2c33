// Package dispatchtest holds the contract of engine.Dispatcher as a suite that every implementation passes.
package dispatchtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// Run tests the dispatchers that open makes. Each runs at most limit segments at once.
func Run(t *testing.T, open func(t *testing.T, limit int) engine.Dispatcher) {
	for name, test := range map[string]func(*testing.T, func(*testing.T, int) engine.Dispatcher){
		"every handed-over segment is called":                    everySegment,
		"at most limit segments run at once":                     bounded,
		"segments dispatched before a worker is free keep order": ordered,
		"two segments of one run never overlap":                  oneAtATime,
		"a panic does not end the dispatcher":                    panics,
		"cancel reaches the body with its cause":                 cancels,
		"stop interrupts and waits":                              stops,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, open) })
		})
	}
}

func wake(n int) store.Wake { return store.Wake{RunID: fmt.Sprintf("run_%d", n), Epoch: 1} }

func start(t *testing.T, d engine.Dispatcher, body func(context.Context, store.Wake)) {
	t.Helper()
	if err := d.Start(body); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop(context.Background(), errors.New("the test ended")) })
}

func dispatch(t *testing.T, d engine.Dispatcher, w store.Wake) {
	t.Helper()
	if err := d.Dispatch(w); err != nil {
		t.Fatal(err)
	}
}

func everySegment(t *testing.T, open func(*testing.T, int) engine.Dispatcher) {
	d := open(t, 4)
	var calls sync.Map
	start(t, d, func(_ context.Context, w store.Wake) { calls.Store(w.RunID, w.Epoch) })
	for i := range 200 {
		dispatch(t, d, wake(i))
	}
	synctest.Wait()
	for i := range 200 {
		if _, ok := calls.Load(wake(i).RunID); !ok {
			t.Errorf("run %d was not called", i)
		}
	}
}

func bounded(t *testing.T, open func(*testing.T, int) engine.Dispatcher) {
	d := open(t, 3)
	release := make(chan struct{})
	var now, most, done atomic.Int32
	start(t, d, func(context.Context, store.Wake) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		now.Add(-1)
		done.Add(1)
	})
	for i := range 10 {
		dispatch(t, d, wake(i))
	}
	synctest.Wait()
	if most.Load() != 3 {
		t.Errorf("%d segments ran at once, want 3", most.Load())
	}
	close(release)
	synctest.Wait()
	if done.Load() != 10 {
		t.Errorf("%d of 10 segments ran", done.Load())
	}
}

func ordered(t *testing.T, open func(*testing.T, int) engine.Dispatcher) {
	d := open(t, 1)
	var got []string
	start(t, d, func(_ context.Context, w store.Wake) { got = append(got, w.RunID) })
	for i := range 20 {
		dispatch(t, d, wake(i))
	}
	synctest.Wait()
	for i, id := range got {
		if id != wake(i).RunID {
			t.Fatalf("order %v", got)
		}
	}
}

func oneAtATime(t *testing.T, open func(*testing.T, int) engine.Dispatcher) {
	d := open(t, 8)
	var now, overlaps, calls atomic.Int32
	step := make(chan struct{})
	start(t, d, func(context.Context, store.Wake) {
		if now.Add(1) > 1 {
			overlaps.Add(1)
		}
		calls.Add(1)
		<-step
		now.Add(-1)
	})
	for range 3 {
		dispatch(t, d, wake(1))
	}
	for range 3 {
		step <- struct{}{}
	}
	synctest.Wait()
	if overlaps.Load() != 0 || calls.Load() != 3 {
		t.Errorf("%d calls, %d overlaps", calls.Load(), overlaps.Load())
	}
}

func panics(t *testing.T, open func(*testing.T, int) engine.Dispatcher) {
	d := open(t, 1)
	var after atomic.Bool
	start(t, d, func(_ context.Context, w store.Wake) {
		if w == wake(0) {
			panic("a bug")
		}
		after.Store(true)
	})
	dispatch(t, d, wake(0))
	dispatch(t, d, wake(1))
	synctest.Wait()
	if !after.Load() {
		t.Error("nothing ran after the panic")
	}
}

func cancels(t *testing.T, open func(*testing.T, int) engine.Dispatcher) {
	d := open(t, 2)
	why := errors.New("why")
	var cause atomic.Value
	start(t, d, func(ctx context.Context, _ store.Wake) {
		<-ctx.Done()
		cause.Store(context.Cause(ctx))
	})
	dispatch(t, d, wake(0))
	synctest.Wait()
	if !d.Cancel(wake(0).RunID, why) {
		t.Fatal("the running segment was not found")
	}
	synctest.Wait()
	if cause.Load() != why {
		t.Errorf("cause %v", cause.Load())
	}
	if d.Cancel("run_unknown", why) {
		t.Error("a run that is not here was cancelled")
	}
}

func stops(t *testing.T, open func(*testing.T, int) engine.Dispatcher) {
	d := open(t, 1)
	down := errors.New("down")
	var cause error
	if err := d.Start(func(ctx context.Context, _ store.Wake) {
		<-ctx.Done()
		cause = context.Cause(ctx)
	}); err != nil {
		t.Fatal(err)
	}
	dispatch(t, d, wake(0))
	dispatch(t, d, wake(1)) // waits for a worker and must not start any more
	synctest.Wait()
	if err := d.Stop(context.Background(), down); err != nil {
		t.Fatal(err)
	}
	if cause != down {
		t.Errorf("cause %v", cause)
	}
	if err := d.Dispatch(wake(2)); err == nil {
		t.Error("a stopped dispatcher took a segment")
	}
}
