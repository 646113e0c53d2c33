package httpapi

import (
	"context"
	"net/http"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

var (
	readRuns  = []string{engine.ScopeRunsRead}
	writeRuns = []string{engine.ScopeRunsWrite}
	decide    = []string{engine.ScopeApprovals}
	// Who may decide may also see what there is to decide.
	readApprovals = []string{engine.ScopeRunsRead, engine.ScopeApprovals}
)

type noParams struct{}

// RunPath names the run of a route.
type RunPath struct {
	ID string `path:"id" doc:"id of the run"`
}

// routes registers every route.
func (s *Server) routes(version string) {
	s.api = s.newAPI(version)
	handle(s, operation{
		method: http.MethodGet, path: "/healthz", id: "health", open: true,
		summary: "Whether the server answers",
	}, func(context.Context, engine.Principal, *noParams, *none) (*output[api.Health], error) {
		return ok(api.Health{Status: "ok"}), nil
	})
	s.runRoutes()
	s.streamRoute()
	s.questionRoutes()
	s.approvalRoutes()
	s.toolRoutes()
	s.conversationRoutes()
	s.insightRoutes()
	s.documentRoutes()
	s.notBuiltRoutes()
}

// output is an answer with a JSON body and nothing else.
type output[T any] struct{ Body T }

func ok[T any](v T) *output[T] { return &output[T]{Body: v} }
