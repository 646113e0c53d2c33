package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// gate holds the writer before a commit, so that what is queued meanwhile becomes one group.
type gate struct {
	mu      sync.Mutex
	held    chan struct{} // closed when the writer is held
	release chan struct{} // nil: let everything through
	groups  [][]string
}

func (g *gate) point(name string, kinds []string) {
	if name != "commit.before" {
		return
	}
	g.mu.Lock()
	g.groups = append(g.groups, slices.Clone(kinds))
	held, release := g.held, g.release
	g.held, g.release = nil, nil
	g.mu.Unlock()
	if release != nil {
		close(held)
		<-release
	}
}

// hold stops the writer in a ping and returns the function that lets it go on.
func (g *gate) hold(t *testing.T, s *Store) func() {
	t.Helper()
	held, release := make(chan struct{}), make(chan struct{})
	g.mu.Lock()
	g.held, g.release = held, release
	g.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- s.Ping(context.Background()) }()
	<-held
	return func() {
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func openGated(t *testing.T) (*Store, *gate) {
	t.Helper()
	g := new(gate)
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), FaultPoint: g.point})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, g
}

func mustCreate(t testing.TB, s *Store, id string) store.Run {
	t.Helper()
	c, err := s.CreateRun(t.Context(), store.NewRun{ID: id, TenantID: "t", ConversationID: "cv_" + id, Lease: true})
	if err != nil {
		t.Fatal(err)
	}
	return c.Run
}

func text(s string) []store.NewEvent {
	return []store.NewEvent{{Type: event.AssistantMessageDelta, Payload: []byte(`"` + s + `"`)}}
}

