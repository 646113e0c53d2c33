// Package storetest is the conformance suite of store.Store: every promise of that package, as tests that each
// implementation passes. It owns no implementation.
//
// An implementation calls Run and SurvivesKill from its own tests, and Bench from a benchmark.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// Open opens the store that belongs to dir, with the clock. The same dir names the same store, also after Close or
// after the death of the process that had it open. A nil clock means the real one.
type Open func(t testing.TB, dir string, clock func() time.Time) store.Store

// Run tests every promise that can be tested inside one process.
func Run(t *testing.T, open Open) {
	groups := []struct {
		name  string
		tests []test
	}{
		{"log", logTests}, {"lease", leaseTests}, {"batch", batchTests}, {"approval", approvalTests}, {"question", questionTests},
		{"park", parkTests}, {"deadline", deadlineTests}, {"list", listTests}, {"key", slices.Concat(keyTests, rotateTests)}, {"reopen", reopenTests},
		{"memory", memoryTests},
		{"conversation", conversationTests}, {"deletion", deletionTests}, {"fork", forkTests}, {"search", searchTests}, {"model", modelTests},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, tc := range g.tests {
				t.Run(tc.promise, func(t *testing.T) {
					t.Parallel()
					e := &env{T: t, ctx: t.Context(), open: open, dir: t.TempDir(), now: start}
					e.Store = open(t, e.dir, e.clock)
					t.Cleanup(func() { e.Store.Close() })
					tc.run(e)
				})
			}
		})
	}
}

// test is one promise.
type test struct {
	promise string
	run     func(*env)
}

// start is the time of the fake clock at the beginning of a test, with nanoseconds that must not get lost.
var start = time.Date(2031, 3, 4, 5, 6, 7, 123456789, time.UTC)

const tenant = "tn_1"

// env is a test with its store and clock.
type env struct {
	*testing.T
	store.Store
	ctx  context.Context
	open Open
	dir  string

	mu  sync.Mutex
	now time.Time
	ids int
}

func (e *env) clock() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

func (e *env) advance(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = e.now.Add(d)
}

// id makes a fresh id.
func (e *env) id(prefix string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids++
	return fmt.Sprintf("%s_%06d", prefix, e.ids)
}

// reopen closes the store and opens it again.
func (e *env) reopen() {
	e.Helper()
	if err := e.Store.Close(); err != nil {
		e.Fatalf("close: %v", err)
	}
	e.Store = e.open(e.T, e.dir, e.clock)
}

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *env) is(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("error is %v, want %v", err, want)
	}
}

// conflict checks for an *event.ConflictError with the status.
func (e *env) conflict(err error, status string) {
	e.Helper()
	var c *event.ConflictError
	if !errors.As(err, &c) {
		e.Fatalf("error is %v, want a conflict", err)
	}
	if c.Status != status {
		e.Fatalf("conflict tells status %q, want %q", c.Status, status)
	}
}

// create creates a run of the conversation, a fresh one when it is empty, and asks for the lease.
func (e *env) create(conversation string) store.Created {
	e.Helper()
	if conversation == "" {
		conversation = e.id("cv")
	}
	c, err := e.CreateRun(e.ctx, store.NewRun{
		ID: e.id("run"), TenantID: tenant, ConversationID: conversation, Prompt: "do it", Request: []byte(`{"prompt":"do it"}`),
		CreatedBy: "key_1", Lease: true,
	})
	e.ok(err)
	return c
}

// leased is create for a run that must be leased.
func (e *env) leased() store.Run {
	e.Helper()
	c := e.create("")
	if !c.Leased || c.Run.Status != store.StatusRunning || c.Run.Epoch != 1 {
		e.Fatalf("a fresh conversation's run is not leased: %+v", c)
	}
	return c.Run
}

// fact encodes an event of a run.
func fact(r store.Run, step int, p event.Payload) store.NewEvent {
	payload, err := event.Encode(r.ConversationID, event.Fact{Step: step, Payload: p})
	if err != nil {
		panic(err)
	}
	return store.NewEvent{Type: p.EventType(), Payload: payload}
}

func delta(r store.Run, text string) store.NewEvent {
	return fact(r, 1, event.AssistantMessageDeltaPayload{Content: text})
}

// submit writes a batch and waits.
func (e *env) submit(b store.Batch) (int64, error) { return e.Submit(b).Wait(e.ctx) }

func (e *env) finish(r store.Run, status store.Status) store.Wake {
	e.Helper()
	w, err := e.Finish(e.ctx, finishing(r, status))
	e.ok(err)
	return w
}

func finishing(r store.Run, status store.Status) store.Batch {
	var last event.Payload
	switch status {
	case store.StatusFailed:
		last = event.RunFailedPayload{Error: "no"}
	case store.StatusCancelled:
		last = event.RunCancelledPayload{}
	default:
		last = event.RunCompletedPayload{Output: "done"}
	}
	out := "done"
	return store.Batch{RunID: r.ID, Epoch: r.Epoch, Events: []store.NewEvent{fact(r, 0, last)},
		Update: &store.RunUpdate{Status: &status, Output: &out}}
}

