package sqlite

import (
	"sync"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// Each commit is told once it succeeded, with what it wrote and the approvals that it ended; open runs are counted.
func TestCommitsAreToldAndOpenRunsAreCounted(t *testing.T) {
	var mu sync.Mutex
	var events, ended int
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), Committed: func(c Commit) {
		mu.Lock()
		defer mu.Unlock()
		if c.Writes < 1 || c.Took <= 0 {
			t.Errorf("commit %+v", c)
		}
		events += c.Events
		ended += c.Ended[event.ApprovalDenied]
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, id := range []string{"run_1", "run_2"} {
		if _, err := s.CreateRun(t.Context(), store.NewRun{ID: id, TenantID: "tn", ConversationID: id, Lease: id == "run_1"}); err != nil {
			t.Fatal(err)
		}
	}
	r := s.Submit(store.Batch{RunID: "run_1", Epoch: 1, Approvals: []event.Approval{{ID: "ap_1", Status: event.ApprovalPending, ExpiresAt: s.clock().Add(1e15)}}})
	if _, err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, err := s.CountOpen(t.Context())
	if err != nil || o.Runs[store.StatusRunning] != 1 || o.Runs[store.StatusQueued] != 1 || o.Approvals != 1 {
		t.Fatalf("open %+v, %v", o, err)
	}
	for range 2 { // the same answer again ends nothing
		if _, _, err := s.Decide(t.Context(), store.Decision{ApprovalID: "ap_1", TenantID: "tn", DecidedBy: "key:x"}); err != nil {
			t.Fatal(err)
		}
	}
	if o, err = s.CountOpen(t.Context()); err != nil || o.Approvals != 0 {
		t.Fatalf("open %+v, %v", o, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if events != 3 || ended != 1 {
		t.Errorf("told of %d events and %d denials, want 3 and 1", events, ended)
	}
}
