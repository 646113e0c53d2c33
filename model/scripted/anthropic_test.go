package scripted_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/harness-go/harness/model/scripted"
)

// A conversation that the service would refuse is refused here too, and one that it takes is taken.
func TestMessagesRequestsAreHeldToTheServicesRules(t *testing.T) {
	s, _ := server(t, scripted.ServerOptions{})
	const user = `{"role":"user","content":"go @@[{\"think\":\"hm\",\"tool\":\"f\"},{\"text\":\"all said\"}]@@"}`
	status, _, body := do(t, "POST", s.URL+"/v1/messages", `{"model":"m","max_tokens":9,"messages":[`+user+`]}`)
	var answer struct{ Content []json.RawMessage }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 || len(answer.Content) != 2 {
		t.Fatalf("%d %s", status, body)
	}
	thought := string(answer.Content[0])
	var (
		model = func(blocks ...string) string {
			return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
		}
		says   = func(blocks ...string) string { return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}` }
		call   = func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"f","input":{}}` }
		result = func(id, more string) string { return `{"type":"tool_result","tool_use_id":"` + id + `"` + more + `}` }
		text   = `{"type":"text","text":"a"}`
		png    = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"UE5H"}}`
		marked = `{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`
		turn   = model(thought, call("c")) + "," + says(result("c", ""))
		tool   = `{"name":"f","input_schema":{"type":"object"}}`
	)
	for name, c := range map[string]struct {
		messages, members string
		want              string // part of the error; empty: taken
	}{
		"whole":                            {turn, ``, ""},
		"with all that it takes":           {model(thought, `{"type":"redacted_thinking","data":"x"}`, text, `{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`, `{"type":"web_search_tool_result","tool_use_id":"s","content":[]}`, call("c"), call("d")) + "," + says(result("d", `,"content":"no","is_error":true`), result("c", `,"content":[`+text+`,`+png+`]`), text, png), `,"system":[` + marked + `],"tools":[` + tool + `,{"type":"web_search_20250305","name":"web_search","cache_control":{"type":"ephemeral"}}],"tool_choice":{"type":"auto"},"thinking":{"type":"adaptive"}`, ""},
		"messages of one role":             {model(thought) + "," + model(call("c")) + "," + says(result("c", "")) + "," + says(text), ``, ""},
		"an answer to continue":            {model(text), ``, ""},
		"a call without result":            {model(call("c")) + "," + says(text), ``, "messages.2: tool_use ids were found without tool_result blocks immediately after: c"},
		"a call at the end":                {model(call("c")), ``, "without tool_result"},
		"one result is missing":            {model(call("c"), call("d")) + "," + says(result("c", "")), ``, "immediately after: d"},
		"a result behind a text":           {model(call("c")) + "," + says(text, result("c", "")), ``, "immediately after: c"},
		"a result between texts":           {turn + "," + says(text, result("c", "")), ``, "unexpected tool_use_id c"},
		"a result of nothing":              {says(result("c", "")), ``, "unexpected tool_use_id c"},
		"two results":                      {model(call("c")) + "," + says(result("c", ""), result("c", "")), ``, "unexpected tool_use_id c"},
		"an id that occurs twice":          {turn + "," + model(call("c")) + "," + says(result("c", "")), ``, "must be unique"},
		"an id of another wire":            {model(call("c:1")) + "," + says(result("c:1", "")), ``, "messages.1.content.0: id:"},
		"arguments that are no object":     {model(`{"type":"tool_use","id":"c","name":"f","input":"x"}`) + "," + says(result("c", "")), ``, "input: an object"},
		"reasoning that was changed":       {strings.Replace(turn, `"hm"`, `"ha"`, 1), ``, "invalid signature"},
		"reasoning at the end":             {model(text, thought) + "," + says(text), ``, "cannot be thinking"},
		"blanks at the end":                {model(`{"type":"text","text":"a "}`), ``, "trailing whitespace"},
		"an empty text":                    {model(`{"type":"text","text":" "}`) + "," + says(text), ``, "messages.1.content.0: text content blocks must be non-empty"},
		"no content":                       {model(), ``, "messages.1.content: a text or a list"},
		"a role of another wire":           {`{"role":"tool","content":"a"}`, ``, "messages.1.role"},
		"a block of another wire":          {says(`{"type":"input_text","text":"a"}`), ``, "cannot stand in a message of the user"},
		"a call of the user's":             {says(call("c")), ``, "cannot stand in a message of the user"},
		"a failure that says nothing":      {model(call("c")) + "," + says(result("c", `,"is_error":true`)), ``, "cannot be empty if is_error"},
		"a failure with an image":          {model(call("c")) + "," + says(result("c", `,"is_error":true,"content":[`+png+`]`)), ``, "must be text if is_error"},
		"an image of another type":         {says(strings.Replace(png, "image/png", "image/bmp", 1)), ``, "image/bmp"},
		"an image without data":            {says(strings.Replace(png, "UE5H", "", 1)), ``, "source.data"},
		"an empty system prompt":           {says(text), `,"system":[{"type":"text","text":""}]`, "system.0"},
		"too many marks":                   {says(marked, marked, marked, marked, marked), ``, "found 5"},
		"a name that is none":              {says(text), `,"tools":[{"name":"a.b","input_schema":{"type":"object"}}]`, "tools.0.name"},
		"two tools alike":                  {says(text), `,"tools":[` + tool + `,` + tool + `]`, "must be unique"},
		"a tool without schema":            {says(text), `,"tools":[{"name":"f"}]`, "tools.0.input_schema"},
		"a forced call without tools":      {says(text), `,"tool_choice":{"type":"any"}`, "while providing tools"},
		"a forced call beside thinking":    {says(text), `,"tools":[` + tool + `],"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"}`, "forces tool use"},
		"a choice of another wire":         {says(text), `,"tool_choice":{"type":"required"}`, "tool_choice.type"},
		"a small budget":                   {says(text), `,"thinking":{"type":"enabled","budget_tokens":1000}`, "below 1024"},
		"a budget above the limit":         {says(text), `,"thinking":{"type":"enabled","budget_tokens":5000}`, "greater than thinking.budget_tokens"},
		"a budget in a turn without":       {model(call("c")) + "," + says(result("c", "")), `,"thinking":{"type":"enabled","budget_tokens":1024}`, "expected thinking or redacted_thinking"},
		"a budget in a turn with":          {turn + "," + model(call("d")) + "," + says(result("d", "")), `,"thinking":{"type":"enabled","budget_tokens":1024}`, ""},
		"an unknown form of thinking":      {says(text), `,"thinking":{"type":"much"}`, "thinking.type"},
		"another temperature and thinking": {says(text), `,"temperature":0.5,"thinking":{"type":"adaptive"}`, "temperature"},
	} {
		request := fmt.Sprintf(`{"model":"m","max_tokens":2000,"messages":[%s,%s]%s}`, user, c.messages, c.members)
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			status, _, body := do(t, "POST", s.URL+path, request)
			switch {
			case c.want == "" && status != 200:
				t.Errorf("%s: %s: %d %s", name, path, status, body)
			case c.want != "" && (status != 400 || !strings.Contains(body, c.want) || !strings.Contains(body, `"type":"invalid_request_error"`) || !strings.Contains(body, `"type":"error"`)):
				t.Errorf("%s: %s: %d %s, want %q", name, path, status, body, c.want)
			}
		}
	}
	for want, request := range map[string]string{
		"max_tokens":       `{"model":"m","messages":[` + user + `]}`,
		"model":            `{"max_tokens":1,"messages":[` + user + `]}`,
		"the user's":       `{"model":"m","max_tokens":1,"messages":[` + model(text) + `]}`,
		"Messages request": `[`,
	} {
		if status, _, body := do(t, "POST", s.URL+"/v1/messages", request); status != 400 || !strings.Contains(body, want) || !strings.Contains(body, `"type":"error"`) {
			t.Errorf("%s: %d %s", want, status, body)
		}
	}
}

// The order of the results is the client's: the script goes on all the same.
func TestTheScriptPicksTheAnswerOfAMessagesHistory(t *testing.T) {
	s, _ := server(t, scripted.ServerOptions{})
	const script = `@@[{\"tools\":[{\"tool\":\"f\"},{\"tool\":\"g\"}]},{\"text\":\"all said\",\"inTok\":50,\"cachedTok\":20,\"outTok\":3}]@@`
	request := `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"` + script + `"},{"type":"text","text":"a note"}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"g","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"b"},{"type":"tool_result","tool_use_id":"a"}]}]}`
	status, h, body := do(t, "POST", s.URL+"/v1/messages", request)
	if status != 200 || h.Get("Request-Id") == "" || h.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatalf("%d %v %s", status, h, body)
	}
	for _, want := range []string{
		"event: message_start\n", "event: ping\n", `"text":"all "`, `"text":"said"`, `"stop_reason":"end_turn"`, "event: message_stop\n",
		`"cache_read_input_tokens":20,"input_tokens":30,"output_tokens":3`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
	status, h, body = do(t, "POST", s.URL+"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"@@[{\"status\":529,\"retryAfter\":3}]@@"}]}`)
	if status != 529 || h.Get("Retry-After") != "3" || !strings.Contains(body, `"request_id":"`+h.Get("Request-Id")+`"`) || !strings.Contains(body, "overloaded_error") {
		t.Errorf("%d %v %s", status, h, body)
	}
}
