package anthropic_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/anthropic"
)

var update = flag.Bool("update", false, "write the golden files")

// recorder keeps the last request and answers "ok".
type recorder struct {
	header http.Header
	url    string
	body   []byte
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.header, r.url = req.Header, req.URL.String()
	var err error
	if r.body, err = io.ReadAll(req.Body); err != nil {
		return nil, err
	}
	return answerWith(http.StatusOK, nil, stream(block(0, `{"type":"text","text":"ok"}`), stop("end_turn"))), nil
}

func answerWith(status int, h http.Header, body string) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// sent returns the request that a request becomes.
func sent(t testing.TB, c anthropic.Config, req model.Request) (*recorder, error) {
	t.Helper()
	r := &recorder{}
	c.HTTPClient = &http.Client{Transport: r}
	a := modeltest.Collect(t.Context(), newClient(t, c), req)
	return r, a.Err
}

func call(id, name, input string) ai.ToolCallPart {
	return ai.ToolCallPart{ToolCallID: id, ToolName: name, Input: input}
}

func output(id string, o ai.ToolResultOutput) ai.ToolResultContent {
	return ai.ToolResultContent{ToolCallID: id, ToolName: "f", Output: o}
}

func result(id, text string) ai.ToolResultContent { return output(id, ai.TextResult(text)) }

func says(role ai.Role, parts ...ai.Part) ai.Message { return ai.Message{Role: role, Content: parts} }

func raw(m, s string) *ai.RawItem {
	return &ai.RawItem{Wire: anthropic.Wire, Model: m, JSON: json.RawMessage(s)}
}

func talk(messages ...ai.Message) model.Request { return model.Request{Messages: messages} }

