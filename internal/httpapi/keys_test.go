package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apiclient"
	"github.com/harness-go/harness/internal/apikey"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

func (m *memoryKeys) PutKey(_ context.Context, k store.Key) error {
	m.put(k)
	return nil
}

func (m *memoryKeys) ListKeys(_ context.Context, tenant string) ([]store.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []store.Key
	for _, k := range m.keys {
		if k.TenantID == tenant {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b store.Key) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID)) })
	return list, m.err
}

// change changes the key with an id.
func (m *memoryKeys) change(tenant, id string, f func(*store.Key)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h, k := range m.keys {
		if k.ID == id && k.TenantID == tenant {
			f(&k)
			m.keys[h] = k
			return nil
		}
	}
	return store.ErrNotFound
}

func (m *memoryKeys) RevokeKey(_ context.Context, tenant, id string) error {
	now := time.Now()
	return m.change(tenant, id, func(k *store.Key) { k.RevokedAt = &now })
}

func (m *memoryKeys) RotateKey(_ context.Context, tenant, id string, next store.Key, until time.Time) error {
	if err := m.change(tenant, id, func(k *store.Key) { k.ExpiresAt = &until }); err != nil {
		return err
	}
	m.put(next)
	return nil
}

// managed makes a server that administers its keys.
func managed(t testing.TB) (*Server, *fakeRuns, *memoryKeys) {
	t.Helper()
	f, keys := newFake(), &memoryKeys{}
	s, err := New(Options{Runs: f, Keys: keys, KeyStore: keys, Metrics: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	return s, f, keys
}

func bearerOf(key string) []string { return []string{"Authorization", "Bearer " + key} }

// Every documented route lets in the keys that its scopes allow, and no other. The golden file is the table for people.
func TestEveryRouteLetsInTheScopesThatItNames(t *testing.T) {
	s, f, keys := managed(t)
	root := keys.add(t, "default", engine.ScopeAdmin)
	decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, bearerOf(root)...), 202)
	f.ask("run_0001", "bash")
	f.emit("run_0001", event.RunCompleted)
	byScope := map[string]string{}
	for _, sc := range apikey.Scopes() {
		byScope[sc] = keys.add(t, "default", sc)
	}
	bodies := map[string]string{}
	for _, r := range routeTable(s) {
		bodies[r.method+" "+r.path] = r.body
	}
	var table bytes.Buffer
	var lines []string
	for path, item := range s.api.OpenAPI().Paths {
		for _, op := range []struct {
			method string
			is     bool
			ext    map[string]any
			open   bool
		}{
			{"GET", item.Get != nil, extensions(item.Get), item.Get != nil && item.Get.Security == nil},
			{"POST", item.Post != nil, extensions(item.Post), false},
			{"PUT", item.Put != nil, extensions(item.Put), false},
			{"DELETE", item.Delete != nil, extensions(item.Delete), false},
		} {
			if !op.is || op.open {
				continue
			}
			allowed, _ := op.ext["x-scopes"].([]string)
			if len(allowed) == 0 {
				t.Errorf("%s %s names no scope", op.method, path)
			}
			var in []string
			for _, sc := range apikey.Scopes() {
				may := slices.ContainsFunc(allowed, engine.Principal{Scopes: []string{sc}}.Can)
				if may {
					in = append(in, sc)
				}
				concrete := strings.NewReplacer("/runs/{id}", "/runs/run_0001", "/approvals/{id}", "/approvals/ap_0002",
					"/conversations/{id}", "/conversations/run_0001", "{id}", "key_x", "{name}", "x", "/search", "/search?q=x").Replace(path)
				w := ask(s, op.method, concrete, bodies[op.method+" "+concrete], bearerOf(byScope[sc])...)
				refused := w.Code == http.StatusForbidden && problem(t, w).Code == api.CodeInsufficientScope
				if refused == may {
					t.Errorf("%s %s with %s: %d %s", op.method, concrete, sc, w.Code, w.Body)
				}
			}
			lines = append(lines, fmt.Sprintf("%-60s %s\n", op.method+" "+path, strings.Join(in, " ")))
		}
	}
	slices.Sort(lines)
	for _, l := range lines {
		table.WriteString(l)
	}
	golden(t, "scopes.golden", table.Bytes())
}

