package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

//go:embed todos.md
var todosDescription string

const todosSchema = `{
  "type": "object",
  "properties": {
    "action": {"type": "string", "enum": ["set", "update", "delete", "get"]},
    "id": {"type": "string", "description": "The entry of update and delete."},
    "text": {"type": "string", "maxLength": 1000},
    "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]},
    "todos": {
      "type": "array", "maxItems": 100, "description": "The whole new list, for set.",
      "items": {
        "type": "object",
        "properties": {
          "id": {"type": "string", "maxLength": 64},
          "text": {"type": "string", "minLength": 1, "maxLength": 1000},
          "status": {"type": "string", "enum": ["pending", "in_progress", "completed", "cancelled"]}
        },
        "required": ["text"],
        "additionalProperties": false
      }
    }
  },
  "required": ["action"],
  "additionalProperties": false
}`

type todosArgs struct {
	Action string        `json:"action"`
	ID     string        `json:"id"`
	Text   string        `json:"text"`
	Status string        `json:"status"`
	Todos  *[]event.Todo `json:"todos"`
}

type todosResult struct {
	Todos []event.Todo `json:"todos"`
}

// todosTool is readonly to the gate: it changes the run's own list and nothing in the world, and no policy should ask
// a person about it. It is not parallel, because its calls build on each other.
func todosTool() *tool.Tool {
	return define(tool.Definition{
		Name: "todos", Description: todosDescription, Schema: json.RawMessage(todosSchema),
		Kind: tool.KindReadonly, Tags: []string{"plan", "tasks"},
	}, runTodos)
}

func runTodos(_ context.Context, env tool.Env, args todosArgs) (tool.Result, error) {
	if env.Todos == nil {
		return tool.Failure(tool.CodeUnavailable, "todos is not available: this run keeps no todo list"), nil
	}
	list := env.Todos.Get()
	var err error
	switch args.Action {
	case "set":
		list, err = setTodos(args)
	case "update":
		err = updateTodo(list, args)
	case "delete":
		list, err = deleteTodo(list, args)
	}
	if err != nil {
		return outcome(err)
	}
	if list == nil {
		list = []event.Todo{}
	}
	res, err := tool.JSONResult(todosResult{list})
	if err != nil || args.Action == "get" {
		return res, err
	}
	env.Todos.Set(list)
	res.Facts = []event.Payload{event.TodosUpdatedPayload{Todos: slices.Clone(list)}}
	return res, nil
}

func setTodos(args todosArgs) ([]event.Todo, error) {
	if args.Todos == nil {
		return nil, fail(tool.CodeInvalidArguments, "argument todos is missing: set needs the whole new list, which may be empty")
	}
	list := slices.Clone(*args.Todos)
	used := make(map[string]bool, len(list))
	for i, t := range list {
		if t.ID != "" && used[t.ID] {
			return nil, fail(tool.CodeInvalidArguments, "argument todos[%d].id: %s is the id of another entry", i, quote(t.ID))
		}
		used[t.ID] = true
	}
	next := 1
	for i := range list {
		t := &list[i]
		if strings.TrimSpace(t.Text) == "" {
			return nil, fail(tool.CodeInvalidArguments, "argument todos[%d].text is blank", i)
		}
		if t.Status == "" {
			t.Status = "pending"
		}
		for t.ID == "" {
			if id := strconv.Itoa(next); !used[id] {
				t.ID, used[id] = id, true
			}
			next++
		}
	}
	return list, nil
}

func updateTodo(list []event.Todo, args todosArgs) error {
	i, err := findTodo(list, args.ID)
	if err != nil {
		return err
	}
	if args.Text == "" && args.Status == "" {
		return fail(tool.CodeInvalidArguments, "arguments text and status are missing: give what update is to change")
	}
	if args.Text != "" {
		list[i].Text = args.Text
	}
	if args.Status != "" {
		list[i].Status = args.Status
	}
	return nil
}

func deleteTodo(list []event.Todo, args todosArgs) ([]event.Todo, error) {
	i, err := findTodo(list, args.ID)
	if err != nil {
		return nil, err
	}
	return slices.Delete(list, i, i+1), nil
}

func findTodo(list []event.Todo, id string) (int, error) {
	if id == "" {
		return 0, fail(tool.CodeInvalidArguments, "argument id is missing: name the entry")
	}
	i := slices.IndexFunc(list, func(t event.Todo) bool { return t.ID == id })
	if i < 0 {
		return 0, fail(tool.CodeNotFound, "argument id: no entry has the id %s; get lists them", quote(clip(id, 64)))
	}
	return i, nil
}
