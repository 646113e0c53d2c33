package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// endTimeout bounds what a segment still does after it was interrupted.
const endTimeout = 20 * time.Second

// maxIdlePauses bounds how often a turn may pause in a row though nobody is asked.
const maxIdlePauses = 10

// execute is the body of a segment: it reads the run, goes on from where the store says, and ends it, parks it, or
// leaves it to a later owner.
func (e *Engine) execute(ctx context.Context, w store.Wake) {
	// A cancel that comes now must not keep the run from being read: nobody else would end it.
	read, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	run, err := e.take(read, w)
	stop()
	if err != nil {
		e.o.Logger.Error("segment: run not readable", "run", w.RunID, "error", err)
		return
	}
	if run.Epoch != w.Epoch || run.Status != store.StatusRunning {
		return // another owner, or ended
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	plan, planErr := e.Plan(run)
	s := newSegment(e, run, plan, cancel)
	s.watch()
	defer s.unwatch()
	e.mu.Lock()
	e.segments[run.ID] = s
	if run.Head > 1 || e.steered[run.ID] {
		s.steerArrived()
		delete(e.steered, run.ID)
	}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.segments, run.ID)
		e.mu.Unlock()
	}()
	defer func() {
		if r := recover(); r != nil {
			e.o.Logger.Error("segment panicked", "run", run.ID, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			s.finish(ctx, failed(event.ReasonInternal, errors.New("internal error; see the daemon's log")))
		}
	}()
	switch {
	case planErr != nil:
		s.finish(ctx, failed(event.ReasonInternal, planErr))
	case run.CancelRequested:
		s.finish(ctx, cancelled(run.CancelledBy))
	case run.Attempts > MaxAttempts:
		s.finish(ctx, failed(event.ReasonRecoveryExhausted, fmt.Errorf("the run was taken over %d times without making progress", run.Attempts)))
	default:
		s.drive(ctx)
	}
}

// take reads the run of a segment. One that was created here a moment ago need not be read again: its first segment
// owns it, and a cancel request reaches that segment's context.
func (e *Engine) take(ctx context.Context, w store.Wake) (store.Run, error) {
	if r, ok := e.created.LoadAndDelete(w.RunID); ok {
		if run := r.(store.Run); run.Epoch == w.Epoch {
			return run, nil
		}
	}
	return e.o.Store.GetRun(ctx, w.RunID)
}

// drive runs the harness until the run ends, waits, or the segment is interrupted.
func (s *segment) drive(ctx context.Context) {
	if s.run.Head > 1 {
		if err := s.fold(ctx); err != nil {
			if ctx.Err() != nil {
				s.ended(ctx, nil, err)
				return
			}
			s.interrupted(ctx, err)
			return
		}
	}
	box, err := s.e.o.Sandbox.CreateSession(ctx, sandbox.CreateOptions{SessionID: s.sessionID(), Root: s.plan.Workspace})
	if err != nil {
		if ctx.Err() != nil { // a cancel or a shutdown, not a fault of the sandbox
			s.ended(ctx, nil, err)
			return
		}
		s.finish(ctx, failed(event.ReasonInternal, fmt.Errorf("sandbox: %w", err)))
		return
	}
	defer func() {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer stop()
		if err := box.Destroy(end); err != nil {
			s.e.o.Logger.Warn("sandbox not destroyed", "run", s.run.ID, "error", err)
		}
	}()
	s.announce(box)
	t, err := s.open(ctx, box)
	if err != nil {
		s.ended(ctx, nil, err)
		return
	}
	out, err := s.turn(ctx, t)
	if out == turnParked {
		return
	}
	s.ended(ctx, t, err)
}

