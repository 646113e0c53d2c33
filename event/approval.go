package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// ApprovalStatus is the state of an approval.
type ApprovalStatus string

// The states of an approval. Pending is the only one that can change by a decision; approved becomes consumed when
// its call starts.
const (
	ApprovalPending   ApprovalStatus = "pending"
	ApprovalApproved  ApprovalStatus = "approved"
	ApprovalDenied    ApprovalStatus = "denied"
	ApprovalExpired   ApprovalStatus = "expired"
	ApprovalWithdrawn ApprovalStatus = "withdrawn"
	ApprovalConsumed  ApprovalStatus = "consumed"
)

// ApprovalMove is what happens to an approval.
type ApprovalMove string

// The moves of an approval. Begin is the start of the approved call.
const (
	MoveApprove  ApprovalMove = "approve"
	MoveDeny     ApprovalMove = "deny"
	MoveExpire   ApprovalMove = "expire"
	MoveWithdraw ApprovalMove = "withdraw"
	MoveBegin    ApprovalMove = "begin"
)

// approvalMoves is the whole state machine: what is not listed is refused.
var approvalMoves = map[ApprovalStatus]map[ApprovalMove]ApprovalStatus{
	ApprovalPending: {
		MoveApprove:  ApprovalApproved,
		MoveDeny:     ApprovalDenied,
		MoveExpire:   ApprovalExpired,
		MoveWithdraw: ApprovalWithdrawn,
	},
	ApprovalApproved: {
		MoveBegin:    ApprovalConsumed,
		MoveWithdraw: ApprovalWithdrawn,
	},
}

// Next returns the state after a move, and false where the move is not allowed.
func (s ApprovalStatus) Next(m ApprovalMove) (ApprovalStatus, bool) {
	to, ok := approvalMoves[s][m]
	return to, ok
}

// Decided reports whether a person or a deadline has answered.
func (s ApprovalStatus) Decided() bool { return s != ApprovalPending }

// ApprovalScope is how far an approval reaches.
type ApprovalScope string

// The scopes of an approval: this call, or equal calls of the session.
const (
	ScopeOnce    ApprovalScope = "once"
	ScopeSession ApprovalScope = "session"
)

// Approval is the durable record of an ask and its answer. ID begins with "ap_". Digest binds it to one call: the
// tool, the final arguments and the working directory. Settled is set once the answer has reached the model, so that
// it is never delivered twice.
type Approval struct {
	ID          string          `json:"id"`
	RunID       string          `json:"run_id"`
	TenantID    string          `json:"tenant_id"`
	CallID      string          `json:"call_id"`
	Harness     string          `json:"harness"`
	Tool        string          `json:"tool"`
	Kind        string          `json:"kind"`
	Arguments   string          `json:"arguments"`
	Cwd         string          `json:"cwd"`
	Digest      string          `json:"digest"`
	Why         string          `json:"why"` // which stage asks, and why
	Status      ApprovalStatus  `json:"status"`
	Scope       ApprovalScope   `json:"scope"`
	RequestedBy string          `json:"requested_by,omitempty"`
	RequestedAt time.Time       `json:"requested_at"`
	ExpiresAt   time.Time       `json:"expires_at"`
	DecidedBy   string          `json:"decided_by,omitempty"`
	DecidedAt   *time.Time      `json:"decided_at,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Settled     bool            `json:"-"`
	Details     json.RawMessage `json:"details,omitempty"`
}

// QuestionStatus is the state of a question to a person.
type QuestionStatus string

// The states of a question.
const (
	QuestionPending   QuestionStatus = "pending"
	QuestionAnswered  QuestionStatus = "answered"
	QuestionExpired   QuestionStatus = "expired"
	QuestionWithdrawn QuestionStatus = "withdrawn"
)

// PendingQuestion is the durable record of a call of the question tool. ID begins with "qu_". Answers maps each
// question's text to its chosen labels or free text.
type PendingQuestion struct {
	ID         string              `json:"id"`
	RunID      string              `json:"run_id"`
	TenantID   string              `json:"tenant_id"`
	CallID     string              `json:"call_id"`
	Tool       string              `json:"tool"`
	Questions  []Question          `json:"questions"`
	Status     QuestionStatus      `json:"status"`
	AskedAt    time.Time           `json:"asked_at"`
	DeadlineAt time.Time           `json:"deadline_at"`
	AnsweredBy string              `json:"answered_by,omitempty"`
	AnsweredAt *time.Time          `json:"answered_at,omitempty"`
	Answers    map[string][]string `json:"answers,omitempty"`
	Settled    bool                `json:"-"`
}

// ConflictError: the record was already decided otherwise, or can no longer be decided.
type ConflictError struct {
	What   string // "approval ap_…"
	Status string
}

func (e *ConflictError) Error() string { return fmt.Sprintf("%s is already %s", e.What, e.Status) }
