package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

const selectApproval = `SELECT a.id, a.approval_id, r.run_id, a.tenant_id, a.step, a.call_id, a.harness, a.tool, a.kind, a.arguments,
	a.cwd, a.digest, a.why, a.status, a.scope, a.requested_by, a.requested_at, a.expires_at, a.decided_by, a.decided_at, a.reason,
	a.settled, a.details FROM approvals a JOIN live r ON r.id = a.run`

// approvalRow is an approval as it lies in the file.
type approvalRow struct {
	key                int64
	a                  event.Approval
	step               int
	requested, expires int64
	decided            sql.NullInt64
	details            []byte
}

func (x *approvalRow) dest() []any {
	a := &x.a
	return []any{&x.key, &a.ID, &a.RunID, &a.TenantID, &x.step, &a.CallID, &a.Harness, &a.Tool, &a.Kind, &a.Arguments, &a.Cwd,
		&a.Digest, &a.Why, &a.Status, &a.Scope, &a.RequestedBy, &x.requested, &x.expires, &a.DecidedBy, &x.decided, &a.Reason,
		&a.Settled, &x.details}
}

func (x *approvalRow) approval() event.Approval {
	a := x.a
	a.RequestedAt, a.ExpiresAt, a.DecidedAt = fromNanos(x.requested), fromNanos(x.expires), fromNullable(x.decided)
	a.Details = x.details
	return a
}

