package apiclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/harness-go/harness/internal/api"
)

// CreateKey makes an API key. The answer holds the key itself, this once.
func (c *Client) CreateKey(ctx context.Context, r api.KeyRequest) (api.KeyCreated, error) {
	var out api.KeyCreated
	return out, c.do(ctx, http.MethodPost, "v1/keys", nil, nil, r, &out)
}

// Keys lists the keys of a tenant; empty: the caller's own.
func (c *Client) Keys(ctx context.Context, tenant string) ([]api.Key, error) {
	var out api.KeyList
	err := c.do(ctx, http.MethodGet, "v1/keys", query(0, map[string]string{"tenant_id": tenant}), nil, nil, &out)
	return out.Keys, err
}

// RevokeKey ends a key.
func (c *Client) RevokeKey(ctx context.Context, tenant, id string) error {
	q := query(0, map[string]string{"tenant_id": tenant})
	return c.do(ctx, http.MethodDelete, "v1/keys/"+url.PathEscape(id), q, nil, nil, nil)
}

// RotateKey replaces a key by another one that may do the same.
func (c *Client) RotateKey(ctx context.Context, tenant, id string, r api.KeyRotation) (api.KeyRotated, error) {
	var out api.KeyRotated
	q := query(0, map[string]string{"tenant_id": tenant})
	return out, c.do(ctx, http.MethodPost, "v1/keys/"+url.PathEscape(id)+"/rotate", q, nil, r, &out)
}

// OpenAPI returns the description of the server's API, in JSON.
func (c *Client) OpenAPI(ctx context.Context) (map[string]any, error) {
	var out map[string]any
	return out, c.do(ctx, http.MethodGet, "openapi.json", nil, nil, nil, &out)
}
