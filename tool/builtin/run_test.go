package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

func TestTodosKeepTheListAndReportEachChange(t *testing.T) {
	s := newSession(t, false)
	facts := func(res tool.Result) []event.Todo {
		t.Helper()
		if len(res.Facts) != 1 {
			t.Fatalf("facts = %v", res.Facts)
		}
		return res.Facts[0].(event.TodosUpdatedPayload).Todos
	}
	res := s.call("todos", args{"action": "set", "todos": []args{{"text": "read"}, {"id": "1", "text": "write", "status": "in_progress"}, {"text": "test"}}})
	want := []event.Todo{{ID: "2", Text: "read", Status: "pending"}, {ID: "1", Text: "write", Status: "in_progress"}, {ID: "3", Text: "test", Status: "pending"}}
	if got := decoded[todosResult](t, res).Todos; !reflect.DeepEqual(got, want) || !reflect.DeepEqual(facts(res), want) || !reflect.DeepEqual(s.env.Todos.Get(), want) {
		t.Errorf("set: %+v", got)
	}
	res = s.call("todos", args{"action": "update", "id": "1", "status": "completed", "text": "written"})
	want[1] = event.Todo{ID: "1", Text: "written", Status: "completed"}
	if got := facts(res); !reflect.DeepEqual(got, want) {
		t.Errorf("update: %+v", got)
	}
	res = s.call("todos", args{"action": "delete", "id": "2"})
	if got := facts(res); !reflect.DeepEqual(got, want[1:]) {
		t.Errorf("delete: %+v", got)
	}
	res = s.call("todos", args{"action": "get"})
	if got := decoded[todosResult](t, res).Todos; !reflect.DeepEqual(got, want[1:]) || len(res.Facts) != 0 {
		t.Errorf("get: %+v, %v", got, res.Facts)
	}
	if res := s.call("todos", args{"action": "set", "todos": []args{}}); res.Output != `{"todos":[]}` {
		t.Errorf("empty: %s", res.Output)
	}
}

func TestTodosThatCannotBeAreRefusedAndChangeNothing(t *testing.T) {
	s := newSession(t, false)
	list := []event.Todo{{ID: "1", Text: "a", Status: "pending"}}
	s.env.Todos.Set(list)
	for _, tc := range []struct {
		args args
		code string
		word string
	}{
		{args{"action": "set"}, tool.CodeInvalidArguments, "todos is missing"},
		{args{"action": "set", "todos": []args{{"id": "x", "text": "a"}, {"id": "x", "text": "b"}}}, tool.CodeInvalidArguments, "todos[1].id"},
		{args{"action": "set", "todos": []args{{"text": " "}}}, tool.CodeInvalidArguments, "todos[0].text"},
		{args{"action": "update", "status": "completed"}, tool.CodeInvalidArguments, "id is missing"},
		{args{"action": "update", "id": "1"}, tool.CodeInvalidArguments, "text and status"},
		{args{"action": "update", "id": "9", "text": "x"}, tool.CodeNotFound, "9"},
		{args{"action": "update", "id": "1", "status": "done"}, tool.CodeInvalidArguments, "status"},
		{args{"action": "delete", "id": "9"}, tool.CodeNotFound, "9"},
	} {
		res := s.call("todos", tc.args)
		refused(t, res, tc.code, tc.word)
		if len(res.Facts) != 0 || !reflect.DeepEqual(s.env.Todos.Get(), list) {
			t.Errorf("%v changed the list", tc.args)
		}
	}
}

// deferredTools is a run with three deferred tools, of which one is not allowed.
func deferredTools(t *testing.T) (*session, *tool.ActivationTracker) {
	t.Helper()
	mk := func(name, desc string, tags ...string) *tool.Tool {
		tl, err := tool.New(tool.Definition{
			Name: name, Description: desc, Schema: json.RawMessage(`{"type":"object"}`), Tier: tool.TierDeferred, Kind: tool.KindNetwork, Tags: tags,
		}, func(context.Context, tool.Env, json.RawMessage) (tool.Result, error) { return tool.Result{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return tl
	}
	c, err := tool.NewCatalog(append(Core(), mk("web_fetch", "Fetch a page", "web"), mk("web_search", "Search pages", "web"), mk("web_secret", "Not for this run", "web"))...)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t, false)
	tracker := new(tool.ActivationTracker)
	s.env.Activator = tool.NewActivator(c, tracker, "r1", func(name string) error {
		if name == "web_secret" {
			return fmt.Errorf("not among the tools of this run")
		}
		return nil
	})
	return s, tracker
}

func activated(r findToolResult) string {
	var names []string
	for _, a := range r.Activated {
		names = append(names, a.Name)
	}
	return strings.Join(names, " ")
}

// Fault 80: the answer lists exactly what was activated, in the same order every time.
func TestFindToolActivatesExactlyWhatItAnswers(t *testing.T) {
	for range 20 {
		s, tracker := deferredTools(t)
		res := s.call("find_tool", args{"query": "web page"})
		r := decoded[findToolResult](t, res)
		if got := activated(r); got != "web_fetch web_search" || got != strings.Join(tracker.Names("r1"), " ") {
			t.Fatalf("answer %q, active %v", got, tracker.Names("r1"))
		}
		if r.Activated[0].Description != "Fetch a page" || string(r.Activated[0].Schema) != `{"type":"object"}` {
			t.Fatalf("%+v", r.Activated[0])
		}
		want := event.ToolActivatedPayload{Tools: []string{"web_fetch", "web_search"}, Query: "web page"}
		if len(res.Facts) != 1 || !reflect.DeepEqual(res.Facts[0], want) {
			t.Fatalf("facts = %+v", res.Facts)
		}
	}
}

func TestFindToolSelectsByName(t *testing.T) {
	s, tracker := deferredTools(t)
	res := s.call("find_tool", args{"query": "select:web_search, web_secret,nope,read,web_search"})
	r := decoded[findToolResult](t, res)
	if got := activated(r); got != "web_search" || strings.Join(r.NotFound, " ") != "nope" || len(r.Refused) != 2 {
		t.Errorf("%+v", r)
	}
	if tracker.IsActive("r1", "web_secret") || !tracker.IsActive("r1", "web_search") {
		t.Errorf("active: %v", tracker.Names("r1"))
	}
	refused(t, s.call("find_tool", args{"query": "select:web_secret"}), tool.CodePermissionDenied, "web_secret", "not among the tools")
	refused(t, s.call("find_tool", args{"query": "select:nope"}), tool.CodeNotFound, "nope")
	refused(t, s.call("find_tool", args{"query": "select:read"}), tool.CodePermissionDenied, "call it directly")
	refused(t, s.call("find_tool", args{"query": "select: ,"}), tool.CodeInvalidArguments, "query")
	res = s.call("find_tool", args{"query": "quantum"})
	if r := decoded[findToolResult](t, res); len(r.Activated) != 0 || r.Note == "" || len(res.Facts) != 0 {
		t.Errorf("%+v", r)
	}
}
