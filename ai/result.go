package ai

import (
	"encoding/json"
	"strings"
)

// StepContent is one piece of a step's content: TextPart, ReasoningPart, ToolCall, ToolResult, ToolError,
// ToolApprovalRequest or ToolApprovalResponse.
type StepContent interface{ stepContent() }

func (TextPart) stepContent()             {}
func (ReasoningPart) stepContent()        {}
func (ToolCall) stepContent()             {}
func (ToolResult) stepContent()           {}
func (ToolError) stepContent()            {}
func (ToolApprovalRequest) stepContent()  {}
func (ToolApprovalResponse) stepContent() {}

// ModelInfo names who answered.
type ModelInfo struct {
	Provider string
	ModelID  string
}

// StepResult is one finished step: a model call and the tool calls that it asked for.
type StepResult struct {
	StepNumber       int // from 0 within the result
	Model            ModelInfo
	Content          []StepContent
	FinishReason     FinishReason
	Usage            Usage
	Response         ResponseMetadata
	ProviderMetadata ProviderMetadata
}

// Text joins the step's text.
func (s StepResult) Text() string {
	var b strings.Builder
	for _, c := range s.Content {
		if t, ok := c.(TextPart); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// ReasoningText joins the step's reasoning.
func (s StepResult) ReasoningText() string {
	var b strings.Builder
	for _, c := range s.Content {
		if t, ok := c.(ReasoningPart); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// ToolCalls lists the step's calls in order.
func (s StepResult) ToolCalls() []ToolCall { return contentOf[ToolCall](s.Content) }

// ToolResults lists the step's results in order; failed calls are in ToolErrors.
func (s StepResult) ToolResults() []ToolResult { return contentOf[ToolResult](s.Content) }

// ToolErrors lists the step's failed calls in order.
func (s StepResult) ToolErrors() []ToolError { return contentOf[ToolError](s.Content) }

func contentOf[C StepContent](content []StepContent) []C {
	var out []C
	for _, c := range content {
		if v, ok := c.(C); ok {
			out = append(out, v)
		}
	}
	return out
}

// CallWarning is a warning about a call that was made all the same.
type CallWarning struct {
	Type    string // unsupported-setting, unsupported-tool or other
	Setting string
	Tool    string
	Details string
	Message string
}

// GenerateTextResult is what one call of Generate, or one stream, gave. A turn that paused or was suspended has a
// result too: its finish reason is tool-calls or other, and the turn can be continued.
type GenerateTextResult struct {
	// Text is the text of the last step.
	Text  string
	Steps []StepResult
	// FinishReason is that of the whole result.
	FinishReason FinishReason
	// Usage is that of the last step, TotalUsage that of all steps.
	Usage, TotalUsage Usage
	Warnings          []CallWarning
	Response          ResponseMetadata
	ProviderMetadata  ProviderMetadata
	// Output is the parsed output and OutputErr why there is none. Both are nil without an output specification and
	// for a turn that did not finish.
	Output    any
	OutputErr error
}

// Content joins the content of all steps.
func (r *GenerateTextResult) Content() []StepContent {
	var out []StepContent
	for _, s := range r.Steps {
		out = append(out, s.Content...)
	}
	return out
}

// ToolApprovalRequests lists the requests that wait for a decision.
func (r *GenerateTextResult) ToolApprovalRequests() []ToolApprovalRequest {
	var out []ToolApprovalRequest
	for _, c := range r.Content() {
		if q, ok := c.(ToolApprovalRequest); ok && !q.IsAutomatic {
			out = append(out, q)
		}
	}
	return out
}

// ResponseMessages are the messages that the result adds to a conversation: what the assistant wrote and called, and
// the results. Preliminary results are left out.
func (r *GenerateTextResult) ResponseMessages() []Message {
	var out []Message
	for _, s := range r.Steps {
		var assistant, results []Part
		for _, c := range s.Content {
			switch v := c.(type) {
			case TextPart:
				assistant = append(assistant, v)
			case ReasoningPart:
				assistant = append(assistant, v)
			case ToolCall:
				assistant = append(assistant, ToolCallPart{ToolCallID: v.ToolCallID, ToolName: v.ToolName, Input: string(v.Input), ProviderExecuted: v.ProviderExecuted})
			case ToolApprovalRequest:
				assistant = append(assistant, ToolApprovalRequestPart{ApprovalID: v.ApprovalID, ToolCallID: v.ToolCall.ToolCallID})
			case ToolApprovalResponse:
				results = append(results, ToolApprovalResponseContent{ApprovalID: v.ApprovalID, Approved: v.Approved, Reason: v.Reason})
			case ToolResult:
				if !v.Preliminary {
					results = append(results, ToolResultContent{ToolCallID: v.ToolCallID, ToolName: v.ToolName, Output: resultOutput(v.Output, false)})
				}
			case ToolError:
				results = append(results, ToolResultContent{ToolCallID: v.ToolCallID, ToolName: v.ToolName, Output: resultOutput(v.Error, true)})
			}
		}
		if len(assistant) > 0 {
			out = append(out, Message{Role: RoleAssistant, Content: assistant})
		}
		if len(results) > 0 {
			out = append(out, Message{Role: RoleTool, Content: results})
		}
	}
	return out
}

func resultOutput(v json.RawMessage, failed bool) ToolResultOutput {
	isText := len(v) > 0 && v[0] == '"'
	switch {
	case failed && isText:
		return ToolResultOutput{Type: OutputErrorText, Value: v}
	case failed:
		return ToolResultOutput{Type: OutputErrorJSON, Value: v}
	case isText:
		return ToolResultOutput{Type: OutputText, Value: v}
	}
	var denied struct {
		Type   ToolResultOutputType `json:"type"`
		Reason string               `json:"reason"`
	}
	if json.Unmarshal(v, &denied) == nil && denied.Type == OutputExecutionDenied {
		return ToolResultOutput{Type: OutputExecutionDenied, Reason: denied.Reason}
	}
	return ToolResultOutput{Type: OutputJSON, Value: v}
}
