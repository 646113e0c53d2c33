package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

var logTests = []test{
	{"the first event is run.queued with the prompt", func(e *env) {
		r := e.leased()
		p := last[event.RunQueuedPayload](e, r.ID)
		if p.Prompt != "do it" || r.Head != 1 {
			e.Fatalf("prompt %q, head %d", p.Prompt, r.Head)
		}
	}},
	{"events keep their kind, payload and time", func(e *env) {
		r := e.leased()
		e.advance(time.Second + time.Nanosecond)
		in := delta(r, "<b> & \u2028 \x00 é")
		head, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{in}})
		e.ok(err)
		ev := e.log(r.ID)[1]
		want := event.Event{RunID: r.ID, Seq: 2, Type: in.Type, Timestamp: start.Add(time.Second + time.Nanosecond), Payload: in.Payload}
		if head != 2 || !reflect.DeepEqual(ev, want) {
			e.Fatalf("head %d, event\n%+v, want\n%+v", head, ev, want)
		}
	}},
	{"a stale epoch writes nothing", func(e *env) {
		r := e.leased()
		for _, epoch := range []int64{0, 2, -1} {
			_, err := e.submit(store.Batch{RunID: r.ID, Epoch: epoch, Events: []store.NewEvent{delta(r, "x")},
				Transcript: []store.TranscriptItem{{Kind: "k", Data: []byte(`1`)}}, State: []byte(`{}`)})
			e.is(err, store.ErrFenced)
			_, err = e.Finish(e.ctx, finishing(at(r, epoch), store.StatusCompleted))
			e.is(err, store.ErrFenced)
			_, err = e.Park(e.ctx, store.Park{RunID: r.ID, Epoch: epoch, Status: store.StatusWaitingForUser})
			e.is(err, store.ErrFenced)
		}
		e.unchanged(r)
	}},
	{"an owner that a recovery replaced is fenced", func(e *env) {
		r := e.leased()
		taken, err := e.Recover(e.ctx)
		e.ok(err)
		if len(taken) != 1 || taken[0].Epoch != 2 {
			e.Fatalf("recovered %+v", taken)
		}
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "late")}})
		e.is(err, store.ErrFenced)
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 2, Events: []store.NewEvent{delta(r, "new owner")}})
		e.ok(err)
		if n := len(e.log(r.ID)); n != 2 {
			e.Fatalf("%d events", n)
		}
	}},
	{"an ended run is fenced", func(e *env) {
		r := e.leased()
		e.finish(r, store.StatusCompleted)
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "after the end")}})
		e.is(err, store.ErrFenced)
		_, err = e.Finish(e.ctx, finishing(r, store.StatusFailed))
		e.is(err, store.ErrFenced)
	}},
	{"an unknown run is not found", func(e *env) {
		_, err := e.submit(store.Batch{RunID: "run_none", Epoch: 1})
		e.is(err, store.ErrNotFound)
		_, err = e.GetRun(e.ctx, "run_none")
		e.is(err, store.ErrNotFound)
		_, _, err = e.RequestCancel(e.ctx, tenant, "run_none", "me")
		e.is(err, store.ErrNotFound)
		_, err = e.Steer(e.ctx, tenant, "run_none", store.SteerInput{Text: "x", By: "me"})
		e.is(err, store.ErrNotFound)
		_, err = e.LastRun(e.ctx, tenant, "cv_none")
		e.is(err, store.ErrNotFound)
	}},
	{"pages follow each other by cursor", func(e *env) {
		r := e.leased()
		var batch []store.NewEvent
		for i := range 20 {
			batch = append(batch, delta(r, fmt.Sprint(i)))
		}
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: batch})
		e.ok(err)
		page, err := e.Events(e.ctx, r.ID, 5, 3)
		e.ok(err)
		if len(page) != 3 || page[0].Seq != 6 {
			e.Fatalf("page is %+v", page)
		}
		if page, err = e.Events(e.ctx, r.ID, 21, 3); err != nil || len(page) != 0 {
			e.Fatalf("beyond the end: %d events, %v", len(page), err)
		}
		if page, err = e.Events(e.ctx, r.ID, 0, 0); err != nil || len(page) != 21 {
			e.Fatalf("without a limit: %d events, %v", len(page), err)
		}
	}},
	{"batches of a run are applied in the order of their Submit calls", func(e *env) {
		r := e.leased()
		receipts := make([]store.Receipt, 500)
		for i := range receipts {
			receipts[i] = e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, fmt.Sprint(i))}})
		}
		for i, rc := range receipts {
			head, err := rc.Wait(e.ctx)
			e.ok(err)
			if head != int64(i)+2 {
				e.Fatalf("batch %d has head %d", i, head)
			}
			<-rc.Done()
		}
		for i, ev := range e.log(r.ID)[1:] {
			if want := delta(r, fmt.Sprint(i)); string(ev.Payload) != string(want.Payload) {
				e.Fatalf("event %d is %s", ev.Seq, ev.Payload)
			}
		}
	}},
	{"a receipt can be waited for twice, and a wait can be given up", func(e *env) {
		r := e.leased()
		rc := e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "x")}})
		for range 2 {
			head, err := rc.Wait(e.ctx)
			e.ok(err)
			if head != 2 {
				e.Fatalf("head %d", head)
			}
		}
		gone, cancel := context.WithCancel(e.ctx)
		cancel()
		rc = e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "y")}})
		if _, err := rc.Wait(gone); err != nil {
			e.is(err, context.Canceled) // nil where the commit was faster
		}
		<-rc.Done()
		if n := len(e.log(r.ID)); n != 3 {
			e.Fatalf("%d events", n)
		}
	}},
	{"a batch that nobody waits for is committed too", func(e *env) {
		r := e.leased()
		wake, stop := e.Watch(r.ID)
		defer stop()
		e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "x")}})
		select {
		case <-wake:
		case <-time.After(time.Minute):
			e.Fatal("no commit")
		}
		if n := len(e.log(r.ID)); n != 2 {
			e.Fatalf("%d events", n)
		}
	}},
	{"64 writers and decisions from outside leave no gap and no duplicate", testManyWriters},
	{"a watcher that reads by cursor misses nothing", testWatch},
	{"readers in the middle of a stream see a prefix, from memory as from the file", testPrefix},
	{"an event larger than every buffer is kept whole", func(e *env) {
		r := e.leased()
		text := strings.Repeat("0123456789abcdef", 6<<20/16)
		wake, stop := e.Watch(r.ID)
		defer stop()
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, text)}})
		e.ok(err)
		<-wake
		if p := last[event.AssistantMessageDeltaPayload](e, r.ID); p.Content != text {
			e.Fatalf("%d bytes came back", len(p.Content))
		}
	}},
}

