package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/harness-go/harness/store"
)

// Recover takes over every open run, oldest first. See store.Store. The file has one process, so at its start no run
// has a living owner: call Recover once, before any run is created or leased.
func (s *Store) Recover(ctx context.Context) ([]store.Wake, error) {
	return do(ctx, s.w, "recover", 0, func(t *txn) ([]store.Wake, error) {
		var orphans, arrived []string
		if err := t.ids(&orphans, `SELECT run_id FROM runs WHERE status = 'running' AND finished_at IS NULL`); err != nil {
			return nil, err
		}
		// A write that arrives for a parked run leases it in the same commit. Those that are parked with something to
		// do exist only where that rule was broken; they must not wait for ever.
		if err := t.ids(&arrived, `SELECT r.run_id FROM runs r WHERE r.finished_at IS NULL
			AND r.status IN ('waiting_for_user', 'waiting_for_approval') AND r.id IN (
				SELECT run FROM approvals WHERE settled = 0 AND status IN ('approved', 'denied', 'expired')
				UNION SELECT run FROM questions WHERE settled = 0 AND status IN ('answered', 'expired')
				UNION SELECT run FROM steering WHERE delivered = 0
				UNION SELECT id FROM runs WHERE cancel = 1 AND finished_at IS NULL)`); err != nil {
			return nil, err
		}
		leased, err := t.leaseAll(orphans, 1)
		if err != nil {
			return nil, err
		}
		more, err := t.leaseAll(arrived, 0)
		if err != nil {
			return nil, err
		}
		queued, err := t.leaseQueued(-1)
		if err != nil {
			return nil, err
		}
		return wakes(slices.Concat(leased, more, queued)), nil
	})
}

// LeaseQueued leases queued runs whose conversation is free, oldest first. See store.Store. A limit below 1 leases
// none.
func (s *Store) LeaseQueued(ctx context.Context, limit int) ([]store.Wake, error) {
	if limit < 1 {
		return nil, nil
	}
	return do(ctx, s.w, "lease", 0, func(t *txn) ([]store.Wake, error) {
		leased, err := t.leaseQueued(limit)
		if err != nil {
			return nil, err
		}
		return wakes(leased), nil
	})
}

// leaseQueued leases up to limit queued runs; -1 is no limit.
func (t *txn) leaseQueued(limit int) ([]*runState, error) {
	var free []string
	err := t.ids(&free, `SELECT r.run_id FROM runs r WHERE r.status = 'queued' AND r.finished_at IS NULL AND `+conversationFree+`
		ORDER BY r.id LIMIT ?`, limit)
	if err != nil {
		return nil, err
	}
	return t.leaseAll(free, 0)
}

// leaseAll leases the runs and adds to their attempts.
func (t *txn) leaseAll(ids []string, attempts int) ([]*runState, error) {
	list := make([]*runState, 0, len(ids))
	for _, id := range ids {
		r, err := t.run(id)
		if err != nil {
			return nil, err
		}
		r.attempts += attempts
		if _, err := t.lease(r); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// wakes lists the owners that runs were given, oldest run first.
func wakes(list []*runState) []store.Wake {
	slices.SortFunc(list, func(a, b *runState) int { return cmp.Compare(a.key, b.key) })
	out := make([]store.Wake, len(list))
	for i, r := range list {
		out[i] = store.Wake{RunID: r.id, Epoch: r.epoch}
	}
	return out
}

func (t *txn) ids(list *[]string, query string, args ...any) error {
	return t.rows(query, args, func(sc scanner) error {
		var id string
		err := sc.Scan(&id)
		*list = append(*list, id)
		return err
	})
}
