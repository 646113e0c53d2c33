package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/harness-go/harness/event"
)

func TestVersionsAndTodosInMemoryAreCopies(t *testing.T) {
	var v MapVersions
	if _, ok := v.Seen("f"); ok || len(v.All()) != 0 {
		t.Error("the zero value has seen a file")
	}
	v.See("f", "1")
	v.See("f", "2")
	v.All()["f"] = "changed outside"
	if got, ok := v.Seen("f"); !ok || got != "2" {
		t.Errorf("seen %q", got)
	}
	var l ListTodos
	list := []event.Todo{{ID: "1"}}
	l.Set(list)
	list[0].ID = "changed outside"
	l.Get()[0].ID = "changed outside"
	if l.Get()[0].ID != "1" {
		t.Errorf("list = %v", l.Get())
	}
}

func TestNotesInMemoryStayInTheirScopeAndBounds(t *testing.T) {
	ctx := t.Context()
	var m MapMemory
	if _, ok, err := m.Get(ctx, MemoryRun, "a"); ok || err != nil {
		t.Errorf("the zero value holds a note: %v", err)
	}
	for _, scope := range []MemoryScope{MemoryAgent, MemoryConversation, ""} {
		for _, key := range []string{"b", "a"} {
			if err := m.Set(ctx, scope, key, string(scope)+key); err != nil {
				t.Fatal(err)
			}
		}
	}
	if v, ok, err := m.Get(ctx, MemoryRun, "a"); v != "a" || !ok || err != nil {
		t.Errorf("the zero scope is not the run's: %q, %v, %v", v, ok, err)
	}
	if existed, err := m.Delete(ctx, MemoryAgent, "a"); !existed || err != nil {
		t.Errorf("delete: %v, %v", existed, err)
	}
	if existed, err := m.Delete(ctx, MemoryAgent, "a"); existed || err != nil {
		t.Errorf("deleted twice: %v, %v", existed, err)
	}
	for scope, want := range map[MemoryScope][]string{MemoryAgent: {"b"}, MemoryConversation: {"a", "b"}, MemoryRun: {"a", "b"}} {
		if keys, err := m.List(ctx, scope); !slices.Equal(keys, want) || err != nil {
			t.Errorf("%s: %v, %v", scope, keys, err)
		}
	}
	for i := len(m.scopes[MemoryRun]); i < MaxMemoryKeys; i++ {
		if err := m.Set(ctx, MemoryRun, fmt.Sprint(i), ""); err != nil {
			t.Fatal(err)
		}
	}
	for word, err := range map[string]error{
		"256 keys":        m.Set(ctx, MemoryRun, "one more", ""),
		"key is":          m.Set(ctx, MemoryAgent, "", ""),
		"257 bytes":       m.Set(ctx, MemoryAgent, strings.Repeat("k", MaxMemoryKeyBytes+1), ""),
		"more than 65536": m.Set(ctx, MemoryAgent, "k", strings.Repeat("v", MaxMemoryValueBytes+1)),
	} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
	if err := m.Set(ctx, MemoryRun, "a", "changed"); err != nil {
		t.Errorf("a full scope refuses a change: %v", err)
	}
	_, _, err := m.Get(ctx, "planet", "a")
	if !errors.Is(err, ErrNoMemoryScope) {
		t.Errorf("unknown scope: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_ = m.Set(ctx, MemoryAgent, fmt.Sprint(i), "x")
			_, _ = m.List(ctx, MemoryAgent)
		})
	}
	wg.Wait()
}
