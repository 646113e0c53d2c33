package responses_test

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
	"github.com/harness-go/harness/model/wire/responses"
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
	return answerWith(http.StatusOK, nil, stream(done(0, message("ok")), completed)), nil
}

func answerWith(status int, h http.Header, body string) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// sent returns the request that a request becomes.
func sent(t testing.TB, c responses.Config, req model.Request) (*recorder, error) {
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
	return &ai.RawItem{Wire: responses.Wire, Model: m, JSON: json.RawMessage(s)}
}

func talk(messages ...ai.Message) model.Request { return model.Request{Messages: messages} }

func TestEncoding(t *testing.T) {
	half := 0.5
	const A, U, T = ai.RoleAssistant, ai.RoleUser, ai.RoleTool
	image := ai.FilePart{MediaType: "image/png", Data: []byte("PNG"), Filename: "a.png"}
	ask := ai.UserMessage("go")
	for name, req := range map[string]model.Request{
		"plain": {System: "be <kind> & brief", SessionID: "s1", Messages: []ai.Message{ai.SystemMessage("also here"), ai.UserMessage("hi"), says(A, ai.TextPart{Text: "hello"}), ai.UserMessage("bye")}},
		"options": {
			Messages: []ai.Message{ask}, MaxOutputTokens: 100, Temperature: &half, ReasoningEffort: "low", ToolChoice: model.ToolChoiceRequired, SessionID: strings.Repeat("s", 70),
			Tools:          []model.Tool{{Name: "f", Description: "does <f>", Schema: json.RawMessage(`{"$defs":{"x":{"enum":["<"]}},"type":"object","required":["b","a"],"additionalProperties":false}`)}, {Name: "g"}},
			ResponseSchema: json.RawMessage(`{"type":"object"}`),
		},
		"reasoning-off":               {Messages: []ai.Message{ask}, ReasoningEffort: "none"},
		"user-files":                  talk(says(U, ai.TextPart{Text: "see"}, image, ai.FilePart{MediaType: "application/pdf", Data: []byte("PDF")}, ai.FilePart{MediaType: "text/plain; charset=utf-8", Data: []byte("body"), Filename: "a.txt"}, ai.FilePart{MediaType: "audio/wav", Data: []byte("W")})),
		"outputs-behind-their-calls":  talk(ask, says(A, ai.TextPart{Text: "both"}, call("c1", "f", `{"a":1}`), call("c2", "f", "")), says(T, result("c2", "two")), ai.UserMessage("hurry"), says(T, result("c1", "one"))),
		"orphans":                     talk(ask, says(T, result("c0", "no call asked for this")), says(A, call("c1", "f", "{}"), call("c2", "f", "{}")), says(T, result("c2", "two"), result("c2", "again")), says(A, ai.TextPart{Text: "done"}), says(T, result("c1", "too late"))),
		"ids-that-are-too-long":       talk(ask, says(A, call(strings.Repeat("x", 65), "f", "{}")), says(T, result(strings.Repeat("x", 65), "1"))),
		"files-in-results":            talk(ask, says(A, call("c1", "shot", "{}"), call("c2", "f", "{}")), says(T, output("c1", ai.ContentResult("here", image, ai.FilePart{MediaType: "application/zip", Data: []byte("ZIP"), Filename: "a.zip"})), output("c2", ai.ContentResult("text alone")))),
		"kinds-of-results":            talk(ask, says(A, call("c1", "f", "{}"), call("c2", "f", "{}"), call("c3", "f", "{}"), call("c4", "f", "{}"), call("c5", "f", "{}"), call("c6", "f", "{}")), says(T, output("c1", ai.ErrorTextResult("no such file")), output("c5", ai.ErrorTextResult("Error: said so")), output("c6", ai.ToolResultOutput{Type: ai.OutputErrorJSON, Value: json.RawMessage(`{"code":1}`)}), output("c2", ai.ToolResultOutput{Type: ai.OutputJSON, Value: json.RawMessage(`{"n":1.0}`)}), output("c3", ai.ToolResultOutput{Type: ai.OutputExecutionDenied, Reason: "not today"}), result("c4", ""))),
		"arguments-stay-as-they-are":  talk(ask, says(A, call("c1", "f", `{"a": "<b`), call("c2", "f", `[1]`)), says(T, result("c1", "bad"), result("c2", "bad"))),
		"raw-items-of-this-wire":      talk(ask, says(A, ai.ReasoningPart{Text: "hm", Raw: raw("m", `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"+/="}`)}, ai.TextPart{Text: "a", Raw: raw("m", `{"id":"msg_1","type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"a <b>"}]}`)}, ai.TextPart{Raw: raw("m", `{"type":"web_search_call","id":"ws"}`)}, ai.ToolCallPart{ToolCallID: "made", ToolName: "f", Input: "{}", Raw: raw("m", `{"id":"fc_1","type":"function_call","call_id":"as-sent","name":"f","arguments":"{ }"}`)}), says(T, result("made", "one"))),
		"reasoning-without-its-item":  talk(ask, says(A, ai.ReasoningPart{Text: "cut", Raw: raw("m", `{"type":"reasoning","encrypted_content":"1"}`)}), ai.UserMessage("on"), says(A, ai.TextPart{Text: "a", Raw: raw("m", `{"type":"message","id":"msg_1"}`)}, ai.ReasoningPart{Raw: raw("m", `{"type":"reasoning","encrypted_content":"2"}`)}, ai.ToolCallPart{ToolName: "search", ProviderExecuted: true}), ai.UserMessage("and on")),
		"raw-items-of-another":        talk(ask, says(A, ai.ReasoningPart{Text: "hm", Raw: raw("other", `{"type":"reasoning"}`)}, ai.TextPart{Text: "a", Raw: &ai.RawItem{Wire: "chat", Model: "m", JSON: json.RawMessage(`{"x":1}`)}}, ai.ToolCallPart{ToolCallID: "c2", ToolName: "f", Input: "{}", Raw: raw("other", `{"type":"function_call","call_id":"z"}`)}), says(T, result("c2", "r"))),
		"nothing-to-send-is-left-out": talk(says(U, ai.TextPart{}), ai.SystemMessage(""), ask, says(A, ai.TextPart{}), says(A), says(A, ai.ToolCallPart{ToolCallID: "p", ToolName: "search", ProviderExecuted: true})),
	} {
		t.Run(name, func(t *testing.T) {
			req.Model = "m"
			r, err := sent(t, responses.Config{}, req)
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
		})
	}
}

