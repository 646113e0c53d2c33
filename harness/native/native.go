// Package native is our own agent loop as a harness adapter: it calls a model, runs the tool calls of its answer
// through the gate, and goes on until the model answers without calls.
//
// It owns the loop, the transcript's form, the retries of model calls, what of the transcript a model sees, and the
// budgets. It does not own the gate, the tools, the wires or the log; it gets them. Its only state is the transcript:
// what to do next follows from the last items, so a turn that is continued after a kill, a wait of days or a suspension
// goes the same way.
//
// Invariants. An answer is in the transcript before a call of it is decided. A call runs only with a permit, and a
// call that may have run is never run again. A step's results go to the model in the order of its calls. The facts of
// one change are one commit. The transcript only grows: a compaction is an item that says what is seen from there on,
// and never parts a call from its result. A model's summary decides nothing. No call is made whose cost is not set
// aside.
package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
	"github.com/harness-go/harness/tool/builtin"
)

// HarnessID is the adapter's id.
const HarnessID = "native"

// Target is one provider's model that a turn can use.
type Target struct {
	Model    model.Model
	Provider string
	ModelID  string
	// MaxOutputTokens bounds one answer. 0: the provider's own bound, which is not known here.
	MaxOutputTokens int
	// ContextWindow is how many tokens prompt and answer may have together. 0: not known, and nothing is compacted
	// before the provider refuses.
	ContextWindow int64
	// Cost prices one call. Nil: the model has no price.
	Cost           func(ai.Usage) (usd float64, status event.CostStatus)
	PricingVersion string
}

// Budget bounds a turn over all of its continuations. Zero fields are unbounded.
type Budget struct {
	MaxSteps   int
	MaxCostUSD float64
	MaxTokens  int64
	// Timeout is working time: a turn that waits for a person does not use it up.
	Timeout time.Duration
}

// Settings make the adapter. Resolve is required.
type Settings struct {
	// Resolve returns the targets for a model name, the primary first and the fallbacks after it. An empty name is
	// the default model.
	Resolve func(modelName string) ([]Target, error)
	// Tools is the catalogue, builtin.Core when nil.
	Tools *tool.Catalog
	// Visible reports whether a tool may be shown to the model. It hides what the gate would refuse anyway; the
	// gate decides. Nil shows all.
	Visible    func(name string) bool
	Transcript Transcript // in memory when nil
	Activation *tool.ActivationTracker
	// Artifacts keeps full outputs. Nil: cut output is lost beyond its cap.
	Artifacts tool.Artifacts
	// Inbox returns messages that were left for the session, each once. It is asked before each model call, when the
	// turn waits and before it ends, so that no message that came before is missed. Nil: there is none.
	Inbox  func(ctx context.Context) ([]Message, error)
	Budget Budget
	// Pool is the budget that this session shares with others. Nil: it shares none.
	Pool *Pool
	// Compaction says when a long history is made shorter.
	Compaction Compaction
	// NoInstructionFiles leaves AGENTS.md and CLAUDE.md of the workspace unread.
	NoInstructionFiles bool
	// Memory keeps the model's notes. Nil: there is none.
	Memory tool.Memory
	// Skills are what the skill tool finds. Nil: there are none.
	Skills tool.Skills
	// SystemPrompt replaces the default one when not empty; instructions of the turn are appended to either.
	SystemPrompt    string
	ReasoningEffort string
	Retry           model.Retry
	// MaxParallel bounds the readonly calls that run at once, 8 when zero.
	MaxParallel int
	// MaxJobs bounds the background jobs of a session, 16 when zero.
	MaxJobs int
	Logger  *slog.Logger
	Now     func() time.Time
	// Fault is called at named points, for crash tests. Nil: never.
	Fault func(point string)
}

// Harness is the adapter. It is safe for concurrent use by many sessions.
type Harness struct {
	set   Settings
	tools *tool.Catalog
	built map[string]harness.BuiltinTool
}

var (
	_ harness.Harness                     = (*Harness)(nil)
	_ harness.BuiltinToolApprovalSupport  = (*Harness)(nil)
	_ harness.BuiltinToolFilteringSupport = (*Harness)(nil)
	_ harness.LifecycleStateValidator     = (*Harness)(nil)
)

