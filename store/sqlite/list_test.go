package sqlite

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/harness-go/harness/store"
)

func FuzzCursor(f *testing.F) {
	f.Add("runs", formatCursor("runs", 7))
	f.Add("runs", formatCursor("approvals", 7))
	f.Add("approvals", "cnVuczow")
	f.Add("", "!")
	f.Fuzz(func(t *testing.T, list, cursor string) {
		key, err := parseCursor(list, cursor)
		if err != nil {
			if !errors.Is(err, store.ErrBadCursor) {
				t.Fatalf("error is %v", err)
			}
			return
		}
		if key <= 0 || formatCursor(list, key) != cursor {
			t.Fatalf("%q is read as %d", cursor, key)
		}
	})
}

// What grows with the history must be found by an index: a scan of such a table in a hot query is a fault.
func TestHotQueriesUseIndexes(t *testing.T) {
	s := openDir(t, t.TempDir())
	list := func(o store.ListOptions, query func(*filter) string) string {
		f, err := newFilter("x", o)
		if err != nil {
			t.Fatal(err)
		}
		return query(f)
	}
	queries := map[string]string{
		"load run":                  loadRun,
		"get run":                   selectRun + ` WHERE r.run_id = ?`,
		"last run":                  selectRun + ` WHERE r.tenant_id = ? AND r.conversation_id = ? ORDER BY r.id DESC LIMIT 1`,
		"free":                      `SELECT NOT EXISTS (SELECT 1 FROM runs WHERE conv = ? AND finished_at IS NULL)`,
		"queued":                    `SELECT r.run_id FROM runs r WHERE r.status = 'queued' AND r.finished_at IS NULL AND ` + conversationFree + ` ORDER BY r.id LIMIT ?`,
		"running":                   `SELECT run_id FROM runs WHERE status = 'running' AND finished_at IS NULL`,
		"arrived":                   `SELECT ` + somethingArrived + ` FROM runs r WHERE r.id = ?`,
		"due approvals":             selectApproval + ` WHERE a.status = 'pending' AND a.expires_at <= ? ORDER BY a.expires_at LIMIT ?`,
		"due questions":             selectQuestion + ` WHERE q.status = 'pending' AND q.deadline_at <= ? ORDER BY q.deadline_at LIMIT ?`,
		"next deadline":             `SELECT min(expires_at) AS at FROM approvals WHERE status = 'pending'`,
		"pending of run":            selectApproval + ` WHERE a.run = ? AND a.status = 'pending' ORDER BY a.id`,
		"of session":                selectApproval + ` WHERE a.conv = ? AND a.scope = 'session' AND a.status IN ('approved', 'consumed') ORDER BY a.id`,
		"events":                    `SELECT seq FROM events WHERE run = (SELECT id FROM live WHERE run_id = ?) AND seq > ? ORDER BY seq LIMIT ?`,
		"steering":                  `SELECT id FROM steering WHERE run = ? AND delivered = 0 ORDER BY id`,
		"transcript head":           `SELECT coalesce(max(idx), 0) FROM transcript WHERE conv = ?`,
		"conversation":              `SELECT ` + convOf,
		"conversation's transcript": selectItem + ` WHERE t.conv = ` + convOf + ` AND t.idx > ?3 ORDER BY t.idx LIMIT ?4`,
		"feed":                      selectItem + ` WHERE t.id > ? ORDER BY t.id LIMIT ?`,
		"purge":                     `SELECT id, run_id FROM runs WHERE tenant_id = ? AND conversation_id = ? AND conv = ? ORDER BY id LIMIT 1`,
		"key":                       selectKey + ` WHERE hash = ?`,
		"old keys":                  `SELECT tenant_id, key FROM idempotency WHERE created_at <= ? ORDER BY created_at LIMIT 4`,
		"list of tenant": list(store.ListOptions{}, func(f *filter) string {
			f.where(`r.tenant_id = ?`)
			f.page(`r.id`)
			return selectRunWithoutState + f.sql()
		}),
		"list of conversations": list(store.ListOptions{}, func(f *filter) string {
			f.where(`r.tenant_id = ?`)
			f.where(newestOfConversation)
			f.page(`r.id`)
			return `SELECT r.id FROM live r` + f.sql()
		}),
		"list of an agent's conversations": list(store.ListOptions{}, func(f *filter) string {
			f.where(`r.tenant_id = ?`)
			f.where(`r.agent_id = ? AND r.agent_id <> ''`)
			f.where(newestOfConversation)
			f.page(`r.id`)
			return `SELECT r.id FROM live r` + f.sql()
		}),
		"list of pending": list(store.ListOptions{}, func(f *filter) string {
			f.where(`a.tenant_id = ?`)
			f.where(`a.status = 'pending'`)
			f.page(`a.id`)
			return selectApproval + f.sql()
		}),
	}
	for name, q := range queries {
		var plan []string
		args := make([]any, strings.Count(q, "?"))
		if err := s.readers.search(context.Background(), `EXPLAIN QUERY PLAN `+q, args, func(sc scanner) error {
			var id, parent, unused int
			var detail string
			err := sc.Scan(&id, &parent, &unused, &detail)
			plan = append(plan, detail)
			return err
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, step := range plan {
			covered := strings.HasPrefix(step, "SCAN approvals USING COVERING INDEX approvals_deadline") // min of a partial index
			if (strings.HasPrefix(step, "SCAN") && step != "SCAN CONSTANT ROW" && !covered) || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s: %s\n\t%s", name, step, strings.Join(plan, "\n\t"))
			}
		}
	}
}
