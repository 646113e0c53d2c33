package harness_test

import (
	"context"
	"encoding/json"
	"errors"
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

type errorCase struct {
	Case          string          `json:"case"`
	OK            bool            `json:"ok"`
	Value         json.RawMessage `json:"value"`
	Name          string          `json:"name"`
	Message       string          `json:"message"`
	IsCapability  bool            `json:"isCapability"`
	IsHarness     bool            `json:"isHarnessError"`
	ClientMessage string          `json:"clientMessage"`
}

// notReplayed are the recorded cases that do not exist here, or are decided otherwise.
var notReplayed = map[string]string{
	"malformed pending approval is not validated": "pending records are validated here, see TestPendingRecordsAreTakenAsTheyAreOnRequest",
	"schema strips/normalises":                    "a validator checks the data and does not change it",
	`workDir ""`:                                  "the empty string is the zero value, which means the default",
	"onBootstrap without hash":                    "there is no bootstrap",
	"hash without onBootstrap":                    "there is no bootstrap",
	"callOptions schema failure":                  "call options have no schema: PrepareCall checks them",
}

// ourMessage are the messages that differ on purpose.
var ourMessage = map[string]string{
	"schema failure": "Lifecycle state failed schema validation for harness 'mock': threadId is required",
}

func errBuiltins(t testing.TB) map[string]harness.BuiltinTool {
	all := mockBuiltins(t)
	return map[string]harness.BuiltinTool{"bash": all["bash"], "askUserQuestions": all["askUserQuestions"]}
}

type errEnv struct {
	t    *testing.T
	ctx  context.Context
	mock *harnesstest.Mock
	set  harness.AgentSettings
	log  *harnesstest.Log
}

func (e *errEnv) session(o harness.CreateSessionOptions) (*harness.Agent, *harness.AgentSession, error) {
	a, err := harness.NewAgent(e.set)
	if err != nil {
		return nil, nil, err
	}
	if o.SessionID == "" {
		o.SessionID = "s"
	}
	s, err := a.CreateSession(e.ctx, o)
	return a, s, err
}

type sessionFacts struct {
	IsResume   bool              `json:"isResume"`
	Unfinished bool              `json:"unfinished"`
	TurnState  harness.TurnState `json:"turnState"`
}

// created opens a session from the JSON of a state, as createSession of the recording did.
func created(resume, cont string, more func(*harness.CreateSessionOptions)) func(*errEnv) (any, error) {
	return func(e *errEnv) (any, error) {
		var o harness.CreateSessionOptions
		if resume != "" {
			o.ResumeFrom = new(harness.ResumeSessionState)
			if err := o.ResumeFrom.UnmarshalJSON([]byte(resume)); err != nil {
				return nil, err
			}
		}
		if cont != "" {
			o.ContinueFrom = new(harness.ContinueTurnState)
			if err := o.ContinueFrom.UnmarshalJSON([]byte(cont)); err != nil {
				return nil, err
			}
		}
		if more != nil {
			more(&o)
		}
		_, s, err := e.session(o)
		if err != nil {
			return nil, err
		}
		return sessionFacts{s.IsResume(), s.HasUnfinishedTurn(), s.TurnState()}, nil
	}
}

func state(kind, members string) string {
	return `{"type":"` + kind + `","harnessId":"mock","specificationVersion":"harness-v1","data":{"x":1}` + members + `}`
}

const approvalRecord = `{"approvalId":"a","toolCallId":"c","toolName":"bash","input":"{}","kind":"builtin"}`

func with(change func(e *errEnv), then func(*errEnv) (any, error)) func(*errEnv) (any, error) {
	return func(e *errEnv) (any, error) {
		change(e)
		return then(e)
	}
}

func construct(e *errEnv) (any, error) {
	_, err := harness.NewAgent(e.set)
	return "ok", err
}

func workDir(dir string) func(*errEnv) (any, error) {
	return func(e *errEnv) (any, error) {
		e.set.SandboxConfig.WorkDir = dir
		_, s, err := e.session(harness.CreateSessionOptions{})
		if err != nil {
			return nil, err
		}
		return strings.ReplaceAll(s.GetSessionWorkDir(), "/ROOT", "<ROOT>"), nil
	}
}

func stream(opts agent.AgentGenerateOptions) func(*errEnv) (any, error) {
	return func(e *errEnv) (any, error) {
		a, s, err := e.session(harness.CreateSessionOptions{})
		if err != nil {
			return nil, err
		}
		opts.HarnessSession = s
		_, err = a.Generate(e.ctx, opts)
		var ended *harness.HarnessError
		if errors.As(err, &ended) && strings.Contains(ended.Message, "without a finish part") {
			err = nil // the recorded script says nothing
		}
		if err != nil {
			return nil, err
		}
		return e.call("doPromptTurn"), nil
	}
}

func (e *errEnv) call(name string) any {
	for _, c := range e.log.Calls() {
		if c.Name == name {
			return c.Args
		}
	}
	return nil
}

func header(name string) func(*errEnv) (any, error) {
	return with(func(e *errEnv) { e.set.Headers = map[string]string{name: "x"} }, construct)
}

// whileRunning does something while a turn runs.
func whileRunning(do func(a *harness.Agent, s *harness.AgentSession) error) func(*errEnv) (any, error) {
	return func(e *errEnv) (any, error) {
		e.mock.Script = stubborn
		a, s, err := e.session(harness.CreateSessionOptions{})
		if err != nil {
			return nil, err
		}
		r, err := a.Stream(e.ctx, agent.AgentStreamOptions{AgentGenerateOptions: agent.AgentGenerateOptions{HarnessSession: s, Prompt: "x"}})
		if err != nil {
			return nil, err
		}
		err = do(a, s)
		_ = s.Destroy(e.ctx)
		_, _ = r.Wait()
		return nil, err
	}
}

func filter(active, inactive []string) func(*errEnv) (any, error) {
	return func(e *errEnv) (any, error) {
		e.set.UserTools = map[string]ai.Tool{"a": {}, "b": {}}
		e.set.ActiveTools, e.set.InactiveTools = active, inactive
		if _, err := stream(agent.AgentGenerateOptions{Prompt: "p"})(e); err != nil {
			return nil, err
		}
		a, err := harness.NewAgent(e.set)
		if err != nil {
			return nil, err
		}
		var start, turn map[string]any
		_ = json.Unmarshal(rawJSON(e.call("doStart")), &start)
		_ = json.Unmarshal(rawJSON(e.call("doPromptTurn")), &turn)
		names := func(list any) []any {
			out := []any{}
			for _, t := range list.([]any) {
				out = append(out, t.(map[string]any)["name"])
			}
			return out
		}
		all := []any{}
		for _, t := range a.Tools() {
			all = append(all, t.Name)
		}
		return map[string]any{"agentTools": all, "builtinToolFiltering": start["builtinToolFiltering"], "sentTools": names(turn["tools"])}, nil
	}
}

var errorCases = map[string]func(*errEnv) (any, error){
	"resume ok":                                    created(state("resume-session", ""), "", nil),
	"continue ok -> suspended":                     created("", state("continue-turn", ""), nil),
	"continue with empty arrays":                   created("", state("continue-turn", `,"pendingToolApprovals":[],"pendingToolResults":[]`), nil),
	"continue with approvals -> awaiting-approval": created("", state("continue-turn", `,"pendingToolApprovals":[`+approvalRecord+`]`), nil),
	"continue with approvals and results -> awaiting-approval wins": created("", state("continue-turn",
		`,"pendingToolApprovals":[`+approvalRecord+`],"pendingToolResults":[{"toolCallId":"d","toolName":"x","input":"{}"}]`), nil),
	"continue with results -> awaiting-tool-result": created("", state("continue-turn", `,"pendingToolResults":[{"toolCallId":"d","toolName":"x","input":"{}"}]`), nil),
	"resume nested continue":                        created(state("resume-session", `,"continueFrom":`+state("continue-turn", "")), "", nil),
	"wrong type: continue passed as resume":         created(state("continue-turn", ""), "", nil),
	"wrong type: resume passed as continue":         created("", state("resume-session", ""), nil),
	"wrong specificationVersion":                    created(strings.Replace(state("resume-session", ""), "harness-v1", "harness-v2", 1), "", nil),
	"missing specificationVersion":                  created(`{"type":"resume-session","harnessId":"mock","data":{}}`, "", nil),
	"wrong harnessId":                               created(strings.Replace(state("resume-session", ""), "mock", "codex", 1), "", nil),
	"nested wrong harnessId":                        created(state("resume-session", `,"continueFrom":`+strings.Replace(state("continue-turn", ""), "mock", "other", 1)), "", nil),
	"nested wrong type":                             created(state("resume-session", `,"continueFrom":`+state("resume-session", "")), "", nil),
	"resume with pendingToolApprovals":              created(state("resume-session", `,"pendingToolApprovals":[]`), "", nil),
	"resume with pendingToolResults":                created(state("resume-session", `,"pendingToolResults":[]`), "", nil),
	"resume with unknown extra key (dropped)":       created(state("resume-session", `,"extra":1`), "", nil),
	"data missing, no schema":                       created(`{"type":"resume-session","harnessId":"mock","specificationVersion":"harness-v1"}`, "", nil),
	"schema failure": with(func(e *errEnv) {
		e.mock.Validate = func(json.RawMessage) error { return errors.New("threadId is required") }
	}, created(state("resume-session", ""), "", nil)),
	"resume+continue both":           created(state("resume-session", ""), state("continue-turn", ""), nil),
	"toolsContext without continue":  created("", "", func(o *harness.CreateSessionOptions) { o.ToolsContext = map[string]any{} }),
	"toolsContext with plain resume": created(state("resume-session", ""), "", func(o *harness.CreateSessionOptions) { o.ToolsContext = map[string]any{} }),
	"toolsContext with continue":     created("", state("continue-turn", ""), func(o *harness.CreateSessionOptions) { o.ToolsContext = map[string]any{} }),
	"no sandbox configured":          with(func(e *errEnv) { e.set.Sandbox = nil }, created("", "", nil)),
	"provider cannot resume":         with(func(e *errEnv) { e.set.Sandbox = &harnesstest.Sandbox{} }, created(state("resume-session", ""), "", nil)),
	"header authorization":           header("Authorization"),
	"header X-API-Key":               header("X-API-Key"),
	"header user-agent":              header("User-Agent"),
	"header x-client-app":            header("x-client-app"),
	"headers normalised to lower case": func(e *errEnv) (any, error) {
		e.set.Headers = map[string]string{"X-Foo": "A"}
		if _, _, err := e.session(harness.CreateSessionOptions{}); err != nil {
			return nil, err
		}
		var start map[string]any
		err := json.Unmarshal(rawJSON(e.call("doStart")), &start)
		return start["headers"], err
	},
	"both activeTools and inactiveTools": with(func(e *errEnv) { e.set.ActiveTools, e.set.InactiveTools = []string{"bash"}, []string{"bash"} }, construct),
	"unknown active tool":                with(func(e *errEnv) { e.set.ActiveTools = []string{"zzz"} }, construct),
	"reserved askUserQuestions user tool": with(func(e *errEnv) {
		e.set.UserTools = map[string]ai.Tool{"askUserQuestions": {}}
	}, construct),
	"permission unsupported": with(func(e *errEnv) {
		e.set.PermissionMode, e.mock.NoApprovals = harness.PermissionModeAllowReads, true
	}, construct),
	"permission unsupported but no builtins": with(func(e *errEnv) {
		e.set.PermissionMode, e.mock.NoApprovals, e.mock.Builtins = harness.PermissionModeAllowReads, true, nil
	}, construct),
	"filtering unsupported": with(func(e *errEnv) {
		e.set.ActiveTools, e.mock.NoApprovals, e.mock.NoFiltering = []string{}, true, true
	}, construct),
	"filtering via approvals ok": with(func(e *errEnv) { e.set.ActiveTools, e.mock.NoFiltering = []string{}, true }, construct),
	`workDir "/abs"`:             workDir("/abs"),
	`workDir ".."`:               workDir(".."),
	`workDir "../x"`:             workDir("../x"),
	`workDir "."`:                workDir("."),
	`workDir "a\\b"`:             workDir(`a\b`),
	`workDir "a\u0000b"`:         workDir("a\x00b"),
	`workDir "a/../.."`:          workDir("a/../.."),
	`workDir "a/./b"`:            workDir("a/./b"),
	`workDir "a//b/"`:            workDir("a//b/"),
	"default workdir": func(e *errEnv) (any, error) {
		_, s, err := e.session(harness.CreateSessionOptions{SessionID: "abc"})
		if err != nil {
			return nil, err
		}
		return strings.ReplaceAll(s.GetSessionWorkDir(), "/ROOT", "<ROOT>"), nil
	},
	"continue with nothing unfinished": func(e *errEnv) (any, error) {
		a, s, err := e.session(harness.CreateSessionOptions{})
		if err != nil {
			return nil, err
		}
		_, err = a.ContinueGenerate(e.ctx, agent.AgentGenerateOptions{HarnessSession: s}, nil, nil)
		return nil, err
	},
	"suspend idle": func(e *errEnv) (any, error) {
		_, s, err := e.session(harness.CreateSessionOptions{})
		if err != nil {
			return nil, err
		}
		return s.SuspendTurn(e.ctx)
	},
	"steer idle": func(e *errEnv) (any, error) {
		_, s, err := e.session(harness.CreateSessionOptions{})
		if err != nil {
			return nil, err
		}
		return nil, s.ExperimentalSteerTurn(e.ctx, "x")
	},
	"steer unsupported": with(func(e *errEnv) { e.mock.NoSteering = true }, whileRunning(func(_ *harness.Agent, s *harness.AgentSession) error {
		return s.ExperimentalSteerTurn(context.Background(), "x")
	})),
	"second prompt while running": whileRunning(func(a *harness.Agent, s *harness.AgentSession) error {
		_, err := a.Generate(context.Background(), agent.AgentGenerateOptions{HarnessSession: s, Prompt: "y"})
		return err
	}),
	"continue while running": whileRunning(func(a *harness.Agent, s *harness.AgentSession) error {
		_, err := a.ContinueGenerate(context.Background(), agent.AgentGenerateOptions{HarnessSession: s}, nil, nil)
		return err
	}),
	"continue: persisted tool missing": func(e *errEnv) (any, error) {
		var c harness.ContinueTurnState
		if err := c.UnmarshalJSON([]byte(state("continue-turn", `,"turnSettings":{"skills":[],"tools":[{"name":"gone"}]}`))); err != nil {
			return nil, err
		}
		a, s, err := e.session(harness.CreateSessionOptions{ContinueFrom: &c})
		if err != nil {
			return nil, err
		}
		_, err = a.ContinueGenerate(e.ctx, agent.AgentGenerateOptions{HarnessSession: s}, nil, nil)
		return nil, err
	},
	"continue: approval continuation for unknown approvalId is ignored": func(e *errEnv) (any, error) {
		e.mock.Script = func(t *harnesstest.Turn) error { end(t); return nil }
		var c harness.ContinueTurnState
		if err := c.UnmarshalJSON([]byte(state("continue-turn", ""))); err != nil {
			return nil, err
		}
		a, s, err := e.session(harness.CreateSessionOptions{ContinueFrom: &c})
		if err != nil {
			return nil, err
		}
		types := []string{}
		_, err = a.ContinueGenerate(e.ctx, agent.AgentGenerateOptions{HarnessSession: s, OnPart: func(p ai.StreamPart) { types = append(types, p.PartType()) }},
			[]ai.ToolApprovalResponseContent{{ApprovalID: "ghost", Approved: true}}, nil)
		calls := e.log.Calls()
		return map[string]any{"types": types, "log": calls[slices.Index(e.log.Names(), "doContinueTurn"):]}, err
	},
	"no prompt and no messages": stream(agent.AgentGenerateOptions{}),
	"messages without user":     stream(agent.AgentGenerateOptions{Messages: []ai.Message{{Role: ai.RoleAssistant, Content: []ai.Part{ai.TextPart{Text: "x"}}}}}),
	"messages collapse to last user": stream(agent.AgentGenerateOptions{Messages: []ai.Message{
		ai.UserMessage("one"), {Role: ai.RoleAssistant, Content: []ai.Part{ai.TextPart{Text: "x"}}}, ai.UserMessage("two")}}),
	"prepareCall returns continuation": with(func(e *errEnv) {
		e.set.PrepareCall = func(context.Context, harness.PrepareCallOptions) (harness.PrepareCallResult, error) {
			return harness.PrepareCallResult{Prompt: harness.MessagePrompt(ai.Message{Role: ai.RoleTool})}, nil
		}
	}, stream(agent.AgentGenerateOptions{Prompt: "x"})),
	"prepareCall replaces model/skills/instructions/tools": with(func(e *errEnv) {
		e.set.Model, e.set.Instructions = "m0", ai.SystemMessage("I0")
		e.set.PrepareCall = func(_ context.Context, o harness.PrepareCallOptions) (harness.PrepareCallResult, error) {
			return harness.PrepareCallResult{
				Model: o.CallOptions.(string), HasInstructions: true, Skills: []harness.Skill{{Name: "s", Description: "d", Content: "c"}},
				Tools: map[string]ai.Tool{"k": {Description: "kk", InputSchema: objectSchema("a", "number")}},
			}, nil
		}
	}, stream(agent.AgentGenerateOptions{Prompt: "p", CallOptions: "m1"})),
	"filter active bash+a": filter([]string{"bash", "a"}, nil),
	"filter active a only": filter([]string{"a"}, nil),
	"filter active all":    filter([]string{"bash", "askUserQuestions", "a", "b"}, nil),
	"filter active []":     filter([]string{}, nil),
	"filter inactive bash": filter(nil, []string{"bash"}),
	"filter inactive a":    filter(nil, []string{"a"}),
	"filter inactive []":   filter(nil, []string{}),
	"filter dups":          filter([]string{"a", "a"}, nil),
	"filter none":          filter(nil, nil),
	"user tool overrides builtin": func(e *errEnv) (any, error) {
		e.set.UserTools = map[string]ai.Tool{"bash": {Description: "mine"}}
		if _, err := stream(agent.AgentGenerateOptions{Prompt: "p"})(e); err != nil {
			return nil, err
		}
		a, err := harness.NewAgent(e.set)
		if err != nil {
			return nil, err
		}
		var turn struct{ Tools []harness.ToolSpec }
		_ = json.Unmarshal(rawJSON(e.call("doPromptTurn")), &turn)
		sent := []string{}
		for _, t := range turn.Tools {
			sent = append(sent, t.Name)
		}
		return map[string]any{"desc": a.Tools()[0].Description, "sent": sent}, nil
	},
}

func TestErrorsAndValuesAreAsRecorded(t *testing.T) {
	var cases []errorCase
	load(t, "testdata/errors/cases.json", &cases)
	if len(cases) != 76 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Case, func(t *testing.T) {
			if why, ok := notReplayed[c.Case]; ok {
				t.Skip(why)
			}
			do, ok := errorCases[c.Case]
			if !ok {
				t.Fatal("the case is not replayed")
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			log := &harnesstest.Log{}
			mock := &harnesstest.Mock{Builtins: errBuiltins(t), Log: log, Script: func(*harnesstest.Turn) error { return nil }}
			e := &errEnv{t: t, ctx: ctx, log: log, mock: mock, set: harness.AgentSettings{Harness: mock, Sandbox: (&harnesstest.Sandbox{Dir: "/ROOT"}).Provider(true)}}
			v, err := do(e)
			checkErrorCase(t, c, v, err)
		})
	}
}

