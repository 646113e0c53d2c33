package store

import "context"

// Open counts what has not ended.
type Open struct {
	// Runs are the open runs by their status. A status that no run has may be absent.
	Runs map[Status]int64
	// Approvals are the pending approvals.
	Approvals int64
}

// OpenCounter counts over all tenants, for the operator of a node. Its cost grows with the number of open runs only.
type OpenCounter interface {
	CountOpen(ctx context.Context) (Open, error)
}
