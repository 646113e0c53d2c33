package scripted_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/model/wire/chat"
	"github.com/harness-go/harness/model/wire/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func server(t testing.TB, o scripted.ServerOptions) (*httptest.Server, *scripted.Handler) {
	t.Helper()
	h, err := scripted.NewHandler(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, h
}

func client(t testing.TB, url string) *chat.Client {
	t.Helper()
	c, err := chat.New(chat.Config{Config: transport.Config{Provider: scripted.Provider, BaseURL: url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func user(text string) ai.Message { return ai.UserMessage(text) }

func said(text string) ai.Message {
	return ai.Message{Role: ai.RoleAssistant, Content: []ai.Part{ai.TextPart{Text: text}}}
}

// called is an assistant turn with n calls and the message of their results.
func called(n int) []ai.Message {
	turn, results := ai.Message{Role: ai.RoleAssistant}, ai.Message{Role: ai.RoleTool}
	for i := range n {
		id := fmt.Sprintf("c%d", i)
		turn.Content = append(turn.Content, ai.ToolCallPart{ToolCallID: id, ToolName: "f", Input: "{}"})
		results.Content = append(results.Content, ai.ToolResultContent{ToolCallID: id, ToolName: "f", Output: ai.TextResult("r")})
	}
	return []ai.Message{turn, results}
}

func talk(parts ...any) (list []ai.Message) {
	for _, p := range parts {
		switch p := p.(type) {
		case ai.Message:
			list = append(list, p)
		case []ai.Message:
			list = append(list, p...)
		}
	}
	return list
}

// answer says in one line what a model answers.
func answer(t testing.TB, m model.Model, messages []ai.Message) string {
	t.Helper()
	a := modeltest.Collect(t.Context(), m, model.Request{Model: "m", System: "s", Messages: messages})
	if a.Err != nil {
		return a.Err.Error()
	}
	var out []string
	if a.Text() != "" {
		out = append(out, a.Text())
	}
	for _, c := range a.Calls {
		out = append(out, c.ToolName+c.Input)
	}
	return strings.Join(out, " ")
}

func TestTheScriptPicksTheAnswer(t *testing.T) {
	const three = `go @@[{"text":"0"},{"tool":"f","in":{"n":1}},{"text":"2"}]@@ now`
	image := ai.FilePart{MediaType: "image/png", Data: []byte("x")}
	for name, c := range map[string]struct {
		messages []ai.Message
		want     string
	}{
		"no script":                 {talk(user("title this")), "ok"},
		"first step":                {talk(user(three)), "0"},
		"second step":               {talk(user(three), said("0")), `f{"n":1}`},
		"third step":                {talk(user(three), said("0"), called(1)), "2"},
		"past the end":              {talk(user(three), said("0"), called(1), said("2")), "done"},
		"text between does nothing": {talk(user(three), said("0"), user("go on")), `f{"n":1}`},
		"a newer script":            {talk(user(three), said("0"), user(`@@[{"text":"new"}]@@`)), "new"},
		"the last one of a message": {talk(user(`@@[{"text":"a"}]@@ and @@[{"text":"b"}]@@`)), "b"},
		"only users write scripts":  {talk(user("hi"), said(`@@[{"text":"no"}]@@`), ai.SystemMessage(`@@[{"text":"no"}]@@`)), "ok"},
		"no end":                    {talk(user(`@@[{"text":"a"}`)), "ok"},
		"no end, an older one":      {talk(user(three), user(`@@[{"text":"a"}`)), "0"},
		"beside an image":           {talk(ai.Message{Role: ai.RoleUser, Content: []ai.Part{ai.TextPart{Text: `@@[{"text":"a"}]@@`}, image}}), "a"},
		"not JSON":                  {talk(user(`@@[{"text":]@@`)), "script error: invalid character ']' looking for beginning of value"},
		"status of no error":        {talk(user(`@@[{"status":200}]@@`)), "script error: step 0: status 200 is not an HTTP error"},
		"too long a wait":           {talk(user(`@@[{},{"hang":999999}]@@`)), "script error: step 1: hang 999999 is not between 0 and 3600"},
		"unknown members":           {talk(user(`@@[{"text":"a","later":1}]@@`)), "a"},
		"for a sub-agent":           {talk(user("do $$sub$$")), `Bash{"command":"echo sub > sub.txt","description":"w"}`},
		"for a sub-agent, second":   {talk(user("do $$sub$$"), called(1)), "sub done"},
		"text and calls":            {talk(user(`@@[{"text":"t","tools":[{"tool":"a"},{"tool":"b","in":[1]}]}]@@`)), "t a{} b[1]"},

		"line: nothing":              {talk(user("SCRIPT:")), "ok"},
		"line: text":                 {talk(user("please\nSCRIPT: text=bye\nmore text=no")), "bye"},
		"line: text in pieces":       {talk(user("SCRIPT: text=ab tokens=3")), "ababab"},
		"line: seq, first":           {talk(user(`SCRIPT: seq=2:read:{"path":"f.txt"} text=end`)), `read{"path":"f.txt"}`},
		"line: seq, second":          {talk(user(`SCRIPT: seq=2:read:{"a":"b:c"} text=end`), called(1)), `read{"a":"b:c"}`},
		"line: seq, over":            {talk(user(`SCRIPT: seq=2:read:{} text=end`), called(1), called(1)), "end"},
		"line: par":                  {talk(user(`SCRIPT: par=3:f:{"x":"a␠b"} text=end`)), `f{"x":"a b"} f{"x":"a b"} f{"x":"a b"}`},
		"line: par, over":            {talk(user(`SCRIPT: par=3:f text=end`), called(3)), "end"},
		"line: par and then seq":     {talk(user(`SCRIPT: seq=1:g par=2:f text=end`), called(2)), "g{}"},
		"line: both over":            {talk(user(`SCRIPT: seq=1:g par=2:f text=end`), called(2), called(1)), "end"},
		"line: a newer one":          {talk(user("SCRIPT: text=a"), called(1), user("SCRIPT: seq=1:f")), "f{}"},
		"line: no number":            {talk(user("SCRIPT: seq=x:f")), `script error: seq: "x" is not a number between 0 and 1000000`},
		"line: too many":             {talk(user("SCRIPT: par=1001:f")), `script error: par: "1001" is not a number between 0 and 1000`},
		"line: no tool":              {talk(user("SCRIPT: seq=1")), `script error: seq: write N:tool or N:tool:arguments`},
		"the JSON form goes first":   {talk(user(`SCRIPT: text=a @@[{"text":"b"}]@@`)), "b"},
		"results of no text":         {talk(user(three), said("0"), ai.Message{Role: ai.RoleTool}), `f{"n":1}`},
		"an empty list is past them": {talk(user(`@@[]@@`)), "done"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answer(t, newModel(t, scripted.Options{}), c.messages); got != c.want {
				t.Errorf("in the process: %q, want %q", got, c.want)
			}
			s, _ := server(t, scripted.ServerOptions{})
			if got := answer(t, client(t, s.URL), c.messages); got != c.want {
				t.Errorf("over the wire: %q, want %q", got, c.want)
			}
		})
	}
}

// Both forms give the same parts with the same ids, whatever the script.
func TestBothFormsAnswerAlike(t *testing.T) {
	s, _ := server(t, scripted.ServerOptions{})
	local, remote := newModel(t, scripted.Options{}), client(t, s.URL+"/v1")
	body, _ := json.Marshal("data: {\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\"raw\"},\"finish_reason\":\"stop\"}]}\n\n")
	for _, step := range []string{
		`{}`, `{"text":"a b  c"}`, `{"think":"h","text":"a"}`, `{"text":"t","tool":"f","in":{"a":"` + strings.Repeat("ä", 200) + `"}}`,
		`{"tools":[{"tool":"f"},{"tool":"g","args":"{"}]}`, `{"text":"a","finish":"length"}`, `{"tool":"f","finish":"content_filter"}`,
		`{"text":"a","finish":"novel"}`, `{"text":"a","inTok":5,"outTok":6,"cachedTok":2}`, `{"text":"a","noUsage":true}`,
		`{"text":"a b","drop":true}`, `{"drop":true}`, `{"status":400}`, `{"status":401}`, `{"status":429,"retryAfter":3}`, `{"status":500}`, `{"status":529}`,
		`{"raw":` + string(body) + `}`, `{"raw":"data: {\"error\":{\"message\":\"m\",\"code\":429}}\n\n"}`, `{"raw":"data: [DONE]\n\n"}`, `{"raw":"nonsense\n\n"}`,
		`{"text":"slow words","slow":1}`,
	} {
		t.Run(step, func(t *testing.T) {
			req := model.Request{Model: "m", System: "s", Messages: talk(user("@@[{}, "+step+"]@@"), called(2))}
			a, b := modeltest.Collect(t.Context(), local, req), modeltest.Collect(t.Context(), remote, req)
			if diff := cmp.Diff(plain(a.Parts), plain(b.Parts)); diff != "" {
				t.Errorf("in the process (-) and over the wire (+):\n%s", diff)
			}
			ea, _ := model.AsError(a.Err)
			eb, _ := model.AsError(b.Err)
			if (ea == nil) != (eb == nil) {
				t.Fatalf("in the process %v, over the wire %v", a.Err, b.Err)
			}
			if ea != nil {
				ea.Cause, eb.Cause = nil, nil
				if *ea != *eb {
					t.Errorf("in the process %+v, over the wire %+v", *ea, *eb)
				}
			}
		})
	}
}

// plain leaves out what only a wire has: raw forms.
func plain(parts []model.Part) []model.Part {
	for i := range parts {
		parts[i].Usage.Raw = nil
		if r, ok := parts[i].Content.(ai.ReasoningPart); ok {
			r.Raw = nil
			parts[i].Content = r
		}
	}
	return parts
}

func TestTheSameConversationGetsTheSameAnswerAndAnotherGetsOtherIDs(t *testing.T) {
	m := newModel(t, scripted.Options{})
	ids := map[string]bool{}
	history := talk(user(`SCRIPT: seq=20:read:{} text=end`))
	for i := range 20 {
		req := model.Request{Model: "m", Messages: history}
		a, again := modeltest.Collect(t.Context(), m, req), modeltest.Collect(t.Context(), m, req)
		if diff := cmp.Diff(a.Parts, again.Parts); diff != "" {
			t.Fatalf("step %d is not the same twice:\n%s", i, diff)
		}
		c := a.Calls[0]
		if ids[c.ToolCallID] {
			t.Fatalf("step %d gives id %s again", i, c.ToolCallID)
		}
		ids[c.ToolCallID] = true
		history = append(history, ai.Message{Role: ai.RoleAssistant, Content: a.Content}, ai.Message{Role: ai.RoleTool, Content: []ai.Part{
			ai.ToolResultContent{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Output: ai.TextResult("r")},
		}})
	}
}

func TestFailuresAreCountedForEachPrompt(t *testing.T) {
	m := newModel(t, scripted.Options{})
	for _, word := range []string{"one", "two"} {
		prompt := talk(user(word + ` @@[{"status":500,"times":1,"text":"then"}]@@`))
		if got := answer(t, m, prompt); !strings.Contains(got, "HTTP 500") {
			t.Errorf("%s, first: %q", word, got)
		}
		if got := answer(t, m, prompt); got != "then" {
			t.Errorf("%s, second: %q", word, got)
		}
	}
	always := talk(user(`@@[{"status":500}]@@`))
	for range 10 {
		if got := answer(t, m, always); !strings.Contains(got, "HTTP 500") {
			t.Fatalf("without times: %q", got)
		}
	}
}

func TestTheSubScriptCanBeChosen(t *testing.T) {
	if got := answer(t, newModel(t, scripted.Options{Sub: `[{"text":"mine"}]`}), talk(user("$$sub$$"))); got != "mine" {
		t.Errorf("%q", got)
	}
	if _, err := scripted.New(scripted.Options{Sub: "{"}); err == nil {
		t.Error("a sub-script that is no JSON was taken")
	}
}

func TestTheFakeProviderTakesNoAddressAndNoKey(t *testing.T) {
	if _, err := scripted.FromProvider(model.ProviderConfig{Name: "fake"}); err != nil {
		t.Error(err)
	}
	for _, c := range []model.ProviderConfig{{BaseURL: "http://h"}, {APIKey: model.NewSecret("k")}} {
		if _, err := scripted.FromProvider(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

func do(t testing.TB, method, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

func TestTheServersPaths(t *testing.T) {
	s, h := server(t, scripted.ServerOptions{})
	prompt := `{"model":"m","messages":[{"role":"user","content":"@@[{\"text\":\"hello there\"}]@@"}]}`
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1/chat/completions", prompt, 200, `"content":"hello there"`},
		{"POST", "/chat/completions", prompt, 200, `"finish_reason":"stop"`},
		{"POST", "/any/prefix/chat/completions", prompt, 200, `"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}`},
		{"POST", "/v1/chat/completions", "{", 400, "not a chat request"},
		{"GET", "/v1/chat/completions", "", 405, "use POST"},
		{"GET", "/v1/models", "", 200, `"id":"scripted"`},
		{"GET", "/stats", "", 200, "4\n"},
		{"POST", "/v1/messages", "{}", 400, "max_tokens: a positive number is required"},
		{"POST", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"a"}]}`, 200, `"input_tokens":42`},
		{"POST", "/v1/responses", "{}", 400, "a text or a list of items is required"},
		{"POST", "/v1/responses", `{"model":"m","input":"@@[{\"text\":\"hello there\"}]@@"}`, 200, `"text":"hello there"`},
		{"GET", "/", "", 404, "no such path"},
	} {
		status, header, body := do(t, c.method, s.URL+c.path, c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, status, body, c.status, c.want)
		}
		if c.path != "/stats" && (header.Get("Content-Type") != "application/json" || !json.Valid([]byte(body))) {
			t.Errorf("%s %s: %s is not JSON: %s", c.method, c.path, header.Get("Content-Type"), body)
		}
	}
	if status, _, body := do(t, "POST", s.URL+"/v1/chat/completions", prompt, "Content-Encoding", "gzip"); status != 415 {
		t.Errorf("a compressed body: %d %s", status, body)
	}
	if h.Served() != 8 {
		t.Errorf("%d calls served", h.Served())
	}
}

func TestAStreamHasUsageOnlyWhereItIsAskedFor(t *testing.T) {
	s, _ := server(t, scripted.ServerOptions{})
	for _, c := range []struct {
		options string
		want    bool
	}{{``, false}, {`,"stream_options":{"include_usage":true}`, true}} {
		_, h, body := do(t, "POST", s.URL+"/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]`+c.options+`}`)
		if got := strings.Contains(body, `"choices":[],"usage":{`); got != c.want {
			t.Errorf("options %q: usage %v", c.options, got)
		}
		if !strings.HasSuffix(body, "data: [DONE]\n\n") || !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") {
			t.Errorf("the stream is %s:\n%s", h.Get("Content-Type"), body)
		}
	}
}

func TestTheLogHoldsNoKeyAndNoContent(t *testing.T) {
	var log lockedBuffer
	s, _ := server(t, scripted.ServerOptions{Log: &log})
	do(t, "POST", s.URL+"/v1/chat/completions",
		`{"model":"m","messages":[{"role":"system","content":"SYSTEM-TEXT"},{"role":"user","content":"PROMPT-TEXT @@[{\"text\":\"played\"}]@@"}],"tools":[{"type":"function","function":{"name":"read","description":"TOOL-TEXT"}}]}`,
		"Authorization", "Bearer sk-secret", "X-Api-Key", "sk-secret", "Api-Key", "sk-secret", "Cookie", "sk-secret", "X-Session", "s1")
	line := log.String()
	for _, no := range []string{"sk-secret", "SYSTEM-TEXT", "PROMPT-TEXT", "TOOL-TEXT"} {
		if strings.Contains(line, no) {
			t.Errorf("the log holds %s: %s", no, line)
		}
	}
	var entry struct {
		Path     string
		Roles    []string
		Tools    []string
		Step     string
		Anchored bool
		Headers  map[string]string
	}
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatal(err)
	}
	if entry.Path != "/v1/chat/completions" || strings.Join(entry.Roles, " ") != "system user" || entry.Tools[0] != "read" ||
		entry.Step != `{"text":"played"}` || !entry.Anchored || entry.Headers["X-Session"] != "s1" {
		t.Errorf("entry %+v", entry)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestServeListensAndEndsWithItsContext(t *testing.T) {
	pr, pw := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- scripted.Serve(ctx, "127.0.0.1:0", scripted.ServerOptions{Out: pw}) }()
	var url string
	if _, err := fmt.Fscanf(pr, "listening on %s\n", &url); err != nil {
		t.Fatal(err)
	}
	c := client(t, url+"/v1")
	if got := answer(t, c, talk(user(`@@[{"text":"served"}]@@`))); got != "served" {
		t.Errorf("%q", got)
	}
	c.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the end of the context gave %v", err)
	}
	if err := scripted.Serve(t.Context(), "256.0.0.1:1", scripted.ServerOptions{}); err == nil {
		t.Error("an address that cannot be was taken")
	}
}

func TestAClientThatGoesAwayEndsTheWait(t *testing.T) {
	s, h := server(t, scripted.ServerOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a := modeltest.Collect(ctx, client(t, s.URL), modeltest.Ask(`@@[{"hang":3600}]@@`))
	if !errors.Is(a.Err, context.DeadlineExceeded) || h.Served() != 1 {
		t.Errorf("%v, %d calls", a.Err, h.Served())
	}
	s.Close() // waits for the handlers: a handler that went on waiting would hold the test
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{
		`@@[{"text":"a"},{"tool":"f","in":{"a":1}}]@@`, `@@[{"tools":[{"tool":"a","args":"{"}],"think":"x"}]@@`, "SCRIPT: seq=2:read:{} par=3:f:x text=ok tokens=2",
		"$$sub$$", "@@[", "]@@@@[", "SCRIPT: seq=-1:f", `@@[{"raw":"data: [DONE]\n\n"}]@@`, `@@[{"status":400,"times":1}]@@`,
	} {
		f.Add(s, 0)
		f.Add(s, 2)
	}
	m := newModel(f, scripted.Options{IdleTimeout: time.Nanosecond})
	f.Fuzz(func(t *testing.T, prompt string, answers int) {
		messages := talk(user(prompt))
		for range min(max(answers, 0), 5) {
			messages = append(messages, called(1)...)
		}
		req := model.Request{Model: "m", Messages: messages}
		a := modeltest.Collect(t.Context(), m, req)
		if (a.Err == nil) != (a.Finish.Kind == model.PartFinish) {
			t.Fatalf("error %v and finish %+v", a.Err, a.Finish)
		}
		if a.Err != nil {
			if _, ok := model.AsError(a.Err); !ok {
				t.Fatalf("error %v has no kind", a.Err)
			}
		}
	})
}

func BenchmarkAnswerInTheProcess(b *testing.B) {
	m := newModel(b, scripted.Options{})
	req := model.Request{Model: "m", Messages: talk(user("SCRIPT: seq=1:read:{} text=ok"), called(1))}
	b.ReportAllocs()
	for b.Loop() {
		modeltest.Collect(b.Context(), m, req)
	}
}

func BenchmarkAnswerOverTheWire(b *testing.B) {
	s, _ := server(b, scripted.ServerOptions{})
	m := client(b, s.URL)
	req := model.Request{Model: "m", Messages: talk(user("SCRIPT: seq=1:read:{} text=ok"), called(1))}
	b.ReportAllocs()
	for b.Loop() {
		if a := modeltest.Collect(b.Context(), m, req); a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}
