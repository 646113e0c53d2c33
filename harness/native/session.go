package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/tool"
)

// session is one conversation. Its transcript is loaded by the first turn and kept up to date by appends.
type session struct {
	h    *Harness
	opts harness.StartOptions
	gate harness.Decider
	// own is set when the adapter gates by itself, because the host gave no gate.
	own *ownLedger

	jobs     *tool.JobTable
	versions *tool.MapVersions
	todos    *tool.ListTodos

	mu     sync.Mutex // of the fields up to ended
	loaded bool
	active *turn
	ended  bool

	// Of the turn's goroutine.
	history  history
	callIDs  map[string]bool // of all calls in the transcript
	caughtUp bool
	level    int // thresholds of the context window that are behind

	instructions []InstructionFile // of the workspace

	itemsMu sync.Mutex // of what follows, against the submit methods and calls that run side by side
	items   []Item
	chain   chain
	sums    tally
	gauge   gauge
	prefix  int64 // estimate of system prompt and tools
	window  int64 // of the model in use
}

func newSession(h *Harness, o harness.StartOptions) (*session, error) {
	if o.SessionID == "" {
		return nil, errors.New("native: session id is required")
	}
	s := &session{h: h, opts: o, gate: o.Decide, versions: &tool.MapVersions{}, todos: &tool.ListTodos{}, callIDs: map[string]bool{}}
	s.jobs = tool.NewJobs(tool.JobLimits{Running: h.set.MaxJobs}, func(p event.JobCompletedPayload) { s.emit(0, p) })
	if s.gate == nil {
		s.own = newOwnLedger(s)
		g, err := control.NewGate(control.Config{
			Ledger: s.own, Now: h.set.Now,
			Policy: control.Policy{Mode: o.PermissionMode, Denied: s.filteredOut(), Active: s.isActive},
		})
		if err != nil {
			return nil, fmt.Errorf("native: %w", err)
		}
		s.gate = g
	}
	return s, nil
}

func (s *session) isActive(name string) bool {
	return s.h.set.Activation.IsActive(s.opts.SessionID, name)
}

// filteredOut lists the tools that the host's filter disables.
func (s *session) filteredOut() []string {
	var out []string
	for _, t := range s.h.tools.All() {
		if name := t.Definition().Name; !s.included(name) {
			out = append(out, name)
		}
	}
	return out
}

func (s *session) included(name string) bool {
	if name == questionTool {
		name = string(harness.BuiltinToolAskUserQuestions)
	}
	return harness.IsBuiltinToolIncluded(s.opts.BuiltinToolFiltering, name)
}

// SessionID implements harness.AdapterSession.
func (s *session) SessionID() string { return s.opts.SessionID }

// IsResume implements harness.AdapterSession.
func (s *session) IsResume() bool { return s.opts.ResumeFrom != nil || s.opts.ContinueFrom != nil }

// load reads the transcript once and checks it against the lifecycle state.
func (s *session) load(ctx context.Context) error {
	if s.loaded {
		return nil
	}
	items, err := s.h.set.Transcript.Load(ctx, s.opts.SessionID)
	if err != nil {
		return err
	}
	var data json.RawMessage
	switch {
	case s.opts.ContinueFrom != nil:
		data = s.opts.ContinueFrom.Data
	case s.opts.ResumeFrom != nil:
		data = s.opts.ResumeFrom.Data
	}
	var c chain
	if data != nil {
		var hd head
		if err := json.Unmarshal(data, &hd); err != nil {
			return errors.New("native: lifecycle state is not that of a native session")
		}
		if c, err = hd.verify(s.opts.SessionID, items); err != nil {
			return fmt.Errorf("native: %w", err)
		}
	}
	if err := c.add(items[c.n:]...); err != nil {
		return err
	}
	for i := range items {
		items[i].encoded = nil
	}
	s.itemsMu.Lock()
	s.items, s.chain = items, c
	s.sums.add(items...)
	s.gauge = gaugeOf(items)
	s.itemsMu.Unlock()
	s.restore(items)
	s.loaded = true
	return nil
}

