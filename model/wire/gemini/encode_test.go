package gemini_test

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
	"github.com/harness-go/harness/model/wire/gemini"
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
	return answerWith(http.StatusOK, nil, stream(parts(`{"text":"ok"}`, "STOP"))), nil
}

func answerWith(status int, h http.Header, body string) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// sent returns the request that a request becomes.
func sent(t testing.TB, c gemini.Config, req model.Request) (*recorder, error) {
	t.Helper()
	r := &recorder{}
	c.HTTPClient = &http.Client{Transport: r}
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

func rawCall(id, name, s string) ai.ToolCallPart {
	return ai.ToolCallPart{ToolCallID: id, ToolName: name, Input: "{}", Raw: raw("gemini", "m", s)}
}

func output(id string, o ai.ToolResultOutput) ai.ToolResultContent {
	return ai.ToolResultContent{ToolCallID: id, ToolName: "f", Output: o}
}

func talk(messages ...ai.Message) model.Request { return model.Request{Messages: messages} }

func TestEncoding(t *testing.T) {
	half := 0.5
	image := ai.FilePart{MediaType: "image/png", Data: []byte("PNG")}
	content := func(parts ...string) ai.ToolResultOutput {
		return ai.ToolResultOutput{Type: ai.OutputContent, Value: json.RawMessage("[" + strings.Join(parts, ",") + "]")}
	}
	ask := ai.UserMessage("go")
	for name, req := range map[string]model.Request{
		"plain": {System: "be <kind> & brief", Messages: []ai.Message{ai.SystemMessage("also here"), ai.UserMessage("hi"), assistantSays(ai.TextPart{Text: "hello"}), ai.UserMessage("bye")}},
		"options": {
			Messages: []ai.Message{ask}, MaxOutputTokens: 100, Temperature: &half, ReasoningEffort: "low", SessionID: "s1",
			ToolChoice:     model.ToolChoiceRequired,
			Tools:          []model.Tool{{Name: "f", Description: "does <f>", Schema: json.RawMessage(`{"$defs":{"x":{"enum":["<"]}},"type":"object","required":["b","a"],"additionalProperties":false}`)}, {Name: "g"}},
			ResponseSchema: json.RawMessage(`{"type":"object"}`),
		},
		"no-calls-wanted":               {Messages: []ai.Message{ask}, ToolChoice: model.ToolChoiceNone, Tools: []model.Tool{{Name: "g"}}},
		"thinking-budget":               {Messages: []ai.Message{ask}, ReasoningEffort: "2048"},
		"thinking-off":                  {Messages: []ai.Message{ask}, ReasoningEffort: "none"},
		"user-files":                    talk(userSays(ai.TextPart{Text: "see"}, image, ai.FilePart{MediaType: "application/pdf", Data: []byte("PDF")}, ai.FilePart{MediaType: "text/plain; charset=utf-8", Data: []byte("body"), Filename: "a.txt"}, ai.FilePart{MediaType: "audio/wav", Data: []byte("W")}, ai.FilePart{MediaType: "video/mp4", Data: []byte("V")})),
		"turns-of-one-role-are-merged":  talk(ai.UserMessage("a"), ai.UserMessage("b"), assistantSays(ai.TextPart{Text: "c"}), assistantSays(ai.TextPart{Text: "d"}), ai.SystemMessage("late"), ai.UserMessage("e")),
		"results-in-call-order":         talk(ask, assistantSays(ai.TextPart{Text: "both"}, call("c1", "f", `{"a":1}`), call("c2", "f", "")), toolSays(result("c2", "two")), ai.UserMessage("hurry"), toolSays(result("c1", "one"))),
		"orphans":                       talk(ask, toolSays(result("c0", "no call asked for this")), assistantSays(call("c1", "f", "{}"), call("c2", "f", "{}")), toolSays(result("c2", "two"), result("c2", "again"), result("c9", "stray")), assistantSays(ai.TextPart{Text: "done"}), toolSays(result("c1", "too late"))),
		"ids-used-again":                talk(ask, assistantSays(call("c", "f", "{}")), toolSays(result("c", "first")), assistantSays(call("c", "f", "{}")), toolSays(result("c", "second"))),
		"files-in-results":              talk(ask, assistantSays(call("c1", "shot", "{}"), call("c2", "f", "{}")), toolSays(output("c1", content(`{"type":"text","text":"here"}`, `{"type":"file","mediaType":"image/png","data":"UE5H"}`, `{"type":"file","mediaType":"application/pdf","data":"UE5H"}`, `{"type":"media","mediaType":"audio/wav","data":"UE5H","filename":"a.wav"}`, `{"type":"file","mediaType":"application/zip","data":"UE5H"}`, `{"type":"file","mediaType":"text/plain","data":"UE5H"}`)), result("c2", "two")), ai.UserMessage("nice")),
		"kinds-of-results":              talk(ask, assistantSays(call("c1", "f", "{}"), call("c2", "f", "{}"), call("c3", "f", "{}"), call("c4", "f", "{}"), call("c5", "f", "{}")), toolSays(output("c1", ai.ErrorTextResult("no such file")), output("c2", ai.ToolResultOutput{Type: ai.OutputJSON, Value: json.RawMessage(`{"n":1.0}`)}), output("c3", ai.ToolResultOutput{Type: ai.OutputExecutionDenied, Reason: "not today"}), output("c4", ai.ToolResultOutput{Type: ai.OutputErrorJSON, Value: json.RawMessage(`[1]`)}), output("c5", ai.TextResult("")))),
		"arguments-that-are-no-object":  talk(ask, assistantSays(call("c1", "f", `{"a": "<b`), call("c2", "f", `[1]`)), toolSays(result("c1", "bad"), result("c2", "bad"))),
		"raw-items-of-this-wire":        talk(ask, assistantSays(ai.ReasoningPart{Text: "hm", Raw: raw("gemini", "m", `{"text":"hm","thought":true,"thoughtSignature":"+/="}`)}, ai.TextPart{Text: "a"}, ai.TextPart{Raw: raw("gemini", "m", `{"executableCode":{"code":"1 < 2"}}`)}, rawCall("made", "f", `{"thoughtSignature":"<x>","functionCall":{"args":{"a":1.0},"name":"f"}}`), rawCall("renamed", "f", `{"functionCall":{"id":"as-sent","name":"f","args":{}}}`), ai.TextPart{Raw: raw("gemini", "m", `{"text":"","thoughtSignature":"ZQ=="}`)}), toolSays(result("made", "one"), result("renamed", "two"))),
		"raw-items-of-another":          talk(ask, assistantSays(ai.ReasoningPart{Text: "hm", Raw: raw("gemini", "other", `{"text":"hm","thoughtSignature":"x"}`)}, ai.TextPart{Text: "a", Raw: raw("chat", "m", `{"x":1}`)}, ai.ToolCallPart{ToolCallID: "c1", ToolName: "f", Input: `{"n":1}`, Raw: raw("gemini", "other", `{"functionCall":{},"thoughtSignature":"x"}`)}, call("c2", "f", "{}")), toolSays(result("c1", "r"), result("c2", "r")), assistantSays(ai.ReasoningPart{Text: "only", Raw: raw("anthropic", "m", `{"signature":"x"}`)}), ai.UserMessage("on")),
		"plain-thoughts-stay-here":      talk(ask, assistantSays(ai.ReasoningPart{Text: "hm"}, ai.TextPart{Text: "a"}), ai.UserMessage("on")),
		"nothing-to-send-is-left-out":   talk(userSays(ai.TextPart{}), ai.SystemMessage(""), ask, ai.SystemMessage(""), assistantSays(ai.TextPart{}), assistantSays(), assistantSays(ai.ToolCallPart{ToolCallID: "p", ToolName: "search", ProviderExecuted: true})),
		"bytes-that-are-no-utf8":        talk(ai.UserMessage("a\xffb")),
		"the-prefix-of-lists-is-no-tag": {Model: "models/m", Messages: []ai.Message{ask, assistantSays(ai.TextPart{Text: "a", Raw: raw("gemini", "models/m", `{"text":"a","thoughtSignature":"eA=="}`)})}},
	} {
		t.Run(name, func(t *testing.T) {
			if req.Model == "" {
				req.Model = "m"
			}
			r, err := sent(t, gemini.Config{}, req)
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

// strict is what the strictest server checks: turns alternate, no part is empty, every call is answered once, in the
// turn directly behind its own and before anything else, and no result lacks its call.
func strict(t testing.TB, body []byte) {
	t.Helper()
	var req struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text         *string
				FunctionCall *struct {
					ID, Name string
					Args     json.RawMessage
				}
				FunctionResponse *struct {
					ID, Name string
					Response map[string]json.RawMessage
				}
			}
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		t.Fatalf("the body is not JSON: %v", err)
	}
	var open []string
	for i, c := range req.Contents {
		if len(c.Parts) == 0 || (i > 0 && c.Role == req.Contents[i-1].Role) {
			t.Fatalf("content %d is empty or follows one of its role\n%s", i, body)
		}
		for n, p := range c.Parts {
			switch {
			case p.FunctionResponse != nil:
				if c.Role != "user" || len(open) == 0 || open[0] != p.FunctionResponse.ID+" "+p.FunctionResponse.Name {
					t.Fatalf("content %d part %d answers %+v, next open are %q\n%s", i, n, p.FunctionResponse, open, body)
				}
				if len(p.FunctionResponse.Response) != 1 {
					t.Fatalf("content %d part %d has the response %v", i, n, p.FunctionResponse.Response)
				}
				open = open[1:]
			case len(open) > 0 && c.Role == "user":
				t.Fatalf("content %d part %d comes before the results of %q\n%s", i, n, open, body)
			case p.FunctionCall != nil:
				if c.Role != "model" || (len(p.FunctionCall.Args) > 0 && p.FunctionCall.Args[0] != '{') {
					t.Fatalf("content %d part %d is a call %+v by %s", i, n, p.FunctionCall, c.Role)
				}
				open = append(open, p.FunctionCall.ID+" "+p.FunctionCall.Name)
			}
		}
	}
	if len(open) > 0 {
		t.Fatalf("calls %q have no results\n%s", open, body)
	}
}

func TestRequestsThatCannotBeSentAreRefusedBeforeTheCall(t *testing.T) {
	hi := []ai.Message{ai.UserMessage("x")}
	rawPart := func(s string) []ai.Message {
		return []ai.Message{assistantSays(rawCall("c", "f", s)), toolSays(result("c", "r"))}
	}
	for name, c := range map[string]struct {
		req  model.Request
		want string
	}{
		"no model":         {model.Request{Messages: hi}, "names no model"},
		"only the prefix":  {model.Request{Model: "models/", Messages: hi}, "names no model"},
		"no message":       {model.Request{Model: "m", System: "s"}, "holds no message"},
		"schema":           {model.Request{Model: "m", Messages: hi, Tools: []model.Tool{{Name: "f", Schema: json.RawMessage("{")}}}, `schema of tool "f"`},
		"response schema":  {model.Request{Model: "m", Messages: hi, ResponseSchema: json.RawMessage("{")}, "response schema"},
		"tool choice":      {model.Request{Model: "m", Messages: hi, Tools: []model.Tool{{Name: "f"}}, ToolChoice: "f"}, `tool choice "f"`},
		"limit":            {model.Request{Model: "m", Messages: hi, MaxOutputTokens: -1}, "MaxOutputTokens"},
		"effort":           {model.Request{Model: "m", Messages: hi, ReasoningEffort: "-2"}, "reasoning effort -2"},
		"role":             {model.Request{Model: "m", Messages: []ai.Message{{Role: "robot"}}}, `role "robot"`},
		"file type":        {model.Request{Model: "m", Messages: []ai.Message{userSays(ai.FilePart{MediaType: "font/woff"})}}, `"font/woff"`},
		"managed header":   {model.Request{Model: "m", Messages: hi, Headers: map[string]string{"X-Goog-API-Key": "x"}}, "X-Goog-Api-Key is managed"},
		"raw call":         {model.Request{Model: "m", Messages: rawPart(`{"text":"a"}`)}, `tool call "c": its raw form holds no functionCall`},
		"raw that is none": {model.Request{Model: "m", Messages: rawPart(`{"text`)}, "not a JSON object"},
		"raw array":        {model.Request{Model: "m", Messages: []ai.Message{assistantSays(ai.TextPart{Raw: raw("gemini", "m", "[]")})}}, "raw form of a text"},
		"result's JSON":    {model.Request{Model: "m", Messages: []ai.Message{assistantSays(call("c", "f", "{}")), toolSays(output("c", ai.ToolResultOutput{Type: ai.OutputJSON, Value: json.RawMessage("{")}))}}, "not JSON"},
		"result's content": {model.Request{Model: "m", Messages: []ai.Message{assistantSays(call("c", "f", "{}")), toolSays(output("c", ai.ToolResultOutput{Type: ai.OutputContent, Value: json.RawMessage(`[{"type":"hologram"}]`)}))}}, `"hologram"`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := sent(t, gemini.Config{}, c.req)
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

// stored is a message as it comes back from a store.
func stored(t testing.TB, m ai.Message) (out ai.Message) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatAServerSentComesBack(t *testing.T) {
	const (
		signed  = `{"text":"b","thoughtSignature":"+/=&<"}`
		empty   = `{"text":"","thoughtSignature":"c2ln"}`
		aCall   = `{"functionCall":{"name":"f","args":{"n":1.0,"s":"<&>"}},"thoughtSignature":"//4BAoAD"}`
		unknown = `{"executableCode":{"language":"PYTHON","code":"1<2"}}`
	)
	a := decode(stream(parts(`{"text":"a"}`, ""), parts(signed, ""), parts(unknown+","+aCall, ""), parts(empty, "STOP")))
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	turn := ai.Message{Role: ai.RoleAssistant, Content: a.Content}
	results := toolSays(result(a.Calls[0].ToolCallID, "r"))
	for _, turn := range []ai.Message{turn, stored(t, turn)} {
		r, err := sent(t, gemini.Config{}, model.Request{Model: "asked", Messages: []ai.Message{ai.UserMessage("go"), turn, results}})
		if err != nil {
			t.Fatal(err)
		}
		want := `{"role":"model","parts":[{"text":"a"},` + signed + "," + unknown + "," + aCall + "," + empty + `]}`
		if !strings.Contains(string(r.body), want) {
			t.Errorf("the request lacks %s:\n%s", want, r.body)
		}
		strict(t, r.body)
		other, err := sent(t, gemini.Config{}, model.Request{Model: "another", Messages: []ai.Message{ai.UserMessage("go"), turn, results}})
		if err != nil {
			t.Fatal(err)
		}
		for _, gone := range []string{"c2ln", "//4BAoAD", "executableCode"} {
			if strings.Contains(string(other.body), gone) {
				t.Errorf("another model got %s:\n%s", gone, other.body)
			}
		}
		strict(t, other.body)
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
			switch b % 7 {
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
				m = assistantSays(ai.ReasoningPart{Text: text}, rawCall(id, "f", `{"functionCall":{"name":"h"},"thoughtSignature":"eA=="}`))
			case 6:
				m = ai.SystemMessage(text)
			}
			req.Messages = append(req.Messages, m)
		}
		r, err := sent(t, gemini.Config{}, req)
		if err != nil {
			t.Fatal(err)
		}
		strict(t, r.body)
	})
}
