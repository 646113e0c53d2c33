package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
)

// gated is a bench whose host calls pass a gate.
type gated struct {
	*bench
	ledger *control.Memory
	facts  *[]event.Type
	runs   *atomic.Int32
}

func newGated(t *testing.T, policy control.Policy, change func(*harness.AgentSettings)) *gated {
	t.Helper()
	facts := &[]event.Type{}
	g := &gated{facts: facts, runs: &atomic.Int32{}, ledger: &control.Memory{Emit: func(f event.Fact) { *facts = append(*facts, f.Type()) }}}
	gate, err := control.NewGate(control.Config{Policy: policy, Ledger: g.ledger})
	if err != nil {
		t.Fatal(err)
	}
	g.bench = newBench(t, hostCallScript, func(s *harness.AgentSettings) {
		s.Gate = gate
		d := s.UserTools["deploy"]
		execute := d.Execute
		d.Execute = func(ctx context.Context, in json.RawMessage, o ai.ToolExecutionOptions) (any, error) {
			g.runs.Add(1)
			return execute(ctx, in, o)
		}
		s.UserTools["deploy"] = d
		if change != nil {
			change(s)
		}
	})
	return g
}

func (g *gated) wantFacts(t *testing.T, want ...event.Type) {
	t.Helper()
	if !slices.Equal(*g.facts, want) {
		t.Errorf("facts %v, want %v", *g.facts, want)
	}
}

func TestAnAllowedHostCallIsRecordedAndRuns(t *testing.T) {
	g := newGated(t, control.Policy{}, nil)
	r := g.mustGenerate()
	if g.runs.Load() != 1 || len(r.ToolApprovalRequests()) != 0 || r.Text != "end" {
		t.Errorf("%d runs, %+v", g.runs.Load(), r)
	}
	g.wantFacts(t, event.ToolCallStarted, event.ToolCallCompleted)
}

func TestADeniedHostCallDoesNotRun(t *testing.T) {
	g := newGated(t, control.Policy{Denied: []string{"deploy"}}, nil)
	g.mustGenerate()
	if s := g.submitted(); g.runs.Load() != 0 || len(s) != 1 || !strings.Contains(s[0], "execution-denied") || !strings.Contains(s[0], "denied to this run") {
		t.Errorf("%d runs, submitted %v", g.runs.Load(), s)
	}
	g.wantFacts(t, event.ToolCallBlocked)
}

func TestAnAskedHostCallWaitsUnderTheGatesID(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, approved := range []bool{true, false} {
			g := newGated(t, control.Policy{RequiresApproval: []string{"deploy"}}, nil)
			r := g.mustGenerate()
			pending, _ := g.s.Pending()
			if len(pending) != 1 || !strings.HasPrefix(pending[0].ApprovalID, "ap_") || len(r.ToolApprovalRequests()) != 1 || g.runs.Load() != 0 {
				t.Fatalf("pending %+v", pending)
			}
			if restart {
				g.moveOn(nil)
			}
			// Without a decision it goes on waiting, under the same id.
			if _, err := g.goOn(); err != nil {
				t.Fatal(err)
			}
			again, _ := g.s.Pending()
			if len(again) != 1 || again[0].ApprovalID != pending[0].ApprovalID {
				t.Fatalf("pending %+v", again)
			}
			r, err := g.goOn(ai.ToolApprovalResponseContent{ApprovalID: pending[0].ApprovalID, Approved: approved, Reason: "so"})
			if err != nil || r.Text != "end" {
				t.Fatalf("%+v, %v", r, err)
			}
			if approved {
				g.wantFacts(t, event.ToolApprovalRequired, event.ToolApprovalGranted, event.ToolCallStarted, event.ToolCallCompleted)
			} else {
				g.wantFacts(t, event.ToolApprovalRequired, event.ToolApprovalDenied, event.ToolCallBlocked)
			}
			if (g.runs.Load() == 1) != approved {
				t.Errorf("%d runs", g.runs.Load())
			}
		}
	}
}

