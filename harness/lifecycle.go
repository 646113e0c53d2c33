package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The types of lifecycle state.
const (
	LifecycleStateResumeSession = "resume-session"
	LifecycleStateContinueTurn  = "continue-turn"
)

// LifecycleState is either a *ResumeSessionState or a *ContinueTurnState. It is what a session leaves behind, and what
// another session, perhaps in another process, goes on from. It may hold secrets of the runtime: treat it as one.
type LifecycleState interface{ lifecycleType() string }

// ResumeSessionState is the state of a session between turns, or with an unfinished turn in ContinueFrom.
type ResumeSessionState struct {
	Type                 string
	HarnessID            string
	SpecificationVersion string
	// Data is the adapter's. It may hold secrets.
	Data         json.RawMessage
	ContinueFrom *ContinueTurnState
}

// ContinueTurnState is the state of an unfinished turn.
type ContinueTurnState struct {
	Type                 string
	HarnessID            string
	SpecificationVersion string
	// Data is the adapter's. It may hold secrets.
	Data                 json.RawMessage
	PendingToolApprovals []PendingToolApproval
	PendingToolResults   []PendingToolResult
	TurnSettings         *TurnSettings
}

// The kinds of pending approvals: of a tool of the runtime, and of a host tool.
const (
	PendingToolApprovalBuiltin = "builtin"
	PendingToolApprovalCustom  = "custom"
)

// PendingToolApproval is a call that waits for a decision. Input is JSON text.
type PendingToolApproval struct {
	ApprovalID       string `json:"approvalId"`
	ToolCallID       string `json:"toolCallId"`
	ToolName         string `json:"toolName"`
	Input            string `json:"input"`
	Kind             string `json:"kind"`
	ProviderExecuted *bool  `json:"providerExecuted,omitempty"`
	NativeName       string `json:"nativeName,omitempty"`
}

// PendingToolResult is a call that waits for its result, or whose result waits to be given to the runtime. Input is
// JSON text.
type PendingToolResult struct {
	ToolCallID      string                    `json:"toolCallId"`
	ToolName        string                    `json:"toolName"`
	Input           string                    `json:"input"`
	ProviderOptions map[string]map[string]any `json:"providerOptions,omitempty"`
	CompletedResult *CompletedToolResult      `json:"completedResult,omitempty"`
}

// CompletedToolResult is the result of a host tool that ended while its turn was suspended. It is submitted when the
// turn continues, without running the tool again. Values that were read from JSON are json.RawMessage.
type CompletedToolResult struct {
	Output     any   `json:"output,omitempty"`
	IsError    *bool `json:"isError,omitempty"`
	ToolResult any   `json:"toolResult,omitempty"`
}

// TurnSettings are frozen for a turn and all of its continuations.
type TurnSettings struct {
	Model        string     `json:"model,omitempty"`
	Skills       []Skill    `json:"skills"`
	Instructions string     `json:"instructions,omitempty"`
	Tools        []ToolSpec `json:"tools"`
}

// Names for consumers.
type (
	AgentLifecycleState      = LifecycleState
	AgentResumeSessionState  = ResumeSessionState
	AgentContinueTurnState   = ContinueTurnState
	AgentContinueTurnOptions = ContinueTurnOptions
	AgentPendingToolApproval = PendingToolApproval
	AgentPendingToolResult   = PendingToolResult
)

func (*ResumeSessionState) lifecycleType() string { return LifecycleStateResumeSession }
func (*ContinueTurnState) lifecycleType() string  { return LifecycleStateContinueTurn }

// NewResumeSessionState makes the state of a session between turns. data is marshaled to JSON; nil leaves it out.
func NewResumeSessionState(harnessID string, data any) (*ResumeSessionState, error) {
	raw, err := stateData(data)
	if err != nil {
		return nil, err
	}
	return &ResumeSessionState{Type: LifecycleStateResumeSession, HarnessID: harnessID, SpecificationVersion: SpecificationVersion, Data: raw}, nil
}

// NewContinueTurnState makes the state of an unfinished turn. data is marshaled to JSON; nil leaves it out.
func NewContinueTurnState(harnessID string, data any) (*ContinueTurnState, error) {
	raw, err := stateData(data)
	if err != nil {
		return nil, err
	}
	return &ContinueTurnState{Type: LifecycleStateContinueTurn, HarnessID: harnessID, SpecificationVersion: SpecificationVersion, Data: raw}, nil
}

func stateData(data any) (json.RawMessage, error) {
	if data == nil {
		return nil, nil
	}
	b, err := plainJSON(data)
	if err != nil {
		return nil, NewHarnessError("Lifecycle state data cannot be written as JSON.", nil) // the cause may quote it
	}
	return b, nil
}

