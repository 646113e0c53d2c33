package harness

import "github.com/harness-go/harness/tool"

// PermissionMode is the baseline for a runtime's own tools.
type PermissionMode = tool.PermissionMode

// AgentPermissionMode is PermissionMode for consumers.
type AgentPermissionMode = PermissionMode

// The permission modes, from strict to loose.
const (
	PermissionModeAllowReads = tool.PermissionModeAllowReads
	PermissionModeAllowEdits = tool.PermissionModeAllowEdits
	PermissionModeAllowAll   = tool.PermissionModeAllowAll

	DefaultPermissionMode = PermissionModeAllowAll
)

// ResolvePermissionMode returns the mode, or the default when it is empty.
func ResolvePermissionMode(m PermissionMode) PermissionMode {
	if m == "" {
		return DefaultPermissionMode
	}
	return m
}

// PermissionModeNeedsBuiltinSupport reports whether the mode needs an adapter that can ask for the approval of its
// built-in tools.
func PermissionModeNeedsBuiltinSupport(m PermissionMode) bool {
	return ResolvePermissionMode(m) != PermissionModeAllowAll
}

// SupportsBuiltinToolApprovals reports whether the adapter can ask for the approval of its built-in tools.
func SupportsBuiltinToolApprovals(h Harness) bool {
	s, ok := h.(BuiltinToolApprovalSupport)
	return ok && s.SupportsBuiltinToolApprovals()
}

// SupportsBuiltinToolFiltering reports whether the adapter can hide built-in tools.
func SupportsBuiltinToolFiltering(h Harness) bool {
	s, ok := h.(BuiltinToolFilteringSupport)
	return ok && s.SupportsBuiltinToolFiltering()
}
