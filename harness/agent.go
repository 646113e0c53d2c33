package harness

import (
	"context"
	"errors"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/sandbox"
)

var (
	_ agent.Agent          = (*Agent)(nil)
	_ agent.HarnessSession = (*AgentSession)(nil)
)

// HarnessSandboxTemplate is a prepared sandbox that sessions start from.
type HarnessSandboxTemplate struct {
	Identity string
	Prepare  func(ctx context.Context, s sandbox.Session) error
}

// GetSandboxTemplate returns the template of the agent's sandboxes. It is nil, nil when there is nothing to prepare,
// which is so for every adapter that has no files of its own to put into a sandbox.
func (a *Agent) GetSandboxTemplate(context.Context) (*HarnessSandboxTemplate, error) { return nil, nil }

// Generate runs a turn on opts.HarnessSession and waits until it ends, pauses or is suspended. Beside an error the
// result, when not nil, holds the steps that were finished.
func (a *Agent) Generate(ctx context.Context, opts agent.AgentGenerateOptions) (*ai.GenerateTextResult, error) {
	return a.generate(ctx, turnInput{opts: opts})
}

// ContinueGenerate continues an unfinished turn with decisions and results, and waits like Generate. Decisions that
// answer nothing are ignored.
func (a *Agent) ContinueGenerate(ctx context.Context, opts agent.AgentGenerateOptions, approvals []ai.ToolApprovalResponseContent, results []ai.ToolResultContent) (*ai.GenerateTextResult, error) {
	return a.generate(ctx, turnInput{opts: opts, continued: true, approvals: approvals, results: results})
}

// Stream starts a turn on opts.HarnessSession. ctx bounds the whole turn: its end aborts it. See ai.StreamTextResult
// for what the consumer owes.
func (a *Agent) Stream(ctx context.Context, opts agent.AgentStreamOptions) (*ai.StreamTextResult, error) {
	return a.stream(ctx, turnInput{opts: opts.AgentGenerateOptions})
}

// ContinueStream continues an unfinished turn with decisions and results, and streams like Stream.
func (a *Agent) ContinueStream(ctx context.Context, opts agent.AgentStreamOptions, approvals []ai.ToolApprovalResponseContent, results []ai.ToolResultContent) (*ai.StreamTextResult, error) {
	return a.stream(ctx, turnInput{opts: opts.AgentGenerateOptions, continued: true, approvals: approvals, results: results})
}

// Execute runs one prompt in a session of its own, which is destroyed afterwards. A turn that pauses is a
// *TurnPausedError.
func (a *Agent) Execute(ctx context.Context, prompt string) (*agent.AgentResult, error) {
	return a.execute(ctx, agent.AgentGenerateOptions{Prompt: prompt})
}

// ExecuteWithMessages is Execute with the last user message as the prompt.
func (a *Agent) ExecuteWithMessages(ctx context.Context, messages []ai.Message) (*agent.AgentResult, error) {
	return a.execute(ctx, agent.AgentGenerateOptions{Messages: messages})
}

func (a *Agent) execute(ctx context.Context, opts agent.AgentGenerateOptions) (*agent.AgentResult, error) {
	s, err := a.CreateSession(ctx, CreateSessionOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Destroy(context.WithoutCancel(ctx)) }() // never fails
	opts.HarnessSession = s
	r, err := a.Generate(ctx, opts)
	if err != nil {
		return agent.ResultOf(r), err
	}
	if s.HasUnfinishedTurn() {
		return agent.ResultOf(r), newTurnPausedError(r)
	}
	if r.OutputErr != nil {
		return agent.ResultOf(r), r.OutputErr
	}
	return agent.ResultOf(r), nil
}

// ExperimentalSteer sends a further user message to the session's running turn.
func (a *Agent) ExperimentalSteer(ctx context.Context, session *AgentSession, text string) error {
	if session == nil || session.agent != a {
		return errForeignSession
	}
	return session.ExperimentalSteerTurn(ctx, text)
}

var (
	errNoSession      = errors.New("HarnessAgent: `session` is required: pass a session of CreateSession as HarnessSession.")
	errForeignSession = errors.New("HarnessAgent: the session belongs to another agent.")
)

// turnInput is one call of Generate, Stream or their continuations.
type turnInput struct {
	opts      agent.AgentGenerateOptions
	continued bool
	approvals []ai.ToolApprovalResponseContent
	results   []ai.ToolResultContent
}

func (a *Agent) generate(ctx context.Context, in turnInput) (*ai.GenerateTextResult, error) {
	d, err := a.startTurn(ctx, in, sinkOf(in.opts.OnPart))
	if err != nil {
		return nil, err
	}
	return d.run()
}

func (a *Agent) stream(ctx context.Context, in turnInput) (*ai.StreamTextResult, error) {
	r, w := ai.NewStream()
	var out sink = streamSink{w}
	if in.opts.OnPart != nil {
		out = sinkOf(in.opts.OnPart)
	}
	d, err := a.startTurn(ctx, in, out)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(d.ctx, w.Interrupt)
	go func() { w.Close(d.run()) }()
	return r, nil
}

func (a *Agent) sessionOf(opts agent.AgentGenerateOptions) (*AgentSession, error) {
	s, ok := opts.HarnessSession.(*AgentSession)
	switch {
	case !ok || s == nil:
		return nil, errNoSession
	case s.agent != a:
		return nil, errForeignSession
	}
	return s, nil
}

