package harness

import (
	"slices"
	"strings"
)

// DebugLevel is the weight of a diagnostic.
type DebugLevel string

// The levels, from most to least severe.
const (
	DebugLevelError DebugLevel = "error"
	DebugLevelWarn  DebugLevel = "warn"
	DebugLevelInfo  DebugLevel = "info"
	DebugLevelDebug DebugLevel = "debug"
	DebugLevelTrace DebugLevel = "trace"
)

var debugLevels = []DebugLevel{DebugLevelError, DebugLevelWarn, DebugLevelInfo, DebugLevelDebug, DebugLevelTrace}

// DebugConfig says which diagnostics of a session are wanted. Level is debug when empty. Subsystems are dotted
// prefixes; none means all.
type DebugConfig struct {
	Enabled    bool
	Level      DebugLevel
	Subsystems []string
}

// Diagnostic is one line of a session's diagnostics. Timestamp is Unix time in milliseconds.
type Diagnostic struct {
	Level     DebugLevel
	Message   string
	Subsystem string
	Kind      string // log or event
	Source    string // of a console line
	Stream    string // stdout or stderr, of a console line
	Attrs     map[string]any
	Error     *DiagnosticError
	SessionID string
	Timestamp int64
}

// DiagnosticError is the error of a diagnostic.
type DiagnosticError struct {
	Name    string
	Message string
	Stack   string
}

// Observability is the diagnostics wiring of a session. Report may be called from any goroutine; it filters by Debug.
type Observability struct {
	Debug  DebugConfig
	Report func(Diagnostic)
}

// wants reports whether the configuration lets a diagnostic through. Console lines pass the filter by subsystem.
func (c DebugConfig) wants(d Diagnostic) bool {
	if !c.Enabled {
		return false
	}
	limit := c.Level
	if limit == "" {
		limit = DebugLevelDebug
	}
	at := slices.Index(debugLevels, d.Level)
	if at < 0 || at > slices.Index(debugLevels, limit) {
		return false
	}
	if len(c.Subsystems) == 0 || d.Stream != "" {
		return true
	}
	return slices.ContainsFunc(c.Subsystems, func(p string) bool {
		return d.Subsystem == p || strings.HasPrefix(d.Subsystem, p+".")
	})
}
