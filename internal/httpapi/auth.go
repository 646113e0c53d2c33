package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apikey"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// call is one request after authentication. It travels in the request's context.
type call struct {
	principal engine.Principal
	key       [32]byte // hash of the key, for streams that outlive it
	keyed     bool
	expires   *time.Time      // of the key
	ended     <-chan struct{} // closed when keys were ended after the key was looked at
	w         http.ResponseWriter
	r         *http.Request
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// authenticator finds out who asks. Its cache of good keys is small and short-lived. A key that this process ends is
// refused at once, and so is one that expires; one that another process ended after keyCacheTTL at the latest.
type authenticator struct {
	keys apikey.Lookup // nil: authentication is off

	mu    sync.Mutex
	cache map[[32]byte]cachedKey
	// changes is closed, and made anew, when keys were ended. A look-up that was on its way then is not cached.
	changes chan struct{}
}

type cachedKey struct {
	key  store.Key
	read time.Time
}

const (
	keyCacheTTL  = time.Second
	keyCacheSize = 1024
)

func (a *authenticator) off() bool { return a.keys == nil }

// authenticate makes the call of a request.
func (a *authenticator) authenticate(w http.ResponseWriter, r *http.Request) (*call, error) {
	c := &call{w: w, r: r}
	if a.off() || trusted(r.Context()) {
		c.principal = engine.Local()
		return c, nil
	}
	token, p := bearer(r)
	if p != nil {
		return nil, p
	}
	hash, err := apikey.Parse(token)
	if err != nil {
		return nil, unauthorized(err)
	}
	c.ended = a.watch() // before the look, so that no end of the key falls between the two
	k, err := a.check(r.Context(), hash)
	if err != nil {
		return nil, err
	}
	c.principal, c.key, c.keyed, c.expires = apikey.Principal(k), hash, true, k.ExpiresAt
	return c, nil
}

// check judges the key with a hash: nil, a 401, or an error of the store.
func (a *authenticator) check(ctx context.Context, hash [32]byte) (store.Key, error) {
	now := time.Now()
	a.mu.Lock()
	hit, ok := a.cache[hash]
	changes := a.changed()
	a.mu.Unlock()
	if ok && now.Sub(hit.read) < keyCacheTTL {
		if err := apikey.Valid(hit.key, now); err != nil {
			return store.Key{}, unauthorized(err)
		}
		return hit.key, nil
	}
	k, err := apikey.Find(ctx, a.keys, hash, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		delete(a.cache, hash)
		for _, refused := range []error{apikey.ErrUnknown, apikey.ErrExpired, apikey.ErrRevoked} {
			if errors.Is(err, refused) {
				return store.Key{}, unauthorized(err)
			}
		}
		return store.Key{}, err
	}
	if len(a.cache) >= keyCacheSize {
		clear(a.cache) // rare, and a key costs one look-up to come back
	}
	if a.cache == nil {
		a.cache = make(map[[32]byte]cachedKey)
	}
	select {
	case <-changes: // the key may be one of those
	default:
		a.cache[hash] = cachedKey{k, now}
	}
	return k, nil
}

// changed returns the channel that is closed with the next change. The lock must be held.
func (a *authenticator) changed() chan struct{} {
	if a.changes == nil {
		a.changes = make(chan struct{})
	}
	return a.changes
}

// watch returns a channel that is closed when keys are ended.
func (a *authenticator) watch() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed()
}

// forget makes the next request with each key ask the store again. It is called after keys were ended.
func (a *authenticator) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed())
	a.changes = nil
	clear(a.cache)
}

func unauthorized(err error) *api.Problem {
	return api.NewProblem(api.CodeUnauthorized, "%s; send a key as Authorization: Bearer %s…", err, apikey.Prefix)
}

// bearer takes the key from the request's header, the only place where it may stand.
func bearer(r *http.Request) (string, *api.Problem) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		if strings.Contains(r.URL.RawQuery, "token=") {
			return "", unauthorized(errors.New("a key in the URL is not accepted, because URLs end up in logs and histories"))
		}
		return "", unauthorized(errors.New("there is no API key"))
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if len(values) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", unauthorized(errors.New("the header Authorization is not one bearer key"))
	}
	return strings.TrimSpace(token), nil
}

// permit refuses a principal that has none of the scopes. No scope means: any key.
func permit(p engine.Principal, anyOf []string) *api.Problem {
	if len(anyOf) == 0 {
		return nil
	}
	for _, s := range anyOf {
		if p.Can(s) {
			return nil
		}
	}
	pr := api.NewProblem(api.CodeInsufficientScope, "this needs a key with the scope %s", strings.Join(anyOf, " or "))
	pr.Required = anyOf[0]
	return pr
}
