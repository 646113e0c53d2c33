package history_test

import (
	"encoding/json"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model/wire/history"
)

func TestResultsBelongToTheNearestCallsBeforeThem(t *testing.T) {
	result := func(id, text string) ai.Message {
		return ai.Message{Role: ai.RoleTool, Content: []ai.Part{ai.ToolResultContent{ToolCallID: id, Output: ai.TextResult(text)}}}
	}
	messages := []ai.Message{
		{Role: ai.RoleAssistant}, result("a", "first"), ai.UserMessage("hurry"), result("a", "again"), result("b", "late"),
		{Role: ai.RoleAssistant}, result("a", "of the next"),
	}
	found := history.Results(messages, 0)
	if len(found) != 2 || found["a"].Result.Output.Text() != "first" || found["b"].Place != (history.Place{Message: 4}) {
		t.Errorf("%+v", found)
	}
	if next := history.Results(messages, 5); len(next) != 1 || next["a"].Result.Output.Text() != "of the next" {
		t.Errorf("%+v", next)
	}
}

func TestOnlyTheWireAndModelThatMadeAnItemGetItBack(t *testing.T) {
	raw := &ai.RawItem{Wire: "w", Model: "m", JSON: json.RawMessage(`{"a":1}`)}
	if got, err := history.Replay(raw, "w", "m"); string(got) != `{"a":1}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	for _, c := range [][2]string{{"x", "m"}, {"w", "x"}} {
		if got, err := history.Replay(raw, c[0], c[1]); got != nil || err != nil {
			t.Errorf("%v: %s, %v", c, got, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{`, `"a"`} {
		if _, err := history.Replay(&ai.RawItem{Wire: "w", Model: "m", JSON: json.RawMessage(bad)}, "w", "m"); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestArgumentsBecomeAnObject(t *testing.T) {
	for in, want := range map[string]string{
		"": "{}", " ": "{}", `{"a":1}`: `{"a":1}`, ` {"a":1} `: `{"a":1}`, `[1]`: `{"arguments":"[1]"}`, `{"a":"<`: `{"arguments":"{\"a\":\"<"}`,
	} {
		if got := string(history.Object(in)); got != want {
			t.Errorf("%q: %s", in, got)
		}
	}
}

func TestAFailureSaysSoOnce(t *testing.T) {
	for in, want := range map[string]string{"no": "error: no", "Error: no": "Error: no", `{"error":{}}`: `{"error":{}}`, "": "error: "} {
		if got := history.Failed(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