func TestADecisionInTheLedgerNeedsNoContinuation(t *testing.T) {
	g := newGated(t, control.Policy{RequiresApproval: []string{"deploy"}}, nil)
	g.mustGenerate()
	pending, _ := g.s.Pending()
	if err := g.ledger.Resolve(pending[0].ApprovalID, true, "", "", "someone"); err != nil {
		t.Fatal(err)
	}
	// The contrary decision of a caller is refused, and the turn goes on waiting.
	var conflict *event.ConflictError
	if _, err := g.goOn(ai.ToolApprovalResponseContent{ApprovalID: pending[0].ApprovalID}); !errors.As(err, &conflict) || g.s.TurnState() != harness.TurnStateAwaitingApproval {
		t.Fatalf("%v, %s", err, g.s.TurnState())
	}
	if r, err := g.goOn(); err != nil || r.Text != "end" || g.runs.Load() != 1 {
		t.Errorf("%+v, %v, %d runs", r, err, g.runs.Load())
	}
}

func TestAConfiguredAskIsRecordedByTheGate(t *testing.T) {
	g := newGated(t, control.Policy{}, ask)
	g.mustGenerate()
	pending, _ := g.s.Pending()
	if len(pending) != 1 || !strings.HasPrefix(pending[0].ApprovalID, "ap_") {
		t.Errorf("pending %+v", pending)
	}
	g.wantFacts(t, event.ToolApprovalRequired)
}

// A host call whose process died after its start is not run again; its result, if there is one, is given again.
func TestAStartedHostCallNeverRunsTwice(t *testing.T) {
	begun := control.Start{CallID: "h1", Tool: "deploy", Kind: "other", Arguments: `{"env":"prod"}`}
	t.Run("outcome unknown", func(t *testing.T) {
		g := newGated(t, control.Policy{}, nil)
		if err := g.ledger.Begin(g.ctx, begun); err != nil {
			t.Fatal(err)
		}
		g.mustGenerate()
		if s := g.submitted(); g.runs.Load() != 0 || len(s) != 1 || !strings.Contains(s[0], control.InterruptedText) || !strings.Contains(s[0], `"isError":true`) {
			t.Errorf("%d runs, %v", g.runs.Load(), s)
		}
	})
	t.Run("outcome known", func(t *testing.T) {
		g := newGated(t, control.Policy{}, nil)
		if err := errors.Join(g.ledger.Begin(g.ctx, begun), g.ledger.End(g.ctx, control.End{CallID: "h1", Tool: "deploy", Outcome: control.CallOutcome{Output: "deployed before"}})); err != nil {
			t.Fatal(err)
		}
		g.mustGenerate()
		if s := g.submitted(); g.runs.Load() != 0 || len(s) != 1 || !strings.Contains(s[0], "deployed before") {
			t.Errorf("%d runs, %v", g.runs.Load(), s)
		}
	})
	t.Run("without side effect", func(t *testing.T) {
		g := newGated(t, control.Policy{}, func(s *harness.AgentSettings) {
			d := s.UserTools["deploy"]
			d.ReadOnly = true
			s.UserTools["deploy"] = d
		})
		if err := g.ledger.Begin(g.ctx, begun); err != nil {
			t.Fatal(err)
		}
		if r := g.mustGenerate(); g.runs.Load() != 1 || r.Text != "end" {
			t.Errorf("%d runs", g.runs.Load())
		}
	})
}

type brokenLedger struct{ control.Ledger }

var errDisk = errors.New("disk full")

func (brokenLedger) Begin(context.Context, control.Start) error { return errDisk }

func TestALedgerThatFailsEndsTheTurn(t *testing.T) {
	gate, err := control.NewGate(control.Config{Ledger: brokenLedger{&control.Memory{}}})
	if err != nil {
		t.Fatal(err)
	}
	g := newGated(t, control.Policy{}, func(s *harness.AgentSettings) { s.Gate = gate })
	if _, err := g.generate(); !errors.Is(err, errDisk) || g.runs.Load() != 0 {
		t.Errorf("%v, %d runs", err, g.runs.Load())
	}
}