func TestRequestsThatCannotWorkAreRefused(t *testing.T) {
	hi := []ai.Message{ai.UserMessage("a")}
	for want, req := range map[string]model.Request{
		"names no model":            {Messages: hi},
		"no message":                {Model: "m"},
		"is negative":               {Model: "m", MaxOutputTokens: -1, Messages: hi},
		`the schema of tool "f"`:    {Model: "m", Tools: []model.Tool{{Name: "f", Schema: json.RawMessage(`{`)}}, Messages: hi},
		"the response schema":       {Model: "m", ResponseSchema: json.RawMessage(`{`), Messages: hi},
		`tool choice "f"`:           {Model: "m", Tools: []model.Tool{{Name: "f"}}, ToolChoice: "f", Messages: hi},
		"unknown role":              {Model: "m", Messages: []ai.Message{{Role: "robot"}}},
		"raw form of the reasoning": {Model: "m", Messages: []ai.Message{says(ai.RoleAssistant, ai.ReasoningPart{Raw: raw("m", `[`)})}},
		"not a function_call":       {Model: "m", Messages: []ai.Message{says(ai.RoleAssistant, ai.ToolCallPart{ToolCallID: "c", Raw: raw("m", `{}`)})}},
	} {
		_, err := sent(t, responses.Config{}, req)
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrInvalidRequest || !strings.Contains(e.Message, want) {
			t.Errorf("%s: error %v", want, err)
		}
	}
}
