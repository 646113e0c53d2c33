// Package builtin holds the tools that every run has: files, search, git, shell, background jobs, the todo list, notes,
// the run's context, skills, the question to the user and the finder of further tools.
//
// Each tool is a .go file with its schema and a .md file with the description that the model reads. The tools own no
// state: files and processes belong to the sandbox, jobs, artifacts, todos and versions to what tool.Env brings.
//
// Invariants: a result holds a bounded amount of valid UTF-8; what was cut is kept whole as an artifact where the
// session keeps artifacts; a file is replaced as a whole or not at all, and never over a change that the session has
// not seen; no process outlives the call that started it unless it became a job. What the model did wrong comes back
// as a tool.Failure that names the argument and the way to mend it; a Go error means that the harness has a problem.
package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/harness-go/harness/tool"
)

// Core returns the core tools in the order in which a model sees them.
func Core() []*tool.Tool { return slices.Clone(core()) }

var core = sync.OnceValue(func() []*tool.Tool {
	return []*tool.Tool{
		readTool(), writeTool(), editTool(), applyPatchTool(),
		bashTool(), jobOutputTool(), jobKillTool(),
		globTool(), grepTool(), lsTool(), gitStatusTool(), gitDiffTool(),
		todosTool(), workingMemoryTool(), contextStatusTool(), compactHistoryTool(),
		skillTool(), askTool(), findToolTool(),
	}
})

// define makes a core tool whose body gets decoded arguments. The schema is checked here again, so that a body can
// rely on it whoever runs the tool. A definition that is not valid is a mistake in this package and panics.
func define[T any](def tool.Definition, body func(context.Context, tool.Env, T) (tool.Result, error)) *tool.Tool {
	def.Tier = tool.TierCore
	var t *tool.Tool
	t, err := tool.New(def, func(ctx context.Context, env tool.Env, raw json.RawMessage) (tool.Result, error) {
		checked, err := t.CheckArguments(string(raw))
		if err != nil {
			return tool.Failure(tool.CodeInvalidArguments, "%s", err), nil
		}
		var args T
		if err := json.Unmarshal(checked, &args); err != nil {
			// The schema admits what the types do not in one case only: numbers of absurd size.
			return tool.Failure(tool.CodeInvalidArguments, "a number in the arguments of %s is out of range", def.Name), nil
		}
		return body(ctx, env, args)
	})
	if err != nil {
		panic(fmt.Sprintf("builtin: %v", err))
	}
	return t
}

// integer is a whole number of JSON in any notation: 10, 10.0 and 1e1 are the same to JSON Schema.
type integer int64

const maxInteger = 1 << 53

func (n *integer) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if f != float64(int64(f)) || f > maxInteger || f < -maxInteger {
		return fmt.Errorf("%s is not a whole number in range", b)
	}
	*n = integer(f)
	return nil
}
