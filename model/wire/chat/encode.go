package chat

import (
	"encoding/json"
	"fmt"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
	"github.com/harness-go/harness/model/wire/transport"
)

type requestJSON struct {
	Model               string          `json:"model"`
	Messages            []any           `json:"messages"`
	ToolChoice          string          `json:"tool_choice,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	ReasoningEffort     string          `json:"reasoning_effort,omitempty"`
	ResponseFormat      *formatJSON     `json:"response_format,omitempty"`
	PromptCacheKey      string          `json:"prompt_cache_key,omitempty"`
	Stream              bool            `json:"stream"`
	StreamOptions       map[string]bool `json:"stream_options,omitempty"`
}

type toolJSON struct {
	Type     string       `json:"type"`
	Function functionJSON `json:"function"`
}

type functionJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

type formatJSON struct {
	Type       string     `json:"type"`
	JSONSchema schemaJSON `json:"json_schema"`
}

type schemaJSON struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

// encode writes the request's body. Schemas go out as they are; only blanks between tokens may change.
func (c *Client) encode(req model.Request) ([]byte, error) {
	if req.Model == "" {
		return nil, fmt.Errorf("the request names no model")
	}
	if req.MaxOutputTokens < 0 {
		return nil, fmt.Errorf("MaxOutputTokens is negative")
	}
	r := requestJSON{
		Model: req.Model, Temperature: req.Temperature, ReasoningEffort: req.ReasoningEffort, Stream: true,
	}
	if c.cfg.MaxTokensField == MaxCompletionTokens {
		r.MaxCompletionTokens = req.MaxOutputTokens
	} else {
		r.MaxTokens = req.MaxOutputTokens
	}
	if !c.cfg.OmitStreamOptions {
		r.StreamOptions = map[string]bool{"include_usage": true}
	}
	if c.cfg.PromptCacheKey {
		r.PromptCacheKey = req.SessionID
	}
	tools, err := c.tools.JSON(req.Tools, encodeTools)
	if err != nil {
		return nil, err
	}
	if len(req.Tools) > 0 {
		switch req.ToolChoice {
		case "", model.ToolChoiceNone, model.ToolChoiceRequired:
			r.ToolChoice = string(req.ToolChoice)
		default:
			return nil, fmt.Errorf("tool choice %q: use none, required or leave it empty", req.ToolChoice)
		}
	}
	if len(req.ResponseSchema) > 0 {
		if !json.Valid(req.ResponseSchema) {
			return nil, fmt.Errorf("the response schema is not JSON")
		}
		r.ResponseFormat = &formatJSON{Type: "json_schema", JSONSchema: schemaJSON{Name: "answer", Schema: req.ResponseSchema}}
	}
	list, err := messages(req)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the request holds no message")
	}
	for _, m := range list {
		v, err := m.value()
		if err != nil {
			return nil, err
		}
		r.Messages = append(r.Messages, v)
	}
	body, err := history.Marshal(r)
	if err != nil || len(req.Tools) == 0 {
		return body, err
	}
	return transport.WithMember(body, "tools", tools), nil
}

func encodeTools(tools []model.Tool) ([]byte, error) {
	list := make([]toolJSON, len(tools))
	for i, t := range tools {
		schema := t.Schema
		if len(schema) == 0 {
			schema = anyObject
		}
		if !json.Valid(schema) {
			return nil, fmt.Errorf("the schema of tool %q is not JSON", t.Name)
		}
		list[i] = toolJSON{Type: "function", Function: functionJSON{Name: t.Name, Description: t.Description, Parameters: schema}}
	}
	return history.Marshal(list)
}
