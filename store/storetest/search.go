package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/quick"

	"github.com/harness-go/harness/store"
)

var searchTests = []test{
	{"the feed has every item once, in order, of all conversations, also after deletions", testFeed},
	{"what was said is found, the best first, with what was found marked", func(e *env) {
		a := e.say(tenant, "cv_a", "the quick brown fox jumps over the lazy dog")
		b := e.say(tenant, "cv_b", "a fox and a fox make two foxes; the Café is open")
		e.say("tn_2", "cv_a", "a fox of another tenant")
		hits := e.found(store.SearchQuery{TenantID: tenant, Text: "fox"})
		if len(hits) != 2 || hits[0].RunID != b || hits[1].RunID != a {
			e.Fatalf("found %+v", hits)
		}
		h := hits[1]
		if h.ConversationID != "cv_a" || h.Title != "do it" || h.Idx != 1 || h.Role != "user" || !h.At.Equal(start) {
			e.Fatalf("hit %+v", h)
		}
		want := []store.SnippetPart{{Text: "the quick brown "}, {Text: "fox", Match: true}, {Text: " jumps over the lazy dog"}}
		if !slices.Equal(h.Snippet, want) {
			e.Fatalf("snippet %+v", h.Snippet)
		}
		for text, want := range map[string][]string{
			"FOX dog":           {a},
			`"quick brown"`:     {a},
			`"brown quick"`:     nil,
			"cafe":              {b},
			"caf*":              {b},
			"caf":               nil,
			"fox -dog":          {b},
			"fox -\"lazy dog\"": {b},
			"fox, dog!":         {a},
			"absent":            nil,
			"":                  nil,
			"  \" ":             nil,
		} {
			var got []string
			for _, h := range e.found(store.SearchQuery{TenantID: tenant, Text: text}) {
				got = append(got, h.RunID)
			}
			if !slices.Equal(got, want) {
				e.Errorf("%q finds %v, want %v", text, got, want)
			}
		}
	}},
	{"a text in the language of an index is read as words, and never fails", func(e *env) {
		e.say(tenant, "cv_a", "OR AND NOT NEAR body owner rank x y")
		e.say("tn_2", "cv_a", "secret")
		for _, text := range []string{
			`"`, `""`, `"""`, `x OR`, `(`, `)`, `x) OR (owner:*`, `owner:secret`, `body : secret`, `* *`, `-`, `--`, `-x`, `^x`, `NEAR(x y, 2)`,
			`{body owner}: x`, `x + y`, `'; DROP TABLE texts; --`, "x\x00y", "\xff\xfe", strings.Repeat("x ", 3000), strings.Repeat("(", 3000), "日本語", "́",
		} {
			for _, h := range e.found(store.SearchQuery{TenantID: tenant, Text: text, Tools: true}) {
				if h.ConversationID != "cv_a" || h.Title != "do it" || strings.Contains(fmt.Sprint(h.Snippet), "secret") {
					e.Errorf("%q finds %+v", text, h)
				}
			}
		}
		e.ok(quick.Check(func(text string) bool {
			_, _, err := e.Search(e.ctx, store.SearchQuery{TenantID: tenant, Text: text})
			return err == nil
		}, nil))
		if n := len(e.found(store.SearchQuery{TenantID: tenant, Text: "or AND Not near"})); n != 1 {
			e.Errorf("plain words find %d", n)
		}
	}},
	{"texts of tools are found where they are asked for", func(e *env) {
		r := e.leased()
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "k", Data: []byte(`1`)}}})
		e.ok(err)
		feed, err := e.TranscriptFeed(e.ctx, 0, 0)
		e.ok(err)
		e.ok(e.Index(e.ctx, []store.SearchText{{Cursor: feed[0].Cursor, Role: "tool", Tool: "bash go test ./..."}}, feed[0].Cursor))
		if hits := e.found(store.SearchQuery{TenantID: tenant, Text: "bash"}); len(hits) != 0 {
			e.Fatalf("found %+v", hits)
		}
		if hits := e.found(store.SearchQuery{TenantID: tenant, Text: "bash", Tools: true}); len(hits) != 1 || hits[0].Role != "tool" || !hits[0].Snippet[0].Match {
			e.Fatalf("found %+v", hits)
		}
	}},
	{"hits come in pages, each once", func(e *env) {
		for i := range 45 {
			e.say(tenant, fmt.Sprint("cv_", i%7), fmt.Sprintf("needle %d %s", i, strings.Repeat("hay ", i%5)))
		}
		for _, limit := range []int{0, 1, 7, 100} {
			seen := map[string]bool{}
			hits := e.found(store.SearchQuery{TenantID: tenant, Text: "needle", Limit: limit})
			for _, h := range hits {
				seen[fmt.Sprint(h.ConversationID, h.Idx)] = true
			}
			if len(hits) != 45 || len(seen) != 45 {
				e.Fatalf("limit %d: %d hits, %d different", limit, len(hits), len(seen))
			}
		}
		_, _, err := e.Search(e.ctx, store.SearchQuery{TenantID: tenant, Text: "needle", Cursor: "x"})
		e.is(err, store.ErrBadCursor)
		if _, _, err := e.Search(e.ctx, store.SearchQuery{TenantID: tenant, Text: "needle", Limit: 101}); err == nil {
			e.Error("limit 101 was taken")
		}
	}},
	{"the index keeps its place over a restart, and takes a text again without doubling it", func(e *env) {
		e.say(tenant, "cv_a", "needle")
		at, err := e.Indexed(e.ctx)
		e.ok(err)
		e.reopen()
		again, err := e.Indexed(e.ctx)
		e.ok(err)
		if at == 0 || again != at {
			e.Fatalf("cursor %d, then %d", at, again)
		}
		e.ok(e.Index(e.ctx, []store.SearchText{{Cursor: at, Role: "user", Body: "needle again"}}, at-1))
		if hits := e.found(store.SearchQuery{TenantID: tenant, Text: "needle"}); len(hits) != 1 || len(hits[0].Snippet) != 2 {
			e.Fatalf("found %+v", hits)
		}
		if now, err := e.Indexed(e.ctx); err != nil || now != at {
			e.Fatalf("the cursor went to %d, %v", now, err)
		}
	}},
	{"a deleted conversation is not found, and a late text of it is not taken in", func(e *env) {
		e.say(tenant, "cv_a", "needle one")
		e.say(tenant, "cv_b", "needle two")
		feed, err := e.TranscriptFeed(e.ctx, 0, 0)
		e.ok(err)
		d := e.remove("cv_a")
		if hits := e.found(store.SearchQuery{TenantID: tenant, Text: "needle"}); len(hits) != 1 || hits[0].ConversationID != "cv_b" {
			e.Fatalf("found %+v", hits)
		}
		late := []store.SearchText{{Cursor: feed[0].Cursor, Role: "user", Body: "needle one"}}
		e.ok(e.Index(e.ctx, late, feed[0].Cursor))
		e.purge(d)
		e.ok(e.Index(e.ctx, late, feed[0].Cursor))
		e.say(tenant, "cv_a", "another")
		if hits := e.found(store.SearchQuery{TenantID: tenant, Text: "needle", Limit: 1}); len(hits) != 1 || hits[0].ConversationID != "cv_b" {
			e.Fatalf("found %+v", hits)
		}
		if hits := e.found(store.SearchQuery{TenantID: tenant, Text: "another"}); len(hits) != 1 || hits[0].ConversationID != "cv_a" {
			e.Fatalf("found %+v", hits)
		}
	}},
	{"a fork is found by what it was copied from", func(e *env) {
		run := e.say(tenant, "cv_a", "needle")
		_, err := e.Fork(e.ctx, store.Fork{TenantID: tenant, ConversationID: "cv_a", ID: "cv_f"})
		e.ok(err)
		e.catchUp()
		e.purge(e.remove("cv_a"))
		hits := e.found(store.SearchQuery{TenantID: tenant, Text: "needle"})
		if len(hits) != 1 || hits[0].ConversationID != "cv_f" || hits[0].RunID != run || hits[0].Title != "do it" {
			e.Fatalf("found %+v", hits)
		}
	}},
}

