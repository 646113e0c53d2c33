package engine_test

import (
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
)

// Notes of a run end with it; those of the conversation and of the agent are there for later runs.
func TestNotesAreKeptByTheirScope(t *testing.T) {
	r := newRig(t, nil)
	note := func(action, scope string) string {
		return `{"tool":"working_memory","in":{"action":"` + action + `","key":"k","value":"of ` + scope + `","scope":"` + scope + `"}}`
	}
	get := func(scope string) string {
		return `{"tool":"working_memory","in":{"action":"get","key":"k","scope":"` + scope + `"}}`
	}
	first := r.submit(engine.RunRequest{AgentID: "a1", ConversationID: "c1", Prompt: script(`[` + note("set", "run") + `,` + note("set", "conversation") + `,` + note("set", "agent") + `,` + get("run") + `,{"text":"done"}]`)})
	if all := r.finish(first.ID); !strings.Contains(outputs(all), "of run") {
		t.Fatalf("the run does not read its own note: %s", outputs(all))
	}
	second := r.submit(engine.RunRequest{AgentID: "a1", ConversationID: "c1", Prompt: script(`[` + get("run") + `,` + get("conversation") + `,` + get("agent") + `,{"text":"done"}]`)})
	if got := outputs(r.finish(second.ID)); strings.Contains(got, "of run") || !strings.Contains(got, "of conversation") || !strings.Contains(got, "of agent") {
		t.Errorf("a later run reads %s", got)
	}
	other := r.submit(engine.RunRequest{Prompt: script(`[` + get("conversation") + `,` + get("agent") + `,{"text":"done"}]`)})
	if got := outputs(r.finish(other.ID)); strings.Contains(got, "of conversation") || strings.Contains(got, "of agent") {
		t.Errorf("another conversation reads %s", got)
	}
}

// outputs joins the results of a run's calls.
func outputs(all []event.Event) string {
	var b strings.Builder
	for _, e := range all {
		if e.Type == event.ToolCallCompleted {
			b.Write(e.Payload)
		}
	}
	return b.String()
}
