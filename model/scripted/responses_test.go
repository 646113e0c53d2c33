package scripted_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/harness-go/harness/model/scripted"
)

// A conversation that the service would refuse is refused here too, and one that it takes is taken.
func TestResponsesRequestsAreHeldToTheServicesRules(t *testing.T) {
	s, _ := server(t, scripted.ServerOptions{})
	const (
		user = `{"role":"user","content":[{"type":"input_text","text":"go @@[{\"think\":\"hm\",\"tool\":\"f\"},{\"text\":\"all said\"}]@@"}]}`
		call = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
		out  = `{"type":"function_call_output","call_id":"c","output":"1"}`
		said = `{"role":"assistant","content":[{"type":"output_text","text":"a"}]}`
	)
	status, _, body := do(t, "POST", s.URL+"/v1/responses", `{"model":"m","store":false,"include":["reasoning.encrypted_content"],"input":[`+user+`]}`)
	var answer struct{ Output []json.RawMessage }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 || len(answer.Output) != 2 {
		t.Fatalf("%d %s", status, body)
	}
	thought := string(answer.Output[0])
	_, _, body = do(t, "POST", s.URL+"/v1/responses", `{"model":"m","input":[`+user+`]}`)
	if err := json.Unmarshal([]byte(body), &answer); err != nil || strings.Contains(body, "encrypted_content") {
		t.Fatalf("nobody asked for the encrypted form: %s", body)
	}
	plain := string(answer.Output[0])
	for name, c := range map[string]struct {
		items string
		want  string // part of the error; empty: taken
	}{
		"whole":                        {thought + "," + call + "," + out, ""},
		"a call of another kind":       {thought + `,{"type":"custom_tool_call","call_id":"c","name":"f","input":"x"},{"type":"custom_tool_call_output","call_id":"c","output":"1"}`, ""},
		"an item of the service's own": {thought + `,{"type":"web_search_call","id":"ws"}`, ""},
		"a call without output":        {call, "no tool output found for function call c"},
		"an output without call":       {out, "no tool call found"},
		"an output of another kind":    {call + `,{"type":"custom_tool_call_output","call_id":"c","output":"1"}`, "no tool call found"},
		"two outputs":                  {call + "," + out + "," + out, "no tool call found"},
		"two calls alike":              {call + "," + call + "," + out, "no id of its own"},
		"reasoning that was changed":   {strings.Replace(thought, `"hm"`, `"ha"`, 1) + "," + said, "could not be verified"},
		"reasoning that is alone":      {thought, "without its required following item"},
		"reasoning before the user":    {thought + "," + user, "without its required following item"},
		"reasoning in the open":        {plain + "," + said, "not found"},
		"an unknown role":              {`{"role":"robot","content":"x"}`, "is not a role"},
	} {
		status, _, body := do(t, "POST", s.URL+"/v1/responses", `{"model":"m","store":false,"input":[`+user+","+c.items+`]}`)
		switch {
		case c.want == "" && (status != 200 || !strings.Contains(body, "all said")):
			t.Errorf("%s: %d %s", name, status, body)
		case c.want != "" && (status != 400 || !strings.Contains(body, c.want)):
			t.Errorf("%s: %d %s, want %q", name, status, body, c.want)
		}
	}
}

func TestResponsesCallsHaveNamespacesAndTexts(t *testing.T) {
	s, _ := server(t, scripted.ServerOptions{})
	script, err := json.Marshal(`@@[{"tools":[{"tool":"read","in":{"a":1},"ns":"mcp__x"},{"tool":"apply_patch","in":"*** Begin\n","custom":true}]}]@@`)
	if err != nil {
		t.Fatal(err)
	}
	for _, streamed := range []bool{false, true} {
		_, _, body := do(t, "POST", s.URL+"/v1/responses", fmt.Sprintf(`{"model":"m","stream":%v,"input":%s}`, streamed, script))
		for _, want := range []string{
			`"arguments":"{\"a\":1}","call_id":`, `"namespace":"mcp__x"`, `"type":"custom_tool_call"`, `"input":"*** Begin\n","name":"apply_patch"`,
		} {
			if !strings.Contains(body, want) {
				t.Errorf("streamed %v: %s lacks %s", streamed, body, want)
			}
		}
		if got := strings.Contains(body, `"delta":"*** Begin\n"`) && strings.Contains(body, "event: response.custom_tool_call_input.delta"); got != streamed {
			t.Errorf("streamed %v: %s", streamed, body)
		}
	}
}
