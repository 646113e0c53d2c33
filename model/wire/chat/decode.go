package chat

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
	"github.com/harness-go/harness/model/wire/sse"
	"github.com/harness-go/harness/model/wire/transport"
)

// maxCalls bounds the tool calls of one answer.
const maxCalls = 1024

// decoder gathers one answer. Parts leave through emit as they come; whole items and the finish leave at the end,
// when it is known whether the answer was cut.
type decoder struct {
	model string // as requested: the tag of raw items
	emit  func(model.Part) error
	chunk chunk
	fast  template

	text, reasoning strings.Builder
	textFirst       bool
	field           string // the reasoning member that the server uses
	details         []json.RawMessage
	calls           []*call
	slots           map[int]int // wire index → place in calls

	finish     string
	usage      ai.Usage
	id, served string
}

type call struct {
	id, name  string
	args      strings.Builder
	extra     json.RawMessage
	announced bool
}

func newDecoder(requested string, emit func(model.Part) error) *decoder {
	return &decoder{model: requested, emit: emit, slots: map[int]int{}}
}

// read decodes the whole answer: events, or one JSON object from a server that does not stream.
func read(src io.Reader, maxEvent int, d *decoder) error {
	return transport.Read(src, maxEvent, func(events *sse.Reader) error { return readEvents(events, d) },
		func(body []byte) error {
			if err := d.feed(body, ""); err != nil {
				return err
			}
			return d.end()
		})
}

func readEvents(events *sse.Reader, d *decoder) error {
	for {
		ev, err := events.Next()
		if err != nil {
			// The answer is whole once its reason came; what breaks after that costs at most the usage.
			if d.finish != "" {
				return d.end()
			}
			if errors.Is(err, io.EOF) {
				return transport.ErrIncomplete
			}
			return err
		}
		data := bytes.TrimSpace(ev.Data)
		if string(data) == "[DONE]" {
			if d.finish == "" {
				return transport.ErrIncomplete
			}
			return d.end()
		}
		if err := d.feed(data, ev.Name); err != nil {
			if ev.Cut && transport.IsProtocol(err) {
				return transport.ErrIncomplete
			}
			return err
		}
	}
}

// feed takes the data of one event. Events of other names and objects without an answer in them are ignored.
func (d *decoder) feed(data []byte, event string) error {
	if len(data) == 0 {
		return nil
	}
	if data[0] != '{' {
		switch event {
		case "error":
			return &transport.APIError{Message: string(data)}
		case "", "message":
			return transport.Protocolf("an event of the stream is not a JSON object")
		}
		return nil
	}
	if m, ok := d.fast.match(data); ok && event == "" {
		return d.delta(m)
	}
	d.reset()
	c := &d.chunk
	if err := json.Unmarshal(data, c); err != nil {
		return transport.Protocolf("an event of the stream cannot be read: %v", err)
	}
	if e := transport.ParseError(c.Error); e != nil {
		return e
	}
	if len(c.Choices) == 0 && (event == "error" || c.Type == "error" || c.Object == "error" || (c.Message != "" && c.Code != "")) {
		return &transport.APIError{Message: string(c.Message), Code: string(c.Code), Type: flatType(c)}
	}
	if d.id == "" {
		d.id = string(c.ID)
	}
	if d.served == "" {
		d.served = string(c.Model)
	}
	if u, ok := parseUsage(c.Usage); ok {
		d.usage = u // the last one is the whole
	}
	if event == "" {
		d.fast.learn(data, c)
	}
	for i := range c.Choices {
		if c.Choices[i].Index != 0 {
			continue // one answer was asked for
		}
		if err := d.choice(&c.Choices[i]); err != nil {
			return err
		}
	}
	return nil
}

func flatType(c *chunk) string {
	if c.Type != "error" {
		return string(c.Type)
	}
	return ""
}

// reset empties the chunk and keeps its memory. The elements are cleared too: decoding leaves alone what an event
// does not mention.
func (d *decoder) reset() {
	choices := d.chunk.Choices[:cap(d.chunk.Choices)]
	clear(choices)
	d.chunk = chunk{Choices: choices[:0]}
}

func (d *decoder) choice(c *choice) error {
	for _, m := range []*delta{&c.Delta, &c.Message} {
		if err := d.delta(m); err != nil {
			return err
		}
	}
	if c.FinishReason == "error" {
		return &transport.APIError{Message: "the server ended the answer with an error", Type: "error"}
	}
	if c.FinishReason != "" {
		d.finish = string(c.FinishReason)
	}
	return nil
}

