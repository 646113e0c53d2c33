package sqlite

import (
	"context"

	"github.com/harness-go/harness/store"
)

var _ store.OpenCounter = (*Store)(nil)

// CountOpen counts open runs and pending approvals, from indexes that hold nothing else.
func (s *Store) CountOpen(ctx context.Context) (store.Open, error) {
	o := store.Open{Runs: map[store.Status]int64{}}
	err := s.readers.rows(ctx, `SELECT status, count(*) FROM runs WHERE finished_at IS NULL GROUP BY status`, nil, func(sc scanner) error {
		var status store.Status
		var n int64
		err := sc.Scan(&status, &n)
		o.Runs[status] = n
		return err
	})
	if err != nil {
		return store.Open{}, err
	}
	return o, s.readers.row(ctx, `SELECT count(*) FROM approvals WHERE status = 'pending'`, nil, &o.Approvals)
}
