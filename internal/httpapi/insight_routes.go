package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/tool"
)

// Insight is what the API needs of the engine about the inside of a run.
type Insight interface {
	Summary(ctx context.Context, p engine.Principal, runID string) (engine.Summary, error)
	Context(ctx context.Context, p engine.Principal, runID string) (tool.ContextStatus, error)
	Compact(ctx context.Context, p engine.Principal, runID string, req native.CompactRequest) error
	// CompactConversation is Compact for the conversation's newest run.
	CompactConversation(ctx context.Context, p engine.Principal, id string, req native.CompactRequest) error
	Todos(ctx context.Context, p engine.Principal, runID string) ([]event.Todo, error)
	SetTodos(ctx context.Context, p engine.Principal, runID string, list []event.Todo) ([]event.Todo, error)
}

type summaryInput struct {
	RunPath
	Partial bool `query:"partial" doc:"also of a run that has not ended"`
}

func (s *Server) insightRoutes() {
	handle(s, operation{
		method: http.MethodGet, path: "/v1/runs/{id}/summary", id: "summarize-run", scopes: readRuns,
		summary: "What a run did",
		doc:     "Of an ended run; of an active one only with partial.",
	}, func(ctx context.Context, p engine.Principal, in *summaryInput, _ *none) (*output[api.RunSummary], error) {
		sum, err := s.runs.Summary(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		if !sum.Run.Status.Terminal() && !in.Partial {
			return nil, api.NewProblem(api.CodeRunNotFinished, "run %s is %s: its summary so far is given with ?partial=true", in.ID, sum.Run.Status)
		}
		return ok(summaryView(sum)), nil
	})

	handle(s, operation{
		method: http.MethodGet, path: "/v1/runs/{id}/context", id: "get-context", scopes: readRuns,
		summary: "How full the context of a run's session is",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, _ *none) (*output[api.RunContext], error) {
		st, err := s.runs.Context(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		return ok(api.RunContext{RunID: in.ID, ContextStatus: st}), nil
	})

	handle(s, operation{
		method: http.MethodPost, path: "/v1/runs/{id}/compact", id: "compact-run", status: http.StatusAccepted, scopes: writeRuns, bodyOptional: true,
		summary: "Make the history of an active run shorter",
		doc:     "It is done before the run's next model call; the event compact_history.completed tells the outcome. strip leaves long outputs out, summarize replaces older messages by a summary, hybrid does the first and, where that is not enough, the second.",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, body *api.CompactRequest) (*output[api.Accepted], error) {
		if err := s.runs.Compact(ctx, p, in.ID, *body); err != nil {
			return nil, err
		}
		return ok(api.Accepted{Status: "accepted"}), nil
	})

	handle(s, operation{
		method: http.MethodPost, path: "/v1/conversations/{id}/compact", id: "compact-conversation", status: http.StatusAccepted, scopes: writeRuns, bodyOptional: true,
		summary: "Make the history of a conversation with an active run shorter",
		doc:     "As for the run itself.",
	}, func(ctx context.Context, p engine.Principal, in *ConversationPath, body *api.CompactRequest) (*output[api.Accepted], error) {
		if err := s.runs.CompactConversation(ctx, p, in.ID, *body); err != nil {
			return nil, err
		}
		return ok(api.Accepted{Status: "accepted"}), nil
	})

	handle(s, operation{
		method: http.MethodGet, path: "/v1/runs/{id}/todos", id: "get-todos", scopes: readRuns,
		summary: "The todo list of a run",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, _ *none) (*output[api.TodoList], error) {
		list, err := s.runs.Todos(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		return ok(api.TodoList{RunID: in.ID, Todos: list}), nil
	})

	handle(s, operation{
		method: http.MethodPut, path: "/v1/runs/{id}/todos", id: "set-todos", scopes: writeRuns,
		summary: "Replace the todo list of an active run",
		doc:     "The session has it before its next model call.",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, body *api.TodosRequest) (*output[api.TodoList], error) {
		if body.Todos == nil {
			return nil, api.NewProblem(api.CodeInvalidRequest, "todos: must be a list; an empty one clears it").At("todos")
		}
		list, err := s.runs.SetTodos(ctx, p, in.ID, body.Todos)
		if err != nil {
			return nil, err
		}
		return ok(api.TodoList{RunID: in.ID, Todos: list}), nil
	})
}

func summaryView(s engine.Summary) api.RunSummary {
	r := s.Run
	end := time.Now()
	if r.FinishedAt != nil {
		end = *r.FinishedAt
	}
	v := api.RunSummary{
		RunID: r.ID, Status: string(r.Status), StepsTaken: r.Steps, ModelCalls: s.ModelCalls, DiscardedAttempts: s.Discarded,
		TotalPromptTokens: r.Usage.PromptTokensTotal, TotalCompletionTokens: r.Usage.CompletionTokensTotal, CachedTokens: r.Usage.CachedTokensTotal,
		TotalCostUSD: r.Cost.CostUSDTotal, CostStatus: r.Cost.CostStatus, ToolCallsTotal: s.CallsTotal, ToolCalls: make([]api.ToolUse, len(s.Calls)),
		DurationMS: max(end.Sub(r.CreatedAt).Milliseconds(), 0), Error: r.Error, Reason: r.Reason,
	}
	if v.TotalPromptTokens > 0 {
		v.CacheHitRate = float64(v.CachedTokens) / float64(v.TotalPromptTokens)
	}
	for i, c := range s.Calls {
		u := api.ToolUse{ToolName: c.Tool, Step: c.Step, CallID: c.CallID, Status: "running", Error: c.Error, DurationMS: c.DurationMS}
		switch {
		case c.Done && c.Error != "":
			u.Status = "failed"
		case c.Done:
			u.Status = "completed"
		}
		v.ToolCalls[i] = u
	}
	return v
}
