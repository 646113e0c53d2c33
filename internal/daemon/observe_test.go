package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// collector is a receiver of OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   map[string][]*tracepb.Span
	metrics map[string]*metricspb.Metric
	raw     strings.Builder
	faults  []error
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{spans: map[string][]*tracepb.Span{}, metrics: map[string]*metricspb.Metric{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(body)
		switch r.URL.Path {
		case "/v1/traces":
			var d tracepb.TracesData
			err = proto.Unmarshal(body, &d)
			for _, rs := range d.GetResourceSpans() {
				for _, ss := range rs.GetScopeSpans() {
					for _, s := range ss.GetSpans() {
						c.spans[s.GetName()] = append(c.spans[s.GetName()], s)
					}
				}
			}
		case "/v1/metrics":
			var d metricspb.MetricsData
			err = proto.Unmarshal(body, &d)
			for _, rm := range d.GetResourceMetrics() {
				for _, sm := range rm.GetScopeMetrics() {
					for _, m := range sm.GetMetrics() {
						c.metrics[m.GetName()] = m
					}
				}
			}
		}
		if err != nil {
			c.faults = append(c.faults, err)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func attr(s *tracepb.Span, key string) string {
	for _, kv := range s.GetAttributes() {
		if kv.GetKey() == key {
			return kv.GetValue().GetStringValue()
		}
	}
	return ""
}

const callersTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A run with an approval, over HTTP with a caller's trace, arrives at the collector: its two segments in the caller's
// trace, the second linked to the first, and no word of its content.
func TestARunsTraceArrivesAtTheCollector(t *testing.T) {
	col := newCollector(t)
	c := settings(t, "HARNESS_AUTH_DISABLED=true", "HARNESS_TELEMETRY=true", "HARNESS_TELEMETRY_ENDPOINT="+col.URL)
	n := open(t, c)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(n.Handler())
	defer srv.Close()
	post := func(path, body, traceparent string, out any) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if traceparent != "" {
			req.Header.Set("Traceparent", traceparent)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if err := json.NewDecoder(res.Body).Decode(out); err != nil || res.StatusCode/100 != 2 {
			t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
		}
	}
	body, err := json.Marshal(engine.RunRequest{
		Prompt:      `hidden words @@[{"tool":"bash","in":{"command":"echo hidden words"}},{"text":"hidden words"}]@@`,
		Permissions: &tool.PermissionConfig{Approval: tool.ApprovalPolicyAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	var run, next api.RunAccepted
	post("/v1/runs", string(body), callersTrace, &run)
	waitFor(t, n, run.RunID, store.StatusWaitingForApproval)
	post("/v1/runs/"+run.RunID+"/approve", "{}", "", &struct{}{})
	waitFor(t, n, run.RunID, store.StatusCompleted)
	post("/v1/runs/"+run.RunID+"/continue", `{"prompt":"more @@[{\"text\":\"ok\"}]@@"}`, "", &next)
	waitFor(t, n, next.RunID, store.StatusCompleted)
	srv.CloseClientConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := n.Close(ctx); err != nil { // flushes
		t.Fatal(err)
	}
	col.mu.Lock()
	defer col.mu.Unlock()
	if len(col.faults) > 0 {
		t.Fatal(col.faults)
	}
	segments := col.spans["invoke_agent native"]
	if len(segments) != 3 {
		t.Fatalf("%d segments; spans %v", len(segments), col.spans)
	}
	const callersID, callersSpan = "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", "\xb7\xad\x6b\x71\x69\x20\x33\x31"
	first, second, third := segments[0], segments[1], segments[2]
	if attr(first, "harness.run.status") != "waiting_for_approval" || attr(second, "harness.run.status") != "completed" || attr(third, "harness.run.id") != next.RunID {
		t.Fatalf("segments %v", segments)
	}
	for i, s := range segments[:2] {
		if string(s.GetTraceId()) != callersID || string(s.GetParentSpanId()) != callersSpan || attr(s, "harness.run.id") != run.RunID {
			t.Errorf("segment %d is not below its caller: %v", i, s)
		}
	}
	for name, s := range map[string]*tracepb.Span{"later segment": second, "continued run": third} {
		if l := s.GetLinks(); len(l) != 1 || string(l[0].GetSpanId()) != string(first.GetSpanId()) || string(l[0].GetTraceId()) != callersID {
			t.Errorf("%s: links %v", name, l)
		}
	}
	if calls := col.spans["execute_tool bash"]; len(calls) != 1 || attr(calls[0], "harness.tool.decision") != "approved" || string(calls[0].GetParentSpanId()) != string(second.GetSpanId()) {
		t.Errorf("calls %v", calls)
	}
	chats := 0
	for name, list := range col.spans {
		if strings.HasPrefix(name, "chat ") {
			chats += len(list)
		}
	}
	if chats != 3 || col.metrics["gen_ai.client.token.usage"] == nil || col.metrics["gen_ai.client.operation.duration"] == nil {
		t.Errorf("%d chats, metrics %v", chats, col.metrics)
	}
	if strings.Contains(col.raw.String(), "hidden words") {
		t.Error("content was exported")
	}
}

// A collector that is not there, or takes everything and answers nothing, costs a run nothing and a shutdown little.
func TestACollectorThatFailsDoesNotTouchARun(t *testing.T) {
	release := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(release) })
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, url := range map[string]string{"hung": hung.URL, "gone": gone.URL} {
		t.Run(name, func(t *testing.T) {
			n := open(t, settings(t, "HARNESS_TELEMETRY=true", "HARNESS_TELEMETRY_ENDPOINT="+url))
			if err := n.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, _, err := n.engine.Submit(t.Context(), engine.Local(), engine.RunRequest{Prompt: `@@[{"text":"ok"}]@@`}, "")
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, n, r.ID, store.StatusCompleted)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := n.Close(ctx); err != nil {
				t.Errorf("the shutdown failed: %v", err)
			}
			if ctx.Err() != nil {
				t.Error("the shutdown waited for the collector")
			}
		})
	}
}

func TestTheNodesFiguresCountItsRuns(t *testing.T) {
	n := open(t, settings(t))
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, _, err := n.engine.Submit(t.Context(), engine.Local(), engine.RunRequest{
		Prompt: `@@[{"tool":"ls","in":{}},{"text":"ok"}]@@`,
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, n, r.ID, store.StatusCompleted)
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Host = "localhost"
	want := []string{
		`harness_runs_started_total{harness="native"} 1`,
		`harness_runs_finished_total{harness="native",reason="",status="completed"} 1`,
		`harness_segments_active{harness="native"} 0`,
		`harness_model_calls_total{model="scripted",outcome="ok",provider="fake"} 2`,
		`harness_tool_calls_total{outcome="ok",tool="ls"} 1`,
		`harness_runs_open{status="running"} 0`,
		`harness_approvals_pending 0`,
	}
	missing := want
	for deadline := time.Now().Add(10 * time.Second); len(missing) > 0 && time.Now().Before(deadline); { // the segment ends after its run
		w = httptest.NewRecorder()
		n.Handler().ServeHTTP(w, req)
		missing = nil
		for _, line := range want {
			if !strings.Contains(w.Body.String(), line+"\n") {
				missing = append(missing, line)
			}
		}
	}
	if len(missing) > 0 || w.Code != http.StatusOK {
		t.Errorf("%d: missing %q in\n%s", w.Code, missing, w.Body)
	}
}
