package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
)

var scenarios = map[string]replay{
	"stop-idle": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{ModelID: "resolved-model"})
			say(t, "t1", "hi")
			end(t)
			return nil
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return c.stop() },
		resume: func(c *replayCase) {
			o := c.opts().AgentGenerateOptions
			o.Prompt = "again"
			r, err := c.agent.Generate(c.ctx, o)
			if err != nil || r.Text != c.rec.Resume.Text || r.FinishReason.Unified != ai.FinishStop || !c.session.IsResume() || *r.Usage.InputTokens.Total != 10 {
				c.t.Errorf("resumed: %+v, %v", r, err)
			}
		},
	},
	"detach-idle": {
		script: textScript,
		act:    func(c *replayCase) harness.LifecycleState { c.prompt(); c.parts = nil; return c.detach() },
	},
	"stop-fresh-no-turn": {act: func(c *replayCase) harness.LifecycleState { return c.stop() }},
	"suspend-running": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{})
			say(t, "t1", t.Mode)
			if t.Mode == "doPromptTurn" {
				t.Emit(builtinCall("b0", "bash", "Bash", `{"command":"sleep 9"}`))
				return stubborn(t)
			}
			end(t)
			return nil
		},
		act: func(c *replayCase) harness.LifecycleState { return c.suspendAfter("tool-call") },
		resume: func(c *replayCase) {
			if !c.session.HasUnfinishedTurn() {
				c.t.Error("the continued session has no unfinished turn")
			}
			c.goOn(nil, nil)
			if c.session.HasUnfinishedTurn() {
				c.t.Error("the turn is unfinished after it finished")
			}
		},
	},
	"approval-builtin-detach": {
		script: approvalScript(`{"command":"rm -rf build"}`, func(a harness.ToolApprovalSubmission) harness.ToolResult {
			return harness.ToolResult{ToolCallID: "c1", ToolName: "bash", Result: rawJSON("done")}
		}, 10, 5, "ok"),
		change: func(s *harness.AgentSettings) { s.PermissionMode = harness.PermissionModeAllowEdits },
		act:    func(c *replayCase) harness.LifecycleState { c.prompt(); return c.detach() },
		resume: func(c *replayCase) {
			o := c.opts()
			o.Prompt = "x"
			if _, err := c.agent.Stream(c.ctx, o); err == nil || err.Error() != c.rec.Resume.PromptErr || !errors.Is(err, harness.ErrUnfinishedTurn) {
				c.t.Errorf("a prompt for an unfinished turn: %v", err)
			}
			o = c.opts()
			o.Messages = messages(c.t, `[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c1","toolName":"bash","input":{"command":"rm -rf build"},"providerExecuted":true},{"type":"tool-approval-request","approvalId":"ap1","toolCallId":"c1"}]},{"role":"tool","content":[{"type":"tool-approval-response","approvalId":"ap1","approved":true,"reason":"fine"}]}]`)
			c.drain(c.agent.Stream(c.ctx, o))
			if c.session.HasUnfinishedTurn() {
				c.t.Error("the turn is unfinished after it finished")
			}
		},
	},
	"approval-builtin-denied": {
		script: approvalScript(`{"command":"x"}`, func(a harness.ToolApprovalSubmission) harness.ToolResult {
			failed := !a.Approved
			return harness.ToolResult{ToolCallID: "c1", ToolName: "bash", Result: rawJSON(map[string]any{"denied": a.Reason}), IsError: &failed}
		}, 1, 1, "skipped"),
		change: func(s *harness.AgentSettings) { s.PermissionMode = harness.PermissionModeAllowReads },
		act:    func(c *replayCase) harness.LifecycleState { c.prompt(); return c.suspend() },
		resume: approve(false, "no"),
	},
	"approval-custom-stop": {
		script: hostCallScript,
		change: func(s *harness.AgentSettings) {
			s.ToolApproval = harness.ToolApprovalConfiguration{"deploy": {Type: harness.ToolApprovalUserApproval}}
		},
		act:    func(c *replayCase) harness.LifecycleState { c.prompt(); return c.stop() },
		resume: approve(true, ""),
	},
	"approval-custom-denied-by-user": {
		script: hostCallScript,
		change: func(s *harness.AgentSettings) {
			s.ToolApproval = harness.ToolApprovalConfiguration{"deploy": {Type: harness.ToolApprovalUserApproval}}
		},
		act:    func(c *replayCase) harness.LifecycleState { c.prompt(); return c.suspend() },
		resume: approve(false, "not today"),
	},
	"approval-custom-static-denied": {
		script: hostCallScript,
		change: func(s *harness.AgentSettings) {
			s.ToolApproval = harness.ToolApprovalConfiguration{"deploy": {Type: harness.ToolApprovalDenied, Reason: "policy"}}
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return nil },
	},
	"approval-custom-static-approved": {
		script: hostCallScript,
		change: func(s *harness.AgentSettings) {
			s.ToolApproval = harness.ToolApprovalConfiguration{"deploy": {Type: harness.ToolApprovalApproved}}
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return nil },
	},
	"client-tool-pause": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{}, harness.ToolCall{ToolCallID: "p1", ToolName: "pick", Input: `{"label":"A or B"}`,
				ProviderMetadata: harness.Metadata{"mock": {"itemId": "it_1"}}})
			if err := echo(t, "p1", "pick"); err != nil {
				return err
			}
			step(t, ai.FinishToolCalls, 3, 2)
			say(t, "t2", "picked")
			end(t)
			return nil
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return c.suspend() },
		resume: func(c *replayCase) {
			o := c.opts()
			o.Messages = messages(c.t, `[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool-call","toolCallId":"p1","toolName":"pick","input":{"label":"A or B"}}]},{"role":"tool","content":[{"type":"tool-result","toolCallId":"p1","toolName":"pick","output":{"type":"json","value":{"choice":"A"}}}]}]`)
			c.drain(c.agent.Stream(c.ctx, o))
		},
	},
	"questions-pause": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{}, harness.ToolCall{ToolCallID: "q1", ToolName: "askUserQuestions", NativeName: "AskUserQuestion",
				Input: `{"allowPartialAnswers":true,"questions":[{"id":"q","question":"Which?","header":"Pick","options":[{"id":"a","label":"A","description":"first","preview":"pv"}],"allowMultiple":false,"allowFreeForm":{"secret":true}}]}`})
			if err := echo(t, "q1", "askUserQuestions"); err != nil {
				return err
			}
			step(t, ai.FinishToolCalls, 3, 2)
			say(t, "t2", "thanks")
			end(t)
			return nil
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return c.detach() },
		resume: func(c *replayCase) {
			c.goOn(nil, []ai.ToolResultContent{{ToolCallID: "q1", ToolName: "askUserQuestions",
				Output: ai.ToolResultOutput{Type: ai.OutputJSON, Value: json.RawMessage(`{"action":"answered","answers":{"q":{"optionIds":["a"],"freeform":"x"}}}`)}}})
		},
	},
	"suspend-host-tool-inflight": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{})
			if t.Mode == "doPromptTurn" {
				t.Emit(harness.ToolCall{ToolCallID: "s1", ToolName: "slow", Input: "{}"})
			}
			if err := echo(t, "s1", "slow"); err != nil {
				return err
			}
			step(t, ai.FinishToolCalls, 3, 2)
			say(t, "t2", "after")
			end(t)
			return nil
		},
		change: func(s *harness.AgentSettings) {
			s.UserTools["slow"] = ai.Tool{Description: "slow", InputSchema: json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{},"additionalProperties":false}`),
				Execute: func(ctx context.Context, _ json.RawMessage, o ai.ToolExecutionOptions) (any, error) {
					// It ends only when the turn is being suspended.
					log := o.RuntimeContext.(*harnesstest.Log)
					for !slices.Contains(log.Names(), "doSuspendTurn") {
						if ctx.Err() != nil {
							return nil, ctx.Err()
						}
						time.Sleep(time.Millisecond)
					}
					return map[string]any{"slow": "done"}, nil
				}}
		},
		act:    func(c *replayCase) harness.LifecycleState { return c.suspendAfter("tool-call") },
		resume: func(c *replayCase) { c.goOn(nil, nil) },
	},
	"multi-pending-step-count": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{},
				harness.ToolCall{ToolCallID: "m1", ToolName: "deploy", Input: `{"env":"a"}`, StepToolCallCount: 3},
				harness.ToolCall{ToolCallID: "m2", ToolName: "pick", Input: `{"label":"x"}`, StepToolCallCount: 3},
				harness.ToolCall{ToolCallID: "m3", ToolName: "weather", Input: `{"city":"Rome"}`, StepToolCallCount: 3})
			return stubborn(t)
		},
		change: func(s *harness.AgentSettings) {
			s.ToolApproval = harness.ToolApprovalConfiguration{"deploy": {Type: harness.ToolApprovalUserApproval}}
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return c.detach() },
	},
	"stop-when-boundary": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{}, builtinCall("w1", "read", "Read", `{"file_path":"a"}`), harness.ToolResult{ToolCallID: "w1", ToolName: "read", Result: rawJSON("AAA")})
			step(t, ai.FinishToolCalls, 3, 2)
			say(t, "t2", "second step")
			end(t)
			return stubborn(t) // so that its end does not race the suspension
		},
		change: func(s *harness.AgentSettings) { s.StopWhen = []ai.StopCondition{ai.StepCountIs(1)} },
		act: func(c *replayCase) harness.LifecycleState {
			c.prompt()
			if !c.session.HasUnfinishedTurn() {
				c.t.Error("the turn was stopped and is not unfinished")
			}
			return c.suspend()
		},
	},
	"all-parts": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{ModelID: "m-resolved", Warnings: []harness.CallWarning{
				{Type: harness.CallWarningUnsupportedSetting, Setting: "temperature", Details: "d"}, {Type: harness.CallWarningUnsupportedTool, Tool: "x"}, {Type: harness.CallWarningOther, Message: "o"}}},
				harness.ReasoningStart{ID: "r1"}, harness.ReasoningDelta{ID: "r1", Delta: "hmm"}, harness.ReasoningEnd{ID: "r1", HarnessMetadata: harness.Metadata{"mock": {"sig": "s"}}})
			say(t, "t1", "hello")
			before, after := int64(900), int64(100)
			t.Emit(harness.FileChange{Event: "modify", Path: "/w/a.go"}, harness.Compaction{Trigger: "auto", Summary: "sum", TokensBefore: &before, TokensAfter: &after},
				harness.ToolCall{ToolCallID: "u1", ToolName: "nope", Input: "{", ProviderExecuted: &yes}, harness.ToolResult{ToolCallID: "u1", ToolName: "nope", Result: rawJSON(nil)},
				builtinCall("u2", "bash", "Bash", `{"command":"false"}`), harness.ToolResult{ToolCallID: "u2", ToolName: "bash", Result: rawJSON("exit 1"), IsError: &yes},
				harness.Raw{RawValue: json.RawMessage(`{"native":1}`)})
			end(t)
			return nil
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return nil },
		checkExtra: func(t *testing.T, c *replayCase, rec recording) {
			if len(c.result.Warnings) != 3 {
				t.Errorf("warnings: %+v", c.result.Warnings)
			}
			var got, want []string
			for _, p := range c.result.Steps[0].Content {
				got = append(got, contentType(p))
			}
			for _, p := range rec.First.Steps[0]["content"].([]any) {
				want = append(want, p.(map[string]any)["type"].(string))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("content of the step (-recorded +got):\n%s", d)
			}
			if m := c.result.Steps[0].Model; m.Provider != "harness:mock" || m.ModelID != "m-resolved" {
				t.Errorf("model: %+v", m)
			}
		},
	},
	"error-part": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{})
			say(t, "t1", "x")
			t.Emit(harness.ErrorPart{Error: json.RawMessage(`{"name":"E","message":"boom"}`)})
			return nil
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return nil },
	},
	"adapter-throws": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{})
			return errors.New("died")
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return nil },
	},
	"no-finish": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{})
			say(t, "t1", "cut")
			return nil
		},
		act: func(c *replayCase) harness.LifecycleState { c.prompt(); return nil },
	},
	"abort": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{})
			say(t, "t1", "x")
			return stubborn(t)
		},
		act: func(c *replayCase) harness.LifecycleState {
			ctx, cancel := context.WithCancelCause(c.ctx)
			defer cancel(nil)
			o := c.opts()
			o.Prompt = "go"
			r, err := c.agent.Stream(ctx, o)
			if err != nil {
				c.t.Fatal(err)
			}
			for p := range r.FullStream() {
				c.parts = append(c.parts, p)
				if p.PartType() == "text-end" {
					cancel(errors.New("user stop"))
				}
			}
			if _, err := r.Wait(); err == nil || err.Error() != "user stop" {
				c.t.Errorf("the aborted turn's error: %v", err)
			}
			return nil
		},
	},
	"steer": {
		script: func(t *harnesstest.Turn) error {
			t.Emit(harness.StreamStart{})
			if _, err := t.WaitMessage(); err != nil {
				return err
			}
			say(t, "t1", "x")
			end(t)
			return nil
		},
		act: func(c *replayCase) harness.LifecycleState {
			o := c.opts()
			o.Prompt = "go"
			r, err := c.agent.Stream(c.ctx, o)
			if err == nil {
				err = c.agent.ExperimentalSteer(c.ctx, c.session, "also do y")
			}
			c.drain(r, err)
			if err := c.session.ExperimentalSteerTurn(c.ctx, "late"); err == nil || err.Error() != c.rec.First.After {
				c.t.Errorf("steering an idle session: %v", err)
			}
			return nil
		},
	},
	"destroy": {
		script: func(t *harnesstest.Turn) error { end(t); return nil },
		act: func(c *replayCase) harness.LifecycleState {
			c.prompt()
			c.parts = nil
			for range 2 {
				if err := c.session.Destroy(c.ctx); err != nil {
					c.t.Error(err)
				}
			}
			_, c.errs["stop"] = errText(c.session.Stop(c.ctx))
			_, c.errs["detach"] = errText(c.session.Detach(c.ctx))
			_, c.errs["suspendTurn"] = errText(c.session.SuspendTurn(c.ctx))
			_, c.errs["compact"] = errText(0, c.session.Compact(c.ctx, ""))
			o := c.opts()
			o.Prompt = "x"
			_, c.errs["stream"] = errText(c.agent.Stream(c.ctx, o))
			if c.session.GetSandboxSession() != nil {
				c.t.Error("a destroyed session has a sandbox")
			}
			delete(c.rec.First.Errs, "getSandboxSession") // there is no error to return: it is nil
			if d := cmp.Diff(c.rec.First.Errs, c.errs); d != "" {
				c.t.Errorf("errors (-recorded +got):\n%s", d)
			}
			return nil
		},
	},
}
