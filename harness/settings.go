package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/sandbox"
)

// AgentVersion is the version of the agent interface that Agent implements.
const AgentVersion = "agent-v1"

// SandboxProvider makes the sandbox sessions of an agent.
type SandboxProvider = sandbox.Provider

// AgentSettings make an Agent. Harness is required.
type AgentSettings struct {
	// Harness drives the runtime. Its built-in tools are merged with UserTools.
	Harness Harness
	ID      string
	// Model is the model's name as the adapter knows it. Empty is the adapter's default.
	Model string
	// UserTools are host tools by name. They win over built-in tools of the same name.
	UserTools map[string]ai.Tool
	// ToolsContext is handed to host tools, by tool name. It is never persisted.
	ToolsContext map[string]any
	// RuntimeContext is handed to callbacks and host tools. It is never persisted.
	RuntimeContext any
	Skills         []Skill
	// Instructions are added to the runtime's own: a string, or an ai.Message (or pointer to one), whose text counts.
	Instructions any
	// Headers are sent with every model request. Names are matched without case; authorization, x-api-key, user-agent
	// and x-client-app are managed by the harness and refused.
	Headers map[string]string
	// PrepareCall derives what may vary between turns, before each fresh turn. It does not run for continuations.
	PrepareCall func(ctx context.Context, opts PrepareCallOptions) (PrepareCallResult, error)
	// Output is a specification of the final text (ai.Output). A value of another type is ignored with a warning.
	Output any
	// StopWhen ends a result after a finished step from which the turn would go on. The turn stays unfinished: it is
	// suspended and can be continued. Nil: the turn runs until it finishes or pauses.
	StopWhen  []ai.StopCondition
	Callbacks Callbacks
	// PermissionMode is the baseline for built-in tools, PermissionModeAllowAll when empty.
	PermissionMode PermissionMode
	// ToolApproval is the static approval status of host tools.
	ToolApproval AgentToolApprovalConfiguration
	// ActiveTools and InactiveTools limit the tools. At most one of them is set; nil leaves every tool, an empty
	// ActiveTools none.
	ActiveTools   []string
	InactiveTools []string
	// Sandbox makes the sessions' sandboxes. When nil, every CreateSession must bring one.
	Sandbox       SandboxProvider
	SandboxConfig AgentSandboxConfig

	// Debug and OnLog receive the sessions' diagnostics. Nothing is reported without OnLog.
	Debug DebugConfig
	OnLog func(Diagnostic)

	// Gate decides every call: the Agent asks it for host tools, the adapter for the runtime's own. Nil: ToolApproval
	// and PermissionMode alone decide.
	Gate Decider
	// Journal receives the facts of the sessions. Nil: none are kept.
	Journal Journal
	// Checkpoint persists the state from which a turn can be continued after its process died, in one commit with the
	// facts before it. Nil: adapters keep none.
	Checkpoint func(ctx context.Context, state *ContinueTurnState) error
}

// AgentSandboxConfig says where sessions work.
type AgentSandboxConfig struct {
	// WorkDir is the working directory, relative to the sandbox's default one. Empty: "<harness id>-<session id>", or
	// the root itself with InPlace.
	WorkDir string
	// InPlace lets sessions work in the folder InPlaceRoot itself. The sandbox is then made on first use, and not
	// resumed: the folder is all there is of it.
	InPlace bool
	// InPlaceRoot is an absolute path.
	InPlaceRoot string
	// OnSession is called when a session's sandbox is ready, before anything else uses it.
	OnSession func(ctx context.Context, session sandbox.Session, sessionWorkDir string) error

	// Scope, Network, Env and ConfineFiles are handed to the provider, see sandbox.CreateOptions.
	Scope        sandbox.Scope
	Network      sandbox.Network
	Env          map[string]string
	ConfineFiles bool
}

