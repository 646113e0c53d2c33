package storetest

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

var listTests = []test{
	{"250 runs come in pages, newest first, each once", func(e *env) {
		var want []string
		for range 250 {
			want = append(want, e.leased().ID)
		}
		slices.Reverse(want)
		for _, limit := range []int{0, 1, 49, 125, 200} {
			var got []string
			cursor := ""
			for {
				runs, next, err := e.ListRuns(e.ctx, store.ListOptions{TenantID: tenant, Cursor: cursor, Limit: limit})
				e.ok(err)
				if n := len(runs); n > 200 || (limit == 0 && n > 50) || (limit > 0 && n > limit) {
					e.Fatalf("limit %d: %d runs", limit, n)
				}
				for _, r := range runs {
					got = append(got, r.ID)
				}
				if next == "" {
					break
				}
				cursor = next
			}
			if !slices.Equal(got, want) {
				e.Fatalf("limit %d: %d runs in another order or not once", limit, len(got))
			}
		}
	}},
	{"250 runs of a conversation come in pages, and no other one among them", func(e *env) {
		var want []string
		for i := range 250 {
			want = append(want, e.create("cv_many").Run.ID)
			if i%10 == 0 {
				e.create("cv_other")
			}
		}
		slices.Reverse(want)
		var got []string
		for o := (store.ListOptions{TenantID: tenant, ConversationID: "cv_many", Limit: 60}); ; {
			runs, next, err := e.ListRuns(e.ctx, o)
			e.ok(err)
			for _, r := range runs {
				got = append(got, r.ID)
			}
			if o.Cursor = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			e.Fatalf("%d runs in another order or not once", len(got))
		}
	}},
	{"runs are listed by tenant, conversation, id and status", func(e *env) {
		a, b := e.create("cv_a").Run, e.create("cv_b").Run
		queued := e.create("cv_a").Run
		_, err := e.CreateRun(e.ctx, store.NewRun{ID: "run_foreign", TenantID: "tn_2", ConversationID: "cv_a", Lease: true})
		e.ok(err)
		e.finish(b, store.StatusFailed)
		for _, tc := range []struct {
			o    store.ListOptions
			want []string
		}{
			{store.ListOptions{TenantID: tenant}, []string{queued.ID, b.ID, a.ID}},
			{store.ListOptions{TenantID: tenant, ConversationID: "cv_a"}, []string{queued.ID, a.ID}},
			{store.ListOptions{TenantID: tenant, RunID: b.ID}, []string{b.ID}},
			{store.ListOptions{TenantID: tenant, RunID: "run_foreign"}, nil},
			{store.ListOptions{TenantID: tenant, Status: "running"}, []string{a.ID}},
			{store.ListOptions{TenantID: tenant, Status: "queued"}, []string{queued.ID}},
			{store.ListOptions{TenantID: tenant, Status: "failed"}, []string{b.ID}},
			{store.ListOptions{TenantID: "tn_2"}, []string{"run_foreign"}},
			{store.ListOptions{}, nil},
		} {
			runs, next, err := e.ListRuns(e.ctx, tc.o)
			e.ok(err)
			var got []string
			for _, r := range runs {
				got = append(got, r.ID)
				if r.State = e.get(r.ID).State; !reflect.DeepEqual(r, e.get(r.ID)) {
					e.Errorf("the listed run differs from the run: %+v", r)
				}
			}
			if !slices.Equal(got, tc.want) || next != "" {
				e.Errorf("%+v lists %v, want %v", tc.o, got, tc.want)
			}
		}
		if r, err := e.LastRun(e.ctx, tenant, "cv_a"); err != nil || r.ID != queued.ID {
			e.Fatalf("last run %+v, %v", r, err)
		}
	}},
	{"approvals are listed by tenant, conversation, run and status", func(e *env) {
		r, other := e.leased(), e.leased()
		a, b, c := e.ask(r), e.ask(r), e.ask(other)
		_, _, err := e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant})
		e.ok(err)
		for _, tc := range []struct {
			o    store.ListOptions
			want []string
		}{
			{store.ListOptions{TenantID: tenant}, []string{c.ID, b.ID, a.ID}},
			{store.ListOptions{TenantID: tenant, Status: "pending"}, []string{c.ID, b.ID}},
			{store.ListOptions{TenantID: tenant, Status: "denied"}, []string{a.ID}},
			{store.ListOptions{TenantID: tenant, RunID: r.ID, Status: "pending"}, []string{b.ID}},
			{store.ListOptions{TenantID: tenant, ConversationID: other.ConversationID}, []string{c.ID}},
			{store.ListOptions{TenantID: "tn_2"}, nil},
		} {
			list, _, err := e.ListApprovals(e.ctx, tc.o)
			e.ok(err)
			var got []string
			for _, a := range list {
				got = append(got, a.ID)
			}
			if !slices.Equal(got, tc.want) {
				e.Errorf("%+v lists %v, want %v", tc.o, got, tc.want)
			}
		}
		_, next, err := e.ListApprovals(e.ctx, store.ListOptions{TenantID: tenant, Limit: 2})
		e.ok(err)
		if list, _, err := e.ListApprovals(e.ctx, store.ListOptions{TenantID: tenant, Limit: 2, Cursor: next}); err != nil || len(list) != 1 || list[0].ID != a.ID {
			e.Fatalf("second page %+v, %v", list, err)
		}
	}},
	{"a garbled cursor and one of another list are errors that name it", func(e *env) {
		r := e.leased()
		e.ask(r)
		e.ask(r)
		_, other, err := e.ListApprovals(e.ctx, store.ListOptions{TenantID: tenant, Limit: 1})
		e.ok(err)
		for _, cursor := range []string{"x", "1", "!!!", "cnVuczo", other, other + "A", strings.Repeat("A", 1000)} {
			_, _, err := e.ListRuns(e.ctx, store.ListOptions{TenantID: tenant, Cursor: cursor})
			e.is(err, store.ErrBadCursor)
			if !strings.Contains(err.Error(), cursor[:min(len(cursor), 20)]) || len(err.Error()) > 300 {
				e.Errorf("the error does not name the cursor: %v", err)
			}
		}
		for _, limit := range []int{-1, 201} {
			if _, _, err := e.ListRuns(e.ctx, store.ListOptions{TenantID: tenant, Limit: limit}); err == nil {
				e.Errorf("limit %d was accepted", limit)
			}
		}
	}},
}

