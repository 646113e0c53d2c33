package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/activity"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept is an exporter that keeps everything in memory.
type kept struct {
	mu      sync.Mutex
	spans   []sdktrace.ReadOnlySpan
	metrics map[string]metricdata.Aggregation
}

func (k *kept) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, spans...)
	return nil
}

func (k *kept) Shutdown(context.Context) error { return nil }

// keptMetrics is its other half.
type keptMetrics struct{ *kept }

func (k keptMetrics) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (k keptMetrics) Aggregation(i sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(i)
}

func (k keptMetrics) Export(_ context.Context, rm *metricdata.ResourceMetrics) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.metrics = map[string]metricdata.Aggregation{}
	for _, sm := range rm.ScopeMetrics {
		for _, m := range sm.Metrics {
			k.metrics[m.Name] = m.Data
		}
	}
	return nil
}

func (k keptMetrics) ForceFlush(context.Context) error { return nil }

// rig is a Telemetry with what it exported.
type rig struct {
	*testing.T
	t *Telemetry
	k *kept
}

func newRig(t *testing.T, content bool) *rig {
	t.Helper()
	k := &kept{}
	tel, err := New(t.Context(), Options{Version: "v1", Content: content, Traces: k, Metrics: keptMetrics{k}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, tel, k}
	t.Cleanup(r.end)
	return r
}

func (r *rig) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := r.t.Shutdown(ctx); err != nil {
		r.Error(err)
	}
}

