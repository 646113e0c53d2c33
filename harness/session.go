package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/sandbox"
)

// CreateSessionOptions say which session to create, or to go on with.
type CreateSessionOptions struct {
	// SessionID names the session and its sandbox. Generated when empty.
	SessionID string
	// ResumeFrom is what Detach or Stop gave, ContinueFrom what SuspendTurn gave. At most one is set.
	ResumeFrom   *ResumeSessionState
	ContinueFrom *ContinueTurnState
	// ToolsContext and RuntimeContext are bound again to the unfinished turn, because state does not hold them. Nil
	// keeps the agent's.
	ToolsContext   map[string]any
	RuntimeContext any
	// SandboxSession is a sandbox of the caller, who also ends it.
	SandboxSession sandbox.Session
}

// AgentSession is the handle of one session of a runtime. It is safe for concurrent use; one turn runs at a time.
type AgentSession struct {
	agent   *Agent
	id      string
	adapter AdapterSession
	ws      *workspace

	// toolsContext and runtimeContext are those of CreateSessionOptions.
	toolsContext   map[string]any
	runtimeContext any

	// calls serialises the adapter's methods, except DoSuspendTurn.
	calls sync.Mutex

	mu    sync.Mutex
	state SessionState
	turn  TurnState
	// config is that of the running or unfinished turn. It is nil for one that came from persisted state and was not
	// continued yet.
	config *turnConfig
	// unfinished is the state of the turn while it is neither idle nor running.
	unfinished *ContinueTurnState
	driver     *driver // while running
}

// CreateSession creates a session, or goes on with one.
func (a *Agent) CreateSession(ctx context.Context, o CreateSessionOptions) (*AgentSession, error) {
	if o.ResumeFrom != nil && o.ContinueFrom != nil {
		return nil, errors.New("HarnessAgent.createSession: pass either `resumeFrom` or `continueFrom`, not both.")
	}
	unfinished := o.ContinueFrom
	if o.ResumeFrom != nil {
		unfinished = o.ResumeFrom.ContinueFrom
	}
	resume := o.ResumeFrom != nil || o.ContinueFrom != nil
	if unfinished == nil && o.ToolsContext != nil {
		return nil, errors.New("HarnessAgent.createSession: `toolsContext` can only rebind an unfinished turn from `continueFrom` or `resumeFrom`.")
	}
	if unfinished == nil && o.RuntimeContext != nil {
		return nil, errors.New("HarnessAgent.createSession: `runtimeContext` can only rebind an unfinished turn from `continueFrom` or `resumeFrom`.")
	}
	if o.ResumeFrom != nil {
		if err := o.ResumeFrom.check(a.set.Harness); err != nil {
			return nil, err
		}
	}
	if o.ContinueFrom != nil {
		if err := o.ContinueFrom.check(a.set.Harness); err != nil {
			return nil, err
		}
	}
	id := o.SessionID
	if id == "" {
		if resume && o.SandboxSession == nil && !a.set.SandboxConfig.InPlace {
			return nil, errors.New("HarnessAgent.createSession: `sessionId` is required to resume the sandbox of a session.")
		}
		id = generateID()
	}

	ws, err := a.acquire(ctx, id, resume, o.SandboxSession)
	if err != nil {
		return nil, err
	}
	s := &AgentSession{
		agent: a, id: id, ws: ws, toolsContext: o.ToolsContext, runtimeContext: o.RuntimeContext,
		state: SessionStateActive, turn: stateOf(unfinished), unfinished: unfinished,
	}
	s.adapter, err = a.set.Harness.DoStart(ctx, a.startOptions(s, o, unfinished))
	if err != nil {
		_ = ws.stop(ctx) // the first error is the one to report
		return nil, err
	}
	return s, nil
}

func (a *Agent) startOptions(s *AgentSession, o CreateSessionOptions, unfinished *ContinueTurnState) StartOptions {
	out := StartOptions{
		Headers: a.headers, SessionID: s.id, ResumeFrom: o.ResumeFrom, ContinueFrom: unfinished,
		PermissionMode:       ResolvePermissionMode(a.set.PermissionMode),
		BuiltinToolFiltering: a.base.filtering,
		SandboxSession:       s.ws.session, SessionWorkDir: s.ws.workDir,
		Journal: a.set.Journal, Decide: a.set.Gate,
	}
	if log := a.set.OnLog; log != nil {
		debug := a.set.Debug
		out.Observability = &Observability{Debug: debug, Report: func(d Diagnostic) {
			if !debug.wants(d) {
				return
			}
			if d.SessionID == "" {
				d.SessionID = s.id
			}
			if d.Timestamp == 0 {
				d.Timestamp = a.now().UnixMilli()
			}
			log(d)
		}}
	}
	if a.set.Checkpoint != nil {
		out.Checkpoint = s.checkpoint
	}
	return out
}

// checkpoint wraps the adapter's data into state that a turn can be continued from.
func (s *AgentSession) checkpoint(ctx context.Context, data json.RawMessage) error {
	s.mu.Lock()
	d, cfg := s.driver, s.config
	s.mu.Unlock()
	state := s.continueState(data, cfg)
	if d != nil {
		d.addPending(state)
	}
	return s.agent.set.Checkpoint(ctx, state)
}

