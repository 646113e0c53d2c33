package responses

import (
	"bytes"
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

// decoder gathers one answer. Deltas leave through emit as they come; whole items and the finish leave at the end, when
// it is known whether the answer was cut.
type decoder struct {
	model string // as requested: the tag of raw items
	emit  func(model.Part) error

	items   map[int]*item // by the index on the wire
	calls   int
	callIDs map[string]bool

	usage      ai.Usage
	id, served string
}

func newDecoder(requested string, emit func(model.Part) error) *decoder {
	return &decoder{model: requested, emit: emit, items: map[int]*item{}, callIDs: map[string]bool{}}
}

// read decodes the whole answer: events, or one JSON object from a server that does not stream.
func read(src io.Reader, maxEvent int, d *decoder) error {
	return transport.Read(src, maxEvent, func(events *sse.Reader) error { return readEvents(events, d) },
		func(body []byte) error {
			var r responseJSON
			if err := json.Unmarshal(body, &r); err != nil {
				return transport.Protocolf("the answer cannot be read: %v", err)
			}
			return d.finish(&r)
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
	if p, ok := flatDelta(data); ok {
		return false, d.delta(p)
	}
	var e eventJSON
	if err := json.Unmarshal(data, &e); err != nil {
		return false, transport.Protocolf("an event of the stream cannot be read: %v", err)
	}
	switch e.Type {
	case "error":
		return false, errorOf(&e, data)
	case "response.created", "response.in_progress":
		if r := e.Response; r != nil {
			d.id, d.served = string(r.ID), string(r.Model)
		}
		return false, nil
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if e.Response == nil {
			return false, transport.Protocolf("the last event of the stream holds no response")
		}
		if e.Response.Status == "" { // the event's name says it too
			e.Response.Status = e.Type[len("response."):]
		}
		return true, d.finish(e.Response)
	case "":
		if said := transport.ParseError(e.Error); said != nil {
			return false, said
		}
		return false, nil
	}
	if e.OutputIndex < 0 || e.OutputIndex > maxItems {
		return false, tooManyItems()
	}
	switch e.Type {
	case "response.output_item.added":
		return false, d.added(d.at(e.OutputIndex), e.Item)
	case "response.output_item.done":
		return false, d.done(d.at(e.OutputIndex), e.Item)
	}
	if k := deltaKindOf(string(e.Type)); k != noDelta {
		return false, d.delta(delta{kind: k, output: e.OutputIndex, summary: e.SummaryIndex, text: string(e.Delta)})
	}
	return false, nil
}

func tooManyItems() error {
	return transport.Protocolf("the answer holds more than %d items", maxItems)
}

// errorOf reads an error event: flat, as the service documents it, or with an error object as others send it.
func errorOf(e *eventJSON, data []byte) error {
	if said := transport.ParseError(e.Error); said != nil {
		return said
	}
	said := transport.ParseError(data)
	if said == nil {
		said = &transport.APIError{}
	}
	said.Type = "" // it says "error"
	return said
}

// finish takes the last event, or the whole answer of a server that does not stream. It emits the whole items in the
// order of the answer and then the finish.
func (d *decoder) finish(r *responseJSON) error {
	if said := transport.ParseError(r.Error); said != nil {
		return said
	}
	if err := d.complete(r.Output); err != nil {
		return err
	}
	if r.ID != "" {
		d.id = string(r.ID)
	}
	if r.Model != "" {
		d.served = string(r.Model)
	}
	d.usage = parseUsage(r.Usage)
	order, err := d.inOrder()
	if err != nil {
		return err
	}
	finish, err := finishReason(string(r.Status), string(r.Incomplete.Reason), d.calls > 0)
	if err != nil {
		return err
	}
	if err := d.emitItems(order, r.Status == statusIncomplete); err != nil {
		return err
	}
	return d.emit(model.Part{Kind: model.PartFinish, Finish: finish, Usage: d.usage, ResponseID: d.id, ServedModel: d.served})
}

// complete takes items from the list that ends an answer: all of them where no event told of any, else those that no
// event finished.
func (d *decoder) complete(output []json.RawMessage) error {
	if len(output) > maxItems {
		return tooManyItems()
	}
	all := len(d.items) == 0
	for i, raw := range output {
		it := d.items[i]
		if !all {
			if it == nil || it.done != nil {
				continue
			}
			var h itemHead
			if json.Unmarshal(raw, &h) != nil || (it.kind != "" && it.kind != string(h.Type)) {
				continue // the list is not the events' own
			}
		}
		if err := d.done(d.at(i), raw); err != nil {
			return err
		}
	}
	return nil
}

const statusIncomplete = "incomplete"

// finishReason unifies how the answer ended.
func finishReason(status, reason string, calls bool) (ai.FinishReason, error) {
	r := ai.FinishReason{Raw: status}
	switch status {
	case "completed":
		r.Unified = ai.FinishStop
		if calls {
			r.Unified = ai.FinishToolCalls
		}
	case statusIncomplete:
		r.Raw = strings.TrimSpace(reason)
		switch r.Raw {
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
