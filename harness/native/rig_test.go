package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/sandbox/local"
	"github.com/harness-go/harness/tool"
	"github.com/harness-go/harness/tool/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play is a model whose n-th call is answered by its n-th step. It keeps the requests.
type play struct {
	mu       sync.Mutex
	steps    []step
	requests []model.Request
}

// step answers one model call.
type step func(ctx context.Context, yield func(model.Part) bool) error

func (p *play) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		p.mu.Lock()
		n := len(p.requests)
		p.requests = append(p.requests, req)
		s := failing(&model.Error{Kind: model.ErrInvalidRequest, Message: "the play has no further step"})
		if n < len(p.steps) {
			s = p.steps[n]
		}
		p.mu.Unlock()
		stopped := false
		err := s(ctx, func(part model.Part) bool {
			stopped = stopped || !yield(part, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(model.Part{}, err)
		}
	}
}

// calls is how often the model was called.
func (p *play) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)
}

// request is the n-th request, from 0.
func (p *play) request(n int) model.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[n]
}

// results are the results in the n-th request's messages, by call in their order.
func (p *play) results(n int) (ids []string, outputs map[string]string) {
	outputs = map[string]string{}
	for _, m := range p.request(n).Messages {
		for _, part := range m.Content {
			if r, ok := part.(ai.ToolResultContent); ok {
				ids = append(ids, r.ToolCallID)
				outputs[r.ToolCallID] = r.Output.Text()
			}
		}
	}
	return ids, outputs
}

func usage(in, out int64) ai.Usage {
	return ai.Usage{InputTokens: ai.InputTokens{Total: ai.Tokens(in)}, OutputTokens: ai.OutputTokens{Total: ai.Tokens(out)}}
}

func finish(kind ai.FinishReasonKind, u ai.Usage) model.Part {
	return model.Part{Kind: model.PartFinish, Finish: ai.FinishReason{Unified: kind}, Usage: u}
}

func textParts(text string) []model.Part {
	return []model.Part{{Kind: model.PartTextDelta, Text: text}, {Kind: model.PartContent, Content: ai.TextPart{Text: text}}}
}

// parts answers with the given parts.
func parts(list ...model.Part) step {
	return func(_ context.Context, yield func(model.Part) bool) error {
		for _, p := range list {
			if !yield(p) {
				return nil
			}
		}
		return nil
	}
}

func say(text string) step {
	return parts(append(textParts(text), finish(ai.FinishStop, usage(10, 1)))...)
}

// use is one call of an answer.
type use struct{ id, tool, args string }

func callParts(uses ...use) []model.Part {
	var list []model.Part
	for i, u := range uses {
		list = append(list, model.Part{Kind: model.PartToolCallDelta, Index: i, ID: u.id, Name: u.tool, Text: u.args})
	}
	for i, u := range uses {
		list = append(list, model.Part{Kind: model.PartContent, Index: i, ID: u.id, Name: u.tool,
			Content: ai.ToolCallPart{ToolCallID: u.id, ToolName: u.tool, Input: u.args}})
	}
	return list
}

func call(uses ...use) step {
	return parts(append(callParts(uses...), finish(ai.FinishToolCalls, usage(10, 1)))...)
}

func failing(err error) step {
	return func(context.Context, func(model.Part) bool) error { return err }
}

// then sends parts and fails.
func then(err error, list ...model.Part) step {
	return func(ctx context.Context, yield func(model.Part) bool) error {
		if e := parts(list...)(ctx, yield); e != nil {
			return e
		}
		return err
	}
}

// hang sends parts, says that it waits, and waits for the end of the call.
func hang(waiting chan<- struct{}, list ...model.Part) step {
	return func(ctx context.Context, yield func(model.Part) bool) error {
		_ = parts(list...)(ctx, yield)
		waiting <- struct{}{}
		<-ctx.Done()
		return &model.Error{Kind: model.ErrConnection, Cause: ctx.Err()}
	}
}

// journal keeps the facts.
type journal struct {
	mu      sync.Mutex
	facts   []event.Fact
	barrier error
}

func (j *journal) Emit(f ...event.Fact) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.facts = append(j.facts, f...)
}

func (j *journal) Barrier(_ context.Context, f ...event.Fact) error {
	j.Emit(f...)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.barrier
}

func (j *journal) all() []event.Fact {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.facts)
}

