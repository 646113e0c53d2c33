package native

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
)

// ownLedger is the ledger of a session whose host gave no gate. It lives in memory, and what must outlive the process
// goes into the transcript: the decisions of people, and the starts of calls that can have a side effect.
type ownLedger struct {
	*control.Memory
	s *session

	deciding sync.Mutex // one decision at a time

	mu      sync.Mutex
	calls   map[string]string // approval to call
	started map[string]string // arguments of calls that an earlier process started, by call
}

var (
	_ control.Ledger   = (*ownLedger)(nil)
	_ control.Resolver = (*ownLedger)(nil)
)

func newOwnLedger(s *session) *ownLedger {
	l := &ownLedger{s: s, calls: map[string]string{}, started: map[string]string{}}
	l.Memory = &control.Memory{Emit: func(f event.Fact) { s.journal(f) }}
	return l
}

// restore takes over what earlier processes recorded of the current turn.
func (l *ownLedger) restore(items []Item) {
	for _, it := range turnItems(items) {
		switch {
		case it.Kind == KindDecision && it.Approval != nil:
			l.adopt(*it.Approval)
		case it.Kind == KindStarted:
			l.mu.Lock()
			l.started[it.CallID] = it.Arguments
			l.mu.Unlock()
		}
	}
}

// adoptPending takes over the asks of the turn that is continued, so that their answers find them.
func (l *ownLedger) adoptPending(ctx context.Context, pending []harness.PendingToolApproval, cwd string) {
	for _, p := range pending {
		if rec, _ := l.Memory.Recall(ctx, p.ToolCallID); rec.Approval != nil {
			continue
		}
		l.adopt(event.Approval{
			ID: p.ApprovalID, CallID: p.ToolCallID, Tool: p.ToolName, Arguments: p.Input, Cwd: cwd,
			Digest: control.Digest(p.ToolName, json.RawMessage(p.Input), cwd),
			Status: event.ApprovalPending, Scope: event.ScopeOnce,
		})
	}
}

func (l *ownLedger) adopt(a event.Approval) {
	l.mu.Lock()
	l.calls[a.ID] = a.CallID
	l.mu.Unlock()
	l.Adopt(a)
}

// Recall implements control.Ledger.
func (l *ownLedger) Recall(ctx context.Context, callID string) (control.Record, error) {
	rec, err := l.Memory.Recall(ctx, callID)
	if err != nil || rec.Started {
		return rec, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if args, ok := l.started[callID]; ok {
		rec.Started, rec.Arguments = true, args
	}
	return rec, nil
}

// Request implements control.Ledger.
func (l *ownLedger) Request(ctx context.Context, step int, a event.Approval) error {
	l.mu.Lock()
	l.calls[a.ID] = a.CallID
	l.mu.Unlock()
	return l.Memory.Request(ctx, step, a)
}

// callOf is the call that an approval belongs to.
func (l *ownLedger) callOf(approvalID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[approvalID]
}

// Resolve implements control.Resolver. The decision is in the transcript before a call can be made upon it.
func (l *ownLedger) Resolve(approvalID string, approve bool, scope event.ApprovalScope, reason, by string) error {
	l.deciding.Lock()
	defer l.deciding.Unlock()
	ctx := context.Background()
	rec, err := l.Memory.Recall(ctx, l.callOf(approvalID))
	if err != nil {
		return err
	}
	if a := rec.Approval; a != nil && a.ID == approvalID {
		move := event.MoveDeny
		if approve {
			move = event.MoveApprove
		}
		if to, ok := a.Status.Next(move); ok {
			now := l.s.h.set.Now()
			a.Status, a.Reason, a.DecidedBy, a.DecidedAt = to, reason, by, &now
			if err := l.s.append(ctx, Item{Kind: KindDecision, CallID: a.CallID, Tool: a.Tool, Approval: a}); err != nil {
				return err
			}
		}
	}
	return l.Memory.Resolve(approvalID, approve, scope, reason, by)
}

// Begin implements control.Ledger.
func (l *ownLedger) Begin(ctx context.Context, st control.Start) error {
	if err := l.Memory.Begin(ctx, st); err != nil || !st.Durable {
		return err
	}
	if err := l.s.append(ctx, Item{Kind: KindStarted, Step: st.Step, CallID: st.CallID, Tool: st.Tool, Arguments: st.Arguments}); err != nil {
		return err
	}
	if j := l.s.opts.Journal; j != nil {
		return j.Barrier(ctx)
	}
	return nil
}
