package builtin

import (
	"context"
	_ "embed"
	"encoding/json"

	"github.com/harness-go/harness/tool"
)

//go:embed context_status.md
var contextStatusDescription string

//go:embed compact_history.md
var compactHistoryDescription string

const contextStatusSchema = `{"type": "object", "properties": {}, "additionalProperties": false}`

const compactHistorySchema = `{
  "type": "object",
  "properties": {
    "mode": {"type": "string", "enum": ["strip", "summarize", "hybrid"]},
    "keep_last": {"type": "integer", "minimum": 2, "maximum": 1000, "description": "Newest messages that stay as they are, default 4."}
  },
  "required": ["mode"],
  "additionalProperties": false
}`

const defaultKeepLast = 4

type compactHistoryArgs struct {
	Mode     tool.CompactMode `json:"mode"`
	KeepLast integer          `json:"keep_last"`
}

type compactHistoryResult struct {
	Requested bool             `json:"requested"`
	Mode      tool.CompactMode `json:"mode"`
	KeepLast  int              `json:"keep_last"`
	Note      string           `json:"note"`
}

func contextStatusTool() *tool.Tool {
	return define(tool.Definition{
		Name: "context_status", Description: contextStatusDescription, Schema: json.RawMessage(contextStatusSchema),
		Kind: tool.KindReadonly, Parallel: true, Tags: []string{"tokens"},
	}, runContextStatus)
}

func runContextStatus(_ context.Context, env tool.Env, _ struct{}) (tool.Result, error) {
	if env.Context == nil {
		return tool.Failure(tool.CodeUnavailable, "context_status is not available: this session's harness cannot tell how full its context is"), nil
	}
	return tool.JSONResult(env.Context.Status())
}

// compactHistoryTool is readonly to the gate like todos: it changes what the run's own model reads and nothing in the
// world, and the log keeps the whole history.
func compactHistoryTool() *tool.Tool {
	return define(tool.Definition{
		Name: "compact_history", Description: compactHistoryDescription, Schema: json.RawMessage(compactHistorySchema),
		Kind: tool.KindReadonly, Tags: []string{"context", "tokens"},
	}, runCompactHistory)
}

func runCompactHistory(ctx context.Context, env tool.Env, args compactHistoryArgs) (tool.Result, error) {
	if env.Context == nil {
		return tool.Failure(tool.CodeUnavailable, "compact_history is not available: this session's harness cannot make its history shorter"), nil
	}
	keep := int(args.KeepLast)
	if keep == 0 {
		keep = defaultKeepLast
	}
	if err := env.Context.RequestCompaction(ctx, args.Mode, keep); err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.Failure(tool.CodeFailed, "the history was not made shorter: %s", err), nil
	}
	return tool.JSONResult(compactHistoryResult{
		Requested: true, Mode: args.Mode, KeepLast: keep, Note: "it is made shorter before the next step",
	})
}
