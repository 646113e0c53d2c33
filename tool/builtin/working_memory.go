package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"

	"github.com/harness-go/harness/tool"
)

//go:embed working_memory.md
var workingMemoryDescription string

const workingMemorySchema = `{
  "type": "object",
  "properties": {
    "action": {"type": "string", "enum": ["set", "get", "delete", "list"]},
    "key": {"type": "string", "maxLength": 256},
    "value": {"type": "string"},
    "scope": {"type": "string", "enum": ["run", "conversation", "agent"], "description": "Default run."}
  },
  "required": ["action"],
  "additionalProperties": false
}`

type workingMemoryArgs struct {
	Action string           `json:"action"`
	Key    string           `json:"key"`
	Value  *string          `json:"value"`
	Scope  tool.MemoryScope `json:"scope"`
}

type noteResult struct {
	Key   string           `json:"key"`
	Scope tool.MemoryScope `json:"scope"`
	Value *string          `json:"value,omitempty"`
	Bytes int              `json:"bytes,omitempty"`
}

type notesResult struct {
	Scope tool.MemoryScope `json:"scope"`
	Keys  []string         `json:"keys"`
}

// workingMemoryTool is readonly to the gate like todos, for the same reason: notes of the run change nothing in the
// world and are gone with it. Notes that outlive the run can steer later ones, so a call that changes them is of a kind
// that a policy may ask about. It is not parallel, because its calls build on each other.
func workingMemoryTool() *tool.Tool {
	return define(tool.Definition{
		Name: "working_memory", Description: workingMemoryDescription, Schema: json.RawMessage(workingMemorySchema),
		Kind: tool.KindReadonly, CallKind: memoryKind, Tags: []string{"notes"},
	}, runWorkingMemory)
}

func memoryKind(raw json.RawMessage) tool.Kind {
	var args workingMemoryArgs
	if json.Unmarshal(raw, &args) != nil {
		return tool.KindOther
	}
	switch {
	case args.Action == "get", args.Action == "list", args.Scope == tool.MemoryRun, args.Scope == "":
		return tool.KindReadonly
	}
	return tool.KindOther
}

func runWorkingMemory(ctx context.Context, env tool.Env, args workingMemoryArgs) (tool.Result, error) {
	if env.Memory == nil {
		return tool.Failure(tool.CodeUnavailable, "working_memory is not available: this session keeps no notes"), nil
	}
	if args.Scope == "" {
		args.Scope = tool.MemoryRun
	}
	if err := args.check(); err != nil {
		return outcome(err)
	}
	out, err := args.do(ctx, env.Memory)
	if err != nil {
		return outcome(memoryError(ctx, err))
	}
	return tool.JSONResult(out)
}

func (a workingMemoryArgs) check() error {
	switch {
	case a.Action == "list":
		return nil
	case strings.TrimSpace(a.Key) == "":
		return fail(tool.CodeInvalidArguments, "argument key is missing: name the note")
	case strings.ContainsRune(a.Key, 0):
		return fail(tool.CodeInvalidArguments, "argument key contains a NUL character")
	case len(a.Key) > tool.MaxMemoryKeyBytes:
		return fail(tool.CodeTooLarge, "argument key has %d bytes, more than %d", len(a.Key), tool.MaxMemoryKeyBytes)
	case a.Action != "set":
		return nil
	case a.Value == nil:
		return fail(tool.CodeInvalidArguments, "argument value is missing: give the text to keep, or use delete")
	case len(*a.Value) > tool.MaxMemoryValueBytes:
		return fail(tool.CodeTooLarge, "argument value has %d bytes, more than %d: keep less, or write a file", len(*a.Value), tool.MaxMemoryValueBytes)
	}
	return nil
}

// do carries out the action and gives what the model reads.
func (a workingMemoryArgs) do(ctx context.Context, m tool.Memory) (any, error) {
	switch a.Action {
	case "set":
		return noteResult{Key: a.Key, Scope: a.Scope, Bytes: len(*a.Value)}, m.Set(ctx, a.Scope, a.Key, *a.Value)
	case "get":
		value, ok, err := m.Get(ctx, a.Scope, a.Key)
		if err == nil && !ok {
			err = a.unknown()
		}
		return noteResult{Key: a.Key, Scope: a.Scope, Value: &value}, err
	case "delete":
		existed, err := m.Delete(ctx, a.Scope, a.Key)
		if err == nil && !existed {
			err = a.unknown()
		}
		return noteResult{Key: a.Key, Scope: a.Scope}, err
	}
	keys, err := m.List(ctx, a.Scope)
	if keys == nil {
		keys = []string{}
	}
	return notesResult{a.Scope, keys}, err
}

func (a workingMemoryArgs) unknown() error {
	return fail(tool.CodeNotFound, "argument key: scope %s has no note %s; list shows the keys", a.Scope, quote(clip(a.Key, 64)))
}

func memoryError(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*failed](err); ok {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, tool.ErrNoMemoryScope):
		return fail(tool.CodeUnavailable, "argument scope: %s; use scope run", err)
	}
	return fail(tool.CodeFailed, "%s", err)
}
