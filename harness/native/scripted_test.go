package native_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/tool"
)

// A script goes on where it stood, however often the history before it is made shorter.
func TestAScriptOutlivesCompactions(t *testing.T) {
	steps := make([]string, 12)
	for i := range steps {
		steps[i] = fmt.Sprintf(`{"tool":"big","in":{"n":%d},"noUsage":true}`, i)
	}
	for name, prompt := range map[string]string{
		"steps": `Do it. @@[` + strings.Join(steps, ",") + `,{"text":"ok"}]@@ Thanks.`,
		"line":  `SCRIPT: seq=12:big:{} text=ok`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := scripted.New(scripted.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, func(r *rig) {
				tight(r)
				r.set.Compaction.Mode, r.set.Compaction.Threshold = tool.CompactSummarize, 0.5
				r.set.Budget.MaxSteps = 20
				r.set.Resolve = func(string) ([]native.Target, error) {
					return []native.Target{{Model: m, Provider: scripted.Provider, ModelID: "any", ContextWindow: window}}, nil
				}
				if name == "line" { // it reports 100 tokens, whatever is sent
					r.set.Compaction.Threshold = 0.105
				}
			})
			r.wantText(r.prompt(prompt), "ok")
			calls := of[event.ToolCallCompletedPayload](r.journal)
			done := of[event.AutoCompactCompletedPayload](r.journal)
			if len(calls) != 12 || len(done) < 2 {
				t.Errorf("%d calls and %d compactions", len(calls), len(done))
			}
			for _, d := range done {
				if d.Mode != "summarize" {
					t.Errorf("auto_compact.completed %+v", d)
				}
			}
		})
	}
}
