package anthropic

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
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
	ids    map[string]bool // of calls

	stop       string
	counts     counts
	id, served string
}

// block is one block of the answer.
type block struct {
	kind      string
	start     json.RawMessage // as it began
	input     string          // the arguments that it began with
	text      strings.Builder // or the reasoning, or the arguments
	signature strings.Builder
	citations []json.RawMessage
	grown     bool // pieces came
	strange   bool // pieces came of which it is not known what they add to
	id, name  string
	made      bool // the id is ours
	call      int  // the place among the calls
}

func newDecoder(requested string, emit func(model.Part) error) *decoder {
	return &decoder{model: requested, emit: emit, places: map[int]*block{}, ids: map[string]bool{}}
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
				return d.end() // whole after its stop reason, else incomplete
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
	if p, ok := plainPiece(data); ok {
		return false, d.piece(p)
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
		if e.Delta.Type == "citations_delta" {
			return false, d.citation(e.Index, e.Delta.Citation)
		}
		return false, d.piece(e.piece())
	case "content_block_stop":
		if b := d.places[e.Index]; b != nil {
			return false, d.startInput(b)
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
	if raw[0] != '{' {
		return transport.Protocolf("a block is not an object")
	}
	if len(d.blocks) == maxBlocks {
		return transport.Protocolf("the answer holds more than %d blocks", maxBlocks)
	}
	b := &block{kind: string(w.Type), start: validUTF8(raw), id: string(w.ID), name: string(w.Name), citations: w.Citations}
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
		if b.id == "" || d.ids[b.id] {
			b.id, b.made = "toolu_"+rand.Text(), true
		}
		d.ids[b.id] = true
		if err := d.emit(model.Part{Kind: model.PartToolCallDelta, Index: b.call, ID: b.id, Name: b.name}); err != nil {
			return err
		}
	}
	if in := string(bytes.TrimSpace(w.Input)); in != "" && in != "{}" && in != "null" {
		b.input = strings.ToValidUTF8(in, "\uFFFD")
	}
	return nil
}

// validUTF8 is a copy that may be kept.
func validUTF8(b []byte) []byte { return bytes.ToValidUTF8(bytes.Clone(b), []byte("\uFFFD")) }

// startInput takes the arguments that a block began with, where no pieces of them came.
func (d *decoder) startInput(b *block) error {
	in := b.input
	b.input = ""
	if in == "" || b.kind == "text" || b.kind == "thinking" {
		return nil
	}
	b.text.WriteString(in)
	return d.showArgs(b, in)
}

// at is the block of an index. Text that belongs to no block cannot be placed, and is not dropped in silence.
func (d *decoder) at(index int) (*block, error) {
	if b := d.places[index]; b != nil {
		return b, nil
	}
	return nil, transport.Protocolf("a piece belongs to the block %d, which did not begin", index)
}

// piece adds to a block. What is not known is not shown.
func (d *decoder) piece(p piece) error {
	b, err := d.at(p.index)
	if err != nil {
		return err
	}
	b.grown = true
	switch p.kind {
	case "text_delta":
		return d.textPiece(b, p.text)
	case "thinking_delta":
		return d.thinkingPiece(b, p.text)
	case "signature_delta":
		b.signature.WriteString(p.text)
	case "input_json_delta":
		return d.argsPiece(b, p.text)
	default:
		b.strange = true
	}
	return nil
}

func (d *decoder) citation(index int, raw json.RawMessage) error {
	b, err := d.at(index)
	if err != nil || len(raw) == 0 {
		return err
	}
	b.grown = true
	b.citations = append(b.citations, validUTF8(raw))
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

// argsPiece takes a piece of arguments.
func (d *decoder) argsPiece(b *block, s string) error {
	if s == "" || b.kind == "text" || b.kind == "thinking" {
		return nil
	}
	b.input = "" // pieces count more than what the block began with
	b.text.WriteString(s)
	return d.showArgs(b, s)
}

// showArgs emits a piece of arguments. Those of the server's own tools are kept and not shown.
func (d *decoder) showArgs(b *block, s string) error {
	if b.kind != "tool_use" {
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
		if err := d.startInput(b); err != nil {
			return err
		}
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