// of are the payloads of one kind.
func of[P event.Payload](j *journal) []P {
	var out []P
	for _, f := range j.all() {
		if p, ok := f.Payload.(P); ok {
			out = append(out, p)
		}
	}
	return out
}

// rig is a session of the native harness with a scripted model, in a real folder.
type rig struct {
	t       testing.TB
	ctx     context.Context
	dir     string
	model   *play
	journal *journal
	set     native.Settings
	agents  harness.AgentSettings

	agent   *harness.Agent
	session *harness.AgentSession
	mu      sync.Mutex
	parts   []ai.StreamPart
}

// newRig opens a session. change sees the settings before.
func newRig(t testing.TB, change func(*rig), steps ...step) *rig {
	t.Helper()
	r := &rig{t: t, ctx: context.Background(), dir: t.TempDir(), model: &play{steps: steps}, journal: &journal{}}
	r.set = native.Settings{
		Transcript: &native.MemoryTranscript{}, Retry: model.Retry{Base: time.Millisecond, Max: time.Millisecond},
		Resolve: func(string) ([]native.Target, error) { return []native.Target{r.target("main", r.model)}, nil },
	}
	r.agents = harness.AgentSettings{
		Sandbox: local.NewProvider(local.Options{}), SandboxConfig: harness.AgentSandboxConfig{InPlace: true, InPlaceRoot: r.dir},
		Journal: r.journal,
	}
	if change != nil {
		change(r)
	}
	r.open(harness.CreateSessionOptions{})
	return r
}

func (r *rig) target(provider string, m model.Model) native.Target {
	return native.Target{Model: m, Provider: provider, ModelID: provider + "-1"}
}

// open makes a session as a new process would.
func (r *rig) open(o harness.CreateSessionOptions) {
	r.t.Helper()
	h, err := native.New(r.set)
	if err != nil {
		r.t.Fatal(err)
	}
	r.agents.Harness = h
	if r.agent, err = harness.NewAgent(r.agents); err != nil {
		r.t.Fatal(err)
	}
	o.SessionID = "s"
	if r.session, err = r.agent.CreateSession(r.ctx, o); err != nil {
		r.t.Fatal(err)
	}
	s := r.session
	r.t.Cleanup(func() { _ = s.Destroy(context.Background()) })
}

// elsewhere goes on from a state, through its JSON, in a new process.
func (r *rig) elsewhere(state harness.LifecycleState) {
	r.t.Helper()
	b, err := json.Marshal(state)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := harness.DecodeLifecycleState(b)
	if err != nil {
		r.t.Fatal(err)
	}
	switch v := s.(type) {
	case *harness.ResumeSessionState:
		r.open(harness.CreateSessionOptions{ResumeFrom: v})
	case *harness.ContinueTurnState:
		r.open(harness.CreateSessionOptions{ContinueFrom: v})
	}
}

func (r *rig) suspend() *harness.ContinueTurnState {
	r.t.Helper()
	s, err := r.session.SuspendTurn(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) options() agent.AgentGenerateOptions {
	return agent.AgentGenerateOptions{HarnessSession: r.session, OnPart: func(p ai.StreamPart) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.parts = append(r.parts, p)
	}}
}

func (r *rig) try(ctx context.Context, prompt string) (*ai.GenerateTextResult, error) {
	o := r.options()
	o.Prompt = prompt
	return r.agent.Generate(ctx, o)
}

func (r *rig) prompt(prompt string) *ai.GenerateTextResult {
	r.t.Helper()
	res, err := r.try(r.ctx, prompt)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *rig) goOn(approvals []ai.ToolApprovalResponseContent, results []ai.ToolResultContent) *ai.GenerateTextResult {
	r.t.Helper()
	res, err := r.agent.ContinueGenerate(r.ctx, r.options(), approvals, results)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *rig) approve(id string, yes bool) []ai.ToolApprovalResponseContent {
	return []ai.ToolApprovalResponseContent{{ApprovalID: id, Approved: yes, Reason: "because"}}
}

func (r *rig) wantText(res *ai.GenerateTextResult, want string) {
	r.t.Helper()
	if res.Text != want || r.session.TurnState() != harness.TurnStateIdle {
		r.t.Fatalf("the turn gave %q (%s) and is %s, want %q", res.Text, res.FinishReason.Unified, r.session.TurnState(), want)
	}
}

