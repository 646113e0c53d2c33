package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

var conversationTests = []test{
	{"a conversation is what its runs add up to", testSums},
	{"120 conversations come in pages by their last runs, newest first, each once", testConversationPages},
	{"conversations are listed by tenant and by the agent of their last run", func(e *env) {
		for i, agent := range []string{"", "ag_1", "ag_2", "ag_1"} {
			_, err := e.CreateRun(e.ctx, store.NewRun{ID: e.id("run"), TenantID: tenant, ConversationID: fmt.Sprint("cv_", i), AgentID: agent})
			e.ok(err)
		}
		_, err := e.CreateRun(e.ctx, store.NewRun{ID: "run_x", TenantID: "tn_2", ConversationID: "cv_0", AgentID: "ag_1"})
		e.ok(err)
		_, err = e.CreateRun(e.ctx, store.NewRun{ID: "run_y", TenantID: tenant, ConversationID: "cv_1", AgentID: "ag_2"})
		e.ok(err)
		for _, tc := range []struct {
			o    store.ConversationList
			want []string
		}{
			{store.ConversationList{TenantID: tenant}, []string{"cv_1", "cv_3", "cv_2", "cv_0"}},
			{store.ConversationList{TenantID: tenant, AgentID: "ag_1"}, []string{"cv_3"}},
			{store.ConversationList{TenantID: tenant, AgentID: "ag_2"}, []string{"cv_1", "cv_2"}},
			{store.ConversationList{TenantID: tenant, AgentID: "ag_9"}, nil},
			{store.ConversationList{TenantID: "tn_2"}, []string{"cv_0"}},
			{store.ConversationList{TenantID: "tn_3"}, nil},
		} {
			if got := e.conversations(tc.o); !slices.Equal(got, tc.want) {
				e.Errorf("%+v lists %v, want %v", tc.o, got, tc.want)
			}
		}
		_, err = e.GetConversation(e.ctx, "tn_3", "cv_0")
		e.is(err, store.ErrNotFound)
		for _, limit := range []int{-1, 201} {
			if _, _, err := e.ListConversations(e.ctx, store.ConversationList{TenantID: tenant, Limit: limit}); err == nil {
				e.Errorf("limit %d was taken", limit)
			}
		}
		_, _, err = e.ListConversations(e.ctx, store.ConversationList{TenantID: tenant, Cursor: "x"})
		e.is(err, store.ErrBadCursor)
	}},
	{"a transcript comes in pages by count and by size", func(e *env) {
		r := e.leased()
		large := []byte(`"` + strings.Repeat("x", store.PageBytes/2) + `"`)
		for _, data := range [][]byte{[]byte(`1`), large, large, large, []byte(`2`)} {
			_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "k", Data: data}}})
			e.ok(err)
		}
		var sizes []int
		for after := int64(0); ; {
			page, err := e.Transcript(e.ctx, tenant, r.ConversationID, after, 0)
			e.ok(err)
			if len(page) == 0 {
				break
			}
			for _, it := range page {
				if after++; it.Idx != after {
					e.Fatalf("item %d follows %d", it.Idx, after-1)
				}
			}
			sizes = append(sizes, len(page))
		}
		if !slices.Equal(sizes, []int{3, 2}) {
			e.Fatalf("pages of %v items", sizes)
		}
		if page, err := e.Transcript(e.ctx, tenant, r.ConversationID, 1, 1); err != nil || len(page) != 1 || page[0].Idx != 2 {
			e.Fatalf("%d items, %v", len(page), err)
		}
	}},
	{"events come in pages by size, and none is skipped", func(e *env) {
		r := e.leased()
		text := strings.Repeat("x", store.PageBytes/4)
		for range 9 {
			_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: []store.NewEvent{delta(r, text)}})
			e.ok(err)
		}
		seen, pages := int64(0), 0
		for ; ; pages++ {
			page, err := e.Events(e.ctx, r.ID, seen, 0)
			e.ok(err)
			if len(page) == 0 {
				break
			}
			size := 0
			for _, ev := range page {
				if seen++; ev.Seq != seen {
					e.Fatalf("event %d follows %d", ev.Seq, seen-1)
				}
				size += len(ev.Payload)
			}
			if size >= store.PageBytes+len(text)+1000 {
				e.Fatalf("a page of %d bytes", size)
			}
		}
		if seen != 10 || pages < 3 {
			e.Fatalf("%d events in %d pages", seen, pages)
		}
	}},
	{"a run takes no more messages than it may have unread", func(e *env) {
		r := e.leased()
		for range store.MaxSteering {
			_, err := e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Text: "x"})
			e.ok(err)
		}
		_, err := e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Text: "one more"})
		e.is(err, store.ErrSteeringFull)
		msgs, err := e.Steering(e.ctx, r.ID)
		e.ok(err)
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, SteerDelivered: msgs[0].ID})
		e.ok(err)
		_, err = e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Text: "one more"})
		e.ok(err)
	}},
}

