package control

import (
	"context"
	"sync"
	"time"

	"github.com/harness-go/harness/event"
)

// Memory is a Ledger in memory, for programs that use the library without the daemon. Its records live as long as
// it does. Emit, when not nil, receives the facts in order.
type Memory struct {
	Emit func(event.Fact)

	mu        sync.Mutex
	records   map[string]*Record
	approvals map[string]*event.Approval
	questions map[string]event.PendingQuestion
}

var _ Ledger = (*Memory)(nil)

func (m *Memory) record(callID string) *Record {
	if m.records == nil {
		m.records = map[string]*Record{}
		m.approvals = map[string]*event.Approval{}
		m.questions = map[string]event.PendingQuestion{}
	}
	r := m.records[callID]
	if r == nil {
		r = &Record{}
		m.records[callID] = r
	}
	return r
}

func (m *Memory) emit(step int, p event.Payload) {
	if m.Emit != nil {
		m.Emit(event.Fact{Step: step, Payload: p})
	}
}

// Recall implements Ledger.
func (m *Memory) Recall(_ context.Context, callID string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := *m.record(callID)
	if r.Approval != nil {
		a := *r.Approval
		r.Approval = &a
	}
	return r, nil
}

// Request implements Ledger.
func (m *Memory) Request(_ context.Context, step int, a event.Approval) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(a.CallID)
	r.Approval = &a
	m.approvals[a.ID] = &a
	m.emit(step, event.ToolApprovalRequiredPayload{ApprovalID: a.ID, CallID: a.CallID, Tool: a.Tool, Arguments: a.Arguments, Digest: a.Digest, Reason: a.Why, DeadlineAt: a.ExpiresAt})
	return nil
}

// Adopt records an ask that another process made, without an event.
func (m *Memory) Adopt(a event.Approval) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(a.CallID)
	r.Approval = &a
	m.approvals[a.ID] = &a
}

// Resolve answers a pending approval. Another answer than the one on record is an *event.ConflictError.
func (m *Memory) Resolve(approvalID string, approve bool, scope event.ApprovalScope, reason, by string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.approvals[approvalID]
	if a == nil {
		return &event.ConflictError{What: "approval " + approvalID, Status: "unknown"}
	}
	move := event.MoveDeny
	if approve {
		move = event.MoveApprove
	}
	to, ok := a.Status.Next(move)
	if !ok {
		granted := a.Status == event.ApprovalApproved || a.Status == event.ApprovalConsumed
		if (approve && granted) || (!approve && a.Status == event.ApprovalDenied) {
			return nil // the same answer again, also after the call was made upon it
		}
		return &event.ConflictError{What: "approval " + approvalID, Status: string(a.Status)}
	}
	now := time.Now()
	a.Status, a.Reason, a.DecidedBy, a.DecidedAt = to, reason, by, &now
	if scope != "" {
		a.Scope = scope
	}
	if approve {
		m.emit(0, event.ToolApprovalGrantedPayload{ApprovalID: a.ID, CallID: a.CallID, Tool: a.Tool, Arguments: a.Arguments, DecidedBy: by, Reason: reason, Scope: string(a.Scope)})
	} else {
		m.emit(0, event.ToolApprovalDeniedPayload{ApprovalID: a.ID, CallID: a.CallID, Tool: a.Tool, Arguments: a.Arguments, DecidedBy: by, Reason: reason, Status: string(to)})
	}
	return nil
}

// Begin implements Ledger.
func (m *Memory) Begin(_ context.Context, s Start) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(s.CallID)
	if s.ApprovalID != "" {
		a := m.approvals[s.ApprovalID]
		if a == nil {
			return &event.ConflictError{What: "approval " + s.ApprovalID, Status: "unknown"}
		}
		to, ok := a.Status.Next(event.MoveBegin)
		if !ok {
			return &event.ConflictError{What: "approval " + s.ApprovalID, Status: string(a.Status)}
		}
		a.Status = to
	}
	r.Started, r.Arguments = true, s.Arguments
	m.emit(s.Step, event.ToolCallStartedPayload{CallID: s.CallID, Tool: s.Tool, Arguments: s.Arguments, Kind: s.Kind, ApprovalID: s.ApprovalID})
	return nil
}

// End implements Ledger.
func (m *Memory) End(_ context.Context, e End) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := e.Outcome
	m.record(e.CallID).Ended = &o
	m.emit(e.Step, CompletedPayload(e))
	return nil
}

// CompletedPayload is the event of a result record.
func CompletedPayload(e End) event.ToolCallCompletedPayload {
	o := e.Outcome
	return event.ToolCallCompletedPayload{CallID: e.CallID, Tool: e.Tool, Output: o.Output, DurationMS: e.DurationMS, Error: o.Error,
		Interrupted: o.Interrupted, Truncated: o.Truncated, Artifact: o.Artifact, Diff: o.Diff, Details: o.Details}
}

// Block implements Ledger.
func (m *Memory) Block(_ context.Context, step int, b event.ToolCallBlockedPayload) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record(b.CallID).Blocked = &b
	m.emit(step, b)
	return nil
}

// Granted implements Ledger.
func (m *Memory) Granted(_ context.Context, digest string) (string, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.approvals {
		if a.Digest == digest && a.Scope == event.ScopeSession && (a.Status == event.ApprovalApproved || a.Status == event.ApprovalConsumed) {
			return a.ID, true, nil
		}
	}
	return "", false, nil
}

// Question implements Ledger.
func (m *Memory) Question(_ context.Context, step int, q event.PendingQuestion) (event.PendingQuestion, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record(q.CallID)
	if old, ok := m.questions[q.CallID]; ok {
		return old, nil
	}
	m.questions[q.CallID] = q
	m.emit(step, event.RunWaitingForUserPayload{CallID: q.CallID, Tool: q.Tool, Questions: q.Questions, DeadlineAt: q.DeadlineAt})
	return q, nil
}
