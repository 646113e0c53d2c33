package harness_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
)

// A runtime that asks for its calls one after the other says nothing about the second while the first waits.
func TestASilentCallDelaysAPauseOnlyForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(t *harnesstest.Turn) error {
			first, second := builtinCall("1", "bash", "Bash", "{}"), builtinCall("2", "bash", "Bash", "{}")
			first.StepToolCallCount, second.StepToolCallCount = 2, 2
			t.Emit(first, harness.ToolApprovalRequest{ApprovalID: "a1", ToolCallID: "1"}, second)
			return stubborn(t)
		}, nil)
		began := time.Now()
		b.mustGenerate()
		if d := time.Since(began); b.s.TurnState() != harness.TurnStateAwaitingApproval || d > 5*time.Second {
			t.Errorf("%s after %s", b.s.TurnState(), d)
		}
	})
}

// Requests that come after all calls were announced belong to the same pause.
func TestAllRequestsOfAStepArePartOfOnePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(t *harnesstest.Turn) error {
			for _, id := range []string{"1", "2"} {
				c := builtinCall(id, "bash", "Bash", "{}")
				c.StepToolCallCount = 2
				t.Emit(c)
			}
			for _, id := range []string{"1", "2"} {
				t.Emit(harness.ToolApprovalRequest{ApprovalID: "a" + id, ToolCallID: id})
				synctest.Wait()
			}
			return stubborn(t)
		}, nil)
		r := b.mustGenerate()
		if pending, _ := b.s.Pending(); len(pending) != 2 || len(r.ToolApprovalRequests()) != 2 {
			t.Errorf("pending %+v", pending)
		}
	})
}

// Of two decided calls the one without a result does not hold up the pause for a third for good.
func TestAContinuationPausesAgainAlsoWithoutResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(t *harnesstest.Turn) error {
			for _, id := range []string{"1", "2"} {
				c := builtinCall(id, "bash", "Bash", "{}")
				c.StepToolCallCount = 2
				t.Emit(c, harness.ToolApprovalRequest{ApprovalID: "a" + id, ToolCallID: id})
			}
			return stubborn(t)
		}, nil)
		b.mustGenerate()
		if _, err := b.goOn(ai.ToolApprovalResponseContent{ApprovalID: "a1", Approved: true}); err != nil {
			t.Fatal(err)
		}
		if pending, _ := b.s.Pending(); len(pending) != 1 || pending[0].ToolCallID != "2" {
			t.Errorf("pending %+v", pending)
		}
	})
}

// An adapter that does not end when its turn is cancelled cannot hold the caller for good.
func TestAnAdapterThatIgnoresItsEndIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, func(*harnesstest.Turn) error { <-release; return nil }, nil)
		ctx, cancel := context.WithCancel(context.Background())
		r := b.stream(ctx)
		cancel()
		<-r.Done()
		if _, err := r.Result(); !errors.Is(err, context.Canceled) || b.s.TurnState() != harness.TurnStateIdle {
			t.Errorf("%v, %s", err, b.s.TurnState())
		}
		close(release)
	})
}

// So does a host tool.
func TestAHostToolThatIgnoresItsEndIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, hostCallScript, func(s *harness.AgentSettings) {
			d := s.UserTools["deploy"]
			d.Execute = blocked(release)
			s.UserTools["deploy"] = d
		})
		ctx, cancel := context.WithCancel(context.Background())
		r := b.stream(ctx)
		synctest.Wait()
		cancel()
		<-r.Done()
		if _, err := r.Result(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(release)
	})
}
