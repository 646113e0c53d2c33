package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

var forkTests = []test{
	{"a fork has the items up to the end of the run, byte for byte, and the origin is as it was", func(e *env) {
		ids := e.wholeConversation("cv_a", 3)
		before, err := e.Transcript(e.ctx, tenant, "cv_a", 0, 0)
		e.ok(err)
		origin, err := e.GetConversation(e.ctx, tenant, "cv_a")
		e.ok(err)
		for i, run := range append(slices.Clone(ids), "") {
			id := fmt.Sprint("cv_f", i)
			c, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_a", RunID: run, ID: id})
			e.ok(err)
			want := before
			if run != "" {
				want = before[:2*(i+1)]
			} else {
				run = ids[2]
			}
			if c.ID != id || c.ForkedFrom != "cv_a" || c.ForkedRun != run || c.Title != "do it" || c.Runs != 0 || c.LastRunID != "" ||
				!reflect.DeepEqual(c.Items, map[string]int{"prompt": len(want) / 2, "answer": len(want) / 2}) {
				e.Fatalf("fork %+v", c)
			}
			items, err := e.Transcript(e.ctx, tenant, id, 0, 0)
			e.ok(err)
			if !reflect.DeepEqual(items, want) {
				e.Fatalf("items of the fork\n%+v, want\n%+v", items, want)
			}
			if v, ok, err := e.MemoryGet(e.ctx, tenant, tool.MemoryConversation, id, "note"); err != nil || !ok || v != "of "+ids[2] {
				e.Fatalf("note %q, %v, %v", v, ok, err)
			}
		}
		after, err := e.GetConversation(e.ctx, tenant, "cv_a")
		e.ok(err)
		if !reflect.DeepEqual(after, origin) {
			e.Fatalf("the origin is\n%+v, was\n%+v", after, origin)
		}
	}},
	{"a run goes on with a fork, alone; nothing of it is in the origin, and no session grant came along", func(e *env) {
		ids := e.wholeConversation("cv_a", 2)
		_, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_a", RunID: ids[0], ID: "cv_f"})
		e.ok(err)
		e.reopen()
		if list, err := e.SessionApprovals(e.ctx, tenant, "cv_f"); err != nil || len(list) != 0 {
			e.Fatalf("grants %+v, %v", list, err)
		}
		c := e.create("cv_f")
		second := e.create("cv_f")
		if !c.Leased || second.Leased {
			e.Fatalf("leased %v, %v", c.Leased, second.Leased)
		}
		_, err = e.submit(store.Batch{RunID: c.Run.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "prompt", Data: []byte(`"new"`)}}})
		e.ok(err)
		items, err := e.Transcript(e.ctx, tenant, "cv_f", 0, 0)
		e.ok(err)
		if len(items) != 3 || items[2].Idx != 3 || items[2].RunID != c.Run.ID || items[1].RunID != ids[0] {
			e.Fatalf("items %+v", items)
		}
		if items, err = e.Transcript(e.ctx, tenant, "cv_a", 0, 0); err != nil || len(items) != 4 {
			e.Fatalf("the origin has %d items, %v", len(items), err)
		}
		e.woken(second.Run, e.finish(c.Run, store.StatusCompleted))
		if got := e.conversations(store.ConversationList{TenantID: tenant}); !slices.Equal(got, []string{"cv_f", "cv_a"}) {
			e.Fatalf("conversations %v", got)
		}
		if x, err := e.GetConversation(e.ctx, tenant, "cv_f"); err != nil || x.Runs != 2 || x.ForkedFrom != "cv_a" || x.LastRunID != second.Run.ID {
			e.Fatalf("fork %+v, %v", x, err)
		}
	}},
	{"a fork stays whole when its origin is deleted, and can be forked and deleted itself", func(e *env) {
		ids := e.wholeConversation("cv_a", 2)
		_, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_a", ID: "cv_f"})
		e.ok(err)
		want, err := e.Transcript(e.ctx, tenant, "cv_f", 0, 0)
		e.ok(err)
		e.purge(e.remove("cv_a"))
		got, err := e.Transcript(e.ctx, tenant, "cv_f", 0, 0)
		e.ok(err)
		if !reflect.DeepEqual(got, want) || got[0].RunID != ids[0] {
			e.Fatalf("items\n%+v, want\n%+v", got, want)
		}
		for run, n := range map[string]int{ids[0]: 2, ids[1]: 4, "": 4} {
			c, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_f", RunID: run, ID: "cv_g" + run})
			e.ok(err)
			items, err := e.Transcript(e.ctx, tenant, c.ID, 0, 0)
			e.ok(err)
			if !reflect.DeepEqual(items, want[:n]) {
				e.Fatalf("fork after %q has\n%+v", run, items)
			}
		}
		e.purge(e.remove("cv_f"))
		_, err = e.GetConversation(e.ctx, tenant, "cv_f")
		e.is(err, store.ErrNotFound)
		if items, err := e.Transcript(e.ctx, tenant, "cv_g", 0, 0); err != nil || len(items) != 4 {
			e.Fatalf("%d items, %v", len(items), err)
		}
		if n := len(e.conversations(store.ConversationList{TenantID: tenant})); n != 3 {
			e.Fatalf("%d conversations", n)
		}
	}},
	{"what cannot be forked is refused and leaves nothing", func(e *env) {
		ids := e.wholeConversation("cv_a", 1)
		other := e.wholeConversation("cv_b", 1)
		open := e.create("cv_a").Run
		onlyOpen := e.create("cv_c").Run
		fork := func(tenant, conversation, run, id string) error {
			_, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: conversation, RunID: run, ID: id})
			return err
		}
		e.is(fork("tn_2", "cv_a", "", "cv_f"), store.ErrNotFound)
		e.is(fork(tenant, "cv_none", "", "cv_f"), store.ErrNotFound)
		e.is(fork(tenant, "cv_a", other[0], "cv_f"), store.ErrNotFound)
		e.is(fork(tenant, "cv_a", "run_none", "cv_f"), store.ErrNotFound)
		e.conflict(fork(tenant, "cv_a", open.ID, "cv_f"), "running")
		e.conflict(fork(tenant, "cv_c", "", "cv_f"), "running")
		if err := fork(tenant, "cv_a", ids[0], "cv_b"); err == nil {
			e.Fatal("an id in use was taken")
		}
		if err := fork(tenant, "cv_a", ids[0], ""); err == nil {
			e.Fatal("a fork without an id was made")
		}
		if list, err := e.Deletions(e.ctx, 10); err != nil || len(list) != 0 {
			e.Fatalf("deletions %+v, %v", list, err)
		}
		// The last run that has ended is forked while another is at work.
		e.ok(fork(tenant, "cv_a", "", "cv_f"))
		e.finish(open, store.StatusCompleted)
		e.finish(onlyOpen, store.StatusCompleted)
	}},
	{"a fork is seen when it is whole, and what an abandoned one leaves is a deletion", func(e *env) {
		r := e.create("cv_a").Run
		for i := range 600 {
			e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "k", Data: []byte(fmt.Sprintf(`"%d %s"`, i, strings.Repeat("x", 4000)))}}})
		}
		e.finish(r, store.StatusCompleted)
		hidden := func(id string) {
			e.Helper()
			_, err := e.GetConversation(e.ctx, tenant, id)
			e.is(err, store.ErrNotFound)
			if items, err := e.Transcript(e.ctx, tenant, id, 0, 0); err != nil || len(items) != 0 {
				e.Fatalf("%d items, %v", len(items), err)
			}
			if got := e.conversations(store.ConversationList{TenantID: tenant}); slices.Contains(got, id) {
				e.Fatalf("conversations %v", got)
			}
		}
		_, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_a", ID: "cv_f", Prepare: func(context.Context) error {
			hidden("cv_f")
			if list, err := e.Deletions(e.ctx, 10); err != nil || len(list) != 0 {
				e.Errorf("a fork in the making is a deletion: %+v, %v", list, err)
			}
			return nil
		}})
		e.ok(err)
		items, err := e.Transcript(e.ctx, tenant, "cv_f", 599, 0)
		e.ok(err)
		if len(items) != 1 || !strings.HasPrefix(string(items[0].Data), `"599 `) {
			e.Fatalf("the last of 600 items: %d", len(items))
		}
		boom := errors.New("boom")
		_, err = e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_a", ID: "cv_g", Prepare: func(context.Context) error { return boom }})
		e.is(err, boom)
		hidden("cv_g")
		e.reopen()
		hidden("cv_g")
		list, err := e.Deletions(e.ctx, 10)
		e.ok(err)
		if len(list) != 1 || list[0].ConversationID != "cv_g" || !list[0].Files {
			e.Fatalf("deletions %+v", list)
		}
		e.ok(e.FilesRemoved(e.ctx, list[0]))
		e.purge(list[0])
		// An origin that is deleted in the meantime gives none either.
		_, err = e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_a", ID: "cv_h", Prepare: func(context.Context) error {
			e.purge(e.remove("cv_a"))
			return nil
		}})
		e.is(err, store.ErrNotFound)
		hidden("cv_h")
	}},
}
