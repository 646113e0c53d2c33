package chat_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/chat"
)

var update = flag.Bool("update", false, "write the golden files")

// recorder keeps the last request and answers "ok".
type recorder struct {
	header http.Header
	path   string
	body   []byte
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.header, r.path = req.Header, req.URL.RequestURI()
	var err error
	if r.body, err = io.ReadAll(req.Body); err != nil {
		return nil, err
	}
	return answerWith(http.StatusOK, nil, stream(choice(`{"content":"ok"}`, "stop"))), nil
}

func answerWith(status int, h http.Header, body string) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// sent returns the body that a request becomes.
func sent(t testing.TB, c chat.Config, req model.Request) (*recorder, error) {
	t.Helper()
	r := &recorder{}
	c.BaseURL, c.HTTPClient = "http://host/v1", &http.Client{Transport: r}
	a := modeltest.Collect(t.Context(), newClient(t, c), req)
	return r, a.Err
}

func call(id, name, input string) ai.ToolCallPart {
	return ai.ToolCallPart{ToolCallID: id, ToolName: name, Input: input}
}

func result(id, text string) ai.ToolResultContent {
	return ai.ToolResultContent{ToolCallID: id, ToolName: "f", Output: ai.TextResult(text)}
}

func assistantSays(parts ...ai.Part) ai.Message {
	return ai.Message{Role: ai.RoleAssistant, Content: parts}
}
func toolSays(parts ...ai.Part) ai.Message { return ai.Message{Role: ai.RoleTool, Content: parts} }
func userSays(parts ...ai.Part) ai.Message { return ai.Message{Role: ai.RoleUser, Content: parts} }

func raw(wire, m, s string) *ai.RawItem {
	return &ai.RawItem{Wire: wire, Model: m, JSON: json.RawMessage(s)}
}

