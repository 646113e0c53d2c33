package anthropic_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/model/wire/anthropic"
	"github.com/harness-go/harness/model/wire/transport"
)

// thoughts asks the scripted server for reasoning that it has signed.
func thoughts(t *testing.T, m model.Model) ai.Part {
	t.Helper()
	a := modeltest.Collect(t.Context(), m, modeltest.Ask(`@@[{"think":"well","text":"hello"}]@@`))
	if a.Err != nil || len(a.Content) != 2 {
		t.Fatalf("%+v, %v", a.Content, a.Err)
	}
	return a.Content[0]
}

// history is a conversation as badly put together as a program can do it.
func history(r *rand.Rand, thought ai.Part) (messages []ai.Message) {
	ids := []string{"a", "a", "b", "b:1", "", "c"}
	texts := []string{"", " ", "said", "said \n", "<é>"}
	files := []ai.FilePart{
		{MediaType: "image/png", Data: []byte("PNG")}, {MediaType: "image/jpg", Data: []byte("J")}, {MediaType: "IMAGE/GIF"}, {MediaType: "image/bmp", Data: []byte("B")},
		{MediaType: "application/pdf", Data: []byte("PDF"), Filename: "a.pdf"}, {MediaType: "text/plain"}, {MediaType: "text/csv; header=present", Data: []byte("a\xff,b")}, {},
	}
	calls := []string{`{"a":1}`, "", "[", "null", `"x"`}
	outputs := []ai.ToolResultOutput{
		ai.TextResult("ok"), ai.TextResult(" "), ai.ErrorTextResult("bad"), ai.ErrorTextResult(""), ai.ContentResult("", files...), ai.ContentResult("see", files[0]),
		{Type: ai.OutputExecutionDenied}, {Type: ai.OutputExecutionDenied, Reason: "no"}, {Type: ai.OutputJSON, Value: json.RawMessage(`[1]`)}, {Type: ai.OutputErrorJSON, Value: json.RawMessage(`{}`)},
	}
	any := func(list []string) string { return list[r.IntN(len(list))] }
	part := func(role ai.Role) ai.Part {
		switch n := r.IntN(10); {
		case n < 3:
			return ai.TextPart{Text: any(texts)}
		case role == ai.RoleAssistant && n < 5:
			return thought
		case role == ai.RoleAssistant && n == 5:
			return ai.ReasoningPart{Text: any(texts), Raw: &ai.RawItem{Wire: "other", Model: "scripted", JSON: json.RawMessage(`{}`)}}
		case role == ai.RoleAssistant && n == 6:
			return ai.ToolCallPart{ToolCallID: any(ids), ToolName: "f", Input: "{}", Raw: &ai.RawItem{Wire: anthropic.Wire, Model: "scripted", JSON: json.RawMessage(`{"type":"tool_use","id":"b","name":"f","input":{}}`)}}
		case role == ai.RoleAssistant:
			return ai.ToolCallPart{ToolCallID: any(ids), ToolName: "f", Input: any(calls), ProviderExecuted: n == 7 && r.IntN(2) == 0}
		case n < 8:
			return ai.ToolResultContent{ToolCallID: any(ids), ToolName: "f", Output: outputs[r.IntN(len(outputs))]}
		}
		return files[r.IntN(len(files))]
	}
	for range 1 + r.IntN(8) {
		role := []ai.Role{ai.RoleUser, ai.RoleAssistant, ai.RoleTool, ai.RoleAssistant, ai.RoleTool, ai.RoleSystem}[r.IntN(6)]
		m := ai.Message{Role: role}
		for range r.IntN(5) {
			m.Content = append(m.Content, part(role))
		}
		messages = append(messages, m)
	}
	return append(messages, ai.UserMessage("go"))
}

// Whatever the history is, the service's rules hold for what is sent: the scripted server knows them.
func TestEveryHistoryBecomesARequestThatTheServiceTakes(t *testing.T) {
	h, err := scripted.NewHandler(scripted.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inProcess := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result(), nil
	})}
	m := newClient(t, anthropic.Config{Config: transport.Config{HTTPClient: inProcess}})
	thought := thoughts(t, m)
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		req := model.Request{Model: "scripted", Messages: history(r, thought), ReasoningEffort: []string{"", "low", "2048"}[r.IntN(3)]}
		if r.IntN(2) == 0 {
			req.System, req.Tools = "be brief", []model.Tool{{Name: "f"}, {Name: "g"}}
		}
		if r.IntN(3) == 0 { // an answer that is to be continued
			req.Messages = append(req.Messages, ai.Message{Role: ai.RoleAssistant, Content: []ai.Part{ai.TextPart{Text: "and so "}, thought}})
		}
		if a := modeltest.Collect(t.Context(), m, req); a.Err != nil {
			dump, _ := json.Marshal(req.Messages) // for the eye
			t.Fatalf("seed %d: %v\n%s", seed, a.Err, dump)
		}
	}
}

// A turn with reasoning, parallel calls, an image, a failure and a remark in between goes through a server that is as
// strict as the service.
func TestAConversationWithAllPartsGoesOn(t *testing.T) {
	m := newClient(t, anthropic.Config{Config: transport.Config{BaseURL: modelServer(t).URL}})
	req := modeltest.Ask(`@@[{"think":"hm","text":"I look","tools":[{"tool":"f","in":{"a":1}},{"tool":"g","args":"{\"b"}]},{"think":"ah","tool":"f","in":{}},{"text":"done so"}]@@`)
	req.ReasoningEffort = "2048"
	for step, want := range []string{"I look", "", "done so"} {
		a := modeltest.Collect(t.Context(), m, req)
		if a.Err != nil || a.Text() != want {
			t.Fatalf("step %d: %q, %v", step, a.Text(), a.Err)
		}
		req.Messages = append(req.Messages, ai.Message{Role: ai.RoleAssistant, Content: a.Content})
		for i, c := range a.Calls {
			o := ai.ContentResult("seen", ai.FilePart{MediaType: "image/png", Data: []byte("PNG")})
			if i > 0 {
				o = ai.ErrorTextResult("the arguments are not JSON")
			}
			req.Messages = append(req.Messages, says(ai.RoleUser, ai.TextPart{Text: fmt.Sprint("remark ", i)}), says(ai.RoleTool, output(c.ToolCallID, o)))
		}
	}
}