var keyTests = []test{
	{"a key is found by its hash and kept as it was put", func(e *env) {
		later := start.Add(time.Hour)
		k := store.Key{ID: "key_1", Prefix: "hk_abc", Hash: sha256.Sum256([]byte("s")), TenantID: tenant, Name: "ci",
			Scopes: []string{"runs:write", "runs:read"}, CreatedAt: start, ExpiresAt: &later}
		e.ok(e.PutKey(e.ctx, k))
		got, err := e.KeyByHash(e.ctx, k.Hash)
		e.ok(err)
		if !reflect.DeepEqual(got, k) {
			e.Fatalf("key\n%+v, want\n%+v", got, k)
		}
		_, err = e.KeyByHash(e.ctx, sha256.Sum256([]byte("t")))
		e.is(err, store.ErrNotFound)
		k.Name = "cd"
		e.ok(e.PutKey(e.ctx, k))
		if list, err := e.ListKeys(e.ctx, tenant); err != nil || len(list) != 1 || list[0].Name != "cd" {
			e.Fatalf("keys %+v, %v", list, err)
		}
		k.ID = "key_2"
		if err := e.PutKey(e.ctx, k); err == nil {
			e.Fatal("two keys have one hash")
		}
	}},
	{"a key's last use is noted to the minute", func(e *env) {
		k := store.Key{ID: "key_1", Hash: sha256.Sum256([]byte("s")), TenantID: tenant}
		e.ok(e.PutKey(e.ctx, k))
		used := func() *time.Time {
			e.Helper()
			e.ok(e.Ping(e.ctx)) // after what was queued before
			list, err := e.ListKeys(e.ctx, tenant)
			e.ok(err)
			return list[0].LastUsed
		}
		if u := used(); u != nil {
			e.Fatalf("used %s before its first use", u)
		}
		for _, step := range []struct{ advance, want time.Duration }{{0, 0}, {30 * time.Second, 0}, {30 * time.Second, time.Minute}} {
			e.advance(step.advance)
			_, err := e.KeyByHash(e.ctx, k.Hash)
			e.ok(err)
			if u := used(); u == nil || !u.Equal(start.Add(step.want)) {
				e.Fatalf("last use %v, want %s after the start", u, step.want)
			}
		}
	}},
	{"a revoked key stays revoked, and only its tenant revokes it", func(e *env) {
		for i := range 3 {
			e.ok(e.PutKey(e.ctx, store.Key{ID: fmt.Sprint("key_", i), Hash: sha256.Sum256([]byte{byte(i)}), TenantID: tenant, CreatedAt: start.Add(time.Duration(i))}))
		}
		e.is(e.RevokeKey(e.ctx, "tn_2", "key_1"), store.ErrNotFound)
		e.is(e.RevokeKey(e.ctx, tenant, "key_9"), store.ErrNotFound)
		e.ok(e.RevokeKey(e.ctx, tenant, "key_1"))
		e.advance(time.Hour)
		e.ok(e.RevokeKey(e.ctx, tenant, "key_1"))
		e.reopen()
		list, err := e.ListKeys(e.ctx, tenant)
		e.ok(err)
		for i, k := range list {
			if k.ID != fmt.Sprint("key_", i) || (k.RevokedAt != nil) != (i == 1) {
				e.Fatalf("key %d is %+v", i, k)
			}
		}
		if k, err := e.KeyByHash(e.ctx, sha256.Sum256([]byte{1})); err != nil || k.RevokedAt == nil || !k.RevokedAt.Equal(start) {
			e.Fatalf("key %+v, %v", k, err)
		}
		if list, err := e.ListKeys(e.ctx, "tn_2"); err != nil || len(list) != 0 {
			e.Fatalf("another tenant sees %+v, %v", list, err)
		}
	}},
}

