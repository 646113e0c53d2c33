package harnesstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/harness-go/harness/harness"
)

// Mock is an adapter whose turns are played by a script.
type Mock struct {
	// ID is the harness id, "mock" when empty.
	ID       string
	Builtins map[string]harness.BuiltinTool
	// Script plays a turn. Its return ends the turn, with its error. It must return soon after t.Context() ends.
	Script func(t *Turn) error
	// NoApprovals, NoFiltering and NoSteering take capabilities away.
	NoApprovals, NoFiltering, NoSteering bool
	// Validate checks lifecycle data; nil accepts any.
	Validate func(json.RawMessage) error
	// OnResult and OnApproval, when not nil, see what is submitted before the submission returns. A script that goes
	// on in another session keeps it there.
	OnResult   func(ctx context.Context, t *Turn, r harness.ToolResultSubmission) error
	OnApproval func(ctx context.Context, t *Turn, a harness.ToolApprovalSubmission) error
	// Log, when not nil, receives every call of the adapter.
	Log *Log
}

var _ harness.Harness = (*Mock)(nil)

// SpecificationVersion implements harness.Harness.
func (m *Mock) SpecificationVersion() string { return harness.SpecificationVersion }

// HarnessID implements harness.Harness.
func (m *Mock) HarnessID() string {
	if m.ID == "" {
		return "mock"
	}
	return m.ID
}

// BuiltinTools implements harness.Harness.
func (m *Mock) BuiltinTools() map[string]harness.BuiltinTool { return m.Builtins }

// SupportsBuiltinToolApprovals implements harness.BuiltinToolApprovalSupport.
func (m *Mock) SupportsBuiltinToolApprovals() bool { return !m.NoApprovals }

// SupportsBuiltinToolFiltering implements harness.BuiltinToolFilteringSupport.
func (m *Mock) SupportsBuiltinToolFiltering() bool { return !m.NoFiltering }

// ValidateLifecycleStateData implements harness.LifecycleStateValidator.
func (m *Mock) ValidateLifecycleStateData(data json.RawMessage) error {
	if m.Validate == nil {
		return nil
	}
	return m.Validate(data)
}

// DoStart implements harness.Harness.
func (m *Mock) DoStart(_ context.Context, o harness.StartOptions) (harness.AdapterSession, error) {
	m.Log.Add("doStart", startArgs{
		Headers: o.Headers, SessionID: o.SessionID, ResumeFrom: o.ResumeFrom, ContinueFrom: o.ContinueFrom,
		PermissionMode: o.PermissionMode, BuiltinToolFiltering: o.BuiltinToolFiltering, SessionWorkDir: o.SessionWorkDir,
	})
	return &mockSession{m: m, start: o}, nil
}

type startArgs struct {
	Headers              map[string]string             `json:"headers,omitempty"`
	SessionID            string                        `json:"sessionId"`
	ResumeFrom           *harness.ResumeSessionState   `json:"resumeFrom,omitempty"`
	ContinueFrom         *harness.ContinueTurnState    `json:"continueFrom,omitempty"`
	PermissionMode       harness.PermissionMode        `json:"permissionMode"`
	BuiltinToolFiltering *harness.BuiltinToolFiltering `json:"builtinToolFiltering,omitempty"`
	SessionWorkDir       string                        `json:"sessionWorkDir"`
}

type turnArgs struct {
	Prompt         *harness.Prompt         `json:"prompt,omitempty"`
	Model          string                  `json:"model,omitempty"`
	Skills         []harness.Skill         `json:"skills"`
	Instructions   string                  `json:"instructions,omitempty"`
	Tools          []harness.ToolSpec      `json:"tools"`
	ResponseFormat *harness.ResponseFormat `json:"responseFormat,omitempty"`
}

type mockSession struct {
	m     *Mock
	start harness.StartOptions

	mu   sync.Mutex
	turn *Turn
	seq  int
}

func (s *mockSession) SessionID() string { return s.start.SessionID }

