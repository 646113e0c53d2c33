package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// receipt is a submitted batch.
type receipt struct {
	op
	queue *queue
	head  int64
}

func (r *receipt) Done() <-chan struct{} { return r.done }

func (r *receipt) Wait(ctx context.Context) (int64, error) {
	select {
	case <-r.done:
		return r.head, r.err
	default:
	}
	r.queue.hurry()
	select {
	case <-r.done:
		return r.head, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Submit queues a batch. It waits only while the queue is full. The batch and what it points to must not be changed
// afterwards. See store.Store.
func (s *Store) Submit(b store.Batch) store.Receipt {
	r := &receipt{op: op{kind: "submit", lazy: true, size: batchSize(&b), done: make(chan struct{})}, queue: s.w.queue}
	r.apply = func(t *txn) error {
		run, err := t.owned(b.RunID, b.Epoch)
		if err == nil {
			err = t.checkBatch(run, &b)
		}
		if err == nil {
			err = t.applyBatch(run, &b)
		}
		if err == nil {
			r.head = run.head
		}
		return err
	}
	err := validBatch(&b)
	if err == nil && b.Update != nil && b.Update.Status != nil && *b.Update.Status != store.StatusRunning {
		err = fmt.Errorf("run %s: Submit cannot set status %s: Finish ends a run, Park lets it wait", b.RunID, *b.Update.Status)
	}
	if err == nil {
		err = s.w.queue.push(&r.op)
	}
	if err != nil {
		r.err = err
		close(r.done)
	}
	return r
}

// Finish ends a run. See store.Store.
func (s *Store) Finish(ctx context.Context, b store.Batch) (store.Wake, error) {
	if b.Update == nil || b.Update.Status == nil || !b.Update.Status.Terminal() {
		return store.Wake{}, fmt.Errorf("run %s: Finish needs an Update with a terminal status", b.RunID)
	}
	if err := validBatch(&b); err != nil {
		return store.Wake{}, err
	}
	return do(ctx, s.w, "finish", batchSize(&b), func(t *txn) (store.Wake, error) {
		r, err := t.owned(b.RunID, b.Epoch)
		if err != nil {
			return store.Wake{}, err
		}
		if err := t.checkBatch(r, &b); err != nil {
			return store.Wake{}, err
		}
		if err := t.withdraw(r); err != nil {
			return store.Wake{}, err
		}
		if err := t.applyBatch(r, &b); err != nil {
			return store.Wake{}, err
		}
		return t.leaseNext(r)
	})
}

// Park ends a segment that waits. See store.Store. An answer has arrived while it is decided and not settled; an
// approval that was consumed was taken by the owner itself and does not count.
func (s *Store) Park(ctx context.Context, p store.Park) (bool, error) {
	if !p.Status.Waiting() {
		return false, fmt.Errorf("run %s: Park needs a waiting status, not %q", p.RunID, p.Status)
	}
	u := store.RunUpdate{}
	if p.Update != nil {
		u = *p.Update
	}
	if u.Status != nil && *u.Status != p.Status {
		return false, fmt.Errorf("run %s: Park's Update sets status %s, Park itself %s", p.RunID, *u.Status, p.Status)
	}
	u.Status = &p.Status
	b := store.Batch{RunID: p.RunID, Epoch: p.Epoch, Events: p.Events, State: p.State, Update: &u}
	if err := validBatch(&b); err != nil {
		return false, err
	}
	return do(ctx, s.w, "park", batchSize(&b), func(t *txn) (bool, error) {
		r, err := t.owned(p.RunID, p.Epoch)
		if err != nil {
			return false, err
		}
		if r.cancel {
			return false, nil
		}
		var arrived bool
		if err := t.row(`SELECT `+somethingArrived+` FROM (SELECT ? AS id) r`, []any{r.key}, &arrived); err != nil || arrived {
			return false, err
		}
		err = t.applyBatch(r, &b)
		return err == nil, err
	})
}

// somethingArrived is true for a run r with something that no owner has taken yet, beside a cancel request.
const somethingArrived = `(
	EXISTS (SELECT 1 FROM approvals WHERE run = r.id AND settled = 0 AND status IN ('approved', 'denied', 'expired'))
	OR EXISTS (SELECT 1 FROM questions WHERE run = r.id AND settled = 0 AND status IN ('answered', 'expired'))
	OR EXISTS (SELECT 1 FROM steering WHERE run = r.id AND delivered = 0))`

// leaseNext leases the oldest queued run of the conversation unless another of its runs is still at work.
func (t *txn) leaseNext(r *runState) (store.Wake, error) {
	var next string
	err := t.row(`SELECT coalesce((SELECT run_id FROM runs r WHERE conv = ? AND finished_at IS NULL AND status = 'queued'
		AND `+conversationFree+` ORDER BY id LIMIT 1), '')`, []any{r.conv}, &next)
	if err != nil || next == "" {
		return store.Wake{}, err
	}
	n, err := t.run(next)
	if err != nil {
		return store.Wake{}, err
	}
	return t.lease(n)
}

// conversationFree is true for a queued run r that is the next of its conversation.
const conversationFree = `NOT EXISTS (SELECT 1 FROM runs o WHERE o.conv = r.conv AND o.finished_at IS NULL
	AND o.id <> r.id AND (o.id < r.id OR o.status <> 'queued'))`

// validBatch checks what needs no look at the store.
func validBatch(b *store.Batch) error {
	for i := range b.Events {
		if b.Events[i].Type == "" {
			return fmt.Errorf("run %s: event %d of the batch has no type", b.RunID, i)
		}
	}
	for i := range b.Approvals {
		a := &b.Approvals[i]
		switch {
		case a.ID == "":
			return fmt.Errorf("run %s: approval %d of the batch has no id", b.RunID, i)
		case a.RunID != "" && a.RunID != b.RunID:
			return fmt.Errorf("run %s: approval %s names run %s", b.RunID, a.ID, a.RunID)
		case a.ExpiresAt.IsZero():
			return fmt.Errorf("run %s: approval %s has no deadline: set ExpiresAt", b.RunID, a.ID)
		}
	}
	for i := range b.Questions {
		q := &b.Questions[i]
		switch {
		case q.ID == "":
			return fmt.Errorf("run %s: question %d of the batch has no id", b.RunID, i)
		case q.RunID != "" && q.RunID != b.RunID:
			return fmt.Errorf("run %s: question %s names run %s", b.RunID, q.ID, q.RunID)
		case q.DeadlineAt.IsZero():
			return fmt.Errorf("run %s: question %s has no deadline: set DeadlineAt", b.RunID, q.ID)
		}
	}
	return nil
}

// checkBatch refuses a batch that the store's content does not allow, before anything of it is written.
func (t *txn) checkBatch(r *runState, b *store.Batch) error {
	for i := range b.Approvals {
		if a := &b.Approvals[i]; a.TenantID != "" && a.TenantID != r.tenant {
			return fmt.Errorf("run %s: approval %s names another tenant", r.id, a.ID)
		}
	}
	for i := range b.Questions {
		if q := &b.Questions[i]; q.TenantID != "" && q.TenantID != r.tenant {
			return fmt.Errorf("run %s: question %s names another tenant", r.id, q.ID)
		}
	}
	if b.Consume != "" {
		status, err := t.statusOf(r, "approvals", "approval", b.Consume)
		if err != nil {
			return err
		}
		if _, ok := event.ApprovalStatus(status).Next(event.MoveBegin); !ok {
			return &event.ConflictError{What: "approval " + b.Consume, Status: status}
		}
	}
	for _, id := range b.SettleApprovals {
		if err := t.checkSettle(r, "approvals", "approval", id); err != nil {
			return err
		}
	}
	for _, id := range b.SettleQuestions {
		if err := t.checkSettle(r, "questions", "question", id); err != nil {
			return err
		}
	}
	return nil
}

// checkSettle refuses to settle an answer that nobody has given: it would never be delivered.
func (t *txn) checkSettle(r *runState, table, what, id string) error {
	status, err := t.statusOf(r, table, what, id)
	if err == nil && status == string(event.ApprovalPending) {
		return fmt.Errorf("%s %s is pending: there is no answer to settle", what, id)
	}
	return err
}

// statusOf is the status of an approval or question of the run.
func (t *txn) statusOf(r *runState, table, what, id string) (string, error) {
	var status string
	err := t.row(`SELECT status FROM `+table+` WHERE `+what+`_id = ? AND run = ?`, []any{id, r.key}, &status)
	return status, notFound(err, what, id)
}

// applyBatch writes a batch that was checked.
func (t *txn) applyBatch(r *runState, b *store.Batch) error {
	if err := t.append(r, b.Events...); err != nil {
		return err
	}
	if len(b.Transcript) > 0 {
		if err := t.appendTranscript(r, b.Transcript); err != nil {
			return err
		}
	}
	r.asks = r.asks || len(b.Approvals) > 0 || len(b.Questions) > 0
	for i := range b.Approvals {
		if err := t.insertApproval(r, b.Approvals[i], b.Events); err != nil {
			return err
		}
	}
	for i := range b.Questions {
		if err := t.insertQuestion(r, b.Questions[i], b.Events); err != nil {
			return err
		}
	}
	if b.Consume != "" {
		if err := t.exec(`UPDATE approvals SET status = 'consumed' WHERE approval_id = ?`, b.Consume); err != nil {
			return err
		}
	}
	for _, id := range b.SettleApprovals {
		if err := t.exec(`UPDATE approvals SET settled = 1 WHERE approval_id = ?`, id); err != nil {
			return err
		}
	}
	for _, id := range b.SettleQuestions {
		if err := t.exec(`UPDATE questions SET settled = 1 WHERE question_id = ?`, id); err != nil {
			return err
		}
	}
	if b.SteerDelivered > 0 {
		if err := t.exec(`UPDATE steering SET delivered = 1 WHERE run = ? AND id <= ? AND delivered = 0`,
			r.key, b.SteerDelivered); err != nil {
			return err
		}
	}
	if b.State != nil {
		if err := t.exec(`INSERT OR REPLACE INTO checkpoints (run, state) VALUES (?, ?)`, r.key, []byte(b.State)); err != nil {
			return err
		}
	}
	if b.Update != nil {
		return t.updateRun(r, b.Update)
	}
	return nil
}

// updateRun changes the run's row; nil fields stay.
func (t *txn) updateRun(r *runState, u *store.RunUpdate) error {
	usage, err := jsonOrNull(u.Usage)
	if err != nil {
		return err
	}
	cost, err := jsonOrNull(u.Cost)
	if err != nil {
		return err
	}
	if u.Status != nil {
		r.status = *u.Status
	}
	if u.Steps != nil {
		r.steps = *u.Steps
	}
	if u.Progress {
		r.attempts = 0
	}
	var finished any
	if r.status.Terminal() {
		finished = nanos(t.now)
	}
	return t.exec(`UPDATE runs SET status = ?, steps = ?, attempts = ?, output = coalesce(?, output), error = coalesce(?, error),
		reason = coalesce(?, reason), usage = coalesce(?, usage), cost = coalesce(?, cost), updated_at = ?, finished_at = ?
		WHERE id = ?`,
		string(r.status), r.steps, r.attempts, orNull(u.Output), orNull(u.Error), orNull(u.Reason), usage, cost,
		nanos(t.now), finished, r.key)
}

// batchSize estimates what a batch holds in memory, for the bounds of the queue and of a commit.
func batchSize(b *store.Batch) int {
	n := opOverhead + len(b.State)
	for i := range b.Events {
		n += len(b.Events[i].Payload) + 64
	}
	for i := range b.Transcript {
		n += len(b.Transcript[i].Data) + 64
	}
	for i := range b.Approvals {
		n += len(b.Approvals[i].Arguments) + len(b.Approvals[i].Details) + 512
	}
	n += 1024 * len(b.Questions)
	if b.Update != nil && b.Update.Output != nil {
		n += len(*b.Update.Output)
	}
	return n
}

func orNull(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

func jsonOrNull[T any](v *T) (any, error) {
	if v == nil {
		return nil, nil
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// notFound turns a missing row into store.ErrNotFound with the object's id.
func notFound(err error, what, id string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%s %s: %w", what, id, store.ErrNotFound)
	}
	return err
}
