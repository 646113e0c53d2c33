package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/internal/skill"
	"github.com/harness-go/harness/model/tape"
	"github.com/harness-go/harness/tool"
)

// loopSettings are those of our own loop that the node's configuration gives, the same for every run.
type loopSettings struct {
	// skills is the folder of the user's skills; empty where there is none.
	skills         string
	compaction     native.Compaction
	noInstructions bool
}

func loopOf(c config.Config) loopSettings {
	l := loopSettings{
		compaction: native.Compaction{
			Auto: c.AutoCompact.Enabled, Threshold: c.AutoCompact.Threshold, Mode: c.AutoCompact.Mode, KeepLast: c.AutoCompact.KeepLast,
		},
		noInstructions: !c.Instructions,
	}
	if c.UserDir != "" {
		l.skills = filepath.Join(c.UserDir, "skills")
	}
	return l
}

// nativeFor is our own loop with the settings of one run.
func nativeFor(base *native.Harness, m *models, e engine.SegmentEnv, l loopSettings) (harness.Harness, error) {
	skills, err := skill.New(skill.Options{Workspace: e.Plan.Workspace, UserDir: l.skills})
	if err != nil {
		return nil, err
	}
	scope := tape.WithScope(context.Background())
	return base.With(func(s *native.Settings) {
		s.Resolve = func(name string) ([]native.Target, error) {
			list, err := m.targets(name, e.Plan.ProviderName, e.Plan.FallbackProviders)
			if m.replays {
				list = scoped(list, scope)
			}
			return list, err
		}
		s.Visible = func(name string) bool { return visible(e.Plan, name) }
		s.Transcript, s.Artifacts, s.Activation, s.Inbox = e.Transcript, e.Artifacts, e.Activation, e.Inbox
		s.Memory, s.Skills, s.Compaction = e.Memory, skills, l.compaction
		s.NoInstructionFiles = l.noInstructions
		s.SystemPrompt, s.ReasoningEffort = e.Plan.SystemPrompt, e.Plan.ReasoningEffort
		s.Budget = native.Budget{
			MaxSteps: e.Plan.MaxSteps, MaxCostUSD: e.Plan.MaxCostUSD, MaxTokens: e.Plan.MaxTokensTotal,
			Timeout: time.Duration(e.Plan.TimeoutSeconds) * time.Second,
		}
		if e.Fault != nil {
			s.Fault = e.Fault
		}
	}), nil
}

// visible hides tools that the gate would refuse by name, so that the model does not try them.
func visible(p engine.Plan, name string) bool {
	if slices.Contains(p.DeniedTools, name) {
		return false
	}
	return len(p.AllowedTools) == 0 || slices.Contains(p.AllowedTools, name) || tool.AlwaysAvailableTools[name]
}
