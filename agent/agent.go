// Package agent is the interface that every kind of agent has in common, with its options and results.
//
// It owns names only. The agents themselves are in other packages: harness.Agent runs coding-agent runtimes.
package agent

import (
	"context"

	"github.com/harness-go/harness/ai"
)

// Agent runs prompts to results.
type Agent interface {
	// Version is the version of the agent interface.
	Version() string
	// ID is the agent's configured id, and may be empty.
	ID() string
	// Tools lists all tools that a call of the agent can use.
	Tools() []ai.Tool
	// HasOutput reports whether results have a parsed Output.
	HasOutput() bool

	// Execute runs one prompt to its end.
	Execute(ctx context.Context, prompt string) (*AgentResult, error)
	// ExecuteWithMessages runs one turn with the last user message.
	ExecuteWithMessages(ctx context.Context, messages []ai.Message) (*AgentResult, error)
	// Generate runs a turn and waits for its result. Beside an error the result may hold the steps that were finished.
	Generate(ctx context.Context, opts AgentGenerateOptions) (*ai.GenerateTextResult, error)
	// Stream starts a turn. ctx bounds the whole turn, not only the call.
	Stream(ctx context.Context, opts AgentStreamOptions) (*ai.StreamTextResult, error)
}

// HarnessSession is the session that a turn belongs to; *harness.AgentSession implements it.
type HarnessSession interface{ SessionID() string }

// AgentGenerateOptions are the options of one turn. Exactly one of Prompt and Messages is given for a fresh turn.
type AgentGenerateOptions struct {
	Prompt string
	// Messages stand for their last user message. When they end with a tool message, the unfinished turn is continued
	// with its decisions and results.
	Messages []ai.Message
	// HarnessSession is required by harness agents.
	HarnessSession HarnessSession
	// CallOptions are handed to PrepareCall.
	CallOptions any
	// Instructions replace the agent's: a string, or an ai.Message (or pointer to one) whose text counts. Nil keeps
	// them.
	Instructions any
	// RuntimeContext replaces the agent's when not nil.
	RuntimeContext any
	// OnPart, when not nil, is called for each part of the stream, on the turn's goroutine and in order. It must not
	// block for long: the turn waits for it. A stream with OnPart has no parts to read otherwise.
	OnPart func(ai.StreamPart)
	// OnStepEnd is called after the agent's own callback.
	OnStepEnd func(ctx context.Context, e ai.OnStepFinishEvent)
}

// AgentStreamOptions are the options of one streamed turn.
type AgentStreamOptions struct{ AgentGenerateOptions }

// AgentResult is the outcome of Execute.
type AgentResult struct {
	Text         string
	Steps        []ai.StepResult
	ToolResults  []ai.ToolResult
	FinishReason ai.FinishReason
	Usage        ai.Usage // of all steps
	Warnings     []ai.CallWarning
	// Output is the parsed output, nil without an output specification.
	Output any
}

// ResultOf makes an AgentResult of a turn's result.
func ResultOf(r *ai.GenerateTextResult) *AgentResult {
	if r == nil {
		return nil
	}
	out := &AgentResult{Text: r.Text, Steps: r.Steps, FinishReason: r.FinishReason, Usage: r.TotalUsage, Warnings: r.Warnings, Output: r.Output}
	for _, s := range r.Steps {
		out.ToolResults = append(out.ToolResults, s.ToolResults()...)
	}
	return out
}
