package otlp

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Traces is an exporter of spans. Its methods return no failures of the delivery.
type Traces struct{ client *client }

var _ sdktrace.SpanExporter = (*Traces)(nil)

// NewTraces makes one. It connects to nothing yet.
func NewTraces(c Config) (*Traces, error) {
	cl, err := newClient(c, "traces")
	if err != nil {
		return nil, err
	}
	return &Traces{cl}, nil
}

// ExportSpans implements sdktrace.SpanExporter.
func (t *Traces) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) > 0 {
		t.client.send(ctx, encodeSpans(spans))
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter. It gives up what is on its way; calling it again changes nothing.
func (t *Traces) Shutdown(context.Context) error {
	t.client.close()
	return nil
}

// encodeSpans writes an ExportTraceServiceRequest.
func encodeSpans(spans []sdktrace.ReadOnlySpan) []byte {
	type group struct {
		resource attribute.Distinct
		scope    instrumentation.Scope
	}
	order := []group{}
	groups := map[group][]sdktrace.ReadOnlySpan{}
	resources := map[attribute.Distinct]*resource.Resource{}
	for _, s := range spans {
		g := group{s.Resource().Equivalent(), s.InstrumentationScope()}
		if _, ok := groups[g]; !ok {
			order = append(order, g)
		}
		groups[g] = append(groups[g], s)
		resources[g.resource] = s.Resource()
	}
	var b []byte
	for _, g := range order {
		b = message(b, 1, func(b []byte) []byte {
			b = appendResource(b, resources[g.resource])
			return message(b, 2, func(b []byte) []byte {
				b = appendScope(b, g.scope)
				for _, s := range groups[g] {
					b = message(b, 2, func(b []byte) []byte { return span(b, s) })
				}
				return b
			})
		})
	}
	return b
}

// The bits of a span's flags beside those of the trace.
const (
	flagHasIsRemote = 0x100
	flagIsRemote    = 0x200
)

func flagsOf(c trace.SpanContext) uint32 {
	f := uint32(c.TraceFlags()) | flagHasIsRemote
	if c.IsRemote() {
		f |= flagIsRemote
	}
	return f
}

func span(b []byte, s sdktrace.ReadOnlySpan) []byte {
	c, parent := s.SpanContext(), s.Parent()
	tid, sid := c.TraceID(), c.SpanID()
	b = raw(b, 1, tid[:])
	b = raw(b, 2, sid[:])
	b = text(b, 3, c.TraceState().String())
	if parent.SpanID().IsValid() {
		pid := parent.SpanID()
		b = raw(b, 4, pid[:])
	}
	b = text(b, 5, s.Name())
	b = number(b, 6, uint64(s.SpanKind())) // internal is 1 there and here
	b = fixed64(b, 7, nanos(s.StartTime()))
	b = fixed64(b, 8, nanos(s.EndTime()))
	b = attributes(b, 9, s.Attributes())
	b = number(b, 10, uint64(s.DroppedAttributes()))
	for _, e := range s.Events() {
		b = message(b, 11, func(b []byte) []byte {
			b = fixed64(b, 1, nanos(e.Time))
			b = text(b, 2, e.Name)
			return attributes(b, 3, e.Attributes)
		})
	}
	for _, l := range s.Links() {
		b = message(b, 13, func(b []byte) []byte {
			tid, sid := l.SpanContext.TraceID(), l.SpanContext.SpanID()
			b = raw(b, 1, tid[:])
			b = raw(b, 2, sid[:])
			b = text(b, 3, l.SpanContext.TraceState().String())
			b = attributes(b, 4, l.Attributes)
			return fixed32(b, 6, flagsOf(l.SpanContext))
		})
	}
	if st := s.Status(); st.Code != codes.Unset {
		b = message(b, 15, func(b []byte) []byte {
			b = text(b, 2, st.Description)
			code := uint64(1) // ok
			if st.Code == codes.Error {
				code = 2
			}
			return number(b, 3, code)
		})
	}
	return fixed32(b, 16, uint32(c.TraceFlags())|flagsOf(parent)&^0xff)
}
