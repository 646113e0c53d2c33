package gemini_test

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
	"github.com/harness-go/harness/model/wire/gemini"
)

// decoded is a model whose answer is a body.
type decoded struct{ body io.Reader }

func (d decoded) Stream(context.Context, model.Request) iter.Seq2[model.Part, error] {
	return gemini.Decode(d.body, "p", "asked")
}

func decode(body string) modeltest.Answer {
	return modeltest.Collect(context.Background(), decoded{strings.NewReader(body)}, model.Request{})
}

// stream writes events from chunks.
func stream(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString("data: " + c + "\r\n\r\n")
	}
	return b.String()
}

// parts is a chunk with these parts, and with a finish reason if one is given.
func parts(list, finish string) string {
	if finish != "" {
		finish = `,"finishReason":"` + finish + `"`
	}
	return `{"candidates":[{"content":{"parts":[` + list + `],"role":"model"}` + finish + `,"index":0}],"modelVersion":"served","responseId":"r1"}`
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
	raw := func(r *ai.RawItem) string {
		if r == nil {
			return ""
		}
		return " " + r.Wire + "/" + r.Model + string(r.JSON)
	}
	for _, p := range a.Parts {
		switch c := p.Content.(type) {
		case ai.TextPart:
			out = append(out, "text "+c.Text+raw(c.Raw))
		case ai.ReasoningPart:
			out = append(out, "think "+c.Text+raw(c.Raw))
		case ai.ToolCallPart:
			id := c.ToolCallID
			if strings.HasPrefix(id, "call_") {
				id = "made"
			}
			s := fmt.Sprintf("call %s %s(%s)", id, c.ToolName, c.Input)
			if c.Raw == nil {
				s += " without raw"
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
	const incomplete = "incomplete  0: the answer ended without a finish reason"
	call := func(fields string) string { return `{"functionCall":{` + fields + `}}` }
	for name, c := range map[string]struct{ body, want string }{
		"text":                       {stream(parts(`{"text":"a"}`, ""), parts(`{"text": "b"}`, ""), parts(`{"text":""}`, "STOP")), "text ab; stop/STOP"},
		"texts of one chunk":         {stream(parts(`{"text":"a"},{"text":"b"}`, "STOP")), "text ab; stop/STOP"},
		"end mark":                   {stream(parts(`{"text":"a"}`, "STOP"), "[DONE]", parts(`{"text":"b"}`, "")), "text a; stop/STOP"},
		"reason in every chunk":      {stream(parts(`{"text":"a"}`, "STOP"), parts(`{"text":"b"}`, "STOP")), "text ab; stop/STOP"},
		"reason alone":               {stream(parts(`{"text":"a"}`, ""), `{"candidates":[{"finishReason":"STOP"}]}`), "text a; stop/STOP"},
		"other candidates":           {stream(`{"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"},{"content":{"parts":[{"text":"a"}]}}]}`, parts("", "STOP")), "text a; stop/STOP"},
		"null members":               {stream(`{"candidates":null,"usageMetadata":null,"error":null,"promptFeedback":null}`, parts(`{"text":"a","thought":null,"functionCall":null}`, "STOP")), "text a; stop/STOP"},
		"an empty part":              {stream(parts(`{},{"text":"a"},{"thought":true}`, "STOP")), "text a; stop/STOP"},
		"events of other names":      {"event: ping\ndata: soon\n\n" + stream(parts(`{"text":"a"}`, "STOP")), "text a; stop/STOP"},
		"bytes that are no UTF-8":    {stream(parts("{\"text\":\"a\xffb\"}", ""), parts("{\"text\":\"\xc3\\n\"}", "STOP")), "text a\uFFFDb\uFFFD\n; stop/STOP"},
		"thoughts":                   {stream(parts(`{"text":"h","thought":true}`, ""), parts(`{"text": "m", "thought": true}`, ""), parts(`{"text":"a"}`, "STOP")), "think hm; text a; stop/STOP"},
		"thoughts between texts":     {stream(parts(`{"text":"a"},{"text":"h","thought":true},{"text":"b"}`, "STOP")), "text a; think h; text b; stop/STOP"},
		"a thought that is none":     {stream(parts(`{"thought":false,"text":"a"}`, "STOP")), "text a; stop/STOP"},
		"signature on empty text":    {stream(parts(`{"text":"a"}`, ""), parts(`{"text": "","thoughtSignature": "c2ln"}`, "STOP")), `text a; text  gemini/asked{"text": "","thoughtSignature": "c2ln"}; stop/STOP`},
		"signature on text":          {stream(parts(`{"text":"a"}`, ""), parts(`{"text":"b","thoughtSignature":"c2ln"},{"text":"c"}`, "STOP")), `text a; text b gemini/asked{"text":"b","thoughtSignature":"c2ln"}; text c; stop/STOP`},
		"signature on a thought":     {stream(parts(`{"text":"h","thought":true,"thoughtSignature":"c2ln"}`, "STOP")), `think h gemini/asked{"text":"h","thought":true,"thoughtSignature":"c2ln"}; stop/STOP`},
		"signature alone":            {stream(parts(`{"thoughtSignature":"c2ln"}`, "STOP")), `text  gemini/asked{"thoughtSignature":"c2ln"}; stop/STOP`},
		"parts that are not known":   {stream(parts(`{"executableCode":{"code":"1<2"}},{"codeExecutionResult":{"output":"1"}},{"text":"a"}`, "STOP")), `text  gemini/asked{"executableCode":{"code":"1<2"}}; text  gemini/asked{"codeExecutionResult":{"output":"1"}}; text a; stop/STOP`},
		"call":                       {stream(parts(call(`"id":"c1","name":"f","args":{"a": 1}`), "STOP")), `call c1 f({"a": 1}); tool-calls/STOP`},
		"no id":                      {stream(parts(call(`"name":"f","args":{}`)+","+call(`"name":"f","args":{}`), "STOP")), `call made f({}); call made f({}); tool-calls/STOP`},
		"one id twice":               {stream(parts(call(`"id":"c1","name":"f"`), ""), parts(call(`"id":"c1","name":"g"`), "STOP")), `call c1 f({}); call made g({}); tool-calls/STOP`},
		"no arguments":               {stream(parts(call(`"id":"c1","name":"f","args":null`), "STOP")), `call c1 f({}); tool-calls/STOP`},
		"arguments as text":          {stream(parts(call(`"id":"c1","name":"f","args":"{\"a\": 1"`), "STOP")), `call c1 f({"a": 1); tool-calls/STOP`},
		"empty arguments as text":    {stream(parts(call(`"id":"c1","name":"f","args":" "`), "STOP")), `call c1 f({}); tool-calls/STOP`},
		"text around calls":          {stream(parts(`{"text":"a"}`, ""), parts(call(`"id":"c1","name":"f"`), ""), parts(`{"text":"b"}`, "STOP")), `text a; call c1 f({}); text b; tool-calls/STOP`},
		"cut call":                   {stream(parts(call(`"id":"c1","name":"f"`), "MAX_TOKENS")), `call c1 f({}) cut; length/MAX_TOKENS`},
		"filtered call":              {stream(parts(call(`"id":"c1","name":"f"`), "SAFETY")), `call c1 f({}) cut; content-filter/SAFETY`},
		"recitation":                 {stream(parts(`{"text":"a"}`, "RECITATION")), `text a; content-filter/RECITATION`},
		"blocklist":                  {stream(parts("", "BLOCKLIST")), `content-filter/BLOCKLIST`},
		"prohibited":                 {stream(parts("", "PROHIBITED_CONTENT")), `content-filter/PROHIBITED_CONTENT`},
		"personal data":              {stream(parts("", "SPII")), `content-filter/SPII`},
		"an unknown reason":          {stream(parts("", "NOVEL")), "other/NOVEL"},
		"blocked prompt":             {stream(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}`), "content-filter/SAFETY"},
		"block beside a reason":      {stream(`{"promptFeedback":{"blockReason":"OTHER"},"candidates":[{"finishReason":"STOP"}]}`), "stop/STOP"},
		"malformed call":             {stream(`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"print(x"}]}`), "incomplete  0: the answer is unusable: MALFORMED_FUNCTION_CALL: print(x"},
		"unexpected call":            {stream(parts(`{"text":"a"}`, "UNEXPECTED_TOOL_CALL")), "incomplete  0: the answer is unusable: UNEXPECTED_TOOL_CALL: the model wrote no call that can be read"},
		"missing signature":          {stream(parts("", "MISSING_THOUGHT_SIGNATURE")), "invalid_request MISSING_THOUGHT_SIGNATURE 0: a signature is missing in the history"},
		"not streamed":               {parts(`{"text":"a"},`+call(`"id":"c1","name":"f"`), "STOP"), "text a; call c1 f({}); tool-calls/STOP"},
		"an array":                   {"[" + parts(`{"text":"a"}`, "") + "\n,\n" + parts(`{"text":"b"}`, "STOP") + "]", "text ab; stop/STOP"},
		"an array with an error":     {"[" + parts(`{"text":"a"}`, "") + `,{"error":{"code":503,"message":"later","status":"UNAVAILABLE"}}]`, "overloaded 503 503: later"},
		"not streamed, cut":          {`{"candidates":[{"content":`, incomplete},
		"array, no reason":           {"[" + parts(`{"text":"a"}`, "") + "]", incomplete},
		"empty body":                 {"", incomplete},
		"no reason":                  {stream(parts(`{"text":"a"}`, "")), incomplete},
		"no reason after a call":     {stream(parts(call(`"id":"c1","name":"f"`), "")), incomplete},
		"only the end mark":          {stream("[DONE]"), incomplete},
		"cut in an event":            {stream(parts(`{"text":"a"}`, "")) + `data: {"candidates":[{"con`, incomplete},
		"garbled event":              {stream(`{"candidates":[{"con`), "protocol  0: an event of the stream cannot be read: unexpected end of JSON input"},
		"not an object":              {stream(`"hello"`), "protocol  0: an event of the stream is not a JSON object"},
		"a part of another type":     {stream(parts(`"a"`, "")), "protocol  0: a part of the answer is not a JSON object"},
		"a call of another type":     {stream(parts(`{"functionCall":[]}`, "")), "protocol  0: a function call of the answer cannot be read: json: cannot unmarshal array into Go value of type gemini.functionCall"},
		"a web page":                 {"<html><body>Welcome", "protocol  0: the server answered with an HTML page; check the base URL"},
		"error chunk":                {stream(parts(`{"text":"a"}`, ""), `{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}`), "overloaded 503 503: overloaded"},
		"error chunk without a code": {stream(`{"error":{"message":"slow","status":"RESOURCE_EXHAUSTED"}}`), "rate_limit RESOURCE_EXHAUSTED 0: slow"},
		"flat error":                 {stream(`{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}`), "invalid_request 400 400: bad"},
		"error event":                {"event: error\ndata: it broke\n\n", "server  0: it broke"},
		"error object alone":         {`{"error":{"code":404,"message":"no model","status":"NOT_FOUND"}}`, "invalid_request 404 404: no model"},
		"error array alone":          {`[{"error":{"code":401,"message":"key","status":"UNAUTHENTICATED"}}]`, "authentication 401 401: key"},
		"prompt too long":            {stream(`{"error":{"code":400,"message":"The input token count (9) exceeds the maximum number of tokens allowed (8).","status":"INVALID_ARGUMENT"}}`), "context_length 400 400: The input token count (9) exceeds the maximum number of tokens allowed (8)."},
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

func TestAnAnswerNobodyCanUseIsAskedForAgain(t *testing.T) {
	for _, reason := range []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"} {
		a := decode(stream(parts(`{"functionCall":{"name":"f"}}`, reason)))
		if e, ok := model.AsError(a.Err); !ok || !e.Retryable() || len(a.Content) > 0 {
			t.Errorf("%s: %v, items %v", reason, a.Err, a.Content)
		}
	}
}

func TestABreakAfterTheFinishReasonCostsOnlyTheUsage(t *testing.T) {
	body := io.MultiReader(strings.NewReader(stream(parts(`{"text":"a"}`, "STOP"))), iotest.ErrReader(io.ErrUnexpectedEOF))
	a := modeltest.Collect(t.Context(), decoded{body}, model.Request{})
	if got := render(a); got != "text a; stop/STOP" || a.Finish.Usage.Known() {
		t.Errorf("%s, usage %+v", got, a.Finish.Usage)
	}
	body = io.MultiReader(strings.NewReader(stream(parts(`{"text":"a"}`, ""))), iotest.ErrReader(io.ErrUnexpectedEOF))
	if a := modeltest.Collect(t.Context(), decoded{body}, model.Request{}); a.Err == nil {
		t.Error("a break before it was not reported")
	}
}

func TestUsage(t *testing.T) {
	n := func(p *int64) string {
		if p == nil {
			return "?"
		}
		return fmt.Sprint(*p)
	}
	for name, c := range map[string]struct{ usage, want string }{
		"plain":                        {`{"promptTokenCount":10,"candidatesTokenCount":3,"totalTokenCount":13}`, "10 ? ? / 3 ? ?"},
		"cached":                       {`{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":3,"totalTokenCount":13}`, "10 6 4 / 3 ? ?"},
		"thoughts beside":              {`{"promptTokenCount":10,"candidatesTokenCount":3,"thoughtsTokenCount":5,"totalTokenCount":18}`, "10 ? ? / 8 3 5"},
		"thoughts included":            {`{"promptTokenCount":10,"candidatesTokenCount":8,"thoughtsTokenCount":5,"totalTokenCount":18}`, "10 ? ? / 8 3 5"},
		"thoughts, no total":           {`{"promptTokenCount":10,"candidatesTokenCount":3,"thoughtsTokenCount":5}`, "10 ? ? / 8 3 5"},
		"cut while thinking":           {`{"promptTokenCount":10,"thoughtsTokenCount":5,"totalTokenCount":15}`, "10 ? ? / 5 0 5"},
		"no answer":                    {`{"promptTokenCount":10,"totalTokenCount":10}`, "10 ? ? / 0 ? ?"},
		"prompt alone":                 {`{"promptTokenCount":10}`, "10 ? ? / ? ? ?"},
		"the service's own tools":      {`{"promptTokenCount":10,"toolUsePromptTokenCount":7,"candidatesTokenCount":3,"thoughtsTokenCount":2,"totalTokenCount":22}`, "17 ? ? / 5 3 2"},
		"an empty object":              {`{}`, "? ? ? / ? ? ?"},
		"null":                         {`null`, "? ? ? / ? ? ?"},
		"other members":                {`{"trafficType":"ON_DEMAND"}`, "? ? ? / ? ? ?"},
		"nonsense":                     {`{"promptTokenCount":"many"}`, "? ? ? / ? ? ?"},
		"negative":                     {`{"promptTokenCount":-1,"candidatesTokenCount":3}`, "? ? ? / 3 ? ?"},
		"beyond any model":             {`{"promptTokenCount":9223372036854775807,"candidatesTokenCount":3}`, "? ? ? / 3 ? ?"},
		"more cached than there is":    {`{"promptTokenCount":3,"cachedContentTokenCount":4,"candidatesTokenCount":3}`, "3 ? 4 / 3 ? ?"},
		"more thoughts than the total": {`{"promptTokenCount":10,"thoughtsTokenCount":5,"totalTokenCount":12}`, "10 ? ? / 2 ? 5"},
		"zero is known":                {`{"promptTokenCount":0,"candidatesTokenCount":0}`, "0 ? ? / 0 ? ?"},
	} {
		t.Run(name, func(t *testing.T) {
			a := decode(stream(`{"candidates":[{"finishReason":"STOP"}],"usageMetadata":` + c.usage + `}`))
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			i, o := a.Finish.Usage.InputTokens, a.Finish.Usage.OutputTokens
			got := strings.Join([]string{n(i.Total), n(i.NoCache), n(i.CacheRead), "/", n(o.Total), n(o.Text), n(o.Reasoning)}, " ")
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestTheLastUsageWinsAndNothingIsAdded(t *testing.T) {
	withUsage := func(text, usage string) string {
		return `{"candidates":[{"content":{"parts":[{"text":"` + text + `"}]}}],"usageMetadata":` + usage + `}`
	}
	a := decode(stream(
		withUsage("a", `{"promptTokenCount":1000,"cachedContentTokenCount":800,"candidatesTokenCount":1,"thoughtsTokenCount":9}`),
		withUsage("b", `{"promptTokenCount":1000,"cachedContentTokenCount":800,"candidatesTokenCount":2,"thoughtsTokenCount":9}`),
		withUsage("c", `{"promptTokenCount":1000,"cachedContentTokenCount":800,"candidatesTokenCount":13,"thoughtsTokenCount":9}`),
		withUsage("d", `{"promptTokenCount":1000,"cachedContentTokenCount":900,"candidatesTokenCount":14,"thoughtsTokenCount":9}`),
		parts(``, "STOP")))
	u := a.Finish.Usage
	if a.Text() != "abcd" || *u.InputTokens.Total != 1000 || *u.InputTokens.CacheRead != 900 || *u.OutputTokens.Total != 23 {
		t.Errorf("text %q, usage %s", a.Text(), u.Raw)
	}
}

func TestOneEventMayBeMegabytes(t *testing.T) {
	long := strings.Repeat("0123456789", 1<<20)
	a := decode(stream(parts(`{"text":"`+long+`"}`, "STOP")))
	if a.Err != nil || len(a.Text()) != len(long) {
		t.Errorf("%d bytes, %v", len(a.Text()), a.Err)
	}
}

// framedAndPlain decodes the same parts twice: in events that are framed alike, and in events that differ in their ids
// too, which the quick way does not take.
func framedAndPlain(before, piece, behind, number string) (framed, plain string) {
	event := func(id int, piece, number string) string {
		return fmt.Sprintf(`{"candidates": [{"content": {"parts": [{"text": "%s"%s}]%s}}],"usageMetadata": {"promptTokenCount": 7,"candidatesTokenCount": %s},"responseId": "r%d"}`,
			piece, before, behind, number, id)
	}
	end := parts("", "STOP")
	show := func(a modeltest.Answer) string { return render(a) + " usage " + string(a.Finish.Usage.Raw) }
	framed = show(decode(stream(event(1, "one", "1"), event(1, "two", "20"), event(1, piece, number), event(1, "three", number), end)))
	plain = show(decode(stream(event(1, "one", "1"), event(2, "two", "20"), event(3, piece, number), event(4, "three", number), end)))
	return framed, plain
}

// The quick way through a stream must not be told from the plain one.
func TestFramedPartsAreDecodedLikeAnyOther(t *testing.T) {
	for _, before := range []string{"", `, "thought": true`, `,"thought":false`, `,"thoughtSignature":"c2ln"`} {
		for _, piece := range []string{
			`a`, `b \"quoted\"`, `\u00e4 \ud83d\ude42`, `\ud83d`, `"`, `x","thought":true,"a":"`, `x"}]}}],"error":{"message":"boom`, `\`, `\\`,
			`tab\t`, "raw\ttab", "\xff", "\xc3", ``, `{`, `]}`, "\u2028", `{"text": "one"}`,
		} {
			for _, number := range []string{"3", "0", "007", "1.5", "-1", "1e3", "x", "", "99999999999999999999", "null"} {
				if framed, plain := framedAndPlain(before, piece, "", number); framed != plain {
					t.Errorf("%s %q %q:\nframed %s\n plain %s", before, piece, number, framed, plain)
				}
			}
		}
	}
}

func FuzzFramedParts(f *testing.F) {
	f.Add("", `a\u00e4"`, "", "5")
	f.Add(`, "thought": true`, `x`, `,"finishReason":"STOP"`, "05")
	f.Add(`,"note":{"text":"one"}`, `x`, `,"usageMetadata":{"a":1}`, `1,"x\u0041":2`)
	f.Fuzz(func(t *testing.T, before, piece, behind, number string) {
		if strings.ContainsAny(before+piece+behind+number, "\r\n") || strings.Contains(before+behind, "responseId") {
			t.Skip("not one line, or ids that differ on purpose")
		}
		framed, plain := framedAndPlain(before, piece, behind, number)
		if strings.Contains(framed, "made") || strings.Contains(framed, "gemini/asked") {
			t.Skip("a raw part may hold the id of its event")
		}
		if framed != plain {
			t.Errorf("framed %s\n plain %s", framed, plain)
		}
	})
}

func TestATextThatOccursTwiceDoesNotFoolTheFrame(t *testing.T) {
	// The part stands behind the answer once more, so that its place is not sure.
	c := func(s, decoy string) string {
		return `{"candidates":[{"content":{"parts":[{"text":"` + s + `"}]}}],"note":[{"text":"` + decoy + `"}]}`
	}
	a := decode(stream(c("a", "a"), c("a", "b"), c("a", "c"), c("d", "c"), parts("", "STOP")))
	if a.Text() != "aaad" {
		t.Errorf("text %q, want aaad", a.Text())
	}
}

// FuzzDecode holds that no body breaks the decoder, that it ends with either a finish or an error, and that the whole
// items are the deltas put together.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(stream(parts(`{"text":"a"}`, ""), parts(`{"text":"b"}`, "STOP"))))
	f.Add([]byte(stream(parts(`{"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"c2ln"}`, "STOP"))))
	f.Add([]byte(`{"candidates":[{"content":{"parts":[{"text":"a","thought":true}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1}}`))
	f.Add([]byte(`[{"error":{"message":"x","code":429,"details":[{"retryDelay":"3s"}]}}]`))
	f.Add([]byte(stream(parts(`{"text":"","thoughtSignature":"c2ln"},{"executableCode":{}}`, "MAX_TOKENS"))))
	f.Add([]byte(stream(`{"promptFeedback":{"blockReason":"SAFETY"}}`)))
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
		ids := map[string]bool{}
		for i, c := range a.Calls {
			if c.Input != a.Args[i] && c.Input != "{}" {
				t.Fatalf("call %d has input %q, its deltas are %q", i, c.Input, a.Args[i])
			}
			if c.ToolCallID == "" || ids[c.ToolCallID] {
				t.Fatalf("call %d has the id %q", i, c.ToolCallID)
			}
			ids[c.ToolCallID] = true
		}
		if _, err := json.Marshal(ai.Message{Role: ai.RoleAssistant, Content: a.Content}); err != nil {
			t.Fatalf("the answer cannot be stored: %v", err)
		}
	})
}
