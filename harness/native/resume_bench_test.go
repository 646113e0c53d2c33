package native_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
)

// longHistory is a session of one turn with many steps: about 10,000 events.
func longHistory(steps int) []native.Item {
	output := strings.Repeat("a line of the file that \"was\" read\n", 30)
	prompt := ai.UserMessage("do it")
	items := []native.Item{{Kind: native.KindPrompt, Message: &prompt}}
	for i := 1; i <= steps; i++ {
		id := fmt.Sprint("call_", i)
		msg := ai.Message{Role: ai.RoleAssistant, Content: []ai.Part{
			ai.ReasoningPart{Text: "I think about it.", Raw: &ai.RawItem{Wire: "w", Model: "m", JSON: []byte(`{"type":"thinking","signature":"` + strings.Repeat("A", 300) + `"}`)}},
			ai.ToolCallPart{ToolCallID: id, ToolName: "read", Input: `{"path":"f.txt"}`},
		}}
		u := usage(1000, 100)
		items = append(items,
			native.Item{Kind: native.KindAttempt, Step: i, Attempt: 1, Provider: "main", Model: "main-1"},
			native.Item{Kind: native.KindAnswer, Step: i, Message: &msg, Finish: &ai.FinishReason{Unified: ai.FinishToolCalls}, Usage: &u, Provider: "main", Model: "main-1"},
			native.Item{Kind: native.KindResult, Step: i, CallID: id, Tool: "read", Output: output, Seen: map[string]string{"f.txt": "0123456789abcdef"}})
	}
	return items
}

// encodedTranscript gives what a store gives: bytes that are to be decoded.
type encodedTranscript struct{ rows []json.RawMessage }

func (e *encodedTranscript) Load(context.Context, string) ([]native.Item, error) {
	return native.DecodeItems(e.rows)
}

func (e *encodedTranscript) Append(_ context.Context, _ string, items ...native.Item) error {
	for _, it := range items {
		b, err := it.JSON()
		if err != nil {
			return err
		}
		e.rows = append(e.rows, b)
	}
	return nil
}

// A turn of 10,000 events is continued: up to the request that goes to the model.
func BenchmarkResume(b *testing.B) {
	items := longHistory(1250) // eight events a step
	for name, tr := range map[string]native.Transcript{"memory": &native.MemoryTranscript{}, "encoded": &encodedTranscript{}} {
		b.Run(name, func(b *testing.B) {
			if err := tr.Append(b.Context(), "s", items...); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				asked := make(chan struct{}, 1)
				p := &play{steps: []step{hang(asked)}}
				h, err := native.New(native.Settings{Transcript: tr, Resolve: func(string) ([]native.Target, error) {
					return []native.Target{{Model: p, Provider: "main", ModelID: "main-1"}}, nil
				}})
				if err != nil {
					b.Fatal(err)
				}
				s, err := h.DoStart(b.Context(), harness.StartOptions{SessionID: "s"})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := s.DoContinueTurn(b.Context(), harness.ContinueTurnOptions{}); err != nil {
					b.Fatal(err)
				}
				<-asked
				b.StopTimer()
				_ = s.DoDestroy(context.Background())
				switch tr := tr.(type) {
				case *encodedTranscript:
					tr.rows = tr.rows[:len(items)]
				case *native.MemoryTranscript:
					tr.Cut("s", len(items))
				}
				b.StartTimer()
			}
		})
	}
}
