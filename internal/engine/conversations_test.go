package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// talker answers each request with a thought and a number, in raw form too, and keeps what it was asked.
type talker struct {
	mu   sync.Mutex
	asks [][]string // the texts and raw items of each request
}

func (m *talker) Stream(_ context.Context, req model.Request) iter.Seq2[model.Part, error] {
	var ask []string
	for _, msg := range req.Messages {
		for _, p := range msg.Content {
			switch p := p.(type) {
			case ai.TextPart:
				ask = append(ask, string(msg.Role)+": "+p.Text)
				if p.Raw != nil {
					ask = append(ask, string(p.Raw.JSON))
				}
			case ai.ReasoningPart:
				ask = append(ask, string(msg.Role)+" thinks: "+p.Text)
			}
		}
	}
	m.mu.Lock()
	m.asks = append(m.asks, ask)
	n := len(m.asks)
	m.mu.Unlock()
	return func(yield func(model.Part, error) bool) {
		text := ai.TextPart{Text: fmt.Sprint("answer ", n), Raw: &ai.RawItem{Wire: "w", JSON: []byte(rawItem)}}
		_ = yield(model.Part{Kind: model.PartContent, Content: ai.ReasoningPart{Text: fmt.Sprint("thought ", n)}}, nil) &&
			yield(model.Part{Kind: model.PartContent, Content: text}, nil) &&
			yield(model.Part{Kind: model.PartFinish, Finish: finishStop}, nil)
	}
}

func (m *talker) last() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asks[len(m.asks)-1]
}

// talking is a rig whose model is a talker.
func talking(t *testing.T, change func(*engine.Options)) (*rig, *talker) {
	t.Helper()
	m := &talker{}
	r := &rig{t: t, dir: t.TempDir(), workspace: t.TempDir(), me: engine.Local(), model: m, change: change}
	r.open()
	t.Cleanup(func() { r.close() })
	return r, m
}

// run submits a run of a conversation and waits for its end.
func (r *rig) run(conversation, prompt string) store.Run {
	r.t.Helper()
	run := r.submit(engine.RunRequest{Prompt: prompt, ConversationID: conversation})
	all := r.finish(run.ID)
	if last := all[len(all)-1]; last.Type != event.RunCompleted {
		r.t.Fatalf("the run ended with %s", last.Payload)
	}
	return run
}

// messages reads all pages.
func (r *rig) messages(conversation string, limit int) []engine.Message {
	r.t.Helper()
	var all []engine.Message
	for after := int64(0); ; {
		page, next, err := r.engine.Messages(context.Background(), r.me, conversation, after, limit)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(page) > limit {
			r.t.Fatalf("a page of %d messages", len(page))
		}
		if all = append(all, page...); next == 0 {
			return all
		}
		after = next
	}
}

func refusedAs(t *testing.T, err error, kind engine.ErrorKind, code string) *engine.Error {
	t.Helper()
	var e *engine.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Code != code {
		t.Fatalf("error is %v (%+v), want %s", err, e, code)
	}
	return e
}

func TestMessagesAreAConversationAsPeopleReadIt(t *testing.T) {
	r := newRig(t, nil)
	r.file("f.txt", "content\n")
	r.run("talk", script(`[{"text":"I look.","tool":"read","in":{"path":"f.txt"}},{"tool":"read","in":{"path":"none"}},{"text":"It says content."}]`))
	r.run("talk", script(`[{"text":"bye"}]`))
	for _, limit := range []int{1, 2, 100} {
		got := r.messages("talk", limit)
		var lines []string
		for _, m := range got {
			line := m.Role + ": " + strings.TrimPrefix(m.Text, "do it ")
			if m.Role == "user" {
				line = m.Role
			}
			for _, c := range m.ToolCalls {
				line += " [" + c.Tool + " " + c.Arguments
				switch {
				case c.Result == nil:
					line += " without result"
				case c.Result.Error != "":
					line += " failed"
				case strings.Contains(c.Result.Output, "content"):
					line += " gave content"
				}
				line += "]"
			}
			lines = append(lines, fmt.Sprintf("%d %s", m.Step, line))
		}
		want := []string{
			"0 user", `1 assistant: I look. [read {"path":"f.txt"} gave content]`, `2 assistant:  [read {"path":"none"} failed]`,
			"3 assistant: It says content.", "0 user", "1 assistant: bye",
		}
		if !slices.Equal(lines, want) {
			t.Fatalf("limit %d:\n%s", limit, strings.Join(lines, "\n"))
		}
		for i, m := range got {
			if m.Time.IsZero() || m.RunID == "" || (i > 0 && m.ID <= got[i-1].ID) {
				t.Errorf("message %+v", m)
			}
		}
	}
	c, err := r.engine.Conversation(t.Context(), r.me, "talk")
	if err != nil || engine.MessageCount(c.Items) != 6 || c.Runs != 2 || c.Usage.TotalTokens == 0 {
		t.Errorf("conversation %+v, %v", c, err)
	}
	_, _, err = r.engine.Messages(t.Context(), r.me, "none", 0, 10)
	refusedAs(t, err, engine.KindNotFound, "not_found")
	_, _, err = r.engine.Messages(t.Context(), engine.Principal{TenantID: "other"}, "talk", 0, 10)
	refusedAs(t, err, engine.KindNotFound, "not_found")
}