// conversations lists ids, all pages.
func (e *env) conversations(o store.ConversationList) []string {
	e.Helper()
	var ids []string
	for {
		list, next, err := e.ListConversations(e.ctx, o)
		e.ok(err)
		for _, c := range list {
			ids = append(ids, c.ID)
		}
		if next == "" {
			return ids
		}
		o.Cursor = next
	}
}

func testSums(e *env) {
	prompt := "first\n\tline " + strings.Repeat("é", store.MaxTitle)
	c, err := e.CreateRun(e.ctx, store.NewRun{ID: "run_1", TenantID: tenant, ConversationID: "cv_a", AgentID: "ag_1", Prompt: prompt, Lease: true})
	e.ok(err)
	run := c.Run
	for i, status := range []store.Status{store.StatusFailed, store.StatusCompleted} {
		e.advance(time.Minute)
		_, err := e.submit(store.Batch{RunID: run.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "prompt", Data: []byte(`1`)}, {Kind: "answer", Data: []byte(`2`)}},
			Update: &store.RunUpdate{
				Usage: &event.UsageTotals{PromptTokensTotal: 10, CompletionTokensTotal: 1, CachedTokensTotal: 2, ReasoningTokensTotal: 3, TotalTokens: 11, LastTurnTokens: int64(i)},
				Cost:  &event.CostTotals{CostUSDTotal: 0.5, LastTurnCostUSD: float64(i), CostStatus: []event.CostStatus{event.CostUnpricedModel, event.CostAvailable}[i]},
			}})
		e.ok(err)
		e.finish(run, status)
		if i == 0 {
			c, err := e.CreateRun(e.ctx, store.NewRun{ID: "run_2", TenantID: tenant, ConversationID: "cv_a", AgentID: "ag_2", Prompt: "second", Lease: true})
			e.ok(err)
			run = c.Run
		}
	}
	for range 2 {
		got, err := e.GetConversation(e.ctx, tenant, "cv_a")
		e.ok(err)
		if len(got.Title) > store.MaxTitle || !strings.HasPrefix(got.Title, "first line é") || !strings.HasSuffix(got.Title, "é…") {
			e.Fatalf("title %q", got.Title)
		}
		title := got.Title
		got.Title = ""
		want := store.Conversation{
			ID: "cv_a", TenantID: tenant, AgentID: "ag_2", CreatedAt: start, UpdatedAt: start.Add(2 * time.Minute), Runs: 2,
			Items: map[string]int{"prompt": 2, "answer": 2}, LastRunID: "run_2", LastStatus: store.StatusCompleted,
			Usage: event.UsageTotals{PromptTokensTotal: 20, CompletionTokensTotal: 2, CachedTokensTotal: 4, ReasoningTokensTotal: 6, TotalTokens: 22, LastTurnTokens: 1},
			Cost:  event.CostTotals{CostUSDTotal: 1, LastTurnCostUSD: 1, CostStatus: event.CostUnpricedModel},
		}
		if !reflect.DeepEqual(got, want) {
			e.Fatalf("conversation\n%+v, want\n%+v", got, want)
		}
		list, _, err := e.ListConversations(e.ctx, store.ConversationList{TenantID: tenant})
		e.ok(err)
		want.Items, want.Title = nil, title
		if len(list) != 1 || !reflect.DeepEqual(list[0], want) {
			e.Fatalf("listed\n%+v, want\n%+v", list, want)
		}
		e.reopen()
	}
}

func testConversationPages(e *env) {
	var want []string
	for i := range 120 {
		r := e.create(fmt.Sprint("cv_", i)).Run
		e.finish(r, store.StatusCompleted)
		want = append(want, r.ConversationID)
	}
	// Activity moves a conversation to the front; a fork stands where it was made.
	e.finish(e.create("cv_7").Run, store.StatusCompleted)
	want = append(slices.DeleteFunc(want, func(id string) bool { return id == "cv_7" }), "cv_7")
	_, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_3", ID: "cv_fork"})
	e.ok(err)
	e.finish(e.create("cv_last").Run, store.StatusCompleted)
	want = append(want, "cv_fork", "cv_last")
	slices.Reverse(want)
	for _, limit := range []int{0, 1, 7, 200} {
		if got := e.conversations(store.ConversationList{TenantID: tenant, Limit: limit}); !slices.Equal(got, want) {
			e.Fatalf("limit %d: %d conversations in another order or not once: %v", limit, len(got), got)
		}
	}
}

