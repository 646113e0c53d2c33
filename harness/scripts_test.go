package harness_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
)

func usage(in, out int64) ai.Usage {
	zero := ai.Tokens(0)
	return ai.Usage{
		InputTokens:  ai.InputTokens{Total: &in, NoCache: &in, CacheRead: zero, CacheWrite: zero},
		OutputTokens: ai.OutputTokens{Total: &out, Text: &out, Reasoning: zero},
	}
}

func reason(k ai.FinishReasonKind) ai.FinishReason {
	return ai.FinishReason{Unified: k, Raw: string(k)}
}

func say(t *harnesstest.Turn, id, text string) {
	t.Emit(harness.TextStart{ID: id}, harness.TextDelta{ID: id, Delta: text}, harness.TextEnd{ID: id})
}

func step(t *harnesstest.Turn, k ai.FinishReasonKind, in, out int64) {
	t.Emit(harness.FinishStep{FinishReason: reason(k), Usage: usage(in, out)})
}

func end(t *harnesstest.Turn) {
	step(t, ai.FinishStop, 10, 5)
	t.Emit(harness.Finish{FinishReason: reason(ai.FinishStop), TotalUsage: usage(10, 5)})
}

var yes = true

func builtinCall(id, name, native, input string) harness.ToolCall {
	return harness.ToolCall{ToolCallID: id, ToolName: name, Input: input, ProviderExecuted: &yes, NativeName: native}
}

func rawJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func echo(t *harnesstest.Turn, id, name string) error {
	r, err := t.WaitResult(id)
	if err != nil {
		return err
	}
	p := harness.ToolResult{ToolCallID: id, ToolName: name, Result: rawJSON(r.Output)}
	if r.IsError {
		p.IsError = &yes
	}
	t.Emit(p)
	return nil
}

// stubborn waits until the turn is suspended or aborted.
func stubborn(t *harnesstest.Turn) error {
	<-t.Context().Done()
	return context.Cause(t.Context())
}

func textScript(t *harnesstest.Turn) error {
	t.Emit(harness.StreamStart{})
	say(t, "t1", "hi")
	end(t)
	return nil
}

func hostCallScript(t *harnesstest.Turn) error {
	t.Emit(harness.StreamStart{},
		harness.ToolInputStart{ID: "h1", ToolName: "deploy"}, harness.ToolInputDelta{ID: "h1", Delta: `{"env":"prod"}`}, harness.ToolInputEnd{ID: "h1"},
		harness.ToolCall{ToolCallID: "h1", ToolName: "deploy", Input: `{"env":"prod"}`})
	if err := echo(t, "h1", "deploy"); err != nil {
		return err
	}
	step(t, ai.FinishToolCalls, 10, 5)
	say(t, "t2", "end")
	end(t)
	return nil
}

func approvalScript(input string, result func(harness.ToolApprovalSubmission) harness.ToolResult, in, out int64, text string) func(*harnesstest.Turn) error {
	return func(t *harnesstest.Turn) error {
		t.Emit(harness.StreamStart{}, builtinCall("c1", "bash", "Bash", input), harness.ToolApprovalRequest{ApprovalID: "ap1", ToolCallID: "c1"})
		a, err := t.WaitApproval("ap1")
		if err != nil {
			return err
		}
		t.Emit(result(a))
		step(t, ai.FinishToolCalls, in, out)
		say(t, "t2", text)
		end(t)
		return nil
	}
}

func mockBuiltins(t testing.TB) map[string]harness.BuiltinTool {
	t.Helper()
	read, err := harness.CommonTool(harness.BuiltinToolRead, harness.CommonToolOptions{NativeName: "Read", Description: "Read"})
	if err != nil {
		t.Fatal(err)
	}
	bash, err := harness.CommonTool(harness.BuiltinToolBash, harness.CommonToolOptions{NativeName: "Bash", Description: "Bash"})
	if err != nil {
		t.Fatal(err)
	}
	ask := harness.StandardBuiltinTools()[harness.BuiltinToolAskUserQuestions]
	ask.NativeName = "AskUserQuestion"
	return map[string]harness.BuiltinTool{"read": read, "bash": bash, "askUserQuestions": ask}
}

func objectSchema(member, kind string) json.RawMessage {
	return json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"` + member +
		`":{"type":"` + kind + `"}},"required":["` + member + `"],"additionalProperties":false}`)
}

func hostTools() map[string]ai.Tool {
	arg := func(in json.RawMessage, name string) string {
		var m map[string]string
		_ = json.Unmarshal(in, &m)
		return m[name]
	}
	return map[string]ai.Tool{
		"weather": {Description: "Get weather", InputSchema: objectSchema("city", "string"), Execute: func(_ context.Context, in json.RawMessage, _ ai.ToolExecutionOptions) (any, error) {
			return map[string]any{"city": arg(in, "city"), "tempC": 21}, nil
		}},
		"deploy": {Description: "Deploy", InputSchema: objectSchema("env", "string"), Execute: func(_ context.Context, in json.RawMessage, _ ai.ToolExecutionOptions) (any, error) {
			return "deployed " + arg(in, "env"), nil
		}},
		"pick": {Description: "Client-side picker", InputSchema: objectSchema("label", "string")},
	}
}
