package responses

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
	"github.com/harness-go/harness/model/wire/sse"
	"github.com/harness-go/harness/model/wire/transport"
)

// The bounds of one answer, far beyond what a model writes.
const (
	maxCalls = 1024
	maxItems = 1 << 16
)

// decoder gathers one answer. Deltas leave through emit as they come; whole items and the finish leave at the end, when
// it is known whether the answer was cut.
type decoder struct {
	model string // as requested: the tag of raw items
	emit  func(model.Part) error

	items map[int]*item // by the index on the wire
	calls int

	ended, reason string // the last event's status, and why it is not "completed"
	usage         ai.Usage
	id, served    string
}

// item is one item of the answer.
type item struct {
	done    json.RawMessage // as the server finished it
	kind    string
	text    strings.Builder // what its deltas said
	summary int             // the part of the summary that came last
	id      string          // of a call
	name    string
	call    int // the place among the calls
	args    strings.Builder
}

func newDecoder(requested string, emit func(model.Part) error) *decoder {
	return &decoder{model: requested, emit: emit, items: map[int]*item{}}
}

// read decodes the whole answer: events, or one JSON object from a server that does not stream.
func read(src io.Reader, maxEvent int, d *decoder) error {
	return transport.Read(src, maxEvent, func(events *sse.Reader) error { return readEvents(events, d) },
		func(body []byte) error {
			var r responseJSON
			if err := json.Unmarshal(body, &r); err != nil {
				return transport.Protocolf("the answer cannot be read: %v", err)
			}
			return d.finish(&r, true)
		})
}

func readEvents(events *sse.Reader, d *decoder) error {
	for {
		ev, err := events.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return transport.ErrIncomplete
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
			return nil
		}
	}
}

// eventJSON is one event of a stream.
type eventJSON struct {
	Type         transport.Loose `json:"type"`
	OutputIndex  int             `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        transport.Loose `json:"delta"`
	Item         json.RawMessage `json:"item"`
	Response     *responseJSON   `json:"response"`
	Error        json.RawMessage `json:"error"`
}

// responseJSON is the answer as the first and the last event hold it, and as a server sends it that does not stream.
type responseJSON struct {
	ID         transport.Loose `json:"id"`
	Model      transport.Loose `json:"model"`
	Status     transport.Loose `json:"status"`
	Incomplete struct {
		Reason transport.Loose `json:"reason"`
	} `json:"incomplete_details"`
	Error  json.RawMessage   `json:"error"`
	Usage  json.RawMessage   `json:"usage"`
	Output []json.RawMessage `json:"output"`
}

// feed takes the data of one event. Events that are not known are ignored.
func (d *decoder) feed(data []byte, event string) (done bool, err error) {
	if len(data) == 0 || string(data) == "[DONE]" {
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
	if s, index, ok := textDelta(data); ok {
		return false, d.textDelta(d.at(index), s)
	}
	var e eventJSON
	if err := json.Unmarshal(data, &e); err != nil {
		return false, transport.Protocolf("an event of the stream cannot be read: %v", err)
	}
	switch e.Type {
	case "error":
		if said := transport.ParseError(e.Error); said != nil {
			return false, said
		}
		said := transport.ParseError(data)
		if said == nil {
			said = &transport.APIError{}
		}
		said.Type = "" // it says "error"
		return false, said
	case "response.created", "response.in_progress":
		if r := e.Response; r != nil {
			d.id, d.served = string(r.ID), string(r.Model)
		}
		return false, nil
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if e.Response == nil {
			return false, transport.Protocolf("the last event of the stream holds no response")
		}
		return true, d.finish(e.Response, false)
	case "":
		if said := transport.ParseError(e.Error); said != nil {
			return false, said
		}
		return false, nil
	}
	if e.OutputIndex < 0 || e.OutputIndex > maxItems {
		return false, transport.Protocolf("the answer holds more than %d items", maxItems)
	}
	return false, d.itemEvent(&e)
}

func (d *decoder) itemEvent(e *eventJSON) error {
	switch e.Type {
	case "response.output_item.added":
		return d.added(d.at(e.OutputIndex), e.Item)
	case "response.output_item.done":
		return d.done(d.at(e.OutputIndex), e.Item)
	case "response.output_text.delta", "response.refusal.delta":
		return d.textDelta(d.at(e.OutputIndex), string(e.Delta))
	case "response.reasoning_summary_text.delta":
		it := d.at(e.OutputIndex)
		if e.SummaryIndex != it.summary && it.text.Len() > 0 {
			if err := d.reasoningDelta(it, "\n\n"); err != nil {
				return err
			}
		}
		it.summary = e.SummaryIndex
		return d.reasoningDelta(it, string(e.Delta))
	case "response.reasoning_text.delta":
		return d.reasoningDelta(d.at(e.OutputIndex), string(e.Delta))
	case "response.function_call_arguments.delta":
		return d.argsDelta(d.at(e.OutputIndex), string(e.Delta))
	}
	return nil
}

// textDelta reads the most frequent event without a parser: a piece of text without escapes, in the form in which the
// service writes it. Anything else goes the long way.
func textDelta(data []byte) (text string, index int, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"response.output_text.delta",`))
	if !ok {
		return "", 0, false
	}
	at := bytes.Index(rest, []byte(`"output_index":`))
	if at < 0 || bytes.IndexByte(rest[:at], '\\') >= 0 || bytes.Contains(rest[:at], []byte(`"delta"`)) {
		return "", 0, false
	}
	rest = rest[at+len(`"output_index":`):]
	i := 0
	for ; i < len(rest) && i < 5 && rest[i] >= '0' && rest[i] <= '9'; i++ {
		index = index*10 + int(rest[i]-'0')
	}
	at = bytes.Index(rest, []byte(`"delta":"`))
	if i == 0 || at < 0 || bytes.IndexByte(rest[:at], '\\') >= 0 {
		return "", 0, false
	}
	rest = rest[at+len(`"delta":"`):]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return "", 0, false
	}
	for _, c := range rest[:end] {
		if c == '\\' || c < ' ' || c >= 0x80 {
			return "", 0, false
		}
	}
	if !json.Valid(data) {
		return "", 0, false
	}
	return string(rest[:end]), index, true
}

