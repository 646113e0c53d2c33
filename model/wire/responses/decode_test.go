package responses_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/responses"
)

// maxItems is the decoder's bound.
const maxItems = 1 << 16

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
		"a delta too high":  {delta("output_text", maxItems+1, `"x"`), "", "", model.ErrProtocol},
		"named alone":       {last("response.incomplete", `{"incomplete_details":{"reason":"max_output_tokens"}}`), ai.FinishLength, "max_output_tokens", ""},
		"without a reason":  {last("response.incomplete", `{}`), ai.FinishOther, "", ""},
		"done behind":       {completed + "data: [DONE]\n\n", ai.FinishStop, "completed", ""},
		"an error behind":   {completed + event("error", `,"code":"server_error","message":"oops"`), ai.FinishStop, "completed", ""},
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

// A call runs only when the server says that it, and the answer around it, came to its end.
func TestACallThatMayBeCutIsMarked(t *testing.T) {
	const (
		begun = `{"type":"function_call","call_id":"c","name":"write","arguments":""}`
		whole = `{"type":"function_call","call_id":"c","name":"write","arguments":"{}","status":"completed"}`
		cut   = `{"type":"function_call","call_id":"c","name":"write","arguments":"{}","status":"incomplete"}`
	)
	incomplete := func(reason string) string {
		return event("response.incomplete", `,"response":{"status":"incomplete","incomplete_details":{"reason":"`+reason+`"}}`)
	}
	piece := delta("function_call_arguments", 0, `"{\"a\":"`)
	for name, c := range map[string]struct {
		body, input string
		raw, cut    bool
	}{
		"whole":             {added(0, begun) + done(0, whole) + completed, "{}", true, false},
		"out of tokens":     {added(0, begun) + piece + incomplete("max_output_tokens"), `{"a":`, false, true},
		"whole, then cut":   {added(0, begun) + done(0, whole) + incomplete("max_output_tokens"), "{}", true, true},
		"filtered":          {added(0, begun) + done(0, whole) + incomplete("content_filter"), "{}", true, true},
		"a new reason":      {added(0, begun) + done(0, whole) + incomplete("new"), "{}", true, true},
		"the item's status": {added(0, begun) + done(0, cut) + completed, "{}", true, true},
		"never finished":    {added(0, begun) + piece + completed, `{"a":`, false, true},
		"only deltas":       {piece + completed, `{"a":`, false, true},
		"finished at the end": {added(0, begun) + delta("function_call_arguments", 0, `"{}"`) +
			event("response.completed", `,"response":{"status":"completed","output":[`+whole+`]}`), "{}", true, false},
		"told at the end": {event("response.completed", `,"response":{"status":"completed","output":[`+whole+`]}`), "{}", true, false},
		"another list at the end": {added(0, begun) + piece +
			event("response.completed", `,"response":{"status":"completed","output":[`+message("x")+`]}`), `{"a":`, false, true},
	} {
		a := decode(stream(c.body))
		if a.Err != nil || len(a.Calls) != 1 || a.Truncated != c.cut || a.Calls[0].Input != c.input || (a.Calls[0].Raw != nil) != c.raw || a.Text() != "" {
			t.Errorf("%s: %+v, %v", name, a, a.Err)
		}
	}
}

// Some servers name no call, or two alike: each gets an id of its own, and the next request can be made.
func TestEveryCallHasAnIDOfItsOwn(t *testing.T) {
	f := func(id string) string {
		return `{"type":"function_call"` + id + `,"name":"f","arguments":"{\"a\":1}"}`
	}
	a := decode(stream(added(0, f("")), delta("function_call_arguments", 0, `"{\"a\":1}"`), done(0, f("")), done(1, f(`,"call_id":"c"`)), done(2, f(`,"call_id":"c"`)), completed))
	if a.Err != nil || len(a.Calls) != 3 {
		t.Fatalf("%+v", a)
	}
	seen := map[string]bool{}
	results := ai.Message{Role: ai.RoleTool}
	for i, c := range a.Calls {
		if c.ToolCallID == "" || seen[c.ToolCallID] || a.Args[i] != `{"a":1}` || (c.Raw != nil) != (c.ToolCallID == "c") {
			t.Errorf("call %d: %+v, deltas %q", i, c, a.Args[i])
		}
		seen[c.ToolCallID] = true
		results.Content = append(results.Content, result(c.ToolCallID, "ok"))
	}
	if _, err := sent(t, responses.Config{}, model.Request{Model: "asked", Messages: []ai.Message{ai.UserMessage("go"), says(ai.RoleAssistant, a.Content...), results}}); err != nil {
		t.Error(err)
	}
}

