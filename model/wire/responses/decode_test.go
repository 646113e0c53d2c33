package responses_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/responses"
	"github.com/harness-go/harness/model/wire/transport"
)

func event(name, members string) string {
	return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + members + "}\n\n"
}

func stream(events ...string) string {
	return event("response.created", `,"response":{"id":"resp_1","model":"served","status":"in_progress"}`) + strings.Join(events, "")
}

func added(i int, item string) string {
	return event("response.output_item.added", fmt.Sprintf(`,"output_index":%d,"item":%s`, i, item))
}

func done(i int, item string) string {
	return event("response.output_item.done", fmt.Sprintf(`,"output_index":%d,"item":%s`, i, item))
}

func delta(kind string, i int, text string) string {
	return event("response."+kind+".delta", fmt.Sprintf(`,"output_index":%d,"item_id":"x","delta":%s`, i, text))
}

func message(text string) string {
	return `{"id":"msg_1","type":"message","role":"assistant","phase":"final","content":[{"type":"output_text","text":"` + text + `"}]}`
}

const completed = "event: response.completed\ndata: " + `{"type":"response.completed","response":{"id":"resp_1","model":"served","status":"completed","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}}}` + "\n\n"

// decoded is a model that answers with the same bytes always.
type decoded struct{ body string }

func (d decoded) Stream(context.Context, model.Request) iter.Seq2[model.Part, error] {
	return responses.Decode(strings.NewReader(d.body), "p", "asked")
}

func decode(body string) modeltest.Answer {
	return modeltest.Collect(context.Background(), decoded{body}, model.Request{})
}

func raws(a modeltest.Answer) (list []string) {
	for _, p := range a.Content {
		var r *ai.RawItem
		switch p := p.(type) {
		case ai.ReasoningPart:
			r = p.Raw
		case ai.TextPart:
			r = p.Raw
		case ai.ToolCallPart:
			r = p.Raw
		}
		if r != nil {
			list = append(list, string(r.JSON))
		}
	}
	return list
}

