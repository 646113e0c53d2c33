package harnesstest_test

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/sandbox/local"
)

// The native harness passes the suite with its real tools, in a real folder.
func TestTheNativeHarnessPassesTheSuite(t *testing.T) { harnesstest.Run(t, newNative) }

// scriptedModel answers by the script, whichever process asks.
type scriptedModel struct {
	script  harnesstest.Script
	hanging chan struct{}

	mu      sync.Mutex
	answers int
	hung    map[int]bool
	seen    map[string]bool
	results []harnesstest.Result
}

func newNative(t *testing.T, script harnesstest.Script) harnesstest.Subject {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(harnesstest.ReadContent+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &scriptedModel{script: script, hanging: make(chan struct{}, 8), hung: map[int]bool{}, seen: map[string]bool{}}
	transcript := &native.MemoryTranscript{}
	return harnesstest.Subject{
		Open: func() harness.Harness {
			h, err := native.New(native.Settings{Transcript: transcript, Resolve: func(string) ([]native.Target, error) {
				return []native.Target{{Model: m, Provider: "script", ModelID: "script"}}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			return h
		},
		Names:   map[harnesstest.Tool]string{harnesstest.Read: "read", harnesstest.Write: "write", harnesstest.Question: "AskUserQuestion"},
		Results: m.given,
		Hanging: m.hanging,
		Writes: func() int {
			b, err := os.ReadFile(filepath.Join(dir, "out.txt"))
			if err != nil {
				return 0
			}
			return strings.Count(string(b), "\n")
		},
		Configure: func(s *harness.AgentSettings) {
			s.Sandbox = local.NewProvider(local.Options{})
			s.SandboxConfig = harness.AgentSandboxConfig{InPlace: true, InPlaceRoot: dir}
		},
	}
}

func (m *scriptedModel) given() []harnesstest.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]harnesstest.Result(nil), m.results...)
}

// see notes the results that the request brings.
func (m *scriptedModel) see(req model.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, msg := range req.Messages {
		for _, p := range msg.Content {
			if r, ok := p.(ai.ToolResultContent); ok && !m.seen[r.ToolCallID] {
				m.seen[r.ToolCallID] = true
				m.results = append(m.results, harnesstest.Result{CallID: r.ToolCallID, Output: r.Output.Text()})
			}
		}
	}
}

func (m *scriptedModel) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		m.see(req)
		m.mu.Lock()
		n := m.answers
		if n >= len(m.script) {
			m.mu.Unlock()
			yield(model.Part{}, &model.Error{Kind: model.ErrInvalidRequest, Message: "the script has no further step"})
			return
		}
		s := m.script[n]
		hang := s.Hang && !m.hung[n]
		m.hung[n] = true
		if !hang {
			m.answers++
		}
		m.mu.Unlock()
		if hang {
			m.hanging <- struct{}{}
			<-ctx.Done()
			yield(model.Part{}, context.Cause(ctx))
			return
		}
		if s.Fail != "" {
			yield(model.Part{}, &model.Error{Kind: model.ErrInvalidRequest, Message: s.Fail})
			return
		}
		finish := ai.FinishReason{Unified: ai.FinishStop}
		if s.Text != "" && (!yield(model.Part{Kind: model.PartTextDelta, Text: s.Text}, nil) || !yield(model.Part{Kind: model.PartContent, Content: ai.TextPart{Text: s.Text}}, nil)) {
			return
		}
		for _, u := range s.Calls {
			finish.Unified = ai.FinishToolCalls
			if !yield(model.Part{Kind: model.PartContent, Content: callOf(u)}, nil) {
				return
			}
		}
		yield(model.Part{Kind: model.PartFinish, Finish: finish, Usage: ai.Usage{InputTokens: ai.InputTokens{Total: ai.Tokens(1)}, OutputTokens: ai.OutputTokens{Total: ai.Tokens(1)}}}, nil)
	}
}

func callOf(u harnesstest.Use) ai.ToolCallPart {
	c := ai.ToolCallPart{ToolCallID: u.ID, ToolName: u.Host, Input: u.Input}
	var in any
	switch u.Tool {
	case harnesstest.Read:
		c.ToolName, in = "read", map[string]any{"path": "a.txt"}
	case harnesstest.Write:
		c.ToolName, in = "write", map[string]any{"path": "out.txt", "content": u.ID + "\n", "append": true}
	case harnesstest.Question:
		option := func(label string) map[string]any { return map[string]any{"label": label, "description": "hot"} }
		c.ToolName, in = "AskUserQuestion", map[string]any{"questions": []any{map[string]any{
			"question": "What to drink?", "header": "Drink", "multiSelect": false, "options": []any{option("tea"), option("coffee")}}}}
	default:
		return c
	}
	b, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	c.Input = string(b)
	return c
}