// unchanged checks that nothing was written for a fresh run.
func (e *env) unchanged(r store.Run) {
	e.Helper()
	if got := kinds(e.log(r.ID)); !slices.Equal(got, []event.Type{event.RunQueued}) {
		e.Fatalf("log is %v", got)
	}
	if now := e.get(r.ID); !reflect.DeepEqual(now, r) {
		e.Fatalf("run is\n%+v, want\n%+v", now, r)
	}
	items, err := e.Transcript(e.ctx, r.TenantID, r.ConversationID, 0, 0)
	e.ok(err)
	if len(items) != 0 {
		e.Fatalf("transcript is %+v", items)
	}
}

func testManyWriters(e *env) {
	const writers, rounds = 64, 12
	var wg sync.WaitGroup
	runs := make([]store.Run, writers)
	for i := range runs {
		runs[i] = e.leased()
	}
	for _, r := range runs {
		wg.Go(func() {
			for i := range rounds {
				a := event.Approval{ID: e.id("ap"), CallID: "c", Tool: "bash", ExpiresAt: start.Add(time.Hour)}
				rc := e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Approvals: []event.Approval{a}, Events: []store.NewEvent{delta(r, "ask")}})
				if _, err := rc.Wait(e.ctx); err != nil {
					e.Error(err)
					return
				}
				var inner sync.WaitGroup
				inner.Go(func() {
					if _, _, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: i%2 == 0}); err != nil {
						e.Error(err)
					}
				})
				for range 3 {
					if _, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "x"), delta(r, "y")}}); err != nil {
						e.Error(err)
					}
				}
				inner.Wait()
			}
		})
	}
	wg.Wait()
	for _, r := range runs {
		if n := len(e.log(r.ID)); n != 1+rounds*(1+1+6) {
			e.Errorf("run %s has %d events", r.ID, n)
		}
		if now := e.get(r.ID); now.Head != 1+rounds*8 {
			e.Errorf("run %s has head %d", r.ID, now.Head)
		}
	}
}

