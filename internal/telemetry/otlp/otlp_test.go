package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/harness-go/harness/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a collector that keeps what it was sent.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	answers []func(http.ResponseWriter) // for the first requests; then all is well
	bodies  [][]byte
	headers []http.Header
	times   []time.Time
}

func (r *receiver) handle(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err == nil && req.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies, r.headers, r.times = append(r.bodies, body), append(r.headers, req.Header.Clone()), append(r.times, time.Now())
	if n := len(r.bodies); n <= len(r.answers) {
		r.answers[n-1](w)
	}
}

func newReceiver(t *testing.T, answers ...func(http.ResponseWriter)) *receiver {
	r := &receiver{answers: answers}
	r.Server = httptest.NewServer(http.HandlerFunc(r.handle))
	t.Cleanup(r.Close)
	return r
}

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// text is an attribute's value as the schema has it.
func textOf(v *commonpb.AnyValue) string {
	switch x := v.GetValue().(type) {
	case *commonpb.AnyValue_ArrayValue:
		var out []string
		for _, e := range x.ArrayValue.GetValues() {
			out = append(out, textOf(e))
		}
		return strings.Join(out, "|")
	case *commonpb.AnyValue_StringValue:
		return x.StringValue
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(x.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		return fmt.Sprint(x.DoubleValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(x.BoolValue)
	}
	return "?"
}

func attrs(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		out[kv.GetKey()] = textOf(kv.GetValue())
	}
	return out
}

func TestSpansArriveAsTheSchemaHasThem(t *testing.T) {
	rec := newReceiver(t)
	exp, err := NewTraces(Config{URL: rec.URL + "/v1/traces", Gzip: true, Headers: map[string]model.Secret{"X-Key": model.NewSecret("sk-1")}})
	if err != nil {
		t.Fatal(err)
	}
	res := resource.NewSchemaless(attribute.String("service.name", "s"))
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp), sdktrace.WithResource(res))
	tracer := tp.Tracer("scope", trace.WithInstrumentationVersion("v1"))
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	at := time.Unix(1_700_000_000, 123)
	ctx, root := tracer.Start(trace.ContextWithRemoteSpanContext(t.Context(), remote), "root", trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(trace.Link{SpanContext: remote, Attributes: []attribute.KeyValue{attribute.String("why", "because")}}),
		trace.WithAttributes(attribute.String("s", "é"), attribute.String("empty", ""), attribute.Int("i", -3), attribute.Float64("f", 0.5),
			attribute.Bool("b", true), attribute.Bool("no", false), attribute.StringSlice("l", []string{"x", "y"}), attribute.IntSlice("other", []int{1, 2})))
	_, child := tracer.Start(ctx, "child")
	child.AddEvent("happened", trace.WithAttributes(attribute.Int("n", 1)))
	child.SetStatus(codes.Error, "bad")
	child.End()
	root.End(trace.WithTimestamp(at.Add(time.Second)))
	if err := tp.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got tracepb.TracesData // the same fields as the request
	if len(rec.bodies) != 1 {
		t.Fatalf("%d requests", len(rec.bodies))
	}
	if err := proto.Unmarshal(rec.bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	if len(got.ProtoReflect().GetUnknown()) > 0 {
		t.Error("there are unknown fields")
	}
	h := rec.headers[0]
	if h.Get("Content-Type") != "application/x-protobuf" || h.Get("X-Key") != "sk-1" {
		t.Errorf("headers %v", h)
	}
	rs := got.GetResourceSpans()
	if len(rs) != 1 || attrs(rs[0].GetResource().GetAttributes())["service.name"] != "s" {
		t.Fatalf("resources %v", rs)
	}
	ss := rs[0].GetScopeSpans()
	if len(ss) != 1 || ss[0].GetScope().GetName() != "scope" || ss[0].GetScope().GetVersion() != "v1" || len(ss[0].GetSpans()) != 2 {
		t.Fatalf("scopes %v", ss)
	}
	c, r := ss[0].GetSpans()[0], ss[0].GetSpans()[1]
	want := map[string]string{"s": "é", "empty": "", "i": "-3", "f": "0.5", "b": "true", "no": "false", "l": "x|y", "other": "[1,2]"}
	if d := cmp.Diff(want, attrs(r.GetAttributes())); d != "" {
		t.Error(d)
	}
	if r.GetName() != "root" || r.GetKind() != tracepb.Span_SPAN_KIND_CLIENT || r.GetStartTimeUnixNano() != uint64(at.UnixNano()) ||
		r.GetEndTimeUnixNano() != uint64(at.Add(time.Second).UnixNano()) || !bytes.Equal(r.GetParentSpanId(), []byte{2, 0, 0, 0, 0, 0, 0, 0}) ||
		r.GetFlags() != 0x301 || r.GetTraceId()[0] != 1 {
		t.Errorf("root %v", r)
	}
	if l := r.GetLinks(); len(l) != 1 || l[0].GetSpanId()[0] != 2 || attrs(l[0].GetAttributes())["why"] != "because" || l[0].GetFlags() != 0x301 {
		t.Errorf("links %v", l)
	}
	if c.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || c.GetStatus().GetMessage() != "bad" || c.GetEvents()[0].GetName() != "happened" ||
		c.GetKind() != tracepb.Span_SPAN_KIND_INTERNAL || !bytes.Equal(c.GetParentSpanId(), r.GetSpanId()) || c.GetFlags() != 0x101 {
		t.Errorf("child %v", c)
	}
}

