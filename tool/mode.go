package tool

// PermissionMode is the baseline for a runtime's own tools. The zero value means PermissionModeAllowAll.
type PermissionMode string

// The permission modes, from strict to loose.
const (
	PermissionModeAllowReads PermissionMode = "allow-reads"
	PermissionModeAllowEdits PermissionMode = "allow-edits"
	PermissionModeAllowAll   PermissionMode = "allow-all"
)

// Valid reports whether m is one of the three modes.
func (m PermissionMode) Valid() bool {
	switch m {
	case PermissionModeAllowReads, PermissionModeAllowEdits, PermissionModeAllowAll:
		return true
	}
	return false
}

// Asks reports whether a call of the kind needs a person in this mode. Kinds that are not known ask, unless every
// call is allowed.
func (m PermissionMode) Asks(k Kind) bool {
	switch m {
	case PermissionModeAllowAll, "":
		return false
	case PermissionModeAllowEdits:
		return k != KindReadonly && k != KindAsk && k != KindEdit
	}
	return k != KindReadonly && k != KindAsk
}
