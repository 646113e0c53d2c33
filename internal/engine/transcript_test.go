package engine_test

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model"
)

const rawItem = `{"b":"<think>&amp;</think>","z":1.0,"a":"\u003c é` + "\u2028" + `","n":12345678901234567890}`

// rawModel answers with an item as a provider sent it, and keeps what comes back.
type rawModel struct {
	mu   sync.Mutex
	back []string
}

func (m *rawModel) Stream(_ context.Context, req model.Request) iter.Seq2[model.Part, error] {
	m.mu.Lock()
	for _, msg := range req.Messages {
		for _, p := range msg.Content {
			if t, ok := p.(ai.TextPart); ok && t.Raw != nil {
				m.back = append(m.back, string(t.Raw.JSON))
			}
		}
	}
	m.mu.Unlock()
	return func(yield func(model.Part, error) bool) {
		item := ai.TextPart{Text: "a < b && c", Raw: &ai.RawItem{Wire: "w", JSON: json.RawMessage(rawItem)}}
		_ = yield(model.Part{Kind: model.PartContent, Content: item}, nil) &&
			yield(model.Part{Kind: model.PartFinish, Finish: ai.FinishReason{Unified: ai.FinishStop}}, nil)
	}
}

// What a provider sent goes back to it byte for byte, in the conversation's next run too, which reads it from the
// store.
func TestRawItemsSurviveTheStore(t *testing.T) {
	m := &rawModel{}
	r := newRig(t, func(*engine.Options) {})
	r.close()
	r.model = m
	r.open()
	first := r.submit(engine.RunRequest{Prompt: "hi"})
	r.finish(first.ID)
	next, err := r.engine.Continue(context.Background(), r.me, first.ID, engine.ContinueRequest{Prompt: "more <&>"}, "")
	if err != nil {
		t.Fatal(err)
	}
	all := r.finish(next.ID)
	if all[len(all)-1].Type != event.RunCompleted {
		t.Fatalf("the run ended with %s", all[len(all)-1].Payload)
	}
	if len(m.back) != 1 || m.back[0] != rawItem {
		t.Errorf("what came back: %q", m.back)
	}
}
