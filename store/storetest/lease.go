package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

var leaseTests = []test{
	{"creating a run leases it in the same commit", func(e *env) {
		c, err := e.CreateRun(e.ctx, store.NewRun{ID: "run_a", TenantID: tenant, ConversationID: "cv_a", PreviousRunID: "run_0",
			Prompt: "p", Request: []byte(`{"a":1}`), CreatedBy: "key_1", Lease: true})
		e.ok(err)
		want := store.Run{ID: "run_a", TenantID: tenant, ConversationID: "cv_a", PreviousRunID: "run_0", Status: store.StatusRunning,
			Prompt: "p", Request: []byte(`{"a":1}`), Epoch: 1, Head: 1, CreatedBy: "key_1", CreatedAt: start, UpdatedAt: start}
		if !c.Leased || c.Existed || !reflect.DeepEqual(c.Run, want) {
			e.Fatalf("created\n%+v, want\n%+v", c, want)
		}
		if now := e.get("run_a"); !reflect.DeepEqual(now, want) {
			e.Fatalf("stored\n%+v, want\n%+v", now, want)
		}
	}},
	{"without asking there is no lease", func(e *env) {
		c, err := e.CreateRun(e.ctx, store.NewRun{ID: "run_a", TenantID: tenant, ConversationID: "cv_a"})
		e.ok(err)
		if c.Leased || c.Run.Status != store.StatusQueued || c.Run.Epoch != 0 {
			e.Fatalf("created %+v", c)
		}
		runs, err := e.LeaseQueued(e.ctx, 10)
		e.ok(err)
		if len(runs) != 1 || runs[0] != (store.Wake{RunID: "run_a", Epoch: 1}) {
			e.Fatalf("leased %+v", runs)
		}
		if r := e.get("run_a"); r.Status != store.StatusRunning || r.Epoch != 1 || r.Attempts != 0 {
			e.Fatalf("leased run is %+v", r)
		}
		if runs, err = e.LeaseQueued(e.ctx, 10); err != nil || len(runs) != 0 {
			e.Fatalf("leased twice: %+v, %v", runs, err)
		}
	}},
	{"a run id is used once, and the run of its first use stays", func(e *env) {
		r := e.leased()
		_, err := e.CreateRun(e.ctx, store.NewRun{ID: r.ID, TenantID: tenant, ConversationID: "cv_other", Lease: true})
		if err == nil {
			e.Fatal("the id was used twice")
		}
		e.unchanged(r)
		_, err = e.LastRun(e.ctx, tenant, "cv_other")
		e.is(err, store.ErrNotFound)
	}},
	{"runs of a conversation are executed one after the other", func(e *env) {
		first := e.create("cv_a")
		second, third := e.create("cv_a"), e.create("cv_a")
		other, err := e.CreateRun(e.ctx, store.NewRun{ID: "run_o", TenantID: "tn_2", ConversationID: "cv_a", Lease: true})
		e.ok(err)
		if !first.Leased || second.Leased || third.Leased || !other.Leased {
			e.Fatalf("leased: %v %v %v, other tenant %v", first.Leased, second.Leased, third.Leased, other.Leased)
		}
		if runs, err := e.LeaseQueued(e.ctx, 10); err != nil || len(runs) != 0 {
			e.Fatalf("leased in a conversation that is taken: %+v, %v", runs, err)
		}
		w := e.finish(first.Run, store.StatusFailed)
		e.woken(second.Run, w)
		w = e.finish(at(second.Run, w.Epoch), store.StatusCompleted)
		e.woken(third.Run, w)
		e.asleep(e.finish(at(third.Run, w.Epoch), store.StatusCompleted))
		if c := e.create("cv_a"); !c.Leased {
			e.Fatal("the conversation is free again and its next run is not leased")
		}
	}},
	{"a parked run keeps its conversation", func(e *env) {
		first := e.create("cv_a").Run
		a := e.ask(first)
		e.park(first, store.StatusWaitingForApproval)
		second := e.create("cv_a")
		if second.Leased {
			e.Fatal("leased beside a parked run")
		}
		_, w, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant})
		e.ok(err)
		e.woken(second.Run, e.finish(e.woken(first, w), store.StatusCompleted))
	}},
	{"of concurrent runs of one conversation exactly one is at work at any time", func(e *env) {
		const n = 40
		var wg sync.WaitGroup
		var mu sync.Mutex
		var order []string
		work := make(chan store.Wake, n)
		for range n {
			wg.Go(func() {
				c, err := e.CreateRun(e.ctx, store.NewRun{ID: e.id("run"), TenantID: tenant, ConversationID: "cv_a", Lease: true})
				if err != nil {
					e.Error(err)
				}
				if c.Leased {
					work <- store.Wake{RunID: c.Run.ID, Epoch: c.Run.Epoch}
				}
			})
		}
		wg.Wait()
		for len(work) > 0 {
			w := <-work
			r := e.get(w.RunID)
			mu.Lock()
			order = append(order, w.RunID)
			mu.Unlock()
			_, err := e.submit(store.Batch{RunID: r.ID, Epoch: w.Epoch, Transcript: []store.TranscriptItem{{Kind: "user", Data: []byte(`"a"`)}, {Kind: "assistant", Data: []byte(`"b"`)}}})
			e.ok(err)
			if next := e.finish(r, store.StatusCompleted); next != (store.Wake{}) {
				work <- next
			}
		}
		if len(order) != n {
			e.Fatalf("%d of %d runs were executed", len(order), n)
		}
		items, err := e.Transcript(e.ctx, tenant, "cv_a", 0, 0)
		e.ok(err)
		for i, it := range items {
			if it.Idx != int64(i)+1 || it.RunID != order[i/2] {
				e.Fatalf("item %d is %+v", i, it)
			}
		}
		if len(items) != 2*n {
			e.Fatalf("%d items", len(items))
		}
	}},
	{"an idempotency key returns the first run, also concurrently", func(e *env) {
		n := store.NewRun{TenantID: tenant, ConversationID: "cv_a", Prompt: "p", IdempotencyKey: "k", BodyDigest: "d", Lease: true}
		var wg sync.WaitGroup
		results := make([]store.Created, 32)
		for i := range results {
			wg.Go(func() {
				n := n
				n.ID = fmt.Sprintf("run_%d", i)
				var err error
				if results[i], err = e.CreateRun(e.ctx, n); err != nil {
					e.Error(err)
				}
			})
		}
		wg.Wait()
		fresh := slices.IndexFunc(results, func(c store.Created) bool { return !c.Existed })
		for i, c := range results {
			if c.Run.ID != results[fresh].Run.ID || c.Existed != (i != fresh) || c.Leased != (i == fresh) {
				e.Fatalf("result %d is %+v, the first is %+v", i, c, results[fresh])
			}
		}
		runs, _, err := e.ListRuns(e.ctx, store.ListOptions{TenantID: tenant})
		e.ok(err)
		if len(runs) != 1 {
			e.Fatalf("%d runs", len(runs))
		}
		n.ID, n.BodyDigest = "run_x", "other"
		_, err = e.CreateRun(e.ctx, n)
		e.is(err, store.ErrIdempotencyMismatch)
		n.TenantID = "tn_2"
		c, err := e.CreateRun(e.ctx, n)
		e.ok(err)
		if c.Existed {
			e.Fatal("another tenant's key was used")
		}
	}},
	{"an idempotency key is remembered for 24 hours and over a restart", func(e *env) {
		n := store.NewRun{ID: "run_1", TenantID: tenant, ConversationID: "cv_1", IdempotencyKey: "k", BodyDigest: "d"}
		_, err := e.CreateRun(e.ctx, n)
		e.ok(err)
		e.reopen()
		e.advance(24*time.Hour - 1)
		n.ID = "run_2"
		c, err := e.CreateRun(e.ctx, n)
		e.ok(err)
		if !c.Existed || c.Run.ID != "run_1" {
			e.Fatalf("created %+v", c)
		}
		e.advance(1)
		n.BodyDigest = "d2"
		c, err = e.CreateRun(e.ctx, n)
		e.ok(err)
		if c.Existed || c.Run.ID != "run_2" {
			e.Fatalf("created %+v", c)
		}
	}},
	{"recovery takes over every open run, oldest first", func(e *env) {
		running := e.leased()
		parkedQuiet := e.leased()
		e.ask(parkedQuiet)
		e.park(parkedQuiet, store.StatusWaitingForApproval)
		queued, err := e.CreateRun(e.ctx, store.NewRun{ID: e.id("run"), TenantID: tenant, ConversationID: "cv_q"})
		e.ok(err)
		behind, err := e.CreateRun(e.ctx, store.NewRun{ID: e.id("run"), TenantID: tenant, ConversationID: "cv_q"})
		e.ok(err)
		ended := e.leased()
		e.finish(ended, store.StatusCompleted)
		blocked := e.create(running.ConversationID)
		_, err = e.submit(store.Batch{RunID: running.ID, Epoch: 1, State: []byte(`{"turn":7}`)})
		e.ok(err)
		late := e.leased()
		e.reopen()

		runs, err := e.Recover(e.ctx)
		e.ok(err)
		type got struct {
			id       string
			epoch    int64
			attempts int
		}
		var list []got
		for _, w := range runs {
			r := e.get(w.RunID)
			list = append(list, got{r.ID, w.Epoch, r.Attempts})
			if r.Status != store.StatusRunning || r.Epoch != w.Epoch {
				e.Errorf("run %s is returned as %s", r.ID, r.Status)
			}
		}
		want := []got{{running.ID, 2, 1}, {queued.Run.ID, 1, 0}, {late.ID, 2, 1}}
		if !slices.Equal(list, want) {
			e.Fatalf("recovered %v, want %v", list, want)
		}
		if r := e.get(running.ID); string(r.State) != `{"turn":7}` || string(r.Request) != `{"prompt":"do it"}` {
			e.Fatalf("state %s, request %s", r.State, r.Request)
		}
		for _, id := range []string{behind.Run.ID, blocked.Run.ID} {
			if r := e.get(id); r.Status != store.StatusQueued {
				e.Errorf("run %s is %s, want queued", id, r.Status)
			}
		}
		if r := e.get(parkedQuiet.ID); r.Status != store.StatusWaitingForApproval || r.Epoch != 1 {
			e.Errorf("the parked run is %s with epoch %d", r.Status, r.Epoch)
		}
	}},
	{"attempts count recoveries until there is progress", func(e *env) {
		r := e.leased()
		for i := range 3 {
			e.reopen()
			runs, err := e.Recover(e.ctx)
			e.ok(err)
			if now := e.get(r.ID); len(runs) != 1 || now.Attempts != i+1 || runs[0].Epoch != int64(i)+2 {
				e.Fatalf("recovery %d: %+v, run %+v", i, runs, now)
			}
		}
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 4, Update: &store.RunUpdate{Progress: true}})
		e.ok(err)
		if a := e.get(r.ID).Attempts; a != 0 {
			e.Fatalf("%d attempts after progress", a)
		}
	}},
	{"a cancel request leases a queued run, and a parked one, once", func(e *env) {
		running := e.create("cv_a").Run
		queued := e.create("cv_a").Run
		r, w, err := e.RequestCancel(e.ctx, tenant, queued.ID, "alice")
		e.ok(err)
		e.woken(queued, w)
		if !r.CancelRequested || r.CancelledBy != "alice" || r.Epoch != 1 || r.Status != store.StatusRunning {
			e.Fatalf("run is %+v", r)
		}
		r, w, err = e.RequestCancel(e.ctx, tenant, queued.ID, "bob")
		e.ok(err)
		e.asleep(w)
		if r.CancelledBy != "alice" {
			e.Fatalf("cancelled by %q", r.CancelledBy)
		}
		// It leaves the other run of the conversation alone, and does not wake a third one beside it.
		third := e.create("cv_a").Run
		e.asleep(e.finish(at(queued, 1), store.StatusCancelled))
		e.woken(third, e.finish(running, store.StatusCompleted))

		parked := e.leased()
		e.ask(parked)
		e.park(parked, store.StatusWaitingForApproval)
		_, w, err = e.RequestCancel(e.ctx, tenant, parked.ID, "alice")
		e.ok(err)
		e.woken(parked, w)
	}},
	{"a cancel request of a running run is only recorded, of an ended one nothing", func(e *env) {
		r := e.leased()
		_, w, err := e.RequestCancel(e.ctx, tenant, r.ID, "alice")
		e.ok(err)
		e.asleep(w)
		parked, err := e.Park(e.ctx, store.Park{RunID: r.ID, Epoch: 1, Status: store.StatusWaitingForUser})
		e.ok(err)
		if parked {
			e.Fatal("parked with a cancel request")
		}
		e.finish(r, store.StatusCancelled)
		before := e.get(r.ID)
		got, w, err := e.RequestCancel(e.ctx, tenant, r.ID, "bob")
		e.ok(err)
		e.asleep(w)
		if !reflect.DeepEqual(got, before) {
			e.Fatalf("an ended run changed to %+v", got)
		}
		_, _, err = e.RequestCancel(e.ctx, "tn_2", r.ID, "eve")
		e.is(err, store.ErrNotFound)
	}},
	{"finishing withdraws what is pending before the last event", func(e *env) {
		r := e.leased()
		done, open := e.ask(r), e.ask(r)
		q := e.question(r)
		_, _, err := e.Decide(e.ctx, store.Decision{ApprovalID: done.ID, TenantID: tenant, Approve: true})
		e.ok(err)
		e.finish(r, store.StatusCompleted)
		tail := e.log(r.ID)
		tail = tail[len(tail)-2:]
		if got := kinds(tail); !slices.Equal(got, []event.Type{event.ToolApprovalDenied, event.RunCompleted}) {
			e.Fatalf("the log ends with %v", got)
		}
		p := last[event.ToolApprovalDeniedPayload](e, r.ID)
		if p.ApprovalID != open.ID || p.Status != "withdrawn" || p.Reason == "" || p.Arguments != open.Arguments {
			e.Fatalf("payload %+v", p)
		}
		a, err := e.GetApproval(e.ctx, open.ID)
		e.ok(err)
		if a.Status != event.ApprovalWithdrawn || a.DecidedAt == nil {
			e.Fatalf("approval %+v", a)
		}
		if a, err = e.GetApproval(e.ctx, done.ID); err != nil || a.Status != event.ApprovalApproved {
			e.Fatalf("the answered approval is %s, %v", a.Status, err)
		}
		_, _, err = e.Decide(e.ctx, store.Decision{ApprovalID: open.ID, TenantID: tenant, Approve: true})
		e.conflict(err, "withdrawn")
		_, _, err = e.AnswerQuestion(e.ctx, store.Answer{QuestionID: q.ID, TenantID: tenant})
		e.conflict(err, "withdrawn")
		now := e.get(r.ID)
		if now.Status != store.StatusCompleted || now.Output != "done" || now.FinishedAt == nil || !now.FinishedAt.Equal(start) {
			e.Fatalf("run %+v", now)
		}
	}},
	{"a request whose context has ended changes nothing", func(e *env) {
		gone, cancel := context.WithCancel(e.ctx)
		cancel()
		_, err := e.CreateRun(gone, store.NewRun{ID: "run_g", TenantID: tenant, ConversationID: "cv_g", Lease: true})
		e.is(err, context.Canceled)
		_, err = e.GetRun(e.ctx, "run_g")
		e.is(err, store.ErrNotFound)
	}},
}
