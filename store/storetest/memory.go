package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

var memoryTests = []test{
	{"a note is read as it was written, is replaced, listed in the order of its key and deleted", func(e *env) {
		set := func(key, value string) {
			e.Helper()
			e.ok(e.MemorySet(e.ctx, tenant, tool.MemoryRun, "run_1", key, value))
		}
		set("b", "<b> & \u2028 é \x01")
		set("a", "")
		set("B", "one")
		set("B", "two")
		e.reopen()
		for key, want := range map[string]string{"b": "<b> & \u2028 é \x01", "a": "", "B": "two"} {
			got, ok, err := e.MemoryGet(e.ctx, tenant, tool.MemoryRun, "run_1", key)
			e.ok(err)
			if !ok || got != want {
				e.Errorf("%s is %q, %v", key, got, ok)
			}
		}
		if keys, err := e.MemoryList(e.ctx, tenant, tool.MemoryRun, "run_1"); err != nil || !slices.Equal(keys, []string{"B", "a", "b"}) {
			e.Fatalf("keys %q, %v", keys, err)
		}
		for _, want := range []bool{true, false} {
			existed, err := e.MemoryDelete(e.ctx, tenant, tool.MemoryRun, "run_1", "a")
			e.ok(err)
			if existed != want {
				e.Fatalf("existed %v, want %v", existed, want)
			}
		}
		if _, ok, err := e.MemoryGet(e.ctx, tenant, tool.MemoryRun, "run_1", "a"); ok || err != nil {
			e.Fatalf("a deleted note: %v, %v", ok, err)
		}
	}},
	{"notes of tenants, scopes and ids do not mix", func(e *env) {
		places := []struct {
			tenant string
			scope  tool.MemoryScope
			id     string
		}{
			{tenant, tool.MemoryRun, "x"}, {tenant, tool.MemoryConversation, "x"}, {tenant, tool.MemoryAgent, "x"},
			{tenant, tool.MemoryRun, "y"}, {"tn_2", tool.MemoryRun, "x"},
		}
		for i, p := range places {
			if keys, err := e.MemoryList(e.ctx, p.tenant, p.scope, p.id); err != nil || len(keys) != 0 {
				e.Fatalf("%+v has %q, %v", p, keys, err)
			}
			e.ok(e.MemorySet(e.ctx, p.tenant, p.scope, p.id, "k", fmt.Sprint(i)))
		}
		for i, p := range places {
			if got, ok, err := e.MemoryGet(e.ctx, p.tenant, p.scope, p.id, "k"); err != nil || !ok || got != fmt.Sprint(i) {
				e.Fatalf("%+v is %q, %v, %v", p, got, ok, err)
			}
		}
	}},
	{"a note beyond a bound is refused and names the bound", func(e *env) {
		for name, tc := range map[string]struct{ key, value, names string }{
			"key":   {strings.Repeat("k", tool.MaxMemoryKeyBytes+1), "", fmt.Sprint(tool.MaxMemoryKeyBytes)},
			"value": {"k", strings.Repeat("v", tool.MaxMemoryValueBytes+1), fmt.Sprint(tool.MaxMemoryValueBytes)},
		} {
			err := e.MemorySet(e.ctx, tenant, tool.MemoryRun, "run_1", tc.key, tc.value)
			e.is(err, store.ErrMemoryBound)
			if !strings.Contains(err.Error(), tc.names) {
				e.Errorf("%s: %v", name, err)
			}
		}
		e.ok(e.MemorySet(e.ctx, tenant, tool.MemoryRun, "run_1", strings.Repeat("k", tool.MaxMemoryKeyBytes), strings.Repeat("v", tool.MaxMemoryValueBytes)))
		if err := e.MemorySet(e.ctx, tenant, tool.MemoryRun, "run_1", "", "v"); err == nil {
			e.Error("an empty key was taken")
		}
		if err := e.MemorySet(e.ctx, tenant, "room", "x", "k", "v"); err == nil {
			e.Error("an unknown scope was taken")
		}
		if err := e.MemorySet(e.ctx, tenant, tool.MemoryAgent, "", "k", "v"); err == nil {
			e.Error("a scope without an id was taken")
		}
	}},
	{"writes at once do not pass the bound of keys together, and a full scope can still be changed", func(e *env) {
		var wg sync.WaitGroup
		var taken atomic.Int64
		for i := range tool.MaxMemoryKeys + 30 {
			wg.Go(func() {
				if err := e.MemorySet(e.ctx, tenant, tool.MemoryAgent, "ag", fmt.Sprint("k", i), "v"); err == nil {
					taken.Add(1)
				} else {
					e.Log(err)
				}
			})
		}
		wg.Wait()
		keys, err := e.MemoryList(e.ctx, tenant, tool.MemoryAgent, "ag")
		e.ok(err)
		if len(keys) != tool.MaxMemoryKeys || taken.Load() != tool.MaxMemoryKeys {
			e.Fatalf("%d keys, %d taken", len(keys), taken.Load())
		}
		e.ok(e.MemorySet(e.ctx, tenant, tool.MemoryAgent, "ag", keys[0], "new"))
		e.is(e.MemorySet(e.ctx, tenant, tool.MemoryAgent, "ag", "one more", "v"), store.ErrMemoryBound)
		_, err = e.MemoryDelete(e.ctx, tenant, tool.MemoryAgent, "ag", keys[1])
		e.ok(err)
		e.ok(e.MemorySet(e.ctx, tenant, tool.MemoryAgent, "ag", "one more", "v"))
	}},
}
