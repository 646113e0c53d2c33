package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/store/sqlite"
)

// stored reads a conversation's transcript from the store, page by page, as a segment does.
type stored struct{ st store.Store }

func (s stored) Load(ctx context.Context, _ string) ([]native.Item, error) {
	var items []native.Item
	for after := int64(0); ; {
		rows, err := s.st.Transcript(ctx, "t", "c", after, 0)
		if err != nil || len(rows) == 0 {
			return items, err
		}
		data := make([]json.RawMessage, len(rows))
		for i, r := range rows {
			data[i] = r.Data
		}
		page, err := native.DecodeItems(data)
		if err != nil {
			return nil, err
		}
		items = append(items, page...)
		after = rows[len(rows)-1].Idx
	}
}

func (stored) Append(context.Context, string, ...native.Item) error { return nil }

// asked tells of the first model call, and waits.
type asked chan struct{}

func (a asked) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		a <- struct{}{}
		<-ctx.Done()
		yield(model.Part{}, ctx.Err())
	}
}

// A turn of 1,250 steps, about 10,000 events, is continued from the store: up to the request that goes to the model.
func BenchmarkResumeFromTheStore(b *testing.B) {
	st, err := sqlite.Open(b.Context(), sqlite.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	c, err := st.CreateRun(b.Context(), store.NewRun{ID: "r", TenantID: "t", ConversationID: "c", Prompt: "p", Lease: true})
	if err != nil {
		b.Fatal(err)
	}
	prompt := ai.UserMessage("do it")
	items := []native.Item{{Kind: native.KindPrompt, Message: &prompt}}
	output := strings.Repeat("a line of the file that \"was\" read\n", 30)
	for i := 1; i <= 1250; i++ {
		id := fmt.Sprint("call_", i)
		msg := ai.Message{Role: ai.RoleAssistant, Content: []ai.Part{ai.TextPart{Text: "I look."}, ai.ToolCallPart{ToolCallID: id, ToolName: "read", Input: `{"path":"f.txt"}`}}}
		u := ai.Usage{InputTokens: ai.InputTokens{Total: ai.Tokens(1000)}, OutputTokens: ai.OutputTokens{Total: ai.Tokens(50)}}
		items = append(items,
			native.Item{Kind: native.KindAttempt, Step: i, Attempt: 1, Provider: "p", Model: "m"},
			native.Item{Kind: native.KindAnswer, Step: i, Message: &msg, Finish: &ai.FinishReason{Unified: ai.FinishToolCalls}, Usage: &u, Provider: "p", Model: "m"},
			native.Item{Kind: native.KindResult, Step: i, CallID: id, Tool: "read", Output: output, Seen: map[string]string{"f.txt": "0123456789abcdef"}})
	}
	batch := store.Batch{RunID: "r", Epoch: c.Run.Epoch}
	for _, it := range items {
		data, err := it.JSON()
		if err != nil {
			b.Fatal(err)
		}
		batch.Transcript = append(batch.Transcript, store.TranscriptItem{RunID: "r", Kind: string(it.Kind), Data: data})
	}
	if _, err := st.Submit(batch).Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		called := make(asked, 1)
		h, err := native.New(native.Settings{Transcript: stored{st}, Resolve: func(string) ([]native.Target, error) {
			return []native.Target{{Model: called, Provider: "p", ModelID: "m"}}, nil
		}})
		if err != nil {
			b.Fatal(err)
		}
		s, err := h.DoStart(b.Context(), harness.StartOptions{SessionID: "c"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.DoContinueTurn(b.Context(), harness.ContinueTurnOptions{}); err != nil {
			b.Fatal(err)
		}
		<-called
		b.StopTimer()
		_ = s.DoDestroy(context.Background())
		b.StartTimer()
	}
}