func TestQueuedWritesShareOneCommit(t *testing.T) {
	s, g := openGated(t)
	mustCreate(t, s, "r")
	release := g.hold(t, s)
	var receipts []store.Receipt
	for range 10 {
		receipts = append(receipts, s.Submit(store.Batch{RunID: "r", Epoch: 1, Events: text("x")}))
	}
	release()
	for _, r := range receipts {
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(g.groups[len(g.groups)-1]); n != 10 {
		t.Fatalf("groups %v", g.groups)
	}
}

// A batch that fails after its first write must not take down the others of its group, nor leave anything.
func TestSpoiledGroupIsWrittenOneByOne(t *testing.T) {
	s, g := openGated(t)
	mustCreate(t, s, "a")
	mustCreate(t, s, "b")
	ap := event.Approval{ID: "ap_1", ExpiresAt: time.Now().Add(time.Hour)}
	if _, err := s.Submit(store.Batch{RunID: "a", Epoch: 1, Approvals: []event.Approval{ap}}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	release := g.hold(t, s)
	first := s.Submit(store.Batch{RunID: "b", Epoch: 1, Events: text("1")})
	bad := s.Submit(store.Batch{RunID: "b", Epoch: 1, Events: text("bad"), Approvals: []event.Approval{ap}})
	second := s.Submit(store.Batch{RunID: "b", Epoch: 1, Events: text("2")})
	dup := make(chan error, 1)
	go func() {
		_, err := s.CreateRun(t.Context(), store.NewRun{ID: "a", ConversationID: "other"})
		dup <- err
	}()
	release()
	if _, err := bad.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "ap_1") {
		t.Errorf("the duplicate approval: %v", err)
	}
	if err := <-dup; err == nil {
		t.Error("the duplicate run went through")
	}
	for i, r := range []store.Receipt{first, second} {
		if head, err := r.Wait(t.Context()); err != nil || head != int64(i)+2 {
			t.Errorf("batch %d: head %d, %v", i, head, err)
		}
	}
	events, err := s.Events(t.Context(), "b", 0, 0)
	if err != nil || len(events) != 3 || string(events[2].Payload) != `"2"` {
		t.Fatalf("events %+v, %v", events, err)
	}
	if c := mustCreate(t, s, "c"); c.Epoch != 1 { // run keys go on after a rollback
		t.Fatalf("run %+v", c)
	}
}

func TestFailedCommitFailsEveryWriteOfIt(t *testing.T) {
	s, g := openGated(t)
	mustCreate(t, s, "r")
	var fail atomic.Bool
	if err := s.w.conn.Raw(func(c any) error {
		c.(driver.HookRegisterer).RegisterCommitHook(func() int32 {
			g.mu.Lock()
			defer g.mu.Unlock()
			if fail.Load() && slices.Contains(g.groups[len(g.groups)-1], "submit") {
				return 1 // turns the COMMIT into a failure with a rollback
			}
			return 0
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wake, stop := s.Watch("r")
	defer stop()
	release := g.hold(t, s)
	fail.Store(true)
	receipts := []store.Receipt{
		s.Submit(store.Batch{RunID: "r", Epoch: 1, Events: text("1")}),
		s.Submit(store.Batch{RunID: "r", Epoch: 1, Events: text("2")}),
	}
	release()
	for _, r := range receipts {
		if _, err := r.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "commit") {
			t.Errorf("error is %v", err)
		}
	}
	select {
	case <-wake:
		t.Error("a watcher was woken by a write that is not there")
	default:
	}
	fail.Store(false)
	head, err := s.Submit(store.Batch{RunID: "r", Epoch: 1, Events: text("3")}).Wait(t.Context())
	if err != nil || head != 2 {
		t.Fatalf("after the failure: head %d, %v", head, err)
	}
	events, err := s.storedEvents(t.Context(), "r", 0, 10)
	if err != nil || len(events) != 2 || string(events[1].Payload) != `"3"` {
		t.Fatalf("events %+v, %v", events, err)
	}
}

func TestFullQueueHoldsCallersBack(t *testing.T) {
	s, g := openGated(t)
	mustCreate(t, s, "r")
	release := g.hold(t, s)
	big := strings.Repeat("x", queueBytes/2)
	fits := s.Submit(store.Batch{RunID: "r", Epoch: 1, Events: text(big)})
	waits := make(chan store.Receipt)
	go func() { waits <- s.Submit(store.Batch{RunID: "r", Epoch: 1, Events: text(big)}) }()
	// One with a context gives up instead.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := do(ctx, s.w, "test", queueBytes, func(*txn) (struct{}, error) { return struct{}{}, nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	select {
	case <-waits:
		t.Fatal("Submit returned although the queue is full")
	default:
	}
	release()
	for i, r := range []store.Receipt{fits, <-waits} {
		if head, err := r.Wait(t.Context()); err != nil || head != int64(i)+2 {
			t.Fatalf("batch %d: head %d, %v", i, head, err)
		}
	}
}

func TestCloseLetsHeldCallersGo(t *testing.T) {
	q := newQueue()
	if err := q.push(&op{size: queueBytes}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- q.push(&op{size: 1}) }()
	q.close()
	if err := <-done; !errors.Is(err, store.ErrClosed) {
		t.Fatalf("error is %v", err)
	}
}

func TestParkedAndEndedRunsAreForgotten(t *testing.T) {
	s := openDir(t, t.TempDir())
	for i := range 20 {
		id := fmt.Sprint("r", i)
		r := mustCreate(t, s, id)
		ap := event.Approval{ID: "ap_" + id, ExpiresAt: time.Now().Add(time.Hour)}
		s.Submit(store.Batch{RunID: id, Epoch: 1, Approvals: []event.Approval{ap}})
		if i%2 == 0 {
			if ok, err := s.Park(t.Context(), store.Park{RunID: id, Epoch: 1, Status: store.StatusWaitingForApproval}); err != nil || !ok {
				t.Fatal(ok, err)
			}
			continue
		}
		status := store.StatusCompleted
		if _, err := s.Finish(t.Context(), store.Batch{RunID: r.ID, Epoch: 1, Update: &store.RunUpdate{Status: &status}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Submit(store.Batch{RunID: "unknown", Epoch: 1})
	n, err := do(t.Context(), s.w, "test", 0, func(x *txn) (int, error) { return len(x.w.active), nil })
	if err != nil || n != 0 {
		t.Fatalf("%d runs are remembered, %v", n, err)
	}
}

func TestRunsAtWorkAreRememberedWithinABound(t *testing.T) {
	s := openDir(t, t.TempDir())
	r := mustCreate(t, s, "r")
	n, err := do(t.Context(), s.w, "test", 0, func(x *txn) (int, error) {
		for i := range maxActive + 10 {
			id := fmt.Sprint("fake", i)
			x.touch(&runState{id: id, status: store.StatusRunning})
		}
		return len(x.w.active), nil
	})
	if err != nil || n != maxActive+11 {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err = do(t.Context(), s.w, "test", 0, func(x *txn) (int, error) { return len(x.w.active), nil }); err != nil || n != maxActive {
		t.Fatalf("%d runs are remembered, %v", n, err)
	}
	if head, err := s.Submit(store.Batch{RunID: r.ID, Epoch: 1, Events: text("x")}).Wait(t.Context()); err != nil || head != 2 {
		t.Fatalf("head %d, %v", head, err)
	}
}

func TestWriteAheadLogStaysBounded(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	mustCreate(t, s, "r")
	payload := strings.Repeat("x", 1<<20)
	for range 48 {
		if _, err := s.Submit(store.Batch{RunID: "r", Epoch: 1, Events: text(payload)}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, fileName+"-wal"))
	if err != nil || info.Size() > 17<<20 {
		t.Fatalf("the write-ahead log has %d bytes, %v", info.Size(), err)
	}
}
