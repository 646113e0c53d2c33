package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/activity"
	"github.com/harness-go/harness/internal/buildinfo"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/store/sqlite"
)

type open struct{ err error }

func (o open) CountOpen(context.Context) (store.Open, error) {
	return store.Open{Runs: map[store.Status]int64{store.StatusQueued: 2, store.StatusWaitingForApproval: 1}, Approvals: 3}, o.err
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d, %v: %s", w.Code, err, body)
	}
	return string(body)
}

func expect(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%q is missing", line)
		}
	}
}

// segment begins a segment of a run that was accepted two seconds before start.
func segment(m *Metrics, start time.Time) engine.SegmentObserver {
	return activity.New(m).Segment(engine.SegmentStart{
		At: start, Run: store.Run{ID: "run_1", Head: 1, CreatedAt: start.Add(-2 * time.Second)}, Plan: engine.Plan{Harness: "native"},
	})
}

func facts(step int, payloads ...event.Payload) []event.Fact {
	out := make([]event.Fact, len(payloads))
	for i, p := range payloads {
		out[i] = event.Fact{Step: step, Payload: p}
	}
	return out
}

func usage(in, out int64, cost float64) event.UsageDeltaPayload {
	return event.UsageDeltaPayload{
		TurnUsage:   []byte(fmt.Sprintf(`{"inputTokens":{"total":%d,"cacheRead":4},"outputTokens":{"total":%d,"reasoning":2}}`, in, out)),
		TurnCostUSD: cost,
	}
}

func TestARunIsCountedFromItsFacts(t *testing.T) {
	m := New(Options{Build: buildinfo.Info{Version: "v1"}, Open: open{}, Streams: func() int64 { return 7 }, Tools: []string{"bash"}})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := segment(m, at)
	expect(t, scrape(t, m), `harness_segments_active{harness="native"} 1`)
	s.Committed(at, facts(0, event.RunStartedPayload{}))
	s.Committed(at, facts(1, event.LLMTurnRequestedPayload{Attempt: 1, Provider: "p", Model: "m"}))
	s.Committed(at.Add(time.Second), facts(1, event.LLMAttemptDiscardedPayload{Attempt: 1, Reason: "rate_limit", Status: 429}, usage(1, 1, 0.5)))
	s.Committed(at.Add(time.Second), facts(1, event.LLMTurnRequestedPayload{Attempt: 2, Provider: "p", Model: "m"}))
	s.Committed(at.Add(4*time.Second), facts(1, usage(10, 5, 0.25), event.LLMTurnCompletedPayload{TTFTMS: 200, Model: "m-2026"}))
	s.Committed(at.Add(4*time.Second), facts(1, event.ToolCallStartedPayload{CallID: "c1", Tool: "bash"}))
	s.Committed(at.Add(5*time.Second), facts(1, event.ToolCallCompletedPayload{CallID: "c1", Tool: "bash", Error: "exit"},
		event.ToolCallBlockedPayload{CallID: "c2", Tool: "made_up"}, event.ToolApprovalRequiredPayload{ApprovalID: "ap_1"}))
	s.Committed(at.Add(6*time.Second), facts(1, event.RunFailedPayload{Reason: event.ReasonMaxSteps}))
	s.Ended(at.Add(6*time.Second), store.StatusFailed)
	m.Committed(sqlite.Commit{Took: time.Millisecond, Writes: 3, Events: 5, Ended: map[event.ApprovalStatus]int{event.ApprovalExpired: 2}})
	m.Answered("GET", "/v1/runs/{id}", 200, time.Millisecond, false)
	m.Answered("GET", "/v1/runs/{id}/events", 200, time.Hour, true)
	m.Answered("", "", 404, time.Millisecond, false)
	text := scrape(t, m)
	expect(t, text,
		`harness_segments_active{harness="native"} 0`,
		`harness_runs_started_total{harness="native"} 1`,
		`harness_runs_finished_total{harness="native",reason="max_steps_reached",status="failed"} 1`,
		`harness_run_duration_seconds_sum{harness="native",status="failed"} 8`,
		`harness_model_calls_total{model="m",outcome="rate_limit",provider="p"} 1`,
		`harness_model_calls_total{model="m",outcome="ok",provider="p"} 1`,
		`harness_model_call_duration_seconds_sum{model="m",outcome="ok",provider="p"} 3`,
		`harness_model_call_duration_seconds_sum{model="m",outcome="error",provider="p"} 1`,
		`harness_model_time_to_first_token_seconds_sum{model="m",provider="p"} 0.2`,
		`harness_model_tokens_total{kind="input",model="m",provider="p"} 11`,
		`harness_model_tokens_total{kind="cache_read",model="m",provider="p"} 8`,
		`harness_model_tokens_total{kind="output",model="m",provider="p"} 6`,
		`harness_model_tokens_total{kind="reasoning",model="m",provider="p"} 4`,
		`harness_model_cost_usd_total{model="m",provider="p"} 0.75`,
		`harness_tool_calls_total{outcome="error",tool="bash"} 1`,
		`harness_tool_calls_total{outcome="blocked",tool="other"} 1`,
		`harness_tool_call_duration_seconds_sum{tool="bash"} 1`,
		`harness_approvals_requested_total 1`,
		`harness_approvals_decided_total{status="expired"} 2`,
		`harness_approvals_pending 3`,
		`harness_runs_open{status="queued"} 2`,
		`harness_runs_open{status="running"} 0`,
		`harness_event_streams 7`,
		`harness_store_commit_writes_sum 3`,
		`harness_store_events_total 5`,
		`harness_http_requests_total{method="GET",route="/v1/runs/{id}",status="200"} 1`,
		`harness_http_requests_total{method="none",route="none",status="404"} 1`,
		`harness_http_request_duration_seconds_count{method="GET",route="/v1/runs/{id}"} 1`,
	)
	if strings.Contains(text, `duration_seconds_count{method="GET",route="/v1/runs/{id}/events"}`) {
		t.Error("the length of an event stream counts as a request's duration")
	}
	if !strings.Contains(text, "go_goroutines ") || strings.Contains(text, "made_up") {
		t.Error("figures of the runtime are missing, or a made-up name is a label")
	}
}

