package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apikey"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// KeyStore keeps API keys; store.Store has it.
type KeyStore interface {
	PutKey(ctx context.Context, k store.Key) error
	ListKeys(ctx context.Context, tenantID string) ([]store.Key, error)
	RevokeKey(ctx context.Context, tenantID, id string) error
}

var admin = []string{engine.ScopeAdmin}

type keyPath struct {
	ID string `path:"id" doc:"id of the key; begins with key_"`
	tenantQuery
}

type tenantQuery struct {
	TenantID string `query:"tenant_id" doc:"the caller's own tenant by default; only callers on the node itself may name another"`
}

// keyRoutes registers the administration of keys. Without a KeyStore the node has none of these routes.
func (s *Server) keyRoutes(keys KeyStore) {
	if keys == nil {
		return
	}
	handle(s, operation{
		method: http.MethodPost, path: "/v1/keys", id: "create-key", scopes: admin, status: http.StatusCreated,
		summary: "Make an API key",
		doc:     "The answer holds the key itself, this once.",
	}, func(ctx context.Context, p engine.Principal, _ *noParams, body *api.KeyRequest) (*output[api.KeyCreated], error) {
		tenant, refused := keyTenant(p, body.TenantID)
		if refused != nil {
			return nil, refused
		}
		var ttl time.Duration
		if body.ExpiresIn != "" {
			d, err := time.ParseDuration(body.ExpiresIn)
			if err != nil || d <= 0 {
				return nil, api.NewProblem(api.CodeInvalidRequest, "expires_in: must be a duration such as 720h").At("expires_in")
			}
			ttl = d
		}
		secret, k, err := apikey.New(tenant, body.Name, body.Scopes, ttl)
		if err != nil {
			return nil, api.NewProblem(api.CodeInvalidRequest, "%s", err)
		}
		if err := keys.PutKey(ctx, k); err != nil {
			return nil, err
		}
		return ok(api.KeyCreated{Key: keyView(k), Secret: secret}), nil
	})

	handle(s, operation{
		method: http.MethodGet, path: "/v1/keys", id: "list-keys", scopes: admin,
		summary: "List the API keys of a tenant, oldest first",
	}, func(ctx context.Context, p engine.Principal, in *tenantQuery, _ *none) (*output[api.KeyList], error) {
		tenant, refused := keyTenant(p, in.TenantID)
		if refused != nil {
			return nil, refused
		}
		found, err := keys.ListKeys(ctx, tenant)
		if err != nil {
			return nil, err
		}
		out := api.KeyList{Keys: make([]api.Key, 0, len(found))}
		for _, k := range found {
			out.Keys = append(out.Keys, keyView(k))
		}
		return ok(out), nil
	})

	handle(s, operation{
		method: http.MethodDelete, path: "/v1/keys/{id}", id: "revoke-key", scopes: admin,
		summary: "Revoke an API key",
		doc:     "It is refused within a second, also by open streams. Revoking it again changes nothing.",
	}, func(ctx context.Context, p engine.Principal, in *keyPath, _ *none) (*output[api.KeyRevoked], error) {
		tenant, refused := keyTenant(p, in.TenantID)
		if refused != nil {
			return nil, refused
		}
		if err := keys.RevokeKey(ctx, tenant, in.ID); err != nil {
			return nil, err
		}
		return ok(api.KeyRevoked{ID: in.ID, Status: "revoked"}), nil
	})
}

// keyTenant is the tenant whose keys a caller manages. A key reaches its own only; callers without a key are on the
// node itself and reach every tenant's store anyway.
func keyTenant(p engine.Principal, asked string) (string, *api.Problem) {
	if asked == "" || asked == p.TenantID {
		return p.TenantID, nil
	}
	if p.KeyID != engine.Local().KeyID {
		return "", api.NewProblem(api.CodeForbidden, "tenant_id: a key manages the keys of its own tenant only").At("tenant_id")
	}
	return asked, nil
}

func keyView(k store.Key) api.Key {
	return api.Key{
		ID: k.ID, Prefix: k.Prefix, TenantID: k.TenantID, Name: k.Name, Scopes: k.Scopes,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsed: k.LastUsed,
	}
}