func (s *mockSession) IsResume() bool {
	return s.start.ResumeFrom != nil || s.start.ContinueFrom != nil
}

func (s *mockSession) DoPromptTurn(ctx context.Context, o harness.PromptTurnOptions) (harness.TurnControl, error) {
	return s.begin(ctx, "doPromptTurn", &o.Prompt, o.TurnOptions), nil
}

func (s *mockSession) DoContinueTurn(ctx context.Context, o harness.ContinueTurnOptions) (harness.TurnControl, error) {
	return s.begin(ctx, "doContinueTurn", nil, o.TurnOptions), nil
}

func (s *mockSession) begin(ctx context.Context, mode string, prompt *harness.Prompt, o harness.TurnOptions) harness.TurnControl {
	skills, tools := o.Skills, o.Tools
	if skills == nil {
		skills = []harness.Skill{}
	}
	if tools == nil {
		tools = []harness.ToolSpec{}
	}
	s.m.Log.Add(mode, turnArgs{Prompt: prompt, Model: o.Model, Skills: skills, Instructions: o.Instructions, Tools: tools, ResponseFormat: o.ResponseFormat})
	t := &Turn{s: s, Mode: mode, Options: o, Start: s.start, done: make(chan struct{}), given: map[string]any{}, changed: make(chan struct{})}
	if prompt != nil {
		t.Prompt = *prompt
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	s.mu.Lock()
	s.turn = t
	s.mu.Unlock()
	t.played = make(chan struct{})
	go t.play()
	if s.m.NoSteering {
		return t
	}
	return steerable{t}
}

func (s *mockSession) state() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]any{"nativeSessionId": "native-" + s.start.SessionID, "lastSeq": s.seq}
}

func (s *mockSession) resumeState(via string) (*harness.ResumeSessionState, error) {
	data := s.state()
	data["via"] = via
	return harness.NewResumeSessionState(s.m.HarnessID(), data)
}

func (s *mockSession) DoSuspendTurn(ctx context.Context) (*harness.ContinueTurnState, error) {
	s.m.Log.Add("doSuspendTurn", nil)
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t != nil {
		t.freeze()
		select {
		case <-t.played:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	data := s.state()
	data["suspended"] = true
	return harness.NewContinueTurnState(s.m.HarnessID(), data)
}

func (s *mockSession) DoDetach(context.Context) (*harness.ResumeSessionState, error) {
	s.m.Log.Add("doDetach", nil)
	return s.resumeState("detach")
}

func (s *mockSession) DoStop(context.Context) (*harness.ResumeSessionState, error) {
	s.m.Log.Add("doStop", nil)
	return s.resumeState("stop")
}

func (s *mockSession) DoDestroy(context.Context) error {
	s.m.Log.Add("doDestroy", nil)
	return nil
}

func (s *mockSession) DoCompact(_ context.Context, instructions string) error {
	s.m.Log.Add("doCompact", instructions)
	return nil
}

// Turn is a turn as a script plays it.
type Turn struct {
	// Mode is doPromptTurn or doContinueTurn.
	Mode    string
	Prompt  harness.Prompt
	Options harness.TurnOptions
	Start   harness.StartOptions

	s      *mockSession
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	played chan struct{} // closed when the script returned

	emitting sync.Mutex // makes the place of a freeze precise
	mu       sync.Mutex
	frozen   bool
	ended    bool
	err      error
	given    map[string]any // what was submitted, by kind and id
	changed  chan struct{}  // closed and replaced with each submission
}

// ErrSuspended is what a script's waits return when the turn was suspended.
var ErrSuspended = errors.New("harnesstest: the turn was suspended")

func (t *Turn) play() {
	defer close(t.played)
	err := t.script()
	t.end(err)
}

func (t *Turn) script() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("harnesstest: the script panicked: %v", r)
		}
	}()
	return t.s.m.Script(t)
}

func (t *Turn) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.ended = true
	t.err = err
	t.cancel(ErrSuspended)
	close(t.done)
}