// startTurn takes a call to the point where the adapter's turn runs.
func (a *Agent) startTurn(ctx context.Context, in turnInput, out sink) (*driver, error) {
	s, err := a.sessionOf(in.opts)
	if err != nil {
		return nil, err
	}
	prompt, err := in.resolve()
	if err != nil {
		return nil, err
	}
	op := opPrompt
	if in.continued {
		op = opContinue
	}
	d := newDriver(ctx, s, in, out)
	prev, err := s.begin(op, d)
	if err != nil {
		d.cancel(nil)
		return nil, err
	}
	if err := a.startAdapterTurn(d, in, prompt); err != nil {
		s.cancelBegin(prev)
		d.notStarted(err)
		return nil, err
	}
	return d, nil
}

func (a *Agent) startAdapterTurn(d *driver, in turnInput, prompt Prompt) error {
	s := d.s
	var err error
	if in.continued {
		var state *ContinueTurnState
		if d.cfg, state, err = s.continuedConfig(); err != nil {
			return err
		}
		if err = d.resumeFrom(state); err != nil {
			return err
		}
	} else if d.cfg, err = a.preparedConfig(d.ctx, in.opts, prompt); err != nil {
		return err
	}
	s.setConfig(d.cfg)
	opts := TurnOptions{
		Model: d.cfg.model, Skills: d.cfg.skills, Instructions: d.cfg.instructions, Tools: d.cfg.tools.specs,
		ResponseFormat: a.format, Emit: d.emit,
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	if err := context.Cause(d.ctx); err != nil {
		return err
	}
	var control TurnControl
	if in.continued {
		control, err = s.adapter.DoContinueTurn(d.ctx, ContinueTurnOptions{TurnOptions: opts})
	} else {
		control, err = s.adapter.DoPromptTurn(d.ctx, PromptTurnOptions{TurnOptions: opts, Prompt: d.cfg.prompt})
	}
	if err != nil {
		return err
	}
	d.started(control)
	return nil
}

// resolve turns the options into a prompt, or into a continuation when the messages end with a tool message.
func (in *turnInput) resolve() (Prompt, error) {
	if in.continued {
		return Prompt{}, nil
	}
	o := in.opts
	switch {
	case o.Prompt != "" && len(o.Messages) > 0:
		return Prompt{}, errors.New("HarnessAgent: pass either `prompt` or `messages`, not both.")
	case o.Prompt != "":
		return TextPrompt(o.Prompt), nil
	case len(o.Messages) == 0:
		return Prompt{}, errors.New("HarnessAgent: either `prompt` or `messages` is required.")
	}
	if _, ok := trailingToolMessage(o.Messages); ok {
		approvals, err := CollectToolApprovalContinuations(o.Messages)
		if err != nil {
			return Prompt{}, err
		}
		in.continued, in.approvals, in.results = true, approvals, CollectToolResultContinuations(o.Messages)
		return Prompt{}, nil
	}
	for i := len(o.Messages) - 1; i >= 0; i-- {
		if o.Messages[i].Role == ai.RoleUser {
			return MessagePrompt(o.Messages[i]), nil
		}
	}
	return Prompt{}, errors.New("HarnessAgent: messages must contain at least one `role: \"user\"` entry.")
}

// preparedConfig is the configuration of a fresh turn: the agent's, the call's, then PrepareCall's.
func (a *Agent) preparedConfig(ctx context.Context, o agent.AgentGenerateOptions, prompt Prompt) (*turnConfig, error) {
	cfg := a.baseConfig()
	cfg.prompt = prompt
	instructions := a.set.Instructions
	var err error
	if o.Instructions != nil {
		instructions = o.Instructions
		if cfg.instructions, err = instructionsText(instructions); err != nil {
			return nil, err
		}
	}
	if o.RuntimeContext != nil {
		cfg.runtimeContext = o.RuntimeContext
	}
	if a.set.PrepareCall == nil {
		return cfg, nil
	}
	r, err := a.set.PrepareCall(ctx, PrepareCallOptions{
		CallOptions: o.CallOptions, Prompt: prompt, Model: cfg.model, Skills: cfg.skills, Instructions: instructions,
		Tools: a.set.UserTools, ToolsContext: cfg.toolsContext, RuntimeContext: cfg.runtimeContext,
	})
	if err != nil {
		return nil, err
	}
	return cfg, a.applyPrepared(cfg, r)
}

func (a *Agent) applyPrepared(cfg *turnConfig, r PrepareCallResult) error {
	var err error
	if !r.Prompt.IsZero() {
		if m := r.Prompt.Message; m != nil && m.Role != ai.RoleUser {
			return errors.New("HarnessAgent.prepareCall must return a fresh user prompt, not a tool continuation.")
		}
		cfg.prompt = r.Prompt
	}
	if r.Model != "" {
		cfg.model = r.Model
	}
	if r.Skills != nil {
		cfg.skills = r.Skills
	}
	if r.HasInstructions {
		if cfg.instructions, err = instructionsText(r.Instructions); err != nil {
			return err
		}
	}
	if r.Tools != nil {
		if cfg.tools, err = a.newToolset(r.Tools); err != nil {
			return err
		}
		// The built-in filtering was sent when the session started and holds for all of its turns.
		cfg.tools.filtering = a.base.filtering
	}
	if r.ToolsContext != nil {
		cfg.toolsContext = r.ToolsContext
	}
	if r.HasRuntimeContext {
		cfg.runtimeContext = r.RuntimeContext
	}
	return nil
}