// Callbacks are called while a turn runs, see package ai for their order.
type Callbacks struct {
	OnStart                  func(ctx context.Context, e ai.OnStartEvent)
	OnStepStart              func(ctx context.Context, e ai.OnStepStartEvent)
	OnLanguageModelCallStart ai.OnLanguageModelCallStartCallback
	OnLanguageModelCallEnd   ai.OnLanguageModelCallEndCallback
	OnToolExecutionStart     func(ctx context.Context, e ai.OnToolCallStartEvent)
	OnToolExecutionEnd       func(ctx context.Context, e ai.OnToolCallFinishEvent)
	OnStepEnd                func(ctx context.Context, e ai.OnStepFinishEvent)
	// OnEnd is called once for a result that has a finished step, however it ended.
	OnEnd func(ctx context.Context, e ai.OnFinishEvent)
}

// PrepareCallOptions are what a turn would run with.
type PrepareCallOptions struct {
	CallOptions    any
	Prompt         Prompt
	Model          string
	Skills         []Skill
	Instructions   any
	Tools          map[string]ai.Tool
	ToolsContext   map[string]any
	RuntimeContext any
}

// PrepareCallResult replaces parts of PrepareCallOptions. A zero field keeps what was there; an empty slice or map
// that is not nil clears it.
type PrepareCallResult struct {
	Model  string
	Skills []Skill
	// Instructions count only with HasInstructions, so that they can be cleared.
	Instructions    any
	HasInstructions bool
	Tools           map[string]ai.Tool
	ToolsContext    map[string]any
	// RuntimeContext counts only with HasRuntimeContext, so that it can be cleared.
	RuntimeContext    any
	HasRuntimeContext bool
	Prompt            Prompt
}

// managedHeaders are the adapter's to set.
var managedHeaders = []string{"authorization", "x-api-key", "user-agent", "x-client-app"}

// Agent runs the turns of sessions of one harness. It is safe for concurrent use.
type Agent struct {
	set          AgentSettings
	builtin      map[string]BuiltinTool
	headers      map[string]string
	instructions string
	output       ai.Output
	format       *ResponseFormat
	warnings     []ai.CallWarning
	base         toolset
	now          func() time.Time
}

// NewAgent checks the settings and returns the agent.
func NewAgent(s AgentSettings) (*Agent, error) {
	if s.Harness == nil {
		return nil, errors.New("HarnessAgent: `harness` is required.")
	}
	if v := s.Harness.SpecificationVersion(); v != SpecificationVersion {
		return nil, NewHarnessError(fmt.Sprintf("Harness '%s' has unexpected specificationVersion '%s'; expected '%s'.", s.Harness.HarnessID(), v, SpecificationVersion), nil)
	}
	a := &Agent{set: s, builtin: s.Harness.BuiltinTools(), now: time.Now}
	var err error
	if a.headers, err = checkHeaders(s.Headers); err != nil {
		return nil, err
	}
	if a.instructions, err = instructionsText(s.Instructions); err != nil {
		return nil, err
	}
	if err := a.checkPermissionMode(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.ToolApproval)) {
		if err := s.ToolApproval[name].validate(); err != nil {
			return nil, fmt.Errorf("HarnessAgent: `toolApproval` of '%s': %w", name, err)
		}
	}
	if a.base, err = a.newToolset(s.UserTools); err != nil {
		return nil, err
	}
	if err := checkSandboxConfig(s.SandboxConfig); err != nil {
		return nil, err
	}
	a.resolveOutput()
	return a, nil
}

func (a *Agent) checkPermissionMode() error {
	m := a.set.PermissionMode
	if m != "" && !m.Valid() {
		return fmt.Errorf("HarnessAgent: permission mode %q is not one of allow-reads, allow-edits, allow-all", m)
	}
	if !PermissionModeNeedsBuiltinSupport(m) || len(a.builtin) == 0 || SupportsBuiltinToolApprovals(a.set.Harness) {
		return nil
	}
	id := a.set.Harness.HarnessID()
	return NewCapabilityUnsupportedError(fmt.Sprintf("Harness '%s' does not support built-in tool approval requests; use permissionMode: 'allow-all'.", id), id, nil)
}

