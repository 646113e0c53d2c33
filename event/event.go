// Package event is the whole vocabulary of the event log: every kind of event and its payload.
//
// An event is one fact of a run, numbered by (run, seq) from 1 without gaps, and never changed. Code that observes a
// fact makes a Fact; the store gives it its seq and time when it is committed. The package knows no store and no
// transport.
package event

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SchemaVersion is the version of the payloads, sent in each of them.
const SchemaVersion = "1"

// Type names a kind of event.
type Type string

// Event is one committed fact of a run.
type Event struct {
	RunID     string
	Seq       int64
	Type      Type
	Timestamp time.Time
	Payload   json.RawMessage
}

// ID is the event's cursor in its long form, "run:seq".
func (e Event) ID() string { return e.RunID + ":" + strconv.FormatInt(e.Seq, 10) }

// MarshalJSON writes {id, run_id, seq, type, timestamp, payload}.
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends the event's JSON to b. The payload must be valid JSON, which Encode guarantees.
func (e Event) AppendJSON(b []byte) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, e.RunID...)
	b = append(b, ':')
	b = strconv.AppendInt(b, e.Seq, 10)
	b = append(b, `","run_id":"`...)
	b = append(b, e.RunID...)
	b = append(b, `","seq":`...)
	b = strconv.AppendInt(b, e.Seq, 10)
	b = append(b, `,"type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","timestamp":"`...)
	b = e.Timestamp.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","payload":`...)
	if len(e.Payload) == 0 {
		b = append(b, '{', '}')
	} else {
		b = append(b, e.Payload...)
	}
	return append(b, '}')
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Event) UnmarshalJSON(data []byte) error {
	var w struct {
		RunID     string          `json:"run_id"`
		Seq       int64           `json:"seq"`
		Type      Type            `json:"type"`
		Timestamp time.Time       `json:"timestamp"`
		Payload   json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	*e = Event(w)
	return nil
}

// Terminal reports whether the kind ends a run: nothing follows it.
func (t Type) Terminal() bool { return t == RunCompleted || t == RunFailed || t == RunCancelled }

// Payload is the content of one kind of event. The implementations are the structs of payloads.go.
type Payload interface{ EventType() Type }

// Fact is an event before it is committed. Step is the number of the step that it belongs to, 0 outside of steps.
type Fact struct {
	Step    int
	Payload Payload
}

// Type is the kind of the fact.
func (f Fact) Type() Type { return f.Payload.EventType() }

// Encode writes the payload as it is stored and sent: the payload's own members after schema_version,
// conversation_id and step.
func Encode(conversationID string, f Fact) (json.RawMessage, error) {
	body, err := marshal(f.Payload)
	if err != nil {
		return nil, fmt.Errorf("event: encode %s: %w", f.Type(), err)
	}
	b := make([]byte, 0, len(body)+len(conversationID)+64)
	b = append(b, `{"schema_version":"`+SchemaVersion+`","conversation_id":`...)
	b = strconv.AppendQuote(b, conversationID) // ids are plain ASCII
	b = append(b, `,"step":`...)
	b = strconv.AppendInt(b, int64(f.Step), 10)
	if len(body) > 2 {
		b = append(b, ',')
		return append(b, body[1:]...), nil
	}
	return append(b, '}'), nil
}

// Decode reads a payload of the kind t. An unknown kind is an error, so that a reader never takes it for another.
func Decode(t Type, data []byte) (Payload, error) {
	mk, ok := payloads[t]
	if !ok {
		return nil, fmt.Errorf("event: unknown type %q", t)
	}
	p := mk()
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("event: decode %s: %w", t, err)
	}
	return p, nil
}

// ParseCursor reads a cursor of the run: the seq alone or "run:seq". The empty cursor is 0, the start of the log. A
// garbled one and one that names another run are errors (never a silent replay of the wrong place).
func ParseCursor(runID, cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	seq := cursor
	if i := strings.LastIndexByte(cursor, ':'); i >= 0 {
		if cursor[:i] != runID {
			return 0, fmt.Errorf("cursor %q belongs to another run", cursor)
		}
		seq = cursor[i+1:]
	}
	n, err := strconv.ParseInt(seq, 10, 64)
	if err != nil || n < 0 || strings.HasPrefix(seq, "+") {
		return 0, fmt.Errorf("cursor %q is neither a seq nor run:seq", cursor)
	}
	return n, nil
}
