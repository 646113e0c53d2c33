package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

type approvalPath struct {
	ID string `path:"id" doc:"id of the approval; begins with ap_"`
}

type listApprovalsInput struct {
	Status string `query:"status" enum:"pending,approved,denied,expired,withdrawn,consumed"`
	RunID  string `query:"run_id"`
	Cursor string `query:"cursor" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

const maxReason = 4096

func (s *Server) approvalRoutes() {
	handle(s, operation{
		method: http.MethodGet, path: "/v1/approvals", id: "list-approvals", scopes: readApprovals,
		summary: "List approvals, newest first",
	}, func(ctx context.Context, p engine.Principal, in *listApprovalsInput, _ *none) (*output[api.ApprovalList], error) {
		list := strings.Join([]string{"approvals", p.TenantID, in.RunID, in.Status}, "\x00")
		cursor, refused := openCursor(list, in.Cursor)
		if refused != nil {
			return nil, refused
		}
		found, next, err := s.runs.Approvals(ctx, p, store.ListOptions{
			TenantID: p.TenantID, RunID: in.RunID, Status: in.Status, Cursor: cursor, Limit: in.Limit,
		})
		if err != nil {
			return nil, err
		}
		if found == nil {
			found = []event.Approval{}
		}
		return ok(api.ApprovalList{Approvals: found, NextCursor: sealCursor(list, next)}), nil
	})

	handle(s, operation{
		method: http.MethodGet, path: "/v1/approvals/{id}", id: "get-approval", scopes: readApprovals,
		summary: "One approval",
	}, func(ctx context.Context, p engine.Principal, in *approvalPath, _ *none) (*output[event.Approval], error) {
		a, err := s.runs.Approval(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		return ok(a), nil
	})

	handle(s, operation{
		method: http.MethodPost, path: "/v1/approvals/{id}", id: "decide-approval", scopes: decide,
		summary: "Answer an approval",
		doc:     "The same answer again succeeds; a contrary or late one is a conflict whose details are the approval.",
	}, func(ctx context.Context, p engine.Principal, in *approvalPath, body *api.DecisionRequest) (*output[event.Approval], error) {
		d, refused := decision(*body)
		if refused != nil {
			return nil, refused
		}
		a, err := s.runs.Decide(ctx, p, in.ID, d)
		if err != nil {
			return nil, err
		}
		return ok(a), nil
	})

	for _, r := range []struct {
		verb, summary string
		approve       bool
	}{
		{"approve", "Approve the only pending call of a run", true},
		{"deny", "Deny the only pending call of a run", false},
	} {
		handle(s, operation{
			method: http.MethodPost, path: "/v1/runs/{id}/" + r.verb, id: r.verb + "-run", scopes: decide, bodyOptional: true,
			summary: r.summary,
			doc:     "A conflict when no call waits, or several do: answer those by their ids.",
		}, func(ctx context.Context, p engine.Principal, in *RunPath, body *api.ReasonRequest) (*output[api.RunDecided], error) {
			if refused := checkReason(body.Reason); refused != nil {
				return nil, refused
			}
			a, err := s.runs.DecideOnly(ctx, p, in.ID, engine.Decision{Approve: r.approve, Reason: body.Reason, Scope: event.ScopeOnce})
			if err != nil {
				return nil, err
			}
			return ok(api.RunDecided{Status: string(a.Status), ApprovalID: a.ID}), nil
		})
	}
}

func decision(body api.DecisionRequest) (engine.Decision, *api.Problem) {
	d := engine.Decision{Approve: body.Decision == api.DecisionApprove, Reason: body.Reason, Scope: event.ApprovalScope(body.Scope)}
	if body.Decision != api.DecisionApprove && body.Decision != api.DecisionDeny {
		return d, api.NewProblem(api.CodeInvalidRequest, "decision: must be approve or deny").At("decision")
	}
	switch d.Scope {
	case "":
		d.Scope = event.ScopeOnce
	case event.ScopeOnce, event.ScopeSession:
	default:
		return d, api.NewProblem(api.CodeInvalidRequest, "scope: must be once or session").At("scope")
	}
	return d, checkReason(body.Reason)
}

func checkReason(reason string) *api.Problem {
	if len(reason) > maxReason {
		return api.NewProblem(api.CodeInvalidRequest, "reason: must not have more than %d bytes", maxReason).At("reason")
	}
	return nil
}