func checkErrorCase(t *testing.T, c errorCase, v any, err error) {
	t.Helper()
	if c.OK {
		if err != nil {
			t.Fatal(err)
		}
		want := c.Value
		if c.Case == `workDir "a//b/"` {
			want = json.RawMessage(`"<ROOT>/a/b"`) // the trailing slash of the original serves nobody
		}
		var w, g any
		if err := errors.Join(json.Unmarshal(want, &w), json.Unmarshal(rawJSON(v), &g)); err != nil {
			t.Fatal(err)
		}
		// Tools of the recording that have no schema of their own have the schema of an empty object.
		if d := cmp.Diff(normal(w), normal(g)); d != "" {
			t.Errorf("-recorded +got:\n%s", d)
		}
		return
	}
	want, client := c.Message, c.ClientMessage
	if m, ok := ourMessage[c.Case]; ok {
		want, client = m, m
	}
	if err == nil || err.Error() != want {
		t.Fatalf("error %v, recorded %q", err, want)
	}
	if harness.IsHarnessError(err) != c.IsHarness || harness.IsCapabilityUnsupportedError(err) != c.IsCapability {
		t.Errorf("harness error %v, capability %v", harness.IsHarnessError(err), harness.IsCapabilityUnsupportedError(err))
	}
	if got := harness.GetHarnessErrorMessage(err); got != client {
		t.Errorf("client message %q, recorded %q", got, client)
	}
	var named interface{ ErrorName() string }
	if c.Name != "Error" && (!errors.As(err, &named) || named.ErrorName() != c.Name) {
		t.Errorf("the error has not the name %s", c.Name)
	}
}

func TestOnlyOwnMessagesReachClients(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("dial tcp 10.0.0.1"), "An error occurred."},
		{harness.NewHarnessError("own", errors.New("inner")), "own"},
		{&harness.HarnessError{Name: "Custom", Message: "private"}, "An error occurred."},
		{harness.NewCapabilityUnsupportedError("cannot", "h", nil), "cannot"},
		{harness.NewSandboxAuthenticationError("no login", "p", nil), "no login"},
		{harness.NewHistoryUnavailableError("gone", "h", nil), "gone"},
	} {
		if got := harness.GetHarnessErrorMessage(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
	if !harness.IsSandboxAuthenticationError(harness.NewSandboxAuthenticationError("x", "p", nil)) || !harness.IsHistoryUnavailableError(harness.NewHistoryUnavailableError("x", "h", nil)) {
		t.Error("the family is not recognised")
	}
}
