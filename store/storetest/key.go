package storetest

import (
	"crypto/sha256"
	"time"

	"github.com/harness-go/harness/store"
)

var rotateTests = []test{
	{"a rotated key ends at the given time, its successor goes on", func(e *env) {
		end := start.Add(3 * time.Hour)
		old := store.Key{ID: "key_1", Hash: sha256.Sum256([]byte("1")), TenantID: tenant, Name: "ci", Scopes: []string{"runs:read"}, CreatedAt: start, ExpiresAt: &end}
		e.ok(e.PutKey(e.ctx, old))
		next := old
		next.ID, next.Hash, next.ExpiresAt = "key_2", sha256.Sum256([]byte("2")), nil
		e.ok(e.RotateKey(e.ctx, tenant, old.ID, next, start.Add(time.Hour)))
		list, err := e.ListKeys(e.ctx, tenant)
		e.ok(err)
		if len(list) != 2 || list[0].ExpiresAt == nil || !list[0].ExpiresAt.Equal(start.Add(time.Hour)) || list[1].ExpiresAt != nil || list[1].Scopes[0] != "runs:read" {
			e.Fatalf("keys %+v", list)
		}
		third := next
		third.ID, third.Hash = "key_3", sha256.Sum256([]byte("3"))
		e.ok(e.RotateKey(e.ctx, tenant, old.ID, third, start.Add(2*time.Hour)))
		if list, err := e.ListKeys(e.ctx, tenant); err != nil || !list[0].ExpiresAt.Equal(start.Add(time.Hour)) {
			e.Fatalf("a rotation made the old key last longer: %+v, %v", list, err)
		}
	}},
	{"a key that has ended, or is another tenant's, is not rotated", func(e *env) {
		end := start.Add(time.Minute)
		e.ok(e.PutKey(e.ctx, store.Key{ID: "key_r", Hash: sha256.Sum256([]byte("r")), TenantID: tenant, CreatedAt: start}))
		e.ok(e.RevokeKey(e.ctx, tenant, "key_r"))
		e.ok(e.PutKey(e.ctx, store.Key{ID: "key_e", Hash: sha256.Sum256([]byte("e")), TenantID: tenant, CreatedAt: start, ExpiresAt: &end}))
		e.advance(time.Minute)
		next := store.Key{ID: "key_n", Hash: sha256.Sum256([]byte("n")), TenantID: tenant, CreatedAt: start}
		e.conflict(e.RotateKey(e.ctx, tenant, "key_r", next, start), "revoked")
		e.conflict(e.RotateKey(e.ctx, tenant, "key_e", next, start), "expired")
		e.is(e.RotateKey(e.ctx, tenant, "key_9", next, start), store.ErrNotFound)
		other := next
		other.TenantID = "tn_2"
		e.is(e.RotateKey(e.ctx, "tn_2", "key_r", other, start), store.ErrNotFound)
		if err := e.RotateKey(e.ctx, tenant, "key_r", other, start); err == nil {
			e.Fatal("a successor of another tenant was taken")
		}
		if list, err := e.ListKeys(e.ctx, tenant); err != nil || len(list) != 2 {
			e.Fatalf("a refused rotation stored something: %+v, %v", list, err)
		}
	}},
}
