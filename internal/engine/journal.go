package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/store"
)

// segment is the work of one worker on one run: it holds the run's epoch, and all writes of the run go through it.
// It is the Journal, the Ledger and the Transcript of the harness session.
//
// What belongs together is staged until the next commit: transcript items and delivered answers go with the facts
// that come next.
type segment struct {
	e    *Engine
	run  store.Run
	plan Plan
	// fail ends the segment when the store refuses its writes.
	fail context.CancelCauseFunc

	mu     sync.Mutex
	staged store.Batch
	last   store.Receipt
	err    error
	// requested is the commit that holds the newest llm.turn.requested, and how many events follow it there; after
	// a recovery it is the seq from the log.
	requested     store.Receipt
	requestedTail int64
	requestedSeq  int64
	calls         map[string]*callRecord
	questions     map[string]event.PendingQuestion
	usage         event.UsageTotals
	cost          event.CostTotals
	steps         int
	steering      []int64 // ids handed to the harness, in order; 0 for what came with the request
	said          said

	handed  int64       // the newest of them
	compact bool        // the compaction that the request asks for is not handed over yet
	steered atomic.Bool // a steering message may be there

	watchers []SegmentObserver
	noted    []observation
	outcome  store.Status // what the run became, once the segment's work on it is committed
}

var (
	_ harness.Journal   = (*segment)(nil)
	_ native.Transcript = (*segment)(nil)
)

func newSegment(e *Engine, run store.Run, plan Plan, fail context.CancelCauseFunc) *segment {
	return &segment{
		e: e, run: run, plan: plan, fail: fail, calls: map[string]*callRecord{}, questions: map[string]event.PendingQuestion{},
		usage: run.Usage, cost: run.Cost, steps: run.Steps, compact: plan.Compact != nil,
	}
}

// sessionID names the run's session where more than this run meets: the sandbox, the tools that are active. Two tenants
// may use one conversation id.
func (s *segment) sessionID() string {
	if s.run.TenantID == DefaultTenant {
		return s.run.ConversationID
	}
	return s.run.TenantID + ":" + s.run.ConversationID
}

// Emit implements harness.Journal.
func (s *segment) Emit(facts ...event.Fact) { s.submit(func(*store.Batch) {}, facts) }

// Barrier implements harness.Journal.
func (s *segment) Barrier(ctx context.Context, facts ...event.Fact) error {
	return s.commit(ctx, func(*store.Batch) {}, facts)
}

// commit submits and waits.
func (s *segment) commit(ctx context.Context, add func(*store.Batch), facts []event.Fact) error {
	r, err := s.submit(add, facts)
	if err != nil {
		return err
	}
	_, err = r.Wait(ctx)
	var c *event.ConflictError
	if err != nil && !errors.As(err, &c) {
		s.broken(err)
	}
	return err
}

// submit sends one batch on its way: what is staged, what add puts in, and the facts.
func (s *segment) submit(add func(*store.Batch), facts []event.Fact) (store.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(); err != nil {
		return nil, err
	}
	b := s.staged
	s.staged = store.Batch{}
	b.RunID, b.Epoch = s.run.ID, s.run.Epoch
	facts = s.fresh(facts)
	tail := int64(-1)
	for _, f := range facts {
		s.observe(&b, &f)
		raw, err := event.Encode(s.run.ConversationID, f)
		if err != nil {
			s.breakLocked(err)
			return nil, err
		}
		b.Events = append(b.Events, store.NewEvent{Type: f.Type(), Payload: raw})
		if tail >= 0 {
			tail++
		}
		if f.Type() == event.LLMTurnRequested {
			tail = 0
		}
	}
	add(&b)
	r := s.e.o.Store.Submit(b)
	s.last = r
	s.note(facts, r)
	if tail >= 0 {
		s.requested, s.requestedTail = r, tail
	}
	return r, nil
}

// said are facts that a run's log has at most once, and that a harness tells again when it goes on from where a process
// died before the end that they lead to.
type said struct {
	step      int // the last one whose end is told
	costLimit bool
}

// again reports whether a fact is told already, and keeps that it is told now.
func (t *said) again(step int, typ event.Type) bool {
	switch typ {
	case event.RunStepCompleted:
		if step <= t.step {
			return true
		}
		t.step = step
	case event.RunCostLimitReached:
		told := t.costLimit
		t.costLimit = true
		return told
	}
	return false
}

// fresh leaves out what the log tells already.
func (s *segment) fresh(facts []event.Fact) []event.Fact {
	told := func(f event.Fact) bool { return s.said.again(f.Step, f.Type()) }
	i := slices.IndexFunc(facts, told)
	if i < 0 {
		return facts
	}
	return append(slices.Clone(facts[:i]), slices.DeleteFunc(slices.Clone(facts[i+1:]), told)...)
}

