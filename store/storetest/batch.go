package storetest

import (
	"reflect"
	"testing/quick"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

var batchTests = []test{
	{"every field of a batch is written in one commit", func(e *env) {
		r := e.leased()
		out, msg, reason, steps := "o", "m", "why", 4
		usage := event.UsageTotals{TotalTokens: 17}
		cost := event.CostTotals{CostUSDTotal: 0.25, CostStatus: event.CostAvailable}
		head, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "1"), delta(r, "2")},
			Transcript: []store.TranscriptItem{{Kind: "user", Data: []byte(`{"x":1}`)}, {Kind: "assistant", Data: []byte(`[2]`)}},
			State:      []byte(`{"s":1}`),
			Update:     &store.RunUpdate{Output: &out, Error: &msg, Reason: &reason, Usage: &usage, Cost: &cost, Steps: &steps}})
		e.ok(err)
		now := e.get(r.ID)
		want := r
		want.Output, want.Error, want.Reason, want.Steps, want.Usage, want.Cost = out, msg, reason, steps, usage, cost
		want.State, want.Head = []byte(`{"s":1}`), 3
		if head != 3 || !reflect.DeepEqual(now, want) {
			e.Fatalf("head %d, run\n%+v, want\n%+v", head, now, want)
		}
		items, err := e.Transcript(e.ctx, tenant, r.ConversationID, 1, 0)
		e.ok(err)
		if want := []store.TranscriptItem{{Idx: 2, RunID: r.ID, Kind: "assistant", Data: []byte(`[2]`), At: start}}; !reflect.DeepEqual(items, want) {
			e.Fatalf("transcript %+v", items)
		}
	}},
	{"nil fields of an update stay", func(e *env) {
		r := e.leased()
		out, steps := "o", 2
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, State: []byte(`1`), Update: &store.RunUpdate{Output: &out, Steps: &steps}})
		e.ok(err)
		msg := "m"
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, Update: &store.RunUpdate{Error: &msg}})
		e.ok(err)
		if now := e.get(r.ID); now.Output != "o" || now.Steps != 2 || now.Error != "m" || string(now.State) != "1" {
			e.Fatalf("run %+v", now)
		}
	}},
	{"Submit neither ends nor parks a run, and Finish needs an end", func(e *env) {
		r := e.leased()
		for _, s := range []store.Status{store.StatusQueued, store.StatusWaitingForUser, store.StatusCompleted, store.StatusCancelled} {
			if _, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "x")}, Update: &store.RunUpdate{Status: &s}}); err == nil {
				e.Errorf("Submit set %s", s)
			}
		}
		if _, err := e.Finish(e.ctx, store.Batch{RunID: r.ID, Epoch: 1}); err == nil {
			e.Error("Finish without a status")
		}
		if _, err := e.Park(e.ctx, store.Park{RunID: r.ID, Epoch: 1, Status: store.StatusCompleted}); err == nil {
			e.Error("Park with a terminal status")
		}
		e.unchanged(r)
	}},
	{"a refused batch leaves nothing, and those beside it go through", func(e *env) {
		r, other := e.leased(), e.leased()
		a := e.ask(r)
		before := e.get(r.ID)
		// Queued together, so that an implementation may commit them together. The duplicate id fails in the middle of
		// its batch, the pending approval and the fence before anything is written.
		bad := []store.Receipt{
			e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "bad")}, Consume: a.ID}),
			e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "bad")}, Transcript: []store.TranscriptItem{{Kind: "k"}}, Approvals: []event.Approval{a}}),
			e.Submit(store.Batch{RunID: r.ID, Epoch: 9, Events: []store.NewEvent{delta(r, "bad")}}),
			e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{{Payload: []byte(`{}`)}}}),
			e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "bad")}, SettleApprovals: []string{"ap_none"}}),
			e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "bad")}, SettleApprovals: []string{a.ID}}),
		}
		good := []store.Receipt{
			e.Submit(store.Batch{RunID: other.ID, Epoch: 1, Events: []store.NewEvent{delta(other, "1")}}),
			e.Submit(store.Batch{RunID: other.ID, Epoch: 1, Events: []store.NewEvent{delta(other, "2")}}),
		}
		for i, rc := range bad {
			if _, err := rc.Wait(e.ctx); err == nil {
				e.Errorf("bad batch %d went through", i)
			}
		}
		for i, rc := range good {
			if head, err := rc.Wait(e.ctx); err != nil || head != int64(i)+2 {
				e.Errorf("good batch %d: head %d, %v", i, head, err)
			}
		}
		if now := e.get(r.ID); !reflect.DeepEqual(now, before) {
			e.Fatalf("run\n%+v, want\n%+v", now, before)
		}
		if n := len(e.log(r.ID)); n != 2 {
			e.Fatalf("%d events", n)
		}
	}},
	{"consuming is allowed once, and only when approved", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		consume := func() error {
			_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Consume: a.ID, Events: []store.NewEvent{
				fact(r, 1, event.ToolCallStartedPayload{CallID: a.CallID, Tool: a.Tool, ApprovalID: a.ID})}})
			return err
		}
		e.conflict(consume(), "pending")
		_, _, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: true})
		e.ok(err)
		e.ok(consume())
		e.conflict(consume(), "consumed")
		denied := e.ask(r)
		_, _, err = e.Decide(e.ctx, store.Decision{ApprovalID: denied.ID, TenantID: tenant})
		e.ok(err)
		a = denied
		e.conflict(consume(), "denied")
		a.ID = "ap_none"
		e.is(consume(), store.ErrNotFound)
		other := e.leased()
		foreign := e.ask(other)
		a = foreign
		e.is(consume(), store.ErrNotFound)
	}},
	{"a transcript belongs to the conversation of one tenant", func(e *env) {
		r := e.create("cv_a").Run
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "user", Data: []byte(`1`)}}})
		e.ok(err)
		e.finish(r, store.StatusCompleted)
		next := e.create("cv_a").Run
		_, err = e.submit(store.Batch{RunID: next.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "user", Data: []byte(`2`)}}})
		e.ok(err)
		items, err := e.Transcript(e.ctx, tenant, "cv_a", 0, 0)
		e.ok(err)
		if len(items) != 2 || items[1].Idx != 2 || items[1].RunID != next.ID {
			e.Fatalf("transcript %+v", items)
		}
		if items, err = e.Transcript(e.ctx, "tn_2", "cv_a", 0, 0); err != nil || len(items) != 0 {
			e.Fatalf("another tenant sees %+v, %v", items, err)
		}
	}},
	{"transcript items come back as they were given", func(e *env) {
		r := e.leased()
		var idx int64
		err := quick.Check(func(kind, text string) bool {
			data := delta(r, text).Payload
			if _, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: kind, Data: data}}}); err != nil {
				return false
			}
			idx++
			items, err := e.Transcript(e.ctx, tenant, r.ConversationID, idx-1, 0)
			return err == nil && reflect.DeepEqual(items, []store.TranscriptItem{{Idx: idx, RunID: r.ID, Kind: kind, Data: data, At: start}})
		}, &quick.Config{MaxCount: 50})
		e.ok(err)
	}},
}