// insertApproval stores an approval of a batch. Its step is the one that its tool.approval_required event names, which
// is in the same batch.
func (t *txn) insertApproval(r *runState, a event.Approval, events []store.NewEvent) error {
	step := stepOf(r, events, event.ToolApprovalRequired, func(m eventRef) bool { return m.ApprovalID == a.ID })
	if a.Status == "" {
		a.Status = event.ApprovalPending
	}
	if a.Scope == "" {
		a.Scope = event.ScopeOnce
	}
	if a.RequestedAt.IsZero() {
		a.RequestedAt = t.now
	}
	err := t.exec(`INSERT INTO approvals (approval_id, run, tenant_id, conv, step, call_id, harness, tool, kind, arguments, cwd,
		digest, why, status, scope, requested_by, requested_at, expires_at, decided_by, decided_at, reason, settled, details)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.ID, r.key, r.tenant, r.conv, step, a.CallID, a.Harness, a.Tool, a.Kind, a.Arguments, a.Cwd, a.Digest, a.Why,
		string(a.Status), string(a.Scope), a.RequestedBy, nanos(a.RequestedAt), nanos(a.ExpiresAt), a.DecidedBy,
		nanosOrNull(a.DecidedAt), a.Reason, a.Settled, blob(a.Details))
	if err != nil {
		return fmt.Errorf("approval %s: %w", a.ID, err)
	}
	return nil
}

// eventRef is what an event says of the approval or question it belongs to.
type eventRef struct {
	Step       int    `json:"step"`
	ApprovalID string `json:"approval_id"`
	CallID     string `json:"call_id"`
}

// stepOf finds the step in the event that announces a record, else it is the run's present step.
func stepOf(r *runState, events []store.NewEvent, kind event.Type, match func(eventRef) bool) int {
	for _, e := range events {
		var m eventRef
		if e.Type == kind && json.Unmarshal(e.Payload, &m) == nil && match(m) {
			return m.Step
		}
	}
	return r.steps
}

// approval reads an approval inside a transaction.
func (t *txn) approval(id string) (*approvalRow, error) {
	var x approvalRow
	err := t.row(selectApproval+` WHERE a.approval_id = ?`, []any{id}, x.dest()...)
	return &x, notFound(err, "approval", id)
}

// closeApproval moves a pending approval on, writes who did it, and appends the event of the outcome.
func (t *txn) closeApproval(r *runState, x *approvalRow, move event.ApprovalMove) error {
	to, ok := x.a.Status.Next(move)
	if !ok {
		return &event.ConflictError{What: "approval " + x.a.ID, Status: string(x.a.Status)}
	}
	x.a.Status = to
	x.decided = sql.NullInt64{Int64: nanos(t.now), Valid: true}
	if err := t.exec(`UPDATE approvals SET status = ?, scope = ?, decided_by = ?, decided_at = ?, reason = ? WHERE id = ?`,
		string(to), string(x.a.Scope), x.a.DecidedBy, x.decided.Int64, x.a.Reason, x.key); err != nil {
		return err
	}
	t.ends(to)
	if to == event.ApprovalApproved {
		return t.appendFact(r, x.step, event.ToolApprovalGrantedPayload{
			ApprovalID: x.a.ID, CallID: x.a.CallID, Tool: x.a.Tool, Arguments: x.a.Arguments, DecidedBy: x.a.DecidedBy,
			Reason: x.a.Reason, Scope: string(x.a.Scope),
		})
	}
	return t.appendFact(r, x.step, event.ToolApprovalDeniedPayload{
		ApprovalID: x.a.ID, CallID: x.a.CallID, Tool: x.a.Tool, Arguments: x.a.Arguments, DecidedBy: x.a.DecidedBy,
		Reason: x.a.Reason, Status: string(to),
	})
}

// decided is the outcome of Decide and AnswerQuestion. A conflict is carried beside the record, since a refused write
// returns both.
type decided[T any] struct {
	record   T
	wake     store.Wake
	conflict error
}

// Decide answers an approval. See store.Store. After the deadline an answer is refused as expired, also before
// ExpireDue has written the expiry.
func (s *Store) Decide(ctx context.Context, d store.Decision) (event.Approval, store.Wake, error) {
	switch d.Scope {
	case "":
		d.Scope = event.ScopeOnce
	case event.ScopeOnce, event.ScopeSession:
	default:
		return event.Approval{}, store.Wake{}, fmt.Errorf("approval %s: scope %q is neither once nor session", d.ApprovalID, d.Scope)
	}
	out, err := do(ctx, s.w, "decide", len(d.Reason), func(t *txn) (decided[event.Approval], error) { return t.decide(d) })
	if err == nil {
		err = out.conflict
	}
	return out.record, out.wake, err
}

func (t *txn) decide(d store.Decision) (out decided[event.Approval], err error) {
	x, err := t.approval(d.ApprovalID)
	if err == nil && x.a.TenantID != d.TenantID {
		err = notFound(sql.ErrNoRows, "approval", d.ApprovalID)
	}
	if err != nil {
		return out, err
	}
	r, err := t.run(x.a.RunID)
	if err != nil {
		return out, err
	}
	switch {
	case x.a.Status != event.ApprovalPending:
		if !sameAnswer(&x.a, d) {
			out.conflict = &event.ConflictError{What: "approval " + x.a.ID, Status: string(x.a.Status)}
		}
	case x.expires <= nanos(t.now):
		x.a.Status = event.ApprovalExpired
		out.conflict = &event.ConflictError{What: "approval " + x.a.ID, Status: string(event.ApprovalExpired)}
	default:
		move := event.MoveDeny
		if d.Approve {
			move, x.a.Scope = event.MoveApprove, d.Scope
		}
		x.a.DecidedBy, x.a.Reason = d.DecidedBy, d.Reason
		if err := t.closeApproval(r, x, move); err != nil {
			return out, err
		}
		if out.wake, err = t.wakeParked(r); err != nil {
			return out, err
		}
	}
	out.record = x.approval()
	return out, nil
}

// sameAnswer reports whether a decision repeats the one that the approval has.
func sameAnswer(a *event.Approval, d store.Decision) bool {
	switch a.Status {
	case event.ApprovalApproved, event.ApprovalConsumed:
		return d.Approve && a.Scope == d.Scope
	case event.ApprovalDenied:
		return !d.Approve
	}
	return false
}

// GetApproval returns an approval.
func (s *Store) GetApproval(ctx context.Context, id string) (event.Approval, error) {
	var x approvalRow
	if err := s.readers.row(ctx, selectApproval+` WHERE a.approval_id = ?`, []any{id}, x.dest()...); err != nil {
		return event.Approval{}, fmt.Errorf("approval %s: %w", id, err)
	}
	return x.approval(), nil
}

// ListApprovals lists the approvals of a tenant, newest first.
func (s *Store) ListApprovals(ctx context.Context, o store.ListOptions) ([]event.Approval, string, error) {
	f, err := newFilter("approvals", o)
	if err != nil {
		return nil, "", err
	}
	f.where(`a.tenant_id = ?`, o.TenantID)
	if o.ConversationID != "" {
		f.where(`r.conversation_id = ?`, o.ConversationID)
	}
	if o.RunID != "" {
		f.where(`a.run = (SELECT id FROM runs WHERE run_id = ?)`, o.RunID)
	}
	switch o.Status {
	case "":
	case string(event.ApprovalPending):
		f.where(`a.status = 'pending'`) // as a literal, so that the index of pending approvals can be used
	default:
		f.where(`a.status = ?`, o.Status)
	}
	f.page(`a.id`)
	var list []event.Approval
	var keys []int64
	err = s.readers.search(ctx, selectApproval+f.sql(), f.args, func(sc scanner) error {
		var x approvalRow
		err := sc.Scan(x.dest()...)
		list, keys = append(list, x.approval()), append(keys, x.key)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	n, next := f.next(keys)
	return list[:n], next, nil
}

// RunApprovals lists all approvals of a run, oldest first.
func (s *Store) RunApprovals(ctx context.Context, runID string) ([]event.Approval, error) {
	return s.approvals(ctx, selectApproval+` WHERE a.run = (SELECT id FROM runs WHERE run_id = ?) ORDER BY a.id`, runID)
}

// SessionApprovals lists the approvals of scope session that were granted in a conversation, oldest first.
func (s *Store) SessionApprovals(ctx context.Context, tenantID, conversationID string) ([]event.Approval, error) {
	return s.approvals(ctx, selectApproval+` WHERE a.conv = `+convOf+`
		AND a.scope = 'session' AND a.status IN ('approved', 'consumed') ORDER BY a.id`, tenantID, conversationID)
}

func (s *Store) approvals(ctx context.Context, query string, args ...any) ([]event.Approval, error) {
	var list []event.Approval
	err := s.readers.rows(ctx, query, args, func(sc scanner) error {
		var x approvalRow
		err := sc.Scan(x.dest()...)
		list = append(list, x.approval())
		return err
	})
	return list, err
}

// withdraw ends what is pending in a run that ends. A question has no event for that: the run's last event tells it.
func (t *txn) withdraw(r *runState) error {
	if !r.asks {
		return nil
	}
	var pending []*approvalRow
	err := t.rows(selectApproval+` WHERE a.run = ? AND a.status = 'pending' ORDER BY a.id`, []any{r.key}, func(sc scanner) error {
		x := new(approvalRow)
		pending = append(pending, x)
		return sc.Scan(x.dest()...)
	})
	if err != nil {
		return err
	}
	for _, x := range pending {
		x.a.Reason = "the run ended"
		if err := t.closeApproval(r, x, event.MoveWithdraw); err != nil {
			return err
		}
	}
	var open bool
	if err := t.row(`SELECT EXISTS (SELECT 1 FROM questions WHERE run = ? AND status = 'pending')`, []any{r.key}, &open); err != nil || !open {
		return err
	}
	return t.exec(`UPDATE questions SET status = 'withdrawn' WHERE run = ? AND status = 'pending'`, r.key)
}
