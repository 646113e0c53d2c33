package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
)

// The scenarios of testdata/lifecycle, played with the scripted adapter: the adapter must see the same calls, the
// consumer the same parts in the same order, and the states must be the same, apart from generated ids and times.

type replay struct {
	script func(t *harnesstest.Turn) error
	change func(*harness.AgentSettings)
	act    func(c *replayCase) harness.LifecycleState
	resume func(c *replayCase)
	// checkExtra looks at the other members of the recording.
	checkExtra func(t *testing.T, c *replayCase, recorded recording)
}

type recording struct {
	First struct {
		Stream     []map[string]any  `json:"stream"`
		State      json.RawMessage   `json:"state"`
		Unfinished *bool             `json:"unfinished"`
		After      string            `json:"after"`
		Errs       map[string]string `json:"errs"`
		Steps      []map[string]any  `json:"steps"`
	} `json:"first"`
	Resume *struct {
		Stream     []map[string]any `json:"stream"`
		IsResume   bool             `json:"isResume"`
		Text       string           `json:"text"`
		PromptErr  string           `json:"promptErr"`
		Unfinished *bool            `json:"unfinished"`
		After      *bool            `json:"after"`
	} `json:"resume"`
	AdapterCalls       []any `json:"adapterCalls"`
	ResumeAdapterCalls []any `json:"resumeAdapterCalls"`
}

type replayCase struct {
	t       *testing.T
	ctx     context.Context
	agent   *harness.Agent
	session *harness.AgentSession
	log     *harnesstest.Log
	parts   []ai.StreamPart
	state   harness.LifecycleState
	result  *ai.GenerateTextResult
	errs    map[string]string
	rec     recording
}

func (c *replayCase) drain(r *ai.StreamTextResult, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	for p := range r.FullStream() {
		c.parts = append(c.parts, p)
	}
	c.result, _ = r.Wait()
}

func (c *replayCase) opts() agent.AgentStreamOptions {
	return agent.AgentStreamOptions{AgentGenerateOptions: agent.AgentGenerateOptions{HarnessSession: c.session}}
}

func (c *replayCase) prompt() {
	o := c.opts()
	o.Prompt = "go"
	c.drain(c.agent.Stream(c.ctx, o))
}

func (c *replayCase) goOn(approvals []ai.ToolApprovalResponseContent, results []ai.ToolResultContent) {
	c.drain(c.agent.ContinueStream(c.ctx, c.opts(), approvals, results))
}

func (c *replayCase) detach() harness.LifecycleState {
	s, err := c.session.Detach(c.ctx)
	return c.must(s, err)
}

func (c *replayCase) stop() harness.LifecycleState {
	s, err := c.session.Stop(c.ctx)
	return c.must(s, err)
}

func (c *replayCase) suspend() harness.LifecycleState {
	s, err := c.session.SuspendTurn(c.ctx)
	return c.must(s, err)
}

func (c *replayCase) must(s harness.LifecycleState, err error) harness.LifecycleState {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func pendingID(s harness.LifecycleState) string {
	switch v := s.(type) {
	case *harness.ResumeSessionState:
		return v.ContinueFrom.PendingToolApprovals[0].ApprovalID
	case *harness.ContinueTurnState:
		return v.PendingToolApprovals[0].ApprovalID
	}
	return ""
}

func approve(ok bool, why string) func(*replayCase) {
	return func(c *replayCase) {
		c.goOn([]ai.ToolApprovalResponseContent{{ApprovalID: pendingID(c.state), Approved: ok, Reason: why}}, nil)
	}
}

func messages(t *testing.T, text string) []ai.Message {
	t.Helper()
	var out []ai.Message
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func errText[T any](v T, err error) (T, string) {
	if err == nil {
		return v, ""
	}
	return v, err.Error()
}

func contentType(c ai.StepContent) string {
	switch v := c.(type) {
	case ai.TextPart:
		return "text"
	case ai.ReasoningPart:
		return "reasoning"
	case ai.StreamPart:
		return v.PartType()
	}
	return "?"
}

// suspendAfter suspends the turn when the consumer saw a part of the type.
func (c *replayCase) suspendAfter(partType string) harness.LifecycleState {
	o := c.opts()
	o.Prompt = "go"
	r, err := c.agent.Stream(c.ctx, o)
	if err != nil {
		c.t.Fatal(err)
	}
	done := make(chan harness.LifecycleState, 1)
	for p := range r.FullStream() {
		c.parts = append(c.parts, p)
		if p.PartType() == partType {
			go func() { done <- c.suspend() }()
		}
	}
	return <-done
}

func TestScenariosReplayAsRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/lifecycle/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		if name == "go-null-variants" {
			continue // TestVariantsOfState
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc, ok := scenarios[name]
			if !ok {
				t.Fatal("the scenario is not replayed")
			}
			replayScenario(t, name, f, sc)
		})
	}
}

