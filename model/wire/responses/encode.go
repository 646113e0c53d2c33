package responses

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
	"github.com/harness-go/harness/model/wire/transport"
)

type requestJSON struct {
	Model           string         `json:"model"`
	Instructions    string         `json:"instructions,omitempty"`
	Input           []any          `json:"input"`
	ToolChoice      string         `json:"tool_choice,omitempty"`
	MaxOutputTokens int            `json:"max_output_tokens,omitempty"`
	Temperature     *float64       `json:"temperature,omitempty"`
	Reasoning       *reasoningJSON `json:"reasoning,omitempty"`
	Text            *textJSON      `json:"text,omitempty"`
	PromptCacheKey  string         `json:"prompt_cache_key,omitempty"`
	Include         []string       `json:"include,omitempty"`
	Store           bool           `json:"store"`
	Stream          bool           `json:"stream"`
}

type reasoningJSON struct {
	Effort  string `json:"effort"`
	Summary string `json:"summary,omitempty"`
}

type textJSON struct {
	Format formatJSON `json:"format"`
}

// formatJSON asks for JSON by a schema. It is not strict: the strict form takes a part of JSON Schema only (every property
// required, no others allowed, few keywords) and the service refuses the whole request for the rest.
type formatJSON struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

type toolJSON struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

// encode writes the request's body. Schemas go out as they are; only blanks between tokens may change. encrypted asks
// for the reasoning in its encrypted form.
//
// The system prompt goes into instructions and not into a message of the developer: it is no part of the conversation,
// stands before all of it on any model, and the same bytes at the beginning are what the service's prompt cache goes by.
// System messages within the conversation keep their place, as the developer's.
func (c *Client) encode(req model.Request, encrypted bool) ([]byte, error) {
	if req.Model == "" {
		return nil, errors.New("the request names no model")
	}
	if req.MaxOutputTokens < 0 {
		return nil, errors.New("MaxOutputTokens is negative")
	}
	r := requestJSON{
		Model: req.Model, Instructions: req.System, MaxOutputTokens: req.MaxOutputTokens, Temperature: req.Temperature,
		PromptCacheKey: cacheKey(req.SessionID), Stream: true,
	}
	switch effort := effortOf(req); effort {
	case "":
	case noEffort:
		r.Reasoning = &reasoningJSON{Effort: effort}
	default:
		r.Reasoning = &reasoningJSON{Effort: effort, Summary: "auto"}
	}
	if encrypted {
		r.Include = []string{"reasoning.encrypted_content"}
	}
	if len(req.ResponseSchema) > 0 {
		if !json.Valid(req.ResponseSchema) {
			return nil, errors.New("the response schema is not JSON")
		}
		r.Text = &textJSON{formatJSON{Type: "json_schema", Name: "answer", Schema: req.ResponseSchema}}
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
	if r.Input, err = input(req); err != nil {
		return nil, err
	}
	if len(r.Input) == 0 {
		return nil, errors.New("the request holds no message")
	}
	body, err := history.Marshal(r)
	if err != nil || len(req.Tools) == 0 {
		return body, err
	}
	return transport.WithMember(body, "tools", tools), nil
}

const noEffort = "none"

func effortOf(req model.Request) string {
	return strings.ToLower(strings.TrimSpace(req.ReasoningEffort))
}

// maxName is the length that the service takes for ids and keys.
const maxName = 64

// cacheKey is the session's id as far as the service takes it: it only has to be the same for the same session.
func cacheKey(session string) string {
	if len(session) <= maxName {
		return session
	}
	return shortened(session)
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
		list[i] = toolJSON{Type: "function", Name: t.Name, Description: t.Description, Parameters: schema}
	}
	return history.Marshal(list)
}