// spans ends the export and returns the spans by name, each name once.
func (r *rig) spans() map[string]sdktrace.ReadOnlySpan {
	r.Helper()
	if err := r.t.traces.ForceFlush(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	out := map[string]sdktrace.ReadOnlySpan{}
	for _, s := range r.k.spans {
		name := s.Name()
		for i := 2; out[name] != nil; i++ {
			name = fmt.Sprintf("%s #%d", s.Name(), i)
		}
		out[name] = s
	}
	return out
}

func attrsOf(s sdktrace.ReadOnlySpan) map[string]any {
	out := map[string]any{}
	for _, kv := range s.Attributes() {
		out[string(kv.Key)] = kv.Value.AsInterface()
	}
	return out
}

func (r *rig) has(s sdktrace.ReadOnlySpan, want map[string]any) {
	r.Helper()
	got := attrsOf(s)
	for k, v := range want {
		if g, ok := got[k]; v == nil && ok || v != nil && fmt.Sprint(g) != fmt.Sprint(v) {
			r.Errorf("%s: %s = %v, want %v", s.Name(), k, g, v)
		}
	}
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (r *rig) segment(run store.Run, plan engine.Plan) engine.SegmentObserver {
	if plan.Harness == "" {
		plan.Harness = "native"
	}
	return activity.New(r.t).Segment(engine.SegmentStart{At: began, Run: run, Plan: plan})
}

func commit(s engine.SegmentObserver, after time.Duration, payloads ...event.Payload) {
	var facts []event.Fact
	for _, p := range payloads {
		facts = append(facts, event.Fact{Step: 1, Payload: p})
	}
	s.Committed(began.Add(after), facts)
}

const usageJSON = `{"inputTokens":{"total":100,"cacheRead":40,"cacheWrite":5},"outputTokens":{"total":20,"reasoning":7}}`

// wholeRun plays a run with a failed attempt, a good one, an approved call that fails and a refused one.
func wholeRun(s engine.SegmentObserver) {
	commit(s, 0, event.RunStartedPayload{Prompt: "secret prompt"})
	commit(s, time.Second, event.LLMTurnRequestedPayload{Attempt: 1, Provider: "google", Model: "m"})
	commit(s, 2*time.Second, event.LLMAttemptDiscardedPayload{Attempt: 1, Reason: "rate_limit", Status: 429})
	commit(s, 3*time.Second, event.LLMTurnRequestedPayload{Attempt: 2, Provider: "google", Model: "m"})
	commit(s, 5*time.Second, event.AssistantMessagePayload{Content: "secret answer"},
		event.UsageDeltaPayload{TurnUsage: []byte(usageJSON), TurnCostUSD: 0.5},
		event.LLMTurnCompletedPayload{TTFTMS: 250, Model: "m-2026", FinishReason: "tool-calls"})
	commit(s, 6*time.Second, event.ToolCallStartedPayload{CallID: "c1", Tool: "bash", Kind: "bash", Arguments: "secret arguments", ApprovalID: "ap_1"})
	commit(s, 8*time.Second, event.ToolCallCompletedPayload{CallID: "c1", Tool: "bash", Output: "secret output", Error: "exit_code"},
		event.ToolCallBlockedPayload{CallID: "c2", Tool: "write", Stage: "rule", Reason: "secret reason"})
	commit(s, 9*time.Second, event.RunCompletedPayload{Output: "secret answer"})
	s.Ended(began.Add(9*time.Second), store.StatusCompleted)
}

var aRun = store.Run{ID: "run_1", TenantID: "tn", ConversationID: "conv_1", Epoch: 1, Head: 1, Prompt: "secret prompt"}

func TestARunBecomesSpansWithTheNamesOfTheConventions(t *testing.T) {
	r := newRig(t, false)
	wholeRun(r.segment(aRun, engine.Plan{AgentID: "agent_1", Model: "m", ProviderName: "google"}))
	spans := r.spans()
	if got := slices.Sorted(maps.Keys(spans)); !slices.Equal(got, []string{"chat m", "chat m #2", "execute_tool bash", "execute_tool write", "invoke_agent native"}) {
		t.Fatalf("spans %q", got)
	}
	root := spans["invoke_agent native"]
	r.has(root, map[string]any{
		"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "native", "gen_ai.agent.id": "agent_1", "gen_ai.conversation.id": "conv_1",
		"gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "m", "harness.run.id": "run_1", "harness.run.segment": 1,
		"harness.run.status": "completed", "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20, "error.type": nil,
	})
	if !root.StartTime().Equal(began) || root.EndTime().Sub(began) != 9*time.Second || root.Status().Code == codes.Error {
		t.Errorf("root from %s to %s, %v", root.StartTime(), root.EndTime(), root.Status())
	}
	r.has(spans["chat m"], map[string]any{"error.type": "rate_limit", "http.response.status_code": 429, "harness.model.attempt": 1, "gen_ai.response.model": nil})
	if s := spans["chat m"]; s.Status().Code != codes.Error || s.EndTime().Sub(s.StartTime()) != time.Second {
		t.Errorf("failed attempt: %v, %s", s.Status(), s.EndTime().Sub(s.StartTime()))
	}
	chat := spans["chat m #2"]
	r.has(chat, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "m", "gen_ai.response.model": "m-2026",
		"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20, "gen_ai.usage.cache_read.input_tokens": 40,
		"gen_ai.usage.cache_creation.input_tokens": 5, "gen_ai.usage.reasoning.output_tokens": 7, "gen_ai.response.finish_reasons": []string{"tool_calls"},
		"gen_ai.response.time_to_first_chunk": 0.25, "harness.model.cost_usd": 0.5, "error.type": nil,
	})
	if chat.SpanKind() != trace.SpanKindClient {
		t.Errorf("chat is %s", chat.SpanKind())
	}
	r.has(spans["execute_tool bash"], map[string]any{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "bash", "gen_ai.tool.call.id": "c1", "gen_ai.tool.type": "function",
		"harness.tool.decision": "approved", "harness.approval.id": "ap_1", "error.type": "exit_code",
	})
	r.has(spans["execute_tool write"], map[string]any{"harness.tool.decision": "deny", "error.type": "blocked_by_rule"})
	for name, s := range spans {
		if s.SpanContext().TraceID() != root.SpanContext().TraceID() || (s != root && s.Parent().SpanID() != root.SpanContext().SpanID()) {
			t.Errorf("%s is not below the segment's span", name)
		}
		if text := fmt.Sprint(attrsOf(s), s.Status(), s.Events()); strings.Contains(text, "secret") {
			t.Errorf("%s holds content: %s", name, text)
		}
	}
}

func TestContentIsRecordedOnlyWhereItIsAskedFor(t *testing.T) {
	r := newRig(t, true)
	long := aRun
	long.Prompt = strings.Repeat("\x01é", 40_000)
	wholeRun(r.segment(long, engine.Plan{}))
	spans := r.spans()
	r.has(spans["execute_tool bash"], map[string]any{"gen_ai.tool.call.arguments": "secret arguments", "gen_ai.tool.call.result": "secret output"})
	r.has(spans["chat m #2"], map[string]any{"gen_ai.output.messages": `[{"parts":[{"content":"secret answer","type":"text"}],"role":"assistant"}]`})
	in, _ := attrsOf(spans["invoke_agent native"])["gen_ai.input.messages"].(string)
	if len(in) > maxContent || !json.Valid([]byte(in)) || !strings.Contains(in, "cut, 120000 bytes") {
		t.Errorf("%d bytes of input: %.80s", len(in), in)
	}
}

func TestTheClientMetricsAreMeasured(t *testing.T) {
	r := newRig(t, false)
	wholeRun(r.segment(aRun, engine.Plan{}))
	if err := r.t.metrics.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	tokens, _ := r.k.metrics["gen_ai.client.token.usage"].(metricdata.Histogram[int64])
	sums := map[string]int64{}
	for _, p := range tokens.DataPoints {
		kind, _ := p.Attributes.Value("gen_ai.token.type")
		model, _ := p.Attributes.Value("gen_ai.response.model")
		sums[kind.AsString()+" "+model.AsString()] += p.Sum
	}
	if sums["input m-2026"] != 100 || sums["output m-2026"] != 20 || len(sums) != 2 {
		t.Errorf("tokens %v", sums)
	}
	duration, _ := r.k.metrics["gen_ai.client.operation.duration"].(metricdata.Histogram[float64])
	seconds := map[string]float64{}
	for _, p := range duration.DataPoints {
		e, _ := p.Attributes.Value("error.type")
		seconds[e.AsString()] += p.Sum
	}
	if seconds[""] != 2 || seconds["rate_limit"] != 1 || len(seconds) != 2 {
		t.Errorf("durations %v", seconds)
	}
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTheSegmentsOfARunAreInOneTraceHoweverFarApart(t *testing.T) {
	for name, tt := range map[string]struct{ traceparent, trace, parent string }{
		"with a caller":    {parent, "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"},
		"without a caller": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			plan := engine.Plan{Trace: engine.Trace{Parent: tt.traceparent}}
			first := newRig(t, false)
			s := first.segment(aRun, plan)
			s.Ended(began.Add(time.Second), store.StatusWaitingForApproval)
			// Days later, in another process.
			second := newRig(t, false)
			later := aRun
			later.Epoch, later.Head = 2, 9
			second.segment(later, plan).Ended(began.Add(80*time.Hour), store.StatusCompleted)
			third := newRig(t, false)
			next := store.Run{ID: "run_2", PreviousRunID: "run_1", Head: 1}
			third.segment(next, engine.Plan{Trace: engine.Trace{Previous: tt.traceparent}}).Ended(began, store.StatusCompleted)
			a, b, c := first.spans()["invoke_agent native"], second.spans()["invoke_agent native"], third.spans()["invoke_agent native"]
			if a.SpanContext().TraceID() != b.SpanContext().TraceID() || a.SpanContext().SpanID() == b.SpanContext().SpanID() {
				t.Errorf("first %s, second %s", a.SpanContext().TraceID(), b.SpanContext().TraceID())
			}
			if tt.trace != "" && (a.SpanContext().TraceID().String() != tt.trace || a.Parent().SpanID().String() != tt.parent || b.Parent().SpanID().String() != tt.parent) {
				t.Errorf("not below the caller's span: %s, %s", a.Parent().SpanID(), b.Parent().SpanID())
			}
			if tt.trace == "" && a.Parent().IsValid() {
				t.Errorf("the first segment has a parent: %s", a.Parent().SpanID())
			}
			for which, s := range map[string]sdktrace.ReadOnlySpan{"first_segment": b, "previous_run": c} {
				if len(s.Links()) != 1 || s.Links()[0].SpanContext.SpanID() != a.SpanContext().SpanID() || s.Links()[0].SpanContext.TraceID() != a.SpanContext().TraceID() ||
					s.Links()[0].Attributes[0] != attribute.String("harness.link", which) {
					t.Errorf("%s: links %+v", which, s.Links())
				}
			}
			if len(a.Links()) != 0 || c.SpanContext().TraceID() == a.SpanContext().TraceID() {
				t.Errorf("the first segment has links %v, or two runs share a trace", a.Links())
			}
		})
	}
}