func TestARefusalIsTheText(t *testing.T) {
	item := `{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I will not."}]}`
	for _, body := range []string{
		stream(delta("refusal", 0, `"I will "`), delta("refusal", 0, `"not."`), done(0, item), completed),
		stream(done(0, item), completed),
	} {
		if a := decode(body); a.Err != nil || a.Text() != "I will not." || a.Deltas != a.Text() || len(raws(a)) != 1 {
			t.Errorf("%+v", a)
		}
	}
}

func TestReasoningInTheOpenIsShown(t *testing.T) {
	a := decode(stream(delta("reasoning_text", 0, `"let me "`), delta("reasoning_text", 0, `"see"`),
		done(0, `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"let me see"}],"encrypted_content":"e"}`), done(1, message("hi")), completed))
	if a.Err != nil || a.Reasoning != "let me see" || a.Content[0].(ai.ReasoningPart).Text != "let me see" || len(raws(a)) != 2 {
		t.Errorf("%+v", a)
	}
}

func TestUnknownUsageIsNotZero(t *testing.T) {
	for usage, known := range map[string]bool{
		``: false, `,"usage":null`: false, `,"usage":{}`: false, `,"usage":{"input_tokens":-1}`: false, `,"usage":"x"`: false,
		`,"usage":{"input_tokens":0,"output_tokens":0}`: true, `,"usage":{"output_tokens":3}`: true,
	} {
		a := decode(stream(event("response.completed", `,"response":{"status":"completed"`+usage+`}`)))
		if u := a.Finish.Usage; a.Err != nil || u.Known() != known || u.InputTokens.CacheRead != nil || u.OutputTokens.Reasoning != nil {
			t.Errorf("%s: %+v, %v", usage, u, a.Err)
		}
	}
}

func TestOneEventMayBeMegabytes(t *testing.T) {
	long := strings.Repeat("0123456789", 1<<20)
	a := decode(stream(delta("output_text", 0, `"`+long+`"`), done(0, message(long)), completed))
	if a.Err != nil || len(a.Text()) != len(long) {
		t.Errorf("%d of %d bytes, %v", len(a.Text()), len(long), a.Err)
	}
}

func TestAWholeAnswerInOneObject(t *testing.T) {
	a := decode(`{"id":"resp_1","model":"served","status":"completed","usage":{"input_tokens":3,"output_tokens":4},"output":[
		{"type":"reasoning","summary":[{"text":"hm"}],"encrypted_content":"e"},` + message("hi") + `,{"type":"function_call","call_id":"t","name":"f","arguments":"{\"a\":1}"}]}`)
	if a.Err != nil || a.Text() != "hi" || a.Reasoning != "hm" || len(a.Calls) != 1 || a.Calls[0].Input != `{"a":1}` || a.Finish.Finish.Unified != ai.FinishToolCalls || len(raws(a)) != 3 {
		t.Errorf("%+v", a)
	}
}

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
		if a.Finish.Kind != model.PartFinish {
			t.Fatal("neither a finish nor an error")
		}
		for _, r := range raws(a) {
			if !json.Valid([]byte(r)) {
				t.Fatalf("a raw form is not JSON: %s", r)
			}
		}
		for i, c := range a.Calls {
			if c.ToolCallID == "" || (c.Input != a.Args[i] && c.Input != "{}") {
				t.Fatalf("call %d: %+v, its deltas are %q", i, c, a.Args[i])
			}
		}
		if _, err := json.Marshal(ai.Message{Role: ai.RoleAssistant, Content: a.Content}); err != nil {
			t.Fatalf("the answer cannot be stored: %v", err)
		}
	})
}
