package sqlite

import (
	"context"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// maxExpire bounds one commit of ExpireDue.
const maxExpire = 1000

// expired is the outcome of ExpireDue.
type expired struct {
	wakes []store.Wake
	next  time.Time
}

// ExpireDue expires what is due. See store.Store. A limit below 1 or above 1,000 means 1,000. Where more is due than
// the limit, next is not after the present, so that the caller comes back at once.
func (s *Store) ExpireDue(ctx context.Context, limit int) ([]store.Wake, time.Time, error) {
	if limit <= 0 || limit > maxExpire {
		limit = maxExpire
	}
	out, err := do(ctx, s.w, "expire", 0, func(t *txn) (expired, error) { return t.expireDue(limit) })
	return out.wakes, out.next, err
}

func (t *txn) expireDue(limit int) (out expired, err error) {
	now := nanos(t.now)
	var approvals []*approvalRow
	err = t.rows(selectApproval+` WHERE a.status = 'pending' AND a.expires_at <= ? ORDER BY a.expires_at LIMIT ?`, []any{now, limit},
		func(sc scanner) error {
			x := new(approvalRow)
			approvals = append(approvals, x)
			return sc.Scan(x.dest()...)
		})
	if err != nil {
		return out, err
	}
	var questions []*questionRow
	err = t.rows(selectQuestion+` WHERE q.status = 'pending' AND q.deadline_at <= ? ORDER BY q.deadline_at LIMIT ?`,
		[]any{now, limit - len(approvals)}, func(sc scanner) error {
			x := new(questionRow)
			questions = append(questions, x)
			return sc.Scan(x.dest()...)
		})
	if err != nil {
		return out, err
	}
	wake := func(r *runState) error {
		w, err := t.wakeParked(r)
		if err == nil && w != (store.Wake{}) {
			out.wakes = append(out.wakes, w)
		}
		return err
	}
	for _, x := range approvals {
		r, err := t.run(x.a.RunID)
		if err != nil {
			return out, err
		}
		x.a.Reason = "no answer by the deadline " + fromNanos(x.expires).Format(time.RFC3339)
		if err := t.closeApproval(r, x, event.MoveExpire); err != nil {
			return out, err
		}
		if err := wake(r); err != nil {
			return out, err
		}
	}
	for _, x := range questions {
		r, err := t.run(x.q.RunID)
		if err != nil {
			return out, err
		}
		if err := t.closeQuestion(r, x, event.QuestionExpired, "", nil); err != nil {
			return out, err
		}
		if err := wake(r); err != nil {
			return out, err
		}
	}
	var next int64
	err = t.row(`SELECT coalesce(min(at), 0) FROM (
		SELECT min(expires_at) AS at FROM approvals WHERE status = 'pending'
		UNION ALL SELECT min(deadline_at) FROM questions WHERE status = 'pending')`, nil, &next)
	out.next = fromNanos(next)
	return out, err
}