func (d *decoder) at(index int) *item {
	it := d.items[index]
	if it == nil {
		it = &item{call: -1}
		d.items[index] = it
	}
	return it
}

// itemHead is what is read of an item.
type itemHead struct {
	Type      transport.Loose `json:"type"`
	CallID    transport.Loose `json:"call_id"`
	Name      transport.Loose `json:"name"`
	Arguments transport.Loose `json:"arguments"`
	Encrypted transport.Loose `json:"encrypted_content"`
	Content   []contentHead   `json:"content"`
	Summary   []contentHead   `json:"summary"`
}

type contentHead struct {
	Type    transport.Loose `json:"type"`
	Text    transport.Loose `json:"text"`
	Refusal transport.Loose `json:"refusal"`
}

func (d *decoder) added(it *item, raw json.RawMessage) error {
	var h itemHead
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return transport.Protocolf("an item of the answer cannot be read: %v", err)
	}
	it.kind = string(h.Type)
	if it.kind != "function_call" {
		return nil
	}
	return d.begin(it, &h)
}

func (d *decoder) begin(it *item, h *itemHead) error {
	if it.call >= 0 {
		return nil
	}
	if d.calls == maxCalls {
		return transport.Protocolf("the answer holds more than %d tool calls", maxCalls)
	}
	it.id, it.name, it.call = string(h.CallID), string(h.Name), d.calls
	d.calls++
	return d.emit(model.Part{Kind: model.PartToolCallDelta, Index: it.call, ID: it.id, Name: it.name})
}

// done takes an item as the server finished it. What its deltas did not say is said now.
func (d *decoder) done(it *item, raw json.RawMessage) error {
	var h itemHead
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return transport.Protocolf("an item of the answer cannot be read: %v", err)
	}
	it.kind, it.done = string(h.Type), bytes.ToValidUTF8(bytes.Clone(raw), []byte("\uFFFD"))
	switch it.kind {
	case "message":
		if it.text.Len() > 0 {
			return nil
		}
		for _, c := range h.Content {
			if err := d.textDelta(it, string(c.Text)+string(c.Refusal)); err != nil {
				return err
			}
		}
	case "reasoning":
		if it.text.Len() > 0 {
			return nil
		}
		for _, c := range slices.Concat(h.Summary, h.Content) {
			if it.text.Len() > 0 && c.Text != "" {
				c.Text = "\n\n" + c.Text
			}
			if err := d.reasoningDelta(it, string(c.Text)); err != nil {
				return err
			}
		}
	case "function_call":
		if err := d.begin(it, &h); err != nil {
			return err
		}
		if it.args.Len() == 0 {
			return d.argsDelta(it, string(h.Arguments))
		}
	}
	return nil
}

func (d *decoder) textDelta(it *item, s string) error {
	if s == "" {
		return nil
	}
	it.text.WriteString(s)
	return d.emit(model.Part{Kind: model.PartTextDelta, Text: s})
}

