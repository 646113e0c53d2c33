package otlp

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/encoding/protowire"
)

// The encoders append messages of the OTLP schema, version 1. The numbers are those of its fields.

// message appends a field that is a message, written by f.
func message(b []byte, field protowire.Number, f func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, f(nil))
}

func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

func raw(b []byte, field protowire.Number, v []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, v)
}

func number(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

func fixed64(b []byte, field protowire.Number, v uint64) []byte {
	b = protowire.AppendTag(b, field, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, v)
}

func double(b []byte, field protowire.Number, v float64) []byte {
	return fixed64(b, field, math.Float64bits(v))
}

func fixed32(b []byte, field protowire.Number, v uint32) []byte {
	b = protowire.AppendTag(b, field, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, v)
}

func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(t.UnixNano(), 0))
}

func appendResource(b []byte, r *resource.Resource) []byte {
	return message(b, 1, func(b []byte) []byte { return attributes(b, 1, r.Attributes()) })
}

func appendScope(b []byte, s instrumentation.Scope) []byte {
	return message(b, 1, func(b []byte) []byte {
		b = text(b, 1, s.Name)
		return text(b, 2, s.Version)
	})
}

func attributes(b []byte, field protowire.Number, list []attribute.KeyValue) []byte {
	for _, kv := range list {
		b = message(b, field, func(b []byte) []byte {
			b = text(b, 1, string(kv.Key))
			return message(b, 2, func(b []byte) []byte { return value(b, kv.Value) })
		})
	}
	return b
}

// value is an AnyValue. A kind that this project does not use is written as its text.
func value(b []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		b = protowire.AppendTag(b, 2, protowire.VarintType)
		return protowire.AppendVarint(b, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		b = protowire.AppendTag(b, 3, protowire.VarintType)
		return protowire.AppendVarint(b, uint64(v.AsInt64()))
	case attribute.FLOAT64:
		return double(b, 4, v.AsFloat64())
	case attribute.STRINGSLICE:
		return message(b, 5, func(b []byte) []byte {
			for _, s := range v.AsStringSlice() {
				b = message(b, 1, func(b []byte) []byte { return set(b, s) })
			}
			return b
		})
	case attribute.STRING:
		return set(b, v.AsString())
	}
	return set(b, v.String())
}

// set is a text of an AnyValue, where the empty one counts too.
func set(b []byte, s string) []byte {
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	return protowire.AppendString(b, s)
}

// rejected reads the partial success of an answer: how many records were not taken, and why.
func rejected(answer []byte) (n int64, why string) {
	partial, ok := find(answer, 1, protowire.BytesType)
	if !ok {
		return 0, ""
	}
	for b := partial; len(b) > 0; {
		field, typ, l := protowire.ConsumeTag(b)
		if l < 0 {
			return 0, ""
		}
		b = b[l:]
		switch {
		case field == 1 && typ == protowire.VarintType:
			v, l := protowire.ConsumeVarint(b)
			if l < 0 {
				return 0, ""
			}
			n, b = int64(v), b[l:]
		case field == 2 && typ == protowire.BytesType:
			v, l := protowire.ConsumeBytes(b)
			if l < 0 {
				return 0, ""
			}
			why, b = string(v), b[l:]
		default:
			if l = protowire.ConsumeFieldValue(field, typ, b); l < 0 {
				return 0, ""
			}
			b = b[l:]
		}
	}
	return n, why
}

// find returns the first field of a number and type.
func find(b []byte, want protowire.Number, wantType protowire.Type) ([]byte, bool) {
	for len(b) > 0 {
		field, typ, l := protowire.ConsumeTag(b)
		if l < 0 {
			return nil, false
		}
		b = b[l:]
		if field == want && typ == wantType {
			v, l := protowire.ConsumeBytes(b)
			return v, l >= 0
		}
		if l = protowire.ConsumeFieldValue(field, typ, b); l < 0 {
			return nil, false
		}
		b = b[l:]
	}
	return nil, false
}