func replayScenario(t *testing.T, name, file string, sc replay) {
	var rec recording
	load(t, file, &rec)
	log := &harnesstest.Log{}
	box := &harnesstest.Sandbox{Dir: "/ROOT", Log: log}
	script := sc.script
	if script == nil {
		script = func(*harnesstest.Turn) error { return nil }
	}
	s := harness.AgentSettings{
		Harness: &harnesstest.Mock{Builtins: mockBuiltins(t), Script: script, Log: log},
		Sandbox: box.Provider(true), UserTools: hostTools(), Model: "mock-model-1", Instructions: "Be careful.", RuntimeContext: log,
		Skills: []harness.Skill{{Name: "review", Description: "Review code", Content: "# Review\nBe terse.", Files: []harness.SkillFile{{Path: "references/rules.md", Content: "rule 1"}}}},
	}
	if sc.change != nil {
		sc.change(&s)
	}
	a, err := harness.NewAgent(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c := &replayCase{t: t, ctx: ctx, agent: a, log: log, errs: map[string]string{}, rec: rec}
	c.session, err = a.CreateSession(ctx, harness.CreateSessionOptions{SessionID: "sess-" + name})
	if err != nil {
		t.Fatal(err)
	}
	state := sc.act(c)
	compareParts(t, "first", rec.First.Stream, c.parts)
	if rec.First.Unfinished != nil && state == nil && c.session.HasUnfinishedTurn() != *rec.First.Unfinished {
		t.Errorf("unfinished: %v, recorded %v", c.session.HasUnfinishedTurn(), *rec.First.Unfinished)
	}
	compareCalls(t, "first", rec.AdapterCalls, log.Calls())
	if sc.checkExtra != nil {
		sc.checkExtra(t, c, rec)
	}
	if state == nil {
		return
	}
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	compareJSON(t, "state", rec.First.State, data)
	if sc.resume == nil {
		return
	}
	// Another process: nothing but the JSON is left.
	c.state, err = harness.DecodeLifecycleState(data)
	if err != nil {
		t.Fatal(err)
	}
	before := len(log.Calls())
	o := harness.CreateSessionOptions{SessionID: "sess-" + name}
	switch v := c.state.(type) {
	case *harness.ResumeSessionState:
		o.ResumeFrom = v
	case *harness.ContinueTurnState:
		o.ContinueFrom = v
	}
	if c.session, err = a.CreateSession(ctx, o); err != nil {
		t.Fatal(err)
	}
	c.parts = nil
	sc.resume(c)
	compareParts(t, "resume", rec.Resume.Stream, c.parts)
	compareCalls(t, "resume", rec.ResumeAdapterCalls, log.Calls()[before:])
}

func load(t testing.TB, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func compareParts(t *testing.T, what string, want []map[string]any, parts []ai.StreamPart) {
	t.Helper()
	var got []map[string]any
	for _, p := range parts {
		b, err := ai.MarshalStreamPart(p)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	if d := cmp.Diff(normal(want), normal(got)); d != "" {
		t.Errorf("%s: consumer's parts (-recorded +got):\n%s", what, d)
	}
}

func compareCalls(t *testing.T, what string, want []any, calls []harnesstest.Call) {
	t.Helper()
	b, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(normal(want), normal(got)); d != "" {
		t.Errorf("%s: adapter's calls (-recorded +got):\n%s", what, d)
	}
}

func compareJSON(t *testing.T, what string, want, got []byte) {
	t.Helper()
	var w, g any
	if err := errors.Join(json.Unmarshal(want, &w), json.Unmarshal(got, &g)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(normal(w), normal(g)); d != "" {
		t.Errorf("%s (-recorded +got):\n%s", what, d)
	}
}

var (
	generatedID   = regexp.MustCompile(`^(harness-file-change-|harness-compaction-)?[0-9A-Za-z]{16}$`)
	availableTool = regexp.MustCompile(`Available tools: .*`)
)

// normal brings JSON into a form that does not depend on ids, times, the root, and the order of sets of tools.
func normal(v any) any {
	switch t := v.(type) {
	case []map[string]any:
		out := make([]any, 0, len(t))
		for _, m := range t {
			out = append(out, normal(m))
		}
		return out
	case []any:
		out := make([]any, 0, len(t))
		for _, e := range t {
			out = append(out, normal(e))
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, e := range t {
			switch {
			case k == "response", k == "performance":
				continue
			case k == "providerExecuted" && e == false:
				continue // the same as absent
			case k == "reason" && t["type"] == "abort":
				continue // the text of an error of another language
			case k == "tools":
				if list, ok := e.([]any); ok {
					list = slices.Clone(list)
					slices.SortFunc(list, func(a, b any) int {
						return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
					})
					e = list
				}
			}
			out[k] = normal(e)
		}
		return out
	case string:
		if generatedID.MatchString(t) {
			return "<id>"
		}
		t = strings.ReplaceAll(t, "/ROOT", "<ROOT>")
		return availableTool.ReplaceAllString(t, "Available tools: …")
	case nil:
		return nil
	}
	return v
}