func TestItemsAreKeptAsTheServerFinishedThem(t *testing.T) {
	items := []string{
		`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}],"encrypted_content":"LATE+/="}`,
		`{"id":"msg_1","type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"a <b>","annotations":[]}]}`,
		`{"type":"web_search_call","id":"ws","status":"completed"}`,
		`{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\": \"a\"}","status":"completed"}`,
		`{"id":"fc_2","type":"function_call","call_id":"call_2","name":"todos","arguments":"","status":"completed"}`,
	}
	a := decode(stream(
		added(0, `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"EARLY"}`),
		event("response.reasoning_summary_text.delta", `,"output_index":0,"summary_index":0,"delta":"one"`),
		event("response.reasoning_summary_text.delta", `,"output_index":0,"summary_index":1,"delta":"two"`),
		done(0, items[0]),
		added(3, `{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":""}`),
		delta("output_text", 1, `"a "`), delta("output_text", 1, `"\u003cb>"`), done(1, items[1]), done(2, items[2]),
		delta("function_call_arguments", 3, `"{\"path\": "`), delta("function_call_arguments", 3, `"\"a\"}"`), done(3, items[3]),
		done(4, items[4]), event("response.a_new_event", `,"x":1`), completed,
	))
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if a.Text() != "a <b>" || a.Deltas != a.Text() || a.Reasoning != "one\n\ntwo" {
		t.Errorf("text %q, deltas %q, reasoning %q", a.Text(), a.Deltas, a.Reasoning)
	}
	if got := raws(a); strings.Join(got, "\n") != strings.Join(items, "\n") {
		t.Errorf("items\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(items, "\n"))
	}
	if len(a.Calls) != 2 || a.Calls[0].ToolCallID != "call_1" || a.Calls[0].Input != `{"path": "a"}` || a.Calls[1].Input != "{}" || a.Args[0] != a.Calls[0].Input {
		t.Errorf("calls %+v", a.Calls)
	}
	u := a.Finish.Usage
	if *u.InputTokens.Total != 10 || *u.InputTokens.CacheRead != 4 || *u.InputTokens.NoCache != 6 || *u.OutputTokens.Total != 7 || *u.OutputTokens.Reasoning != 3 || *u.OutputTokens.Text != 4 {
		t.Errorf("usage %+v", u)
	}
	if a.Finish.Finish.Unified != ai.FinishToolCalls || a.Finish.ResponseID != "resp_1" || a.Finish.ServedModel != "served" {
		t.Errorf("finish %+v", a.Finish)
	}
	replayed(t, "kept", a, items)
}

// replayed continues the conversation, before and after a store, and looks for the items in the request.
func replayed(t *testing.T, name string, a modeltest.Answer, items []string) {
	t.Helper()
	turn := ai.Message{Role: ai.RoleAssistant, Content: a.Content}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as transcripts are written
	if err := enc.Encode(turn); err != nil {
		t.Fatal(err)
	}
	var stored ai.Message
	if err := json.Unmarshal(b.Bytes(), &stored); err != nil {
		t.Fatal(err)
	}
	for _, turn := range []ai.Message{turn, stored} {
		r, err := sent(t, responses.Config{}, model.Request{Model: "asked", Messages: []ai.Message{ai.UserMessage("go"), turn, ai.UserMessage("on")}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rest := string(r.body)
		for _, s := range items { // in their order
			_, after, ok := strings.Cut(rest, s)
			if !ok {
				t.Errorf("%s: the request lacks the item %s", name, s)
			}
			rest = after
		}
	}
}

func TestWithoutTheEncryptedReasoningNothingIsReplayedAsItWas(t *testing.T) {
	a := decode(stream(done(0, `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}`), done(1, message("hi")), completed))
	if a.Err != nil || a.Reasoning != "hm" || a.Text() != "hi" || len(raws(a)) != 0 {
		t.Errorf("%+v, raw %v", a, raws(a))
	}
}

func TestHowAnswersEnd(t *testing.T) {
	last := func(name, response string) string { return event(name, `,"response":`+response) }
	for name, c := range map[string]struct {
		body string
		want ai.FinishReasonKind
		raw  string
		kind model.ErrorKind
	}{
		"completed":         {completed, ai.FinishStop, "completed", ""},
		"cut":               {last("response.incomplete", `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`), ai.FinishLength, "max_output_tokens", ""},
		"filtered":          {last("response.incomplete", `{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}`), ai.FinishContentFilter, "content_filter", ""},
		"another reason":    {last("response.incomplete", `{"status":"incomplete","incomplete_details":{"reason":"new"}}`), ai.FinishOther, "new", ""},
		"rate limit":        {last("response.failed", `{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}`), "", "", model.ErrRateLimit},
		"server error":      {last("response.failed", `{"status":"failed","error":{"code":"server_error","message":"oops"}}`), "", "", model.ErrServer},
		"too long":          {last("response.failed", `{"status":"failed","error":{"code":"context_length_exceeded","message":"long"}}`), "", "", model.ErrContextLength},
		"failed silently":   {last("response.failed", `{"status":"failed"}`), "", "", model.ErrServer},
		"cancelled":         {last("response.cancelled", `{"status":"cancelled"}`), "", "", model.ErrIncomplete},
		"a flat error":      {event("error", `,"code":"server_error","message":"oops","param":null`), "", "", model.ErrServer},
		"a nested error":    {event("error", `,"error":{"type":"invalid_request_error","code":"x","message":"no"}`), "", "", model.ErrInvalidRequest},
		"a bare error":      {"data: {\"error\":{\"message\":\"slow\",\"code\":\"rate_limit_exceeded\"}}\n\n", "", "", model.ErrRateLimit},
		"a text error":      {"event: error\ndata: boom\n\n", "", "", model.ErrServer},
		"nothing":           {"", "", "", model.ErrIncomplete},
		"done alone":        {"data: [DONE]\n\n", "", "", model.ErrIncomplete},
		"no last event":     {done(1, `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`), "", "", model.ErrIncomplete},
		"a cut event":       {strings.TrimSuffix(completed, "}\n\n"), "", "", model.ErrIncomplete},
		"nonsense":          {"data: nonsense\n\n", "", "", model.ErrProtocol},
		"an index too high": {done(1<<20, message("x")), "", "", model.ErrProtocol},
	} {
		a := decode(stream(done(0, message("hi")), c.body))
		if c.kind != "" {
			if e, ok := model.AsError(a.Err); !ok || e.Kind != c.kind {
				t.Errorf("%s: %v, want %s", name, a.Err, c.kind)
			}
			continue
		}
		if f := a.Finish.Finish; a.Err != nil || f.Unified != c.want || f.Raw != c.raw {
			t.Errorf("%s: %+v, %v", name, f, a.Err)
		}
	}
}

func TestACutCallIsMarked(t *testing.T) {
	a := decode(stream(added(0, `{"type":"function_call","call_id":"c","name":"write","arguments":""}`), delta("function_call_arguments", 0, `"{\"a\":"`),
		event("response.incomplete", `,"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`)))
	if a.Err != nil || !a.Truncated || len(a.Calls) != 1 || a.Calls[0].Input != `{"a":` || a.Calls[0].Raw != nil {
		t.Errorf("%+v", a)
	}
}

func TestAWholeAnswerInOneObject(t *testing.T) {
	a := decode(`{"id":"resp_1","model":"served","status":"completed","usage":{"input_tokens":3,"output_tokens":4},"output":[
		{"type":"reasoning","summary":[{"text":"hm"}],"encrypted_content":"e"},` + message("hi") + `,{"type":"function_call","call_id":"t","name":"f","arguments":"{\"a\":1}"}]}`)
	if a.Err != nil || a.Text() != "hi" || a.Reasoning != "hm" || len(a.Calls) != 1 || a.Calls[0].Input != `{"a":1}` || a.Finish.Finish.Unified != ai.FinishToolCalls || len(raws(a)) != 3 {
		t.Errorf("%+v", a)
	}
}

func TestHTTPErrorsAndRequestsHaveTheirForm(t *testing.T) {
	const key = "sk-a-key-that-must-stay-secret"
	h := http.Header{"X-Request-Id": {"req_1"}, "Retry-After": {"7"}}
	m := newClient(t, responses.Config{Config: transport.Config{Provider: "p", APIKey: model.NewSecret(key), HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answerWith(429, h, `{"error":{"message":"slow `+key+`","type":"requests","code":"rate_limit_exceeded"}}`), nil
	})}}})
	e, _ := model.AsError(modeltest.Collect(t.Context(), m, modeltest.Ask("hi")).Err)
	if want := (model.Error{Kind: model.ErrRateLimit, Provider: "p", Status: 429, Code: "rate_limit_exceeded", Message: "slow [redacted]", RequestID: "req_1", RetryAfter: 7 * time.Second}); e == nil || *e != want {
		t.Errorf("got %+v", e)
	}
	r, err := sent(t, responses.Config{Config: transport.Config{APIKey: model.NewSecret(key)}}, modeltest.Ask("hi"))
	if err != nil || r.url != "https://api.openai.com/v1/responses" || r.header.Get("Authorization") != "Bearer "+key {
		t.Errorf("%s %v %v", r.url, r.header, err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func FuzzDecode(f *testing.F) {
	f.Add([]byte(stream(done(0, `{"type":"reasoning","summary":[],"encrypted_content":"e"}`), added(1, `{"type":"function_call","call_id":"c","name":"f"}`), delta("function_call_arguments", 1, `"{"`), completed)))
	f.Add([]byte(stream(delta("output_text", 0, `"a"`), done(0, message("a")), event("response.incomplete", `,"response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`))))
	f.Add([]byte(`{"status":"completed","output":[` + message("x") + `]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a := decode(string(body))
		if a.Err != nil {
			if _, ok := model.AsError(a.Err); !ok {
				t.Fatalf("error %v has no kind", a.Err)
			}
			return
		}
		for _, r := range raws(a) {
			if !json.Valid([]byte(r)) {
				t.Fatalf("a raw form is not JSON: %s", r)
			}
		}
	})
}

func textStream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(stream(added(0, `{"id":"msg_1","type":"message","content":[]}`)))
	for i := range n {
		fmt.Fprintf(&b, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,\"item_id\":\"msg_0123456789\",\"output_index\":0,\"content_index\":0,\"delta\":\"word %d \",\"logprobs\":[],\"obfuscation\":\"abcdefgh\"}\n\n", i, i)
	}
	b.WriteString(done(0, message("all")) + completed)
	return b.Bytes()
}

func argsStream(n int) []byte {
	var b bytes.Buffer
	b.WriteString(stream(added(0, `{"type":"function_call","call_id":"c","name":"write","arguments":""}`)))
	for range n {
		b.WriteString(delta("function_call_arguments", 0, `"0123456789"`))
	}
	b.WriteString(done(0, `{"type":"function_call","call_id":"c","name":"write","arguments":"…"}`) + completed)
	return b.Bytes()
}

func benchmarkDecode(b *testing.B, stream []byte) {
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range responses.Decode(bytes.NewReader(stream), "p", "m") {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecode10kTextDeltas(b *testing.B)     { benchmarkDecode(b, textStream(10_000)) }
func BenchmarkDecode10kArgumentDeltas(b *testing.B) { benchmarkDecode(b, argsStream(10_000)) }
func BenchmarkDecode40kArgumentDeltas(b *testing.B) { benchmarkDecode(b, argsStream(40_000)) }