// announce is the segment's first fact: the run starts, or somebody took it over.
func (s *segment) announce(box sandbox.NetworkSession) {
	switch {
	case s.run.Head <= 1:
		p := event.RunStartedPayload{
			Prompt: s.run.Prompt, Attachments: s.plan.Attached(), PreviousRunID: s.run.PreviousRunID, Harness: s.plan.Harness, Model: s.plan.Model,
			Workspace: s.plan.Workspace, Permissions: s.plan.Permissions,
		}
		if r, ok := box.(sandbox.Reporter); ok {
			rep := r.Report()
			p.SandboxTier, p.Notes = rep.Tier, rep.Notes
		}
		p.Notes = append(slices.Clone(s.e.o.Notes), p.Notes...)
		s.Emit(event.Fact{Payload: p})
	case s.run.Attempts > 0:
		s.Emit(event.Fact{Step: s.steps, Payload: event.RunRecoveredPayload{Epoch: s.run.Epoch, Attempts: s.run.Attempts}})
	}
}

// opened is a session of the harness that is ready for its turn.
type opened struct {
	agent   *harness.Agent
	session *harness.AgentSession
	resumed bool // the turn was begun by an earlier segment
	result  *ai.GenerateTextResult
}

// open makes the agent and its session from the run's plan and state.
func (s *segment) open(ctx context.Context, box sandbox.NetworkSession) (*opened, error) {
	h, err := s.e.o.Harnesses[s.plan.Harness](SegmentEnv{Plan: s.plan, Transcript: s, Artifacts: s.artifacts(), Activation: s.e.activation, Inbox: s.inbox,
		Memory: notes{s.e.o.Store, s.run, s.plan.AgentID}, Fault: s.e.o.Fault})
	if err != nil {
		return nil, err
	}
	gate, err := s.gate()
	if err != nil {
		return nil, err
	}
	set := harness.AgentSettings{
		Harness: h, Model: s.plan.Model, Gate: gate, Journal: s, Checkpoint: s.checkpoint,
		SandboxConfig: harness.AgentSandboxConfig{InPlace: true, InPlaceRoot: s.plan.Workspace},
	}
	if len(s.plan.OutputSchema) > 0 {
		if set.Output, err = ai.ObjectOutput(ai.ObjectOutputOptions{Schema: s.plan.OutputSchema}); err != nil {
			return nil, err
		}
	}
	a, err := harness.NewAgent(set)
	if err != nil {
		return nil, err
	}
	o := harness.CreateSessionOptions{SessionID: s.sessionID(), SandboxSession: box}
	resumed, err := s.state(ctx, &o)
	if err != nil {
		return nil, err
	}
	sess, err := a.CreateSession(ctx, o)
	if err != nil {
		return nil, err
	}
	return &opened{agent: a, session: sess, resumed: resumed}, nil
}

func (s *segment) artifacts() tool.Artifacts {
	return s.e.artifacts.Session(artifactsOf(s.run.TenantID, s.run.ConversationID))
}

// state fills in the lifecycle state: the run's own checkpoint, else what the conversation's last run left.
func (s *segment) state(ctx context.Context, o *harness.CreateSessionOptions) (resumed bool, err error) {
	raw := s.run.State
	if raw == nil && s.run.PreviousRunID != "" {
		prev, err := s.e.o.Store.GetRun(ctx, s.run.PreviousRunID)
		if err != nil {
			return false, err
		}
		raw = prev.State
	}
	if raw == nil {
		return false, nil
	}
	st, err := harness.DecodeLifecycleState(raw)
	if err != nil {
		return false, err
	}
	switch st := st.(type) {
	case *harness.ResumeSessionState:
		o.ResumeFrom = st
	case *harness.ContinueTurnState:
		if s.run.State == nil {
			// The previous run ended in the middle of its turn (cancelled or failed); its session goes on, its turn
			// does not.
			o.ResumeFrom, err = harness.NewResumeSessionState(st.HarnessID, st.Data)
			return false, err
		}
		o.ContinueFrom = st
		return true, nil
	}
	return false, nil
}

