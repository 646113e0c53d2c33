package httpapi

import (
	"context"
	"net/http"
	"slices"
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
	RotateKey(ctx context.Context, tenantID, id string, next store.Key, until time.Time) error
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
		doc:     "The answer holds the key itself, this once. A key makes no key that may do more, or lasts longer, than itself.",
	}, func(ctx context.Context, p engine.Principal, _ *noParams, body *api.KeyRequest) (*output[api.KeyCreated], error) {
		tenant, refused := keyTenant(p, body.TenantID)
		if refused != nil {
			return nil, refused
		}
		ttl, refused := keyLife(ctx, body.ExpiresIn)
		if refused != nil {
			return nil, refused
		}
		secret, k, err := apikey.New(tenant, body.Name, body.Scopes, ttl)
		if err != nil {
			return nil, api.NewProblem(api.CodeInvalidRequest, "%s", err)
		}
		if refused := grants(p, k.Scopes); refused != nil {
			return nil, refused
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
		doc: "It is refused at once, also by open streams. Revoking it again changes nothing. A key cannot revoke the last " +
			"valid key with the scope admin; callers on the node itself can.",
	}, func(ctx context.Context, p engine.Principal, in *keyPath, _ *none) (*output[api.KeyRevoked], error) {
		tenant, refused := keyTenant(p, in.TenantID)
		if refused != nil {
			return nil, refused
		}
		s.revoking.Lock() // two keys must not each find the other left
		defer s.revoking.Unlock()
		if callOf(ctx).keyed {
			found, err := keys.ListKeys(ctx, tenant)
			if err != nil {
				return nil, err
			}
			if lastAdmin(found, in.ID, time.Now()) {
				return nil, api.NewProblem(api.CodeConflict, "key %s is the last one with the scope admin: make another one first, or revoke it on the node itself with: harness keys revoke", in.ID)
			}
		}
		if err := keys.RevokeKey(ctx, tenant, in.ID); err != nil {
			return nil, err
		}
		s.auth.forget()
		return ok(api.KeyRevoked{ID: in.ID, Status: "revoked"}), nil
	})
	s.rotateRoute(keys)
}

// The time that a rotated key goes on to be valid.
const (
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 90 * 24 * time.Hour
)

// rotateRoute replaces a key by another one that may do the same.
func (s *Server) rotateRoute(keys KeyStore) {
	handle(s, operation{
		method: http.MethodPost, path: "/v1/keys/{id}/rotate", id: "rotate-key", scopes: admin, status: http.StatusCreated, bodyOptional: true,
		summary: "Replace an API key",
		doc: "Makes a key with the same tenant, name and scopes and lets the old one expire after the overlap, so that its " +
			"users can change over. The answer holds the new key itself, this once.",
	}, func(ctx context.Context, p engine.Principal, in *keyPath, body *api.KeyRotation) (*output[api.KeyRotated], error) {
		tenant, refused := keyTenant(p, in.TenantID)
		if refused != nil {
			return nil, refused
		}
		overlap := defaultOverlap
		if body.Overlap != "" {
			d, err := time.ParseDuration(body.Overlap)
			if err != nil || d < 0 || d > maxOverlap {
				return nil, api.NewProblem(api.CodeInvalidRequest, "overlap: must be a duration from 0s to %s", maxOverlap).At("overlap")
			}
			overlap = d
		}
		ttl, refused := keyLife(ctx, body.ExpiresIn)
		if refused != nil {
			return nil, refused
		}
		found, err := keys.ListKeys(ctx, tenant)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(found, func(k store.Key) bool { return k.ID == in.ID })
		if i < 0 {
			return nil, api.NewProblem(api.CodeNotFound, "key %s does not exist", in.ID)
		}
		if refused := grants(p, found[i].Scopes); refused != nil {
			return nil, refused
		}
		secret, next, err := apikey.New(tenant, found[i].Name, found[i].Scopes, ttl)
		if err != nil {
			return nil, err
		}
		until := next.CreatedAt.Add(overlap)
		if err := keys.RotateKey(ctx, tenant, in.ID, next, until); err != nil {
			return nil, err
		}
		s.auth.forget()
		if e := found[i].ExpiresAt; e != nil && e.Before(until) {
			until = *e
		}
		return ok(api.KeyRotated{Key: keyView(next), Secret: secret, Replaces: in.ID, OldExpiresAt: until}), nil
	})
}

// keyTenant is the tenant that a caller asks about. A key reaches its own only; callers without a key are on the
// node itself and reach every tenant's store anyway.
func keyTenant(p engine.Principal, asked string) (string, *api.Problem) {
	if asked == "" || asked == p.TenantID {
		return p.TenantID, nil
	}
	if p.KeyID != engine.Local().KeyID {
		return "", api.NewProblem(api.CodeForbidden, "tenant_id: a key reaches its own tenant only").At("tenant_id")
	}
	return asked, nil
}

// keyLife is how long a new key is to last, 0: without end. The key of the caller bounds it.
func keyLife(ctx context.Context, asked string) (time.Duration, *api.Problem) {
	var ttl time.Duration
	if asked != "" {
		d, err := time.ParseDuration(asked)
		if err != nil || d <= 0 {
			return 0, api.NewProblem(api.CodeInvalidRequest, "expires_in: must be a duration such as 720h").At("expires_in")
		}
		ttl = d
	}
	c := callOf(ctx)
	if !c.keyed || c.expires == nil {
		return ttl, nil
	}
	left := time.Until(*c.expires)
	switch {
	case ttl > left:
		return 0, api.NewProblem(api.CodeForbidden, "expires_in: a key cannot make one that outlasts it, until %s", c.expires.Format(time.RFC3339)).At("expires_in")
	case ttl == 0:
		return max(left, time.Nanosecond), nil
	}
	return ttl, nil
}

// grants refuses scopes that the caller does not have itself.
func grants(p engine.Principal, scopes []string) *api.Problem {
	for _, s := range scopes {
		if !p.Can(s) {
			pr := api.NewProblem(api.CodeInsufficientScope, "scopes: a key cannot give the scope %s, which it does not have", s).At("scopes")
			pr.Required = s
			return pr
		}
	}
	return nil
}

// lastAdmin reports whether a key is the only valid one of its tenant that manages keys.
func lastAdmin(all []store.Key, id string, now time.Time) bool {
	var is, others bool
	for _, k := range all {
		if apikey.Valid(k, now) == nil && slices.Contains(k.Scopes, engine.ScopeAdmin) {
			is = is || k.ID == id
			others = others || k.ID != id
		}
	}
	return is && !others
}

func keyView(k store.Key) api.Key {
	return api.Key{
		ID: k.ID, Prefix: k.Prefix, TenantID: k.TenantID, Name: k.Name, Scopes: k.Scopes,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, LastUsed: k.LastUsed,
	}
}