func (s *AgentSession) continueState(data json.RawMessage, cfg *turnConfig) *ContinueTurnState {
	state := &ContinueTurnState{
		Type: LifecycleStateContinueTurn, HarnessID: s.agent.HarnessID(), SpecificationVersion: SpecificationVersion, Data: data,
	}
	if cfg != nil {
		state.TurnSettings = cfg.settings()
	}
	return state
}

// SessionID is the session's id.
func (s *AgentSession) SessionID() string { return s.id }

// IsResume reports whether the session goes on from persisted state.
func (s *AgentSession) IsResume() bool { return s.adapter.IsResume() }

// GetSessionWorkDir is the absolute working directory in the sandbox.
func (s *AgentSession) GetSessionWorkDir() string { return s.ws.workDir }

// GetSandboxSession is the session's sandbox, nil after the session's end.
func (s *AgentSession) GetSandboxSession() sandbox.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != SessionStateActive {
		return nil
	}
	return s.ws.session
}

// State is the state of the handle.
func (s *AgentSession) State() SessionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// TurnState is the state of the turn.
func (s *AgentSession) TurnState() TurnState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

// HasUnfinishedTurn reports whether a turn runs, or waits to be continued.
func (s *AgentSession) HasUnfinishedTurn() bool { return s.TurnState() != TurnStateIdle }

// Pending lists the calls that the unfinished turn waits for. It is empty while a turn runs.
func (s *AgentSession) Pending() ([]PendingToolApproval, []PendingToolResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unfinished == nil {
		return nil, nil
	}
	return s.unfinished.PendingToolApprovals, s.unfinished.PendingToolResults
}

// allowed reports why an operation is refused now.
func (s *AgentSession) allowed(op operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return allow(s.id, s.state, s.turn, op)
}

