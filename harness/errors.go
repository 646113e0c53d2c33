package harness

import (
	"encoding/json"
	"errors"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
)

// Names of the errors of this package.
const (
	HarnessErrorName               = "AI_HarnessError"
	CapabilityUnsupportedErrorName = "AI_HarnessCapabilityUnsupportedError"
	SandboxAuthenticationErrorName = "AI_HarnessSandboxAuthenticationError"
	HistoryUnavailableErrorName    = "AI_HarnessHistoryUnavailableError"
)

// HarnessError is the base of the package's errors. Its message is for clients only where its Name is
// HarnessErrorName or that of one of the other errors of this package.
type HarnessError struct {
	Name    string
	Message string
	Cause   error
}

// NewHarnessError makes a base error. cause may be nil.
func NewHarnessError(message string, cause error) *HarnessError {
	return &HarnessError{Name: HarnessErrorName, Message: message, Cause: cause}
}

func (e *HarnessError) Error() string { return e.Message }

func (e *HarnessError) Unwrap() error { return e.Cause }

// ErrorName is the error's name in streams.
func (e *HarnessError) ErrorName() string { return e.Name }

// IsHarnessError reports whether err is, or wraps, an error of this package's family.
func IsHarnessError(err error) bool {
	var e *HarnessError
	return errors.As(err, &e)
}

// CapabilityUnsupportedError: the adapter or sandbox cannot do what was asked. HarnessID is empty where a sandbox
// provider is meant.
type CapabilityUnsupportedError struct {
	base      HarnessError
	HarnessID string
}

// NewCapabilityUnsupportedError makes the error of a missing capability. cause may be nil.
func NewCapabilityUnsupportedError(message, harnessID string, cause error) *CapabilityUnsupportedError {
	return &CapabilityUnsupportedError{base: HarnessError{Name: CapabilityUnsupportedErrorName, Message: message, Cause: cause}, HarnessID: harnessID}
}

func (e *CapabilityUnsupportedError) Error() string { return e.base.Message }

func (e *CapabilityUnsupportedError) Unwrap() error { return &e.base }

// ErrorName is the error's name in streams.
func (e *CapabilityUnsupportedError) ErrorName() string { return e.base.Name }

// IsCapabilityUnsupportedError reports whether err is, or wraps, a CapabilityUnsupportedError.
func IsCapabilityUnsupportedError(err error) bool {
	var e *CapabilityUnsupportedError
	return errors.As(err, &e)
}

// SandboxAuthenticationError: a sandbox provider cannot authenticate.
type SandboxAuthenticationError struct {
	base              HarnessError
	SandboxProviderID string
}

// NewSandboxAuthenticationError makes the error of a sandbox provider that cannot authenticate. cause may be nil.
func NewSandboxAuthenticationError(message, sandboxProviderID string, cause error) *SandboxAuthenticationError {
	return &SandboxAuthenticationError{base: HarnessError{Name: SandboxAuthenticationErrorName, Message: message, Cause: cause}, SandboxProviderID: sandboxProviderID}
}

func (e *SandboxAuthenticationError) Error() string { return e.base.Message }

func (e *SandboxAuthenticationError) Unwrap() error { return &e.base }

// ErrorName is the error's name in streams.
func (e *SandboxAuthenticationError) ErrorName() string { return e.base.Name }

// IsSandboxAuthenticationError reports whether err is, or wraps, a SandboxAuthenticationError.
func IsSandboxAuthenticationError(err error) bool {
	var e *SandboxAuthenticationError
	return errors.As(err, &e)
}

// HistoryUnavailableError: the adapter can read the runtime's history, but cannot reach it now.
type HistoryUnavailableError struct {
	base      HarnessError
	HarnessID string
}

// NewHistoryUnavailableError makes the error of a history that cannot be reached. cause may be nil.
func NewHistoryUnavailableError(message, harnessID string, cause error) *HistoryUnavailableError {
	return &HistoryUnavailableError{base: HarnessError{Name: HistoryUnavailableErrorName, Message: message, Cause: cause}, HarnessID: harnessID}
}

func (e *HistoryUnavailableError) Error() string { return e.base.Message }

func (e *HistoryUnavailableError) Unwrap() error { return &e.base }

// ErrorName is the error's name in streams.
func (e *HistoryUnavailableError) ErrorName() string { return e.base.Name }

// IsHistoryUnavailableError reports whether err is, or wraps, a HistoryUnavailableError.
func IsHistoryUnavailableError(err error) bool {
	var e *HistoryUnavailableError
	return errors.As(err, &e)
}

// maskedMessage is what a client reads about an error that may hold something private.
const maskedMessage = "An error occurred."

// GetHarnessErrorMessage returns a message that is safe to show a client: that of this package's own errors, and
// "An error occurred." for any other. A nil error has the empty message.
func GetHarnessErrorMessage(err error) string {
	if err == nil {
		return ""
	}
	var base *HarnessError
	if !errors.As(err, &base) {
		return maskedMessage
	}
	switch base.Name {
	case HarnessErrorName, CapabilityUnsupportedErrorName, SandboxAuthenticationErrorName, HistoryUnavailableErrorName:
		return base.Message
	}
	return maskedMessage
}

// TurnPausedError: Execute's turn paused for a decision or a result that nobody can give, because Execute's session is
// gone. Result is what the turn did so far.
type TurnPausedError struct {
	base   HarnessError
	Result *agent.AgentResult
}

func newTurnPausedError(r *ai.GenerateTextResult) *TurnPausedError {
	return &TurnPausedError{
		base: HarnessError{Name: HarnessErrorName, Message: "The turn paused for a tool approval or a tool result, which Execute cannot wait for. Use CreateSession with Generate or Stream, and continue the turn."},

		Result: agent.ResultOf(r),
	}
}

func (e *TurnPausedError) Error() string { return e.base.Message }

func (e *TurnPausedError) Unwrap() error { return &e.base }

// TurnError is the error that a turn ended with, as the stream's error part has it. Value is that part's JSON.
type TurnError struct {
	Value json.RawMessage
	Cause error
}

func (e *TurnError) Error() string {
	if e.Cause != nil {
		return e.Cause.Error()
	}
	var named ai.StreamError
	if json.Unmarshal(e.Value, &named) == nil && named.Message != "" {
		return named.Message
	}
	var text string
	if json.Unmarshal(e.Value, &text) == nil {
		return text
	}
	return string(e.Value)
}

func (e *TurnError) Unwrap() error { return e.Cause }

// errorName is the name that an error has in a stream.
func errorName(err error) string {
	var named interface{ ErrorName() string }
	if errors.As(err, &named) {
		return named.ErrorName()
	}
	return "Error"
}

func streamErrorJSON(err error) json.RawMessage {
	b, _ := json.Marshal(ai.StreamError{Name: errorName(err), Message: err.Error()}) // two strings always marshal
	return b
}
