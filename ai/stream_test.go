package ai

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

func TestAStreamHoldsABoundedNumberOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := NewStream()
		sent := 0
		go func() {
			for i := range 3 * streamBuffer {
				w.Send(TextDeltaPart{Text: fmt.Sprint(i)})
				sent++
			}
			w.Close(&GenerateTextResult{Text: "t"}, nil)
		}()
		synctest.Wait()
		if sent != streamBuffer {
			t.Fatalf("%d parts were taken without a reader", sent)
		}
		n := 0
		for p := range r.FullStream() {
			if p.(TextDeltaPart).Text != fmt.Sprint(n) {
				t.Fatalf("part %d is %v", n, p)
			}
			n++
		}
		if res, err := r.Wait(); n != 3*streamBuffer || err != nil || res.Text != "t" {
			t.Errorf("%d parts, %v, %v", n, res, err)
		}
	})
}

func TestADiscardedOrInterruptedStreamDoesNotWait(t *testing.T) {
	for name, free := range map[string]func(*StreamTextResult, *StreamWriter){
		"discard":   func(r *StreamTextResult, _ *StreamWriter) { r.Discard() },
		"interrupt": func(_ *StreamTextResult, w *StreamWriter) { w.Interrupt() },
	} {
		synctest.Test(t, func(t *testing.T) {
			r, w := NewStream()
			done := false
			go func() {
				for range 2 * streamBuffer {
					w.Send(TextDeltaPart{})
				}
				w.SendLast(AbortPart{})
				w.Close(nil, errors.New("end"))
				done = true
			}()
			synctest.Wait()
			if done {
				t.Fatal("the writer did not wait")
			}
			free(r, w)
			synctest.Wait()
			if !done {
				t.Fatalf("%s: the writer waits", name)
			}
			last := ""
			for p := range r.FullStream() {
				last = p.PartType()
			}
			if (last == "abort") != (name == "interrupt") {
				t.Errorf("%s: the last part is %q", name, last)
			}
			if _, err := r.Result(); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestResultIsNothingWhileTheTurnRuns(t *testing.T) {
	r, w := NewStream()
	if res, err := r.Result(); res != nil || err != nil {
		t.Errorf("%v, %v", res, err)
	}
	w.Close(&GenerateTextResult{}, nil)
	w.Close(nil, errors.New("again")) // the first one counts
	if res, err := r.Result(); res == nil || err != nil {
		t.Errorf("%v, %v", res, err)
	}
}

func TestResponseMessagesCarryCallsResultsAndDecisions(t *testing.T) {
	call := ToolCall{ToolCallID: "c", ToolName: "bash", Input: json.RawMessage(`{"command":"ls"}`), ProviderExecuted: true}
	r := GenerateTextResult{Steps: []StepResult{{Content: []StepContent{
		ReasoningPart{Text: "hm"}, TextPart{Text: "I look."}, call,
		ToolApprovalRequest{ApprovalID: "a", ToolCall: call},
		ToolApprovalResponse{ApprovalID: "a", ToolCall: call, Approved: true},
		ToolResult{ToolCallID: "c", ToolName: "bash", Output: json.RawMessage(`"part"`), Preliminary: true},
		ToolResult{ToolCallID: "c", ToolName: "bash", Output: json.RawMessage(`"out"`)},
		ToolError{ToolCallID: "d", ToolName: "x", Error: json.RawMessage(`{"code":1}`)},
		ToolResult{ToolCallID: "e", ToolName: "y", Output: json.RawMessage(`{"type":"execution-denied","reason":"no"}`)},
	}}, {Content: []StepContent{TextPart{Text: "Done."}}}}}
	got, err := json.Marshal(r.ResponseMessages())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"role":"assistant","content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"I look."},` +
		`{"type":"tool-call","toolCallId":"c","toolName":"bash","input":"{\"command\":\"ls\"}","providerExecuted":true},` +
		`{"type":"tool-approval-request","approvalId":"a","toolCallId":"c"}]},` +
		`{"role":"tool","content":[{"type":"tool-approval-response","approvalId":"a","approved":true},` +
		`{"type":"tool-result","toolCallId":"c","toolName":"bash","output":{"type":"text","value":"out"}},` +
		`{"type":"tool-result","toolCallId":"d","toolName":"x","output":{"type":"error-json","value":{"code":1}}},` +
		`{"type":"tool-result","toolCallId":"e","toolName":"y","output":{"type":"execution-denied","reason":"no"}}]},` +
		`{"role":"assistant","content":[{"type":"text","text":"Done."}]}]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(r.ToolApprovalRequests()) != 1 || len(r.Steps[0].ToolErrors()) != 1 || r.Steps[0].ReasoningText() != "hm" {
		t.Errorf("%+v", r.Content())
	}
}

func TestOutputsParseTheFinalText(t *testing.T) {
	object, err := ObjectOutput(ObjectOutputOptions{Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		out  Output
		text string
		want any
	}{
		{TextOutput(), "hi", "hi"},
		{JSONOutput(JSONOutputOptions{}), `[1]`, []any{1.0}},
		{object, `{"a":1}`, map[string]any{"a": 1.0}},
	} {
		got, err := c.out.Parse(c.text)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
	for _, text := range []string{``, `{"a":"x"}`, `{}`} {
		_, err := object.Parse(text)
		var parse *OutputParseError
		if !errors.As(err, &parse) || parse.Text != text {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ObjectOutput(ObjectOutputOptions{}); err == nil {
		t.Error("an object without a schema was accepted")
	}
	if _, err := ObjectOutput(ObjectOutputOptions{Schema: json.RawMessage(`{"type":7}`)}); err == nil {
		t.Error("a broken schema was accepted")
	}
}

func TestStopConditions(t *testing.T) {
	steps := []StepResult{{}, {Content: []StepContent{ToolCall{ToolName: "done"}}}}
	for _, c := range []struct {
		stop StopCondition
		n    int
		want bool
	}{
		{StepCountIs(2), 1, false}, {StepCountIs(2), 2, true},
		{HasToolCall("done"), 0, false}, {HasToolCall("done"), 1, false}, {HasToolCall("done"), 2, true},
	} {
		if got := c.stop(StopConditionOptions{Steps: steps[:c.n]}); got != c.want {
			t.Errorf("after %d steps: %v", c.n, got)
		}
	}
}
