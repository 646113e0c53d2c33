// Package activity reads from the committed facts of a segment which model calls and tool calls it made, and tells
// metrics and traces of each.
//
// It owns the joining of facts that belong together: the request, the usage and the end of a model call; the start and
// the end of a tool call. It keeps no counts and knows no exporter.
//
// Invariants: what it tells was committed; each call is told once, when it has ended; a segment that ends with open
// calls tells them as open.
package activity

import (
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// Sink is told of segments. It is safe for concurrent use.
type Sink interface {
	// Segment begins one. Nil: it is of no interest.
	Segment(engine.SegmentStart) Follower
}

// Follower is told of one segment. Its methods are called one at a time and must be quick.
type Follower interface {
	// RunStarted: the segment is the first of its run.
	RunStarted(event.RunStartedPayload)
	ModelCall(ModelCall)
	ToolCall(ToolCall)
	// Asked: a call waits for a person.
	Asked(event.ToolApprovalRequiredPayload)
	// Ended is the last call.
	Ended(End)
}

// Outcomes of calls. A failed model call has its error's kind as its outcome.
const (
	OutcomeOK          = "ok"
	OutcomeError       = "error"       // a tool's
	OutcomeBlocked     = "blocked"     // the gate refused the call
	OutcomeInterrupted = "interrupted" // nobody knows how it would have ended
)

// ModelCall is one attempt at a model.
type ModelCall struct {
	Step, Attempt   int
	Purpose         string
	Provider, Model string
	// Served is the model that the provider says it used; empty where the call failed.
	Served string
	// Start is zero where an earlier segment made the call.
	Start, End time.Time
	TTFT       time.Duration
	Outcome    string
	// Status is the HTTP status of a failure, 0: none.
	Status       int
	FinishReason string
	Usage        ai.Usage
	CostUSD      float64
	// Text is the answer.
	Text string
	// Open: the segment ended before the call did.
	Open bool
	// Late: only the usage of a call that was told before.
	Late bool
}

// ToolCall is one call of a tool.
type ToolCall struct {
	Step     int
	ID, Tool string
	Kind     string
	// ApprovalID names the person's approval of the call.
	ApprovalID string
	Arguments  string
	Output     string
	Start, End time.Time // Start is zero where an earlier segment made the call
	Outcome    string
	// Error is the tool's code of a failure, or the stage of the gate that refused the call.
	Error string
	Open  bool
}

// End is the end of a segment.
type End struct {
	At time.Time
	// Status is the run's; running means that the segment was interrupted.
	Status store.Status
	// Reason and Output are those of a run that ended.
	Reason, Output string
}

// Observer hands the activity of segments to sinks. It implements engine.Observer.
type Observer struct{ sinks []Sink }

var _ engine.Observer = (*Observer)(nil)

// New makes an observer for the sinks; nil ones are left out.
func New(sinks ...Sink) *Observer {
	o := &Observer{}
	for _, s := range sinks {
		if s != nil {
			o.sinks = append(o.sinks, s)
		}
	}
	return o
}

// Segment implements engine.Observer.
func (o *Observer) Segment(s engine.SegmentStart) engine.SegmentObserver {
	t := &tracker{}
	for _, sink := range o.sinks {
		if f := sink.Segment(s); f != nil {
			t.followers = append(t.followers, f)
		}
	}
	if len(t.followers) == 0 {
		return nil
	}
	return t
}
