package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/history"
	"github.com/harness-go/harness/model/wire/transport"
)

type requestJSON struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	System       []*blockJSON  `json:"system,omitempty"`
	Messages     []turnJSON    `json:"messages"`
	ToolChoice   *choiceJSON   `json:"tool_choice,omitempty"`
	Temperature  *float64      `json:"temperature,omitempty"`
	Thinking     *thinkingJSON `json:"thinking,omitempty"`
	OutputConfig *outputJSON   `json:"output_config,omitempty"`
	Stream       bool          `json:"stream"`
}

type choiceJSON struct {
	Type string `json:"type"`
}

type thinkingJSON struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens,omitempty"`
	// Display asks for the reasoning's text: newer models leave it out unless they are told.
	Display string `json:"display,omitempty"`
}

type outputJSON struct {
	Effort string      `json:"effort,omitempty"`
	Format *formatJSON `json:"format,omitempty"`
}

type formatJSON struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type toolJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
	Cache       *cacheJSON      `json:"cache_control,omitempty"`
}

type cacheJSON struct {
	Type string `json:"type"`
}

// mark is the cache mark. The wire takes at most four in a request: they stand behind the tools, behind the system
// prompt and behind the last two turns of the user, so that each call reads what the one before it wrote.
var mark = &cacheJSON{Type: "ephemeral"}

const markedTurns = 2

var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

// encode writes the request's body. Schemas go out as they are; only blanks between tokens may change.
func (c *Client) encode(req model.Request) ([]byte, error) {
	if req.Model == "" {
		return nil, errors.New("the request names no model")
	}
	if req.MaxOutputTokens < 0 {
		return nil, errors.New("MaxOutputTokens is negative")
	}
	r := requestJSON{Model: req.Model, MaxTokens: req.MaxOutputTokens, Temperature: req.Temperature, Stream: true}
	if r.MaxTokens == 0 {
		r.MaxTokens = DefaultMaxTokens
	}
	var err error
	if r.Thinking, r.OutputConfig, err = c.effort(req, &r.MaxTokens); err != nil {
		return nil, err
	}
	if len(req.ResponseSchema) > 0 {
		if !json.Valid(req.ResponseSchema) {
			return nil, errors.New("the response schema is not JSON")
		}
		if r.OutputConfig == nil {
			r.OutputConfig = &outputJSON{}
		}
		// The wire's own field, and not a tool that the model must call: the answer stays a text, other tools stay
		// callable beside it, and a forced call excludes thinking.
		r.OutputConfig.Format = &formatJSON{Type: "json_schema", Schema: req.ResponseSchema}
	}
	tools, err := c.tools.JSON(req.Tools, encodeTools)
	if err != nil {
		return nil, err
	}
	if r.ToolChoice, err = choice(req); err != nil {
		return nil, err
	}
	if r.System, r.Messages, err = messages(req); err != nil {
		return nil, err
	}
	if len(r.Messages) == 0 {
		return nil, errors.New("the request holds no message")
	}
	if r.Thinking != nil && r.Thinking.Type == thinkingEnabled && !mayThink(r.Messages) {
		r.Thinking = nil
	}
	body, err := history.Marshal(r)
	if err != nil || len(req.Tools) == 0 {
		return body, err
	}
	return transport.WithMember(body, "tools", tools), nil
}

func choice(req model.Request) (*choiceJSON, error) {
	if len(req.Tools) == 0 {
		return nil, nil
	}
	switch req.ToolChoice {
	case "":
		return nil, nil
	case model.ToolChoiceNone:
		return &choiceJSON{"none"}, nil
	case model.ToolChoiceRequired:
		return &choiceJSON{"any"}, nil
	}
	return nil, fmt.Errorf("tool choice %q: use none, required or leave it empty", req.ToolChoice)
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
		list[i] = toolJSON{Name: t.Name, Description: t.Description, Schema: schema}
		if i == len(tools)-1 {
			list[i].Cache = mark
		}
	}
	return history.Marshal(list)
}
