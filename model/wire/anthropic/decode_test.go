package anthropic_test

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
	"github.com/harness-go/harness/model/wire/anthropic"
)

func event(name, members string) string {
	return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + members + "}\n\n"
}

const begin = `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"served","content":[],"usage":{"input_tokens":10,"output_tokens":1}}`

func stream(events ...string) string {
	return event("message_start", begin) + event("ping", "") + strings.Join(events, "")
}

func block(i int, start string, deltas ...string) string {
	s := event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":%s`, i, start))
	for _, d := range deltas {
		s += event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":%s`, i, d))
	}
	return s + event("content_block_stop", fmt.Sprintf(`,"index":%d`, i))
}

func stop(reason string) string {
	return event("message_delta", `,"delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":{"output_tokens":7}`) + event("message_stop", "")
}

// decoded is a model that answers with the same bytes always.
type decoded struct{ body string }

func (d decoded) Stream(context.Context, model.Request) iter.Seq2[model.Part, error] {
	return anthropic.Decode(strings.NewReader(d.body), "p", "asked")
}

func decode(body string) modeltest.Answer {
	return modeltest.Collect(context.Background(), decoded{body}, model.Request{})
}

// raws are the blocks of an answer that go back as they came.
func raws(a modeltest.Answer) (list []string) {
	for _, p := range a.Content {
		var raw *ai.RawItem
		switch p := p.(type) {
		case ai.ReasoningPart:
			raw = p.Raw
		case ai.TextPart:
			raw = p.Raw
		case ai.ToolCallPart:
			raw = p.Raw
		}
		if raw != nil {
			list = append(list, string(raw.JSON))
		}
	}
	return list
}

