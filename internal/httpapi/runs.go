package httpapi

import (
	"context"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// Runs is what the API needs of the engine. A run, approval or question of another tenant is not found. Refusals are
// *engine.Error; any other error is an internal one and its text stays in the log.
type Runs interface {
	Conversations
	Insight

	Submit(ctx context.Context, p engine.Principal, req engine.RunRequest, idempotencyKey string) (run store.Run, existed bool, err error)
	Continue(ctx context.Context, p engine.Principal, runID string, req engine.ContinueRequest, idempotencyKey string) (store.Run, error)
	Cancel(ctx context.Context, p engine.Principal, runID string) (store.Run, error)
	Steer(ctx context.Context, p engine.Principal, runID, prompt string) error
	Run(ctx context.Context, p engine.Principal, runID string) (store.Run, error)
	Runs(ctx context.Context, p engine.Principal, o store.ListOptions) ([]store.Run, string, error)
	Plan(run store.Run) (engine.Plan, error)

	Events(ctx context.Context, p engine.Principal, runID string, after int64, limit int) ([]event.Event, error)
	Watch(ctx context.Context, p engine.Principal, runID string) (<-chan struct{}, func(), error)

	Decide(ctx context.Context, p engine.Principal, approvalID string, d engine.Decision) (event.Approval, error)
	DecideOnly(ctx context.Context, p engine.Principal, runID string, d engine.Decision) (event.Approval, error)
	Approval(ctx context.Context, p engine.Principal, id string) (event.Approval, error)
	Approvals(ctx context.Context, p engine.Principal, o store.ListOptions) ([]event.Approval, string, error)
	PendingQuestion(ctx context.Context, p engine.Principal, runID string) (event.PendingQuestion, error)
	Answer(ctx context.Context, p engine.Principal, runID string, answers map[string][]string) (event.PendingQuestion, error)

	Tools() []tool.Definition
}
