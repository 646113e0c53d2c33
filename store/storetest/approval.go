package storetest

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

var approvalTests = []test{
	{"an approval is kept as it was asked, with the deadline of its event", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		got, err := e.GetApproval(e.ctx, a.ID)
		e.ok(err)
		if !reflect.DeepEqual(got, a) {
			e.Fatalf("approval\n%+v, want\n%+v", got, a)
		}
		p := last[event.ToolApprovalRequiredPayload](e, r.ID)
		if !p.DeadlineAt.Equal(got.ExpiresAt) {
			e.Fatalf("the event says %s, the approval %s", p.DeadlineAt, got.ExpiresAt)
		}
		_, err = e.GetApproval(e.ctx, "ap_none")
		e.is(err, store.ErrNotFound)
	}},
	{"a grant is recorded with its event, in the step of the call", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		e.advance(time.Minute)
		got, w, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: true, Scope: event.ScopeSession,
			Reason: "fine", DecidedBy: "key_2"})
		e.ok(err)
		e.asleep(w)
		at := start.Add(time.Minute)
		want := a
		want.Status, want.Scope, want.Reason, want.DecidedBy, want.DecidedAt = event.ApprovalApproved, event.ScopeSession, "fine", "key_2", &at
		if !reflect.DeepEqual(got, want) {
			e.Fatalf("approval\n%+v, want\n%+v", got, want)
		}
		if stored, err := e.GetApproval(e.ctx, a.ID); err != nil || !reflect.DeepEqual(stored, want) {
			e.Fatalf("stored\n%+v, want\n%+v", stored, want)
		}
		p := last[event.ToolApprovalGrantedPayload](e, r.ID)
		if p != (event.ToolApprovalGrantedPayload{ApprovalID: a.ID, CallID: a.CallID, Tool: a.Tool, Arguments: a.Arguments,
			DecidedBy: "key_2", Reason: "fine", Scope: "session"}) {
			e.Fatalf("payload %+v", p)
		}
		wire := fact(r, 3, p)
		if events := e.log(r.ID); string(events[2].Payload) != string(wire.Payload) {
			e.Fatalf("event is %s, want %s", events[2].Payload, wire.Payload)
		}
	}},
	{"a denial carries its reason to the event", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		_, _, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Reason: "too risky", DecidedBy: "key_2"})
		e.ok(err)
		p := last[event.ToolApprovalDeniedPayload](e, r.ID)
		if p != (event.ToolApprovalDeniedPayload{ApprovalID: a.ID, CallID: a.CallID, Tool: a.Tool, Arguments: a.Arguments,
			DecidedBy: "key_2", Reason: "too risky", Status: "denied"}) {
			e.Fatalf("payload %+v", p)
		}
	}},
	{"the same answer again is no error and no event, a contrary one is a conflict", func(e *env) {
		r := e.leased()
		a, b := e.ask(r), e.ask(r)
		decide := func(id string, approve bool, scope event.ApprovalScope) (event.Approval, error) {
			got, w, err := e.Decide(e.ctx, store.Decision{ApprovalID: id, TenantID: tenant, Approve: approve, Scope: scope})
			e.asleep(w)
			return got, err
		}
		_, err := decide(a.ID, true, "")
		e.ok(err)
		_, err = decide(b.ID, false, "")
		e.ok(err)
		n := len(e.log(r.ID))
		got, err := decide(a.ID, true, event.ScopeOnce)
		e.ok(err)
		if got.Status != event.ApprovalApproved {
			e.Fatalf("status %s", got.Status)
		}
		_, err = decide(b.ID, false, "")
		e.ok(err)
		got, err = decide(a.ID, false, "")
		e.conflict(err, "approved")
		if got.ID != a.ID || got.Status != event.ApprovalApproved {
			e.Fatalf("the conflict comes with %+v", got)
		}
		_, err = decide(a.ID, true, event.ScopeSession)
		e.conflict(err, "approved")
		_, err = decide(b.ID, true, "")
		e.conflict(err, "denied")
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, Consume: a.ID})
		e.ok(err)
		_, err = decide(a.ID, true, "")
		e.ok(err)
		_, err = decide(a.ID, false, "")
		e.conflict(err, "consumed")
		if m := len(e.log(r.ID)); m != n {
			e.Fatalf("%d events more", m-n)
		}
	}},
	{"another tenant's approval does not exist", func(e *env) {
		a := e.ask(e.leased())
		got, w, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: "tn_2", Approve: true})
		e.is(err, store.ErrNotFound)
		e.asleep(w)
		if got.ID != "" {
			e.Fatalf("the refusal tells %+v", got)
		}
		_, _, err = e.Decide(e.ctx, store.Decision{ApprovalID: "ap_none", TenantID: tenant})
		e.is(err, store.ErrNotFound)
	}},
	{"several approvals of a run are answered in any order", func(e *env) {
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
			r := e.leased()
			asks := []event.Approval{e.ask(r), e.ask(r), e.ask(r)}
			e.park(r, store.StatusWaitingForApproval)
			for n, i := range order {
				_, w, err := e.Decide(e.ctx, store.Decision{ApprovalID: asks[i].ID, TenantID: tenant, Approve: i%2 == 0})
				e.ok(err)
				if n == 0 {
					r = e.woken(r, w) // the first answer wakes, the others find it at work
				} else {
					e.asleep(w)
				}
			}
			list, err := e.RunApprovals(e.ctx, r.ID)
			e.ok(err)
			for i, a := range list {
				if a.ID != asks[i].ID || (a.Status == event.ApprovalApproved) != (i%2 == 0) {
					e.Fatalf("order %v: approval %d is %+v", order, i, a)
				}
			}
		}
	}},
	{"of approve, deny and expire in a race exactly one wins, with one event", testDecisionRace},
	{"granted approvals of scope session are listed for their conversation, also consumed", func(e *env) {
		r := e.create("cv_a").Run
		once, session, denied := e.ask(r), e.ask(r), e.ask(r)
		for _, d := range []store.Decision{
			{ApprovalID: once.ID, TenantID: tenant, Approve: true},
			{ApprovalID: session.ID, TenantID: tenant, Approve: true, Scope: event.ScopeSession},
			{ApprovalID: denied.ID, TenantID: tenant, Scope: event.ScopeSession},
		} {
			_, _, err := e.Decide(e.ctx, d)
			e.ok(err)
		}
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Consume: session.ID})
		e.ok(err)
		e.finish(r, store.StatusCompleted)
		e.create("cv_a")
		list, err := e.SessionApprovals(e.ctx, tenant, "cv_a")
		e.ok(err)
		if len(list) != 1 || list[0].ID != session.ID || list[0].Status != event.ApprovalConsumed {
			e.Fatalf("listed %+v", list)
		}
		for _, other := range [][2]string{{tenant, "cv_b"}, {"tn_2", "cv_a"}} {
			if list, err := e.SessionApprovals(e.ctx, other[0], other[1]); err != nil || len(list) != 0 {
				e.Fatalf("%v lists %+v, %v", other, list, err)
			}
		}
	}},
	{"an approval without a deadline or of another run or tenant is refused", func(e *env) {
		r := e.leased()
		good := event.Approval{ID: "ap_x", RunID: r.ID, TenantID: tenant, ExpiresAt: start.Add(time.Hour)}
		for name, change := range map[string]func(*event.Approval){
			"no id":          func(a *event.Approval) { a.ID = "" },
			"no deadline":    func(a *event.Approval) { a.ExpiresAt = time.Time{} },
			"another run":    func(a *event.Approval) { a.RunID = "run_y" },
			"another tenant": func(a *event.Approval) { a.TenantID = "tn_2" },
		} {
			a := good
			change(&a)
			if _, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Approvals: []event.Approval{a}}); err == nil {
				e.Errorf("%s: accepted", name)
			}
		}
		e.unchanged(r)
	}},
}

