// Package telemetry makes OpenTelemetry traces and metrics of runs, with the names of the GenAI conventions.
//
// It owns the spans (invoke_agent for a segment of a run, chat for an attempt at a model, execute_tool for a call), the
// two client metrics, and their ids. It reads them from committed facts (package activity) and sends them with package
// otlp. docs/observability.md lists what it exports.
//
// Invariants: prompts, arguments and outputs are exported only where Options.Content says so; what cannot be exported is
// dropped, never waited for; nothing is exported unless somebody makes a Telemetry.
package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options make a Telemetry.
type Options struct {
	// Version is the program's.
	Version string
	// Content: prompts, arguments and outputs become attributes.
	Content bool
	// Traces and Metrics are where the signals go. Nil: not exported. Their Shutdown must give up what is on its way, and
	// may be called twice.
	Traces  sdktrace.SpanExporter
	Metrics sdkmetric.Exporter
}

// Bounds of what is kept and sent.
const (
	maxQueue       = 4096 // spans that wait; more are dropped
	maxBatch       = 256
	exportTimeout  = 30 * time.Second
	maxSeries      = 1000     // of one metric; more are put together
	maxContent     = 32 << 10 // bytes of an attribute
	maxAttributes  = 64
	maxLinks       = 4
	defaultService = "harness"
)

// scope names us as the source of spans and metrics.
const scope = "github.com/harness-go/harness"

// Telemetry follows segments. It is safe for concurrent use.
type Telemetry struct {
	o        Options
	content  bool
	traces   *sdktrace.TracerProvider
	metrics  *sdkmetric.MeterProvider
	tracer   trace.Tracer
	tokens   metric.Int64Histogram
	duration metric.Float64Histogram
}

// New starts the export. The standard variables for the resource, the sampler, the queue and the interval count.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	// A resource can be partial, with an error that tells why.
	res, err := resource.New(ctx, resource.WithAttributes(
		keyServiceName.String(defaultService), keyServiceVersion.String(o.Version), keyServiceInstance.String(strings.ToLower(rand.Text())),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("telemetry: resource: %w", err)
	}
	t := &Telemetry{o: o, content: o.Content}
	topts := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(res), sdktrace.WithIDGenerator(ids{}), sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: maxContent, AttributeCountLimit: maxAttributes, EventCountLimit: 1, LinkCountLimit: maxLinks,
			AttributePerEventCountLimit: 1, AttributePerLinkCountLimit: 4,
		}),
	}
	if o.Traces != nil {
		topts = append(topts, sdktrace.WithBatcher(o.Traces, sdktrace.WithMaxQueueSize(maxQueue), sdktrace.WithMaxExportBatchSize(maxBatch),
			sdktrace.WithExportTimeout(exportTimeout)))
	} else {
		topts = append(topts, sdktrace.WithSampler(sdktrace.NeverSample()))
	}
	t.traces = sdktrace.NewTracerProvider(topts...)
	t.tracer = t.traces.Tracer(scope, trace.WithInstrumentationVersion(o.Version))
	mopts := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithCardinalityLimit(maxSeries)}
	if o.Metrics != nil {
		mopts = append(mopts, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(o.Metrics)))
	}
	t.metrics = sdkmetric.NewMeterProvider(mopts...)
	meter := t.metrics.Meter(scope, metric.WithInstrumentationVersion(o.Version))
	t.tokens, err = meter.Int64Histogram(metricTokens, metric.WithUnit("{token}"), metric.WithDescription("Number of input and output tokens used."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864))
	if err == nil {
		t.duration, err = meter.Float64Histogram(metricDuration, metric.WithUnit("s"), metric.WithDescription("GenAI operation duration."),
			metric.WithExplicitBucketBoundaries(.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: %w", err), t.Shutdown(ctx))
	}
	return t, nil
}

// Shutdown sends what waits, until ctx ends; then the rest is given up. Spans that begin later are dropped.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	metrics := make(chan error, 1)
	go func() { metrics <- t.metrics.Shutdown(ctx) }()
	err := t.traces.Shutdown(ctx)
	err = errors.Join(err, <-metrics)
	// The providers leave an exporter alone that is at work when ctx ends.
	if t.o.Traces != nil {
		err = errors.Join(err, t.o.Traces.Shutdown(ctx))
	}
	if t.o.Metrics != nil {
		err = errors.Join(err, t.o.Metrics.Shutdown(ctx))
	}
	return err
}

func count(n *int64, key attribute.Key, to []attribute.KeyValue) []attribute.KeyValue {
	if n == nil {
		return to
	}
	return append(to, key.Int64(*n))
}
