package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/harness-go/harness/event"
)

// Run is a run. Its statuses are queued, running, waiting_for_user, waiting_for_approval, completed, failed and
// cancelled.
type Run struct {
	ID               string            `json:"id"`
	TenantID         string            `json:"tenant_id"`
	ConversationID   string            `json:"conversation_id"`
	PreviousRunID    string            `json:"previous_run_id,omitempty" doc:"the run of the conversation that this one continues"`
	Status           string            `json:"status" enum:"queued,running,waiting_for_user,waiting_for_approval,completed,failed,cancelled"`
	Prompt           string            `json:"prompt"`
	Attachments      []event.Attached  `json:"attachments,omitempty" doc:"files that went to the model with the prompt"`
	Model            string            `json:"model,omitempty"`
	ProviderName     string            `json:"provider_name,omitempty"`
	Harness          string            `json:"harness"`
	Workspace        string            `json:"workspace"`
	AgentID          string            `json:"agent_id,omitempty"`
	Permissions      event.Permissions `json:"permissions" doc:"the effective ones: the stricter of request and node on each axis"`
	AllowedTools     []string          `json:"allowed_tools,omitempty"`
	DeniedTools      []string          `json:"denied_tools,omitempty"`
	Metadata         map[string]string `json:"metadata,omitempty"`
	MaxSteps         int               `json:"max_steps,omitempty" doc:"absent: unbounded"`
	MaxCostUSD       float64           `json:"max_cost_usd,omitempty"`
	MaxTokensTotal   int64             `json:"max_tokens_total,omitempty"`
	TimeoutSeconds   int               `json:"timeout_seconds,omitempty"`
	ApprovalDeadline string            `json:"approval_deadline,omitempty" doc:"how long an approval of the run waits, as a Go duration"`
	Output           string            `json:"output,omitempty"`
	Error            string            `json:"error,omitempty"`
	Reason           string            `json:"reason,omitempty" doc:"why a run failed, for programs: max_steps_reached, max_cost_reached, timeout and others"`
	UsageTotals      event.UsageTotals `json:"usage_totals"`
	CostTotals       event.CostTotals  `json:"cost_totals"`
	Steps            int               `json:"steps"`
	LastSeq          int64             `json:"last_seq" doc:"seq of the last event: the cursor of the log's end"`
	// PendingApprovals are the ids of the approvals that the run waits for. Lists do not have it.
	PendingApprovals []string `json:"pending_approvals,omitempty" doc:"ids of the approvals that the run waits for; only where one run is asked for"`
	CancelRequested  bool     `json:"cancel_requested,omitempty"`
	CreatedBy        string   `json:"created_by,omitempty"`
	// Truncated names the members that a list has cut; the run by its id has them whole.
	Truncated  []string   `json:"truncated,omitempty" doc:"members that this list has cut; GET /v1/runs/{id} has them whole"`
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// RunAccepted answers a request for a run.
type RunAccepted struct {
	RunID          string `json:"run_id"`
	Status         string `json:"status"`
	ConversationID string `json:"conversation_id"`
}

// RunList is a page of runs, newest first.
type RunList struct {
	Runs       []Run  `json:"runs"`
	NextCursor string `json:"next_cursor,omitempty" doc:"cursor of the next page; absent on the last one"`
}

// RunCancelled answers a cancel. Status is cancelling, or the status of a run that had ended.
type RunCancelled struct {
	RunID  string `json:"run_id"`
	Status string `json:"status"`
}

// Empty is a body without members.
type Empty struct{}

// SteerRequest is a message for an active run.
type SteerRequest struct {
	Prompt string `json:"prompt"`
}

// Accepted answers what was stored and takes effect later.
type Accepted struct {
	Status string `json:"status" enum:"accepted"`
}

// AnswerRequest answers the questions of a run. Answers maps each question's text to its answer.
type AnswerRequest struct {
	Answers map[string]Choice `json:"answers"`
}

// Choice is the answer to one question: labels, or free text. Its JSON is a string or a list of strings.
type Choice []string

// UnmarshalJSON reads a string or a list of strings.
func (c *Choice) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '"' {
		var one string
		if err := json.Unmarshal(data, &one); err != nil {
			return err
		}
		*c = Choice{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil || list == nil {
		return errors.New("an answer must be a string or a list of strings")
	}
	*c = list
	return nil
}
