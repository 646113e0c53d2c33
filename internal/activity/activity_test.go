package activity

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// told is a sink that notes what it is told, one short line each.
type told struct{ lines []string }

func (t *told) Segment(engine.SegmentStart) Follower      { return t }
func (t *told) RunStarted(event.RunStartedPayload)        { t.add("started") }
func (t *told) Asked(p event.ToolApprovalRequiredPayload) { t.add("asked %s", p.CallID) }
func (t *told) Ended(e End)                               { t.add("ended %s %s", e.Status, e.Reason) }
func (t *told) add(format string, args ...any) {
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}
func (t *told) ToolCall(c ToolCall) {
	t.add("tool %s %s open=%t %s", c.ID, c.Outcome, c.Open, span(c.Start, c.End))
}
func (t *told) ModelCall(c ModelCall) {
	in := int64(-1)
	if n := c.Usage.InputTokens.Total; n != nil {
		in = *n
	}
	t.add("model %s/%s #%d %s in=%d open=%t late=%t %s", c.Provider, c.Model, c.Attempt, c.Outcome, in, c.Open, c.Late, span(c.Start, c.End))
}

func span(start, end time.Time) string {
	if start.IsZero() {
		return "?"
	}
	return end.Sub(start).String()
}

func ask(attempt int) event.LLMTurnRequestedPayload {
	return event.LLMTurnRequestedPayload{Attempt: attempt, Provider: "p", Model: "m"}
}

func usage(n int) event.UsageDeltaPayload {
	return event.UsageDeltaPayload{TurnUsage: []byte(fmt.Sprintf(`{"inputTokens":{"total":%d},"outputTokens":{}}`, n))}
}

func TestFactsThatBelongTogetherAreOneCall(t *testing.T) {
	for _, tt := range []struct {
		name    string
		commits [][]event.Payload // a second apart
		want    []string
	}{
		{"usage before the end", [][]event.Payload{{ask(1)}, {usage(7), event.LLMTurnCompletedPayload{}}},
			[]string{"model p/m #1 ok in=7 open=false late=false 1s"}},
		{"usage after the end, in the same commit", [][]event.Payload{{ask(1)}, {event.LLMTurnCompletedPayload{}, usage(7)}},
			[]string{"model p/m #1 ok in=7 open=false late=false 1s"}},
		{"usage in a later commit", [][]event.Payload{{ask(1)}, {event.LLMTurnCompletedPayload{}}, {usage(7)}},
			[]string{"model p/m #1 ok in=-1 open=false late=false 1s", "model p/m #0  in=7 open=false late=true ?"}},
		{"the next attempt in the commit of the failure", [][]event.Payload{{ask(1)}, {event.LLMAttemptDiscardedPayload{Attempt: 1, Reason: "server"}, usage(3), ask(2)}, {event.LLMTurnCompletedPayload{}}},
			[]string{"model p/m #1 server in=3 open=false late=false 1s", "model p/m #2 ok in=-1 open=false late=false 1s"}},
		{"an attempt whose end is missing", [][]event.Payload{{ask(1)}, {ask(2)}, {event.LLMTurnCompletedPayload{}}},
			[]string{"model p/m #1 interrupted in=-1 open=false late=false 1s", "model p/m #2 ok in=-1 open=false late=false 1s"}},
		{"the end of an earlier segment's attempt", [][]event.Payload{{event.LLMAttemptDiscardedPayload{Attempt: 2, Reason: "interrupted"}}},
			[]string{"model / #2 interrupted in=-1 open=false late=false ?"}},
		{"usage that cannot be read", [][]event.Payload{{ask(1)}, {event.UsageDeltaPayload{TurnUsage: []byte("{")}, event.LLMTurnCompletedPayload{}}},
			[]string{"model p/m #1 ok in=-1 open=false late=false 1s"}},
		{"calls side by side", [][]event.Payload{
			{event.ToolCallStartedPayload{CallID: "a"}, event.ToolCallStartedPayload{CallID: "b"}}, {event.ToolCallCompletedPayload{CallID: "b", Error: "x"}},
			{event.ToolCallCompletedPayload{CallID: "a"}, event.ToolCallBlockedPayload{CallID: "c"}, event.ToolApprovalRequiredPayload{CallID: "d"}},
		}, []string{"tool b error open=false 1s", "tool a ok open=false 2s", "tool c blocked open=false ?", "asked d"}},
		{"what is open at the end", [][]event.Payload{{ask(1), event.ToolCallStartedPayload{CallID: "a"}}, {event.RunFailedPayload{Reason: "timeout"}}},
			[]string{"model p/m #1 interrupted in=-1 open=true late=false 1s", "tool a interrupted open=true 1s", "ended failed timeout"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sink := &told{}
			s := New(nil, sink).Segment(engine.SegmentStart{})
			at := time.Unix(1000, 0)
			for _, c := range tt.commits {
				facts := make([]event.Fact, len(c))
				for i, p := range c {
					facts[i] = event.Fact{Step: 1, Payload: p}
				}
				s.Committed(at, facts)
				at = at.Add(time.Second)
			}
			if last := tt.want[len(tt.want)-1]; last == "ended failed timeout" {
				s.Ended(at.Add(-time.Second), store.StatusFailed)
			}
			if d := cmp.Diff(tt.want, sink.lines); d != "" {
				t.Error(d)
			}
		})
	}
}

type nobody struct{}

func (nobody) Segment(engine.SegmentStart) Follower { return nil }

func TestASegmentThatNobodyFollowsIsNotObserved(t *testing.T) {
	if New(nobody{}).Segment(engine.SegmentStart{}) != nil || New().Segment(engine.SegmentStart{}) != nil {
		t.Error("it is observed")
	}
}
