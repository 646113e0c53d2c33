package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/sandbox"
)

// Env is what a call may touch. Every field but Sandbox may be nil; a tool that needs a missing one answers with
// CodeUnavailable.
type Env struct {
	// Sandbox is where files and processes live. Tools use its extensions sandbox.Files and sandbox.Execer.
	Sandbox sandbox.Session
	// Dir is the absolute working directory.
	Dir string
	// CallID is set by Execute.
	CallID string
	// Output reports live output; stream is 0 for standard output and 1 for standard error. It does not block.
	Output    func(stream int, chunk string)
	Artifacts Artifacts
	Jobs      Jobs
	Todos     Todos
	Versions  Versions
	// Activator finds and activates deferred tools.
	Activator Activator
	// Memory keeps notes beyond a call. Nil: there is none.
	Memory Memory
	// Skills lists and loads skills. Nil: there are none.
	Skills Skills
	// Context tells and changes how full the model's context is. Nil: the session's harness cannot tell.
	Context Context
	// Fault is called at named points, for crash tests: "call.before" after the start record, "call.after" before the
	// result record. Nil: never.
	Fault func(point string)
	// Panic receives the stack of a body that panicked.
	Panic func(tool string, value any, stack []byte)
}

func (e Env) fault(point string) {
	if e.Fault != nil {
		e.Fault(point)
	}
}

// Artifacts keeps full outputs that were too large for the model.
type Artifacts interface {
	// Create starts an artifact for a call. Exactly one of Commit and Discard ends it.
	Create(ctx context.Context, callID string) (ArtifactWriter, error)
	// Open reads an artifact of this session; an unknown id is fs.ErrNotExist.
	Open(ctx context.Context, id string) (ArtifactReader, error)
}

// ArtifactWriter receives an artifact's bytes. Beyond the implementation's bound it drops them and reports that in
// Size.
type ArtifactWriter interface {
	io.Writer
	Commit() (id string, err error)
	Discard()
}

// ArtifactReader reads a kept artifact.
type ArtifactReader interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Jobs is a session's table of background processes. Ids are unknown outside of the session.
type Jobs interface {
	// Start takes over a spawned process and returns its id. It fails when too many jobs run.
	Start(ctx context.Context, callID, command string, p sandbox.Process) (id string, err error)
	Get(id string) (Job, bool)
	List() []Job
}

// Job is one background process. Read returns output from the byte offset; the buffer keeps a bounded tail, so the
// returned offset may be later than asked. Done is closed when the process ended. Changed is closed when there is more
// output than at the time of the call, or the end. Cursor is the offset where a reader that names none goes on.
type Job interface {
	ID() string
	Command() string
	Read(from int64) (data []byte, at int64, next int64)
	Changed() <-chan struct{}
	Cursor() int64
	SetCursor(offset int64)
	Done() <-chan struct{}
	Status() (exit sandbox.ExitStatus, running bool, killed bool)
	Kill() error
}

// Todos is a run's todo list.
type Todos interface {
	Get() []event.Todo
	Set([]event.Todo)
}

// Versions remembers which version of each file the session saw last, by display path.
type Versions interface {
	Seen(path string) (version string, ok bool)
	See(path, version string)
}

// MemoryScope says how long a note lives and who shares it. The zero value is MemoryRun.
type MemoryScope string

// The scopes of notes: one run, all runs of its conversation, all runs of its agent id within the tenant.
const (
	MemoryRun          MemoryScope = "run"
	MemoryConversation MemoryScope = "conversation"
	MemoryAgent        MemoryScope = "agent"
)

// The bounds of a Memory, per scope. A Set beyond them is an error that names the bound.
const (
	MaxMemoryKeyBytes   = 256
	MaxMemoryValueBytes = 64 << 10
	MaxMemoryKeys       = 256
)

// ErrNoMemoryScope is wrapped by the error of a scope that the session does not have, such as MemoryAgent of a run
// without an agent id.
var ErrNoMemoryScope = errors.New("this memory scope is not available")

// Memory is a key-value store for notes of a model. It is safe for concurrent use. Keys are in order.
type Memory interface {
	Get(ctx context.Context, scope MemoryScope, key string) (value string, ok bool, err error)
	Set(ctx context.Context, scope MemoryScope, key, value string) error
	Delete(ctx context.Context, scope MemoryScope, key string) (existed bool, err error)
	List(ctx context.Context, scope MemoryScope) (keys []string, err error)
}

// Skill is what is listed of a skill.
type Skill struct {
	Name         string
	Description  string
	ArgumentHint string
	// Source is the file that it stands in.
	Source string
	// Unavailable says why it cannot be run here. Empty: it can.
	Unavailable string
}

// Skills finds skills.
type Skills interface {
	// List returns the skills in the order of their names.
	List(ctx context.Context) ([]Skill, error)
	// Load returns a skill's instructions with its arguments filled in. An unknown name is fs.ErrNotExist; any other
	// error is text for the model.
	Load(ctx context.Context, name, arguments string) (instructions string, err error)
}

// ContextStatus tells how full the model's context is.
type ContextStatus struct {
	Messages int `json:"message_count"`
	// Tokens is what the next request is taken to hold. Estimated: no provider's count is its base.
	Tokens    int64 `json:"estimated_tokens"`
	Estimated bool  `json:"estimated"`
	// Window is the model's context window in tokens, 0 when it is not known.
	Window int64 `json:"context_window,omitempty"`
	// Pressure is Tokens over Window, 0 when the window is not known.
	Pressure float64 `json:"context_pressure"`
	// Compactions counts those of the session.
	Compactions int `json:"compactions"`
}

// CompactMode says how a history is made shorter.
type CompactMode string

// The modes: old tool outputs are cut out; older messages become a summary of the model; first the one and, where that
// is not enough, the other.
const (
	CompactStrip     CompactMode = "strip"
	CompactSummarize CompactMode = "summarize"
	CompactHybrid    CompactMode = "hybrid"
)

// Context is a session's view of its context.
type Context interface {
	Status() ContextStatus
	// RequestCompaction asks for a compaction before the next model call. keepLast is how many of the newest messages
	// stay as they are, at least 2; 0 is the default.
	RequestCompaction(ctx context.Context, mode CompactMode, keepLast int) error
}

// Activator finds deferred tools and makes them callable.
type Activator interface {
	// Find ranks the deferred tools by the query's words, best first.
	Find(query string) []Definition
	// Lookup finds one tool by its exact name.
	Lookup(name string) (Definition, bool)
	// Activate makes tools callable for the rest of the run. A tool that the run may not use is an error.
	Activate(names ...string) error
}

func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// schemaMessage shortens the validator's error to the part that names the argument.
func schemaMessage(err error) string {
	msg := err.Error()
	msg = strings.TrimPrefix(msg, "validating root: ")
	msg = strings.ReplaceAll(msg, "validating /properties/", "argument ")
	return msg
}
