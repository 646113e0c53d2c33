package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// onlooker notes what observers are told, and asks the store whether it is committed.
type onlooker struct {
	t  *testing.T
	r  *rig
	mu sync.Mutex
	// segments are the starts, told the kinds of facts, ends the statuses.
	segments []engine.SegmentStart
	told     []event.Type
	ends     []store.Status
	ended    chan struct{}
}

func (o *onlooker) Segment(s engine.SegmentStart) engine.SegmentObserver {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.segments = append(o.segments, s)
	return &watched{o, s.Run.ID}
}

type watched struct {
	*onlooker
	run string
}

func (w *watched) Committed(at time.Time, facts []event.Fact) {
	log, err := w.r.store.Events(context.Background(), w.run, 0, 0)
	if err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range facts {
		if !slices.ContainsFunc(log, func(e event.Event) bool { return e.Type == f.Type() }) || at.IsZero() {
			w.t.Errorf("%s is told and not in the log", f.Type())
		}
		w.told = append(w.told, f.Type())
	}
}

func (w *watched) Ended(_ time.Time, s store.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, s)
	w.ended <- struct{}{}
}

// look makes a rig with an onlooker.
func look(t *testing.T) (*rig, *onlooker) {
	o := &onlooker{t: t, ended: make(chan struct{}, 16)}
	r := newRig(t, func(opts *engine.Options) { opts.Observers = []engine.Observer{o} })
	o.r = r
	return r, o
}

func (o *onlooker) waitEnds(n int) {
	o.t.Helper()
	for range n {
		select {
		case <-o.ended:
		case <-time.After(20 * time.Second):
			o.t.Fatal("a segment does not end")
		}
	}
}

// ofSegments are the kinds that a run's segments add to its log, without pieces and without what the store adds itself.
func ofSegments(all []event.Event) []event.Type {
	var out []event.Type
	for _, e := range all {
		switch e.Type {
		case event.RunQueued, event.ToolApprovalGranted, event.RunWaitingForApproval, event.AssistantMessageDelta, event.AssistantThinkingDelta,
			event.ToolCallDelta, event.ToolOutputDelta:
		default:
			out = append(out, e.Type)
		}
	}
	return out
}

func TestObserversLearnWhatWasCommittedInTheOrderOfTheLog(t *testing.T) {
	r, o := look(t)
	run := r.submit(engine.RunRequest{
		Prompt:      script(`[{"tool":"bash","in":{"command":"echo hi"}},{"text":"ok"}]`),
		Permissions: &tool.PermissionConfig{Approval: tool.ApprovalPolicyAll},
	})
	r.until(run.ID, has(event.RunWaitingForApproval))
	o.waitEnds(1)
	if _, err := r.engine.DecideOnly(t.Context(), r.me, run.ID, engine.Decision{Approve: true}); err != nil {
		t.Fatal(err)
	}
	all := r.finish(run.ID)
	o.waitEnds(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if want := ofSegments(all); !slices.Equal(o.told, want) {
		t.Errorf("told %q\nlog  %q", o.told, want)
	}
	if !slices.Equal(o.ends, []store.Status{store.StatusWaitingForApproval, store.StatusCompleted}) {
		t.Errorf("ends %q", o.ends)
	}
	if len(o.segments) != 2 || !o.segments[0].First() || o.segments[1].First() || o.segments[0].Plan.Harness != "native" {
		t.Errorf("segments %+v", o.segments)
	}
}

func TestAnInterruptedSegmentIsToldAsRunning(t *testing.T) {
	r, o := look(t)
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"bash","in":{"command":"sleep 60"}},{"text":"ok"}]`)})
	r.until(run.ID, has(event.ToolCallStarted))
	r.close()
	o.waitEnds(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.ends, []store.Status{store.StatusRunning}) || slices.ContainsFunc(o.told, event.Type.Terminal) {
		t.Errorf("ends %q, told %q", o.ends, o.told)
	}
}