// follow reads a run by cursor until its end, as a subscriber does, and returns what it saw.
func follow(ctx context.Context, s store.Store, runID string, limit int) ([]event.Event, error) {
	wake, stop := s.Watch(runID)
	defer stop()
	var seen []event.Event
	for {
		var after int64
		if n := len(seen); n > 0 {
			after = seen[n-1].Seq
		}
		page, err := s.Events(ctx, runID, after, limit)
		if err != nil {
			return seen, err
		}
		seen = append(seen, page...)
		if n := len(seen); n > 0 && seen[n-1].Type.Terminal() {
			return seen, nil
		}
		if len(page) > 0 {
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return seen, ctx.Err()
		}
	}
}

func testWatch(e *env) {
	const subscribers, batches = 50, 300
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	r := e.leased()
	var wg sync.WaitGroup
	for i := range subscribers {
		wg.Go(func() {
			seen, err := follow(ctx, e.Store, r.ID, 1+i)
			if err != nil {
				e.Errorf("subscriber %d: %v after %d events", i, err, len(seen))
				return
			}
			for j, ev := range seen {
				if ev.Seq != int64(j)+1 {
					e.Errorf("subscriber %d: event %d has seq %d", i, j+1, ev.Seq)
					return
				}
			}
			if len(seen) != 1+2*batches+1 {
				e.Errorf("subscriber %d saw %d events", i, len(seen))
			}
		})
	}
	for i := range batches {
		rc := e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "a"), delta(r, "b")}})
		if i%10 == 0 {
			_, err := rc.Wait(ctx)
			e.ok(err)
		}
	}
	e.finish(r, store.StatusCompleted)
	wg.Wait()
}

// testPrefix compares what readers with and without a watch get, while a stream is written that is larger than the
// memory kept for a run.
func testPrefix(e *env) {
	r := e.leased()
	_, stop := e.Watch(r.ID)
	defer stop()
	text := strings.Repeat("x", 4000)
	for i := range 400 {
		rc := e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, fmt.Sprint(i, text))}})
		if i%7 != 0 {
			continue
		}
		head, err := rc.Wait(e.ctx)
		e.ok(err)
		for _, after := range []int64{0, head / 2, head - 2, head - 1, head} {
			page, err := e.Events(e.ctx, r.ID, max(after, 0), 3)
			e.ok(err)
			for j, ev := range page {
				if ev.Seq != max(after, 0)+int64(j)+1 {
					e.Fatalf("after %d came seq %d", after, ev.Seq)
				}
			}
			if want := min(3, head-max(after, 0)); int64(len(page)) < want {
				e.Fatalf("after %d of at least %d came %d events", after, head, len(page))
			}
		}
	}
	warm := e.log(r.ID)
	stop()
	if cold := e.log(r.ID); !reflect.DeepEqual(warm, cold) {
		e.Fatal("the events from memory differ from those in the file")
	}
	e.reopen()
	if cold := e.log(r.ID); !reflect.DeepEqual(warm, cold) {
		e.Fatal("the events differ after reopening")
	}
	for _, ev := range warm {
		if !json.Valid(ev.Payload) {
			e.Fatalf("payload of event %d is not JSON", ev.Seq)
		}
	}
}
