package apiclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
)

// Summary tells what a run did, so far if it has not ended.
func (c *Client) Summary(ctx context.Context, runID string) (api.RunSummary, error) {
	var out api.RunSummary
	return out, c.do(ctx, http.MethodGet, runRoute(runID, "summary"), url.Values{"partial": {"true"}}, nil, nil, &out)
}

// Context tells how full the context of a run's session is.
func (c *Client) Context(ctx context.Context, runID string) (api.RunContext, error) {
	var out api.RunContext
	return out, c.do(ctx, http.MethodGet, runRoute(runID, "context"), nil, nil, nil, &out)
}

// Compact asks an active run for a shorter history.
func (c *Client) Compact(ctx context.Context, runID string, req api.CompactRequest) error {
	return c.do(ctx, http.MethodPost, runRoute(runID, "compact"), nil, nil, req, nil)
}

// Todos returns the todo list of a run.
func (c *Client) Todos(ctx context.Context, runID string) (api.TodoList, error) {
	var out api.TodoList
	return out, c.do(ctx, http.MethodGet, runRoute(runID, "todos"), nil, nil, nil, &out)
}

// SetTodos replaces the todo list of an active run.
func (c *Client) SetTodos(ctx context.Context, runID string, list []event.Todo) (api.TodoList, error) {
	if list == nil {
		list = []event.Todo{}
	}
	var out api.TodoList
	return out, c.do(ctx, http.MethodPut, runRoute(runID, "todos"), nil, nil, api.TodosRequest{Todos: list}, &out)
}

// ListModels filters a list of models. Zero values do not filter.
type ListModels struct {
	Provider string
	Cursor   string
	Limit    int
}

// Models returns a page of the models that runs can use.
func (c *Client) Models(ctx context.Context, o ListModels) (api.ModelList, error) {
	var out api.ModelList
	return out, c.do(ctx, http.MethodGet, "v1/models", query(o.Limit, map[string]string{
		"provider": o.Provider, "cursor": o.Cursor,
	}), nil, nil, &out)
}

// Providers lists the providers of models.
func (c *Client) Providers(ctx context.Context) ([]api.Provider, error) {
	var out api.ProviderList
	err := c.do(ctx, http.MethodGet, "v1/providers", nil, nil, nil, &out)
	return out.Providers, err
}

// SetProviderKey gives a provider another key, for as long as the server runs.
func (c *Client) SetProviderKey(ctx context.Context, provider, key string) error {
	return c.do(ctx, http.MethodPut, providerKeyRoute(provider), nil, nil, api.ProviderKey{Key: key}, nil)
}

// RemoveProviderKey takes away the key that SetProviderKey gave.
func (c *Client) RemoveProviderKey(ctx context.Context, provider string) error {
	return c.do(ctx, http.MethodDelete, providerKeyRoute(provider), nil, nil, nil, nil)
}

func providerKeyRoute(provider string) string {
	return "v1/providers/" + url.PathEscape(provider) + "/key"
}
