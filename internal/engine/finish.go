package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/store"
)

// ending is how a run ends.
type ending struct {
	status store.Status
	output string
	err    string
	reason string
	by     string
	state  json.RawMessage
}

func failed(reason string, err error) ending {
	return ending{status: store.StatusFailed, reason: reason, err: err.Error()}
}

func cancelled(by string) ending { return ending{status: store.StatusCancelled, by: by} }

// failedBy takes the reason from the error where it has one.
func failedBy(err error) ending {
	var t *native.TurnError
	if errors.As(err, &t) {
		return failed(t.Reason, t)
	}
	return failed(event.ReasonHarness, err)
}

// complete ends a run whose turn ended well. The session's state is kept for the conversation's next run.
func (s *segment) complete(ctx context.Context, o *opened) {
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer stop()
	st, err := o.session.Stop(end)
	if err != nil {
		s.finish(ctx, failedBy(err))
		return
	}
	raw, err := json.Marshal(st)
	if err != nil {
		s.finish(ctx, failed(event.ReasonInternal, err))
		return
	}
	s.finish(ctx, ending{status: store.StatusCompleted, output: s.output(o.result), state: raw})
}

func (s *segment) output(r *ai.GenerateTextResult) string {
	if r == nil {
		return ""
	}
	return r.Text
}

// finish commits the end of the run.
func (s *segment) finish(ctx context.Context, e ending) {
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer stop()
	s.warnUndelivered(end)
	fact := event.Fact{Step: s.steps, Payload: s.terminal(e)}
	payload, err := event.Encode(s.run.ConversationID, fact)
	if err != nil {
		s.e.o.Logger.Error("end of run not encoded", "run", s.run.ID, "error", err)
		return
	}
	s.mu.Lock()
	b := s.staged
	s.staged = store.Batch{}
	usage, cost, steps := s.usage, s.cost, s.steps
	s.mu.Unlock()
	b.RunID, b.Epoch = s.run.ID, s.run.Epoch
	b.Events = append(b.Events, store.NewEvent{Type: fact.Type(), Payload: payload})
	if e.state != nil {
		b.State = e.state
	}
	b.Update = &store.RunUpdate{Status: &e.status, Output: &e.output, Error: &e.err, Reason: &e.reason, Usage: &usage, Cost: &cost, Steps: &steps}
	next, err := s.e.o.Store.Finish(end, b)
	if err != nil {
		if !errors.Is(err, store.ErrFenced) {
			s.e.o.Logger.Error("end of run not committed", "run", s.run.ID, "error", err)
		}
		return
	}
	s.became(e.status, fact)
	s.e.keeper.spoken()
	s.e.dispatch(next)
}

func (s *segment) terminal(e ending) event.Payload {
	if s.cost.CostStatus == "" {
		s.cost.CostStatus = event.CostPending
	}
	switch e.status {
	case store.StatusCompleted:
		return event.RunCompletedPayload{Output: e.output, UsageTotals: s.usage, CostTotals: s.cost}
	case store.StatusCancelled:
		return event.RunCancelledPayload{CancelledBy: e.by, UsageTotals: s.usage, CostTotals: s.cost}
	}
	p := event.RunFailedPayload{Error: e.err, Reason: e.reason, UsageTotals: s.usage, CostTotals: s.cost}
	if e.reason == event.ReasonMaxSteps {
		p.MaxSteps = s.plan.MaxSteps
	}
	return p
}

// warnUndelivered says in the log that a steering message came too late to be read.
func (s *segment) warnUndelivered(ctx context.Context) {
	if s.run.Head <= 1 && !s.steered.Load() && s.handed == 0 {
		return
	}
	msgs, err := s.e.o.Store.Steering(ctx, s.run.ID)
	if err != nil || len(msgs) == 0 || s.isBroken() {
		return
	}
	s.Emit(event.Fact{Step: s.steps, Payload: event.PromptWarningPayload{
		Code: "steering_undelivered", Message: "the run ended before it could read a message that was sent to it: continue the run to send it again",
	}})
}