func TestEncoding(t *testing.T) {
	half := 0.5
	const A, U, T = ai.RoleAssistant, ai.RoleUser, ai.RoleTool
	image := ai.FilePart{MediaType: "image/png", Data: []byte("PNG"), Filename: "a.png"}
	ask := ai.UserMessage("go")
	thought := ai.ReasoningPart{Text: "hm", Raw: raw("m", `{"type":"thinking","thinking":"hm","signature":"+/="}`)}
	for name, req := range map[string]model.Request{
		"plain": {System: "be <kind> & brief", Messages: []ai.Message{ai.SystemMessage("also here"), ai.UserMessage("hi"), says(A, ai.TextPart{Text: "hello"}), ai.UserMessage("bye")}},
		"options": {
			Messages: []ai.Message{ask}, MaxOutputTokens: 100, Temperature: &half, ReasoningEffort: "low", ToolChoice: model.ToolChoiceRequired,
			Tools:          []model.Tool{{Name: "f", Description: "does <f>", Schema: json.RawMessage(`{"$defs":{"x":{"enum":["<"]}},"type":"object","required":["b","a"],"additionalProperties":false}`)}, {Name: "g"}},
			ResponseSchema: json.RawMessage(`{"type":"object"}`),
		},
		"no-calls-wanted":              {Messages: []ai.Message{ask}, ToolChoice: model.ToolChoiceNone, Tools: []model.Tool{{Name: "g"}}},
		"thinking-budget":              {Messages: []ai.Message{ask}, ReasoningEffort: "2048"},
		"thinking-within-a-limit":      {Messages: []ai.Message{ask}, ReasoningEffort: "20000", MaxOutputTokens: 5000},
		"thinking-has-no-room":         {Messages: []ai.Message{ask}, ReasoningEffort: "20000", MaxOutputTokens: 2000},
		"thinking-after-a-switch":      {ReasoningEffort: "2048", Messages: []ai.Message{ask, says(A, call("c1", "f", "{}")), says(T, result("c1", "1")), says(A, thought, call("c2", "f", "{}")), says(T, result("c2", "2"))}},
		"thinking-in-a-turn":           {ReasoningEffort: "2048", Messages: []ai.Message{ask, says(A, call("c0", "f", "{}")), says(T, result("c0", "0")), says(A, ai.TextPart{Text: "done"}), ask, says(A, thought, call("c1", "f", "{}")), says(T, result("c1", "1")), says(A, call("c2", "f", "{}")), says(T, result("c2", "2"))}},
		"thinking-off":                 {Messages: []ai.Message{ask}, ReasoningEffort: "none"},
		"user-files":                   talk(says(U, ai.TextPart{Text: "see"}, image, ai.FilePart{MediaType: "application/pdf", Data: []byte("PDF"), Filename: "a.pdf"}, ai.FilePart{MediaType: "text/plain; charset=utf-8", Data: []byte("body"), Filename: "a.txt"}, ai.FilePart{MediaType: "audio/wav", Data: []byte("W")})),
		"turns-of-one-role-are-merged": talk(ai.UserMessage("a"), ai.UserMessage("b"), says(A, ai.TextPart{Text: "c"}), says(A, ai.TextPart{Text: "d"}), ai.SystemMessage("late"), ai.UserMessage("e")),
		"results-stand-first":          talk(ask, says(A, ai.TextPart{Text: "both"}, call("c1", "f", `{"a":1}`), call("c2", "f", "")), says(T, result("c2", "two")), ai.UserMessage("hurry"), says(T, result("c1", "one"))),
		"orphans":                      talk(ask, says(T, result("c0", "no call asked for this")), says(A, call("c1", "f", "{}"), call("c2", "f", "{}")), says(T, result("c2", "two"), result("c2", "again")), says(A, ai.TextPart{Text: "done"}), says(T, result("c1", "too late"))),
		"ids-of-other-wires":           talk(ask, says(A, call("a:b", "f", "{}"), call("a b", "f", "{}"), call("", "f", "{}")), says(T, result("a:b", "1"), result("a b", "2"), result("", "3"))),
		"files-in-results":             talk(ask, says(A, call("c1", "shot", "{}")), says(T, output("c1", ai.ContentResult("here", image, ai.FilePart{MediaType: "application/zip", Data: []byte("ZIP"), Filename: "a.zip"})))),
		"kinds-of-results":             talk(ask, says(A, call("c1", "f", "{}"), call("c2", "f", "{}"), call("c3", "f", "{}"), call("c4", "f", "{}")), says(T, output("c1", ai.ErrorTextResult("no such file")), output("c2", ai.ToolResultOutput{Type: ai.OutputJSON, Value: json.RawMessage(`{"n":1.0}`)}), output("c3", ai.ToolResultOutput{Type: ai.OutputExecutionDenied, Reason: "not today"}), result("c4", ""))),
		"arguments-that-are-no-object": talk(ask, says(A, call("c1", "f", `{"a": "<b`), call("c2", "f", `[1]`)), says(T, result("c1", "bad"), result("c2", "bad"))),
		"raw-blocks-of-this-wire":      talk(ask, says(A, ai.ReasoningPart{Text: "hm", Raw: raw("m", `{"type":"thinking","thinking":"hm","signature":"+/="}`)}, ai.ReasoningPart{Raw: raw("m", `{"type":"redacted_thinking","data":"<x>"}`)}, ai.TextPart{Raw: raw("m", `{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":"1 < 2"}}`)}, ai.ToolCallPart{ToolCallID: "made", ToolName: "f", Input: "{}", Raw: raw("m", `{"type":"tool_use","id":"as-sent","name":"f","input":{"a":1.0}}`)}), says(T, result("made", "one"))),
		"raw-blocks-of-another":        talk(ask, says(A, ai.ReasoningPart{Text: "hm", Raw: raw("other", `{"type":"thinking","thinking":"hm","signature":"x"}`)}, ai.TextPart{Text: "a", Raw: &ai.RawItem{Wire: "chat", Model: "m", JSON: json.RawMessage(`{"x":1}`)}}, call("c2", "f", "{}")), says(T, result("c2", "r")), says(A, ai.ReasoningPart{Text: "only"}), ai.UserMessage("on")),
		"nothing-to-send-is-left-out":  talk(says(U, ai.TextPart{Text: " "}), ai.SystemMessage(""), ask, says(A, ai.TextPart{Text: "\n"}), says(A), says(A, ai.ToolCallPart{ToolCallID: "p", ToolName: "search", ProviderExecuted: true})),
		"an-answer-to-continue":        talk(ask, says(A, ai.TextPart{Text: "and so \n"})),
		"reasoning-alone":              talk(ask, says(A, thought), ai.UserMessage("on"), says(A, thought, ai.TextPart{Text: "a"}, thought), ai.UserMessage("and on")),
		"calls-of-the-server":          talk(ask, says(A, ai.ToolCallPart{ToolCallID: "s", ToolName: "web_search", ProviderExecuted: true, Raw: raw("m", `{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`)}, ai.TextPart{Text: "a"}), ai.UserMessage("on")),
		"ids-that-occur-twice":         talk(ask, says(A, call("c", "f", "{}"), call("c", "g", "{}")), says(T, result("c", "1")), says(A, ai.ToolCallPart{ToolCallID: "c", ToolName: "f", Input: "{}", Raw: raw("m", `{"type":"tool_use","id":"c","name":"f","input":{}}`)}), says(T, result("c", "2"))),
		"failures-that-say-nothing":    talk(ask, says(A, call("c", "f", "{}")), says(T, output("c", ai.ErrorTextResult(" ")))),
		"empty-files":                  talk(says(U, ai.FilePart{MediaType: "image/png", Filename: "a.png"}, ai.FilePart{MediaType: "application/pdf"})),
		"an-answer-stands-first":       talk(says(A, ai.TextPart{Text: "a summary"}), ai.UserMessage("on")),
		"marks-of-a-long-conversation": talk(ask, says(A, ai.TextPart{Text: "1"}), ask, says(A, ai.TextPart{Text: "2"}), ask, says(A, ai.TextPart{Text: "3"}), ask),
	} {
		t.Run(name, func(t *testing.T) {
			req.Model = "m"
			r, err := sent(t, anthropic.Config{}, req)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, r.body, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", "requests", name+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("the request differs from %s:\n%s", file, got.String())
			}
			if n := strings.Count(got.String(), "cache_control"); n > 4 {
				t.Errorf("%d cache marks; the wire takes 4", n)
			}
		})
	}
}

