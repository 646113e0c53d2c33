package ai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Role says who wrote a message.
type Role string

// The four roles of a conversation.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a conversation. In JSON its content is an array of parts; a plain string is accepted on
// input and stands for one text part.
type Message struct {
	Role    Role
	Content []Part
}

// UserMessage returns a user message with one text part.
func UserMessage(text string) Message {
	return Message{Role: RoleUser, Content: []Part{TextPart{Text: text}}}
}

// SystemMessage returns a system message with one text part.
func SystemMessage(text string) Message {
	return Message{Role: RoleSystem, Content: []Part{TextPart{Text: text}}}
}

// Text joins the message's text parts without a separator.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.Content {
		if t, ok := p.(TextPart); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// ToolCalls lists the message's tool calls in order.
func (m Message) ToolCalls() []ToolCallPart {
	var calls []ToolCallPart
	for _, p := range m.Content {
		if c, ok := p.(ToolCallPart); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// Part is one piece of a message's content. The implementations are the *Part and *Content types of this package.
type Part interface{ partType() string }

// RawItem is an item exactly as a provider sent it. It is replayed byte for byte to the wire and model that made it
// and is dropped for any other. JSON is compact: blanks between its tokens do not survive encoding, everything else
// does.
type RawItem struct {
	Wire  string          `json:"wire"`
	Model string          `json:"model,omitempty"`
	JSON  json.RawMessage `json:"json"`
}

// TextPart is text.
type TextPart struct {
	Text string   `json:"text"`
	Raw  *RawItem `json:"raw,omitempty"`
}

// ReasoningPart is a model's reasoning. Raw carries the signature or encrypted form that the provider wants back.
type ReasoningPart struct {
	Text string   `json:"text"`
	Raw  *RawItem `json:"raw,omitempty"`
}

// FilePart is a file or an image. Data is its bytes (base64 in JSON).
type FilePart struct {
	MediaType string `json:"mediaType"`
	Data      []byte `json:"data"`
	Filename  string `json:"filename,omitempty"`
}

// ToolCallPart is one tool call of an assistant message. Input is the arguments' JSON text as the model wrote it and
// may be invalid JSON; whoever executes the call checks it.
type ToolCallPart struct {
	ToolCallID       string   `json:"toolCallId"`
	ToolName         string   `json:"toolName"`
	Input            string   `json:"input"`
	ProviderExecuted bool     `json:"providerExecuted,omitempty"`
	Raw              *RawItem `json:"raw,omitempty"`
}

// ToolResultContent is the result of one tool call.
type ToolResultContent struct {
	ToolCallID string           `json:"toolCallId"`
	ToolName   string           `json:"toolName"`
	Output     ToolResultOutput `json:"output"`
}

// ToolApprovalRequestPart asks for the approval of a tool call.
type ToolApprovalRequestPart struct {
	ApprovalID string `json:"approvalId"`
	ToolCallID string `json:"toolCallId"`
}

// ToolApprovalResponseContent answers a ToolApprovalRequestPart.
type ToolApprovalResponseContent struct {
	ApprovalID string `json:"approvalId"`
	Approved   bool   `json:"approved"`
	Reason     string `json:"reason,omitempty"`
}

func (TextPart) partType() string                    { return "text" }
func (ReasoningPart) partType() string               { return "reasoning" }
func (FilePart) partType() string                    { return "file" }
func (ToolCallPart) partType() string                { return "tool-call" }
func (ToolResultContent) partType() string           { return "tool-result" }
func (ToolApprovalRequestPart) partType() string     { return "tool-approval-request" }
func (ToolApprovalResponseContent) partType() string { return "tool-approval-response" }

// ToolResultOutputType tells how to read a ToolResultOutput.
type ToolResultOutputType string

// The kinds of a tool's output.
const (
	OutputText            ToolResultOutputType = "text"
	OutputJSON            ToolResultOutputType = "json"
	OutputErrorText       ToolResultOutputType = "error-text"
	OutputErrorJSON       ToolResultOutputType = "error-json"
	OutputContent         ToolResultOutputType = "content"
	OutputExecutionDenied ToolResultOutputType = "execution-denied"
)

// ToolResultOutput is what a tool gave back. Value is a JSON string for the text kinds, any JSON for the JSON kinds
// and an array of content parts for OutputContent. Reason belongs to OutputExecutionDenied. An output is not changed
// after it was made.
type ToolResultOutput struct {
	Type   ToolResultOutputType `json:"type"`
	Value  json.RawMessage      `json:"value,omitempty"`
	Reason string               `json:"reason,omitempty"`

	// text is Value decoded, where the output was made of a text: a conversation is read anew for each model call.
	text *string
}

// TextResult returns a text output.
func TextResult(text string) ToolResultOutput {
	return ToolResultOutput{Type: OutputText, Value: jsonString(text), text: decoded(text)}
}

// ErrorTextResult returns an error output.
func ErrorTextResult(text string) ToolResultOutput {
	return ToolResultOutput{Type: OutputErrorText, Value: jsonString(text), text: decoded(text)}
}

// ContentResult returns an output of a text and files. Wires that cannot carry files in a result send them beside it.
func ContentResult(text string, files ...FilePart) ToolResultOutput {
	parts := make([]json.RawMessage, 0, 1+len(files))
	for _, p := range append([]Part{TextPart{Text: text}}, asParts(files)...) {
		b, _ := MarshalPart(p) // texts and bytes always marshal
		parts = append(parts, b)
	}
	value, _ := plainJSON(parts)
	return ToolResultOutput{Type: OutputContent, Value: value}
}

// Parts are the texts and files of an output of type OutputContent; any other output is one text. The AI SDK's names
// for files (media, image-data, file-data) are read too. Content of another type is an error.
func (o ToolResultOutput) Parts() ([]Part, error) {
	if o.Type != OutputContent {
		return []Part{TextPart{Text: o.Text()}}, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(o.Value, &items); err != nil {
		return nil, fmt.Errorf("the content of a result is not a list: %w", err)
	}
	parts := make([]Part, 0, len(items))
	for i, raw := range items {
		var t struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, fmt.Errorf("content %d of a result: %w", i, err)
		}
		switch t.Type {
		case "media", "image-data", "file-data":
			var f FilePart
			if err := json.Unmarshal(raw, &f); err != nil {
				return nil, fmt.Errorf("content %d of a result: %w", i, err)
			}
			parts = append(parts, f)
		case "text", "file":
			p, err := UnmarshalPart(raw)
			if err != nil {
				return nil, fmt.Errorf("content %d of a result: %w", i, err)
			}
			parts = append(parts, p)
		default:
			return nil, fmt.Errorf("content %d of a result has the type %q, which is neither text nor a file", i, t.Type)
		}
	}
	return parts, nil
}

func asParts(files []FilePart) []Part {
	parts := make([]Part, len(files))
	for i, f := range files {
		parts[i] = f
	}
	return parts
}

// decoded is a text that its JSON gives back. What is not UTF-8 comes back changed.
func decoded(text string) *string {
	if !utf8.ValidString(text) {
		return nil
	}
	return &text
}

// IsError reports whether the output tells of a failure or a refusal.
func (o ToolResultOutput) IsError() bool {
	return o.Type == OutputErrorText || o.Type == OutputErrorJSON || o.Type == OutputExecutionDenied
}

// Text returns the output as the text a model reads: the string itself for the text kinds, the JSON otherwise.
func (o ToolResultOutput) Text() string {
	switch o.Type {
	case OutputText, OutputErrorText:
		if o.text != nil {
			return *o.text
		}
		var s string
		if json.Unmarshal(o.Value, &s) == nil {
			return s
		}
	case OutputExecutionDenied:
		if o.Reason == "" {
			return "the call was denied"
		}
		return o.Reason
	}
	return string(o.Value)
}

func jsonString(s string) json.RawMessage {
	b, _ := plainJSON(s) // a string always marshals
	return b
}

// plainJSON is json.Marshal without the escapes for HTML, which would change raw items.
func plainJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// MarshalJSON writes {"role", "content": [...]}. Encode messages with json.Encoder and SetEscapeHTML(false) where raw
// items are to keep their bytes: json.Marshal escapes what this method returns.
func (m Message) MarshalJSON() ([]byte, error) {
	parts := make([]json.RawMessage, 0, len(m.Content))
	for i, p := range m.Content {
		b, err := MarshalPart(p)
		if err != nil {
			return nil, fmt.Errorf("ai: message part %d: %w", i, err)
		}
		parts = append(parts, b)
	}
	return plainJSON(struct {
		Role    Role              `json:"role"`
		Content []json.RawMessage `json:"content"`
	}{m.Role, parts})
}

// UnmarshalJSON reads what MarshalJSON writes, and a plain string as content.
func (m *Message) UnmarshalJSON(data []byte) error {
	if m.read(data) {
		return nil
	}
	var w struct {
		Role    Role            `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("ai: message: %w", err)
	}
	if !w.Role.known() {
		return fmt.Errorf("ai: message: unknown role %q", w.Role)
	}
	m.Role, m.Content = w.Role, nil
	if len(w.Content) == 0 || string(w.Content) == "null" {
		return nil
	}
	if w.Content[0] == '"' {
		var s string
		if err := json.Unmarshal(w.Content, &s); err != nil {
			return fmt.Errorf("ai: message content: %w", err)
		}
		m.Content = []Part{TextPart{Text: s}}
		return nil
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(w.Content, &raws); err != nil {
		return fmt.Errorf("ai: message content: %w", err)
	}
	for i, r := range raws {
		p, err := UnmarshalPart(r)
		if err != nil {
			return fmt.Errorf("ai: message part %d: %w", i, err)
		}
		m.Content = append(m.Content, p)
	}
	return nil
}

func (r Role) known() bool {
	switch r {
	case RoleSystem, RoleUser, RoleAssistant, RoleTool:
		return true
	}
	return false
}

// anyPart has the members of the parts that a conversation is made of, so that a message is read in one go.
type anyPart struct {
	Type             string           `json:"type"`
	Text             string           `json:"text"`
	Raw              *RawItem         `json:"raw"`
	ToolCallID       string           `json:"toolCallId"`
	ToolName         string           `json:"toolName"`
	Input            *string          `json:"input"`
	ProviderExecuted bool             `json:"providerExecuted"`
	Output           ToolResultOutput `json:"output"`
}

// read is the short way for what MarshalJSON wrote of texts, reasoning, calls and results. Anything else it leaves to
// the long way, which tells what is wrong.
func (m *Message) read(data []byte) bool {
	var w struct {
		Role    Role      `json:"role"`
		Content []anyPart `json:"content"`
	}
	if json.Unmarshal(data, &w) != nil || !w.Role.known() {
		return false
	}
	content := make([]Part, len(w.Content))
	for i := range w.Content {
		switch p := &w.Content[i]; {
		case p.Type == "text":
			content[i] = TextPart{Text: p.Text, Raw: p.Raw}
		case p.Type == "reasoning":
			content[i] = ReasoningPart{Text: p.Text, Raw: p.Raw}
		case p.Type == "tool-call" && p.Input != nil:
			content[i] = ToolCallPart{ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: *p.Input, ProviderExecuted: p.ProviderExecuted, Raw: p.Raw}
		case p.Type == "tool-result":
			content[i] = ToolResultContent{ToolCallID: p.ToolCallID, ToolName: p.ToolName, Output: p.Output}
		default:
			return false
		}
	}
	m.Role, m.Content = w.Role, content
	if len(content) == 0 {
		m.Content = nil
	}
	return true
}

// MarshalPart writes a part with its "type".
func MarshalPart(p Part) ([]byte, error) {
	if p == nil {
		return nil, fmt.Errorf("ai: nil content part")
	}
	b, err := plainJSON(p)
	if err != nil {
		return nil, err
	}
	head := `{"type":"` + p.partType() + `"`
	if len(b) > 2 {
		head += ","
	}
	return append([]byte(head), b[1:]...), nil
}

// UnmarshalPart reads a part by its "type".
func UnmarshalPart(data []byte) (Part, error) {
	var t struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return nil, fmt.Errorf("ai: content part: %w", err)
	}
	switch t.Type {
	case "text":
		return decodePart[TextPart](data)
	case "reasoning":
		return decodePart[ReasoningPart](data)
	case "file":
		return decodePart[FilePart](data)
	case "tool-call":
		return decodeToolCall(data)
	case "tool-result":
		return decodePart[ToolResultContent](data)
	case "tool-approval-request":
		return decodePart[ToolApprovalRequestPart](data)
	case "tool-approval-response":
		return decodePart[ToolApprovalResponseContent](data)
	}
	return nil, fmt.Errorf("ai: unknown content part type %q", t.Type)
}

func decodePart[P Part](data []byte) (Part, error) {
	var p P
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("ai: %s part: %w", p.partType(), err)
	}
	return p, nil
}

// decodeToolCall accepts the AI SDK's form too, in which input is any JSON value and not its text.
func decodeToolCall(data []byte) (Part, error) {
	type plain ToolCallPart
	var w struct {
		plain
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("ai: tool-call part: %w", err)
	}
	p := ToolCallPart(w.plain)
	if len(w.Input) > 0 && w.Input[0] == '"' {
		if err := json.Unmarshal(w.Input, &p.Input); err != nil {
			return nil, fmt.Errorf("ai: tool-call input: %w", err)
		}
	} else {
		p.Input = string(w.Input)
	}
	return p, nil
}