// A segment that waits or was interrupted ends no run, and what was open in it is not counted: its next owner counts it.
func TestASegmentThatDoesNotEndTheRunCountsNoEnd(t *testing.T) {
	m := New(Options{})
	at := time.Now()
	for _, status := range []store.Status{store.StatusWaitingForApproval, store.StatusRunning} {
		s := segment(m, at)
		s.Committed(at, facts(1, event.LLMTurnRequestedPayload{Attempt: 1, Provider: "p", Model: "m"}, event.ToolCallStartedPayload{CallID: "c", Tool: "t"}))
		s.Ended(at, status)
	}
	text := scrape(t, m)
	for _, name := range []string{"harness_runs_finished_total{", "harness_model_calls_total{", "harness_tool_calls_total{"} {
		if strings.Contains(text, name) {
			t.Errorf("%s…} is counted", name)
		}
	}
	expect(t, text, `harness_segments_active{harness="native"} 0`)
}

// However many names clients and models make up, the labels stay bounded.
func TestLabelsAreBounded(t *testing.T) {
	m := New(Options{Tools: []string{"bash"}})
	at := time.Now()
	s := segment(m, at)
	for i := range 5000 {
		name := fmt.Sprintf("name-%d", i)
		s.Committed(at, facts(1, event.LLMTurnRequestedPayload{Provider: name, Model: name}))
		s.Committed(at, facts(1, event.LLMAttemptDiscardedPayload{Reason: name}))
		s.Committed(at, facts(1, event.ToolCallStartedPayload{CallID: name, Tool: name}))
		s.Committed(at, facts(1, event.ToolCallCompletedPayload{CallID: name, Tool: name}, event.ToolCallBlockedPayload{Tool: "b-" + name}))
	}
	s.Committed(at, facts(1, event.LLMTurnRequestedPayload{Provider: "p\xff", Model: strings.Repeat("m", 1000)}, event.LLMTurnCompletedPayload{}))
	text := scrape(t, m)
	count := func(prefix string) (n int) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, prefix) {
				n++
			}
		}
		return n
	}
	// Beyond its bound a label says "other": here the names of a call come together, so that these are all there are.
	if n := count("harness_model_calls_total{"); n > maxModels+2 {
		t.Errorf("%d series of model calls", n)
	}
	if n := count("harness_tool_calls_total{"); n > maxTools+3 {
		t.Errorf("%d series of tool calls", n)
	}
	expect(t, text, `harness_tool_calls_total{outcome="blocked",tool="other"} 5000`)
}

func TestAScrapeSurvivesAStoreThatCannotAnswer(t *testing.T) {
	m := New(Options{Open: open{errors.New("closed")}})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if !strings.Contains(w.Body.String(), "go_goroutines ") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// BenchmarkObservedRun is what the observation of a run without tools costs.
func BenchmarkObservedRun(b *testing.B) {
	m := New(Options{})
	o := activity.New(m)
	at := time.Now()
	start := facts(0, event.RunStartedPayload{})
	ask := facts(1, event.RunStepStartedPayload{}, event.ProviderResolvedPayload{}, event.LLMTurnRequestedPayload{Provider: "p", Model: "m"})
	answer := facts(1, event.AssistantMessagePayload{Content: "ok"}, usage(10, 5, 0), event.LLMTurnCompletedPayload{}, event.RunStepCompletedPayload{})
	end := facts(1, event.RunCompletedPayload{Output: "ok"})
	b.ReportAllocs()
	for b.Loop() {
		s := o.Segment(engine.SegmentStart{At: at, Run: store.Run{ID: "run_1"}, Plan: engine.Plan{Harness: "native"}})
		for _, f := range [][]event.Fact{start, ask, answer, end} {
			s.Committed(at, f)
		}
		s.Ended(at, store.StatusCompleted)
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		New(Options{})
	}
}
