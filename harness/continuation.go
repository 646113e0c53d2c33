package harness

import (
	"encoding/json"
	"fmt"

	"github.com/harness-go/harness/ai"
)

// CollectToolApprovalContinuations takes the approval decisions out of a trailing tool message. Decisions on calls
// that have a result already are left out; one that answers no earlier request is an error.
func CollectToolApprovalContinuations(messages []ai.Message) ([]ai.ToolApprovalResponseContent, error) {
	last, ok := trailingToolMessage(messages)
	if !ok {
		return nil, nil
	}
	requests := map[string]string{} // approval id to call id
	calls, results := map[string]bool{}, map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Content {
			switch v := p.(type) {
			case ai.ToolCallPart:
				calls[v.ToolCallID] = true
			case ai.ToolApprovalRequestPart:
				requests[v.ApprovalID] = v.ToolCallID
			case ai.ToolResultContent:
				results[v.ToolCallID] = true
			}
		}
	}
	var out []ai.ToolApprovalResponseContent
	for _, p := range last.Content {
		v, ok := p.(ai.ToolApprovalResponseContent)
		if !ok {
			continue
		}
		callID, known := requests[v.ApprovalID]
		switch {
		case !known:
			return nil, NewHarnessError(fmt.Sprintf("Tool approval response '%s' does not match a prior tool approval request.", v.ApprovalID), nil)
		case !calls[callID]:
			return nil, NewHarnessError(fmt.Sprintf("Tool approval request '%s' references unknown tool call '%s'.", v.ApprovalID, callID), nil)
		case !results[callID]:
			out = append(out, v)
		}
	}
	return out, nil
}

// CollectToolResultContinuations takes the results of client tools out of a trailing tool message.
func CollectToolResultContinuations(messages []ai.Message) []ai.ToolResultContent {
	last, ok := trailingToolMessage(messages)
	if !ok {
		return nil
	}
	var out []ai.ToolResultContent
	for _, p := range last.Content {
		if v, ok := p.(ai.ToolResultContent); ok {
			out = append(out, v)
		}
	}
	return out
}

func trailingToolMessage(messages []ai.Message) (ai.Message, bool) {
	if len(messages) == 0 || messages[len(messages)-1].Role != ai.RoleTool {
		return ai.Message{}, false
	}
	return messages[len(messages)-1], true
}

// submissionOf unwraps a client's result for the adapter.
func submissionOf(c ai.ToolResultContent, options map[string]map[string]any) ToolResultSubmission {
	s := ToolResultSubmission{ToolCallID: c.ToolCallID}
	switch c.Output.Type {
	case ai.OutputText, ai.OutputJSON, ai.OutputErrorText, ai.OutputErrorJSON:
		s.Output = rawOrNull(c.Output.Value)
		s.IsError = c.Output.IsError()
	case ai.OutputExecutionDenied:
		s.Output = executionDenied{Type: string(ai.OutputExecutionDenied), Reason: c.Output.Reason}
	default:
		s.Output = c.Output
	}
	s.ToolResult = struct {
		Type            string                    `json:"type"`
		ToolCallID      string                    `json:"toolCallId"`
		ToolName        string                    `json:"toolName"`
		Output          ai.ToolResultOutput       `json:"output"`
		ProviderOptions map[string]map[string]any `json:"providerOptions,omitempty"`
	}{"tool-result", c.ToolCallID, c.ToolName, c.Output, options}
	return s
}

// executionDenied is the result of a call that was refused.
type executionDenied struct {
	Type   string `json:"type"`
	Reason string `json:"reason,omitempty"`
}

func denied(reason string) executionDenied {
	return executionDenied{Type: string(ai.OutputExecutionDenied), Reason: reason}
}

func rawOrNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}
