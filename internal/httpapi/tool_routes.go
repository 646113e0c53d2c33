package httpapi

import (
	"context"
	"net/http"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

func (s *Server) toolRoutes() {
	handle(s, operation{
		method: http.MethodGet, path: "/v1/tools", id: "list-tools", scopes: readRuns,
		summary: "The tools that runs can use",
	}, func(context.Context, engine.Principal, *noParams, *none) (*output[api.ToolList], error) {
		out := api.ToolList{Tools: []api.Tool{}}
		for _, d := range s.runs.Tools() {
			out.Tools = append(out.Tools, api.Tool{
				Name: d.Name, Description: d.Description, Tier: string(d.Tier), Kind: string(d.Kind),
				Mutating: d.Kind.Mutating(), Parallel: d.Parallel, Tags: d.Tags, Schema: d.Schema,
			})
		}
		return ok(out), nil
	})
}
