package harness

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/harness-go/harness/ai"
)

// BuiltinToolFilteringMode tells how to read the names of a BuiltinToolFiltering.
type BuiltinToolFilteringMode string

// The filtering modes.
const (
	BuiltinToolFilteringAllow BuiltinToolFilteringMode = "allow"
	BuiltinToolFilteringDeny  BuiltinToolFilteringMode = "deny"
)

// BuiltinToolFiltering selects a session's built-in tools. An adapter that cannot hide tools must ask for the
// approval of those that are not selected, whatever the permission mode; the host denies the request.
type BuiltinToolFiltering struct {
	Mode      BuiltinToolFilteringMode `json:"mode"`
	ToolNames []string                 `json:"toolNames"`
}

// ResolveToolFilteringOptions are the settings that select tools. Nil ActiveTools and InactiveTools are unset; an
// empty ActiveTools leaves none. AllTools is the merged set; when it is nil it is made of Harness and UserTools.
type ResolveToolFilteringOptions struct {
	Harness       Harness
	UserTools     map[string]ai.Tool
	AllTools      map[string]ai.Tool
	ActiveTools   []string
	InactiveTools []string
}

// ResolvedToolFiltering is what the settings come to. BuiltinToolFiltering is nil when every built-in tool stays.
type ResolvedToolFiltering struct {
	ActiveUserTools      map[string]ai.Tool
	BuiltinToolFiltering *BuiltinToolFiltering
}

// ResolveToolFiltering computes the host tools that stay and the filtering for the adapter. It fails when both lists
// are set, when a name is unknown, and when built-in tools are to be left out that the adapter can neither hide nor
// ask for.
func ResolveToolFiltering(o ResolveToolFilteringOptions) (ResolvedToolFiltering, error) {
	if o.ActiveTools != nil && o.InactiveTools != nil {
		return ResolvedToolFiltering{}, errors.New("HarnessAgent: pass either `activeTools` or `inactiveTools`, not both.")
	}
	out := ResolvedToolFiltering{ActiveUserTools: o.UserTools}
	if out.ActiveUserTools == nil {
		out.ActiveUserTools = map[string]ai.Tool{}
	}
	if o.ActiveTools == nil && o.InactiveTools == nil {
		return out, nil
	}
	builtin := o.Harness.BuiltinTools()
	for _, n := range append(slices.Clone(o.ActiveTools), o.InactiveTools...) {
		_, isBuiltin := builtin[n]
		_, isUser := o.UserTools[n]
		_, isOther := o.AllTools[n]
		if !isBuiltin && !isUser && !isOther {
			return ResolvedToolFiltering{}, &ai.NoSuchToolError{ToolName: n, AvailableTools: mergedOrder(builtin, o.UserTools)}
		}
	}
	active := func(n string) bool {
		if o.ActiveTools != nil {
			return slices.Contains(o.ActiveTools, n)
		}
		return !slices.Contains(o.InactiveTools, n)
	}
	out.ActiveUserTools = map[string]ai.Tool{}
	for n, t := range o.UserTools {
		if active(n) {
			out.ActiveUserTools[n] = t
		}
	}
	kept, dropped := []string{}, []string{}
	for _, n := range builtinOrder(builtin) {
		if active(n) {
			kept = append(kept, n)
		} else {
			dropped = append(dropped, n)
		}
	}
	if len(dropped) == 0 {
		return out, nil
	}
	if !SupportsBuiltinToolFiltering(o.Harness) && !SupportsBuiltinToolApprovals(o.Harness) {
		return ResolvedToolFiltering{}, NewCapabilityUnsupportedError(
			fmt.Sprintf("Harness '%s' does not support built-in tool filtering controls.", o.Harness.HarnessID()), o.Harness.HarnessID(), nil)
	}
	if o.ActiveTools != nil {
		out.BuiltinToolFiltering = &BuiltinToolFiltering{Mode: BuiltinToolFilteringAllow, ToolNames: kept}
	} else {
		out.BuiltinToolFiltering = &BuiltinToolFiltering{Mode: BuiltinToolFilteringDeny, ToolNames: dropped}
	}
	return out, nil
}

// IsBuiltinToolIncluded reports whether the filtering leaves a built-in tool. Nil leaves all; an unknown mode none.
func IsBuiltinToolIncluded(f *BuiltinToolFiltering, toolName string) bool {
	if f == nil {
		return true
	}
	switch f.Mode {
	case BuiltinToolFilteringAllow:
		return slices.Contains(f.ToolNames, toolName)
	case BuiltinToolFilteringDeny:
		return !slices.Contains(f.ToolNames, toolName)
	}
	return false
}

// BuiltinToolFilteringDenialReason is what a model reads about a call of a tool that is left out.
func BuiltinToolFilteringDenialReason(toolName string) string {
	return fmt.Sprintf("Tool '%s' is inactive due to the HarnessAgent tool filtering policy.", toolName)
}

func mergeTools(builtin map[string]BuiltinTool, user map[string]ai.Tool) map[string]ai.Tool {
	out := make(map[string]ai.Tool, len(builtin)+len(user))
	for n, t := range builtin {
		out[n] = t.Tool
	}
	maps.Copy(out, user)
	return out
}
