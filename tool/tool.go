// Package tool says what a tool is: its definition, the tier and kind that the gate reads, the environment it runs in
// and the way it is run.
//
// A tool runs only through Execute, and Execute only with a permit that a gate made. The package owns the catalogue
// and activation; the tools themselves are in tool/builtin.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/permit"
)

// Tier says when a tool's definition is sent to the model.
type Tier string

// The two tiers.
const (
	// TierCore: always in the request.
	TierCore Tier = "core"
	// TierDeferred: hidden until find_tool activates it for the run.
	TierDeferred Tier = "deferred"
)

// Kind is what a tool does to the world; the gate decides by it. The zero value is not valid: every tool declares one.
type Kind string

// The kinds of tools.
const (
	KindReadonly Kind = "readonly"
	KindEdit     Kind = "edit"
	KindBash     Kind = "bash"
	KindNetwork  Kind = "network"
	KindAgent    Kind = "agent"
	KindAsk      Kind = "ask"
	KindOther    Kind = "other"
)

// Valid reports whether k is one of the kinds.
func (k Kind) Valid() bool {
	switch k {
	case KindReadonly, KindEdit, KindBash, KindNetwork, KindAgent, KindAsk, KindOther:
		return true
	}
	return false
}

// Mutating reports whether a call of this kind can have a side effect. Unknown kinds count as mutating.
func (k Kind) Mutating() bool { return k != KindReadonly && k != KindAsk }

// Definition describes a tool. Schema is the JSON Schema of its arguments (an object).
type Definition struct {
	Name        string
	Description string
	Schema      json.RawMessage
	Tier        Tier
	Kind        Kind
	// CallKind is for tools whose calls differ: it tells the kind of a call by its arguments, which passed the schema.
	// Nil: every call is of Kind. What it gives that is no kind counts as Kind.
	CallKind func(args json.RawMessage) Kind
	// Parallel: calls may run at the same time as others of the step. Only readonly tools may say so.
	Parallel bool
	Tags     []string
}

// Func is the body of a tool. args passed the schema. A Go error is for the harness (the sandbox is gone, the run was
// cancelled); what the model should read about a failure is a Result with Error set.
type Func func(ctx context.Context, env Env, args json.RawMessage) (Result, error)

// Tool is a definition with its body.
type Tool struct {
	def    Definition
	schema *jsonschema.Resolved
	run    Func
}