// Compact asks the runtime to compact its context. customInstructions may be empty.
func (s *AgentSession) Compact(ctx context.Context, customInstructions string) error {
	if err := s.allowed(opCompact); err != nil {
		return err
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	return s.adapter.DoCompact(ctx, customInstructions)
}

// ReadHistory reads the conversation that the runtime keeps, from a cursor or from the start.
func (s *AgentSession) ReadHistory(ctx context.Context, since string) (*ReadHistoryResult, error) {
	if err := s.allowed(opHistory); err != nil {
		return nil, err
	}
	r, ok := s.adapter.(HistoryReader)
	if !ok {
		id := s.agent.HarnessID()
		return nil, NewCapabilityUnsupportedError(fmt.Sprintf("Harness '%s' does not support reading the runtime's conversation history.", id), id, nil)
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	return r.DoReadHistory(ctx, since)
}

// ExperimentalSteerTurn sends a further user message to the running turn.
func (s *AgentSession) ExperimentalSteerTurn(ctx context.Context, text string) error {
	s.mu.Lock()
	err, d := allow(s.id, s.state, s.turn, opSteer), s.driver
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if !d.awaitControl(ctx) {
		return refuseSteer.error(s.id)
	}
	u, ok := d.control.(UserMessageSubmitter)
	if !ok {
		id := s.agent.HarnessID()
		return NewCapabilityUnsupportedError(fmt.Sprintf("Harness '%s' does not support steering active turns.", id), id, nil)
	}
	return u.SubmitUserMessage(ctx, text)
}

// SuspendTurn freezes the unfinished turn and returns the state to persist. Host tools that run are waited for; their
// results are part of the state. The handle is detached afterwards.
func (s *AgentSession) SuspendTurn(ctx context.Context) (*ContinueTurnState, error) {
	state, _, err := s.end(ctx, opSuspend, moveDetach)
	return state, err
}

// Detach ends the use of the session and leaves the runtime and the sandbox. An unfinished turn is suspended, and its
// state nested.
func (s *AgentSession) Detach(ctx context.Context) (*ResumeSessionState, error) {
	_, state, err := s.end(ctx, opDetach, moveDetach)
	return state, err
}

// Stop persists the session, then stops the runtime and a sandbox that the session owns. An unfinished turn is
// suspended, and its state nested.
func (s *AgentSession) Stop(ctx context.Context) (*ResumeSessionState, error) {
	_, state, err := s.end(ctx, opStop, moveStop)
	if err != nil {
		return nil, err
	}
	if err := s.ws.stop(ctx); err != nil {
		return state, fmt.Errorf("harness session %s: stop its sandbox: %w", s.id, err)
	}
	return state, nil
}

// end ends the session with state: that of the unfinished turn, or what the adapter gives between turns.
func (s *AgentSession) end(ctx context.Context, op operation, move sessionMove) (*ContinueTurnState, *ResumeSessionState, error) {
	for {
		s.mu.Lock()
		if err := allow(s.id, s.state, s.turn, op); err != nil {
			s.mu.Unlock()
			return nil, nil, err
		}
		if d := s.driver; d != nil {
			s.mu.Unlock()
			if err := d.suspend(ctx); err != nil {
				return nil, nil, err
			}
			continue // it is suspended, or ended before it could be
		}
		if s.turn == TurnStateIdle {
			s.mu.Unlock()
			state, err := s.endIdle(ctx, op, move)
			if errors.Is(err, errBegan) {
				continue
			}
			return nil, state, err
		}
		u := s.unfinished
		s.state = sessionMoves[s.state][move]
		s.mu.Unlock()
		return u, &ResumeSessionState{
			Type: LifecycleStateResumeSession, HarnessID: u.HarnessID, SpecificationVersion: u.SpecificationVersion,
			Data: u.Data, ContinueFrom: u,
		}, nil
	}
}

// errBegan: a turn began in between.
var errBegan = errors.New("harness: a turn began")

// endIdle lets the adapter give its state between turns. It holds the lock that a turn needs to begin.
func (s *AgentSession) endIdle(ctx context.Context, op operation, move sessionMove) (*ResumeSessionState, error) {
	s.calls.Lock()
	defer s.calls.Unlock()
	s.mu.Lock()
	if err := allow(s.id, s.state, s.turn, op); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	if s.turn != TurnStateIdle {
		s.mu.Unlock()
		return nil, errBegan
	}
	before := s.state
	s.state = sessionMoves[s.state][move]
	s.mu.Unlock()

	do := s.adapter.DoDetach
	if move == moveStop {
		do = s.adapter.DoStop
	}
	state, err := do(ctx)
	if err != nil {
		s.mu.Lock()
		s.state = before
		s.mu.Unlock()
		return nil, err
	}
	return state, nil
}

// Destroy stops the runtime and destroys a sandbox that the session owns. A running turn is aborted. Further calls do
// nothing. What cannot be stopped is not reported: there is nothing left to do with it.
func (s *AgentSession) Destroy(ctx context.Context) error {
	s.mu.Lock()
	if s.state != SessionStateActive {
		s.mu.Unlock()
		return nil
	}
	s.state = sessionMoves[s.state][moveDestroy]
	d := s.driver
	s.mu.Unlock()
	if d != nil {
		d.cancel(refuseEnded.error(s.id))
		select {
		case <-d.ended:
		case <-ctx.Done():
		}
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	_ = s.adapter.DoDestroy(ctx)
	_ = s.ws.destroy(ctx)
	return nil
}

// begin makes the turn run.
func (s *AgentSession) begin(op operation, d *driver) (prev TurnState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := allow(s.id, s.state, s.turn, op); err != nil {
		return "", err
	}
	prev = s.turn
	s.turn, s.driver = turnMoves[s.turn][moveBegin], d
	return prev, nil
}

// cancelBegin takes a begin back that came to nothing.
func (s *AgentSession) cancelBegin(prev TurnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn, s.driver = prev, nil
	if prev == TurnStateIdle {
		s.config = nil
	}
}

// endTurn records how a running turn ended. state belongs to all moves but moveFinish.
func (s *AgentSession) endTurn(move turnMove, state *ContinueTurnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn, s.driver = turnMoves[s.turn][move], nil
	s.unfinished = state
	if move == moveFinish {
		s.config = nil
	}
}

func (s *AgentSession) setConfig(c *turnConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config = c
}

// turnConfig is frozen for a turn and its continuations.
type turnConfig struct {
	prompt         Prompt
	model          string
	skills         []Skill
	instructions   string
	tools          toolset
	toolsContext   map[string]any
	runtimeContext any
}

func (c *turnConfig) settings() *TurnSettings {
	return &TurnSettings{Model: c.model, Skills: c.skills, Instructions: c.instructions, Tools: c.tools.specs}
}

// continuedConfig is the configuration of an unfinished turn: the one it runs with in this process, or the persisted
// one with the agent's functions.
func (s *AgentSession) continuedConfig() (*turnConfig, *ContinueTurnState, error) {
	s.mu.Lock()
	cfg, u := s.config, s.unfinished
	s.mu.Unlock()
	if cfg != nil {
		return cfg, u, nil
	}
	a := s.agent
	cfg = a.baseConfig()
	if s.toolsContext != nil {
		cfg.toolsContext = s.toolsContext
	}
	if s.runtimeContext != nil {
		cfg.runtimeContext = s.runtimeContext
	}
	t := u.TurnSettings
	if t == nil {
		return cfg, u, nil
	}
	cfg.model, cfg.skills, cfg.instructions = t.Model, t.Skills, t.Instructions
	active := make(map[string]ai.Tool, len(t.Tools))
	for _, spec := range t.Tools {
		tool, ok := cfg.tools.active[spec.Name]
		if !ok {
			return nil, nil, fmt.Errorf("HarnessAgent cannot continue turn because tool '%s' is no longer available.", spec.Name)
		}
		active[spec.Name] = tool
	}
	cfg.tools.active, cfg.tools.specs = active, t.Tools
	return cfg, u, nil
}

func (a *Agent) baseConfig() *turnConfig {
	return &turnConfig{
		model: a.set.Model, skills: a.set.Skills, instructions: a.instructions, tools: a.base,
		toolsContext: a.set.ToolsContext, runtimeContext: a.set.RuntimeContext,
	}
}
