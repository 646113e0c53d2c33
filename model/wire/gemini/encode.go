package gemini

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
	Contents          []contentJSON   `json:"contents"`
	SystemInstruction *contentJSON    `json:"systemInstruction,omitempty"`
	ToolConfig        *toolConfigJSON `json:"toolConfig,omitempty"`
	GenerationConfig  *generationJSON `json:"generationConfig,omitempty"`
}

type toolsJSON struct {
	FunctionDeclarations []functionJSON `json:"functionDeclarations"`
}

type functionJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfigJSON struct {
	FunctionCalling struct {
		Mode string `json:"mode"`
	} `json:"functionCallingConfig"`
}

type generationJSON struct {
	MaxOutputTokens int             `json:"maxOutputTokens,omitempty"`
	Temperature     *float64        `json:"temperature,omitempty"`
	MimeType        string          `json:"responseMimeType,omitempty"`
	Schema          json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking        *thinkingJSON   `json:"thinkingConfig,omitempty"`
}

type thinkingJSON struct {
	IncludeThoughts bool   `json:"includeThoughts,omitempty"`
	Level           string `json:"thinkingLevel,omitempty"`
	Budget          *int   `json:"thinkingBudget,omitempty"`
}

// encode writes the request's body. Schemas go out as they are; only blanks between tokens may change.
func (c *Client) encode(req model.Request) ([]byte, error) {
	if strings.TrimPrefix(req.Model, "models/") == "" {
		return nil, errors.New("the request names no model")
	}
	var r requestJSON
	var err error
	if r.GenerationConfig, err = generation(req); err != nil {
		return nil, err
	}
	tools, err := c.tools.JSON(req.Tools, encodeTools)
	if err != nil {
		return nil, err
	}
	if r.ToolConfig, err = toolConfig(req); err != nil {
		return nil, err
	}
	if r.SystemInstruction, r.Contents, err = contents(req); err != nil {
		return nil, err
	}
	if len(r.Contents) == 0 {
		return nil, errors.New("the request holds no message")
	}
	body, err := history.Marshal(r)
	if err != nil || len(req.Tools) == 0 {
		return body, err
	}
	return transport.WithMember(body, "tools", tools), nil
}

func generation(req model.Request) (*generationJSON, error) {
	if req.MaxOutputTokens < 0 {
		return nil, errors.New("MaxOutputTokens is negative")
	}
	g := generationJSON{MaxOutputTokens: req.MaxOutputTokens, Temperature: req.Temperature}
	if len(req.ResponseSchema) > 0 {
		if !json.Valid(req.ResponseSchema) {
			return nil, errors.New("the response schema is not JSON")
		}
		g.MimeType, g.Schema = "application/json", req.ResponseSchema
	}
	var err error
	if g.Thinking, err = thinking(req.ReasoningEffort); err != nil {
		return nil, err
	}
	if g.MaxOutputTokens == 0 && g.Temperature == nil && g.Schema == nil && g.Thinking == nil {
		return nil, nil
	}
	return &g, nil
}

// thinking maps an effort. A word is a thinking level (minimal, low, medium, high and what else the model knows); a
// number is a thinking budget in tokens, for models that know no levels, -1 leaving it to the model; none is the budget
// 0. Thoughts are asked for where an effort is set; without one the model's own default holds.
func thinking(effort string) (*thinkingJSON, error) {
	effort = strings.TrimSpace(effort)
	n, err := strconv.Atoi(effort)
	switch {
	case effort == "":
		return nil, nil
	case err == nil && n < -1:
		return nil, fmt.Errorf("reasoning effort %d: a budget of thinking tokens is -1, 0 or positive", n)
	case err == nil:
		return &thinkingJSON{IncludeThoughts: n != 0, Budget: &n}, nil
	case strings.EqualFold(effort, "none"):
		return &thinkingJSON{Budget: new(int)}, nil
	}
	return &thinkingJSON{IncludeThoughts: true, Level: strings.ToUpper(effort)}, nil
}

func encodeTools(tools []model.Tool) ([]byte, error) {
	list := make([]functionJSON, len(tools))
	for i, t := range tools {
		if len(t.Schema) > 0 && !json.Valid(t.Schema) {
			return nil, fmt.Errorf("the schema of tool %q is not JSON", t.Name)
		}
		list[i] = functionJSON{Name: t.Name, Description: t.Description, Schema: t.Schema}
	}
	return history.Marshal([]toolsJSON{{FunctionDeclarations: list}})
}

func toolConfig(req model.Request) (*toolConfigJSON, error) {
	if len(req.Tools) == 0 || req.ToolChoice == "" {
		return nil, nil
	}
	var c toolConfigJSON
	switch req.ToolChoice {
	case model.ToolChoiceNone:
		c.FunctionCalling.Mode = "NONE"
	case model.ToolChoiceRequired:
		c.FunctionCalling.Mode = "ANY"
	default:
		return nil, fmt.Errorf("tool choice %q: use none, required or leave it empty", req.ToolChoice)
	}
	return &c, nil
}
