package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ToolApprovalStatusType is the static approval status of a host tool.
type ToolApprovalStatusType string

// The static approval statuses.
const (
	ToolApprovalNotApplicable ToolApprovalStatusType = "not-applicable"
	ToolApprovalApproved      ToolApprovalStatusType = "approved"
	ToolApprovalUserApproval  ToolApprovalStatusType = "user-approval"
	ToolApprovalDenied        ToolApprovalStatusType = "denied"
)

// ToolApprovalStatus is a status with its reason. In JSON it is the status alone, or {"type", "reason"}.
type ToolApprovalStatus struct {
	Type   ToolApprovalStatusType
	Reason string
}

// MarshalJSON writes the short form where there is no reason.
func (s ToolApprovalStatus) MarshalJSON() ([]byte, error) {
	if s.Reason == "" {
		return json.Marshal(s.Type)
	}
	return json.Marshal(struct {
		Type   ToolApprovalStatusType `json:"type"`
		Reason string                 `json:"reason"`
	}{s.Type, s.Reason})
}

// UnmarshalJSON reads both forms. An unknown status is an error.
func (s *ToolApprovalStatus) UnmarshalJSON(data []byte) error {
	var v struct {
		Type   ToolApprovalStatusType `json:"type"`
		Reason string                 `json:"reason"`
	}
	target := any(&v)
	if b := bytes.TrimSpace(data); len(b) > 0 && b[0] == '"' {
		target = &v.Type
	}
	if err := json.Unmarshal(data, target); err != nil {
		return fmt.Errorf("tool approval status: %w", err)
	}
	*s = ToolApprovalStatus{Type: v.Type, Reason: v.Reason}
	return s.validate()
}

func (s ToolApprovalStatus) validate() error {
	switch s.Type {
	case ToolApprovalNotApplicable, ToolApprovalApproved, ToolApprovalUserApproval, ToolApprovalDenied:
		return nil
	}
	return fmt.Errorf("tool approval status %q is not one of not-applicable, approved, user-approval, denied", s.Type)
}

// ToolApprovalConfiguration is the static approval status of host tools by name. A tool that is not named runs,
// unless it asks for approval itself (ai.Tool.NeedsApproval) or a gate stops it.
type ToolApprovalConfiguration map[string]ToolApprovalStatus

// AgentToolApprovalConfiguration is ToolApprovalConfiguration for consumers.
type AgentToolApprovalConfiguration = ToolApprovalConfiguration

// CustomToolApprovalDecisionType tells decisions apart.
type CustomToolApprovalDecisionType string

// The decisions on a host tool call.
const (
	CustomToolApprovalAllow   CustomToolApprovalDecisionType = "allow"
	CustomToolApprovalDeny    CustomToolApprovalDecisionType = "deny"
	CustomToolApprovalRequest CustomToolApprovalDecisionType = "request"
)

// CustomToolApprovalDecision is what the configuration says to one host tool call.
type CustomToolApprovalDecision struct {
	Type   CustomToolApprovalDecisionType
	Reason string
}

// ResolveCustomToolApproval maps the configuration's entry for a tool to a decision. A tool without an entry is
// allowed; an entry with an unknown status is denied.
func ResolveCustomToolApproval(c ToolApprovalConfiguration, toolName string) CustomToolApprovalDecision {
	s, ok := c[toolName]
	if !ok {
		return CustomToolApprovalDecision{Type: CustomToolApprovalAllow}
	}
	switch s.Type {
	case ToolApprovalNotApplicable, ToolApprovalApproved:
		return CustomToolApprovalDecision{Type: CustomToolApprovalAllow, Reason: s.Reason}
	case ToolApprovalUserApproval:
		return CustomToolApprovalDecision{Type: CustomToolApprovalRequest, Reason: s.Reason}
	}
	return CustomToolApprovalDecision{Type: CustomToolApprovalDeny, Reason: s.Reason}
}