// ask stores a pending approval with its event and returns it.
func (e *env) ask(r store.Run) event.Approval {
	e.Helper()
	a := event.Approval{
		ID: e.id("ap"), RunID: r.ID, TenantID: r.TenantID, CallID: e.id("call"), Harness: "native", Tool: "bash", Kind: "bash",
		Arguments: `{"command":"rm -r build"}`, Cwd: "/w", Digest: "sha256:00", Why: "rule: rm", Status: event.ApprovalPending,
		Scope: event.ScopeOnce, RequestedBy: "key_1", RequestedAt: e.clock(), ExpiresAt: e.clock().Add(72 * time.Hour),
		Details: []byte(`{"warm":true}`),
	}
	_, err := e.submit(store.Batch{RunID: r.ID, Epoch: r.Epoch, Approvals: []event.Approval{a}, Events: []store.NewEvent{
		fact(r, 3, event.ToolApprovalRequiredPayload{ApprovalID: a.ID, CallID: a.CallID, Tool: a.Tool, Arguments: a.Arguments,
			Digest: a.Digest, DeadlineAt: a.ExpiresAt})}})
	e.ok(err)
	return a
}

// question stores a pending question and returns it.
func (e *env) question(r store.Run) event.PendingQuestion {
	e.Helper()
	q := event.PendingQuestion{
		ID: e.id("qu"), RunID: r.ID, TenantID: r.TenantID, CallID: e.id("call"), Tool: "AskUserQuestion",
		Questions: []event.Question{{Question: "which?", Header: "h", Options: []event.QuestionOption{{Label: "a, b"}, {Label: "c"}}, MultiSelect: true}},
		Status:    event.QuestionPending, AskedAt: e.clock(), DeadlineAt: e.clock().Add(24 * time.Hour),
	}
	_, err := e.submit(store.Batch{RunID: r.ID, Epoch: r.Epoch, Questions: []event.PendingQuestion{q}, Events: []store.NewEvent{
		fact(r, 2, event.RunWaitingForUserPayload{CallID: q.CallID, Tool: q.Tool, Questions: q.Questions, DeadlineAt: q.DeadlineAt})}})
	e.ok(err)
	return q
}

// park parks a run that must park.
func (e *env) park(r store.Run, status store.Status) {
	e.Helper()
	parked, err := e.Park(e.ctx, store.Park{RunID: r.ID, Epoch: r.Epoch, Status: status, State: []byte(`{"turn":1}`)})
	e.ok(err)
	if !parked {
		e.Fatalf("run %s did not park", r.ID)
	}
}

func (e *env) get(id string) store.Run {
	e.Helper()
	r, err := e.GetRun(e.ctx, id)
	e.ok(err)
	return r
}

// at is the run as its owner with another epoch sees it.
func at(r store.Run, epoch int64) store.Run {
	r.Epoch = epoch
	return r
}

// log reads all events of a run in pages and checks their seqs.
func (e *env) log(runID string) []event.Event {
	e.Helper()
	var all []event.Event
	for {
		page, err := e.Events(e.ctx, runID, int64(len(all)), 7)
		e.ok(err)
		if len(page) == 0 {
			return all
		}
		for _, ev := range page {
			all = append(all, ev)
			if ev.Seq != int64(len(all)) || ev.RunID != runID {
				e.Fatalf("run %s: event %d has seq %d of run %s", runID, len(all), ev.Seq, ev.RunID)
			}
		}
	}
}

// kinds are the kinds of a log.
func kinds(events []event.Event) []event.Type {
	list := make([]event.Type, len(events))
	for i, e := range events {
		list[i] = e.Type
	}
	return list
}

// last decodes the last event of the kind P.
func last[P event.Payload](e *env, runID string) P {
	e.Helper()
	var want P
	events := e.log(runID)
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Type == want.EventType() {
			p, err := event.Decode(events[i].Type, events[i].Payload)
			e.ok(err)
			v, ok := p.(any).(*P)
			if !ok {
				e.Fatalf("%s decodes to %T", events[i].Type, p)
			}
			return *v
		}
	}
	e.Fatalf("run %s has no %s", runID, want.EventType())
	return want
}

// woken checks that a write gave exactly one owner, and returns the run for it.
func (e *env) woken(r store.Run, w store.Wake) store.Run {
	e.Helper()
	if w.RunID != r.ID || w.Epoch != r.Epoch+1 {
		e.Fatalf("wake is %+v, want run %s with epoch %d", w, r.ID, r.Epoch+1)
	}
	now := e.get(r.ID)
	if now.Status != store.StatusRunning || now.Epoch != w.Epoch {
		e.Fatalf("the woken run is %s with epoch %d", now.Status, now.Epoch)
	}
	return now
}

func (e *env) asleep(w store.Wake) {
	e.Helper()
	if w != (store.Wake{}) {
		e.Fatalf("wake is %+v, want none", w)
	}
}
