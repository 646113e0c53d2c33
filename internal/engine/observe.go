package engine

import (
	"context"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// Observer is told what runs do, for metrics and traces. It learns of facts only once they are committed, those of a
// run in the order of its log. Its methods are called by the goroutines that do the work: they must be quick, must not
// block, and are safe for concurrent use.
type Observer interface {
	// Segment begins the observation of one segment. Nil: this one is of no interest.
	Segment(SegmentStart) SegmentObserver
}

// SegmentStart is what is known when a segment begins.
type SegmentStart struct {
	At time.Time
	// Run is the run as its owner found it.
	Run  store.Run
	Plan Plan
}

// First reports whether nothing of the run was executed before.
func (s SegmentStart) First() bool { return s.Run.Head <= 1 }

// SegmentObserver follows one segment. Its methods are called one at a time.
type SegmentObserver interface {
	// Committed gets facts that the segment added to the log; at is when they were made. Pieces of texts, arguments and
	// outputs (the kinds that end in .delta, but for usage.delta) are left out: the whole follows.
	Committed(at time.Time, facts []event.Fact)
	// Ended is the last call. The status is that of the run now; running means that the segment was interrupted and
	// that another owner goes on.
	Ended(at time.Time, status store.Status)
}

// observation are facts on their way to the commit.
type observation struct {
	at      time.Time
	facts   []event.Fact
	receipt store.Receipt // nil: committed
}

// watch begins the observation of the segment.
func (s *segment) watch() {
	for _, o := range s.e.o.Observers {
		if w := o.Segment(SegmentStart{At: s.e.o.Now(), Run: s.run, Plan: s.plan}); w != nil {
			s.watchers = append(s.watchers, w)
		}
	}
}

// note keeps facts until their commit, and hands on those whose commit is through. The lock must be held.
func (s *segment) note(facts []event.Fact, r store.Receipt) {
	if len(s.watchers) == 0 {
		return
	}
	s.handOn()
	kept := facts
	for i := range facts {
		if !piece(facts[i].Payload) {
			continue
		}
		kept = make([]event.Fact, 0, len(facts)-1)
		for _, f := range facts {
			if !piece(f.Payload) {
				kept = append(kept, f)
			}
		}
		break
	}
	if len(kept) > 0 {
		s.noted = append(s.noted, observation{s.e.o.Now(), kept, r})
	}
}

func piece(p event.Payload) bool {
	switch p.(type) {
	case event.AssistantMessageDeltaPayload, event.AssistantThinkingDeltaPayload, event.ToolCallDeltaPayload, event.ToolOutputDeltaPayload:
		return true
	}
	return false
}

// handOn tells of what is committed. Facts whose commit was refused are dropped: they never were. The lock must be held.
func (s *segment) handOn() {
	n := 0
	for ; n < len(s.noted); n++ {
		o := &s.noted[n]
		if o.receipt != nil {
			select {
			case <-o.receipt.Done():
			default:
				s.noted = append(s.noted[:0], s.noted[n:]...)
				return
			}
			if _, err := o.receipt.Wait(context.Background()); err != nil {
				continue
			}
		}
		for _, w := range s.watchers {
			w.Committed(o.at, o.facts)
		}
	}
	clear(s.noted)
	s.noted = s.noted[:0]
}

// became notes the commit that ended the segment's work on the run, with its last fact.
func (s *segment) became(status store.Status, facts ...event.Fact) {
	if len(s.watchers) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome = status
	if len(facts) > 0 {
		s.noted = append(s.noted, observation{at: s.e.o.Now(), facts: facts})
	}
}

// unwatch ends the observation. What is not committed by now is not told.
func (s *segment) unwatch() {
	if len(s.watchers) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handOn()
	if s.outcome == "" {
		s.outcome = store.StatusRunning
	}
	for _, w := range s.watchers {
		w.Ended(s.e.o.Now(), s.outcome)
	}
	s.watchers, s.noted = nil, nil
}
