package gemini

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/harness-go/harness/model/wire/transport"
)

// chunk is one event of a stream, and also the whole answer of a call that does not stream.
type chunk struct {
	Candidates     []candidate `json:"candidates"`
	PromptFeedback struct {
		BlockReason transport.Loose `json:"blockReason"`
	} `json:"promptFeedback"`
	UsageMetadata rawUsage        `json:"usageMetadata"`
	ModelVersion  transport.Loose `json:"modelVersion"`
	ResponseID    transport.Loose `json:"responseId"`
	Error         json.RawMessage `json:"error"`
	// The flat form of an error.
	Message transport.Loose `json:"message"`
	Code    transport.Loose `json:"code"`
	Status  transport.Loose `json:"status"`
}

type candidate struct {
	Index   int `json:"index"`
	Content struct {
		Parts []part `json:"parts"`
	} `json:"content"`
	FinishReason  transport.Loose `json:"finishReason"`
	FinishMessage transport.Loose `json:"finishMessage"`
}

// part is the text of one part as it was received. Its memory is used again for the next event.
type part struct{ raw []byte }

func (p *part) UnmarshalJSON(b []byte) error {
	p.raw = append(p.raw[:0], b...)
	return nil
}

// rawUsage is the text of the usage object that came last, unread: it is cumulative, and each event has one.
type rawUsage struct {
	raw []byte
	now bool // it came with the event that was decoded last
}

func (u *rawUsage) UnmarshalJSON(b []byte) error {
	u.take(b)
	return nil
}

func (u *rawUsage) take(b []byte) {
	if len(b) > 2 && b[0] == '{' && len(b) <= maxRawUsage {
		u.raw, u.now = append(u.raw[:0], b...), true
	}
}

// latest is the usage of the event that was decoded last.
func (u *rawUsage) latest() []byte {
	if !u.now {
		return nil
	}
	return u.raw
}

// reset empties the chunk for the next event and keeps its memory and the usage.
func (c *chunk) reset() {
	list := c.Candidates[:cap(c.Candidates)]
	for i := range list {
		parts := list[i].Content.Parts
		list[i] = candidate{}
		list[i].Content.Parts = parts[:0]
	}
	usage := c.UsageMetadata
	usage.now = false
	*c = chunk{Candidates: list[:0], UsageMetadata: usage}
}

// content is one part, read. raw is set where the part has to come back as it is.
type content struct {
	text    string
	thought bool
	call    *functionCall
	raw     []byte
}

type functionCall struct {
	ID   transport.Loose `json:"id"`
	Name transport.Loose `json:"name"`
	Args json.RawMessage `json:"args"`
}

// readPart reads one part. What is a plain text, or a plain thought, needs no raw form; everything else keeps it.
func readPart(raw []byte) (content, error) {
	if c, ok := plainPart(raw); ok {
		return c, nil
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return content{}, transport.Protocolf("a part of the answer is not a JSON object")
	}
	c := content{raw: append([]byte(nil), bytes.ToValidUTF8(raw, []byte("\uFFFD"))...)}
	if f, ok := members["functionCall"]; ok && !null(f) {
		c.call = new(functionCall)
		if err := json.Unmarshal(f, c.call); err != nil {
			return content{}, transport.Protocolf("a function call of the answer cannot be read: %v", err)
		}
		return c, nil
	}
	var text transport.Loose
	if t := members["text"]; len(t) > 0 && t[0] == '"' {
		if err := text.UnmarshalJSON(t); err != nil {
			return content{}, transport.Protocolf("a text of the answer cannot be read: %v", err)
		}
	}
	c.text, c.thought = string(text), string(members["thought"]) == "true"
	delete(members, "thought")
	maps.DeleteFunc(members, func(_ string, v json.RawMessage) bool { return null(v) })
	if _, ok := members["text"]; len(members) == 0 || (ok && len(members) == 1) {
		c.raw = nil
	}
	return c, nil
}

// plainPart reads {"text": "…"} and {"text": "…", "thought": true}, nearly all parts of a long answer, without taking
// them apart twice. raw is valid JSON.
func plainPart(raw []byte) (c content, ok bool) {
	rest, ok := member(raw, '{', `"text"`)
	if !ok || rest[0] != '"' {
		return c, false
	}
	end := stringEnd(rest)
	quoted := rest[:end]
	rest = blanks(rest[end:])
	if rest[0] == ',' {
		if rest, ok = member(rest, ',', `"thought"`); !ok {
			return c, false
		}
		if rest, c.thought = bytes.CutPrefix(rest, []byte("true")); !c.thought {
			return c, false
		}
		rest = blanks(rest)
	}
	if rest[0] != '}' {
		return c, false
	}
	var err error
	c.text, err = transport.Unquote(quoted)
	return c, err == nil
}

// member skips a separator, a key and its colon.
func member(b []byte, separator byte, key string) ([]byte, bool) {
	if b[0] != separator {
		return nil, false
	}
	b, ok := bytes.CutPrefix(blanks(b[1:]), []byte(key))
	if !ok {
		return nil, false
	}
	return blanks(blanks(b)[1:]), true
}

func blanks(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// stringEnd is the place behind the quote that ends the JSON string that b begins with.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
