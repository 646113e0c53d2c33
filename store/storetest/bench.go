package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// Bench measures the paths that a run takes most. cpu-µs/op is the process's own and system time.
func Bench(b *testing.B, open Open) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("append/callers=%d", callers), func(b *testing.B) { benchAppend(b, open, callers) })
		b.Run(fmt.Sprintf("run/callers=%d", callers), func(b *testing.B) { benchRun(b, open, callers) })
	}
	b.Run("pipelined", func(b *testing.B) { benchPipelined(b, open) })
	b.Run("replay", func(b *testing.B) { benchReplay(b, open) })
	b.Run("fanout/subscribers=100", func(b *testing.B) { benchFanout(b, open, 100) })
	b.Run("recover/runs=1000", func(b *testing.B) { benchRecover(b, open, 1000) })
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs op b.N times in all on the callers, and then drain, where it is not nil, to wait for what they started.
func measure(b *testing.B, callers int, op func(caller int), drain func()) {
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				op(c)
			}
		})
	}
	wg.Wait()
	if drain != nil {
		drain()
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime()-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func openBench(b *testing.B, open Open) store.Store {
	s := open(b, b.TempDir(), nil)
	b.Cleanup(func() { s.Close() })
	return s
}

func benchCreate(b *testing.B, s store.Store, id string) store.Run {
	c, err := s.CreateRun(b.Context(), store.NewRun{ID: id, TenantID: tenant, ConversationID: "cv_" + id, Prompt: "do it",
		Request: []byte(`{"prompt":"do it","model":"m","permissions":{"sandbox":"workspace"}}`), Lease: true})
	if err != nil || !c.Leased {
		b.Fatalf("created %+v, %v", c, err)
	}
	return c.Run
}

const benchText = "a piece of an answer of the size that a model sends in one delta, or a little more than that, as text"

func benchAppend(b *testing.B, open Open, callers int) {
	s := openBench(b, open)
	runs := make([]store.Run, callers)
	for i := range runs {
		runs[i] = benchCreate(b, s, fmt.Sprint("run_", i))
	}
	measure(b, callers, func(c int) {
		rc := s.Submit(store.Batch{RunID: runs[c].ID, Epoch: 1, Events: []store.NewEvent{delta(runs[c], benchText)}})
		if _, err := rc.Wait(b.Context()); err != nil {
			b.Error(err)
		}
	}, nil)
}

// benchRun is the shape of a run: created, three writes of two events of which it waits for the last, finished.
func benchRun(b *testing.B, open Open, callers int) {
	s := openBench(b, open)
	var ids atomic.Int64
	measure(b, callers, func(int) {
		r := benchCreate(b, s, fmt.Sprint("run_", ids.Add(1)))
		var rc store.Receipt
		for range 3 {
			rc = s.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, benchText), delta(r, benchText)}})
		}
		if _, err := rc.Wait(b.Context()); err != nil {
			b.Error(err)
		}
		if _, err := s.Finish(b.Context(), finishing(r, store.StatusCompleted)); err != nil {
			b.Error(err)
		}
	}, nil)
}

func benchPipelined(b *testing.B, open Open) {
	s := openBench(b, open)
	r := benchCreate(b, s, "run_p")
	var rc store.Receipt
	measure(b, 1, func(int) {
		rc = s.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, benchText)}})
	}, func() {
		if _, err := rc.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
}

func benchReplay(b *testing.B, open Open) {
	s := openBench(b, open)
	runs := make([]store.Run, 16)
	for i := range runs {
		runs[i] = benchCreate(b, s, fmt.Sprint("run_", i))
	}
	for range 2000 { // interleaved, as runs at work are
		for _, r := range runs {
			s.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, benchText)}})
		}
	}
	if err := s.Ping(b.Context()); err != nil {
		b.Fatal(err)
	}
	rows := 0
	measure(b, 1, func(int) {
		page, err := s.Events(b.Context(), runs[rows%len(runs)].ID, int64(rows)%1000, 1000)
		if err != nil || len(page) != 1000 {
			b.Fatalf("%d events, %v", len(page), err)
		}
		rows += len(page)
	}, nil)
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func benchFanout(b *testing.B, open Open, subscribers int) {
	s := openBench(b, open)
	r := benchCreate(b, s, "run_f")
	var wg sync.WaitGroup
	for range subscribers {
		wg.Go(func() {
			if err := readToEnd(b.Context(), s, r.ID); err != nil {
				b.Error(err)
			}
		})
	}
	measure(b, 1, func(int) { s.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, benchText)}}) }, func() {
		if _, err := s.Finish(b.Context(), finishing(r, store.StatusCompleted)); err != nil {
			b.Fatal(err)
		}
		wg.Wait()
	})
}

// readToEnd follows a log without keeping it.
func readToEnd(ctx context.Context, s store.Store, runID string) error {
	wake, stop := s.Watch(runID)
	defer stop()
	for after := int64(0); ; {
		page, err := s.Events(ctx, runID, after, 1000)
		if err != nil {
			return err
		}
		if n := len(page); n > 0 {
			if after = page[n-1].Seq; page[n-1].Type.Terminal() {
				return nil
			}
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func benchRecover(b *testing.B, open Open, n int) {
	s := openBench(b, open)
	for i := range n {
		r := benchCreate(b, s, fmt.Sprint("run_", i))
		s.Submit(store.Batch{RunID: r.ID, Epoch: 1, State: []byte(`{"turn":1}`), Events: []store.NewEvent{delta(r, benchText)}})
	}
	measure(b, 1, func(int) {
		runs, err := s.Recover(b.Context())
		if err != nil || len(runs) != n {
			b.Fatalf("recovered %d, %v", len(runs), err)
		}
	}, nil)
}

// ParkMany creates n more runs that wait for an approval, for measurements of what they cost.
func ParkMany(t testing.TB, s store.Store, n int) {
	first := parkedRuns.Add(int64(n)) - int64(n)
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := w; i < n; i += 32 {
				id := fmt.Sprint("run_parked_", first+int64(i))
				c, err := s.CreateRun(t.Context(), store.NewRun{ID: id, TenantID: tenant, ConversationID: "cv_" + id, Prompt: "p", Lease: true})
				if err != nil {
					t.Error(err)
					return
				}
				a := event.Approval{ID: "ap_" + id, CallID: "call", Tool: "bash", Kind: "bash", Arguments: `{"command":"ls"}`, ExpiresAt: time.Now().Add(72 * time.Hour)}
				s.Submit(store.Batch{RunID: id, Epoch: 1, Approvals: []event.Approval{a}, Events: []store.NewEvent{
					fact(c.Run, 1, event.ToolApprovalRequiredPayload{ApprovalID: a.ID, CallID: a.CallID, Tool: a.Tool, Arguments: a.Arguments, DeadlineAt: a.ExpiresAt})}})
				if ok, err := s.Park(t.Context(), store.Park{RunID: id, Epoch: 1, Status: store.StatusWaitingForApproval, State: []byte(`{"turn":1}`)}); err != nil || !ok {
					t.Errorf("run %s: parked %v, %v", id, ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// parkedRuns makes the ids of different calls of ParkMany differ.
var parkedRuns atomic.Int64