var deletionTests = []test{
	{"a deleted conversation is gone at once for every reader", testGone},
	{"open runs refuse a deletion and are named, oldest first", func(e *env) {
		r := e.create("cv_a").Run
		behind := e.create("cv_a").Run
		_, err := e.DeleteConversation(e.ctx, tenant, "cv_a")
		var open *store.OpenRunsError
		if !errors.As(err, &open) || !slices.Equal(open.Runs, []string{r.ID, behind.ID}) || open.ConversationID != "cv_a" {
			e.Fatalf("error is %v", err)
		}
		behind = e.woken(behind, e.finish(r, store.StatusCompleted))
		e.ask(behind)
		e.park(behind, store.StatusWaitingForApproval)
		if _, err = e.DeleteConversation(e.ctx, tenant, "cv_a"); !errors.As(err, &open) || !slices.Equal(open.Runs, []string{behind.ID}) {
			e.Fatalf("error is %v", err)
		}
		_, err = e.DeleteConversation(e.ctx, "tn_2", "cv_a")
		e.is(err, store.ErrNotFound)
		if e.get(r.ID).ID != r.ID {
			e.Fatal("a refused deletion removed something")
		}
	}},
	{"the id of a deleted conversation begins afresh at once, and purging the old one leaves the new one whole", func(e *env) {
		old := e.wholeConversation("cv_a", 3)
		d := e.remove("cv_a")
		fresh := e.wholeConversation("cv_a", 2)
		e.purge(d)
		for _, id := range old {
			_, err := e.GetRun(e.ctx, id)
			e.is(err, store.ErrNotFound)
		}
		c, err := e.GetConversation(e.ctx, tenant, "cv_a")
		e.ok(err)
		items, err := e.Transcript(e.ctx, tenant, "cv_a", 0, 0)
		e.ok(err)
		if c.Runs != 2 || c.LastRunID != fresh[1] || len(items) != 4 || items[0].Idx != 1 || items[0].RunID != fresh[0] {
			e.Fatalf("the new conversation is %+v with %+v", c, items)
		}
		for _, id := range fresh {
			if n := len(e.log(id)); n != 5 {
				e.Fatalf("run %s has %d events", id, n)
			}
		}
		if v, ok, err := e.MemoryGet(e.ctx, tenant, tool.MemoryConversation, "cv_a", "note"); err != nil || !ok || v != "of "+fresh[1] {
			e.Fatalf("note %q, %v, %v", v, ok, err)
		}
	}},
	{"purging ends, in bounded steps, also over a restart, and leaves nothing", func(e *env) {
		r := e.create("cv_big").Run
		for range 60 {
			var events []store.NewEvent
			var items []store.TranscriptItem
			for range 20 {
				events = append(events, delta(r, strings.Repeat("x", 2000)))
				items = append(items, store.TranscriptItem{Kind: "k", Data: []byte(`"` + strings.Repeat("y", 2000) + `"`)})
			}
			_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Events: events, Transcript: items})
			e.ok(err)
		}
		e.finish(r, store.StatusCompleted)
		e.wholeConversation("cv_b", 1)
		d := e.remove("cv_big")
		steps := 0
		for more := true; more; steps++ {
			var err error
			more, err = e.Purge(e.ctx, d)
			e.ok(err)
			if steps%3 == 1 {
				e.reopen()
				list, err := e.Deletions(e.ctx, 10)
				e.ok(err)
				if more && (len(list) != 1 || list[0] != d) {
					e.Fatalf("deletions %+v", list)
				}
			}
		}
		if steps < 5 {
			e.Fatalf("5 MB went in %d steps", steps)
		}
		if list, err := e.Deletions(e.ctx, 10); err != nil || len(list) != 0 {
			e.Fatalf("deletions %+v, %v", list, err)
		}
		if more, err := e.Purge(e.ctx, d); err != nil || more {
			e.Fatalf("purged again: %v, %v", more, err)
		}
		if got := e.conversations(store.ConversationList{TenantID: tenant}); !slices.Equal(got, []string{"cv_b"}) {
			e.Fatalf("conversations %v", got)
		}
	}},
	{"what lies outside of the store is removed before the rows are", func(e *env) {
		e.wholeConversation("cv_a", 1)
		d, err := e.DeleteConversation(e.ctx, tenant, "cv_a")
		e.ok(err)
		if !d.Files {
			e.Fatalf("deletion %+v", d)
		}
		if _, err := e.Purge(e.ctx, d); err == nil {
			e.Fatal("the rows were purged first")
		}
		e.reopen()
		list, err := e.Deletions(e.ctx, 1)
		e.ok(err)
		if len(list) != 1 || list[0] != d {
			e.Fatalf("deletions %+v, want %+v", list, d)
		}
		e.ok(e.FilesRemoved(e.ctx, d))
		e.purge(d)
	}},
	{"a repeated idempotency key of a deleted run makes a new run", func(e *env) {
		n := store.NewRun{ID: "run_1", TenantID: tenant, ConversationID: "cv_a", IdempotencyKey: "k", BodyDigest: "d", Lease: true}
		c, err := e.CreateRun(e.ctx, n)
		e.ok(err)
		e.finish(c.Run, store.StatusCompleted)
		d := e.remove("cv_a")
		e.purge(d)
		e.reopen()
		_, err = e.CreateRun(e.ctx, store.NewRun{ID: "run_other", TenantID: tenant, ConversationID: "cv_b"})
		e.ok(err)
		n.ID = "run_2"
		if c, err = e.CreateRun(e.ctx, n); err != nil || c.Existed || c.Run.ID != "run_2" {
			e.Fatalf("created %+v, %v", c, err)
		}
	}},
	{"old conversations are those without a change since then, oldest first", func(e *env) {
		for i := range 5 {
			e.finish(e.create(fmt.Sprint("cv_", i)).Run, store.StatusCompleted)
		}
		open := e.create("cv_open").Run
		_, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_0", ID: "cv_fork"})
		e.ok(err)
		e.advance(48 * time.Hour)
		e.finish(e.create("cv_1").Run, store.StatusCompleted)
		cut := e.clock().Add(-time.Hour)
		for _, tc := range []struct {
			tenant string
			before time.Time
			limit  int
			want   []string
		}{
			{tenant, cut, 10, []string{"cv_0", "cv_2", "cv_3", "cv_4", "cv_fork"}},
			{tenant, cut, 2, []string{"cv_0", "cv_2"}},
			{tenant, start, 10, nil},
			{tenant, cut, 0, nil},
			{"tn_2", cut, 10, nil},
		} {
			got, err := e.OldConversations(e.ctx, tc.tenant, tc.before, tc.limit)
			e.ok(err)
			if !slices.Equal(got, tc.want) {
				e.Errorf("%+v: %v", tc, got)
			}
		}
		e.finish(open, store.StatusCompleted)
	}},
}

