package tool

import (
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
