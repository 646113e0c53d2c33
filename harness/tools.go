package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/harness-go/harness/ai"
)

// BuiltinTool is a tool that a runtime has by itself, with what harnesses have in common about it.
type BuiltinTool struct {
	ai.Tool
	// NativeName is the runtime's own name, CommonName the name that all harnesses share; both may be empty.
	NativeName  string
	CommonName  BuiltinToolName
	ToolUseKind BuiltinToolUseKind
}

// BuiltinToolName is a name that harnesses share for the same tool.
type BuiltinToolName string

// The shared names.
const (
	BuiltinToolRead             BuiltinToolName = "read"
	BuiltinToolWrite            BuiltinToolName = "write"
	BuiltinToolEdit             BuiltinToolName = "edit"
	BuiltinToolBash             BuiltinToolName = "bash"
	BuiltinToolGrep             BuiltinToolName = "grep"
	BuiltinToolGlob             BuiltinToolName = "glob"
	BuiltinToolWebSearch        BuiltinToolName = "webSearch"
	BuiltinToolAskUserQuestions BuiltinToolName = "askUserQuestions"
)

// BuiltinToolNames lists the shared names in their order.
var BuiltinToolNames = []BuiltinToolName{
	BuiltinToolRead, BuiltinToolWrite, BuiltinToolEdit, BuiltinToolBash,
	BuiltinToolGrep, BuiltinToolGlob, BuiltinToolWebSearch, BuiltinToolAskUserQuestions,
}

// BuiltinToolUseKind classes a built-in tool for permissions. The empty kind is unknown, which asks in every mode but
// allow-all.
type BuiltinToolUseKind string

// The kinds of built-in tools.
const (
	BuiltinToolUseKindReadonly BuiltinToolUseKind = "readonly"
	BuiltinToolUseKindEdit     BuiltinToolUseKind = "edit"
	BuiltinToolUseKindBash     BuiltinToolUseKind = "bash"
)

// Names for consumers.
type (
	AgentBuiltinTool        = BuiltinTool
	AgentBuiltinToolName    = BuiltinToolName
	AgentBuiltinToolUseKind = BuiltinToolUseKind
)

const anySchema = `{"$schema":"http://json-schema.org/draft-07/schema#"}`

// stringsSchema is the schema of an object with required string members.
func stringsSchema(members ...string) json.RawMessage {
	s := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{`
	required := ""
	for i, m := range members {
		if i > 0 {
			s += ","
			required += ","
		}
		s += `"` + m + `":{"type":"string"}`
		required += `"` + m + `"`
	}
	return json.RawMessage(s + `},"required":[` + required + `],"additionalProperties":false}`)
}

// StandardBuiltinTools are the tools that harnesses have in common, with the least that their input holds. The map is
// the caller's own.
func StandardBuiltinTools() map[BuiltinToolName]BuiltinTool {
	out := make(map[BuiltinToolName]BuiltinTool, len(BuiltinToolNames))
	add := func(name BuiltinToolName, kind BuiltinToolUseKind, description string, input, output json.RawMessage) {
		out[name] = BuiltinTool{
			Tool:       ai.Tool{Name: string(name), Description: description, InputSchema: input, OutputSchema: output, ReadOnly: kind == BuiltinToolUseKindReadonly},
			CommonName: name, ToolUseKind: kind,
		}
	}
	plain := json.RawMessage(anySchema)
	add(BuiltinToolRead, BuiltinToolUseKindReadonly, "Read file contents", stringsSchema("file_path"), plain)
	add(BuiltinToolWrite, BuiltinToolUseKindEdit, "Write content to a file", stringsSchema("file_path", "content"), plain)
	add(BuiltinToolEdit, BuiltinToolUseKindEdit, "Edit a file by replacing text", stringsSchema("file_path", "old_string", "new_string"), plain)
	add(BuiltinToolBash, BuiltinToolUseKindBash, "Execute a shell command", stringsSchema("command"), plain)
	add(BuiltinToolGrep, BuiltinToolUseKindReadonly, "Search file contents with regex", stringsSchema("pattern"), plain)
	add(BuiltinToolGlob, BuiltinToolUseKindReadonly, "Find files matching a glob pattern", stringsSchema("pattern"), plain)
	add(BuiltinToolWebSearch, BuiltinToolUseKindReadonly, "Search the web", stringsSchema("query"), plain)
	add(BuiltinToolAskUserQuestions, BuiltinToolUseKindReadonly, QuestionsToolDescription, QuestionsToolInputJSONSchema(), QuestionsToolOutputJSONSchema())
	return out
}

// CommonToolOptions describe how a runtime has a common tool. Empty fields keep the standard's.
type CommonToolOptions struct {
	NativeName  string
	ToolUseKind BuiltinToolUseKind
	Description string
	// InputSchema must declare every member that the standard requires.
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
}

// CommonTool declares a built-in tool under a name that harnesses share.
func CommonTool(name BuiltinToolName, o CommonToolOptions) (BuiltinTool, error) {
	t, ok := StandardBuiltinTools()[name]
	if !ok {
		return BuiltinTool{}, fmt.Errorf("harness: %q is not one of the common tools %v", name, BuiltinToolNames)
	}
	t.NativeName = o.NativeName
	if o.ToolUseKind != "" {
		t.ToolUseKind = o.ToolUseKind
		t.ReadOnly = o.ToolUseKind == BuiltinToolUseKindReadonly
	}
	if o.Description != "" {
		t.Description = o.Description
	}
	if o.OutputSchema != nil {
		t.OutputSchema = o.OutputSchema
	}
	if o.InputSchema == nil {
		return t, nil
	}
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	var standard, given object
	if err := json.Unmarshal(t.InputSchema, &standard); err != nil {
		return BuiltinTool{}, fmt.Errorf("harness: common tool %s: %w", name, err)
	}
	if err := json.Unmarshal(o.InputSchema, &given); err != nil {
		return BuiltinTool{}, fmt.Errorf("harness: common tool %s: input schema: %w", name, err)
	}
	for _, m := range standard.Required {
		if _, ok := given.Properties[m]; !ok {
			return BuiltinTool{}, fmt.Errorf("harness: common tool %s: input schema must declare %q", name, m)
		}
	}
	t.InputSchema = o.InputSchema
	return t, nil
}

// builtinOrder lists an adapter's built-in tools: the common ones first, in their order, then the others sorted.
func builtinOrder(tools map[string]BuiltinTool) []string {
	var names []string
	for _, n := range BuiltinToolNames {
		if _, ok := tools[string(n)]; ok {
			names = append(names, string(n))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(tools)) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// mergedOrder lists all tools of an agent: built-in ones, then the user's that are not among them, sorted.
func mergedOrder(builtin map[string]BuiltinTool, user map[string]ai.Tool) []string {
	names := builtinOrder(builtin)
	for _, n := range slices.Sorted(maps.Keys(user)) {
		if _, ok := builtin[n]; !ok {
			names = append(names, n)
		}
	}
	return names
}

// toolSpecs describes host tools to an adapter, sorted by name.
func toolSpecs(tools map[string]ai.Tool) []ToolSpec {
	specs := make([]ToolSpec, 0, len(tools))
	for _, n := range slices.Sorted(maps.Keys(tools)) {
		specs = append(specs, ToolSpec{Name: n, Description: tools[n].Description, InputSchema: tools[n].InputSchema})
	}
	return specs
}