func (d *decoder) delta(m *delta) error {
	reasoning, field := string(m.ReasoningContent), "reasoning_content"
	if reasoning == "" {
		reasoning, field = string(m.Reasoning), "reasoning"
	}
	for _, raw := range m.ReasoningDetails {
		d.details = append(d.details, append(json.RawMessage(nil), validUTF8(raw)...))
	}
	if reasoning != "" {
		d.field = field
		d.reasoning.WriteString(reasoning)
		if err := d.emit(model.Part{Kind: model.PartReasoningDelta, Text: reasoning}); err != nil {
			return err
		}
	}
	for _, text := range []looseText{m.Content, m.Refusal} {
		if text == "" {
			continue
		}
		if d.text.Len() == 0 {
			d.textFirst = d.reasoning.Len() == 0 && len(d.details) == 0
		}
		d.text.WriteString(string(text))
		if err := d.emit(model.Part{Kind: model.PartTextDelta, Text: string(text)}); err != nil {
			return err
		}
	}
	for i := range m.ToolCalls {
		if err := d.fragment(&m.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) fragment(f *fragment) error {
	n, err := d.slot(f)
	if err != nil {
		return err
	}
	c := d.calls[n]
	if c.id == "" {
		c.id = string(f.ID)
	}
	if c.name == "" {
		c.name = string(f.Function.Name)
	}
	if !null(f.ExtraContent) {
		c.extra = append(json.RawMessage(nil), validUTF8(f.ExtraContent)...)
	}
	args := string(f.Function.Arguments)
	c.args.WriteString(args)
	if args == "" && (c.announced || c.name == "") {
		return nil
	}
	c.announced = c.announced || c.name != ""
	return d.emit(model.Part{Kind: model.PartToolCallDelta, Index: n, ID: c.id, Name: c.name, Text: args})
}

// slot finds the call that a fragment belongs to. The index is its key; without one it is the id, and without both
// the call that came last. A fragment that names a function under a new id begins another call even where a server
// numbers all its calls 0.
func (d *decoder) slot(f *fragment) (int, error) {
	begins := func(n int) bool {
		c := d.calls[n]
		return f.ID != "" && c.id != "" && string(f.ID) != c.id && f.Function.Name != ""
	}
	if f.Index != nil {
		if n, ok := d.slots[*f.Index]; ok && !begins(n) {
			return n, nil
		}
	} else if last := len(d.calls) - 1; last >= 0 {
		for n, c := range d.calls {
			if f.ID != "" && c.id == string(f.ID) {
				return n, nil
			}
		}
		if f.ID == "" && (f.Function.Name == "" || d.calls[last].name == "") {
			return last, nil
		}
	}
	if len(d.calls) == maxCalls {
		return 0, transport.Protocolf("the answer holds more than %d tool calls", maxCalls)
	}
	n := len(d.calls)
	d.calls = append(d.calls, &call{})
	if f.Index != nil {
		d.slots[*f.Index] = n
	}
	return n, nil
}

// end emits the whole items in the order of the answer and then the finish.
func (d *decoder) end() error {
	if d.finish == "" {
		return transport.ErrIncomplete
	}
	finish := FinishReason(d.finish, len(d.calls) > 0)
	items := []func() error{d.endReasoning, d.endText}
	if d.textFirst {
		items[0], items[1] = items[1], items[0]
	}
	for _, item := range items {
		if err := item(); err != nil {
			return err
		}
	}
	if err := d.endCalls(Cuts(finish.Unified)); err != nil {
		return err
	}
	return d.emit(model.Part{Kind: model.PartFinish, Finish: finish, Usage: d.usage, ResponseID: d.id, ServedModel: d.served})
}

func (d *decoder) endText() error {
	if d.text.Len() == 0 {
		return nil
	}
	return d.emit(model.Part{Kind: model.PartContent, Content: ai.TextPart{Text: d.text.String()}})
}

func (d *decoder) endReasoning() error {
	if d.reasoning.Len() == 0 && len(d.details) == 0 {
		return nil
	}
	text := d.reasoning.String()
	raw := map[string]any{}
	if text != "" {
		raw[d.field] = text
	}
	if len(d.details) > 0 {
		raw["reasoning_details"] = d.details
	}
	item, err := history.Marshal(raw)
	if err != nil {
		return transport.Protocolf("the reasoning cannot be kept: %v", err)
	}
	return d.emit(model.Part{Kind: model.PartContent, Content: ai.ReasoningPart{Text: text, Raw: d.raw(item)}})
}

// endCalls emits the calls. Those of a cut answer are marked, all of them: what the model would have said next is
// not known.
func (d *decoder) endCalls(cut bool) error {
	ids := map[string]bool{}
	for n, c := range d.calls {
		if c.id == "" || ids[c.id] {
			c.id = "call_" + rand.Text()
		}
		ids[c.id] = true
		input := c.args.String()
		if strings.TrimSpace(input) == "" {
			input = "{}"
		}
		p := ai.ToolCallPart{ToolCallID: c.id, ToolName: c.name, Input: input}
		if c.extra != nil {
			item, err := history.Marshal(map[string]json.RawMessage{"extra_content": c.extra})
			if err != nil {
				return transport.Protocolf("a tool call cannot be kept: %v", err)
			}
			p.Raw = d.raw(item)
		}
		if err := d.emit(model.Part{
			Kind: model.PartContent, Index: n, ID: c.id, Name: c.name, Content: p, Truncated: cut,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) raw(item []byte) *ai.RawItem {
	return &ai.RawItem{Wire: Wire, Model: d.model, JSON: item}
}

// FinishReason unifies a finish reason of this wire. What an answer holds decides between stop and tool-calls: several
// servers say "stop" after calls.
func FinishReason(word string, calls bool) ai.FinishReason {
	r := ai.FinishReason{Raw: word}
	switch word {
	case "stop", "tool_calls", "function_call", "eos", "end_turn", "tool_use":
		r.Unified = ai.FinishStop
		if calls {
			r.Unified = ai.FinishToolCalls
		}
	case "length", "max_tokens", "model_length":
		r.Unified = ai.FinishLength
	case "content_filter":
		r.Unified = ai.FinishContentFilter
	default:
		r.Unified = ai.FinishOther
	}
	return r
}

// Cuts reports whether an answer that ended so may lack its end. None of its tool calls may run.
func Cuts(k ai.FinishReasonKind) bool { return k == ai.FinishLength || k == ai.FinishContentFilter }

func validUTF8(b []byte) []byte { return bytes.ToValidUTF8(b, []byte("\uFFFD")) }
