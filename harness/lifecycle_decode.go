package harness

import (
	"encoding/json"
	"errors"
	"fmt"
)

// DecodeLifecycleOptions loosen the decoding.
type DecodeLifecycleOptions struct {
	// AllowInvalidPending takes pending records as they are, also of unknown kinds.
	AllowInvalidPending bool
}

// DecodeLifecycleState reads and checks persisted state. Which harness made it, and whether the adapter's data is
// valid, is checked by CreateSession. Errors never hold the data.
func DecodeLifecycleState(data []byte) (LifecycleState, error) {
	return decodeState(data, "", DecodeLifecycleOptions{})
}

// DecodeLifecycleStateWithOptions is DecodeLifecycleState with options.
func DecodeLifecycleStateWithOptions(data []byte, o DecodeLifecycleOptions) (LifecycleState, error) {
	return decodeState(data, "", o)
}

// decodeState reads a state of the type want, or of either type when want is empty.
func decodeState(data []byte, want string, o DecodeLifecycleOptions) (LifecycleState, error) {
	var m map[string]json.RawMessage
	if err := strictJSON(data, &m); err != nil {
		return nil, NewHarnessError("Lifecycle state: "+err.Error()+".", nil)
	}
	if m == nil {
		return nil, NewHarnessError("Lifecycle state: must be an object.", nil)
	}
	r := partReader{members: m}
	typ, version := looseString(m["type"]), looseString(m["specificationVersion"])
	if want == "" {
		if want = typ; typ != LifecycleStateResumeSession && typ != LifecycleStateContinueTurn {
			return nil, NewHarnessError(fmt.Sprintf("Lifecycle state has unexpected type '%s'; expected 'resume-session' or 'continue-turn'.", orUndefined(typ)), nil)
		}
	}
	if err := checkEnvelope(typ, want, version); err != nil {
		return nil, err
	}
	id := r.str("harnessId")
	if r.err != nil {
		return nil, NewHarnessError("Lifecycle state: "+r.err.Error()+".", nil)
	}
	raw := m["data"]
	if string(raw) == "null" {
		raw = nil
	}
	if want == LifecycleStateResumeSession {
		return decodeResume(m, id, raw, o)
	}
	return decodeContinue(m, id, raw, o)
}

func decodeResume(m map[string]json.RawMessage, id string, data json.RawMessage, o DecodeLifecycleOptions) (LifecycleState, error) {
	for _, k := range []struct{ member, what string }{{"pendingToolApprovals", "approvals"}, {"pendingToolResults", "results"}} {
		if _, ok := m[k.member]; ok {
			return nil, NewHarnessError("Resume session state cannot contain pending tool "+k.what+"; unfinished turns must be stored as `continueFrom`.", nil)
		}
	}
	s := &ResumeSessionState{Type: LifecycleStateResumeSession, HarnessID: id, SpecificationVersion: SpecificationVersion, Data: data}
	if c := m["continueFrom"]; len(c) > 0 && string(c) != "null" {
		v, err := decodeState(c, LifecycleStateContinueTurn, o)
		if err != nil {
			return nil, err
		}
		s.ContinueFrom = v.(*ContinueTurnState)
	}
	return s, nil
}

func decodeContinue(m map[string]json.RawMessage, id string, data json.RawMessage, o DecodeLifecycleOptions) (LifecycleState, error) {
	s := &ContinueTurnState{Type: LifecycleStateContinueTurn, HarnessID: id, SpecificationVersion: SpecificationVersion, Data: data}
	var results []struct {
		PendingToolResult
		CompletedResult *struct {
			Output     json.RawMessage `json:"output"`
			IsError    *bool           `json:"isError"`
			ToolResult json.RawMessage `json:"toolResult"`
		} `json:"completedResult"`
	}
	for _, f := range []struct {
		member string
		into   any
	}{{"pendingToolApprovals", &s.PendingToolApprovals}, {"pendingToolResults", &results}, {"turnSettings", &s.TurnSettings}} {
		if raw, ok := m[f.member]; ok {
			if err := strictJSON(raw, f.into); err != nil {
				return nil, NewHarnessError(fmt.Sprintf("Lifecycle state: %s: %s.", f.member, err), nil)
			}
		}
	}
	for _, w := range results {
		p := w.PendingToolResult
		p.CompletedResult = nil
		if c := w.CompletedResult; c != nil {
			p.CompletedResult = &CompletedToolResult{IsError: c.IsError}
			if c.Output != nil {
				p.CompletedResult.Output = c.Output
			}
			if c.ToolResult != nil {
				p.CompletedResult.ToolResult = c.ToolResult
			}
		}
		s.PendingToolResults = append(s.PendingToolResults, p)
	}
	if err := checkPending(s.PendingToolApprovals, s.PendingToolResults, o); err != nil {
		return nil, err
	}
	return s, nil
}

// checkPending validates pending records. A record that cannot be told apart or answered must not start a session
// that then waits for it.
func checkPending(approvals []PendingToolApproval, results []PendingToolResult, o DecodeLifecycleOptions) error {
	if o.AllowInvalidPending {
		return nil
	}
	for i, a := range approvals {
		err := requireFields([]string{"approvalId", "toolCallId", "toolName", "input"}, []string{a.ApprovalID, a.ToolCallID, a.ToolName, a.Input})
		if err == nil && a.Kind != PendingToolApprovalBuiltin && a.Kind != PendingToolApprovalCustom {
			err = errors.New("kind is neither builtin nor custom")
		}
		if err != nil {
			return NewHarnessError(fmt.Sprintf("Lifecycle state has an invalid record pendingToolApprovals[%d]: %s.", i, err), nil)
		}
	}
	for i, p := range results {
		if err := requireFields([]string{"toolCallId", "toolName", "input"}, []string{p.ToolCallID, p.ToolName, p.Input}); err != nil {
			return NewHarnessError(fmt.Sprintf("Lifecycle state has an invalid record pendingToolResults[%d]: %s.", i, err), nil)
		}
	}
	return nil
}

func requireFields(names, values []string) error {
	for i, v := range values {
		if v == "" {
			return fmt.Errorf("%s is required", names[i])
		}
	}
	return nil
}

// looseString is the string of a member, or its JSON text where it is another short value. It is for messages.
func looseString(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil || len(raw) > 32 {
		return s
	}
	return string(raw)
}
