package storetest

import (
	"reflect"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

var questionTests = []test{
	{"an answer keeps every value apart and wakes the run", func(e *env) {
		r := e.leased()
		q := e.question(r)
		list, err := e.RunQuestions(e.ctx, r.ID)
		e.ok(err)
		if len(list) != 1 || !reflect.DeepEqual(list[0], q) {
			e.Fatalf("question\n%+v, want\n%+v", list, q)
		}
		e.park(r, store.StatusWaitingForUser)
		e.advance(time.Minute)
		answers := map[string][]string{"which?": {"a, b", "c"}}
		got, w, err := e.AnswerQuestion(e.ctx, store.Answer{QuestionID: q.ID, TenantID: tenant, Answers: answers, AnsweredBy: "alice"})
		e.ok(err)
		e.woken(r, w)
		at := start.Add(time.Minute)
		want := q
		want.Status, want.AnsweredBy, want.AnsweredAt, want.Answers = event.QuestionAnswered, "alice", &at, answers
		if !reflect.DeepEqual(got, want) {
			e.Fatalf("question\n%+v, want\n%+v", got, want)
		}
		if list, err = e.RunQuestions(e.ctx, r.ID); err != nil || !reflect.DeepEqual(list[0], want) {
			e.Fatalf("stored\n%+v, want\n%+v", list[0], want)
		}
		p := last[event.RunResumedPayload](e, r.ID)
		if p.CallID != q.CallID || p.AnsweredBy != "alice" || !p.AnsweredAt.Equal(at) || p.TimedOut {
			e.Fatalf("payload %+v", p)
		}
	}},
	{"the same answer again is no error, another one is a conflict", func(e *env) {
		r := e.leased()
		q := e.question(r)
		answer := func(tenant string, labels ...string) error {
			_, w, err := e.AnswerQuestion(e.ctx, store.Answer{QuestionID: q.ID, TenantID: tenant, Answers: map[string][]string{"which?": labels}})
			e.asleep(w)
			return err
		}
		e.is(answer("tn_2", "c"), store.ErrNotFound)
		e.ok(answer(tenant, "c"))
		n := len(e.log(r.ID))
		e.ok(answer(tenant, "c"))
		e.conflict(answer(tenant, "a, b"), "answered")
		if m := len(e.log(r.ID)); m != n {
			e.Fatalf("%d events more", m-n)
		}
		q.ID = "qu_none"
		e.is(answer(tenant, "c"), store.ErrNotFound)
	}},
	{"a question without a deadline is refused", func(e *env) {
		r := e.leased()
		if _, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Questions: []event.PendingQuestion{{ID: "qu_x"}}}); err == nil {
			e.Fatal("accepted")
		}
		e.unchanged(r)
	}},
}

var deadlineTests = []test{
	{"an approval that nobody answered expires as a denial that names the deadline", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		e.park(r, store.StatusWaitingForApproval)
		wakes, next, err := e.ExpireDue(e.ctx, 10)
		e.ok(err)
		if len(wakes) != 0 || !next.Equal(a.ExpiresAt) {
			e.Fatalf("wakes %+v, next %s", wakes, next)
		}
		e.advance(72*time.Hour - 1)
		if wakes, _, err = e.ExpireDue(e.ctx, 10); err != nil || len(wakes) != 0 {
			e.Fatalf("early: %+v, %v", wakes, err)
		}
		e.reopen() // deadlines survive a restart
		e.advance(1)
		wakes, next, err = e.ExpireDue(e.ctx, 10)
		e.ok(err)
		if len(wakes) != 1 || !next.IsZero() {
			e.Fatalf("wakes %+v, next %s", wakes, next)
		}
		e.woken(r, wakes[0])
		p := last[event.ToolApprovalDeniedPayload](e, r.ID)
		if p.Status != "expired" || p.ApprovalID != a.ID || p.DecidedBy != "" || p.Reason != "no answer by the deadline "+a.ExpiresAt.Format(time.RFC3339) {
			e.Fatalf("payload %+v", p)
		}
		if wakes, _, err = e.ExpireDue(e.ctx, 10); err != nil || len(wakes) != 0 {
			e.Fatalf("expired twice: %+v, %v", wakes, err)
		}
		_, _, err = e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: true})
		e.conflict(err, "expired")
	}},
	{"an answer after the deadline is refused, also before the expiry is written", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		q := e.question(r)
		e.park(r, store.StatusWaitingForApproval)
		e.advance(72 * time.Hour)
		got, w, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: true})
		e.conflict(err, "expired")
		e.asleep(w)
		if got.Status != event.ApprovalExpired {
			e.Fatalf("the conflict comes with status %s", got.Status)
		}
		_, w, err = e.AnswerQuestion(e.ctx, store.Answer{QuestionID: q.ID, TenantID: tenant})
		e.conflict(err, "expired")
		e.asleep(w)
		wakes, _, err := e.ExpireDue(e.ctx, 10)
		e.ok(err)
		if len(wakes) != 1 { // both expire, one owner
			e.Fatalf("wakes %+v", wakes)
		}
		e.woken(r, wakes[0])
	}},
	{"a question that nobody answered resumes the run as timed out", func(e *env) {
		r := e.leased()
		q := e.question(r)
		e.park(r, store.StatusWaitingForUser)
		e.advance(24 * time.Hour)
		wakes, _, err := e.ExpireDue(e.ctx, 10)
		e.ok(err)
		if len(wakes) != 1 {
			e.Fatalf("wakes %+v", wakes)
		}
		e.woken(r, wakes[0])
		if p := last[event.RunResumedPayload](e, r.ID); !p.TimedOut || p.CallID != q.CallID {
			e.Fatalf("payload %+v", p)
		}
		list, err := e.RunQuestions(e.ctx, r.ID)
		e.ok(err)
		if list[0].Status != event.QuestionExpired || list[0].Settled {
			e.Fatalf("question %+v", list[0])
		}
	}},
	{"expiry keeps to its limit and names the next deadline, due ones included", func(e *env) {
		var runs []store.Run
		for range 5 {
			r := e.leased()
			e.ask(r)
			e.park(r, store.StatusWaitingForApproval)
			runs = append(runs, r)
		}
		e.advance(100 * time.Hour)
		later := e.leased()
		a := e.ask(later)
		seen := 0
		for _, want := range []int{2, 2, 1} {
			wakes, next, err := e.ExpireDue(e.ctx, 2)
			e.ok(err)
			if len(wakes) != want {
				e.Fatalf("%d wakes, want %d", len(wakes), want)
			}
			if seen += want; (seen < len(runs)) != !next.After(e.clock()) {
				e.Fatalf("after %d the next deadline is %s", seen, next)
			}
			if seen == len(runs) && !next.Equal(a.ExpiresAt) {
				e.Fatalf("the next deadline is %s, want %s", next, a.ExpiresAt)
			}
		}
	}},
	{"the expiry for a running run is recorded and wakes nobody", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		e.advance(73 * time.Hour)
		wakes, _, err := e.ExpireDue(e.ctx, 10)
		e.ok(err)
		if len(wakes) != 0 {
			e.Fatalf("wakes %+v", wakes)
		}
		if got, err := e.GetApproval(e.ctx, a.ID); err != nil || got.Status != event.ApprovalExpired {
			e.Fatalf("approval %+v, %v", got, err)
		}
	}},
}
