package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The trace of a run without a caller's context, and the span of its first segment, follow from the run's id. So the
// segment that goes on in days, in another process or after a crash, is in the same trace and can name the first one;
// nothing needs to be stored for that.

// derived are the ids that follow from a run's id.
func derived(runID string) (trace.TraceID, trace.SpanID) {
	sum := sha256.Sum256([]byte("harness trace\x00" + runID))
	return trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])
}

// parentOf reads a checked traceparent; an empty or unreadable one is not valid.
func parentOf(traceparent string) trace.SpanContext {
	if len(traceparent) != 55 {
		return trace.SpanContext{}
	}
	tid, err1 := trace.TraceIDFromHex(traceparent[3:35])
	sid, err2 := trace.SpanIDFromHex(traceparent[36:52])
	flags, err3 := hex.DecodeString(traceparent[53:])
	if err1 != nil || err2 != nil || err3 != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: tid, SpanID: sid, TraceFlags: trace.TraceFlags(flags[0]), Remote: true})
}

// firstSegment is where the first segment of a run is, or would be.
func firstSegment(runID, traceparent string) trace.SpanContext {
	tid, sid := derived(runID)
	flags := trace.FlagsSampled
	if p := parentOf(traceparent); p.IsValid() {
		tid, flags = p.TraceID(), p.TraceFlags()
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: tid, SpanID: sid, TraceFlags: flags, Remote: true})
}

// root says which ids the span of a segment gets.
type root struct {
	run   string
	first bool
}

type rootKey struct{}

func withRoot(ctx context.Context, r root) context.Context {
	return context.WithValue(ctx, rootKey{}, r)
}

// ids gives the spans of segments derived ids, and all others random ones.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	r, ok := ctx.Value(rootKey{}).(root)
	if !ok {
		var t trace.TraceID
		binary.NativeEndian.PutUint64(t[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(t[8:], rand.Uint64()|1)
		return t, randomSpan()
	}
	t, s := derived(r.run)
	if !r.first {
		s = randomSpan()
	}
	return t, s
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if r, ok := ctx.Value(rootKey{}).(root); ok && r.first {
		_, s := derived(r.run)
		return s
	}
	return randomSpan()
}

func randomSpan() (s trace.SpanID) {
	binary.NativeEndian.PutUint64(s[:], rand.Uint64()|1)
	return s
}
