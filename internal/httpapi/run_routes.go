package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// Idempotent is a request that may be repeated.
type Idempotent struct {
	IdempotencyKey string `header:"Idempotency-Key" doc:"1 to 255 printable ASCII characters. A repeated key returns the run of the first request; with another body it is a conflict."`
}

const maxIdempotencyKey = 255

// idempotencyKey checks the header. One that is there and empty is refused: its sender believes in a protection that
// it does not have.
func idempotencyKey(ctx context.Context) (string, error) {
	values := callOf(ctx).r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	k := values[0]
	if len(values) > 1 || k == "" || len(k) > maxIdempotencyKey ||
		strings.ContainsFunc(k, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return "", api.NewProblem(api.CodeInvalidRequest,
			"Idempotency-Key: must be one value of 1 to %d printable ASCII characters without blanks", maxIdempotencyKey).At("Idempotency-Key")
	}
	return k, nil
}

type acceptedRun struct {
	Location string `header:"Location" doc:"path of the run"`
	Replayed string `header:"Idempotency-Replayed" doc:"true, when the key named an earlier request"`
	Body     api.RunAccepted
}

func accepted(r store.Run, existed bool) *acceptedRun {
	out := &acceptedRun{
		Location: "/v1/runs/" + r.ID,
		Body:     api.RunAccepted{RunID: r.ID, Status: string(r.Status), ConversationID: r.ConversationID},
	}
	if existed {
		out.Replayed = "true"
	}
	return out
}

type continueInput struct {
	RunPath
	Idempotent
}

type listRunsInput struct {
	ConversationID string `query:"conversation_id"`
	Status         string `query:"status" enum:"queued,running,waiting_for_user,waiting_for_approval,completed,failed,cancelled"`
	TenantID       string `query:"tenant_id" doc:"the caller's own tenant by default; only callers on the node itself may name another"`
	Cursor         string `query:"cursor" doc:"next_cursor of the page before"`
	Limit          int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

func (s *Server) runRoutes() {
	handle(s, operation{
		method: http.MethodPost, path: "/v1/runs", id: "create-run", status: http.StatusAccepted, scopes: writeRuns, maxBody: MaxRunBody,
		summary: "Start a run",
		doc:     "Stores the run and returns at once. Follow it by its events. Permissions default to sandbox unrestricted, network allow, approval none; a node's floor can only make them stricter.",
	}, func(ctx context.Context, p engine.Principal, _ *Idempotent, body *engine.RunRequest) (*acceptedRun, error) {
		key, err := idempotencyKey(ctx)
		if err != nil {
			return nil, err
		}
		body.Traceparent = traceparent(ctx)
		r, existed, err := s.runs.Submit(ctx, p, *body, key)
		if err != nil {
			return nil, err
		}
		return accepted(r, existed), nil
	})

	handle(s, operation{
		method: http.MethodGet, path: "/v1/runs", id: "list-runs", scopes: readRuns,
		summary: "List runs, newest first",
		doc:     "Long prompts and outputs are cut in lists; truncated names what was cut.",
	}, s.listRuns)

	handle(s, operation{
		method: http.MethodGet, path: "/v1/runs/{id}", id: "get-run", scopes: readRuns,
		summary: "One run",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, _ *none) (*output[api.Run], error) {
		r, err := s.runs.Run(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.runView(r)
		if err != nil {
			return nil, err
		}
		if r.Status == store.StatusWaitingForApproval {
			list, _, err := s.runs.Approvals(ctx, p, store.ListOptions{
				TenantID: r.TenantID, RunID: r.ID, Status: string(event.ApprovalPending), Limit: maxPage,
			})
			if err != nil {
				return nil, err
			}
			for _, a := range slices.Backward(list) { // oldest first
				v.PendingApprovals = append(v.PendingApprovals, a.ID)
			}
		}
		return ok(v), nil
	})

	handle(s, operation{
		method: http.MethodPost, path: "/v1/runs/{id}/cancel", id: "cancel-run", scopes: writeRuns, bodyOptional: true,
		summary: "Cancel a run",
		doc:     "Idempotent. An ended run keeps its status.",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, _ *api.Empty) (*output[api.RunCancelled], error) {
		r, err := s.runs.Cancel(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		v := api.RunCancelled{RunID: r.ID, Status: "cancelling"}
		if r.Status.Terminal() {
			v.Status = string(r.Status)
		}
		return ok(v), nil
	})

	handle(s, operation{
		method: http.MethodPost, path: "/v1/runs/{id}/continue", id: "continue-run", status: http.StatusAccepted, scopes: writeRuns, maxBody: MaxRunBody,
		summary: "Go on with an ended run's conversation in a new run",
	}, func(ctx context.Context, p engine.Principal, in *continueInput, body *engine.ContinueRequest) (*acceptedRun, error) {
		key, err := idempotencyKey(ctx)
		if err != nil {
			return nil, err
		}
		body.Traceparent = traceparent(ctx)
		r, err := s.runs.Continue(ctx, p, in.ID, *body, key)
		if err != nil {
			return nil, err
		}
		return accepted(r, false), nil
	})

	handle(s, operation{
		method: http.MethodPost, path: "/v1/runs/{id}/steer", id: "steer-run", status: http.StatusAccepted, scopes: writeRuns,
		summary: "Send a message to an active run",
		doc:     "The message is part of the next model request. Also while the run waits.",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, body *api.SteerRequest) (*output[api.Accepted], error) {
		if strings.TrimSpace(body.Prompt) == "" {
			return nil, api.NewProblem(api.CodeInvalidRequest, "prompt: must not be empty").At("prompt")
		}
		if err := s.runs.Steer(ctx, p, in.ID, body.Prompt); err != nil {
			return nil, err
		}
		return ok(api.Accepted{Status: "accepted"}), nil
	})
}

const maxPage = 200

func (s *Server) listRuns(ctx context.Context, p engine.Principal, in *listRunsInput, _ *none) (*output[api.RunList], error) {
	tenant, refused := keyTenant(p, in.TenantID)
	if refused != nil {
		return nil, refused
	}
	p.TenantID = tenant // the engine lists the principal's tenant, whatever the options say
	list := strings.Join([]string{"runs", tenant, in.ConversationID, in.Status}, "\x00")
	cursor, refused := openCursor(list, in.Cursor)
	if refused != nil {
		return nil, refused
	}
	runs, next, err := s.runs.Runs(ctx, p, store.ListOptions{
		TenantID: tenant, ConversationID: in.ConversationID, Status: in.Status, Cursor: cursor, Limit: in.Limit,
	})
	if err != nil {
		return nil, err
	}
	out := api.RunList{Runs: make([]api.Run, 0, len(runs)), NextCursor: sealCursor(list, next)}
	for _, r := range runs {
		v, err := s.runView(r)
		if err != nil {
			return nil, err
		}
		cut(&v)
		out.Runs = append(out.Runs, v)
	}
	return ok(out), nil
}