// gate makes the run's gate.
func (s *segment) gate() (*control.Gate, error) {
	deadline, err := time.ParseDuration(s.plan.ApprovalDeadline)
	if err != nil {
		return nil, fmt.Errorf("engine: approval deadline of run %s: %w", s.run.ID, err)
	}
	return control.NewGate(control.Config{
		Ledger: s, Now: s.e.o.Now,
		Policy: control.Policy{
			Allowed: s.plan.AllowedTools, Denied: s.plan.DeniedTools,
			Active: func(name string) bool { return s.e.activation.IsActive(s.sessionID(), name) },
			Hooks:  s.e.o.Hooks, Rules: s.e.o.Rules, Approval: tool.ApprovalPolicy(s.plan.Permissions.Approval),
			ApprovalDeadline: deadline, QuestionDeadline: s.e.o.Defaults.QuestionDeadline,
		},
	})
}

type turnEnd int

const (
	turnDone turnEnd = iota
	turnParked
)

// turn drives one turn through its pauses. It ends with the turn, with a parked run, or with an error.
func (s *segment) turn(ctx context.Context, o *opened) (turnEnd, error) {
	opts := agent.AgentGenerateOptions{HarnessSession: o.session, OnPart: func(ai.StreamPart) {}}
	approvals, results, err := s.answers(ctx)
	if err != nil {
		return turnDone, err
	}
	if !o.resumed {
		begin := opts
		if len(s.plan.Attachments) == 0 {
			begin.Prompt = s.run.Prompt
		} else {
			m, err := s.prompt(ctx, s.artifacts())
			if err != nil {
				return turnDone, err
			}
			begin.Messages = []ai.Message{m}
		}
		o.result, err = o.agent.Generate(ctx, begin)
	} else {
		o.result, err = o.agent.ContinueGenerate(ctx, opts, approvals, results)
	}
	for idle := 0; err == nil && o.session.HasUnfinishedTurn(); {
		if ctx.Err() != nil {
			return turnDone, context.Cause(ctx)
		}
		approvals, results, aerr := s.answers(ctx)
		if aerr != nil {
			return turnDone, aerr
		}
		if len(approvals)+len(results) == 0 {
			status, pending, perr := s.waitsFor(ctx)
			if perr != nil {
				return turnDone, perr
			}
			if status != "" {
				parked, perr := s.park(ctx, o, status, pending)
				switch {
				case perr != nil:
					return turnDone, perr
				case parked:
					return turnParked, nil
				}
				continue
			}
			// The turn paused for something that was settled meanwhile.
			if idle++; idle > maxIdlePauses {
				return turnDone, errors.New("the harness paused its turn again and again and waits for nobody")
			}
		}
		o.result, err = o.agent.ContinueGenerate(ctx, opts, approvals, results)
	}
	return turnDone, err
}

// answers lists what people decided and the model does not know yet, in the form that a continuation takes.
func (s *segment) answers(ctx context.Context) ([]ai.ToolApprovalResponseContent, []ai.ToolResultContent, error) {
	if s.run.Head <= 1 && len(s.calls) == 0 && len(s.questions) == 0 {
		return nil, nil, nil
	}
	var approvals []ai.ToolApprovalResponseContent
	var results []ai.ToolResultContent
	list, err := s.e.o.Store.RunApprovals(ctx, s.run.ID)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range list {
		if a.Settled || !a.Status.Decided() || a.Status == event.ApprovalConsumed {
			continue
		}
		approvals = append(approvals, ai.ToolApprovalResponseContent{ApprovalID: a.ID, Approved: a.Status == event.ApprovalApproved, Reason: a.Reason})
	}
	questions, err := s.e.o.Store.RunQuestions(ctx, s.run.ID)
	if err != nil {
		return nil, nil, err
	}
	for _, q := range questions {
		if q.Settled || q.Status == event.QuestionPending {
			continue
		}
		answers := q.Answers
		if q.Status != event.QuestionAnswered {
			answers = nil
		}
		raw, err := json.Marshal(native.CommonAnswer(q.Questions, answers))
		if err != nil {
			return nil, nil, fmt.Errorf("engine: answer %s: %w", q.ID, err)
		}
		results = append(results, ai.ToolResultContent{
			ToolCallID: q.CallID, ToolName: string(harness.BuiltinToolAskUserQuestions),
			Output: ai.ToolResultOutput{Type: ai.OutputJSON, Value: raw},
		})
	}
	return approvals, results, nil
}