// New checks the settings and returns the adapter.
func New(s Settings) (*Harness, error) {
	if s.Resolve == nil {
		return nil, errors.New("native: Settings.Resolve is required")
	}
	if err := s.Compaction.check(); err != nil {
		return nil, err
	}
	if s.Tools == nil {
		c, err := tool.NewCatalog(builtin.Core()...)
		if err != nil {
			return nil, fmt.Errorf("native: %w", err)
		}
		s.Tools = c
	}
	s.defaults()
	h := &Harness{set: s, tools: s.Tools}
	h.built = builtinTools(s.Tools)
	return h, nil
}

func (s *Settings) defaults() {
	if s.Transcript == nil {
		s.Transcript = &MemoryTranscript{}
	}
	if s.Activation == nil {
		s.Activation = &tool.ActivationTracker{}
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.MaxParallel <= 0 {
		s.MaxParallel = 8
	}
	if s.MaxJobs <= 0 {
		s.MaxJobs = 16
	}
	if s.Fault == nil {
		s.Fault = func(string) {}
	}
}

// With is the same adapter with other settings, for hosts that change them from session to session. The catalogue
// cannot be changed.
func (h *Harness) With(change func(*Settings)) *Harness {
	c := &Harness{set: h.set, tools: h.tools, built: h.built}
	change(&c.set)
	c.set.Tools = h.tools
	c.set.defaults()
	return c
}

// SpecificationVersion implements harness.Harness.
func (h *Harness) SpecificationVersion() string { return harness.SpecificationVersion }

// HarnessID implements harness.Harness.
func (h *Harness) HarnessID() string { return HarnessID }

// BuiltinTools implements harness.Harness.
func (h *Harness) BuiltinTools() map[string]harness.BuiltinTool { return h.built }

// SupportsBuiltinToolApprovals implements harness.BuiltinToolApprovalSupport.
func (h *Harness) SupportsBuiltinToolApprovals() bool { return true }

// SupportsBuiltinToolFiltering implements harness.BuiltinToolFilteringSupport.
func (h *Harness) SupportsBuiltinToolFiltering() bool { return true }

// ValidateLifecycleStateData implements harness.LifecycleStateValidator.
func (h *Harness) ValidateLifecycleStateData(data json.RawMessage) error {
	var d head
	if err := json.Unmarshal(data, &d); err != nil || d.Session == "" || d.Head < 0 {
		return errors.New("data is not that of a native session: {session, head, digest} is needed")
	}
	return nil
}

// builtinTools lists the catalogue as the adapter contract wants it. Our question tool appears under its common name.
func builtinTools(c *tool.Catalog) map[string]harness.BuiltinTool {
	out := make(map[string]harness.BuiltinTool)
	for _, t := range c.All() {
		d := t.Definition()
		if d.Name == questionTool {
			b := harness.StandardBuiltinTools()[harness.BuiltinToolAskUserQuestions]
			b.NativeName = questionTool
			out[string(harness.BuiltinToolAskUserQuestions)] = b
			continue
		}
		out[d.Name] = harness.BuiltinTool{
			Tool:       ai.Tool{Name: d.Name, Description: d.Description, InputSchema: d.Schema},
			NativeName: d.Name, ToolUseKind: useKind(d.Kind),
		}
	}
	return out
}

// useKind maps our kinds to the three of the contract; the others have none, which adapters take as needing approval.
func useKind(k tool.Kind) harness.BuiltinToolUseKind {
	switch k {
	case tool.KindReadonly, tool.KindAsk:
		return harness.BuiltinToolUseKindReadonly
	case tool.KindEdit:
		return harness.BuiltinToolUseKindEdit
	case tool.KindBash:
		return harness.BuiltinToolUseKindBash
	}
	return ""
}

// DoStart implements harness.Harness. It reads nothing yet: the transcript is loaded by the first turn.
func (h *Harness) DoStart(_ context.Context, o harness.StartOptions) (harness.AdapterSession, error) {
	return newSession(h, o)
}