func TestEncoding(t *testing.T) {
	half := 0.5
	image := ai.FilePart{MediaType: "image/png", Data: []byte("PNG")}
	content := func(parts ...string) ai.ToolResultOutput {
		return ai.ToolResultOutput{Type: ai.OutputContent, Value: json.RawMessage("[" + strings.Join(parts, ",") + "]")}
	}
	for name, c := range map[string]struct {
		config chat.Config
		req    model.Request
	}{
		"plain": {req: model.Request{System: "be <kind> & brief", Messages: []ai.Message{ai.UserMessage("hi"), assistantSays(ai.TextPart{Text: "hello"}), ai.UserMessage("bye")}}},
		"options": {
			config: chat.Config{MaxTokensField: chat.MaxCompletionTokens, PromptCacheKey: true, OmitStreamOptions: true},
			req: model.Request{
				Messages: []ai.Message{ai.UserMessage("hi")}, MaxOutputTokens: 100, Temperature: &half, ReasoningEffort: "low", SessionID: "s1",
				ToolChoice:     model.ToolChoiceRequired,
				Tools:          []model.Tool{{Name: "f", Description: "does <f>", Schema: json.RawMessage(`{"$defs":{"x":{"enum":["<"]}},"type":"object","required":["b","a"],"additionalProperties":false}`)}, {Name: "g"}},
				ResponseSchema: json.RawMessage(`{"type":"object"}`),
			},
		},
		"default-names":               {req: model.Request{Messages: []ai.Message{ai.UserMessage("hi")}, MaxOutputTokens: 100, SessionID: "s1", ToolChoice: model.ToolChoiceRequired}},
		"user-files":                  {req: model.Request{Messages: []ai.Message{userSays(ai.TextPart{Text: "see"}, image, ai.FilePart{MediaType: "application/pdf", Data: []byte("PDF")}, ai.FilePart{MediaType: "text/plain", Data: []byte("body"), Filename: "a.txt"}, ai.FilePart{MediaType: "audio/wav", Data: []byte("W")})}}},
		"results-in-call-order":       {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), assistantSays(ai.TextPart{Text: "both"}, call("c1", "f", `{"a":1}`), call("c2", "f", "")), toolSays(result("c2", "two")), ai.UserMessage("hurry"), toolSays(result("c1", "one"))}}},
		"orphans":                     {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), toolSays(result("c0", "no call asked for this")), assistantSays(call("c1", "f", "{}"), call("c2", "f", "{}")), toolSays(result("c2", "two"), result("c2", "again"), result("c9", "stray")), assistantSays(ai.TextPart{Text: "done"}), toolSays(result("c1", "too late"))}}},
		"ids-used-again":              {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), assistantSays(call("c", "f", "{}")), toolSays(result("c", "first")), assistantSays(call("c", "f", "{}")), toolSays(result("c", "second"))}}},
		"images-behind-all-results":   {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), assistantSays(call("c1", "shot", "{}"), call("c2", "f", "{}")), toolSays(ai.ToolResultContent{ToolCallID: "c1", ToolName: "shot", Output: content(`{"type":"text","text":"here"}`, `{"type":"file","mediaType":"image/png","data":"UE5H"}`, `{"type":"media","mediaType":"video/mp4","data":"UE5H"}`)}, result("c2", "two")), ai.UserMessage("nice")}}},
		"kinds-of-results":            {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), assistantSays(call("c1", "f", "{}"), call("c2", "f", "{}"), call("c3", "f", "{}")), toolSays(ai.ToolResultContent{ToolCallID: "c1", Output: ai.ErrorTextResult("no such file")}, ai.ToolResultContent{ToolCallID: "c2", Output: ai.ToolResultOutput{Type: ai.OutputJSON, Value: json.RawMessage(`{"n":1}`)}}, ai.ToolResultContent{ToolCallID: "c3", Output: ai.ToolResultOutput{Type: ai.OutputExecutionDenied, Reason: "not today"}})}}},
		"invalid-arguments-stay":      {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), assistantSays(call("c1", "f", `{"a": "<b`)), toolSays(result("c1", "bad"))}}},
		"raw-items-of-this-wire":      {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), assistantSays(ai.ReasoningPart{Text: "hm", Raw: raw("chat", "m", `{"reasoning_content":"hm","role":"user"}`)}, ai.ToolCallPart{ToolCallID: "c", ToolName: "f", Input: "{}", Raw: raw("chat", "m", `{"extra_content":{"sig":"<x>"}, "id":"other"}`)}), toolSays(result("c", "r"))}}},
		"raw-items-of-another":        {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), assistantSays(ai.ReasoningPart{Text: "hm", Raw: raw("chat", "other", `{"reasoning_content":"hm"}`)}, ai.TextPart{Text: "a"}), assistantSays(ai.ReasoningPart{Text: "only", Raw: raw("anthropic", "m", `{"signature":"x"}`)}), ai.UserMessage("on")}}},
		"reasoning-alone":             {req: model.Request{Messages: []ai.Message{ai.UserMessage("go"), assistantSays(ai.ReasoningPart{Text: "hm", Raw: raw("chat", "m", `{"reasoning_content":"hm"}`)}), ai.UserMessage("on")}}},
		"nothing-to-send-is-left-out": {req: model.Request{Messages: []ai.Message{userSays(ai.TextPart{}), ai.SystemMessage(""), ai.SystemMessage("late"), ai.UserMessage("go"), assistantSays(ai.TextPart{}), assistantSays(), assistantSays(ai.ToolCallPart{ToolCallID: "p", ToolName: "search", ProviderExecuted: true})}}},
		"bytes-that-are-no-utf8":      {req: model.Request{Messages: []ai.Message{ai.UserMessage("a\xffb")}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.req.Model = "m"
			r, err := sent(t, c.config, c.req)
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
			strict(t, r.body)
		})
	}
}

