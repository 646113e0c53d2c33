package anthropic

import (
	"encoding/json"

	"github.com/harness-go/harness/model/wire/transport"
)

// eventJSON is one event of a stream, and also the whole answer of a server that does not stream.
type eventJSON struct {
	Type    transport.Loose `json:"type"`
	Index   int             `json:"index"`
	Message *messageJSON    `json:"message"` // message_start
	Block   json.RawMessage `json:"content_block"`
	Delta   deltaJSON       `json:"delta"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`

	// Of a whole answer.
	messageJSON
}

type messageJSON struct {
	ID         transport.Loose   `json:"id"`
	Model      transport.Loose   `json:"model"`
	Content    []json.RawMessage `json:"content"`
	StopReason transport.Loose   `json:"stop_reason"`
	StartUsage json.RawMessage   `json:"usage"`
}

type deltaJSON struct {
	Type       transport.Loose `json:"type"`
	Text       transport.Loose `json:"text"`
	Thinking   transport.Loose `json:"thinking"`
	Signature  transport.Loose `json:"signature"`
	Partial    transport.Loose `json:"partial_json"`
	Citation   json.RawMessage `json:"citation"`
	StopReason transport.Loose `json:"stop_reason"`
}

// piece is the delta of an event, whatever order its members have.
func (e *eventJSON) piece() piece {
	p := piece{index: e.Index, kind: string(e.Delta.Type)}
	switch p.kind {
	case "text_delta":
		p.text = string(e.Delta.Text)
	case "thinking_delta":
		p.text = string(e.Delta.Thinking)
	case "input_json_delta":
		p.text = string(e.Delta.Partial)
	case "signature_delta":
		p.text = string(e.Delta.Signature)
	}
	return p
}
