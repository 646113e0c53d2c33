package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

const selectQuestion = `SELECT q.id, q.question_id, r.run_id, q.tenant_id, q.step, q.call_id, q.tool, q.questions, q.status,
	q.asked_at, q.deadline_at, q.answered_by, q.answered_at, q.answers, q.settled
	FROM questions q JOIN live r ON r.id = q.run`

// questionRow is a question as it lies in the file.
type questionRow struct {
	key                int64
	q                  event.PendingQuestion
	step               int
	asked, deadline    int64
	answered           sql.NullInt64
	questions, answers []byte
}

func (x *questionRow) dest() []any {
	q := &x.q
	return []any{&x.key, &q.ID, &q.RunID, &q.TenantID, &x.step, &q.CallID, &q.Tool, &x.questions, &q.Status, &x.asked, &x.deadline,
		&q.AnsweredBy, &x.answered, &x.answers, &q.Settled}
}

func (x *questionRow) question() (event.PendingQuestion, error) {
	q := x.q
	q.AskedAt, q.DeadlineAt, q.AnsweredAt = fromNanos(x.asked), fromNanos(x.deadline), fromNullable(x.answered)
	if err := json.Unmarshal(x.questions, &q.Questions); err != nil {
		return q, fmt.Errorf("sqlite: question %s: questions: %w", q.ID, err)
	}
	if err := json.Unmarshal(x.answers, &q.Answers); err != nil {
		return q, fmt.Errorf("sqlite: question %s: answers: %w", q.ID, err)
	}
	return q, nil
}

// insertQuestion stores a question of a batch, with the step that its run.waiting_for_user event names where that is
// in the same batch.
func (t *txn) insertQuestion(r *runState, q event.PendingQuestion, events []store.NewEvent) error {
	step := stepOf(r, events, event.RunWaitingForUser, func(m eventRef) bool { return m.CallID == q.CallID })
	questions, err := json.Marshal(q.Questions)
	if err != nil {
		return fmt.Errorf("question %s: %w", q.ID, err)
	}
	answers, err := json.Marshal(q.Answers)
	if err != nil {
		return fmt.Errorf("question %s: %w", q.ID, err)
	}
	if q.Status == "" {
		q.Status = event.QuestionPending
	}
	if q.AskedAt.IsZero() {
		q.AskedAt = t.now
	}
	if err := t.exec(`INSERT INTO questions (question_id, run, tenant_id, step, call_id, tool, questions, status, asked_at, deadline_at,
		answered_by, answered_at, answers, settled) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		q.ID, r.key, r.tenant, step, q.CallID, q.Tool, string(questions), string(q.Status), nanos(q.AskedAt), nanos(q.DeadlineAt),
		q.AnsweredBy, nanosOrNull(q.AnsweredAt), string(answers), q.Settled); err != nil {
		return fmt.Errorf("question %s: %w", q.ID, err)
	}
	return nil
}

// closeQuestion writes the answer, or the expiry where answers is nil, and appends run.resumed.
func (t *txn) closeQuestion(r *runState, x *questionRow, status event.QuestionStatus, by string, answers map[string][]string) error {
	text, err := json.Marshal(answers)
	if err != nil {
		return fmt.Errorf("question %s: %w", x.q.ID, err)
	}
	x.q.Status, x.q.AnsweredBy, x.answers = status, by, text
	x.answered = sql.NullInt64{Int64: nanos(t.now), Valid: true}
	if err := t.exec(`UPDATE questions SET status = ?, answered_by = ?, answered_at = ?, answers = ? WHERE id = ?`,
		string(status), by, x.answered.Int64, string(text), x.key); err != nil {
		return err
	}
	return t.appendFact(r, x.step, event.RunResumedPayload{
		CallID: x.q.CallID, Tool: x.q.Tool, AnsweredAt: fromNanos(x.answered.Int64), AnsweredBy: by,
		TimedOut: status == event.QuestionExpired, Answers: answers,
	})
}

// AnswerQuestion answers a question. See store.Store. After the deadline an answer is refused as expired.
func (s *Store) AnswerQuestion(ctx context.Context, a store.Answer) (event.PendingQuestion, store.Wake, error) {
	out, err := do(ctx, s.w, "answer", 1024, func(t *txn) (decided[event.PendingQuestion], error) { return t.answer(a) })
	if err == nil {
		err = out.conflict
	}
	return out.record, out.wake, err
}

func (t *txn) answer(a store.Answer) (out decided[event.PendingQuestion], err error) {
	var x questionRow
	err = t.row(selectQuestion+` WHERE q.question_id = ?`, []any{a.QuestionID}, x.dest()...)
	if err == nil && x.q.TenantID != a.TenantID {
		err = sql.ErrNoRows
	}
	if err != nil {
		return out, notFound(err, "question", a.QuestionID)
	}
	r, err := t.run(x.q.RunID)
	if err != nil {
		return out, err
	}
	before, err := x.question()
	if err != nil {
		return out, err
	}
	switch {
	case x.q.Status == event.QuestionAnswered && maps.EqualFunc(before.Answers, a.Answers, slices.Equal[[]string]):
	case x.q.Status != event.QuestionPending:
		out.conflict = &event.ConflictError{What: "question " + x.q.ID, Status: string(x.q.Status)}
	case x.deadline <= nanos(t.now):
		x.q.Status = event.QuestionExpired
		out.conflict = &event.ConflictError{What: "question " + x.q.ID, Status: string(event.QuestionExpired)}
	default:
		if err := t.closeQuestion(r, &x, event.QuestionAnswered, a.AnsweredBy, a.Answers); err != nil {
			return out, err
		}
		if out.wake, err = t.wakeParked(r); err != nil {
			return out, err
		}
	}
	out.record, err = x.question()
	return out, err
}

// RunQuestions lists all questions of a run, oldest first.
func (s *Store) RunQuestions(ctx context.Context, runID string) ([]event.PendingQuestion, error) {
	var list []event.PendingQuestion
	err := s.readers.rows(ctx, selectQuestion+` WHERE q.run = (SELECT id FROM runs WHERE run_id = ?) ORDER BY q.id`, []any{runID},
		func(sc scanner) error {
			var x questionRow
			if err := sc.Scan(x.dest()...); err != nil {
				return err
			}
			q, err := x.question()
			list = append(list, q)
			return err
		})
	return list, err
}
