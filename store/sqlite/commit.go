package sqlite

import (
	"time"

	"github.com/harness-go/harness/event"
)

// Commit tells of one group commit.
type Commit struct {
	// Took is the time from the beginning of the transaction to the end of its commit, without the wait in the queue.
	Took time.Duration
	// Writes and Events are how many operations shared it, and how many events they added.
	Writes int
	Events int
	// Ended are the approvals that it ended, by their new status; nil when there are none.
	Ended map[event.ApprovalStatus]int
}

// told hands a commit to Options.Committed.
func (w *writer) told(t *txn, begun time.Time, writes int) {
	c := Commit{Took: time.Since(begun), Writes: writes, Ended: t.ended}
	for _, r := range t.touched {
		c.Events += len(r.fresh)
	}
	w.committed(c)
}

// ends counts an approval that the transaction ends.
func (t *txn) ends(to event.ApprovalStatus) {
	if t.ended == nil {
		t.ended = map[event.ApprovalStatus]int{}
	}
	t.ended[to]++
}
