package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/harness-go/harness/store"
)

// runColumns are the columns of runRow but for the state, from runs r and run_inputs i. A run was last updated by a
// change of its row or by its last event.
const runColumns = `r.id, r.run_id, r.tenant_id, r.conversation_id, r.previous_run_id, r.status, i.prompt, i.request, r.output,
	r.error, r.reason, r.usage, r.cost, r.steps, r.epoch, r.attempts, r.cancel, r.cancelled_by, r.created_by, r.created_at,
	r.finished_at,
	coalesce((SELECT max(seq) FROM events WHERE run = r.id), 0),
	max(r.updated_at, coalesce((SELECT time FROM events WHERE run = r.id ORDER BY seq DESC LIMIT 1), 0))`

const (
	selectRun = `SELECT ` + runColumns + `, c.state FROM live r JOIN run_inputs i ON i.run = r.id
		LEFT JOIN checkpoints c ON c.run = r.id`
	selectRunWithoutState = `SELECT ` + runColumns + `, NULL FROM live r JOIN run_inputs i ON i.run = r.id`
)

// runRow is a run as it lies in the file.
type runRow struct {
	key              int64
	r                store.Run
	usage, cost      string
	request, state   []byte
	created, updated int64
	finished         sql.NullInt64
}

func (x *runRow) dest() []any {
	return []any{&x.key, &x.r.ID, &x.r.TenantID, &x.r.ConversationID, &x.r.PreviousRunID, &x.r.Status, &x.r.Prompt, &x.request,
		&x.r.Output, &x.r.Error, &x.r.Reason, &x.usage, &x.cost, &x.r.Steps, &x.r.Epoch, &x.r.Attempts, &x.r.CancelRequested,
		&x.r.CancelledBy, &x.r.CreatedBy, &x.created, &x.finished, &x.r.Head, &x.updated, &x.state}
}

func (x *runRow) run() (store.Run, error) {
	r := x.r
	r.Request, r.State = x.request, x.state
	r.CreatedAt, r.UpdatedAt, r.FinishedAt = fromNanos(x.created), fromNanos(x.updated), fromNullable(x.finished)
	if x.usage != "" {
		if err := json.Unmarshal([]byte(x.usage), &r.Usage); err != nil {
			return store.Run{}, fmt.Errorf("sqlite: run %s: usage: %w", r.ID, err)
		}
	}
	if x.cost != "" {
		if err := json.Unmarshal([]byte(x.cost), &r.Cost); err != nil {
			return store.Run{}, fmt.Errorf("sqlite: run %s: cost: %w", r.ID, err)
		}
	}
	return r, nil
}

// GetRun returns a run.
func (s *Store) GetRun(ctx context.Context, id string) (store.Run, error) {
	return s.oneRun(ctx, "run "+id, selectRun+` WHERE r.run_id = ?`, id)
}

// LastRun returns the newest run of a conversation.
func (s *Store) LastRun(ctx context.Context, tenantID, conversationID string) (store.Run, error) {
	return s.oneRun(ctx, "conversation "+conversationID,
		selectRun+` WHERE r.tenant_id = ? AND r.conversation_id = ? ORDER BY r.id DESC LIMIT 1`, tenantID, conversationID)
}

func (s *Store) oneRun(ctx context.Context, what, query string, args ...any) (store.Run, error) {
	var x runRow
	if err := s.readers.row(ctx, query, args, x.dest()...); err != nil {
		return store.Run{}, fmt.Errorf("%s: %w", what, err)
	}
	return x.run()
}

// ListRuns lists the runs of a tenant, newest first.
func (s *Store) ListRuns(ctx context.Context, o store.ListOptions) ([]store.Run, string, error) {
	f, err := newFilter("runs", o)
	if err != nil {
		return nil, "", err
	}
	f.where(`r.tenant_id = ?`, o.TenantID)
	if o.ConversationID != "" {
		f.where(`r.conversation_id = ?`, o.ConversationID)
	}
	if o.RunID != "" {
		f.where(`r.run_id = ?`, o.RunID)
	}
	if o.Status != "" {
		f.where(`r.status = ?`, o.Status)
		if !store.Status(o.Status).Terminal() {
			f.where(`r.finished_at IS NULL`) // lets the index of open runs be used
		}
	}
	f.page(`r.id`)
	var list []store.Run
	var keys []int64
	err = s.readers.search(ctx, selectRunWithoutState+f.sql(), f.args, func(sc scanner) error {
		var x runRow
		if err := sc.Scan(x.dest()...); err != nil {
			return err
		}
		r, err := x.run()
		list, keys = append(list, r), append(keys, x.key)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	n, next := f.next(keys)
	return list[:n], next, nil
}
