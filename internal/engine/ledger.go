package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// callRecord is what the log says of one call.
type callRecord struct {
	started   bool
	arguments string
	ended     *control.CallOutcome
	blocked   *event.ToolCallBlockedPayload
	approval  *event.Approval
}

var _ control.Ledger = (*segment)(nil)

func (s *segment) call(id string) *callRecord {
	r := s.calls[id]
	if r == nil {
		r = &callRecord{}
		s.calls[id] = r
	}
	return r
}

// fold reads the run's log and its approvals and questions into memory. It is needed only where an earlier segment
// may have left calls behind.
func (s *segment) fold(ctx context.Context) error {
	for after := int64(0); ; {
		page, err := s.e.o.Store.Events(ctx, s.run.ID, after, 0)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, ev := range page {
			if err := s.foldEvent(ev); err != nil {
				return err
			}
		}
		after = page[len(page)-1].Seq
	}
	approvals, err := s.e.o.Store.RunApprovals(ctx, s.run.ID)
	if err != nil {
		return err
	}
	for i := range approvals {
		s.call(approvals[i].CallID).approval = &approvals[i]
	}
	questions, err := s.e.o.Store.RunQuestions(ctx, s.run.ID)
	if err != nil {
		return err
	}
	for _, q := range questions {
		s.questions[q.CallID] = q
	}
	return nil
}

func (s *segment) foldEvent(ev event.Event) error {
	switch ev.Type {
	case event.LLMTurnRequested:
		s.requestedSeq = ev.Seq
		return nil
	case event.RunStepCompleted, event.RunCostLimitReached:
		var p struct {
			Step int `json:"step"`
		}
		if err := json.Unmarshal(ev.Payload, &p); err != nil {
			return fmt.Errorf("engine: event %s: %w", ev.ID(), err)
		}
		s.said.again(p.Step, ev.Type)
		return nil
	case event.ToolCallStarted, event.ToolCallCompleted, event.ToolCallBlocked:
	default:
		return nil
	}
	p, err := event.Decode(ev.Type, ev.Payload)
	if err != nil {
		return fmt.Errorf("engine: event %s: %w", ev.ID(), err)
	}
	switch p := p.(type) {
	case *event.ToolCallStartedPayload:
		r := s.call(p.CallID)
		r.started, r.arguments = true, p.Arguments
	case *event.ToolCallCompletedPayload:
		s.call(p.CallID).ended = &control.CallOutcome{
			Output: p.Output, Error: p.Error, Truncated: p.Truncated, Artifact: p.Artifact, Diff: p.Diff, Details: p.Details, Interrupted: p.Interrupted,
		}
	case *event.ToolCallBlockedPayload:
		s.call(p.CallID).blocked = p
	}
	return nil
}

// Recall implements control.Ledger. An approval that was pending is read again: people decide while a run works.
func (s *segment) Recall(ctx context.Context, callID string) (control.Record, error) {
	s.mu.Lock()
	r := s.calls[callID]
	if r == nil {
		s.mu.Unlock()
		return control.Record{}, nil
	}
	rec := control.Record{Started: r.started, Arguments: r.arguments, Ended: r.ended, Blocked: r.blocked}
	var ap event.Approval
	if r.approval != nil {
		ap = *r.approval
	}
	s.mu.Unlock()
	if ap.ID == "" {
		return rec, nil
	}
	if ap.Status == event.ApprovalPending {
		fresh, err := s.e.o.Store.GetApproval(ctx, ap.ID)
		if err != nil {
			return control.Record{}, err
		}
		ap = fresh
		s.mu.Lock()
		r.approval = &fresh
		s.mu.Unlock()
	}
	rec.Approval = &ap
	return rec, nil
}

// Request implements control.Ledger.
func (s *segment) Request(ctx context.Context, step int, a event.Approval) error {
	a.RunID, a.TenantID, a.RequestedBy = s.run.ID, s.run.TenantID, s.run.CreatedBy
	fact := event.Fact{Step: step, Payload: event.ToolApprovalRequiredPayload{
		ApprovalID: a.ID, CallID: a.CallID, Tool: a.Tool, Arguments: a.Arguments, Digest: a.Digest, Reason: a.Why, DeadlineAt: a.ExpiresAt,
	}}
	err := s.commit(ctx, func(b *store.Batch) { b.Approvals = append(b.Approvals, a) }, []event.Fact{fact})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.call(a.CallID).approval = &a
	s.mu.Unlock()
	s.e.deadlineSet()
	return nil
}

// Begin implements control.Ledger.
func (s *segment) Begin(ctx context.Context, st control.Start) error {
	facts := []event.Fact{{Step: st.Step, Payload: event.ToolCallStartedPayload{
		CallID: st.CallID, Tool: st.Tool, Arguments: st.Arguments, Kind: st.Kind, ApprovalID: st.ApprovalID,
	}}}
	add := func(b *store.Batch) { b.Consume = st.ApprovalID }
	if st.Durable {
		if err := s.commit(ctx, add, facts); err != nil {
			return err
		}
	} else if _, err := s.submit(add, facts); err != nil {
		return err
	}
	s.mu.Lock()
	r := s.call(st.CallID)
	r.started, r.arguments = true, st.Arguments
	s.mu.Unlock()
	return nil
}

// End implements control.Ledger.
func (s *segment) End(_ context.Context, en control.End) error {
	_, err := s.submit(func(*store.Batch) {}, []event.Fact{{Step: en.Step, Payload: control.CompletedPayload(en)}})
	if err != nil {
		return err
	}
	s.mu.Lock()
	o := en.Outcome
	s.call(en.CallID).ended = &o
	s.mu.Unlock()
	return nil
}

// Block implements control.Ledger.
func (s *segment) Block(_ context.Context, step int, bl event.ToolCallBlockedPayload) error {
	_, err := s.submit(func(*store.Batch) {}, []event.Fact{{Step: step, Payload: bl}})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.call(bl.CallID).blocked = &bl
	s.mu.Unlock()
	return nil
}

// Granted implements control.Ledger.
func (s *segment) Granted(ctx context.Context, digest string) (string, bool, error) {
	list, err := s.e.o.Store.SessionApprovals(ctx, s.run.TenantID, s.run.ConversationID)
	if err != nil {
		return "", false, err
	}
	for _, a := range list {
		if a.Digest == digest {
			return a.ID, true, nil
		}
	}
	return "", false, nil
}

// Question implements control.Ledger.
func (s *segment) Question(ctx context.Context, step int, q event.PendingQuestion) (event.PendingQuestion, error) {
	s.mu.Lock()
	old, ok := s.questions[q.CallID]
	s.mu.Unlock()
	if ok {
		return old, nil
	}
	q.RunID, q.TenantID = s.run.ID, s.run.TenantID
	fact := event.Fact{Step: step, Payload: event.RunWaitingForUserPayload{CallID: q.CallID, Tool: q.Tool, Questions: q.Questions, DeadlineAt: q.DeadlineAt}}
	if err := s.commit(ctx, func(b *store.Batch) { b.Questions = append(b.Questions, q) }, []event.Fact{fact}); err != nil {
		return event.PendingQuestion{}, err
	}
	s.mu.Lock()
	s.questions[q.CallID] = q
	s.mu.Unlock()
	s.e.deadlineSet()
	return q, nil
}