func TestRequestsThatCannotWorkAreRefused(t *testing.T) {
	for want, req := range map[string]model.Request{
		"names no model":            {Messages: []ai.Message{ai.UserMessage("a")}},
		"no message":                {Model: "m"},
		"is negative":               {Model: "m", MaxOutputTokens: -1, Messages: []ai.Message{ai.UserMessage("a")}},
		"is at least 1024":          {Model: "m", ReasoningEffort: "1000", Messages: []ai.Message{ai.UserMessage("a")}},
		`the schema of tool "f"`:    {Model: "m", Tools: []model.Tool{{Name: "f", Schema: json.RawMessage(`{`)}}, Messages: []ai.Message{ai.UserMessage("a")}},
		"the response schema":       {Model: "m", ResponseSchema: json.RawMessage(`{`), Messages: []ai.Message{ai.UserMessage("a")}},
		`tool choice "f"`:           {Model: "m", Tools: []model.Tool{{Name: "f"}}, ToolChoice: "f", Messages: []ai.Message{ai.UserMessage("a")}},
		"unknown role":              {Model: "m", Messages: []ai.Message{{Role: "robot"}}},
		"raw form of the reasoning": {Model: "m", Messages: []ai.Message{says(ai.RoleAssistant, ai.ReasoningPart{Raw: raw("m", `[`)})}},
	} {
		_, err := sent(t, anthropic.Config{}, req)
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrInvalidRequest || !strings.Contains(e.Message, want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}
