package httpapi

import (
	"fmt"
	"strings"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/store"
)

// runView is a run as clients see it.
func (s *Server) runView(r store.Run) (api.Run, error) {
	plan, err := s.runs.Plan(r)
	if err != nil {
		return api.Run{}, fmt.Errorf("run %s: plan: %w", r.ID, err)
	}
	return api.Run{
		ID: r.ID, TenantID: r.TenantID, ConversationID: r.ConversationID, PreviousRunID: r.PreviousRunID,
		Status: string(r.Status), Prompt: r.Prompt, Attachments: plan.Attached(),
		Model: plan.Model, ProviderName: plan.ProviderName, Harness: plan.Harness, Workspace: plan.Workspace,
		AgentID: plan.AgentID, Permissions: plan.Permissions, AllowedTools: plan.AllowedTools, DeniedTools: plan.DeniedTools,
		Metadata: plan.Metadata, MaxSteps: plan.MaxSteps, MaxCostUSD: plan.MaxCostUSD, MaxTokensTotal: plan.MaxTokensTotal,
		TimeoutSeconds: plan.TimeoutSeconds, ApprovalDeadline: plan.ApprovalDeadline,
		Output: r.Output, Error: r.Error, Reason: r.Reason,
		UsageTotals: r.Usage, CostTotals: r.Cost, Steps: r.Steps, LastSeq: r.Head,
		CancelRequested: r.CancelRequested, CreatedBy: r.CreatedBy,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), FinishedAt: r.FinishedAt,
	}, nil
}

// maxListText bounds the prompt and the output of a run in a list, so that a page of 200 runs stays small.
const maxListText = 2000

// cut shortens the long texts of a run and names what it shortened.
func cut(v *api.Run) {
	for _, m := range []struct {
		name string
		text *string
	}{{"prompt", &v.Prompt}, {"output", &v.Output}, {"error", &v.Error}} {
		if len(*m.text) > maxListText {
			*m.text = strings.ToValidUTF8((*m.text)[:maxListText], "") + "…"
			v.Truncated = append(v.Truncated, m.name)
		}
	}
}