// say runs one run of a conversation that says a text, takes it into the index and returns the run's id.
func (e *env) say(tenant, conversation, text string) string {
	e.Helper()
	c, err := e.CreateRun(e.ctx, store.NewRun{ID: e.id("run"), TenantID: tenant, ConversationID: conversation, Prompt: "do it", Lease: true})
	e.ok(err)
	_, err = e.submit(store.Batch{RunID: c.Run.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "said", Data: []byte(text)}}})
	e.ok(err)
	e.finish(c.Run, store.StatusCompleted)
	e.catchUp()
	return c.Run.ID
}

// catchUp indexes what is not indexed yet, as if an item were its text.
func (e *env) catchUp() {
	e.Helper()
	for {
		at, err := e.Indexed(e.ctx)
		e.ok(err)
		feed, err := e.TranscriptFeed(e.ctx, at, 3)
		e.ok(err)
		if len(feed) == 0 {
			return
		}
		var texts []store.SearchText
		for _, it := range feed {
			texts = append(texts, store.SearchText{Cursor: it.Cursor, Role: "user", Body: string(it.Data)})
		}
		e.ok(e.Index(e.ctx, texts, feed[len(feed)-1].Cursor))
	}
}

// found searches all pages.
func (e *env) found(q store.SearchQuery) []store.SearchHit {
	e.Helper()
	var all []store.SearchHit
	for {
		hits, next, err := e.Search(e.ctx, q)
		if err != nil {
			e.Fatalf("search for %q: %v", q.Text, err)
		}
		all = append(all, hits...)
		if next == "" {
			return all
		}
		q.Cursor = next
	}
}