// plainJSON is json.Marshal without the escapes for HTML.
func plainJSON(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// MarshalJSON writes the state. Pending records never appear on it.
func (s *ResumeSessionState) MarshalJSON() ([]byte, error) {
	return plainJSON(struct {
		Type                 string             `json:"type"`
		HarnessID            string             `json:"harnessId"`
		SpecificationVersion string             `json:"specificationVersion"`
		Data                 json.RawMessage    `json:"data,omitempty"`
		ContinueFrom         *ContinueTurnState `json:"continueFrom,omitempty"`
	}{LifecycleStateResumeSession, s.HarnessID, s.SpecificationVersion, s.Data, s.ContinueFrom})
}

// MarshalJSON writes the state.
func (s *ContinueTurnState) MarshalJSON() ([]byte, error) {
	return plainJSON(struct {
		Type                 string                `json:"type"`
		HarnessID            string                `json:"harnessId"`
		SpecificationVersion string                `json:"specificationVersion"`
		Data                 json.RawMessage       `json:"data,omitempty"`
		PendingToolApprovals []PendingToolApproval `json:"pendingToolApprovals,omitempty"`
		PendingToolResults   []PendingToolResult   `json:"pendingToolResults,omitempty"`
		TurnSettings         *TurnSettings         `json:"turnSettings,omitempty"`
	}{LifecycleStateContinueTurn, s.HarnessID, s.SpecificationVersion, s.Data, s.PendingToolApprovals, s.PendingToolResults, s.TurnSettings})
}

// MarshalJSON writes skills and tools as arrays, also when there are none: other readers iterate over them.
func (t TurnSettings) MarshalJSON() ([]byte, error) {
	if t.Skills == nil {
		t.Skills = []Skill{}
	}
	if t.Tools == nil {
		t.Tools = []ToolSpec{}
	}
	type plain TurnSettings
	return plainJSON(plain(t))
}

// UnmarshalJSON reads and checks a resume-session state.
func (s *ResumeSessionState) UnmarshalJSON(data []byte) error {
	v, err := decodeState(data, LifecycleStateResumeSession, DecodeLifecycleOptions{})
	if err != nil {
		return err
	}
	*s = *v.(*ResumeSessionState)
	return nil
}

// UnmarshalJSON reads and checks a continue-turn state.
func (s *ContinueTurnState) UnmarshalJSON(data []byte) error {
	v, err := decodeState(data, LifecycleStateContinueTurn, DecodeLifecycleOptions{})
	if err != nil {
		return err
	}
	*s = *v.(*ContinueTurnState)
	return nil
}

// checkState validates a state for an adapter, in the order of the contract: type, version, harness, then the
// adapter's data. want is the type that is expected.
func checkState(h Harness, typ, want, version, harnessID string, data json.RawMessage) error {
	if err := checkEnvelope(typ, want, version); err != nil {
		return err
	}
	if harnessID != h.HarnessID() {
		return NewHarnessError(fmt.Sprintf("Lifecycle state was produced by harness '%s' but this agent uses '%s'.", harnessID, h.HarnessID()), nil)
	}
	v, ok := h.(LifecycleStateValidator)
	if !ok {
		return nil
	}
	if err := v.ValidateLifecycleStateData(data); err != nil {
		return NewHarnessError(fmt.Sprintf("Lifecycle state failed schema validation for harness '%s': %s", h.HarnessID(), err), nil)
	}
	return nil
}

func checkEnvelope(typ, want, version string) error {
	if typ != want {
		return NewHarnessError(fmt.Sprintf("Lifecycle state has unexpected type '%s'; expected '%s'.", orUndefined(typ), want), nil)
	}
	if version != SpecificationVersion {
		return NewHarnessError(fmt.Sprintf("Lifecycle state has unexpected specificationVersion '%s'; expected '%s'.", orUndefined(version), SpecificationVersion), nil)
	}
	return nil
}

func orUndefined(s string) string {
	if s == "" {
		return "undefined"
	}
	return s
}

func (s *ResumeSessionState) check(h Harness) error {
	if err := checkState(h, s.Type, LifecycleStateResumeSession, s.SpecificationVersion, s.HarnessID, s.Data); err != nil {
		return err
	}
	if s.ContinueFrom != nil {
		return s.ContinueFrom.check(h)
	}
	return nil
}

func (s *ContinueTurnState) check(h Harness) error {
	if err := checkState(h, s.Type, LifecycleStateContinueTurn, s.SpecificationVersion, s.HarnessID, s.Data); err != nil {
		return err
	}
	return checkPending(s.PendingToolApprovals, s.PendingToolResults, DecodeLifecycleOptions{})
}
