package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

//go:embed find_tool.md
var findToolDescription string

const findToolSchema = `{
  "type": "object",
  "properties": {
    "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "Keywords, or select:<name>[,<name>]."}
  },
  "required": ["query"],
  "additionalProperties": false
}`

const selectPrefix = "select:"

type findToolArgs struct {
	Query string `json:"query"`
}

type foundTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

type refusedTool struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

type findToolResult struct {
	Query     string        `json:"query"`
	Activated []foundTool   `json:"activated"`
	Refused   []refusedTool `json:"refused,omitempty"`
	NotFound  []string      `json:"not_found,omitempty"`
	Note      string        `json:"note,omitempty"`
}

// findToolTool is readonly: what it activates is still gated at each call. It is not parallel, because the next calls
// of the step may be those that it makes possible.
func findToolTool() *tool.Tool {
	return define(tool.Definition{
		Name: "find_tool", Description: findToolDescription, Schema: json.RawMessage(findToolSchema),
		Kind: tool.KindReadonly, Tags: []string{"tools"},
	}, runFindTool)
}

func runFindTool(_ context.Context, env tool.Env, args findToolArgs) (tool.Result, error) {
	if env.Activator == nil {
		return tool.Failure(tool.CodeUnavailable, "find_tool is not available: this run has no further tools"), nil
	}
	out := findToolResult{Query: args.Query, Activated: []foundTool{}}
	defs, err := candidates(env.Activator, args.Query, &out)
	if err != nil {
		return outcome(err)
	}
	var names []string
	for _, d := range defs {
		// One by one, so that a tool which the run may not use does not stand in the way of the others.
		if err := env.Activator.Activate(d.Name); err != nil {
			out.Refused = append(out.Refused, refusedTool{d.Name, err.Error()})
			continue
		}
		names = append(names, d.Name)
		out.Activated = append(out.Activated, foundTool{d.Name, d.Description, d.Schema})
	}
	if len(names) == 0 && len(out.Refused) == 0 && len(out.NotFound) == 0 {
		out.Note = "no tool has these words; try others, of three letters or more"
	}
	res, err := tool.JSONResult(out)
	if err != nil {
		return tool.Result{}, err
	}
	switch {
	case len(names) > 0:
		res.Facts = []event.Payload{event.ToolActivatedPayload{Tools: names, Query: args.Query}}
	case len(out.Refused) > 0:
		return tool.Failure(tool.CodePermissionDenied, "argument query: %s", joinRefused(out.Refused)), nil
	case len(out.NotFound) > 0:
		return tool.Failure(tool.CodeNotFound, "argument query: there is no tool named %s; search by keywords instead", strings.Join(out.NotFound, ", ")), nil
	}
	return res, nil
}

// candidates are the tools that the query names or finds. A core tool needs no activation.
func candidates(a tool.Activator, query string, out *findToolResult) ([]tool.Definition, error) {
	list, ok := strings.CutPrefix(strings.TrimSpace(query), selectPrefix)
	if !ok {
		return a.Find(query), nil
	}
	var defs []tool.Definition
	var seen []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" || slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		switch d, ok := a.Lookup(name); {
		case !ok:
			out.NotFound = append(out.NotFound, name)
		case d.Tier == tool.TierCore:
			out.Refused = append(out.Refused, refusedTool{name, "it is a core tool: call it directly"})
		case len(defs) == tool.MaxSearchHits:
			out.Refused = append(out.Refused, refusedTool{name, "too many at once: select it in another call"})
		default:
			defs = append(defs, d)
		}
	}
	if len(seen) == 0 {
		return nil, fail(tool.CodeInvalidArguments, "argument query: select: needs the name of a tool")
	}
	return defs, nil
}

func joinRefused(list []refusedTool) string {
	parts := make([]string, len(list))
	for i, r := range list {
		parts[i] = r.Name + ": " + r.Reason
	}
	return strings.Join(parts, "; ")
}
