package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

// Models is what the API needs of the node about models. Errors of SetKey and RemoveKey are *api.Problem.
type Models interface {
	Models() []api.Model
	Providers() []api.Provider
	// SetKey gives a configured provider another key until the node ends or RemoveKey takes it away.
	SetKey(provider, key string) error
	RemoveKey(provider string) error
}

type modelsInput struct {
	Provider string `query:"provider" doc:"only models of this provider"`
	Cursor   string `query:"cursor" doc:"next_cursor of the page before"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"200"`
}

type providerPath struct {
	Name string `path:"name" doc:"name of the provider"`
}

type noContent struct{}

// modelRoutes registers what tells of models. Without Models the node has none of these routes.
func (s *Server) modelRoutes(m Models) {
	if m == nil {
		return
	}
	handle(s, operation{
		method: http.MethodGet, path: "/v1/models", id: "list-models", scopes: readRuns,
		summary: "List the models that runs can use",
		doc:     "Those that the configuration lists, and for providers without a list those that the catalogue knows; such a provider may serve more.",
	}, func(_ context.Context, _ engine.Principal, in *modelsInput, _ *none) (*output[api.ModelList], error) {
		list := "models\x00" + in.Provider
		cursor, refused := openCursor(list, in.Cursor)
		if refused != nil {
			return nil, refused
		}
		from := 0
		if cursor != "" {
			var err error
			if from, err = strconv.Atoi(cursor); err != nil || from < 0 {
				return nil, api.NewProblem(api.CodeInvalidCursor, "cursor: is not one of this list").At("cursor")
			}
		}
		out := api.ModelList{Models: []api.Model{}}
		n := 0
		for _, v := range m.Models() {
			if in.Provider != "" && v.Provider != in.Provider {
				continue
			}
			if n >= from && len(out.Models) == in.Limit {
				out.NextCursor = sealCursor(list, strconv.Itoa(n))
				break
			}
			if n++; n > from {
				out.Models = append(out.Models, v)
			}
		}
		return ok(out), nil
	})

	handle(s, operation{
		method: http.MethodGet, path: "/v1/providers", id: "list-providers", scopes: readRuns,
		summary: "List the providers of models",
	}, func(context.Context, engine.Principal, *noParams, *none) (*output[api.ProviderList], error) {
		return ok(api.ProviderList{Providers: m.Providers()}), nil
	})

	handle(s, operation{
		method: http.MethodPut, path: "/v1/providers/{name}/key", id: "set-provider-key", scopes: admin, status: http.StatusNoContent,
		summary: "Give a provider another key",
		doc:     "It is used by the next model call, is kept in memory only, and ends with the process. It is never shown again.",
	}, func(_ context.Context, _ engine.Principal, in *providerPath, body *api.ProviderKey) (*noContent, error) {
		if body.Key == "" {
			return nil, api.NewProblem(api.CodeInvalidRequest, "key: must not be empty; DELETE takes a key away").At("key")
		}
		return &noContent{}, m.SetKey(in.Name, body.Key)
	})

	handle(s, operation{
		method: http.MethodDelete, path: "/v1/providers/{name}/key", id: "remove-provider-key", scopes: admin, status: http.StatusNoContent,
		summary: "Take away the key that was given to a provider here",
		doc:     "The key of the settings, where there is one, is used again.",
	}, func(_ context.Context, _ engine.Principal, in *providerPath, _ *none) (*noContent, error) {
		return &noContent{}, m.RemoveKey(in.Name)
	})
}
