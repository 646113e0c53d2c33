package harnesstest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
)

// Script is what the model of an adapter under test answers: the n-th answer of a conversation is the n-th step,
// across turns and processes.
type Script []Step

// Step is one answer of the model.
type Step struct {
	Text  string
	Calls []Use
	// Fail lets the model call fail for good, with an error that holds this text.
	Fail string
	// Hang lets the model call, the first time it is made, wait for the end of its context.
	Hang bool
}

// Use is one tool call of an answer. Exactly one of the fields beside ID is set.
type Use struct {
	ID string
	// Tool is a built-in tool by what it does.
	Tool Tool
	// Host is the name of a host tool, called with Input.
	Host  string
	Input string
}

// Tool is what a built-in tool of the adapter does.
type Tool string

// The tools that every adapter of the suite has.
const (
	// Read has no side effect; its result holds ReadContent.
	Read Tool = "read"
	// Write has one; Subject.Writes counts it.
	Write Tool = "write"
	// Question asks the user one question with the options ids "tea" and "coffee", or labels of these words.
	Question Tool = "question"
)

// ReadContent is what the Read tool finds.
const ReadContent = "forty-two"

// Result is a tool result that the model was given.
type Result struct {
	CallID string
	Output string
}

// Subject is an adapter under test with its scripted model.
type Subject struct {
	// Open makes the adapter of one process. What one leaves on durable storage the next one finds, and nothing else.
	Open func() harness.Harness
	// Names are the names of the tools for the gate.
	Names map[Tool]string
	// Results lists the results that the model was given so far, each call's once, in the order in which they were
	// given.
	Results func() []Result
	// Writes tells how many times the Write tool took effect.
	Writes func() int
	// Hanging receives a value when a step with Hang waits.
	Hanging <-chan struct{}
	// Configure, when not nil, changes the agent's settings, for example its sandbox. The default is a Sandbox of this
	// package.
	Configure func(*harness.AgentSettings)
}

// Factory makes a subject for one test. What it starts it ends by t.Cleanup.
type Factory func(t *testing.T, script Script) Subject

// Run runs the suite that every adapter passes.
func Run(t *testing.T, factory Factory) {
	for name, test := range map[string]func(*testing.T, Factory){
		"a turn of text":                                textTurn,
		"a call runs and its result is read":            callTurn,
		"a host tool is called":                         hostTurn,
		"an approved call runs once":                    approvedTurn,
		"a denied call does not run":                    deniedTurn,
		"without a gate the permission mode asks":       modeTurn,
		"two asks are answered in any order":            twoAsks,
		"of two calls one asks":                         mixedCalls,
		"a question waits for its answer":               questionTurn,
		"an aborted turn leaves a usable session":       abortTurn,
		"a failed turn leaves a usable session":         failedTurn,
		"a suspended turn goes on elsewhere":            suspendTurn,
		"a stopped session goes on elsewhere":           stopSession,
		"a killed process is recovered from":            killedProcess,
		"a compaction leaves a usable session":          compactedSession,
		"facts are in order":                            factsInOrder,
		"without journal, gate and checkpoint it works": plainTurn,
	} {
		t.Run(name, func(t *testing.T) { test(t, factory) })
	}
}

// facts is a journal in memory. Everything is committed at once.
type facts struct {
	mu   sync.Mutex
	list []event.Fact
}

func (j *facts) Emit(f ...event.Fact) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, f...)
}

func (j *facts) Barrier(_ context.Context, f ...event.Fact) error {
	j.Emit(f...)
	return nil
}

func (j *facts) all() []event.Fact {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.list)
}

// world is a subject with all that surrounds it.
type world struct {
	t       *testing.T
	ctx     context.Context
	subject Subject
	journal *facts
	ledger  *control.Memory
	set     harness.AgentSettings

	mu          sync.Mutex
	checkpoints []json.RawMessage

	agent   *harness.Agent
	session *harness.AgentSession
	parts   []ai.StreamPart
}

// plain leaves everything out that is not of the plain contract.
func plain(s *harness.AgentSettings) { s.Gate, s.Journal, s.Checkpoint = nil, nil, nil }

func start(t *testing.T, factory Factory, script Script, asks []Tool, change ...func(*harness.AgentSettings)) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, subject: factory(t, script), journal: &facts{}}
	w.ledger = &control.Memory{Emit: func(f event.Fact) { w.journal.Emit(f) }}
	var names []string
	for _, a := range asks {
		names = append(names, w.subject.Names[a])
	}
	gate, err := control.NewGate(control.Config{Ledger: w.ledger, Policy: control.Policy{RequiresApproval: names}})
	if err != nil {
		t.Fatal(err)
	}
	w.set = harness.AgentSettings{Gate: gate, Journal: w.journal, Sandbox: (&Sandbox{}).Provider(true), Checkpoint: func(_ context.Context, s *harness.ContinueTurnState) error {
		b, err := json.Marshal(s)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.checkpoints = append(w.checkpoints, b)
		return err
	}}
	if w.subject.Configure != nil {
		w.subject.Configure(&w.set)
	}
	for _, c := range change {
		c(&w.set)
	}
	w.open(harness.CreateSessionOptions{})
	return w
}