// nameRE has no counted repetition, which would cost the start of every program; the length is checked beside it.
var nameRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// New checks the definition and returns the tool.
func New(def Definition, run Func) (*Tool, error) {
	switch {
	case len(def.Name) > 64 || !nameRE.MatchString(def.Name):
		return nil, fmt.Errorf("tool %q: name must match %s and have at most 64 characters", def.Name, nameRE)
	case !def.Kind.Valid():
		return nil, fmt.Errorf("tool %s: kind %q is not one of the kinds", def.Name, def.Kind)
	case def.Tier != TierCore && def.Tier != TierDeferred:
		return nil, fmt.Errorf("tool %s: tier %q is neither core nor deferred", def.Name, def.Tier)
	case def.Parallel && def.Kind != KindReadonly:
		return nil, fmt.Errorf("tool %s: only readonly tools can be parallel", def.Name)
	case run == nil:
		return nil, fmt.Errorf("tool %s: no body", def.Name)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(def.Schema, &s); err != nil {
		return nil, fmt.Errorf("tool %s: schema: %w", def.Name, err)
	}
	if s.Type != "object" {
		return nil, fmt.Errorf("tool %s: schema: type must be object", def.Name)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("tool %s: schema: %w", def.Name, err)
	}
	return &Tool{def: def, schema: resolved, run: run}, nil
}

// Definition returns the tool's definition.
func (t *Tool) Definition() Definition { return t.def }

// KindOf is the kind of a call with these arguments.
func (t *Tool) KindOf(args json.RawMessage) Kind {
	if t.def.CallKind != nil {
		if k := t.def.CallKind(args); k.Valid() {
			return k
		}
	}
	return t.def.Kind
}

// Result is what a call gave back. Output is the text that the model reads. Error is a stable code, empty when the
// call did what it was asked.
type Result struct {
	Output    string
	Error     string
	Truncated bool
	Artifact  string // id of the full output
	Diff      string // unified diff of what changed
	Details   json.RawMessage
	// Files go to the model beside Output: images, where its wire takes them.
	Files []ai.FilePart
	// Seen are the versions of the files that the call read or wrote, by display path.
	Seen map[string]string
	// Facts are further events, reported after the result.
	Facts []event.Payload
}

// Codes of Result.Error.
const (
	CodeInvalidArguments = "invalid_arguments"
	CodeUnknownTool      = "unknown_tool"
	CodePermissionDenied = "permission_denied"
	CodeApprovalTimeout  = "approval_timeout"
	CodeNotFound         = "not_found"
	CodeStale            = "stale"
	CodeConflict         = "conflict"
	CodeTimeout          = "timeout"
	CodeExitStatus       = "exit_status"
	CodeTooLarge         = "too_large"
	CodeInterrupted      = "interrupted"
	CodeUnavailable      = "unavailable"
	CodeFailed           = "failed"
)

// Failure is a result that tells the model what went wrong and how to mend it. Its output is
// {"error":{"code","message"}}, the same for every tool.
func Failure(code, format string, args ...any) Result {
	b, _ := encodeJSON(map[string]any{"error": map[string]string{"code": code, "message": fmt.Sprintf(format, args...)}}) // strings always encode
	return Result{Output: string(b), Error: code}
}

// JSONResult is a result whose output is v as JSON.
func JSONResult(v any) (Result, error) {
	b, err := encodeJSON(v)
	if err != nil {
		return Result{}, fmt.Errorf("tool: encode result: %w", err)
	}
	return Result{Output: string(b)}, nil
}

// Execute runs one call: Begin commits its start, the body runs with the permit's final arguments, End commits the
// result. A panic of the body becomes a failed result. The error is nil whenever the call came to a result that was
// committed; otherwise the caller must stop. Where the end of ctx interrupted a call that can have a side effect, the
// result that says so (CodeInterrupted) comes beside the error.
func Execute(ctx context.Context, t *Tool, p *permit.Permit, env Env) (Result, error) {
	if p == nil || p.Tool() != t.def.Name {
		return Result{}, permit.ErrSpent
	}
	if err := p.Begin(ctx); err != nil {
		return Result{}, err
	}
	env.CallID = p.CallID()
	env.fault("call.before")
	res, err := t.protect(ctx, env, p.Arguments())
	env.fault("call.after")
	if err != nil {
		if ctx.Err() != nil {
			return t.interrupted(ctx, p)
		}
		res = Failure(CodeFailed, "%s", err)
	}
	if err := p.End(context.WithoutCancel(ctx), permit.Outcome{
		Output: res.Output, Error: res.Error, Truncated: res.Truncated,
		Artifact: res.Artifact, Diff: res.Diff, Details: res.Details,
	}); err != nil {
		return Result{}, err
	}
	return res, nil
}

// interrupted ends a call whose turn was ended while it ran. A call that can have a side effect gets a record of its
// own; a readonly one keeps its start record alone and may run again.
func (t *Tool) interrupted(ctx context.Context, p *permit.Permit) (Result, error) {
	cause := context.Cause(ctx)
	if !t.KindOf(p.Arguments()).Mutating() {
		return Result{}, cause
	}
	res := Failure(CodeInterrupted, "interrupted: outcome unknown. The run was stopped (%v) while the call ran.", cause)
	if err := p.End(context.WithoutCancel(ctx), permit.Outcome{Output: res.Output, Error: res.Error, Interrupted: true}); err != nil {
		return Result{}, errors.Join(cause, err)
	}
	return res, cause
}

func (t *Tool) protect(ctx context.Context, env Env, args json.RawMessage) (res Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("tool %s panicked: %v", t.def.Name, r)
			if env.Panic != nil {
				env.Panic(t.def.Name, r, debug.Stack())
			}
		}
	}()
	return t.run(ctx, env, args)
}

// ErrArguments is wrapped by the errors of CheckArguments.
var ErrArguments = errors.New("invalid arguments")

// CheckArguments validates a call's arguments against the schema. The error names the argument and what it must be.
// Empty text counts as {}.
func (t *Tool) CheckArguments(args string) (json.RawMessage, error) {
	if args == "" {
		args = "{}"
	}
	var v any
	if err := json.Unmarshal([]byte(args), &v); err != nil {
		return nil, fmt.Errorf("%w for %s: not valid JSON: %v", ErrArguments, t.def.Name, err)
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, fmt.Errorf("%w for %s: must be a JSON object", ErrArguments, t.def.Name)
	}
	if err := t.schema.Validate(v); err != nil {
		return nil, fmt.Errorf("%w for %s: %s", ErrArguments, t.def.Name, schemaMessage(err))
	}
	return json.RawMessage(args), nil
}
