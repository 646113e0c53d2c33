// Package control is the gate: the one place that decides a tool call, and the permits that let it run.
//
// Gate.Decide takes every call of every harness through the same stages, each of which may only raise the decision
// (deny > ask > allow). An allow carries a single-use permit; an ask is a durable approval in the Ledger; a deny
// carries the reason that the model reads. The package decides and records; it runs no tool, and it waits for nobody.
//
// Invariants: a stage that fails refuses the call (fail closed). A call has one decision, whichever of a runtime's
// questions brings it. A start record is committed before the side effect, in the same commit that consumes the
// approval.
package control

import (
	"encoding/json"
	"time"

	"github.com/harness-go/harness/internal/permit"
	"github.com/harness-go/harness/tool"
)

// Outcome is what the gate says to a call.
type Outcome string

// The three outcomes, from loose to strict.
const (
	Allow Outcome = "allow"
	Ask   Outcome = "ask"
	Deny  Outcome = "deny"
)

var strictness = map[Outcome]int{Allow: 0, Ask: 1, Deny: 2}

// Join returns the stricter outcome. An unknown outcome counts as Deny.
func Join(a, b Outcome) Outcome {
	sa, oka := strictness[a]
	sb, okb := strictness[b]
	switch {
	case !oka || !okb:
		return Deny
	case sb > sa:
		return b
	}
	return a
}

// Stage names where a decision was made, in the order of evaluation.
type Stage string

// The stages of the gate.
const (
	StageArguments Stage = "arguments"
	StageDeclared  Stage = "declared"
	StageHook      Stage = "hook"
	StageRule      Stage = "rule"
	StageApproval  Stage = "approval"
	StageMode      Stage = "permission_mode"
	StagePerson    Stage = "person"
	StageExecution Stage = "execution"
)

// Permit is the leave to run one call. Only a gate makes valid ones.
type Permit = permit.Permit

// Outcome of a call as the ledger records it.
type CallOutcome = permit.Outcome

// Call is one tool call before it is decided. The harness, the server and the tool are separate fields and are never
// parsed out of one string.
type Call struct {
	ID      string
	Step    int
	Harness string // name of the harness, e.g. "native"
	Server  string // MCP server, empty for the harness's own tools
	Tool    string
	Kind    tool.Kind
	// Arguments is the JSON object that the model wrote.
	Arguments json.RawMessage
	Cwd       string
	// Deferred: the tool needs activation before it may be called.
	Deferred bool
	// Ask: the caller itself wants a person asked, and why. Empty: it leaves that to the policy.
	Ask string
	// Check validates changed arguments against the tool's schema. Nil: the gate refuses every rewrite.
	Check func(json.RawMessage) error
}

// Decision is the gate's answer. Arguments are the final ones.
type Decision struct {
	Outcome   Outcome
	Stage     Stage
	Reason    string
	Arguments json.RawMessage
	Digest    string
	// ApprovalID and DeadlineAt belong to Ask.
	ApprovalID string
	DeadlineAt time.Time
	// Permit belongs to Allow.
	Permit *Permit
}

// Verdict is the opinion of one hook or rule. The zero value is no opinion.
type Verdict struct {
	Outcome   Outcome
	Reason    string
	Arguments json.RawMessage // not nil: rewritten
}
