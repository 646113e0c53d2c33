package builtin

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

//go:embed ask.md
var askDescription string

const askSchema = `{
  "type": "object",
  "properties": {
    "questions": {
      "type": "array", "minItems": 1, "maxItems": 4,
      "items": {
        "type": "object",
        "properties": {
          "question": {"type": "string", "minLength": 1},
          "header": {"type": "string", "minLength": 1, "description": "One or two words."},
          "options": {
            "type": "array", "minItems": 2, "maxItems": 4,
            "items": {
              "type": "object",
              "properties": {
                "label": {"type": "string", "minLength": 1},
                "description": {"type": "string"}
              },
              "required": ["label", "description"],
              "additionalProperties": false
            }
          },
          "multiSelect": {"type": "boolean", "description": "Several options may be chosen."}
        },
        "required": ["question", "header", "options"],
        "additionalProperties": false
      }
    }
  },
  "required": ["questions"],
  "additionalProperties": false
}`

type askArgs struct {
	Questions []event.Question `json:"questions"`
}

// askTool is answered by the harness, which suspends the run until a person has answered. Its body is reached only
// where no harness does that, and says so.
func askTool() *tool.Tool {
	return define(tool.Definition{
		Name: "AskUserQuestion", Description: askDescription, Schema: json.RawMessage(askSchema),
		Kind: tool.KindAsk, Tags: []string{"user", "question"},
	}, func(context.Context, tool.Env, askArgs) (tool.Result, error) {
		return tool.Failure(tool.CodeUnavailable, "nobody can be asked here: decide by yourself and say what you assumed"), nil
	})
}