func testFeed(e *env) {
	var wg sync.WaitGroup
	for i := range 8 {
		r := e.create(fmt.Sprint("cv_", i)).Run
		wg.Go(func() {
			for j := range 40 {
				rc := e.Submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "k", Data: fmt.Appendf(nil, "%d", j)}}})
				if j%9 == 0 {
					if _, err := rc.Wait(e.ctx); err != nil {
						e.Error(err)
					}
				}
			}
			if _, err := e.Finish(e.ctx, finishing(r, store.StatusCompleted)); err != nil {
				e.Error(err)
			}
		})
	}
	var last int64
	seen := map[string]int64{}
	read := func() {
		for {
			feed, err := e.TranscriptFeed(e.ctx, last, 7)
			e.ok(err)
			if len(feed) == 0 {
				return
			}
			for _, it := range feed {
				if it.Cursor <= last || it.Idx != seen[it.RunID]+1 {
					e.Fatalf("item %d of run %s at %d, after %d at %d", it.Idx, it.RunID, it.Cursor, seen[it.RunID], last)
				}
				last, seen[it.RunID] = it.Cursor, it.Idx
			}
		}
	}
	read()
	wg.Wait()
	read()
	if len(seen) != 8 {
		e.Fatalf("items of %d runs", len(seen))
	}
	// The newest items go, and their cursors are not given away again.
	for i := range 8 {
		e.purge(e.remove(fmt.Sprint("cv_", i)))
	}
	for range 2 {
		r := e.create("cv_new").Run
		_, err := e.submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "k", Data: []byte(`1`)}}})
		e.ok(err)
		e.finish(r, store.StatusCompleted)
		feed, err := e.TranscriptFeed(e.ctx, last, 0)
		e.ok(err)
		if len(feed) != 1 || feed[0].RunID != r.ID {
			e.Fatalf("after deletions the feed has %+v", feed)
		}
		e.purge(e.remove("cv_new"))
		e.reopen()
	}
}
