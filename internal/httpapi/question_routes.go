package httpapi

import (
	"context"
	"net/http"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

func (s *Server) questionRoutes() {
	handle(s, operation{
		method: http.MethodGet, path: "/v1/runs/{id}/input", id: "get-input", scopes: readRuns,
		summary: "The questions that a run waits for",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, _ *none) (*output[event.PendingQuestion], error) {
		q, err := s.runs.PendingQuestion(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		return ok(q), nil
	})

	handle(s, operation{
		method: http.MethodPost, path: "/v1/runs/{id}/input", id: "answer-input", status: http.StatusAccepted, scopes: writeRuns,
		summary: "Answer the questions that a run waits for",
		doc:     "answers maps each question's text to a label, to several labels as a list, or to free text.",
	}, func(ctx context.Context, p engine.Principal, in *RunPath, body *api.AnswerRequest) (*output[api.Accepted], error) {
		if len(body.Answers) == 0 {
			return nil, api.NewProblem(api.CodeInvalidRequest, "answers: must answer every question of the run").At("answers")
		}
		answers := make(map[string][]string, len(body.Answers))
		for q, a := range body.Answers {
			answers[q] = a
		}
		if _, err := s.runs.Answer(ctx, p, in.ID, answers); err != nil {
			return nil, err
		}
		return ok(api.Accepted{Status: "accepted"}), nil
	})
}
