package harness_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
)

// instant is an adapter that costs next to nothing: it emits prepared parts and is done.
type instant struct {
	harnesstest.Mock
	parts []harness.StreamPart
}

type instantSession struct {
	harness.AdapterSession
	h *instant
}

type instantTurn struct{}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (instantTurn) Done() <-chan struct{}                                                { return closed }
func (instantTurn) Err() error                                                           { return nil }
func (instantTurn) SubmitToolResult(context.Context, harness.ToolResultSubmission) error { return nil }

func (h *instant) DoStart(context.Context, harness.StartOptions) (harness.AdapterSession, error) {
	return instantSession{h: h}, nil
}

func (s instantSession) DoPromptTurn(_ context.Context, o harness.PromptTurnOptions) (harness.TurnControl, error) {
	for _, p := range s.h.parts {
		o.Emit(p)
	}
	return instantTurn{}, nil
}

// BenchmarkTurn is what Agent and driver add to a turn of an adapter, by the number of its text deltas and by the way
// the consumer takes the parts.
func BenchmarkTurn(b *testing.B) {
	for _, deltas := range []int{1, 100, 10000} {
		h := &instant{parts: []harness.StreamPart{harness.StreamStart{ModelID: "m"}, harness.TextStart{ID: "1"}}}
		for range deltas {
			h.parts = append(h.parts, harness.TextDelta{ID: "1", Delta: "word "})
		}
		h.parts = append(h.parts, harness.TextEnd{ID: "1"}, harness.FinishStep{FinishReason: reason(ai.FinishStop), Usage: usage(1, 1)}, harness.Finish{FinishReason: reason(ai.FinishStop), TotalUsage: usage(1, 1)})
		a, err := harness.NewAgent(harness.AgentSettings{Harness: h, Sandbox: &harnesstest.Sandbox{}})
		if err != nil {
			b.Fatal(err)
		}
		ctx := context.Background()
		s, err := a.CreateSession(ctx, harness.CreateSessionOptions{SessionID: "s"})
		if err != nil {
			b.Fatal(err)
		}
		opts := agent.AgentGenerateOptions{HarnessSession: s, Prompt: "go"}
		b.Run(fmt.Sprintf("deltas=%d/generate", deltas), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Generate(ctx, opts); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("deltas=%d/onpart", deltas), func(b *testing.B) {
			b.ReportAllocs()
			o := opts
			n := 0
			o.OnPart = func(ai.StreamPart) { n++ }
			for b.Loop() {
				if _, err := a.Generate(ctx, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSession is the whole life of a session in place with one short turn.
func BenchmarkSession(b *testing.B) {
	h := &instant{parts: []harness.StreamPart{harness.TextStart{ID: "1"}, harness.TextDelta{ID: "1", Delta: "hi"}, harness.TextEnd{ID: "1"},
		harness.FinishStep{FinishReason: reason(ai.FinishStop)}, harness.Finish{FinishReason: reason(ai.FinishStop)}}}
	a, err := harness.NewAgent(harness.AgentSettings{Harness: h, Sandbox: &harnesstest.Sandbox{}, SandboxConfig: harness.AgentSandboxConfig{InPlace: true, InPlaceRoot: "/ws"}})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		s, err := a.CreateSession(ctx, harness.CreateSessionOptions{SessionID: "s"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := a.Generate(ctx, agent.AgentGenerateOptions{HarnessSession: s, Prompt: "go"}); err != nil {
			b.Fatal(err)
		}
	}
}
