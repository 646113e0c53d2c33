package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

var parkTests = []test{
	{"a parked run keeps its epoch, its state and its events, and has no owner", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		steps := 3
		parked, err := e.Park(e.ctx, store.Park{RunID: r.ID, Epoch: 1, Status: store.StatusWaitingForApproval, State: []byte(`{"turn":1}`),
			Events: []store.NewEvent{fact(r, 3, event.RunWaitingForApprovalPayload{ApprovalIDs: []string{a.ID}})},
			Update: &store.RunUpdate{Steps: &steps}})
		e.ok(err)
		now := e.get(r.ID)
		if !parked || now.Status != store.StatusWaitingForApproval || now.Epoch != 1 || string(now.State) != `{"turn":1}` || now.Steps != 3 || now.Head != 3 {
			e.Fatalf("parked %v, run %+v", parked, now)
		}
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "x")}})
		e.is(err, store.ErrFenced)
		_, err = e.Park(e.ctx, store.Park{RunID: r.ID, Epoch: 1, Status: store.StatusWaitingForUser})
		e.is(err, store.ErrFenced)
	}},
	{"what arrived before parking keeps the run at work, and nothing is written", func(e *env) {
		r := e.leased()
		park := func() bool {
			e.Helper()
			head := e.get(r.ID).Head
			parked, err := e.Park(e.ctx, store.Park{RunID: r.ID, Epoch: 1, Status: store.StatusWaitingForUser, State: []byte(`9`),
				Events: []store.NewEvent{delta(r, "parked")}})
			e.ok(err)
			if now := e.get(r.ID); !parked && (now.Head != head || now.State != nil || now.Status != store.StatusRunning) {
				e.Fatalf("a refused park left %+v", now)
			}
			return parked
		}
		for _, approve := range []bool{true, false} {
			a := e.ask(r)
			_, _, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: approve})
			e.ok(err)
			if park() {
				e.Fatalf("parked with an unsettled answer (approve %v)", approve)
			}
			_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, SettleApprovals: []string{a.ID}})
			e.ok(err)
		}
		q := e.question(r)
		_, _, err := e.AnswerQuestion(e.ctx, store.Answer{QuestionID: q.ID, TenantID: tenant, Answers: map[string][]string{"which?": {"c"}}})
		e.ok(err)
		if park() {
			e.Fatal("parked with an unsettled answer to a question")
		}
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, SettleQuestions: []string{q.ID}})
		e.ok(err)
		w, err := e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Text: "also do this", By: "alice"})
		e.ok(err)
		e.asleep(w)
		if park() {
			e.Fatal("parked with an undelivered message")
		}
		msgs, err := e.Steering(e.ctx, r.ID)
		e.ok(err)
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, SteerDelivered: msgs[0].ID})
		e.ok(err)
		late := e.ask(r)
		e.advance(73 * time.Hour)
		_, _, err = e.ExpireDue(e.ctx, 10)
		e.ok(err)
		if park() {
			e.Fatal("parked with an unsettled expiry")
		}
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, SettleApprovals: []string{late.ID}})
		e.ok(err)
		if !park() {
			e.Fatal("everything is settled and the run does not park")
		}
	}},
	{"an approval that its owner consumed does not keep the run from parking", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		e.ask(r)
		_, _, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: true})
		e.ok(err)
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, Consume: a.ID})
		e.ok(err)
		e.park(r, store.StatusWaitingForApproval)
	}},
	{"whether the decision comes before or after parking, one owner results and nothing is lost", testParkRace},
	{"a message wakes a parked run, and is listed until it is delivered", func(e *env) {
		r := e.leased()
		e.ask(r)
		e.park(r, store.StatusWaitingForApproval)
		w, err := e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Text: "one", By: "alice"})
		e.ok(err)
		r = e.woken(r, w)
		w, err = e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Text: "two", By: "bob"})
		e.ok(err)
		e.asleep(w)
		msgs, err := e.Steering(e.ctx, r.ID)
		e.ok(err)
		if len(msgs) != 2 || msgs[0].Text != "one" || msgs[0].By != "alice" || msgs[1].Text != "two" || msgs[0].ID >= msgs[1].ID {
			e.Fatalf("messages %+v", msgs)
		}
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: r.Epoch, SteerDelivered: msgs[0].ID})
		e.ok(err)
		if msgs, err = e.Steering(e.ctx, r.ID); err != nil || len(msgs) != 1 || msgs[0].Text != "two" {
			e.Fatalf("messages %+v, %v", msgs, err)
		}
		e.reopen()
		if msgs, err = e.Steering(e.ctx, r.ID); err != nil || len(msgs) != 1 {
			e.Fatalf("after reopening: %+v, %v", msgs, err)
		}
		_, err = e.Steer(e.ctx, "tn_2", r.ID, store.SteerInput{Text: "x", By: "eve"})
		e.is(err, store.ErrNotFound)
		e.finish(r, store.StatusCompleted)
		_, err = e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Text: "too late", By: "alice"})
		e.conflict(err, "completed")
	}},
	{"a message for a queued run waits for its owner", func(e *env) {
		first, queued := e.create("cv_a").Run, e.create("cv_a").Run
		w, err := e.Steer(e.ctx, tenant, queued.ID, store.SteerInput{Text: "x", By: "alice"})
		e.ok(err)
		e.asleep(w)
		w = e.finish(first, store.StatusCompleted)
		e.woken(queued, w)
		if msgs, err := e.Steering(e.ctx, queued.ID); err != nil || len(msgs) != 1 {
			e.Fatalf("messages %+v, %v", msgs, err)
		}
	}},
	{"a message keeps its kind, and one of an unknown kind is refused", func(e *env) {
		r := e.leased()
		kinds := []store.SteerKind{store.SteerPrompt, store.SteerTodos, store.SteerCompact}
		for _, kind := range kinds {
			_, err := e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Kind: kind, Text: `{"a":1}`, By: "alice"})
			e.ok(err)
		}
		if _, err := e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Kind: "dance", Text: "x", By: "alice"}); err == nil {
			e.Fatal("an unknown kind was taken")
		}
		msgs, err := e.Steering(e.ctx, r.ID)
		e.ok(err)
		for i, m := range msgs {
			if m.Kind != kinds[i] || m.Text != `{"a":1}` || m.By != "alice" {
				e.Errorf("message %d is %+v", i, m)
			}
		}
		if len(msgs) != len(kinds) {
			e.Fatalf("%d messages", len(msgs))
		}
	}},
	{"what waits survives a restart and is answered then", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		e.park(r, store.StatusWaitingForApproval)
		e.reopen()
		if runs, err := e.Recover(e.ctx); err != nil || len(runs) != 0 {
			e.Fatalf("recovered %+v, %v", runs, err)
		}
		_, w, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: true})
		e.ok(err)
		r = e.woken(r, w)
		if string(r.State) != `{"turn":1}` {
			e.Fatalf("state %s", r.State)
		}
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: r.Epoch, Consume: a.ID})
		e.ok(err)
		e.finish(r, store.StatusCompleted)
	}},
}