func TestAKeyGrantsNoMoreThanItHas(t *testing.T) {
	s, _, keys := managed(t)
	plain, k, err := apikey.New("default", "short", []string{engine.ScopeAdmin}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	keys.put(k)
	create := func(body string) *api.Key {
		t.Helper()
		got := decodeBody[api.KeyCreated](t, ask(s, "POST", "/v1/keys", body, bearerOf(plain)...), 201)
		return &got.Key
	}
	for _, body := range []string{`{"name":"n","scopes":["admin"],"expires_in":"2h"}`, `{"name":"n","scopes":["admin"],"tenant_id":"other"}`} {
		if p := problem(t, ask(s, "POST", "/v1/keys", body, bearerOf(plain)...)); p.Code != api.CodeForbidden {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if got := create(`{"name":"n","scopes":["runs:read"]}`); got.ExpiresAt == nil || got.ExpiresAt.After(k.ExpiresAt.Add(time.Second)) {
		t.Errorf("a key that expires made one that lasts: %+v", got)
	}
	if got := create(`{"name":"n","scopes":["runs:read"],"expires_in":"1m"}`); time.Until(*got.ExpiresAt) > time.Minute {
		t.Errorf("%+v", got)
	}
	if p := problem(t, ask(s, "POST", "/v1/keys/"+k.ID+"/rotate", `{"expires_in":"100h"}`, bearerOf(plain)...)); p.Code != api.CodeForbidden {
		t.Errorf("a rotation outlasts its key: %+v", p)
	}
	if p := grants(engine.Principal{Scopes: []string{engine.ScopeRunsWrite}}, []string{engine.ScopeRunsRead, engine.ScopeApprovals}); p == nil || p.Required != engine.ScopeApprovals {
		t.Errorf("scopes that the caller lacks: %+v", p)
	}
}

func TestARotatedKeyGoesOnForTheOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, keys := managed(t)
		root := keys.add(t, "default", engine.ScopeAdmin)
		old := keys.add(t, "default", engine.ScopeRunsRead)
		id := keys.get(old).ID
		works := func(key string) bool { return ask(s, "GET", "/v1/runs", "", bearerOf(key)...).Code == 200 }
		if !works(old) { // and is cached
			t.Fatal("a good key is refused")
		}
		got := decodeBody[api.KeyRotated](t, ask(s, "POST", "/v1/keys/"+id+"/rotate", `{"overlap":"1h"}`, bearerOf(root)...), 201)
		if got.Replaces != id || got.Name != "test" || !slices.Equal(got.Scopes, []string{engine.ScopeRunsRead}) || got.Prefix == keys.get(old).Prefix {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Hour - time.Second)
		if !works(old) || !works(got.Secret) {
			t.Error("a key is refused within the overlap")
		}
		time.Sleep(time.Second)
		if works(old) || !works(got.Secret) {
			t.Error("after the overlap the old key works, or the new one does not")
		}
		decodeBody[api.KeyRotated](t, ask(s, "POST", "/v1/keys/"+got.ID+"/rotate", `{"overlap":"0s"}`, bearerOf(root)...), 201)
		if works(got.Secret) {
			t.Error("without an overlap the old key works on")
		}
		for body, code := range map[string]api.Code{`{"overlap":"-1s"}`: api.CodeInvalidRequest, `{"overlap":"3000h"}`: api.CodeInvalidRequest, `{"expires_in":"x"}`: api.CodeInvalidRequest} {
			if p := problem(t, ask(s, "POST", "/v1/keys/"+id+"/rotate", body, bearerOf(root)...)); p.Code != code {
				t.Errorf("%s: %+v", body, p)
			}
		}
		if p := problem(t, ask(s, "POST", "/v1/keys/key_none/rotate", "", bearerOf(root)...)); p.Code != api.CodeNotFound {
			t.Errorf("%+v", p)
		}
	})
}