func testDecisionRace(e *env) {
	const rounds = 100
	wins := map[string]int{}
	for round := range rounds {
		r := e.leased()
		a := e.ask(r)
		e.park(r, store.StatusWaitingForApproval)
		var owners atomic.Int64
		var mu sync.Mutex
		var won []string
		win := func(who string, w store.Wake) {
			mu.Lock()
			defer mu.Unlock()
			won = append(won, who)
			if w.RunID == r.ID && w.Epoch == 2 {
				owners.Add(1)
			}
		}
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for _, approve := range []bool{round%2 == 0, round%2 != 0} {
			wg.Go(func() {
				<-begin
				_, w, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: approve})
				if err == nil {
					win(map[bool]string{true: "approved", false: "denied"}[approve], w)
				}
			})
		}
		wg.Go(func() {
			<-begin
			for range round % 4 { // lets the others be first in most rounds
				if err := e.Ping(e.ctx); err != nil {
					e.Error(err)
				}
			}
			e.advance(73 * time.Hour)
			wakes, _, err := e.ExpireDue(e.ctx, 100)
			if err != nil {
				e.Error(err)
			}
			for _, w := range wakes {
				win("expired", w)
			}
		})
		close(begin)
		wg.Wait()
		if len(won) != 1 || owners.Load() != 1 {
			e.Fatalf("winners %v, %d owners", won, owners.Load())
		}
		got, err := e.GetApproval(e.ctx, a.ID)
		e.ok(err)
		if string(got.Status) != won[0] {
			e.Fatalf("%s won and the approval is %s", won[0], got.Status)
		}
		closing := slices.DeleteFunc(kinds(e.log(r.ID)), func(k event.Type) bool {
			return k != event.ToolApprovalGranted && k != event.ToolApprovalDenied
		})
		if len(closing) != 1 {
			e.Fatalf("events %v", closing)
		}
		wins[won[0]]++
	}
	e.Logf("won: %v", wins)
}
