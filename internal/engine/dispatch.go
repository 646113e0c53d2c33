package engine

import (
	"context"

	"github.com/harness-go/harness/store"
)

// Dispatcher hands segments of runs to workers. A segment is the work of a run from its start, or from a decision,
// to its next wait. The dispatcher keeps no run state: the body reads the store and goes on from there.
//
// Contract, held by dispatchtest: a handed-over segment's body is called at least once unless the dispatcher is
// stopped (then Recover finds the run); at most Limit bodies run at once and the rest wait in order; a panic in a
// body does not end the dispatcher; Cancel reaches a running body through its context, with the given cause.
type Dispatcher interface {
	// Start begins to call body. It is called once, before any Dispatch.
	Start(body func(ctx context.Context, w store.Wake)) error
	// Dispatch hands over a segment. It does not wait for a worker.
	Dispatch(w store.Wake) error
	// Cancel ends the context of a running segment of the run, if there is one here.
	Cancel(runID string, cause error) bool
	// Stop lets no further segment start, ends the contexts of running ones with cause, and waits for them until
	// ctx ends.
	Stop(ctx context.Context, cause error) error
}