// A fork goes on where its origin was: the model reads the same history, what a provider sent byte for byte, and the
// origin neither changes nor hears of it.
func TestAForkedConversationGoesOnAndTheOriginIsUntouched(t *testing.T) {
	r, m := talking(t, nil)
	first := r.run("talk", "one")
	r.run("talk", "two")
	before, err := r.store.Transcript(t.Context(), "default", "talk", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.engine.ForkConversation(t.Context(), r.me, "talk", engine.ForkRequest{RunID: first.ID})
	if err != nil {
		t.Fatal(err)
	}
	if f.ForkedFrom != "talk" || f.ForkedRun != first.ID || engine.MessageCount(f.Items) != 2 {
		t.Fatalf("fork %+v", f)
	}
	r.close()
	r.open()
	next := r.run(f.ID, "other two")
	want := []string{"user: one", "assistant thinks: thought 1", "assistant: answer 1", rawItem, "user: other two"}
	if got := m.last(); !slices.Equal(got, want) {
		t.Fatalf("the model read %q", got)
	}
	cont, err := r.engine.Continue(t.Context(), r.me, next.ID, engine.ContinueRequest{Prompt: "three"}, "")
	if err != nil {
		t.Fatal(err)
	}
	r.finish(cont.ID)
	if got := m.last(); len(got) != 9 || got[8] != "user: three" {
		t.Fatalf("the model read %q", got)
	}
	after, err := r.store.Transcript(t.Context(), "default", "talk", 0, 0)
	if err != nil || len(after) != len(before) {
		t.Fatalf("the origin has %d items, had %d (%v)", len(after), len(before), err)
	}
	copied, err := r.store.Transcript(t.Context(), "default", f.ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range after {
		if !bytes.Equal(after[i].Data, before[i].Data) {
			t.Errorf("item %d of the origin changed", i)
		}
		if after[i].RunID == first.ID && !bytes.Equal(copied[i].Data, before[i].Data) {
			t.Errorf("item %d of the fork differs", i)
		}
	}
	r.run("talk", "three")
	if got := m.last(); len(got) != 9 || got[4] != "user: two" || got[8] != "user: three" {
		t.Fatalf("the origin's model read %q", got)
	}
}

func TestAForkCanBeginAfterTheRunOfAMessageAndIsRefusedWithAReason(t *testing.T) {
	r := newRig(t, nil)
	r.run("talk", script(`[{"text":"a"}]`))
	r.run("talk", script(`[{"text":"b"}]`))
	msgs := r.messages("talk", 100)
	for i, n := range []int{2, 2, 4, 4} {
		f, err := r.engine.ForkConversation(t.Context(), r.me, "talk", engine.ForkRequest{Message: msgs[i].ID})
		if err != nil || engine.MessageCount(f.Items) != n {
			t.Fatalf("message %d: %+v, %v", i, f, err)
		}
	}
	fork := func(p engine.Principal, id string, req engine.ForkRequest) error {
		_, err := r.engine.ForkConversation(t.Context(), p, id, req)
		return err
	}
	refusedAs(t, fork(r.me, "none", engine.ForkRequest{}), engine.KindNotFound, "not_found")
	refusedAs(t, fork(engine.Principal{TenantID: "other"}, "talk", engine.ForkRequest{}), engine.KindNotFound, "not_found")
	refusedAs(t, fork(r.me, "talk", engine.ForkRequest{RunID: "run_none"}), engine.KindInvalid, "invalid_request")
	refusedAs(t, fork(r.me, "talk", engine.ForkRequest{Message: 1 << 40}), engine.KindInvalid, "invalid_request")
	refusedAs(t, fork(r.me, "talk", engine.ForkRequest{Message: -1}), engine.KindInvalid, "invalid_request")
	refusedAs(t, fork(r.me, "talk", engine.ForkRequest{RunID: msgs[0].RunID, Message: 1}), engine.KindInvalid, "invalid_request")
	open := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"bash","in":{"command":"ls"}},{"text":"x"}]`), ConversationID: "talk",
		Permissions: &tool.PermissionConfig{Approval: tool.ApprovalPolicyAll}})
	r.until(open.ID, has(event.RunWaitingForApproval))
	refusedAs(t, fork(r.me, "talk", engine.ForkRequest{RunID: open.ID}), engine.KindConflict, "run_not_finished")
	e := refusedAs(t, r.engine.DeleteConversation(t.Context(), r.me, "talk"), engine.KindConflict, "conversation_active")
	if fmt.Sprint(e.Details) != fmt.Sprint(map[string]any{"runs": []string{open.ID}}) {
		t.Errorf("details %v", e.Details)
	}
	if _, err := r.engine.Cancel(t.Context(), r.me, open.ID); err != nil {
		t.Fatal(err)
	}
	r.finish(open.ID)
}

// flood makes a run whose tool writes so much that the whole output is kept as an artifact, and returns its id.
func (r *rig) flood(me engine.Principal, conversation string) string {
	r.t.Helper()
	run, _, err := r.engine.Submit(context.Background(), me, engine.RunRequest{ConversationID: conversation,
		Prompt: script(`[{"tool":"bash","in":{"command":"seq 1 60000"}},{"text":"done"}]`)}, "")
	if err != nil {
		r.t.Fatal(err)
	}
	r.finish(run.ID)
	msgs, _, err := r.engine.Messages(context.Background(), me, conversation, 0, 100)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range msgs {
		for _, c := range m.ToolCalls {
			if c.Result != nil && c.Result.Artifact != "" {
				return c.Result.Artifact
			}
		}
	}
	r.t.Fatal("no artifact")
	return ""
}

// kept lists the artifacts that lie in the state directory.
func (r *rig) kept() []string {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, "artifacts", "*", "*"))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	slices.Sort(files)
	return files
}

func TestADeletedConversationLeavesNothingAndTakesNothingOfOthers(t *testing.T) {
	r := newRig(t, nil)
	other := engine.Principal{KeyID: "k", TenantID: "other", Scopes: []string{engine.ScopeAdmin}}
	mine := r.flood(r.me, "talk")
	theirs := r.flood(other, "talk")
	f, err := r.engine.ForkConversation(t.Context(), r.me, "talk", engine.ForkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{mine, mine, theirs}
	slices.Sort(want)
	if got := r.kept(); !slices.Equal(got, want) {
		t.Fatalf("artifacts %v, want %v", got, want)
	}
	if err := r.engine.DeleteConversation(t.Context(), r.me, "talk"); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, r.engine.DeleteConversation(t.Context(), r.me, "talk"), engine.KindNotFound, "not_found")
	if got := r.kept(); len(got) != 2 || !slices.Contains(got, mine) || !slices.Contains(got, theirs) {
		t.Fatalf("artifacts %v: the fork's and the other tenant's stay", got)
	}
	if got := r.messages(f.ID, 100); len(got) != 3 {
		t.Fatalf("the fork has %d messages", len(got))
	}
	if msgs, _, err := r.engine.Messages(t.Context(), other, "talk", 0, 100); err != nil || len(msgs) != 3 {
		t.Fatalf("the other tenant's has %d messages, %v", len(msgs), err)
	}
	r.run("talk", script(`[{"text":"anew"}]`))
	if got := r.messages("talk", 100); len(got) != 2 {
		t.Fatalf("the new conversation has %d messages", len(got))
	}
	r.nothingLeft()
}

// nothingLeft waits until all deletions are purged.
func (r *rig) nothingLeft() {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		list, err := r.store.Deletions(context.Background(), 10)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(list) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("not purged: %+v", list)
		}
	}
}

// What a crash leaves of a deletion or a fork is whole, or gone after the next start: the state directory is copied at
// each point, as a kill would leave it, and a node is started on the copy.
func TestACrashInADeletionOrAForkLeavesAWholeConversationOrNone(t *testing.T) {
	for _, point := range []string{"conversation.deleted", "conversation.purged", "conversation.copied"} {
		t.Run(point, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "state")
			var r *rig
			r = newRig(t, func(o *engine.Options) {
				o.Fault = func(p string) {
					if p != point || r == nil {
						return
					}
					if err := os.CopyFS(copied, os.DirFS(r.dir)); err != nil && !errors.Is(err, os.ErrExist) {
						t.Error(err)
					}
				}
			})
			artifact := r.flood(r.me, "talk")
			var err error
			if point == "conversation.copied" {
				_, err = r.engine.ForkConversation(t.Context(), r.me, "talk", engine.ForkRequest{})
			} else {
				err = r.engine.DeleteConversation(t.Context(), r.me, "talk")
			}
			if err != nil {
				t.Fatal(err)
			}
			r.nothingLeft()

			after := &rig{t: t, dir: copied, workspace: r.workspace, me: r.me}
			after.open()
			defer after.close()
			after.nothingLeft()
			list, _, err := after.engine.Conversations(t.Context(), after.me, store.ConversationList{})
			if err != nil {
				t.Fatal(err)
			}
			want, files := 0, 0
			if point == "conversation.copied" {
				want, files = 1, 1
				if msgs := after.messages("talk", 10); len(msgs) != 3 {
					t.Errorf("the origin has %d messages", len(msgs))
				}
			}
			if kept := after.kept(); len(list) != want || len(kept) != files || (files > 0 && kept[0] != artifact) {
				t.Errorf("%d conversations, artifacts %v", len(list), kept)
			}
		})
	}
}

func TestWhatWasSaidIsFoundSoonAfterTheRun(t *testing.T) {
	r := newRig(t, nil)
	other := engine.Principal{KeyID: "k", TenantID: "other", Scopes: []string{engine.ScopeAdmin}}
	find := func(p engine.Principal, text string, tools bool) []store.SearchHit {
		t.Helper()
		hits, _, err := r.engine.SearchConversations(context.Background(), p, store.SearchQuery{Text: text, Tools: tools})
		if err != nil {
			t.Fatal(err)
		}
		return hits
	}
	r.file("f.txt", "a rhinoceros\n")
	run := r.run("talk", "where is the platypus? "+script(`[{"tool":"bash","in":{"command":"cat f.txt"}},{"text":"The Wombat is here."}]`))
	for deadline := time.Now().Add(20 * time.Second); len(find(r.me, "wombat", false)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the answer is not found")
		}
	}
	hits := find(r.me, "platypus", false)
	if len(hits) != 1 || hits[0].ConversationID != "talk" || hits[0].RunID != run.ID || hits[0].Role != "user" {
		t.Fatalf("hits %+v", hits)
	}
	if msgs := r.messages("talk", 10); hits[0].Idx != msgs[0].ID {
		t.Errorf("the hit is message %d, the message has id %d", hits[0].Idx, msgs[0].ID)
	}
	if n := len(find(r.me, "rhinoceros", false)); n != 0 {
		t.Errorf("%d hits in tools", n)
	}
	if n := len(find(r.me, "rhinoceros", true)); n != 1 {
		t.Errorf("%d hits in tools", n)
	}
	if n := len(find(other, "wombat", true)); n != 0 {
		t.Errorf("another tenant finds %d", n)
	}
	// What was said before a crash, and not indexed, is found after the next start.
	r.run("later", script(`[{"text":"an okapi"}]`))
	r.close()
	r.open()
	if err := r.engine.FlushSearch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(find(r.me, "okapi", false)); n != 2 { // the prompt scripts the answer
		t.Errorf("%d hits", n)
	}
	if err := r.engine.DeleteConversation(t.Context(), r.me, "later"); err != nil {
		t.Fatal(err)
	}
	if n := len(find(r.me, "okapi", false)); n != 0 {
		t.Errorf("a deleted conversation is found %d times", n)
	}
}

func TestCleanUpDeletesWhatIsOldAndEnded(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	r := &rig{t: t, dir: t.TempDir(), workspace: t.TempDir(), me: engine.Local(), clock: clock, change: func(o *engine.Options) { o.Now = clock }}
	r.open()
	defer func() { r.close() }()
	r.run("old", script(`[{"text":"a"}]`))
	other := engine.Principal{KeyID: "k", TenantID: "other", Scopes: []string{engine.ScopeAdmin}}
	foreign, _, err := r.engine.Submit(t.Context(), other, engine.RunRequest{Prompt: script(`[{"text":"a"}]`), ConversationID: "old"}, "")
	if err != nil {
		t.Fatal(err)
	}
	r.finish(foreign.ID)
	mu.Lock()
	now = now.Add(40 * 24 * time.Hour)
	mu.Unlock()
	r.run("new", script(`[{"text":"a"}]`))
	for _, days := range []int{0, -1, 1 << 30} {
		_, _, err := r.engine.CleanUpConversations(t.Context(), r.me, days)
		refusedAs(t, err, engine.KindInvalid, "invalid_request")
	}
	for _, want := range []int{1, 0} {
		n, more, err := r.engine.CleanUpConversations(t.Context(), r.me, 30)
		if err != nil || n != want || more {
			t.Fatalf("deleted %d, more %v, %v", n, more, err)
		}
	}
	list, _, err := r.engine.Conversations(t.Context(), r.me, store.ConversationList{})
	if err != nil || len(list) != 1 || list[0].ID != "new" {
		t.Fatalf("conversations %+v, %v", list, err)
	}
	if _, err := r.engine.Conversation(t.Context(), other, "old"); err != nil {
		t.Error(err)
	}
}