func (d *decoder) reasoningDelta(it *item, s string) error {
	if s == "" {
		return nil
	}
	it.text.WriteString(s)
	return d.emit(model.Part{Kind: model.PartReasoningDelta, Text: s})
}

func (d *decoder) argsDelta(it *item, s string) error {
	it.args.WriteString(s)
	if s == "" || it.call < 0 {
		return nil
	}
	return d.emit(model.Part{Kind: model.PartToolCallDelta, Index: it.call, ID: it.id, Name: it.name, Text: s})
}

// finish takes the last event, or the whole answer of a server that does not stream.
func (d *decoder) finish(r *responseJSON, whole bool) error {
	if said := transport.ParseError(r.Error); said != nil {
		return said
	}
	if whole {
		for i, raw := range r.Output {
			if i > maxItems {
				return transport.Protocolf("the answer holds more than %d items", maxItems)
			}
			if err := d.done(d.at(i), raw); err != nil {
				return err
			}
		}
	}
	if r.ID != "" {
		d.id = string(r.ID)
	}
	if r.Model != "" {
		d.served = string(r.Model)
	}
	d.usage = parseUsage(r.Usage)
	d.ended, d.reason = string(r.Status), string(r.Incomplete.Reason)
	return d.end()
}

// end emits the whole items in the order of the answer and then the finish.
func (d *decoder) end() error {
	finish, err := d.reasonOf()
	if err != nil {
		return err
	}
	cut := finish.Unified == ai.FinishLength || finish.Unified == ai.FinishContentFilter
	order := slices.Sorted(maps.Keys(d.items))
	replayable := true
	for _, i := range order {
		replayable = replayable && d.items[i].replayable()
	}
	for _, i := range order {
		p, err := d.part(d.items[i], cut, replayable)
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
	return d.emit(model.Part{Kind: model.PartFinish, Finish: finish, Usage: d.usage, ResponseID: d.id, ServedModel: d.served})
}

// replayable tells of an item that the service can take back: it was finished, and reasoning came encrypted.
func (it *item) replayable() bool {
	if it.done == nil {
		return false
	}
	if it.kind != "reasoning" {
		return true
	}
	var h itemHead
	return json.Unmarshal(it.done, &h) == nil && h.Encrypted != ""
}

func (d *decoder) part(it *item, cut, replayable bool) (model.Part, error) {
	p := model.Part{Kind: model.PartContent}
	var raw *ai.RawItem
	if replayable {
		var compact bytes.Buffer
		if err := json.Compact(&compact, it.done); err != nil {
			return p, transport.Protocolf("an item of the answer cannot be kept: %v", err)
		}
		raw = &ai.RawItem{Wire: Wire, Model: d.model, JSON: compact.Bytes()}
	}
	switch {
	case it.kind == "function_call" || it.call >= 0:
		args := it.args.String()
		if strings.TrimSpace(args) == "" {
			args = "{}"
		}
		// The calls of a cut answer are marked, all of them: what the model would have said next is not known.
		p.Index, p.ID, p.Name, p.Truncated = it.call, it.id, it.name, cut
		p.Content = ai.ToolCallPart{ToolCallID: it.id, ToolName: it.name, Input: args, Raw: raw}
	case it.kind == "reasoning":
		if it.text.Len() == 0 && raw == nil {
			return model.Part{}, nil
		}
		p.Content = ai.ReasoningPart{Text: it.text.String(), Raw: raw}
	case it.kind == "message" || it.text.Len() > 0:
		if it.text.Len() == 0 {
			return model.Part{}, nil
		}
		p.Content = ai.TextPart{Text: it.text.String(), Raw: raw}
	case raw != nil: // of a kind that is not known here: it says nothing and is replayed in its place
		p.Content = ai.TextPart{Raw: raw}
	default:
		return model.Part{}, nil
	}
	return p, nil
}

// reasonOf unifies how the answer ended.
func (d *decoder) reasonOf() (ai.FinishReason, error) {
	r := ai.FinishReason{Raw: d.ended}
	switch d.ended {
	case "completed":
		r.Unified = ai.FinishStop
		if d.calls > 0 {
			r.Unified = ai.FinishToolCalls
		}
	case "incomplete":
		r.Raw = d.reason
		switch d.reason {
		case "max_output_tokens", "max_tokens":
			r.Unified = ai.FinishLength
		case "content_filter":
			r.Unified = ai.FinishContentFilter
		default:
			r.Unified = ai.FinishOther
		}
	case "failed":
		return r, &transport.APIError{Message: "the server ended the answer with an error", Type: "server_error"}
	default:
		return r, transport.ErrIncomplete
	}
	return r, nil
}
