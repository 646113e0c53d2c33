package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

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
	if err := r.effort(req); err != nil {
		return nil, err
	}
	if len(req.ResponseSchema) > 0 {
		if !json.Valid(req.ResponseSchema) {
			return nil, errors.New("the response schema is not JSON")
		}
		if r.OutputConfig == nil {
			r.OutputConfig = &outputJSON{}
		}
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
	body, err := history.Marshal(r)
	if err != nil || len(req.Tools) == 0 {
		return body, err
	}
	return transport.WithMember(body, "tools", tools), nil
}

// effort maps the reasoning effort. A number is a budget of thinking tokens, which the wire counts within max_tokens;
// none switches thinking off; any other word is an effort, with which the model chooses by itself how much to think.
func (r *requestJSON) effort(req model.Request) error {
	effort := strings.TrimSpace(req.ReasoningEffort)
	n, err := strconv.Atoi(effort)
	switch {
	case effort == "":
	case err == nil && n < 0:
		return fmt.Errorf("reasoning effort %d: a budget of thinking tokens is not negative", n)
	case err == nil && n == 0, strings.EqualFold(effort, "none"):
		r.Thinking = &thinkingJSON{Type: "disabled"}
	case err == nil:
		if req.MaxOutputTokens == 0 {
			r.MaxTokens += n
		} else if n >= req.MaxOutputTokens {
			return fmt.Errorf("reasoning effort %d: the thinking budget must be below the limit of %d output tokens", n, req.MaxOutputTokens)
		}
		r.Thinking = &thinkingJSON{Type: "enabled", Budget: n}
	default:
		r.Thinking = &thinkingJSON{Type: "adaptive"}
		r.OutputConfig = &outputJSON{Effort: strings.ToLower(effort)}
	}
	return nil
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