// wholeConversation makes ended runs of a conversation with everything that belongs to one, and returns their ids.
func (e *env) wholeConversation(id string, runs int) []string {
	e.Helper()
	var ids []string
	for range runs {
		r := e.create(id).Run
		a := e.ask(r)
		e.question(r)
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, State: []byte(`{}`), Transcript: []store.TranscriptItem{
			{Kind: "prompt", Data: []byte(`"of ` + r.ID + `"`)}, {Kind: "answer", Data: []byte(`{"raw": "kept  as\tit is"}`)},
		}})
		e.ok(err)
		_, _, err = e.Decide(e.ctx, store.Decision{ApprovalID: a.ID, TenantID: tenant, Approve: true, Scope: event.ScopeSession})
		e.ok(err)
		_, err = e.submit(store.Batch{RunID: r.ID, Epoch: 1, Consume: a.ID})
		e.ok(err)
		e.ok(e.MemorySet(e.ctx, tenant, tool.MemoryRun, r.ID, "note", "x"))
		e.ok(e.MemorySet(e.ctx, tenant, tool.MemoryConversation, id, "note", "of "+r.ID))
		_, err = e.Steer(e.ctx, tenant, r.ID, store.SteerInput{Text: "x"})
		e.ok(err)
		e.finish(r, store.StatusCompleted)
		ids = append(ids, r.ID)
	}
	return ids
}

// remove deletes a conversation, with its files.
func (e *env) remove(id string) store.Deletion {
	e.Helper()
	d, err := e.DeleteConversation(e.ctx, tenant, id)
	e.ok(err)
	e.ok(e.FilesRemoved(e.ctx, d))
	d.Files = false
	return d
}

