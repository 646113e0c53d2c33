package responses

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/transport"
)

const (
	kindMessage   = "message"
	kindReasoning = "reasoning"
	kindCall      = "function_call"
)

// item is one item of the answer.
type item struct {
	done    json.RawMessage // as the server finished it
	kind    string
	signed  bool            // reasoning in its encrypted form
	cut     bool            // the server says that it lacks its end
	text    strings.Builder // what its deltas said
	summary int             // the part of the summary that came last
	id      string          // of a call
	made    bool            // the id is ours
	name    string
	call    int // the place among the calls, -1 before it is known to be one
	args    strings.Builder
}

// itemHead is what is read of an item.
type itemHead struct {
	Type      transport.Loose `json:"type"`
	Status    transport.Loose `json:"status"`
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

func (d *decoder) at(index int) *item {
	it := d.items[index]
	if it == nil {
		it = &item{call: -1}
		d.items[index] = it
	}
	return it
}

func (d *decoder) delta(p delta) error {
	it := d.at(p.output)
	switch p.kind {
	case textDelta:
		it.is(kindMessage)
		return d.text(it, p.text)
	case argsDelta:
		it.is(kindCall)
		return d.args(it, p.text)
	}
	it.is(kindReasoning)
	if p.kind == summaryDelta {
		if p.summary != it.summary && it.text.Len() > 0 {
			if err := d.reasoning(it, "\n\n"); err != nil {
				return err
			}
		}
		it.summary = p.summary
	}
	return d.reasoning(it, p.text)
}

// is takes the kind of an item whose beginning was not told from its first delta.
func (it *item) is(kind string) {
	if it.kind == "" {
		it.kind = kind
	}
}

func (d *decoder) text(it *item, s string) error {
	if s == "" {
		return nil
	}
	it.text.WriteString(s)
	return d.emit(model.Part{Kind: model.PartTextDelta, Text: s})
}

func (d *decoder) reasoning(it *item, s string) error {
	if s == "" {
		return nil
	}
	it.text.WriteString(s)
	return d.emit(model.Part{Kind: model.PartReasoningDelta, Text: s})
}

func (d *decoder) args(it *item, s string) error {
	it.args.WriteString(s)
	if s == "" || it.call < 0 {
		return nil
	}
	return d.emit(model.Part{Kind: model.PartToolCallDelta, Index: it.call, ID: it.id, Name: it.name, Text: s})
}

// added takes an item as it begins. Only what a call is called is taken from it: the encrypted reasoning is another one
// here than at its end.
func (d *decoder) added(it *item, raw json.RawMessage) error {
	var h itemHead
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return unreadable(err)
	}
	if it.kind = string(h.Type); it.kind != kindCall || h.CallID == "" {
		return nil
	}
	return d.begin(it, string(h.CallID), string(h.Name))
}

func unreadable(err error) error {
	return transport.Protocolf("an item of the answer cannot be read: %v", err)
}

// begin makes an item a call. A call without an id of its own gets one, and is not replayed as it was.
func (d *decoder) begin(it *item, id, name string) error {
	if it.call >= 0 {
		return nil
	}
	if d.calls == maxCalls {
		return transport.Protocolf("the answer holds more than %d tool calls", maxCalls)
	}
	if it.made = id == "" || d.callIDs[id]; it.made {
		id = "call_" + rand.Text()
	}
	d.callIDs[id] = true
	it.id, it.name, it.call = id, name, d.calls
	d.calls++
	return d.emit(model.Part{Kind: model.PartToolCallDelta, Index: it.call, ID: it.id, Name: it.name, Text: it.args.String()})
}

// done takes an item as the server finished it. What its deltas did not say is said now.
func (d *decoder) done(it *item, raw json.RawMessage) error {
	var h itemHead
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return unreadable(err)
	}
	it.kind, it.done = string(h.Type), bytes.ToValidUTF8(bytes.Clone(raw), []byte("\uFFFD"))
	it.signed, it.cut = h.Encrypted != "", h.Status == statusIncomplete
	switch it.kind {
	case kindMessage:
		if it.text.Len() > 0 {
			return nil
		}
		for _, c := range h.Content {
			if err := d.text(it, string(c.Text)+string(c.Refusal)); err != nil {
				return err
			}
		}
	case kindReasoning:
		if it.text.Len() > 0 {
			return nil
		}
		for _, c := range slices.Concat(h.Summary, h.Content) {
			if it.text.Len() > 0 && c.Text != "" {
				c.Text = "\n\n" + c.Text
			}
			if err := d.reasoning(it, string(c.Text)); err != nil {
				return err
			}
		}
	case kindCall:
		if err := d.begin(it, string(h.CallID), string(h.Name)); err != nil {
			return err
		}
		if it.args.Len() == 0 {
			return d.args(it, string(h.Arguments))
		}
	}
	return nil
}

// inOrder lists the items as the answer has them. A call of which only the beginning came is a call now.
func (d *decoder) inOrder() ([]*item, error) {
	var order []*item
	for _, i := range slices.Sorted(maps.Keys(d.items)) {
		it := d.items[i]
		if it.kind == kindCall {
			if err := d.begin(it, "", it.name); err != nil {
				return nil, err
			}
		}
		order = append(order, it)
	}
	return order, nil
}

func (d *decoder) emitItems(order []*item, cut bool) error {
	replayable := true
	for _, it := range order {
		replayable = replayable && it.done != nil && (it.kind != kindReasoning || it.signed)
	}
	for _, it := range order {
		var raw *ai.RawItem
		if replayable && !it.made {
			var compact bytes.Buffer
			if err := json.Compact(&compact, it.done); err != nil {
				return transport.Protocolf("an item of the answer cannot be kept: %v", err)
			}
			raw = &ai.RawItem{Wire: Wire, Model: d.model, JSON: compact.Bytes()}
		}
		if p, ok := it.part(raw, cut); ok {
			if err := d.emit(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// part is the item as it goes into the transcript. ok is false for one that holds nothing.
func (it *item) part(raw *ai.RawItem, cut bool) (p model.Part, ok bool) {
	p.Kind = model.PartContent
	switch {
	case it.call >= 0:
		args := it.args.String()
		if strings.TrimSpace(args) == "" {
			args = "{}"
		}
		p.Index, p.ID, p.Name = it.call, it.id, it.name
		// The calls of a cut answer are marked, all of them: what the model would have said next is not known.
		p.Truncated = cut || it.cut || it.done == nil
		p.Content = ai.ToolCallPart{ToolCallID: it.id, ToolName: it.name, Input: args, Raw: raw}
	case it.kind == kindReasoning:
		p.Content = ai.ReasoningPart{Text: it.text.String(), Raw: raw}
		return p, it.text.Len() > 0 || raw != nil
	case it.kind == kindMessage || it.text.Len() > 0:
		p.Content = ai.TextPart{Text: it.text.String(), Raw: raw}
		return p, it.text.Len() > 0
	default: // of a kind that is not known here: it says nothing and is replayed in its place
		p.Content = ai.TextPart{Raw: raw}
		return p, raw != nil
	}
	return p, true
}