func testParkRace(e *env) {
	early, late := 0, 0
	for range 100 {
		r := e.leased()
		a := e.ask(r)
		var parked bool
		var wake store.Wake
		begin := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			<-begin
			var err error
			parked, err = e.Park(e.ctx, store.Park{RunID: r.ID, Epoch: 1, Status: store.StatusWaitingForApproval, State: []byte(`1`)})
			if err != nil {
				e.Error(err)
			}
		})
		wg.Go(func() {
			<-begin
			var err error
			if _, wake, err = e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: true}); err != nil {
				e.Error(err)
			}
		})
		close(begin)
		wg.Wait()
		// Either the owner stays and sees the answer, or it parked and the answer made a new one.
		owner := r
		if parked {
			owner = e.woken(r, wake)
			late++
		} else {
			e.asleep(wake)
			early++
		}
		list, err := e.RunApprovals(e.ctx, r.ID)
		e.ok(err)
		if list[0].Status != event.ApprovalApproved || list[0].Settled {
			e.Fatalf("the owner sees %+v", list[0])
		}
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: owner.Epoch, Consume: a.ID, SettleApprovals: []string{a.ID}})
		e.ok(err)
		if !slices.Contains(kinds(e.log(r.ID)), event.ToolApprovalGranted) {
			e.Fatal("the grant has no event")
		}
	}
	e.Logf("the decision came before parking %d times, after it %d times", early, late)
}