func (e *env) purge(d store.Deletion) {
	e.Helper()
	for more := true; more; {
		var err error
		more, err = e.Purge(e.ctx, d)
		e.ok(err)
	}
}

func testGone(e *env) {
	ids := e.wholeConversation("cv_a", 2)
	other := e.wholeConversation("cv_b", 1)
	approvals, _, err := e.ListApprovals(e.ctx, store.ListOptions{TenantID: tenant, RunID: ids[0]})
	e.ok(err)
	_, stop := e.Watch(ids[1])
	defer stop()
	e.log(ids[1])
	for range 2 { // before and after the rows are gone
		if _, err := e.DeleteConversation(e.ctx, tenant, "cv_a"); err == nil {
			list, err := e.Deletions(e.ctx, 10)
			e.ok(err)
			if len(list) != 1 || list[0].ConversationID != "cv_a" || list[0].TenantID != tenant {
				e.Fatalf("deletions %+v", list)
			}
		} else {
			e.is(err, store.ErrNotFound)
		}
		_, err := e.GetConversation(e.ctx, tenant, "cv_a")
		e.is(err, store.ErrNotFound)
		_, err = e.LastRun(e.ctx, tenant, "cv_a")
		e.is(err, store.ErrNotFound)
		_, err = e.GetApproval(e.ctx, approvals[0].ID)
		e.is(err, store.ErrNotFound)
		_, _, err = e.Decide(e.ctx, store.Decision{ApprovalID: approvals[0].ID, TenantID: tenant})
		e.is(err, store.ErrNotFound)
		_, err = e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_a", ID: "cv_f"})
		e.is(err, store.ErrNotFound)
		for _, id := range ids {
			_, err = e.GetRun(e.ctx, id)
			e.is(err, store.ErrNotFound)
			_, err = e.Steer(e.ctx, tenant, id, store.SteerInput{Text: "x"})
			e.is(err, store.ErrNotFound)
			_, _, err = e.RequestCancel(e.ctx, tenant, id, "me")
			e.is(err, store.ErrNotFound)
			if n := len(e.log(id)); n != 0 {
				e.Fatalf("run %s has %d events", id, n)
			}
			if list, err := e.RunApprovals(e.ctx, id); err != nil || len(list) != 0 {
				e.Fatalf("approvals %+v, %v", list, err)
			}
			if list, err := e.RunQuestions(e.ctx, id); err != nil || len(list) != 0 {
				e.Fatalf("questions %+v, %v", list, err)
			}
			if list, err := e.Steering(e.ctx, id); err != nil || len(list) != 0 {
				e.Fatalf("messages %+v, %v", list, err)
			}
		}
		if list, err := e.SessionApprovals(e.ctx, tenant, "cv_a"); err != nil || len(list) != 0 {
			e.Fatalf("session approvals %+v, %v", list, err)
		}
		if list, err := e.Transcript(e.ctx, tenant, "cv_a", 0, 0); err != nil || len(list) != 0 {
			e.Fatalf("transcript %+v, %v", list, err)
		}
		if keys, err := e.MemoryList(e.ctx, tenant, tool.MemoryConversation, "cv_a"); err != nil || len(keys) != 0 {
			e.Fatalf("notes %v, %v", keys, err)
		}
		if got := e.conversations(store.ConversationList{TenantID: tenant}); !slices.Equal(got, []string{"cv_b"}) {
			e.Fatalf("conversations %v", got)
		}
		runs, _, err := e.ListRuns(e.ctx, store.ListOptions{TenantID: tenant})
		e.ok(err)
		if len(runs) != 1 || runs[0].ID != other[0] {
			e.Fatalf("runs %+v", runs)
		}
		if list, _, err := e.ListApprovals(e.ctx, store.ListOptions{TenantID: tenant}); err != nil || len(list) != 1 || list[0].RunID != other[0] {
			e.Fatalf("approvals %+v, %v", list, err)
		}
		deletions, err := e.Deletions(e.ctx, 10)
		e.ok(err)
		for _, d := range deletions {
			e.ok(e.FilesRemoved(e.ctx, d))
			d.Files = false
			e.purge(d)
		}
	}
	for _, id := range ids {
		if keys, err := e.MemoryList(e.ctx, tenant, tool.MemoryRun, id); err != nil || len(keys) != 0 {
			e.Fatalf("notes of run %s: %v, %v", id, keys, err)
		}
	}
	if n := len(e.log(other[0])); n != 5 {
		e.Fatalf("the other conversation has %d events", n)
	}
}