func TestTheLastAdminKeyDoesNotRevokeItself(t *testing.T) {
	s, _, keys := managed(t)
	a, b := keys.add(t, "default", engine.ScopeAdmin), keys.add(t, "default", engine.ScopeAdmin)
	keys.add(t, "other", engine.ScopeAdmin)
	past := time.Now().Add(-time.Minute)
	_, expired, err := apikey.New("default", "old", []string{engine.ScopeAdmin}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	expired.ExpiresAt = &past
	keys.put(expired)
	revoke := func(key, id string) int { return ask(s, "DELETE", "/v1/keys/"+id, "", bearerOf(key)...).Code }
	var wg sync.WaitGroup
	codes := make([]int, 2)
	for i, pair := range [][2]string{{a, b}, {b, a}} { // each revokes the other
		wg.Go(func() { codes[i] = revoke(pair[0], keys.get(pair[1]).ID) })
	}
	wg.Wait()
	slices.Sort(codes)
	if codes[0] != 200 || codes[1] != 409 && codes[1] != 401 {
		t.Fatalf("answers %v", codes)
	}
	left := a
	if keys.get(a).RevokedAt != nil {
		left = b
	}
	if code := revoke(left, keys.get(left).ID); code != 409 || keys.get(left).RevokedAt != nil {
		t.Errorf("the last admin key revoked itself: %d", code)
	}
	if w := ask(s.Trusted(), "DELETE", "/v1/keys/"+keys.get(left).ID, ""); w.Code != 200 {
		t.Errorf("the node itself: %d %s", w.Code, w.Body)
	}
}

func TestAKeyThatIsRevokedHereIsRefusedAtOnceAlsoByStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, keys := managed(t)
		root, plain := keys.add(t, "default", engine.ScopeAdmin), keys.add(t, "default", engine.ScopeRunsRead)
		id := started(t, f)
		res, err := get(t.Context(), apiclient.InProcess(s), "http://localhost/v1/runs/"+id+"/events", bearerOf(plain)...)
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		if w := ask(s, "DELETE", "/v1/keys/"+keys.get(plain).ID, "", bearerOf(root)...); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w := ask(s, "GET", "/v1/runs", "", bearerOf(plain)...); w.Code != 401 {
			t.Errorf("a revoked key: %d", w.Code)
		}
		if body := readAll(t, res.Body); !strings.Contains(body, ": the API key is no longer valid") || time.Since(before) > 0 {
			t.Errorf("the stream went on for %s: %q", time.Since(before), body)
		}
	})
}

// slowKeys answers a look-up only after a key was revoked meanwhile.
type slowKeys struct {
	*memoryKeys
	asked, answer chan struct{}
}

func (k *slowKeys) KeyByHash(ctx context.Context, h [32]byte) (store.Key, error) {
	found, err := k.memoryKeys.KeyByHash(ctx, h)
	k.asked <- struct{}{}
	<-k.answer
	return found, err
}

func TestALookUpThatARevocationOvertookIsNotCached(t *testing.T) {
	keys := &slowKeys{&memoryKeys{}, make(chan struct{}), make(chan struct{})}
	s, err := New(Options{Runs: newFake(), Keys: keys, KeyStore: keys})
	if err != nil {
		t.Fatal(err)
	}
	plain := keys.add(t, "default", engine.ScopeRunsRead)
	first := make(chan int)
	go func() { first <- ask(s, "GET", "/v1/runs", "", bearerOf(plain)...).Code }()
	<-keys.asked
	if w := ask(s.Trusted(), "DELETE", "/v1/keys/"+keys.get(plain).ID, ""); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	keys.answer <- struct{}{}
	<-first // may be let in: it came before
	go func() { <-keys.asked; keys.answer <- struct{}{} }()
	if w := ask(s, "GET", "/v1/runs", "", bearerOf(plain)...); w.Code != 401 {
		t.Errorf("a stale answer of the store was cached: %d", w.Code)
	}
}

func extensions(op *huma.Operation) map[string]any {
	if op == nil {
		return nil
	}
	return op.Extensions
}