func TestBlocksAreKeptAsTheyCame(t *testing.T) {
	a := decode(stream(
		block(0, `{"type":"thinking","thinking":"","signature":"","extra":true}`, `{"type":"thinking_delta","thinking":"h"}`, `{"type":"thinking_delta","thinking":"m"}`, `{"type":"signature_delta","signature":"s<g"}`),
		block(1, `{"type":"redacted_thinking","data":"opaque+/="}`),
		block(2, `{"type":"text","text":""}`, `{"type":"text_delta","text":"Look: "}`, `{"type":"text_delta","text":"\u00e4\n"}`),
		block(3, `{"type":"text","text":"","citations":[]}`, `{"type":"text_delta","text":"cited"}`, `{"type":"citations_delta","citation":{"cited_text":"x"}}`),
		block(4, `{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"query\":"}`, `{"type":"input_json_delta","partial_json":"\"q\"}"}`),
		block(5, `{"type":"web_search_tool_result","tool_use_id":"srv","content":[{"type":"web_search_result","encrypted_content":"E"}]}`),
		block(6, `{"type":"tool_use","id":"toolu_1","name":"read","input":{}}`, `{"type":"input_json_delta","partial_json":""}`, `{"type":"input_json_delta","partial_json":"{\"path\": "}`, `{"type":"input_json_delta","partial_json":"\"a\"}"}`),
		block(7, `{"type":"tool_use","id":"toolu_2","name":"todos","input":{}}`),
		event("a_new_event", `,"x":1`),
		stop("tool_use"),
	))
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if a.Text() != "Look: ä\ncited" || a.Deltas != a.Text() || a.Reasoning != "hm" {
		t.Errorf("text %q, deltas %q, reasoning %q", a.Text(), a.Deltas, a.Reasoning)
	}
	want := []string{
		`{"type":"thinking","thinking":"hm","signature":"s<g","extra":true}`,
		`{"type":"redacted_thinking","data":"opaque+/="}`,
		`{"type":"text","text":"cited","citations":[{"cited_text":"x"}]}`,
		`{"type":"server_tool_use","id":"srv","name":"web_search","input":{"query":"q"}}`,
		`{"type":"web_search_tool_result","tool_use_id":"srv","content":[{"type":"web_search_result","encrypted_content":"E"}]}`,
		`{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}`,
		`{"type":"tool_use","id":"toolu_2","name":"todos","input":{}}`,
	}
	if got := strings.Join(raws(a), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("raw blocks\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if f := a.Finish; f.Finish.Unified != ai.FinishToolCalls || f.ResponseID != "msg_1" || f.ServedModel != "served" {
		t.Errorf("finish %+v", f)
	}
	replayed(t, "kept", a, want)
}

// replayed continues the conversation, before and after a store, and looks for the blocks in the request.
func replayed(t *testing.T, name string, a modeltest.Answer, blocks []string) {
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
		r, err := sent(t, anthropic.Config{}, model.Request{Model: "asked", Messages: []ai.Message{ai.UserMessage("go"), turn, ai.UserMessage("on")}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rest := string(r.body)
		for _, s := range blocks { // in their order
			_, after, ok := strings.Cut(rest, s)
			if !ok {
				t.Errorf("%s: the request lacks the block %s", name, s)
			}
			rest = after
		}
	}
}

func TestStopReasons(t *testing.T) {
	for word, want := range map[string]ai.FinishReasonKind{
		"end_turn": ai.FinishStop, "stop_sequence": ai.FinishStop, "tool_use": ai.FinishStop, "max_tokens": ai.FinishLength,
		"model_context_window_exceeded": ai.FinishLength, "refusal": ai.FinishContentFilter, "pause_turn": ai.FinishOther, "new": ai.FinishOther,
	} {
		a := decode(stream(block(0, `{"type":"text","text":"x"}`), stop(word)))
		if f := a.Finish.Finish; a.Err != nil || f.Unified != want || f.Raw != word {
			t.Errorf("%s: %+v, %v", word, f, a.Err)
		}
	}
}

func TestWhatWasCutIsMarkedAndNeverReplayed(t *testing.T) {
	a := decode(stream(
		block(0, `{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":"half"}`),
		block(1, `{"type":"tool_use","id":"t","name":"write","input":{}}`, `{"type":"input_json_delta","partial_json":"{\"a\":\"b"}`),
		stop("max_tokens"),
	))
	if a.Err != nil || !a.Truncated || len(a.Calls) != 1 || a.Calls[0].Input != `{"a":"b` || a.Calls[0].Raw != nil {
		t.Fatalf("calls %+v, truncated %v, %v", a.Calls, a.Truncated, a.Err)
	}
	if r := a.Content[0].(ai.ReasoningPart); r.Raw != nil {
		t.Error("reasoning without a signature would be replayed")
	}
}

func TestAnAnswerWithoutAStopReasonIsIncomplete(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":     "",
		"no stop":     stream(block(0, `{"type":"tool_use","id":"t","name":"f","input":{}}`, `{"type":"input_json_delta","partial_json":"{}"}`)),
		"stop at all": stream(event("message_stop", "")),
		"cut event":   strings.TrimSuffix(stream(block(0, `{"type":"text","text":"x"}`)), "}\n\n"),
		"cut object":  `{"type":"message","content":[`,
	} {
		if e, ok := model.AsError(decode(body).Err); !ok || e.Kind != model.ErrIncomplete || !e.Retryable() {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// The last split of the input that is whole counts; a maximum of the fields would count tokens twice.
func TestTheLastWholeUsageCounts(t *testing.T) {
	answer := func(start, end string) ai.Usage {
		body := event("message_start", `,"message":{"id":"m","model":"m","usage":`+start+`}`) + block(0, `{"type":"text","text":"x"}`) +
			event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":`+end) + event("message_stop", "")
		a := decode(body)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		return a.Finish.Usage
	}
	num := func(n *int64) int64 {
		if n == nil {
			return -1
		}
		return *n
	}
	for name, c := range map[string]struct {
		start, end                     string
		total, fresh, read, write, out int64
	}{
		"split anew at the end": {`{"input_tokens":1000}`, `{"input_tokens":200,"cache_read_input_tokens":800,"output_tokens":10}`, 1000, 200, 800, -1, 10},
		"output alone":          {`{"input_tokens":5,"cache_creation_input_tokens":3,"cache_read_input_tokens":2,"output_tokens":1}`, `{"output_tokens":10}`, 10, 5, 2, 3, 10},
		"input without a split": {`{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":2}`, `{"input_tokens":5,"output_tokens":10}`, 7, 5, 2, 0, 10},
		"a zero at the end":     {`{"input_tokens":5}`, `{"input_tokens":0,"output_tokens":10}`, 5, 5, -1, -1, 10},
		"a zero at the start":   {`{"input_tokens":0}`, `{"input_tokens":5,"output_tokens":10}`, 5, 5, -1, -1, 10},
		"zeros throughout":      {`{"input_tokens":0}`, `{"input_tokens":0,"output_tokens":0}`, 0, 0, -1, -1, 0},
		"nothing said":          {`null`, `null`, -1, -1, -1, -1, -1},
		"nonsense":              {`{"input_tokens":-4}`, `{"output_tokens":"many"}`, -1, -1, -1, -1, -1},
	} {
		u := answer(c.start, c.end)
		if num(u.InputTokens.Total) != c.total || num(u.InputTokens.NoCache) != c.fresh || num(u.InputTokens.CacheRead) != c.read ||
			num(u.InputTokens.CacheWrite) != c.write || num(u.OutputTokens.Total) != c.out {
			t.Errorf("%s: %s in, %+v", name, u.Raw, u)
		}
		if u.Known() != (c.total >= 0) {
			t.Errorf("%s: known %v", name, u.Known())
		}
	}
}

func TestErrorsInTheStreamAreTyped(t *testing.T) {
	for body, want := range map[string]model.ErrorKind{
		event("error", `,"error":{"type":"overloaded_error","message":"Overloaded"}`):                                    model.ErrOverloaded,
		event("error", `,"error":{"type":"rate_limit_error","message":"slow"}`):                                          model.ErrRateLimit,
		event("error", `,"error":{"type":"api_error","message":"oops"}`):                                                 model.ErrServer,
		event("error", `,"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}`): model.ErrContextLength,
		event("error", ``):             model.ErrServer,
		"event: error\ndata: boom\n\n": model.ErrServer,
		"data: nonsense\n\n":           model.ErrProtocol,
		"<html>":                       model.ErrProtocol,
	} {
		for _, b := range []string{body, stream(block(0, `{"type":"text","text":"x"}`), body)} {
			if strings.HasPrefix(body, "<") && b != body {
				continue
			}
			if e, ok := model.AsError(decode(b).Err); !ok || e.Kind != want {
				t.Errorf("%q: %v, want %s", body, e, want)
			}
		}
	}
}

func TestAWholeAnswerInOneObject(t *testing.T) {
	a := decode(`{"id":"msg_1","type":"message","model":"served","stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4},
		"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"f","input":{"a": 1}}]}`)
	if a.Err != nil || a.Text() != "hi" || a.Reasoning != "hm" || len(a.Calls) != 1 || a.Calls[0].Input != `{"a": 1}` || a.Finish.Finish.Unified != ai.FinishToolCalls {
		t.Errorf("%+v", a)
	}
}

// A whole answer's blocks are kept letter by letter, and streamed ones in the order of the server's members.
func TestBlocksOfAWholeAnswerAreKeptLetterByLetter(t *testing.T) {
	blocks := []string{
		`{"signature":"s\u003cg","type":"thinking","thinking":"h\u00e4"}`,
		`{"text":"cited","type":"text","citations":[{"cited_text":"\u00e4"}]}`,
		`{"type":"server_tool_use","id":"s","name":"web_search","input":{"q":"\u00e4"},"caller":{"type":"direct"}}`,
		`{"id":"t","type":"tool_use","input":{"a":1.0},"name":"f"}`,
	}
	a := decode(`{"type":"message","id":"m","model":"m","stop_reason":"tool_use","content":[` + strings.Join(blocks, ", ") + `]}`)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	replayed(t, "whole", a, blocks)
}

func TestPiecesThatBelongToNoBlockAreAnError(t *testing.T) {
	for _, delta := range []string{`{"type":"text_delta","text":"lost"}`, `{"text":"lost","type":"text_delta"}`, `{"type":"citations_delta","citation":{}}`, `{"type":"new_delta"}`} {
		a := decode(stream(event("content_block_delta", `,"index":3,"delta":`+delta), stop("end_turn")))
		if e, ok := model.AsError(a.Err); !ok || e.Kind != model.ErrProtocol || !strings.Contains(e.Message, "block 3") {
			t.Errorf("%s: %v", delta, a.Err)
		}
	}
	for _, start := range []string{`null`, `[]`, `"text"`} {
		if e, ok := model.AsError(decode(stream(block(0, start), stop("end_turn"))).Err); !ok || e.Kind != model.ErrProtocol {
			t.Errorf("%s: %v", start, e)
		}
	}
}

// What pieces add to a block that is not known here cannot be told, so that half of it would go back.
func TestABlockThatGrewInAnUnknownWayIsNotReplayed(t *testing.T) {
	a := decode(stream(
		block(0, `{"type":"compaction","content":""}`, `{"type":"compaction_delta","content":"half"}`),
		block(1, `{"type":"text","text":""}`, `{"type":"new_delta","x":1}`, `{"type":"text_delta","text":"a"}`),
		block(2, `{"type":"new","content":"whole"}`),
		stop("end_turn"),
	))
	if a.Err != nil || len(a.Content) != 2 || a.Text() != "a" {
		t.Fatalf("%+v, %v", a.Content, a.Err)
	}
	replayed(t, "grown", a, []string{`{"type":"text","text":"a"}`, `{"type":"new","content":"whole"}`})
}

func TestArgumentsMayComeWithTheBeginning(t *testing.T) {
	for name, deltas := range map[string][]string{
		"alone": nil,
		"twice": {`{"type":"input_json_delta","partial_json":"{\"a\":"}`, `{"type":"input_json_delta","partial_json":"1}"}`},
		"empty": {`{"type":"input_json_delta","partial_json":""}`},
	} {
		a := decode(stream(block(0, `{"type":"tool_use","id":"t","name":"f","input":{"a":1}}`, deltas...), stop("tool_use")))
		if a.Err != nil || len(a.Calls) != 1 || a.Calls[0].Input != `{"a":1}` || a.Args[0] != `{"a":1}` {
			t.Errorf("%s: %+v, deltas %v, %v", name, a.Calls, a.Args, a.Err)
		}
	}
}

func TestEveryCallHasAnIDOfItsOwn(t *testing.T) {
	a := decode(stream(
		block(0, `{"type":"tool_use","name":"f","input":{}}`),
		block(1, `{"type":"tool_use","id":"t","name":"f","input":{}}`),
		block(2, `{"type":"tool_use","id":"t","name":"f","input":{}}`),
		stop("tool_use"),
	))
	if a.Err != nil || len(a.Calls) != 3 {
		t.Fatalf("%+v, %v", a.Calls, a.Err)
	}
	ids := map[string]bool{}
	for i, c := range a.Calls {
		ids[c.ToolCallID] = true
		if c.ToolCallID == "" || (c.Raw != nil) != (i == 1) {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d ids", len(ids))
	}
	for _, p := range a.Parts {
		if p.Kind == model.PartToolCallDelta && p.ID != a.Calls[p.Index].ToolCallID {
			t.Errorf("a delta of call %d has the id %q", p.Index, p.ID)
		}
	}
}

func TestABreakAfterTheStopReasonCostsNothing(t *testing.T) {
	a := decode(strings.TrimSuffix(stream(block(0, `{"type":"text","text":"x"}`), stop("end_turn")), event("message_stop", "")) + "event: message_stop\ndata: {")
	if a.Err != nil || a.Text() != "x" || *a.Finish.Usage.OutputTokens.Total != 7 {
		t.Errorf("%+v, %v", a.Finish, a.Err)
	}
}

func TestOneEventMayBeMegabytes(t *testing.T) {
	long := strings.Repeat("0123456789", 1<<20)
	a := decode(stream(block(0, `{"type":"text","text":""}`, `{"type":"text_delta","text":"`+long+`"}`), stop("end_turn")))
	if a.Err != nil || len(a.Text()) != len(long) {
		t.Errorf("%d of %d bytes, %v", len(a.Text()), len(long), a.Err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(stream(block(0, `{"type":"thinking","thinking":"a","signature":"b"}`), block(1, `{"type":"tool_use","id":"t","name":"f","input":{"a":1}}`, `{"type":"input_json_delta","partial_json":"{"}`), stop("max_tokens"))))
	f.Add([]byte(stream(block(3, `{"type":"new","x":[1]}`), event("message_delta", `,"delta":{"stop_reason":"pause_turn"},"usage":{"input_tokens":1}`))))
	f.Add([]byte(`{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a := decode(string(body))
		if a.Err != nil {
			if _, ok := model.AsError(a.Err); !ok {
				t.Fatalf("error %v has no kind", a.Err)
			}
			return
		}
		// What was decoded can be sent again, and its raw forms are JSON.
		req := model.Request{Model: "asked", Messages: []ai.Message{ai.UserMessage("go"), {Role: ai.RoleAssistant, Content: a.Content}, ai.UserMessage("on")}}
		r, err := sent(t, anthropic.Config{}, req)
		if err != nil {
			t.Fatalf("the answer cannot be sent back: %v", err)
		}
		if !json.Valid(r.body) {
			t.Fatalf("the request is not JSON: %s", r.body)
		}
	})
}
