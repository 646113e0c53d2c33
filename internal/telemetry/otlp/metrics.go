package otlp

import (
	"context"
	"fmt"
	"math"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/encoding/protowire"
)

// Metrics is an exporter of sums and histograms, cumulative. Its methods return no failures of the delivery.
type Metrics struct{ client *client }

var _ sdkmetric.Exporter = (*Metrics)(nil)

// NewMetrics makes one. It connects to nothing yet.
func NewMetrics(c Config) (*Metrics, error) {
	cl, err := newClient(c, "metrics")
	if err != nil {
		return nil, err
	}
	return &Metrics{cl}, nil
}

// Temporality implements sdkmetric.Exporter.
func (m *Metrics) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

// Aggregation implements sdkmetric.Exporter.
func (m *Metrics) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

// Export implements sdkmetric.Exporter.
func (m *Metrics) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	body, n, err := encodeMetrics(rm)
	if err != nil {
		m.client.tell(err)
	}
	if n > 0 {
		m.client.send(ctx, body)
	}
	return nil
}

// ForceFlush implements sdkmetric.Exporter: nothing is held back.
func (m *Metrics) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdkmetric.Exporter. It gives up what is on its way; calling it again changes nothing.
func (m *Metrics) Shutdown(context.Context) error {
	m.client.close()
	return nil
}

// encodeMetrics writes an ExportMetricsServiceRequest with n metrics. The error names one that cannot be written.
func encodeMetrics(rm *metricdata.ResourceMetrics) (b []byte, n int, err error) {
	b = message(nil, 1, func(b []byte) []byte {
		b = appendResource(b, rm.Resource)
		for _, sm := range rm.ScopeMetrics {
			b = message(b, 2, func(b []byte) []byte {
				b = appendScope(b, sm.Scope)
				for _, m := range sm.Metrics {
					data, merr := metricOf(m)
					if merr != nil {
						err = merr
						continue
					}
					b = message(b, 2, func([]byte) []byte { return data })
					n++
				}
				return b
			})
		}
		return b
	})
	return b, n, err
}

func metricOf(m metricdata.Metrics) ([]byte, error) {
	b := text(nil, 1, m.Name)
	b = text(b, 2, m.Description)
	b = text(b, 3, m.Unit)
	switch d := m.Data.(type) {
	case metricdata.Histogram[int64]:
		return message(b, 9, func(b []byte) []byte { return histogram(b, d) }), nil
	case metricdata.Histogram[float64]:
		return message(b, 9, func(b []byte) []byte { return histogram(b, d) }), nil
	case metricdata.Sum[int64]:
		return message(b, 7, func(b []byte) []byte { return sum(b, d) }), nil
	case metricdata.Sum[float64]:
		return message(b, 7, func(b []byte) []byte { return sum(b, d) }), nil
	}
	return nil, fmt.Errorf("otlp: metric %s is a %T, which is not exported", m.Name, m.Data)
}

func temporality(t metricdata.Temporality) uint64 {
	if t == metricdata.DeltaTemporality {
		return 1
	}
	return 2
}

func histogram[N int64 | float64](b []byte, h metricdata.Histogram[N]) []byte {
	for _, p := range h.DataPoints {
		b = message(b, 1, func(b []byte) []byte {
			b = fixed64(b, 2, nanos(p.StartTime))
			b = fixed64(b, 3, nanos(p.Time))
			b = fixed64(b, 4, p.Count)
			b = double(b, 5, float64(p.Sum))
			var packed []byte
			for _, n := range p.BucketCounts {
				packed = protowire.AppendFixed64(packed, n)
			}
			b = raw(b, 6, packed)
			packed = nil
			for _, v := range p.Bounds {
				packed = protowire.AppendFixed64(packed, math.Float64bits(v))
			}
			b = raw(b, 7, packed)
			b = attributes(b, 9, p.Attributes.ToSlice())
			if v, ok := p.Min.Value(); ok {
				b = double(b, 11, float64(v))
			}
			if v, ok := p.Max.Value(); ok {
				b = double(b, 12, float64(v))
			}
			return b
		})
	}
	return number(b, 2, temporality(h.Temporality))
}

func sum[N int64 | float64](b []byte, s metricdata.Sum[N]) []byte {
	for _, p := range s.DataPoints {
		b = message(b, 1, func(b []byte) []byte {
			b = fixed64(b, 2, nanos(p.StartTime))
			b = fixed64(b, 3, nanos(p.Time))
			switch v := any(p.Value).(type) {
			case int64:
				b = fixed64(b, 6, uint64(v))
			case float64:
				b = double(b, 4, v)
			}
			return attributes(b, 7, p.Attributes.ToSlice())
		})
	}
	b = number(b, 2, temporality(s.Temporality))
	return number(b, 3, protowire.EncodeBool(s.IsMonotonic))
}