func TestMetricsArriveAsTheSchemaHasThem(t *testing.T) {
	rec := newReceiver(t)
	var log bytes.Buffer
	exp, err := NewMetrics(Config{URL: rec.URL, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	mp := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exp)))
	meter := mp.Meter("scope")
	h, _ := meter.Int64Histogram("h", metric.WithUnit("{token}"), metric.WithDescription("d"), metric.WithExplicitBucketBoundaries(1, 10))
	f, _ := meter.Float64Histogram("f", metric.WithExplicitBucketBoundaries(0.5))
	s, _ := meter.Int64Counter("s")
	g, _ := meter.Int64Gauge("g")
	h.Record(t.Context(), 5, metric.WithAttributes(attribute.String("k", "v")))
	h.Record(t.Context(), 50, metric.WithAttributes(attribute.String("k", "v")))
	f.Record(t.Context(), 0.25)
	s.Add(t.Context(), 7)
	g.Record(t.Context(), 1)
	if err := mp.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got metricspb.MetricsData
	if err := proto.Unmarshal(rec.bodies[0], &got); err != nil {
		t.Fatal(err)
	}
	by := map[string]*metricspb.Metric{}
	for _, m := range got.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics() {
		by[m.GetName()] = m
	}
	m := by["h"]
	p := m.GetHistogram().GetDataPoints()[0]
	if m.GetUnit() != "{token}" || m.GetDescription() != "d" || p.GetCount() != 2 || p.GetSum() != 55 || p.GetMin() != 5 || p.GetMax() != 50 ||
		!cmp.Equal(p.GetBucketCounts(), []uint64{0, 1, 1}) || !cmp.Equal(p.GetExplicitBounds(), []float64{1, 10}) || attrs(p.GetAttributes())["k"] != "v" ||
		m.GetHistogram().GetAggregationTemporality() != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE || p.GetTimeUnixNano() == 0 {
		t.Errorf("h: %v", m)
	}
	if p := by["f"].GetHistogram().GetDataPoints()[0]; p.GetSum() != 0.25 || !cmp.Equal(p.GetBucketCounts(), []uint64{1, 0}) {
		t.Errorf("f: %v", by["f"])
	}
	if sum := by["s"].GetSum(); !sum.GetIsMonotonic() || sum.GetDataPoints()[0].GetAsInt() != 7 {
		t.Errorf("s: %v", by["s"])
	}
	if by["g"] != nil || !strings.Contains(log.String(), "metric g is a") {
		t.Errorf("what cannot be exported is not told: %s", log.String())
	}
}

// aSpan is one ended span.
func aSpan(t *testing.T) []sdktrace.ReadOnlySpan {
	t.Helper()
	var out []sdktrace.ReadOnlySpan
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporterFunc(func(s []sdktrace.ReadOnlySpan) { out = s })))
	_, s := tp.Tracer("s").Start(t.Context(), "s")
	s.End()
	return out
}

type exporterFunc func([]sdktrace.ReadOnlySpan)

func (f exporterFunc) ExportSpans(_ context.Context, s []sdktrace.ReadOnlySpan) error {
	f(s)
	return nil
}
func (f exporterFunc) Shutdown(context.Context) error { return nil }

