// Package history holds the rules that every wire follows when it writes a conversation: which results belong to which
// calls, and what is replayed as it was received.
//
// It knows no wire's form.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/harness-go/harness/ai"
)

// NoResult is what a model reads of a call that has no result. Every service refuses a call without one.
const NoResult = "no result of this call was recorded; it may or may not have run"

// Place is a part of a message: the index of the message and that of the part.
type Place struct{ Message, Part int }

// Found is a result and where it stands.
type Found struct {
	Place  Place
	Result ai.ToolResultContent
}

// Results are the results, by call id, of the calls of the message at: those that follow it up to the model's next
// message. Of two with one id the first counts.
func Results(messages []ai.Message, at int) map[string]Found {
	found := map[string]Found{}
	for i := at + 1; i < len(messages) && messages[i].Role != ai.RoleAssistant; i++ {
		for n, p := range messages[i].Content {
			if r, ok := p.(ai.ToolResultContent); ok {
				if _, twice := found[r.ToolCallID]; !twice {
					found[r.ToolCallID] = Found{Place{i, n}, r}
				}
			}
		}
	}
	return found
}

// Failed is the text of a failure for a wire that has no mark for it. What says so itself stays as it is: a text that
// begins with error, and our tools' JSON.
func Failed(text string) string {
	const mark = "error"
	if len(text) >= len(mark) && strings.EqualFold(text[:len(mark)], mark) || strings.HasPrefix(text, `{"error"`) {
		return text
	}
	return mark + ": " + text
}

// Stray is the note in the place of a result that no call asked for.
func Stray(r ai.ToolResultContent) string {
	return "[A result of the tool " + r.ToolName + " is left out: no open call asked for it.]"
}

// Replay is a part's raw form where the given wire and model made it, and nil where another one did. It is an error
// where it is no JSON object.
func Replay(raw *ai.RawItem, wire, model string) (json.RawMessage, error) {
	if raw == nil || raw.Wire != wire || raw.Model != model {
		return nil, nil
	}
	if s := strings.TrimSpace(string(raw.JSON)); !strings.HasPrefix(s, "{") || !json.Valid(raw.JSON) {
		return nil, errors.New("it is not a JSON object")
	}
	return raw.JSON, nil
}

// Object is a call's arguments for a wire that takes an object. Text that is none is kept inside of one.
func Object(arguments string) json.RawMessage {
	s := strings.TrimSpace(arguments)
	switch {
	case s == "":
		return json.RawMessage("{}")
	case s[0] == '{' && json.Valid([]byte(s)):
		return json.RawMessage(s)
	}
	b, err := Marshal(map[string]string{"arguments": arguments})
	if err != nil {
		return json.RawMessage("{}") // a string always marshals
	}
	return b
}

// Marshal writes JSON without the escapes that are for HTML, which models would see as noise in code.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