func (r *rig) wantCalls(n int) {
	r.t.Helper()
	if got := r.model.calls(); got != n {
		r.t.Fatalf("the model was called %d times, want %d", got, n)
	}
}

// wantTurnError checks how a turn failed.
func (r *rig) wantTurnError(err error, reason string) *native.TurnError {
	r.t.Helper()
	var te *native.TurnError
	if !errors.As(err, &te) || te.Reason != reason {
		r.t.Fatalf("the turn ended with %v, want a TurnError %s", err, reason)
	}
	return te
}

func (r *rig) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return ""
	}
	return string(b)
}

// has tells whether the folder has the file.
func (r *rig) has(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// testTool makes a tool of the given kind without arguments that matter.
func testTool(t testing.TB, name string, kind tool.Kind, change func(*tool.Definition), body tool.Func) *tool.Tool {
	t.Helper()
	d := tool.Definition{Name: name, Description: "A tool of the test: " + name + ".", Kind: kind, Tier: tool.TierCore,
		Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)}
	if change != nil {
		change(&d)
	}
	tl, err := tool.New(d, body)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// withTools adds tools to the built-in ones.
func withTools(r *rig, tools ...*tool.Tool) {
	c, err := tool.NewCatalog(append(builtin.Core(), tools...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.set.Tools = c
}

func ok(text string) tool.Func {
	return func(context.Context, tool.Env, json.RawMessage) (tool.Result, error) {
		return tool.Result{Output: text}, nil
	}
}

func userMessages(req model.Request) []string {
	var out []string
	for _, m := range req.Messages {
		if m.Role == ai.RoleUser {
			out = append(out, m.Text())
		}
	}
	return out
}

func toolNames(req model.Request) []string {
	var out []string
	for _, t := range req.Tools {
		out = append(out, t.Name)
	}
	return out
}

// background runs a turn and returns how it ended.
func (r *rig) background(ctx context.Context, prompt string) func() (*ai.GenerateTextResult, error) {
	type end struct {
		res *ai.GenerateTextResult
		err error
	}
	done := make(chan end, 1)
	go func() {
		res, err := r.try(ctx, prompt)
		done <- end{res, err}
	}()
	return func() (*ai.GenerateTextResult, error) {
		r.t.Helper()
		select {
		case e := <-done:
			return e.res, e.err
		case <-time.After(time.Minute):
			r.t.Fatal("the turn does not end")
			return nil, nil
		}
	}
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come to it that %s", what)
		}
	}
}

func args(format string, a ...any) string { return fmt.Sprintf(format, a...) }

type modelPart = model.Part

// bare is a session of the adapter without an agent around it, in the mode allow-reads.
func bare(t *testing.T, p *play, change func(*native.Settings), tools ...*tool.Tool) (*native.Harness, harness.AdapterSession) {
	t.Helper()
	c, err := tool.NewCatalog(append(builtin.Core(), tools...)...)
	if err != nil {
		t.Fatal(err)
	}
	set := native.Settings{Tools: c, Retry: model.Retry{Base: time.Millisecond, Max: time.Millisecond}, Resolve: func(string) ([]native.Target, error) {
		return []native.Target{{Model: p, Provider: "main", ModelID: "main-1"}}, nil
	}}
	if change != nil {
		change(&set)
	}
	h, err := native.New(set)
	if err != nil {
		t.Fatal(err)
	}
	s, err := h.DoStart(t.Context(), harness.StartOptions{SessionID: "s", PermissionMode: harness.PermissionModeAllowReads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.DoDestroy(context.Background()) })
	return h, s
}

// newGate is a gate of the host that allows everything but what it is told to ask for.
func newGate(t testing.TB, j *journal, asks ...string) *control.Gate {
	t.Helper()
	g, err := control.NewGate(control.Config{Ledger: &control.Memory{Emit: func(f event.Fact) { j.Emit(f) }}, Policy: control.Policy{RequiresApproval: asks}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func echo(_ context.Context, in json.RawMessage, _ ai.ToolExecutionOptions) (any, error) {
	return "echo " + string(in), nil
}

// denyingGate is a gate of the host that takes tools away.
func denyingGate(t testing.TB, j *journal, denied ...string) *control.Gate {
	t.Helper()
	g, err := control.NewGate(control.Config{Ledger: &control.Memory{Emit: func(f event.Fact) { j.Emit(f) }}, Policy: control.Policy{Denied: denied}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
