package ai

import (
	"fmt"
	"strings"
)

// Names of the errors that appear in streams.
const (
	NoSuchToolErrorName       = "AI_NoSuchToolError"
	InvalidToolInputErrorName = "AI_InvalidToolInputError"
)

// NoSuchToolError: a call, or a setting, names a tool that does not exist.
type NoSuchToolError struct {
	ToolName       string
	AvailableTools []string
}

func (e *NoSuchToolError) Error() string {
	if len(e.AvailableTools) == 0 {
		return fmt.Sprintf("Model tried to call unavailable tool '%s'. No tools are available.", e.ToolName)
	}
	return fmt.Sprintf("Model tried to call unavailable tool '%s'. Available tools: %s.", e.ToolName, strings.Join(e.AvailableTools, ", "))
}

// ErrorName is the error's name in streams.
func (e *NoSuchToolError) ErrorName() string { return NoSuchToolErrorName }

// InvalidToolInputError: the input of a call is not what the tool takes.
type InvalidToolInputError struct {
	ToolName  string
	ToolInput string
	Cause     error
}

func (e *InvalidToolInputError) Error() string {
	return fmt.Sprintf("Invalid input for tool %s: %v", e.ToolName, e.Cause)
}

func (e *InvalidToolInputError) Unwrap() error { return e.Cause }

// ErrorName is the error's name in streams.
func (e *InvalidToolInputError) ErrorName() string { return InvalidToolInputErrorName }
