package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
	"github.com/harness-go/harness/model/wire/sse"
	"github.com/harness-go/harness/model/wire/transport"
)

// The bounds of one answer, far beyond what a model writes.
const (
	maxCalls  = 1024
	maxBlocks = 1 << 16
)

// decoder gathers one answer. Deltas leave through emit as they come; whole items and the finish leave at the end, when
// it is known whether the answer was cut.
type decoder struct {
	model string // as requested: the tag of raw items
	emit  func(model.Part) error

	blocks []*block
	places map[int]*block // by the index on the wire
	calls  int

	stop       string
	counts     counts
	id, served string
}

// block is one block of the answer.
type block struct {
	kind      string
	start     json.RawMessage // as it began
	text      strings.Builder // or the reasoning, or the arguments
	signature strings.Builder
	citations []json.RawMessage
	id, name  string
	call      int // the place among the calls
}

func newDecoder(requested string, emit func(model.Part) error) *decoder {
	return &decoder{model: requested, emit: emit, places: map[int]*block{}}
}

// read decodes the whole answer: events, or one JSON object from a server that does not stream.
func read(src io.Reader, maxEvent int, d *decoder) error {
	return transport.Read(src, maxEvent, func(events *sse.Reader) error { return readEvents(events, d) }, d.object)
}

func readEvents(events *sse.Reader, d *decoder) error {
	for {
		ev, err := events.Next()
		if err != nil {
			// The answer is whole once its stop reason came.
			if d.stop != "" || errors.Is(err, io.EOF) {
				return d.end()
			}
			return err
		}
		done, err := d.feed(bytes.TrimSpace(ev.Data), ev.Name)
		if err != nil {
			if ev.Cut && transport.IsProtocol(err) {
				return transport.ErrIncomplete
			}
			return err
		}
		if done {
			return d.end()
		}
	}
}

// object takes a whole answer.
func (d *decoder) object(body []byte) error {
	var e eventJSON
	if err := json.Unmarshal(body, &e); err != nil {
		return transport.Protocolf("the answer cannot be read: %v", err)
	}
	if err := transport.ParseError(e.Error); err != nil {
		return err
	}
	d.begin(&e.messageJSON)
	d.counts.take(e.Usage)
	for i, raw := range e.Content {
		if err := d.start(i, raw); err != nil {
			return err
		}
	}
	d.stop = string(e.StopReason)
	return d.end()
}

// feed takes the data of one event. Events that are not known are ignored.
func (d *decoder) feed(data []byte, event string) (done bool, err error) {
	if len(data) == 0 {
		return false, nil
	}
	if data[0] != '{' {
		switch event {
		case "error":
			return false, &transport.APIError{Message: string(data)}
		case "", "message":
			return false, transport.Protocolf("an event of the stream is not a JSON object")
		}
		return false, nil
	}
	if index, s, ok := textDelta(data); ok {
		if b := d.places[index]; b != nil && b.kind == "text" {
			return false, d.textPiece(b, s)
		}
		return false, nil
	}
	var e eventJSON
	if err := json.Unmarshal(data, &e); err != nil {
		return false, transport.Protocolf("an event of the stream cannot be read: %v", err)
	}
	if err := transport.ParseError(e.Error); err != nil {
		return false, err
	}
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			d.begin(e.Message)
			d.counts.take(e.Message.StartUsage)
			for i, raw := range e.Message.Content {
				if err := d.start(i, raw); err != nil {
					return false, err
				}
			}
		}
	case "content_block_start":
		return false, d.start(e.Index, e.Block)
	case "content_block_delta":
		if b := d.places[e.Index]; b != nil {
			return false, d.delta(b, &e.Delta)
		}
	case "message_delta":
		d.counts.take(e.Usage)
		if e.Delta.StopReason != "" {
			d.stop = string(e.Delta.StopReason)
		}
	case "message_stop":
		return true, nil
	case "error":
		return false, &transport.APIError{Message: "the server ended the answer with an error", Type: "error"}
	}
	return false, nil
}

