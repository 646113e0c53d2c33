package chat

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/harness-go/harness/model/wire/transport"
)

// chunk is one event of a stream, and also the whole answer of a server that does not stream: the two differ in
// choice.Delta and choice.Message alone.
type chunk struct {
	ID      transport.Loose `json:"id"`
	Model   transport.Loose `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	// The flat form of an error.
	Type    transport.Loose `json:"type"`
	Object  transport.Loose `json:"object"`
	Message transport.Loose `json:"message"`
	Code    transport.Loose `json:"code"`
}

type choice struct {
	Index        int             `json:"index"`
	Delta        delta           `json:"delta"`
	Message      delta           `json:"message"`
	FinishReason transport.Loose `json:"finish_reason"`
}

type delta struct {
	Content          looseText         `json:"content"`
	Refusal          looseText         `json:"refusal"`
	ReasoningContent looseText         `json:"reasoning_content"`
	Reasoning        looseText         `json:"reasoning"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	ToolCalls        []fragment        `json:"tool_calls"`
}

// fragment is a piece of a tool call.
type fragment struct {
	Index    *int            `json:"index"`
	ID       transport.Loose `json:"id"`
	Function struct {
		Name      transport.Loose `json:"name"`
		Arguments looseArgs       `json:"arguments"`
	} `json:"function"`
	// ExtraContent is what some servers want back with the call (a signature of its reasoning).
	ExtraContent json.RawMessage `json:"extra_content"`
}

// looseText takes a string or the text parts of an array. Anything else is "".
type looseText string

func (s *looseText) UnmarshalJSON(b []byte) error {
	*s = ""
	switch {
	case len(b) == 0:
	case b[0] == '"':
		v, err := transport.Unquote(b)
		*s = looseText(v)
		return err
	case b[0] == '[':
		var parts []struct {
			Type string          `json:"type"`
			Text transport.Loose `json:"text"`
		}
		if json.Unmarshal(b, &parts) != nil {
			return nil
		}
		var t strings.Builder
		for _, p := range parts {
			if p.Type == "text" || p.Type == "" {
				t.WriteString(string(p.Text))
			}
		}
		*s = looseText(t.String())
	}
	return nil
}

// looseArgs takes the arguments' text, or the arguments themselves from servers that send them as an object.
type looseArgs string

func (s *looseArgs) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) == 0 || string(b) == "null":
		*s = ""
	case b[0] == '"':
		v, err := transport.Unquote(b)
		*s = looseArgs(v)
		return err
	default:
		*s = looseArgs(bytes.ToValidUTF8(b, []byte("\uFFFD")))
	}
	return nil
}
