package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/harness-go/harness/ai"
)

// Skill is a piece of know-how that the runtime can load. Content is Markdown without front matter.
type Skill struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Content     string      `json:"content"`
	Files       []SkillFile `json:"files,omitempty"`
}

// SkillFile is a file beside a skill. Path is relative to the skill's folder.
type SkillFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// ToolSpec describes a host tool to a runtime. InputSchema is a JSON Schema.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
}

// AgentToolSpec is ToolSpec for consumers.
type AgentToolSpec = ToolSpec

// ResponseFormatType tells response formats apart.
type ResponseFormatType string

// The response formats.
const (
	ResponseFormatText ResponseFormatType = "text"
	ResponseFormatJSON ResponseFormatType = "json"
)

// ResponseFormat is what the final text of a turn must be. Schema, Name and Description belong to JSON.
type ResponseFormat struct {
	Type        ResponseFormatType `json:"type"`
	Schema      json.RawMessage    `json:"schema,omitempty"`
	Name        string             `json:"name,omitempty"`
	Description string             `json:"description,omitempty"`
}

// Prompt is what a turn begins with: a text, or one user message. In JSON it is a string or the message.
type Prompt struct {
	Text string
	// Message wins over Text when not nil.
	Message *ai.Message
}

// TextPrompt is a prompt of text.
func TextPrompt(text string) Prompt { return Prompt{Text: text} }

// MessagePrompt is a prompt of one user message.
func MessagePrompt(m ai.Message) Prompt { return Prompt{Message: &m} }

// IsZero reports whether there is no prompt.
func (p Prompt) IsZero() bool { return p.Text == "" && p.Message == nil }

// AsMessage is the prompt as a user message.
func (p Prompt) AsMessage() ai.Message {
	if p.Message != nil {
		return *p.Message
	}
	return ai.UserMessage(p.Text)
}

// String is the prompt's text.
func (p Prompt) String() string {
	if p.Message != nil {
		return p.Message.Text()
	}
	return p.Text
}

// MarshalJSON writes a string or a message.
func (p Prompt) MarshalJSON() ([]byte, error) {
	if p.Message != nil {
		return json.Marshal(p.Message)
	}
	return json.Marshal(p.Text)
}

// UnmarshalJSON reads a string or a user message.
func (p *Prompt) UnmarshalJSON(data []byte) error {
	*p = Prompt{}
	if b := bytes.TrimSpace(data); len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(data, &p.Text)
	}
	var m ai.Message
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	if m.Role != ai.RoleUser {
		return errors.New("prompt: the message must have the role user")
	}
	p.Message = &m
	return nil
}

// CallWarningType tells warnings apart.
type CallWarningType string

// The kinds of warnings.
const (
	CallWarningUnsupportedSetting CallWarningType = "unsupported-setting"
	CallWarningUnsupportedTool    CallWarningType = "unsupported-tool"
	CallWarningOther              CallWarningType = "other"
)

// CallWarning is a warning of an adapter that did the work all the same. Setting belongs to unsupported-setting, Tool
// to unsupported-tool, Message to other.
type CallWarning struct {
	Type    CallWarningType `json:"type"`
	Setting string          `json:"setting,omitempty"`
	Tool    string          `json:"tool,omitempty"`
	Details string          `json:"details,omitempty"`
	Message string          `json:"message,omitempty"`
}

// MarshalJSON writes the members that belong to the type, the required ones also when they are empty.
func (w CallWarning) MarshalJSON() ([]byte, error) {
	switch w.Type {
	case CallWarningUnsupportedSetting:
		return json.Marshal(struct {
			Type    CallWarningType `json:"type"`
			Setting string          `json:"setting"`
			Details string          `json:"details,omitempty"`
		}{w.Type, w.Setting, w.Details})
	case CallWarningUnsupportedTool:
		return json.Marshal(struct {
			Type    CallWarningType `json:"type"`
			Tool    string          `json:"tool"`
			Details string          `json:"details,omitempty"`
		}{w.Type, w.Tool, w.Details})
	}
	return json.Marshal(struct {
		Type    CallWarningType `json:"type"`
		Message string          `json:"message"`
	}{w.Type, w.Message})
}