// restore brings back the typed state that the transcript carries: seen versions and todos. Todos belong to a turn
// and start afresh with the next prompt.
func (s *session) restore(items []Item) {
	for _, it := range items {
		switch it.Kind {
		case KindPrompt:
			s.todos.Set(nil)
		case KindAnswer:
			for _, c := range it.Message.ToolCalls() {
				s.callIDs[c.ToolCallID] = true
			}
		case KindResult:
			for path, v := range it.Seen {
				s.versions.See(path, v)
			}
		case KindInstructions:
			s.instructions = it.Instructions
		case KindTodos:
			s.todos.Set(it.Todos)
		case KindSteer:
			if it.Message == nil && it.Compact == nil {
				s.todos.Set(it.Todos)
			}
		}
	}
	if s.own != nil {
		s.own.restore(items)
	}
}

// activate makes the tools callable that the current turn activated so far.
func (s *session) activate() {
	for _, it := range turnItems(s.all()) {
		if it.Kind == KindActivated {
			s.h.set.Activation.Activate(s.opts.SessionID, it.Activated...)
		}
	}
}

// all is the transcript so far. It is not changed by what is appended later.
func (s *session) all() []Item {
	s.itemsMu.Lock()
	defer s.itemsMu.Unlock()
	return s.items[:len(s.items):len(s.items)]
}

// tally is what the transcript adds up to.
func (s *session) tally() tally {
	s.itemsMu.Lock()
	defer s.itemsMu.Unlock()
	return s.sums
}

// append adds items to the transcript. The caller emits the fact that belongs to them next.
func (s *session) append(ctx context.Context, items ...Item) error {
	for i := range items {
		b, err := items[i].JSON()
		if err != nil {
			return err
		}
		items[i].encoded = b // once for the transcript and the digest
	}
	s.itemsMu.Lock()
	defer s.itemsMu.Unlock()
	if err := s.h.set.Transcript.Append(ctx, s.opts.SessionID, items...); err != nil {
		return fmt.Errorf("native: append to transcript: %w", err)
	}
	if err := s.chain.add(items...); err != nil {
		return err
	}
	s.sums.add(items...)
	for _, it := range items {
		s.gauge.add(&it)
		it.encoded = nil
		s.items = append(s.items, it)
	}
	return nil
}

// checkpoint hands the lifecycle data over. Without a Checkpoint the host does not want any.
func (s *session) checkpoint(ctx context.Context) error {
	if s.opts.Checkpoint == nil {
		return nil
	}
	return s.opts.Checkpoint(ctx, s.data())
}

func (s *session) data() json.RawMessage {
	s.itemsMu.Lock()
	h := s.chain.head(s.opts.SessionID)
	s.itemsMu.Unlock()
	b, _ := json.Marshal(h) // strings and numbers always marshal
	return b
}

func (s *session) emit(step int, payloads ...event.Payload) { s.journal(at(step, payloads...)...) }

func (s *session) journal(facts ...event.Fact) {
	if s.opts.Journal != nil && len(facts) > 0 {
		s.opts.Journal.Emit(facts...)
	}
}

// env is the environment of the session's tools.
func (s *session) env(step int, callID, toolName string) tool.Env {
	return tool.Env{
		Sandbox: s.opts.SandboxSession, Dir: s.opts.SessionWorkDir,
		Output: func(stream int, chunk string) {
			s.emit(step, event.ToolOutputDeltaPayload{CallID: callID, Tool: toolName, StreamIndex: stream, Content: chunk})
		},
		Artifacts: s.h.set.Artifacts, Jobs: s.jobs, Todos: s.todos, Versions: s.versions,
		Memory: s.h.set.Memory, Skills: s.h.set.Skills, Context: s,
		Activator: tool.NewActivator(s.h.tools, s.h.set.Activation, s.opts.SessionID, s.mayActivate),
		Panic: func(name string, value any, stack []byte) {
			s.h.set.Logger.Error("tool panicked", "tool", name, "call", callID, "panic", fmt.Sprint(value), "stack", string(stack))
		},
	}
}

func (s *session) mayActivate(name string) error {
	if !s.visible(name) {
		return fmt.Errorf("%s is not among the tools of this run", name)
	}
	return nil
}