func TestACallThatDoesNotEndInItsSegmentIsMarked(t *testing.T) {
	r := newRig(t, false)
	s := r.segment(aRun, engine.Plan{})
	commit(s, 0, event.LLMTurnRequestedPayload{Attempt: 1, Provider: "p", Model: "m"}, event.ToolCallStartedPayload{CallID: "c", Tool: "bash"})
	s.Ended(began.Add(time.Second), store.StatusRunning)
	later := aRun
	later.Head = 5
	s = r.segment(later, engine.Plan{})
	commit(s, 2*time.Second, event.LLMAttemptDiscardedPayload{Attempt: 1, Reason: "interrupted"}, event.ToolCallCompletedPayload{CallID: "c", Tool: "bash", Interrupted: true})
	commit(s, 2*time.Second, event.RunFailedPayload{Reason: event.ReasonTimeout})
	s.Ended(began.Add(3*time.Second), store.StatusFailed)
	spans := r.spans()
	r.has(spans["chat m"], map[string]any{"error.type": "interrupted"})
	r.has(spans["execute_tool bash"], map[string]any{"error.type": "interrupted"})
	r.has(spans["execute_tool bash #2"], map[string]any{"error.type": "interrupted"})
	r.has(spans["invoke_agent native"], map[string]any{"harness.run.status": "running", "error.type": nil})
	r.has(spans["invoke_agent native #2"], map[string]any{"harness.run.status": "failed", "error.type": "timeout"})
	if err := r.t.metrics.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d, ok := r.k.metrics["gen_ai.client.operation.duration"].(metricdata.Histogram[float64]); ok && len(d.DataPoints) != 0 {
		t.Errorf("a call whose length nobody knows is measured: %+v", d.DataPoints)
	}
}

func TestTheStandardVariablesNameTheService(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a")
	r := newRig(t, false)
	r.segment(aRun, engine.Plan{}).Ended(began, store.StatusCompleted)
	got := map[string]string{}
	for _, kv := range r.spans()["invoke_agent native"].Resource().Attributes() {
		got[string(kv.Key)] = kv.Value.String()
	}
	if got["service.name"] != "mine" || got["team"] != "a" || got["service.version"] != "v1" || got["service.instance.id"] == "" {
		t.Errorf("resource %v", got)
	}
}

func TestASampledOutRunMakesNoSpans(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	r := newRig(t, false)
	wholeRun(r.segment(aRun, engine.Plan{}))
	if spans := r.spans(); len(spans) != 0 {
		t.Errorf("%d spans", len(spans))
	}
}

func BenchmarkTracedRun(b *testing.B) {
	tel, err := New(b.Context(), Options{Traces: &kept{}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tel.Shutdown(context.Background()) }()
	o := activity.New(tel)
	b.ReportAllocs()
	for b.Loop() {
		wholeRun(o.Segment(engine.SegmentStart{At: began, Run: aRun, Plan: engine.Plan{Harness: "native"}}))
	}
}
