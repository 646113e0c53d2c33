package ai

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What a provider sent comes back to it as it was, also after it was written down and read again.
func TestRawItemsKeepTheirBytes(t *testing.T) {
	const raw = `{"b":"<a href=\"x\">&amp;</a>","z":1.0,"a":"é\u2028` + "\u2028" + `","n":12345678901234567890}`
	in := Message{Role: RoleAssistant, Content: []Part{
		ReasoningPart{Text: "<think> & more", Raw: &RawItem{Wire: "w", JSON: json.RawMessage(raw)}},
		TextPart{Text: "a < b && c > d", Raw: &RawItem{Wire: "w", JSON: json.RawMessage(raw)}},
		ToolCallPart{ToolCallID: "1", ToolName: "bash", Input: `{"command":"a <b >c && d"}`, Raw: &RawItem{Wire: "w", JSON: json.RawMessage(raw)}},
		ToolResultContent{ToolCallID: "1", ToolName: "bash", Output: ToolResultOutput{Type: OutputJSON, Value: json.RawMessage(raw)}},
	}}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		t.Fatal(err)
	}
	var out Message
	if err := json.Unmarshal(buf.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	for i, got := range []json.RawMessage{
		out.Content[0].(ReasoningPart).Raw.JSON, out.Content[1].(TextPart).Raw.JSON, out.Content[2].(ToolCallPart).Raw.JSON,
		out.Content[3].(ToolResultContent).Output.Value,
	} {
		if string(got) != raw {
			t.Errorf("part %d came back as %s", i, got)
		}
	}
	if p, err := MarshalPart(in.Content[1]); err != nil || !bytes.Contains(p, []byte("a < b && c > d")) {
		t.Errorf("part %s, %v", p, err)
	}
}

// A text that is kept decoded reads like one that was written down and read again.
func TestTextResultsReadAsTheirJSON(t *testing.T) {
	for _, text := range []string{"", "a < b\n", "é\u2028", "bad \xff\xfe bytes"} {
		for _, out := range []ToolResultOutput{TextResult(text), ErrorTextResult(text)} {
			b, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			var back ToolResultOutput
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			if back.Text() != out.Text() {
				t.Errorf("%q reads %q, and %q from its JSON", text, out.Text(), back.Text())
			}
		}
	}
}