// strict is what the strictest server checks: every call answered once, directly behind its turn and in order, and no
// result without a call.
func strict(t testing.TB, body []byte) {
	t.Helper()
	var req struct {
		Messages []struct {
			Role       string
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatalf("the body is not JSON: %v", err)
	}
	var open []string
	for i, m := range req.Messages {
		if m.Role == "tool" {
			if len(open) == 0 || open[0] != m.ToolCallID {
				t.Fatalf("message %d answers %q, next open are %q\n%s", i, m.ToolCallID, open, body)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			t.Fatalf("message %d comes before the results of %q\n%s", i, open, body)
		}
		for _, c := range m.ToolCalls {
			if c.Function.Arguments == "" {
				t.Fatalf("message %d has a call with empty arguments", i)
			}
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 {
		t.Fatalf("calls %q have no results\n%s", open, body)
	}
}

func TestRequestsThatCannotBeSentAreRefusedBeforeTheCall(t *testing.T) {
	for name, c := range map[string]struct {
		req  model.Request
		want string
	}{
		"no model":         {model.Request{Messages: []ai.Message{ai.UserMessage("x")}}, "names no model"},
		"no message":       {model.Request{Model: "m"}, "holds no message"},
		"schema":           {model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("x")}, Tools: []model.Tool{{Name: "f", Schema: json.RawMessage("{")}}}, `schema of tool "f"`},
		"response schema":  {model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("x")}, ResponseSchema: json.RawMessage("{")}, "response schema"},
		"tool choice":      {model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("x")}, Tools: []model.Tool{{Name: "f"}}, ToolChoice: "f"}, `tool choice "f"`},
		"limit":            {model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("x")}, MaxOutputTokens: -1}, "MaxOutputTokens"},
		"role":             {model.Request{Model: "m", Messages: []ai.Message{{Role: "robot"}}}, `role "robot"`},
		"file type":        {model.Request{Model: "m", Messages: []ai.Message{userSays(ai.FilePart{MediaType: "video/mp4"})}}, `"video/mp4"`},
		"managed header":   {model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("x")}, Headers: map[string]string{"authorization": "Bearer x"}}, "Authorization is managed"},
		"split header":     {model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("x")}, Headers: map[string]string{"X-A": "b\r\nX-C: d"}}, "X-A"},
		"no header name":   {model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("x")}, Headers: map[string]string{"X A": "b"}}, "not a header name"},
		"result's content": {model.Request{Model: "m", Messages: []ai.Message{assistantSays(call("c", "f", "{}")), toolSays(ai.ToolResultContent{ToolCallID: "c", Output: ai.ToolResultOutput{Type: ai.OutputContent, Value: json.RawMessage(`[{"type":"hologram"}]`)}})}}, `"hologram"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sent(t, chat.Config{}, c.req)
			e, ok := model.AsError(err)
			if !ok || e.Kind != model.ErrInvalidRequest || !strings.Contains(e.Message, c.want) {
				t.Errorf("error %v, want one that names %q", err, c.want)
			}
			if r.body != nil {
				t.Error("the call was made")
			}
		})
	}
}

func TestWhatAServerSentComesBack(t *testing.T) {
	const (
		details = `[{"type":"reasoning.encrypted","data":"a+/=<","index":0,"n":1.0}]`
		extra   = `{"google":{"thought_signature":"+/=&"}}`
		args    = `{\"a\": 1.0}`
	)
	a := decode(stream(
		choice(`{"reasoning":"h","reasoning_details":`+details+`}`, ""),
		choice(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"`+args+`"},"extra_content":`+extra+`}]}`, "tool_calls")))
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	turn := ai.Message{Role: ai.RoleAssistant, Content: a.Content}
	replay := func(turn ai.Message) string {
		r, err := sent(t, chat.Config{}, model.Request{Model: "asked", Messages: []ai.Message{ai.UserMessage("go"), turn}})
		if err != nil {
			t.Fatal(err)
		}
		return string(r.body)
	}
	direct := replay(turn)
	for _, want := range []string{`"reasoning":"h"`, `"reasoning_details":` + details, `"arguments":"` + args + `"`, `"extra_content":` + extra} {
		if !strings.Contains(direct, want) {
			t.Errorf("the request lacks %s:\n%s", want, direct)
		}
	}
	// Through storage, JSON may write a character another way, but nothing else changes.
	stored, err := json.Marshal(turn)
	if err != nil {
		t.Fatal(err)
	}
	var loaded ai.Message
	if err := json.Unmarshal(stored, &loaded); err != nil {
		t.Fatal(err)
	}
	unescaped := strings.NewReplacer(`\u003c`, "<", `\u0026`, "&").Replace(replay(loaded))
	if unescaped != direct {
		t.Errorf("after storage\n%s\nbefore\n%s", unescaped, direct)
	}
}

// FuzzEncode holds that whatever order calls and results have in a history, the request passes the strictest server.
func FuzzEncode(f *testing.F) {
	f.Add([]byte("uacrt"), "x")
	f.Add([]byte("accrrrtuaccurr"), "\xff")
	f.Fuzz(func(t *testing.T, plan []byte, text string) {
		req := model.Request{Model: "m", Messages: []ai.Message{ai.UserMessage("begin")}}
		for i, b := range plan {
			id := fmt.Sprintf("c%d", b%5)
			var m ai.Message
			switch b % 6 {
			case 0:
				m = userSays(ai.TextPart{Text: text})
			case 1:
				m = assistantSays(call(id, "f", text), call(id+"x", "f", "{}"))
			case 2:
				m = toolSays(result(id, text), result(id+"x", text))
			case 3:
				m = assistantSays(ai.TextPart{Text: text}, call(fmt.Sprint(i), "g", text))
			case 4:
				m = toolSays(result(fmt.Sprint(i-1), text))
			case 5:
				m = assistantSays(ai.ReasoningPart{Text: text})
			}
			req.Messages = append(req.Messages, m)
		}
		r, err := sent(t, chat.Config{}, req)
		if err != nil {
			t.Fatal(err)
		}
		strict(t, r.body)
	})
}