// check finds out whether an earlier batch was refused; nothing further is committed then.
func (s *segment) check() error {
	if s.err == nil && s.last != nil {
		select {
		case <-s.last.Done():
			_, err := s.last.Wait(context.Background())
			var c *event.ConflictError
			if err != nil && !errors.As(err, &c) {
				s.breakLocked(err)
			}
		default:
		}
	}
	return s.err
}

func (s *segment) broken(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakLocked(err)
}

func (s *segment) breakLocked(err error) {
	if s.err == nil {
		s.err = fmt.Errorf("engine: log of run %s: %w", s.run.ID, err)
		s.fail(s.err)
	}
}

// observe takes what the run's row needs from a fact, and completes facts that only the log can.
func (s *segment) observe(b *store.Batch, f *event.Fact) {
	if f.Step > s.steps {
		s.steps = f.Step
	}
	switch f.Type() {
	case event.ToolCallStarted, event.ToolCallCompleted, event.ToolCallBlocked, event.ToolApprovalRequired, event.RunWaitingForUser:
		if f.Step == 0 { // a call of the host's tools, whose steps only the harness can number
			f.Step = s.steps
		}
	}
	switch p := f.Payload.(type) {
	case event.UsageDeltaPayload:
		s.usage = p.CumulativeUsage
		s.cost = event.CostTotals{CostUSDTotal: p.CumulativeCostUSD, LastTurnCostUSD: p.TurnCostUSD, CostStatus: p.CostStatus, PricingVersion: p.PricingVersion}
		usage, cost, steps := s.usage, s.cost, s.steps
		b.Update = &store.RunUpdate{Usage: &usage, Cost: &cost, Steps: &steps, Progress: true}
	case event.LLMAttemptDiscardedPayload:
		if p.FromSeq == 0 {
			p.FromSeq = s.fromSeq()
			f.Payload = p
		}
	}
}

// fromSeq is the seq of the newest llm.turn.requested. It waits for that commit, which is long past: a discarded
// attempt has been to the provider and back.
func (s *segment) fromSeq() int64 {
	if s.requested == nil {
		return s.requestedSeq
	}
	head, err := s.requested.Wait(context.Background())
	if err != nil {
		return 0
	}
	return head - s.requestedTail
}

// Load implements native.Transcript.
func (s *segment) Load(ctx context.Context, _ string) ([]native.Item, error) {
	if s.run.Head <= 1 && s.run.ConversationID == s.run.ID {
		return nil, nil // the run began its conversation, and nothing has happened in it yet
	}
	var items []native.Item
	for after := int64(0); ; {
		rows, err := s.e.o.Store.Transcript(ctx, s.run.TenantID, s.run.ConversationID, after, 0)
		if err != nil || len(rows) == 0 {
			return items, err
		}
		data := make([]json.RawMessage, len(rows))
		for i, r := range rows {
			data[i] = r.Data
		}
		page, err := native.DecodeItems(data)
		if err != nil {
			return nil, fmt.Errorf("engine: transcript of conversation %s after item %d: %w", s.run.ConversationID, after, err)
		}
		for i, r := range rows {
			if s.compact && r.RunID == s.run.ID && page[i].Kind == native.KindSteer && page[i].Compact != nil {
				s.compact = false
			}
		}
		items = append(items, page...)
		after = rows[len(rows)-1].Idx
	}
}

// Append implements native.Transcript: the items are staged for the next commit.
func (s *segment) Append(_ context.Context, _ string, items ...native.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(); err != nil {
		return err
	}
	for _, it := range items {
		data, err := it.JSON()
		if err != nil {
			return fmt.Errorf("engine: transcript item: %w", err)
		}
		s.staged.Transcript = append(s.staged.Transcript, store.TranscriptItem{RunID: s.run.ID, Kind: transcriptKind(it), Data: data})
		switch it.Kind {
		case native.KindResult:
			s.settle(it.CallID)
		case native.KindSteer:
			if len(s.steering) > 0 {
				if id := s.steering[0]; id > 0 {
					s.staged.SteerDelivered = id
				}
				s.steering = s.steering[1:]
			}
		}
	}
	return nil
}

// settle marks the answers of a call as delivered: its result is in the transcript now.
func (s *segment) settle(callID string) {
	if rec := s.calls[callID]; rec != nil && rec.approval != nil {
		s.staged.SettleApprovals = append(s.staged.SettleApprovals, rec.approval.ID)
	}
	if q, ok := s.questions[callID]; ok {
		s.staged.SettleQuestions = append(s.staged.SettleQuestions, q.ID)
	}
}

// checkpoint stores the lifecycle state with everything staged.
func (s *segment) checkpoint(_ context.Context, st *harness.ContinueTurnState) error {
	raw, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("engine: lifecycle state: %w", err)
	}
	_, err = s.submit(func(b *store.Batch) { b.State = raw }, nil)
	return err
}

// flush commits what is staged and waits for everything before it.
func (s *segment) flush(ctx context.Context) error { return s.commit(ctx, func(*store.Batch) {}, nil) }

// steerArrived tells the segment that there may be steering messages.
func (s *segment) steerArrived() { s.steered.Store(true) }