// freeze ends the turn for its host. What the script emits from now on is lost.
func (t *Turn) freeze() {
	t.emitting.Lock()
	t.mu.Lock()
	t.frozen = true
	t.mu.Unlock()
	t.emitting.Unlock()
	t.end(nil)
}

// Context ends when the turn is aborted or suspended.
func (t *Turn) Context() context.Context { return t.ctx }

// Emit gives parts to the host.
func (t *Turn) Emit(parts ...harness.StreamPart) {
	for _, p := range parts {
		t.emitting.Lock()
		t.mu.Lock()
		frozen := t.frozen
		t.mu.Unlock()
		if !frozen {
			t.s.mu.Lock()
			t.s.seq++
			t.s.mu.Unlock()
			t.Options.Emit(p)
		}
		t.emitting.Unlock()
	}
}

func (t *Turn) give(key string, v any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.given[key] = v
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *Turn) wait(key string) (any, error) {
	for {
		t.mu.Lock()
		v, ok := t.given[key]
		changed := t.changed
		t.mu.Unlock()
		if ok {
			return v, nil
		}
		select {
		case <-changed:
		case <-t.ctx.Done():
			return nil, context.Cause(t.ctx)
		}
	}
}

// Changed returns a channel that is closed when something is submitted after the call.
func (t *Turn) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// WaitResult waits for the result of a call that the host answers.
func (t *Turn) WaitResult(callID string) (harness.ToolResultSubmission, error) {
	v, err := t.wait("result:" + callID)
	if err != nil {
		return harness.ToolResultSubmission{}, err
	}
	return v.(harness.ToolResultSubmission), nil
}

// WaitApproval waits for a decision.
func (t *Turn) WaitApproval(approvalID string) (harness.ToolApprovalSubmission, error) {
	v, err := t.wait("approval:" + approvalID)
	if err != nil {
		return harness.ToolApprovalSubmission{}, err
	}
	return v.(harness.ToolApprovalSubmission), nil
}

// WaitMessage waits for a steering message.
func (t *Turn) WaitMessage() (string, error) {
	v, err := t.wait("message")
	if err != nil {
		return "", err
	}
	return v.(string), nil
}

// Done implements harness.TurnControl.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Err implements harness.TurnControl.
func (t *Turn) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// SubmitToolResult implements harness.TurnControl.
func (t *Turn) SubmitToolResult(ctx context.Context, r harness.ToolResultSubmission) error {
	t.s.m.Log.Add("submitToolResult", submittedResult{r.ToolCallID, r.Output, r.IsError, r.ToolResult})
	if f := t.s.m.OnResult; f != nil {
		if err := f(ctx, t, r); err != nil {
			return err
		}
	}
	t.give("result:"+r.ToolCallID, r)
	return nil
}

type submittedResult struct {
	ToolCallID string `json:"toolCallId"`
	Output     any    `json:"output"`
	IsError    bool   `json:"isError,omitempty"`
	ToolResult any    `json:"toolResult,omitempty"`
}

// SubmitToolApproval implements harness.ToolApprovalSubmitter.
func (t *Turn) SubmitToolApproval(ctx context.Context, a harness.ToolApprovalSubmission) error {
	t.s.m.Log.Add("submitToolApproval", submittedApproval{a.ApprovalID, a.Approved, a.Reason})
	if f := t.s.m.OnApproval; f != nil {
		if err := f(ctx, t, a); err != nil {
			return err
		}
	}
	t.give("approval:"+a.ApprovalID, a)
	return nil
}

type submittedApproval struct {
	ApprovalID string `json:"approvalId"`
	Approved   bool   `json:"approved"`
	Reason     string `json:"reason,omitempty"`
}

// steerable adds steering to a turn.
type steerable struct{ *Turn }

func (t steerable) SubmitUserMessage(_ context.Context, text string) error {
	t.s.m.Log.Add("submitUserMessage", text)
	t.give("message", text)
	return nil
}