// textDelta reads the most frequent event without a parser: a piece of text without escapes, in the form in which the
// service writes it. Anything else goes the long way.
func textDelta(data []byte) (index int, text string, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"content_block_delta","index":`))
	if !ok {
		return 0, "", false
	}
	i := 0
	for ; i < len(rest) && i < 6 && rest[i] >= '0' && rest[i] <= '9'; i++ {
		index = index*10 + int(rest[i]-'0')
	}
	if i == 0 {
		return 0, "", false
	}
	if rest, ok = bytes.CutPrefix(rest[i:], []byte(`,"delta":{"type":"text_delta","text":"`)); !ok {
		return 0, "", false
	}
	rest = bytes.TrimRight(bytes.TrimSuffix(rest, []byte("}")), " ")
	if rest, ok = bytes.CutSuffix(rest, []byte(`"}`)); !ok {
		return 0, "", false
	}
	for _, c := range rest {
		if c == '"' || c == '\\' || c < ' ' || c >= 0x80 {
			return 0, "", false
		}
	}
	return index, string(rest), true
}

func (d *decoder) begin(m *messageJSON) {
	d.id, d.served = string(m.ID), string(m.Model)
}

// start takes a block as it begins. What it holds already counts as its first piece.
func (d *decoder) start(index int, raw json.RawMessage) error {
	var w struct {
		Type      transport.Loose   `json:"type"`
		Text      transport.Loose   `json:"text"`
		Thinking  transport.Loose   `json:"thinking"`
		Signature transport.Loose   `json:"signature"`
		Citations []json.RawMessage `json:"citations"`
		ID        transport.Loose   `json:"id"`
		Name      transport.Loose   `json:"name"`
		Input     json.RawMessage   `json:"input"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return transport.Protocolf("a block cannot be read: %v", err)
	}
	if len(d.blocks) == maxBlocks {
		return transport.Protocolf("the answer holds more than %d blocks", maxBlocks)
	}
	b := &block{kind: string(w.Type), start: bytes.ToValidUTF8(bytes.Clone(raw), []byte("\uFFFD")), id: string(w.ID), name: string(w.Name), citations: w.Citations}
	d.blocks = append(d.blocks, b)
	d.places[index] = b
	switch b.kind {
	case "text":
		return d.textPiece(b, string(w.Text))
	case "thinking":
		b.signature.WriteString(string(w.Signature))
		return d.thinkingPiece(b, string(w.Thinking))
	case "tool_use":
		if d.calls == maxCalls {
			return transport.Protocolf("the answer holds more than %d tool calls", maxCalls)
		}
		b.call = d.calls
		d.calls++
		if err := d.emit(model.Part{Kind: model.PartToolCallDelta, Index: b.call, ID: b.id, Name: b.name}); err != nil {
			return err
		}
	}
	if in := string(bytes.TrimSpace(w.Input)); b.kind != "text" && in != "" && in != "{}" && in != "null" {
		return d.argsPiece(b, in)
	}
	return nil
}

func (d *decoder) delta(b *block, p *deltaJSON) error {
	switch p.Type {
	case "text_delta":
		return d.textPiece(b, string(p.Text))
	case "thinking_delta":
		return d.thinkingPiece(b, string(p.Thinking))
	case "signature_delta":
		b.signature.WriteString(string(p.Signature))
	case "input_json_delta":
		return d.argsPiece(b, string(p.Partial))
	case "citations_delta":
		b.citations = append(b.citations, bytes.Clone(p.Citation))
	}
	return nil
}

func (d *decoder) textPiece(b *block, s string) error {
	if s == "" || b.kind != "text" {
		return nil
	}
	b.text.WriteString(s)
	return d.emit(model.Part{Kind: model.PartTextDelta, Text: s})
}

func (d *decoder) thinkingPiece(b *block, s string) error {
	if s == "" || b.kind != "thinking" {
		return nil
	}
	b.text.WriteString(s)
	return d.emit(model.Part{Kind: model.PartReasoningDelta, Text: s})
}

// argsPiece takes a piece of arguments. Those of the server's own tools are kept and not shown.
func (d *decoder) argsPiece(b *block, s string) error {
	b.text.WriteString(s)
	if s == "" || b.kind != "tool_use" {
		return nil
	}
	return d.emit(model.Part{Kind: model.PartToolCallDelta, Index: b.call, ID: b.id, Name: b.name, Text: s})
}

// end emits the whole items in the order of the answer and then the finish.
func (d *decoder) end() error {
	if d.stop == "" {
		return transport.ErrIncomplete
	}
	finish := d.finish()
	cut := finish.Unified == ai.FinishLength || finish.Unified == ai.FinishContentFilter
	for _, b := range d.blocks {
		p, err := d.item(b, cut)
		if err != nil {
			return err
		}
		if p.Kind == 0 {
			continue
		}
		if err := d.emit(p); err != nil {
			return err
		}
	}
	return d.emit(model.Part{
		Kind: model.PartFinish, Finish: finish, Usage: d.counts.usage(), ResponseID: d.id, ServedModel: d.served,
	})
}

// item is a block as it goes into the transcript; the zero part where nothing of it is to be kept. A text that the
// request's encoder writes anew just as well has no raw form. Reasoning without a signature was cut and cannot be
// replayed.
func (d *decoder) item(b *block, cut bool) (model.Part, error) {
	p := model.Part{Kind: model.PartContent}
	var more map[string]any
	switch b.kind {
	case "text":
		if len(b.citations) == 0 {
			p.Content = ai.TextPart{Text: b.text.String()}
			if b.text.Len() == 0 {
				return model.Part{}, nil
			}
			return p, nil
		}
		more = map[string]any{"text": b.text.String(), "citations": b.citations}
	case "thinking":
		if b.signature.Len() == 0 {
			p.Content = ai.ReasoningPart{Text: b.text.String()}
			if b.text.Len() == 0 {
				return model.Part{}, nil
			}
			return p, nil
		}
		more = map[string]any{"thinking": b.text.String(), "signature": b.signature.String()}
	case "tool_use":
		args := b.text.String()
		if strings.TrimSpace(args) == "" {
			args = "{}"
		}
		// The calls of a cut answer are marked, all of them: what the model would have said next is not known.
		p.Index, p.ID, p.Name, p.Truncated = b.call, b.id, b.name, cut
		call := ai.ToolCallPart{ToolCallID: b.id, ToolName: b.name, Input: args}
		if s := strings.TrimSpace(args); s[0] == '{' && json.Valid([]byte(s)) {
			raw, err := d.raw(b, map[string]any{"input": json.RawMessage(s)})
			if err != nil {
				return p, err
			}
			call.Raw = raw
		}
		p.Content = call
		return p, nil
	default:
		if s := strings.TrimSpace(b.text.String()); s != "" && json.Valid([]byte(s)) {
			more = map[string]any{"input": json.RawMessage(s)}
		} else if s != "" {
			return model.Part{}, nil // it was cut; half of it cannot be replayed
		}
	}
	raw, err := d.raw(b, more)
	if err != nil {
		return p, err
	}
	switch b.kind {
	case "thinking", "redacted_thinking":
		p.Content = ai.ReasoningPart{Text: b.text.String(), Raw: raw}
	case "text":
		p.Content = ai.TextPart{Text: b.text.String(), Raw: raw}
	default: // of a kind that is not known here: it says nothing and is replayed in its place
		p.Content = ai.TextPart{Raw: raw}
	}
	return p, nil
}

// raw is a block as the service wants it back: as it began, with what came later in its members.
func (d *decoder) raw(b *block, more map[string]any) (*ai.RawItem, error) {
	item := b.start
	if len(more) > 0 {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(b.start, &members); err != nil {
			return nil, transport.Protocolf("a block cannot be kept: %v", err)
		}
		for name, v := range more {
			m, err := history.Marshal(v)
			if err != nil {
				return nil, transport.Protocolf("a block cannot be kept: %v", err)
			}
			members[name] = m
		}
		item = ordered(members)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, item); err != nil {
		return nil, transport.Protocolf("a block cannot be kept: %v", err)
	}
	return &ai.RawItem{Wire: Wire, Model: d.model, JSON: compact.Bytes()}, nil
}

// ordered writes an object with its type first and the other members by name.
func ordered(members map[string]json.RawMessage) json.RawMessage {
	names := slices.Sorted(maps.Keys(members))
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case a == "type":
			return -1
		case b == "type":
			return 1
		}
		return 0
	})
	var out bytes.Buffer
	for i, n := range names {
		if i > 0 {
			out.WriteByte(',')
		}
		key, _ := history.Marshal(n) // a string always marshals
		out.Write(key)
		out.WriteByte(':')
		out.Write(members[n])
	}
	return append(append([]byte{'{'}, out.Bytes()...), '}')
}

// finish unifies the stop reason. A reason that is not known, and pause_turn, are given as they are.
func (d *decoder) finish() ai.FinishReason {
	r := ai.FinishReason{Raw: d.stop}
	switch d.stop {
	case "end_turn", "stop_sequence", "tool_use":
		r.Unified = ai.FinishStop
		if d.calls > 0 {
			r.Unified = ai.FinishToolCalls
		}
	case "max_tokens", "model_context_window_exceeded":
		r.Unified = ai.FinishLength
	case "refusal":
		r.Unified = ai.FinishContentFilter
	default:
		r.Unified = ai.FinishOther
	}
	return r
}
