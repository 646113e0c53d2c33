package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/chat"
)

// decoded is a model whose answer is a body.
type decoded struct{ body io.Reader }

func (d decoded) Stream(context.Context, model.Request) iter.Seq2[model.Part, error] {
	return chat.Decode(d.body, "p", "asked")
}

func decode(body string) modeltest.Answer {
	return modeltest.Collect(context.Background(), decoded{strings.NewReader(body)}, model.Request{})
}

// stream writes events from chunks.
func stream(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\n\n")
	}
	return b.String()
}

func choice(delta, finish string) string {
	if finish != "" {
		finish = `,"finish_reason":"` + finish + `"`
	}
	return `{"id":"r1","model":"served","choices":[{"index":0,"delta":` + delta + finish + `}]}`
}

// render says in one line what an answer holds.
func render(a modeltest.Answer) string {
	if a.Err != nil {
		e, ok := model.AsError(a.Err)
		if !ok {
			return "error " + a.Err.Error()
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s %d: %s", e.Kind, e.Code, e.Status, e.Message))
	}
	var out []string
	for _, p := range a.Parts {
		switch c := p.Content.(type) {
		case ai.TextPart:
			out = append(out, "text "+c.Text)
		case ai.ReasoningPart:
			s := "think " + c.Text
			if c.Raw != nil {
				s += " " + c.Raw.Wire + "/" + c.Raw.Model + string(c.Raw.JSON)
			}
			out = append(out, s)
		case ai.ToolCallPart:
			s := fmt.Sprintf("call %s %s(%s)", c.ToolCallID, c.ToolName, c.Input)
			if strings.HasPrefix(c.ToolCallID, "call_") {
				s = fmt.Sprintf("call made %s(%s)", c.ToolName, c.Input)
			}
			if c.Raw != nil {
				s += string(c.Raw.JSON)
			}
			if p.Truncated {
				s += " cut"
			}
			out = append(out, s)
		}
	}
	f := a.Finish.Finish
	return strings.Join(append(out, fmt.Sprintf("%s/%s", f.Unified, f.Raw)), "; ")
}

func TestDecoding(t *testing.T) {
	const done = "data: [DONE]\n\n"
	call := func(index, id, name, args string) string {
		return choice(`{"tool_calls":[{`+index+id+`"function":{`+name+`"arguments":`+args+`}}]}`, "")
	}
	end := func(reason string) string { return stream(choice(`{}`, reason)) }
	for name, c := range map[string]struct{ body, want string }{
		"text":                        {stream(choice(`{"role":"assistant","content":""}`, ""), choice(`{"content":"a"}`, ""), choice(`{"content":"b"}`, "stop")) + done, "text ab; stop/stop"},
		"finish without the end mark": {stream(choice(`{"content":"a"}`, "stop")), "text a; stop/stop"},
		"finish and text in one":      {stream(choice(`{"content":"a"}`, "length")), "text a; length/length"},
		"null members":                {stream(`{"id":null,"choices":[{"index":0,"delta":{"content":"a","tool_calls":null,"reasoning_content":null},"finish_reason":null}],"usage":null,"error":null}`) + end("stop"), "text a; stop/stop"},
		"content as a list":           {stream(choice(`{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}`, "stop")), "text ab; stop/stop"},
		"refusal is text":             {stream(choice(`{"refusal":"no"}`, "stop")), "text no; stop/stop"},
		"other choices are ignored":   {stream(`{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"},{"index":0,"delta":{"content":"a"}}]}`) + end("stop"), "text a; stop/stop"},
		"events of other names":       {"event: ping\ndata: soon\n\n: hi\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n" + stream(choice(`{"content":"a"}`, "stop")), "text a; stop/stop"},
		"lines are joined":            {"data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n", "text a; stop/stop"},
		"bytes that are no UTF-8":     {stream(choice("{\"content\":\"a\xffb\"}", ""), choice("{\"content\":\"\xc3\\n\"}", "stop")), "text a\uFFFDb\uFFFD\n; stop/stop"},

		"reasoning_content":        {stream(choice(`{"reasoning_content":"hm"}`, ""), choice(`{"content":"a"}`, "stop")), `think hm chat/asked{"reasoning_content":"hm"}; text a; stop/stop`},
		"reasoning":                {stream(choice(`{"reasoning":"h"}`, ""), choice(`{"reasoning":"m"}`, ""), choice(`{"content":"a"}`, "stop")), `think hm chat/asked{"reasoning":"hm"}; text a; stop/stop`},
		"both names, counted once": {stream(choice(`{"reasoning":"h","reasoning_content":"h"}`, "stop")), `think h chat/asked{"reasoning_content":"h"}; stop/stop`},
		"reasoning after text":     {stream(choice(`{"content":"a"}`, ""), choice(`{"reasoning":"h"}`, "stop")), `text a; think h chat/asked{"reasoning":"h"}; stop/stop`},
		"details are kept":         {stream(choice(`{"reasoning_details":[{"type":"reasoning.encrypted","data":"<x>"}]}`, "stop")), `think  chat/asked{"reasoning_details":[{"type":"reasoning.encrypted","data":"<x>"}]}; stop/stop`},

		"split call":             {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `""`), call(`"index":0,`, "", "", `"{\"a\":"`), call(`"index":0,`, "", "", `"1}"`)) + end("tool_calls"), `call c1 f({"a":1}); tool-calls/tool_calls`},
		"calls by index":         {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `"{"`), call(`"index":1,`, `"id":"c2",`, `"name":"g",`, `"{"`), call(`"index":0,`, "", "", `"}"`), call(`"index":1,`, "", "", `" }"`)) + end("tool_calls"), `call c1 f({}); call c2 g({ }); tool-calls/tool_calls`},
		"gaps in the index":      {stream(call(`"index":5,`, `"id":"c1",`, `"name":"f",`, `"{}"`), call(`"index":2,`, `"id":"c2",`, `"name":"g",`, `"{}"`)) + end("tool_calls"), `call c1 f({}); call c2 g({}); tool-calls/tool_calls`},
		"no id":                  {stream(call(`"index":0,`, "", `"name":"f",`, `"{}"`)) + end("tool_calls"), `call made f({}); tool-calls/tool_calls`},
		"one id twice":           {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `"{}"`), call(`"index":1,`, `"id":"c1",`, `"name":"g",`, `"{}"`)) + end("tool_calls"), `call c1 f({}); call made g({}); tool-calls/tool_calls`},
		"all calls numbered 0":   {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `"{}"`), call(`"index":0,`, `"id":"c2",`, `"name":"g",`, `"{}"`)) + end("tool_calls"), `call c1 f({}); call c2 g({}); tool-calls/tool_calls`},
		"no index":               {stream(call("", `"id":"c1",`, `"name":"f",`, `"{"`), call("", "", "", `"}"`), call("", `"id":"c2",`, `"name":"g",`, `"{}"`)) + end("tool_calls"), `call c1 f({}); call c2 g({}); tool-calls/tool_calls`},
		"arguments as an object": {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `{"a":1}`)) + end("tool_calls"), `call c1 f({"a":1}); tool-calls/tool_calls`},
		"no arguments":           {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `""`)) + end("tool_calls"), `call c1 f({}); tool-calls/tool_calls`},
		"invalid arguments stay": {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `"{\"a\":"`)) + end("tool_calls"), `call c1 f({"a":); tool-calls/tool_calls`},
		"stop after calls":       {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `"{}"`)) + end("stop"), `call c1 f({}); tool-calls/stop`},
		"tool_calls without any": {end("tool_calls"), "stop/tool_calls"},
		"cut call":               {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `"{}"`), call(`"index":1,`, `"id":"c2",`, `"name":"g",`, `"{\"a"`)) + end("length"), `call c1 f({}) cut; call c2 g({"a) cut; length/length`},
		"filtered call":          {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `"{}"`)) + end("content_filter"), `call c1 f({}) cut; content-filter/content_filter`},
		"a call's extra content": {stream(choice(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"},"extra_content":{"sig":"<&>"}}]}`, "tool_calls")), `call c1 f({}){"extra_content":{"sig":"<&>"}}; tool-calls/tool_calls`},
		"an unknown reason":      {end("novel"), "other/novel"},

		"not streamed":            {`{"id":"r","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a","reasoning_content":"h","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`, `think h chat/asked{"reasoning_content":"h"}; text a; call c1 f({}); call c2 g({}); tool-calls/tool_calls`},
		"not streamed, blanks":    {"\r\n {\"choices\":[{\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n", "text a; stop/stop"},
		"not streamed, cut":       {`{"id":"r","choices":[{"index":0,"mess`, "incomplete  0: the answer ended without a finish reason"},
		"not streamed, no finish": {`{"choices":[{"message":{"content":"a"}}]}`, "incomplete  0: the answer ended without a finish reason"},

		"empty body":                   {"", "incomplete  0: the answer ended without a finish reason"},
		"only the end mark":            {done, "incomplete  0: the answer ended without a finish reason"},
		"no finish reason":             {stream(choice(`{"content":"a"}`, "")) + done, "incomplete  0: the answer ended without a finish reason"},
		"no finish after a whole call": {stream(call(`"index":0,`, `"id":"c1",`, `"name":"f",`, `"{}"`)) + done, "incomplete  0: the answer ended without a finish reason"},
		"cut in an event":              {stream(choice(`{"content":"a"}`, "")) + `data: {"choices":[{"del`, "incomplete  0: the answer ended without a finish reason"},
		"garbled event":                {stream(`{"choices":[{"del`), "protocol  0: an event of the stream cannot be read: unexpected end of JSON input"},
		"not an object":                {stream(`"hello"`), "protocol  0: an event of the stream is not a JSON object"},
		"a web page":                   {"<html><body>Welcome", "protocol  0: the server answered with an HTML page; check the base URL"},
		"calls of another type":        {stream(`{"choices":[{"delta":{"tool_calls":{"name":"f"}}}]}`), "protocol  0: an event of the stream cannot be read: json: cannot unmarshal object into Go struct field delta.choices.delta.tool_calls of type []chat.fragment"},

		"nested error":              {stream(choice(`{"content":"a"}`, ""), `{"error":{"message":"too busy","type":"overloaded_error","code":null}}`), "overloaded overloaded_error 0: too busy"},
		"nested error with status":  {stream(`{"error":{"message":"slow down","code":429}}`), "rate_limit 429 429: slow down"},
		"error beside choices":      {stream(`{"error":{"message":"upstream","code":502},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`), "server 502 502: upstream"},
		"flat error":                {stream(`{"type":"error","code":"rate_limit_exceeded","message":"slow down"}`), "rate_limit rate_limit_exceeded 0: slow down"},
		"flat error with an object": {stream(`{"object":"error","message":"bad","type":"invalid_request_error","code":400}`), "invalid_request 400 400: bad"},
		"error as a string":         {stream(`{"error":"it broke"}`), "server  0: it broke"},
		"error event":               {"event: error\ndata: it broke\n\n", "server  0: it broke"},
		"error event with JSON":     {"event: error\ndata: {\"message\":\"it broke\"}\n\n", "server  0: it broke"},
		"error as the reason":       {end("error"), "server error 0: the server ended the answer with an error"},
		"error object alone":        {`{"error":{"message":"no such model","type":"invalid_request_error","code":"model_not_found"}}`, "invalid_request model_not_found 0: no such model"},
		"error array alone":         {`[{"error":{"message":"key","status":"UNAUTHENTICATED","code":401}}]`, "authentication 401 401: key"},
		"prompt too long":           {stream(`{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}`), "context_length context_length_exceeded 0: This model's maximum context length is 8192 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := render(decode(c.body)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			slow := decoded{iotest.OneByteReader(strings.NewReader(c.body))}
			if got := render(modeltest.Collect(t.Context(), slow, model.Request{})); got != c.want {
				t.Errorf("bytewise\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestABreakAfterTheFinishReasonCostsOnlyTheUsage(t *testing.T) {
	body := io.MultiReader(strings.NewReader(stream(choice(`{"content":"a"}`, "stop"))), iotest.ErrReader(io.ErrUnexpectedEOF))
	a := modeltest.Collect(t.Context(), decoded{body}, model.Request{})
	if got := render(a); got != "text a; stop/stop" || a.Finish.Usage.Known() {
		t.Errorf("%s, usage %+v", got, a.Finish.Usage)
	}
}

func TestUsage(t *testing.T) {
	n := func(p *int64) string {
		if p == nil {
			return "?"
		}
		return fmt.Sprint(*p)
	}
	for name, c := range map[string]struct{ chunks, want string }{
		"in a chunk without choices": {`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}`, "10 ? ? ? / 3 ? ?"},
		"beside the finish":          {`{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":3}}`, "10 ? ? ? / 3 ? ?"},
		"cached and reasoning":       {`{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`, "10 6 4 ? / 5 3 2"},
		"cache writes":               {`{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":5}}}`, "10 1 4 5 / 5 ? ?"},
		"cached by another name":     {`{"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}}`, "10 6 4 ? / 5 ? ?"},
		"reasoning beside":           {`{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}}`, "10 ? ? ? / 12 5 7"},
		"none":                       {`{"usage":null}`, "? ? ? ? / ? ? ?"},
		"an empty object":            {`{"usage":{}}`, "? ? ? ? / ? ? ?"},
		"nonsense":                   {`{"usage":{"prompt_tokens":"many"}}`, "? ? ? ? / ? ? ?"},
		"negative":                   {`{"usage":{"prompt_tokens":-1,"completion_tokens":3}}`, "? ? ? ? / 3 ? ?"},
		"more cached than there is":  {`{"usage":{"prompt_tokens":3,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}`, "3 ? 4 ? / 3 ? ?"},
		"zero is known":              {`{"usage":{"prompt_tokens":0,"completion_tokens":0}}`, "0 ? ? ? / 0 ? ?"},
	} {
		t.Run(name, func(t *testing.T) {
			a := decode(stream(choice(`{"content":"a"}`, "stop"), c.chunks))
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			i, o := a.Finish.Usage.InputTokens, a.Finish.Usage.OutputTokens
			got := strings.Join([]string{n(i.Total), n(i.NoCache), n(i.CacheRead), n(i.CacheWrite), "/", n(o.Total), n(o.Text), n(o.Reasoning)}, " ")
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestTheLastUsageWinsAndNothingIsAdded(t *testing.T) {
	a := decode(stream(
		`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1000,"completion_tokens":1}}`,
		`{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":800}}}`))
	u := a.Finish.Usage
	if *u.InputTokens.Total != 1000 || *u.InputTokens.NoCache != 200 || *u.OutputTokens.Total != 2 {
		t.Errorf("usage %+v", u)
	}
}

func TestOneEventMayBeMegabytes(t *testing.T) {
	long := strings.Repeat("0123456789", 1<<20)
	a := decode(stream(choice(`{"content":"`+long+`"}`, "stop")))
	if a.Err != nil || len(a.Text()) != len(long) {
		t.Errorf("%d bytes, %v", len(a.Text()), a.Err)
	}
}

// framedAndPlain decodes the same deltas twice: in events that are framed alike, and in events that differ in their ids
// too, which the quick way does not take.
func framedAndPlain(member, piece string) (framed, plain string) {
	event := func(id int, piece string) string {
		delta := `"` + member + `":"` + piece + `"`
		if member == "arguments" {
			delta = `"tool_calls":[{"index":0,"function":{` + delta + `}}]`
		}
		return fmt.Sprintf(`{"id":"r%d","choices":[{"index":0,"delta":{%s}}]}`, id, delta)
	}
	end := choice(`{}`, "stop")
	name := choice(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f"}}]}`, "")
	framed = render(decode(stream(name, event(1, "one"), event(1, "two"), event(1, piece), event(1, "three"), end)))
	plain = render(decode(stream(name, event(1, "one"), event(2, "two"), event(3, piece), event(4, "three"), end)))
	return framed, plain
}

// The quick way through a stream must not be told from the plain one.
func TestFramedDeltasAreDecodedLikeAnyOther(t *testing.T) {
	for _, member := range []string{"content", "reasoning_content", "reasoning", "arguments", "refusal"} {
		for _, piece := range []string{
			`a`, `b \"quoted\"`, `\u00e4 \ud83d\ude42`, `\ud83d`, `"`, `x","role":"user`, `x"}}],"error":{"message":"boom`, `\`, `\\`,
			`tab\t`, "raw\ttab", "\xff", "\xc3", ``, `{`, `]}`, "\u2028",
		} {
			if framed, plain := framedAndPlain(member, piece); framed != plain {
				t.Errorf("%s %q:\nframed %s\n plain %s", member, piece, framed, plain)
			}
		}
	}
}

func FuzzFramedDeltas(f *testing.F) {
	f.Add("content", `a\u00e4"`)
	f.Add("arguments", `{\"a\":1}`)
	f.Fuzz(func(t *testing.T, member, piece string) {
		if strings.ContainsAny(member+piece, "\r\n") || strings.ContainsAny(member, "\"\\") {
			t.Skip("not one line, or not a member")
		}
		if framed, plain := framedAndPlain(member, piece); framed != plain {
			t.Errorf("framed %s\n plain %s", framed, plain)
		}
	})
}

func TestAStringThatLooksLikeTheDeltaDoesNotFoolTheFrame(t *testing.T) {
	// "content" occurs behind the delta too, so the frame around the last one proves nothing.
	c := func(s, decoy string) string {
		return `{"choices":[{"index":0,"delta":{"content":"` + s + `"},"note":{"content":"` + decoy + `"}}]}`
	}
	a := decode(stream(c("a", "a"), c("a", "b"), c("a", "c"), c("d", "c"), choice(`{}`, "stop")))
	if a.Text() != "aaad" {
		t.Errorf("text %q, want aaad", a.Text())
	}
}

// FuzzDecode holds that no body breaks the decoder, that it ends with either a finish or an error, and that the whole
// items are the deltas put together.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(stream(choice(`{"content":"a"}`, ""), choice(`{"content":"b"}`, "stop"))))
	f.Add([]byte(stream(choice(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}`, "tool_calls")) + "data: [DONE]\n\n"))
	f.Add([]byte(`{"choices":[{"message":{"content":"a","reasoning":"b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`))
	f.Add([]byte(`[{"error":{"message":"x","code":429}}]`))
	f.Add([]byte(stream(choice(`{"tool_calls":[{"function":{"arguments":"a"}}]}`, ""), choice(`{"tool_calls":[{"index":1,"function":{"arguments":"a"}}]}`, "length"))))
	f.Fuzz(func(t *testing.T, body []byte) {
		a := decode(string(body))
		if (a.Err == nil) != (a.Finish.Kind == model.PartFinish) {
			t.Fatalf("error %v and finish %+v", a.Err, a.Finish)
		}
		if a.Err != nil {
			if _, ok := model.AsError(a.Err); !ok {
				t.Fatalf("error %v has no kind", a.Err)
			}
			return
		}
		if a.Text() != a.Deltas {
			t.Fatalf("text %q, deltas %q", a.Text(), a.Deltas)
		}
		for i, c := range a.Calls {
			if c.Input != a.Args[i] && c.Input != "{}" {
				t.Fatalf("call %d has input %q, its deltas are %q", i, c.Input, a.Args[i])
			}
		}
		if _, err := json.Marshal(ai.Message{Role: ai.RoleAssistant, Content: a.Content}); err != nil {
			t.Fatalf("the answer cannot be stored: %v", err)
		}
	})
}