// open makes a session in a new process.
func (w *world) open(o harness.CreateSessionOptions) {
	w.t.Helper()
	w.set.Harness = w.subject.Open()
	var err error
	if w.agent, err = harness.NewAgent(w.set); err != nil {
		w.t.Fatal(err)
	}
	o.SessionID = "suite"
	if w.session, err = w.agent.CreateSession(w.ctx, o); err != nil {
		w.t.Fatal(err)
	}
	s := w.session
	w.t.Cleanup(func() { _ = s.Destroy(context.Background()) })
}

// elsewhere continues a state, through its JSON, in a new process.
func (w *world) elsewhere(state any) {
	w.t.Helper()
	b, ok := state.(json.RawMessage)
	if !ok {
		var err error
		if b, err = json.Marshal(state); err != nil {
			w.t.Fatal(err)
		}
	}
	s, err := harness.DecodeLifecycleState(b)
	if err != nil {
		w.t.Fatal(err)
	}
	var o harness.CreateSessionOptions
	switch v := s.(type) {
	case *harness.ResumeSessionState:
		o.ResumeFrom = v
	case *harness.ContinueTurnState:
		o.ContinueFrom = v
	}
	w.open(o)
	if !w.session.IsResume() {
		w.t.Error("a session that goes on from a state does not say so")
	}
}

func (w *world) suspend() *harness.ContinueTurnState {
	w.t.Helper()
	s, err := w.session.SuspendTurn(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) options() agent.AgentGenerateOptions {
	w.parts = nil
	return agent.AgentGenerateOptions{HarnessSession: w.session, OnPart: func(p ai.StreamPart) { w.parts = append(w.parts, p) }}
}

func (w *world) try(ctx context.Context) (*ai.GenerateTextResult, error) {
	o := w.options()
	o.Prompt = "go"
	return w.agent.Generate(ctx, o)
}

func (w *world) prompt() *ai.GenerateTextResult {
	w.t.Helper()
	r, err := w.try(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) goOn(approvals []ai.ToolApprovalResponseContent, results []ai.ToolResultContent) *ai.GenerateTextResult {
	w.t.Helper()
	r, err := w.agent.ContinueGenerate(w.ctx, w.options(), approvals, results)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) decide(a harness.PendingToolApproval, approved bool, why string) *ai.GenerateTextResult {
	w.t.Helper()
	return w.goOn([]ai.ToolApprovalResponseContent{{ApprovalID: a.ApprovalID, Approved: approved, Reason: why}}, nil)
}

func (w *world) wantState(want harness.TurnState) {
	w.t.Helper()
	if got := w.session.TurnState(); got != want {
		w.t.Fatalf("the turn is %s, want %s", got, want)
	}
}

func (w *world) wantWrites(want int) {
	w.t.Helper()
	if got := w.subject.Writes(); got != want {
		w.t.Fatalf("%d writes, want %d", got, want)
	}
}

// wantPending checks which calls wait for a decision, in their order.
func (w *world) wantPending(ids ...string) []harness.PendingToolApproval {
	w.t.Helper()
	approvals, _ := w.session.Pending()
	var got []string
	for _, a := range approvals {
		got = append(got, a.ToolCallID)
	}
	if !slices.Equal(got, ids) {
		w.t.Fatalf("decisions are wanted on %v, want %v", got, ids)
	}
	return approvals
}

// wantResults checks which results the model was given, in their order, and returns their outputs.
func (w *world) wantResults(ids ...string) []string {
	w.t.Helper()
	var got, outputs []string
	for _, r := range w.subject.Results() {
		got, outputs = append(got, r.CallID), append(outputs, r.Output)
	}
	if !slices.Equal(got, ids) {
		w.t.Fatalf("the model was given the results of %v, want %v", got, ids)
	}
	return outputs
}

func (w *world) wantText(r *ai.GenerateTextResult, want string) {
	w.t.Helper()
	if r.Text != want || r.FinishReason.Unified != ai.FinishStop {
		w.t.Fatalf("the turn ended with %q (%s), want %q", r.Text, r.FinishReason.Unified, want)
	}
	w.wantState(harness.TurnStateIdle)
}

func (w *world) types() []string {
	var out []string
	for _, p := range w.parts {
		out = append(out, p.PartType())
	}
	return out
}

// count tells how many of the consumer's parts have the type.
func (w *world) count(partType string) int {
	n := 0
	for _, t := range w.types() {
		if t == partType {
			n++
		}
	}
	return n
}

func (w *world) waitHanging() {
	w.t.Helper()
	select {
	case <-w.subject.Hanging:
	case <-w.ctx.Done():
		w.t.Fatal("the model was not called")
	}
}

// during runs the turn and does something when its model hangs.
func (w *world) during(ctx context.Context, do func()) (*ai.GenerateTextResult, error) {
	done := make(chan struct{})
	var r *ai.GenerateTextResult
	var err error
	go func() {
		defer close(done)
		r, err = w.try(ctx)
	}()
	w.waitHanging()
	do()
	select {
	case <-done:
	case <-w.ctx.Done():
		w.t.Fatal("the turn does not end")
	}
	return r, err
}

var errUser = errors.New("the user stopped it")

func contains(outputs []string, i int, text string) bool {
	return i < len(outputs) && strings.Contains(outputs[i], text)
}