var reopenTests = []test{
	{"everything is there after reopening", func(e *env) {
		r := e.leased()
		a := e.ask(r)
		q := e.question(r)
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "user", Data: []byte(`1`)}}})
		e.ok(err)
		before, log := e.get(r.ID), e.log(r.ID)
		e.reopen()
		if now := e.get(r.ID); !reflect.DeepEqual(now, before) {
			e.Errorf("run\n%+v, want\n%+v", now, before)
		}
		if now := e.log(r.ID); !reflect.DeepEqual(now, log) {
			e.Errorf("log\n%+v, want\n%+v", now, log)
		}
		if list, err := e.RunApprovals(e.ctx, r.ID); err != nil || !reflect.DeepEqual(list, []event.Approval{a}) {
			e.Errorf("approvals %+v, %v", list, err)
		}
		if list, err := e.RunQuestions(e.ctx, r.ID); err != nil || !reflect.DeepEqual(list, []event.PendingQuestion{q}) {
			e.Errorf("questions %+v, %v", list, err)
		}
		if items, err := e.Transcript(e.ctx, tenant, r.ConversationID, 0, 0); err != nil || len(items) != 1 {
			e.Errorf("transcript %+v, %v", items, err)
		}
	}},
	{"the log of a finished run is complete after reopening, with the same ids", func(e *env) {
		r := e.leased()
		for range 30 {
			e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "x")}})
		}
		e.finish(r, store.StatusCompleted)
		want := e.log(r.ID)
		e.reopen()
		got := e.log(r.ID)
		if !reflect.DeepEqual(got, want) || !got[len(got)-1].Type.Terminal() {
			e.Fatal("the log differs")
		}
	}},
	{"closing writes what was submitted, and later calls say that the store is closed", func(e *env) {
		r := e.leased()
		var receipts []store.Receipt
		for range 200 {
			receipts = append(receipts, e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, "x")}}))
		}
		e.ok(e.Close())
		e.ok(e.Close())
		for _, rc := range receipts {
			_, err := rc.Wait(e.ctx)
			e.ok(err)
		}
		for name, call := range map[string]func() error{
			"Submit":    func() error { _, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1}); return err },
			"CreateRun": func() error { _, err := e.CreateRun(e.ctx, store.NewRun{ID: "r", ConversationID: "c"}); return err },
			"GetRun":    func() error { _, err := e.GetRun(e.ctx, r.ID); return err },
			"ListRuns":  func() error { _, _, err := e.ListRuns(e.ctx, store.ListOptions{}); return err },
			"Events":    func() error { _, err := e.Events(e.ctx, r.ID, 0, 1); return err },
			"Ping":      func() error { return e.Ping(e.ctx) },
		} {
			if err := call(); !strings.Contains(fmt.Sprint(err), store.ErrClosed.Error()) {
				e.Errorf("%s: %v", name, err)
			}
		}
		e.Store = e.open(e.T, e.dir, e.clock)
		if n := len(e.log(r.ID)); n != 201 {
			e.Fatalf("%d events", n)
		}
	}},
	{"an open store answers Ping", func(e *env) { e.ok(e.Ping(e.ctx)) }},
}