// handlerTransport answers without a network, for tests on a fake clock.
type handlerTransport struct{ h http.HandlerFunc }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.h(w, r)
	return w.Result(), nil
}

func TestDeliveryIsTriedAgainOnlyWhereThatCanHelp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []func(http.ResponseWriter)
		tries   int
		waits   time.Duration
		logged  string
	}{
		{"busy, then well", []func(http.ResponseWriter){status(503), status(429, "Retry-After", "7")}, 3, 8 * time.Second, ""},
		{"refused", []func(http.ResponseWriter){status(400), status(200)}, 1, 0, "400 Bad Request"},
		{"redirected", []func(http.ResponseWriter){status(307, "Location", "http://elsewhere.example")}, 1, 0, "307"},
		{"busy for good", []func(http.ResponseWriter){status(503), status(502), status(504), status(503), status(503)}, 5, 15 * time.Second, "503"},
		{"partly rejected", []func(http.ResponseWriter){func(w http.ResponseWriter) { _, _ = w.Write(append([]byte{0x0a, 8, 8, 3, 0x12, 4}, "full"...)) }}, 1, 0, `rejected 3 of the records: \"full\"`},
		{"an answer that is no message", []func(http.ResponseWriter){func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) }}, 1, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spans := aSpan(t)
			synctest.Test(t, func(t *testing.T) {
				rec := &receiver{answers: tt.answers}
				var log bytes.Buffer
				exp, err := NewTraces(Config{URL: "http://collector.example/v1/traces", Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Headers: map[string]model.Secret{"X-Key": model.NewSecret("sk-secret")}})
				if err != nil {
					t.Fatal(err)
				}
				exp.client.http.Transport = handlerTransport{rec.handle}
				start := time.Now()
				if err := exp.ExportSpans(t.Context(), spans); err != nil {
					t.Errorf("a failure reaches the caller: %v", err)
				}
				if len(rec.bodies) != tt.tries || time.Since(start) != tt.waits {
					t.Errorf("%d tries in %s, want %d in %s", len(rec.bodies), time.Since(start), tt.tries, tt.waits)
				}
				if got := log.String(); (got != "") != (tt.logged != "") || !strings.Contains(got, tt.logged) || strings.Contains(got, "sk-secret") {
					t.Errorf("log: %s", got)
				}
			})
		})
	}
}

func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	spans := aSpan(t)
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		exp, err := NewTraces(Config{URL: "http://collector.example", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		exp.client.http.Transport = handlerTransport{func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }}
		for range 180 {
			_ = exp.ExportSpans(t.Context(), spans)
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "telemetry not exported"); n != 3 || !strings.Contains(log.String(), "failures=60") {
			t.Errorf("%d lines: %s", n, log.String())
		}
	})
}

// A collector that takes a request and never answers holds nobody longer than the given time.
func TestAHungCollectorIsGivenUpInTime(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	exp, err := NewTraces(Config{URL: srv.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp))
	_, s := tp.Tracer("s").Start(t.Context(), "s")
	s.End()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = tp.Shutdown(ctx)
	if ctx.Err() == nil {
		t.Error("the shutdown did not wait for the collector at all")
	}
	exp.client.close()
}

func TestTheCollectorsCertificateIsChecked(t *testing.T) {
	rec := &receiver{}
	srv := httptest.NewTLSServer(http.HandlerFunc(rec.handle))
	defer srv.Close()
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	spans := aSpan(t)
	for _, tt := range []struct {
		ca   string
		want int
	}{{"", 0}, {ca, 1}} {
		exp, err := NewTraces(Config{URL: srv.URL, CAFile: tt.ca})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_ = exp.ExportSpans(ctx, spans)
		cancel()
		_ = exp.Shutdown(t.Context())
		if len(rec.bodies) != tt.want {
			t.Errorf("with authorities %q %d requests arrived", tt.ca, len(rec.bodies))
		}
	}
	for _, c := range []Config{{}, {URL: srv.URL, CAFile: "/nonexistent/ca"}, {URL: srv.URL, CertFile: "/nonexistent/c", KeyFile: "k"}} {
		if _, err := NewTraces(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func FuzzRejected(f *testing.F) {
	f.Add([]byte{0x0a, 2, 8, 3})
	f.Add([]byte{})
	f.Add([]byte{0x0a, 200})
	f.Fuzz(func(t *testing.T, b []byte) { rejected(b) })
}
