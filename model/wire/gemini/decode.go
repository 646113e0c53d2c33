package gemini

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
	maxCalls = 1024
	maxItems = 1 << 16
)

// decoder gathers one answer. Deltas leave through emit as they come; whole items and the finish leave at the end,
// when it is known whether the answer was cut.
type decoder struct {
	model string // as requested: the tag of raw items
	emit  func(model.Part) error
	chunk chunk
	fast  frame

	items []*item
	calls int
	ids   map[string]bool

	finish, message string
	blocked         string
	id, served      string
}

type itemKind uint8

const (
	itemText itemKind = iota + 1
	itemThought
	itemCall
)

// item is one item of the answer. Plain texts that follow each other are one item; a part that has a raw form is an
// item of its own.
type item struct {
	kind     itemKind
	text     strings.Builder
	raw      []byte
	id, name string
	input    string
}

func newDecoder(requested string, emit func(model.Part) error) *decoder {
	return &decoder{model: requested, emit: emit, ids: map[string]bool{}}
}

// read decodes the whole answer: events, one JSON object, or the array of objects that a server sends which does not
// know alt=sse.
func read(src io.Reader, maxEvent int, d *decoder) error {
	return transport.Read(src, maxEvent, func(events *sse.Reader) error { return readEvents(events, d) },
		func(body []byte) error {
			list := []json.RawMessage{body}
			if body[0] == '[' {
				if err := json.Unmarshal(body, &list); err != nil {
					return transport.Protocolf("the answer cannot be read: %v", err)
				}
			}
			for _, data := range list {
				if err := d.feed(data, ""); err != nil {
					return err
				}
			}
			return d.end()
		})
}

func readEvents(events *sse.Reader, d *decoder) error {
	for {
		ev, err := events.Next()
		if err != nil {
			// The answer is whole once its reason came; what breaks after that costs at most the usage.
			if d.finish != "" || errors.Is(err, io.EOF) {
				return d.end()
			}
			return err
		}
		data := bytes.TrimSpace(ev.Data)
		if string(data) == "[DONE]" {
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
	if p, usage, ok := d.fast.match(data); ok && event == "" {
		d.chunk.UsageMetadata.take(usage)
		return d.part(p)
	}
	c := &d.chunk
	c.reset()
	if err := json.Unmarshal(data, c); err != nil {
		return transport.Protocolf("an event of the stream cannot be read: %v", err)
	}
	if e := transport.ParseError(c.Error); e != nil {
		return e
	}
	if len(c.Candidates) == 0 && (event == "error" || (c.Message != "" && (c.Code != "" || c.Status != ""))) {
		return transport.ParseError(data)
	}
	if d.id == "" {
		d.id = string(c.ResponseID)
	}
	if d.served == "" {
		d.served = string(c.ModelVersion)
	}
	if r := c.PromptFeedback.BlockReason; r != "" {
		d.blocked = string(r)
	}
	if event == "" {
		d.fast.learn(data, c, c.UsageMetadata.latest())
	}
	for i := range c.Candidates {
		if c.Candidates[i].Index != 0 {
			continue // one answer was asked for
		}
		if err := d.candidate(&c.Candidates[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) candidate(c *candidate) error {
	for i := range c.Content.Parts {
		p, err := readPart(c.Content.Parts[i].raw)
		if err != nil {
			return err
		}
		if err := d.part(p); err != nil {
			return err
		}
	}
	if c.FinishReason != "" {
		d.finish, d.message = string(c.FinishReason), string(c.FinishMessage)
	}
	return nil
}

func (d *decoder) part(p content) error {
	if p.call != nil {
		return d.call(p)
	}
	if p.text == "" && p.raw == nil {
		return nil
	}
	kind, delta := itemText, model.PartTextDelta
	if p.thought {
		kind, delta = itemThought, model.PartReasoningDelta
	}
	var at *item
	if n := len(d.items); n > 0 && p.raw == nil && d.items[n-1].kind == kind && d.items[n-1].raw == nil {
		at = d.items[n-1]
	} else {
		at = &item{kind: kind, raw: p.raw}
		if err := d.hold(at); err != nil {
			return err
		}
	}
	if p.text == "" {
		return nil
	}
	at.text.WriteString(p.text)
	return d.emit(model.Part{Kind: delta, Text: p.text})
}

func (d *decoder) hold(it *item) error {
	if len(d.items) == maxItems {
		return transport.Protocolf("the answer holds more than %d items", maxItems)
	}
	d.items = append(d.items, it)
	return nil
}

// call takes a whole call. Its deltas are its name and then its arguments, as on wires that stream them.
func (d *decoder) call(p content) error {
	if d.calls == maxCalls {
		return transport.Protocolf("the answer holds more than %d tool calls", maxCalls)
	}
	args, err := arguments(p.call.Args)
	if err != nil {
		return transport.Protocolf("the arguments of a call cannot be read: %v", err)
	}
	c := &item{kind: itemCall, raw: p.raw, id: string(p.call.ID), name: string(p.call.Name), input: args}
	if c.id == "" || d.ids[c.id] {
		c.id = "call_" + rand.Text()
	}
	d.ids[c.id] = true
	index := d.calls
	d.calls++
	if err := d.hold(c); err != nil {
		return err
	}
	if err := d.emit(model.Part{Kind: model.PartToolCallDelta, Index: index, ID: c.id, Name: c.name}); err != nil {
		return err
	}
	if c.input == "" {
		c.input = "{}"
		return nil
	}
	return d.emit(model.Part{Kind: model.PartToolCallDelta, Index: index, ID: c.id, Name: c.name, Text: c.input})
}

// arguments is the text of a call's arguments: the object, or the text that a server sends in its place. It is empty
// where there are none.
func arguments(raw json.RawMessage) (string, error) {
	switch {
	case null(raw):
		return "", nil
	case raw[0] != '"':
		return string(bytes.ToValidUTF8(raw, []byte("\uFFFD"))), nil
	}
	s, err := transport.Unquote(raw)
	if strings.TrimSpace(s) == "" {
		s = ""
	}
	return s, err
}

// end emits the whole items in the order of the answer and then the finish.
func (d *decoder) end() error {
	finish, err := d.reason()
	if err != nil {
		return err
	}
	cut := finish.Unified == ai.FinishLength || finish.Unified == ai.FinishContentFilter
	index := 0
	for _, it := range d.items {
		p := model.Part{Kind: model.PartContent}
		switch it.kind {
		case itemText:
			p.Content = ai.TextPart{Text: it.text.String(), Raw: d.raw(it)}
		case itemThought:
			p.Content = ai.ReasoningPart{Text: it.text.String(), Raw: d.raw(it)}
		case itemCall:
			// The calls of a cut answer are marked, all of them: what the model would have said next is not known.
			p.Index, p.ID, p.Name, p.Truncated = index, it.id, it.name, cut
			p.Content = ai.ToolCallPart{ToolCallID: it.id, ToolName: it.name, Input: it.input, Raw: d.raw(it)}
			index++
		}
		if err := d.emit(p); err != nil {
			return err
		}
	}
	return d.emit(model.Part{
		Kind: model.PartFinish, Finish: finish, Usage: parseUsage(d.chunk.UsageMetadata.raw), ResponseID: d.id, ServedModel: d.served,
	})
}

func (d *decoder) raw(it *item) *ai.RawItem {
	if it.raw == nil {
		return nil
	}
	return &ai.RawItem{Wire: Wire, Model: d.model, JSON: it.raw}
}