// park suspends the turn and gives the run up until somebody answers. It is refused when an answer came meanwhile.
func (s *segment) park(ctx context.Context, o *opened, status store.Status, waiting []string) (bool, error) {
	if ready, err := s.arrived(ctx); err != nil || ready {
		return false, err
	}
	st, err := o.session.SuspendTurn(ctx)
	if err != nil {
		return false, err
	}
	raw, err := json.Marshal(st)
	if err != nil {
		return false, err
	}
	if err := s.flush(ctx); err != nil {
		return false, err
	}
	p := store.Park{RunID: s.run.ID, Epoch: s.run.Epoch, Status: status, State: raw}
	if len(waiting) > 0 {
		payload, err := event.Encode(s.run.ConversationID, event.Fact{Step: s.steps, Payload: event.RunWaitingForApprovalPayload{ApprovalIDs: waiting}})
		if err != nil {
			return false, err
		}
		p.Events = []store.NewEvent{{Type: event.RunWaitingForApproval, Payload: payload}}
	}
	parked, err := s.e.o.Store.Park(ctx, p)
	if err != nil || parked {
		if parked {
			s.became(status)
		}
		return parked, err
	}
	// Something came between the look and the commit. The session is suspended, so a new segment goes on from its
	// state, at the same epoch.
	if err := s.commit(ctx, func(b *store.Batch) { b.State = raw }, nil); err != nil {
		return false, err
	}
	s.e.dispatch(store.Wake{RunID: s.run.ID, Epoch: s.run.Epoch})
	return true, nil
}

// waitsFor tells whom the run waits for, with the approvals that are pending; the empty status is nobody.
func (s *segment) waitsFor(ctx context.Context) (store.Status, []string, error) {
	list, err := s.e.o.Store.RunApprovals(ctx, s.run.ID)
	if err != nil {
		return "", nil, err
	}
	var ids []string
	for _, a := range list {
		if a.Status == event.ApprovalPending {
			ids = append(ids, a.ID)
		}
	}
	if len(ids) > 0 {
		return store.StatusWaitingForApproval, ids, nil
	}
	questions, err := s.e.o.Store.RunQuestions(ctx, s.run.ID)
	if err != nil {
		return "", nil, err
	}
	for _, q := range questions {
		if q.Status == event.QuestionPending {
			return store.StatusWaitingForUser, nil, nil
		}
	}
	return "", nil, nil
}

// arrived reports whether there is something to go on with.
func (s *segment) arrived(ctx context.Context) (bool, error) {
	approvals, results, err := s.answers(ctx)
	return len(approvals)+len(results) > 0, err
}

// ended decides what the end of the turn means for the run.
func (s *segment) ended(ctx context.Context, o *opened, err error) {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var by errCancelled
	switch {
	case errors.As(err, &by):
		s.destroy(ctx, o)
		s.finish(ctx, cancelled(by.by))
	case err == nil:
		s.complete(ctx, o)
	case errors.Is(err, ErrShutdown), errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrClosed), s.isBroken():
		s.interrupted(ctx, err)
	default:
		s.destroy(ctx, o)
		s.finish(ctx, failedBy(err))
	}
}

// destroy ends a session whose turn did not end well, so that its background jobs end and are reported before the run
// does.
func (s *segment) destroy(ctx context.Context, o *opened) {
	if o == nil {
		return
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer stop()
	if err := o.session.Destroy(end); err != nil {
		s.e.o.Logger.Warn("session not destroyed", "run", s.run.ID, "error", err)
	}
}

func (s *segment) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

// interrupted leaves the run as it is in the store: its next owner goes on from there.
func (s *segment) interrupted(ctx context.Context, err error) {
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer stop()
	if !s.isBroken() {
		if ferr := s.flush(end); ferr != nil && !errors.Is(ferr, store.ErrFenced) {
			s.e.o.Logger.Warn("segment: last facts not committed", "run", s.run.ID, "error", ferr)
		}
	}
	s.e.o.Logger.Info("segment interrupted", "run", s.run.ID, "cause", err)
}