func (a *Agent) resolveOutput() {
	if a.set.Output == nil {
		return
	}
	o, ok := a.set.Output.(ai.Output)
	if !ok {
		a.warnings = append(a.warnings, ai.CallWarning{
			Type: string(CallWarningUnsupportedSetting), Setting: "output",
			Details: fmt.Sprintf("a value of type %T is not an output specification and is ignored", a.set.Output),
		})
		return
	}
	a.output = o
	f := o.ResponseFormat()
	a.format = &ResponseFormat{Type: ResponseFormatText}
	if f.JSON {
		a.format = &ResponseFormat{Type: ResponseFormatJSON, Schema: f.Schema, Name: f.Name, Description: f.Description}
	}
}

func checkHeaders(in map[string]string) (map[string]string, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		name := strings.ToLower(k)
		if slices.Contains(managedHeaders, name) {
			return nil, fmt.Errorf("HarnessAgent: `headers` must not include the managed header `%s`.", name)
		}
		out[name] = v
	}
	return out, nil
}

// instructionsText is the text of instructions in any of their forms.
func instructionsText(v any) (string, error) {
	switch t := v.(type) {
	case nil:
		return "", nil
	case string:
		return t, nil
	case ai.Message:
		return t.Text(), nil
	case *ai.Message:
		if t == nil {
			return "", nil
		}
		return t.Text(), nil
	}
	return "", fmt.Errorf("HarnessAgent: `instructions` must be a string or a message, not %T", v)
}

// toolset is the host tools of a turn. checks hold the input schemas' checks.
type toolset struct {
	all       map[string]ai.Tool // merged with the built-in ones
	active    map[string]ai.Tool
	specs     []ToolSpec
	filtering *BuiltinToolFiltering
	checks    map[string]func([]byte) error
}

func (a *Agent) newToolset(user map[string]ai.Tool) (toolset, error) {
	var t toolset
	for _, name := range slices.Sorted(maps.Keys(user)) {
		if name == "" {
			return t, errors.New("HarnessAgent: a tool has no name")
		}
		if _, ok := a.builtin[name]; ok && name == string(BuiltinToolAskUserQuestions) {
			return t, fmt.Errorf("HarnessAgent tool name '%s' is reserved for harness question requests.", name)
		}
		if len(user[name].InputSchema) == 0 {
			continue
		}
		check, err := ai.SchemaCheck(user[name].InputSchema)
		if err != nil {
			return t, fmt.Errorf("HarnessAgent: tool '%s': input %w", name, err)
		}
		if t.checks == nil {
			t.checks = map[string]func([]byte) error{}
		}
		t.checks[name] = func(b []byte) error { return check(b) }
	}
	f, err := ResolveToolFiltering(ResolveToolFilteringOptions{
		Harness: a.set.Harness, UserTools: user, AllTools: a.base.all, ActiveTools: a.set.ActiveTools, InactiveTools: a.set.InactiveTools,
	})
	if err != nil {
		return t, err
	}
	t.all = mergeTools(a.builtin, user)
	t.active, t.filtering = f.ActiveUserTools, f.BuiltinToolFiltering
	t.specs = toolSpecs(t.active)
	return t, nil
}

// Version is the version of the agent interface.
func (a *Agent) Version() string { return AgentVersion }

// ID is the agent's configured id.
func (a *Agent) ID() string { return a.set.ID }

// HarnessID is the id of the agent's harness.
func (a *Agent) HarnessID() string { return a.set.Harness.HarnessID() }

// HasOutput reports whether results have a parsed output.
func (a *Agent) HasOutput() bool { return a.output != nil }

// Tools lists the merged tools: the built-in ones in the common order, then the user's, sorted. Filtering does not
// shorten the list.
func (a *Agent) Tools() []ai.Tool {
	names := mergedOrder(a.builtin, a.set.UserTools)
	out := make([]ai.Tool, 0, len(names))
	for _, n := range names {
		t := a.base.all[n]
		t.Name = n
		out = append(out, t)
	}
	return out
}