func (s *session) visible(name string) bool {
	return s.included(name) && (s.h.set.Visible == nil || s.h.set.Visible(name))
}

// DoPromptTurn implements harness.AdapterSession.
func (s *session) DoPromptTurn(ctx context.Context, o harness.PromptTurnOptions) (harness.TurnControl, error) {
	msg := o.Prompt.AsMessage()
	return s.start(ctx, o.TurnOptions, &msg)
}

// DoContinueTurn implements harness.AdapterSession.
func (s *session) DoContinueTurn(ctx context.Context, o harness.ContinueTurnOptions) (harness.TurnControl, error) {
	return s.start(ctx, o.TurnOptions, nil)
}

func (s *session) start(ctx context.Context, o harness.TurnOptions, prompt *ai.Message) (harness.TurnControl, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return nil, errors.New("native: session has ended")
	case s.active != nil && !s.active.isDone():
		return nil, errors.New("native: a turn is in progress")
	case o.ResponseFormat != nil && o.ResponseFormat.Type == harness.ResponseFormatJSON && len(o.ResponseFormat.Schema) == 0:
		return nil, harness.NewCapabilityUnsupportedError("JSON output without a schema is not supported by the native harness.", HarnessID, nil)
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	if prompt == nil {
		if err := s.resume(ctx); err != nil {
			return nil, err
		}
	}
	targets, err := s.h.set.Resolve(o.Model)
	if err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("native: no provider serves the model %q", o.Model)
	}
	t := newTurn(ctx, s, o, targets)
	s.active = t
	go t.run(prompt)
	return t, nil
}

// resume prepares the continuation of the transcript's last turn.
func (s *session) resume(ctx context.Context) error {
	items := s.all()
	if len(items) == 0 || turnItems(items)[0].Kind != KindPrompt {
		return fmt.Errorf("native: session %s has no turn to continue", s.opts.SessionID)
	}
	if s.own != nil && s.opts.ContinueFrom != nil {
		s.own.adoptPending(ctx, s.opts.ContinueFrom.PendingToolApprovals, s.opts.SessionWorkDir)
	}
	s.activate()
	return nil
}

// DoSuspendTurn implements harness.AdapterSession.
func (s *session) DoSuspendTurn(ctx context.Context) (*harness.ContinueTurnState, error) {
	if err := s.suspend(ctx); err != nil {
		return nil, err
	}
	return harness.NewContinueTurnState(HarnessID, s.data())
}

// suspend stops the active turn at its next safe place and waits for it. Background jobs end with it: a suspended turn
// holds no process.
func (s *session) suspend(ctx context.Context) error {
	s.mu.Lock()
	t := s.active
	s.mu.Unlock()
	if t != nil {
		t.suspend()
		select {
		case <-t.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.jobs.Interrupt(ctx)
}

// DoDetach implements harness.AdapterSession. Nothing of the session outlives it but the transcript.
func (s *session) DoDetach(ctx context.Context) (*harness.ResumeSessionState, error) {
	return s.DoStop(ctx)
}

// DoStop implements harness.AdapterSession.
func (s *session) DoStop(ctx context.Context) (*harness.ResumeSessionState, error) {
	if err := s.end(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	return harness.NewResumeSessionState(HarnessID, s.data())
}

// DoDestroy implements harness.AdapterSession.
func (s *session) DoDestroy(ctx context.Context) error {
	return s.end(ctx)
}

func (s *session) end(ctx context.Context) error {
	s.mu.Lock()
	s.ended = true
	t := s.active
	s.mu.Unlock()
	if t != nil {
		t.abort(errors.New("the session ended"))
		select {
		case <-t.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.jobs.KillAll(ctx)
}

// DoCompact implements harness.AdapterSession. The request is recorded, and the compaction is made before the next
// model call, of this turn or of the next one; its outcome comes as a part of that turn.
func (s *session) DoCompact(ctx context.Context, customInstructions string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errors.New("native: session has ended")
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	if len(s.all()) == 0 {
		return errors.New("native: the session has no messages to compact")
	}
	return s.append(context.WithoutCancel(ctx), Item{Kind: KindCompact, Compact: &CompactRequest{Instructions: customInstructions}})
}
