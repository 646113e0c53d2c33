package daemon

import (
	"slices"
	"time"

	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/tool"
)

// nativeFor is our own loop with the settings of one run.
func nativeFor(base *native.Harness, m *models, e engine.SegmentEnv) *native.Harness {
	return base.With(func(s *native.Settings) {
		s.Resolve = func(name string) ([]native.Target, error) {
			return m.targets(name, e.Plan.ProviderName, e.Plan.FallbackProviders)
		}
		s.Visible = func(name string) bool { return visible(e.Plan, name) }
		s.Transcript, s.Artifacts, s.Activation, s.Inbox = e.Transcript, e.Artifacts, e.Activation, e.Inbox
		s.Memory = e.Memory
		s.SystemPrompt, s.ReasoningEffort = e.Plan.SystemPrompt, e.Plan.ReasoningEffort
		s.Budget = native.Budget{
			MaxSteps: e.Plan.MaxSteps, MaxCostUSD: e.Plan.MaxCostUSD, MaxTokens: e.Plan.MaxTokensTotal,
			Timeout: time.Duration(e.Plan.TimeoutSeconds) * time.Second,
		}
		if e.Fault != nil {
			s.Fault = e.Fault
		}
	})
}

// visible hides tools that the gate would refuse by name, so that the model does not try them.
func visible(p engine.Plan, name string) bool {
	if slices.Contains(p.DeniedTools, name) {
		return false
	}
	return len(p.AllowedTools) == 0 || slices.Contains(p.AllowedTools, name) || tool.AlwaysAvailableTools[name]
}
