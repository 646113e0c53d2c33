package scripted_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/harness-go/harness/model/scripted"
)

func TestTheServersGeminiPaths(t *testing.T) {
	s, h := server(t, scripted.ServerOptions{})
	prompt := func(step string) string {
		text, _ := json.Marshal("@@[" + step + "]@@")
		return `{"contents":[{"role":"user","parts":[{"text":` + string(text) + `}]}]}`
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/v1beta/models/m:generateContent", prompt(`{"text":"hello there"}`), 200, `"parts":[{"text":"hello "},{"text":"there"}]`},
		{"POST", "/v1beta/models/m:generateContent", prompt(`{"tool":"f","in":{"a":1}}`), 200, `"args":{"a":1}`},
		{"POST", "/any/v1/models/a/b:generateContent", prompt(`{"text":"x"}`), 200, `"modelVersion":"a/b"`},
		{"POST", "/v1beta/models/m:generateContent", prompt(`{"finish":"content_filter"}`), 200, `"finishReason":"SAFETY"`},
		{"POST", "/v1beta/models/m:generateContent", prompt(`{"text":"x","noUsage":true}`), 200, `"responseId"`},
		{"POST", "/v1beta/models/m:streamGenerateContent", prompt(`{"status":429,"retryAfter":7}`), 429, `"retryDelay":"7s"`},
		{"POST", "/v1beta/models/m:streamGenerateContent", "{", 400, "not a Gemini request"},
		{"POST", "/v1beta/models/m:countTokens", prompt(`{}`), 200, `{"totalTokens":42}`},
		{"GET", "/v1beta/models/m:countTokens", "", 405, "use POST"},
		{"GET", "/v1beta/models", "", 200, `"name":"models/scripted"`},
	} {
		status, header, body := do(t, c.method, s.URL+c.path, c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.method, c.path, status, body, c.status, c.want)
		}
		if !strings.HasPrefix(header.Get("Content-Type"), "application/json") || !json.Valid([]byte(body)) {
			t.Errorf("%s %s: %s is not JSON: %s", c.method, c.path, header.Get("Content-Type"), body)
		}
		if strings.Contains(c.body, "noUsage") && strings.Contains(body, "usageMetadata") {
			t.Errorf("a usage was sent: %s", body)
		}
	}
	if h.Served() != 7 {
		t.Errorf("%d calls served", h.Served())
	}
	status, header, body := do(t, "POST", s.URL+"/v1beta/models/m:streamGenerateContent?alt=sse", prompt(`{"think":"hm","text":"a b"}`))
	if status != 200 || header.Get("Content-Type") != "text/event-stream" || strings.Count(body, "data: {") != 4 ||
		!strings.Contains(body, `"thought":true`) || !strings.Contains(body, `"finishReason":"STOP"`) {
		t.Errorf("%d %s:\n%s", status, header.Get("Content-Type"), body)
	}
	if status, _, body := do(t, "POST", s.URL+"/v1beta/models/m:generateContent", "{}", "Content-Encoding", "gzip"); status != 415 {
		t.Errorf("a compressed body: %d %s", status, body)
	}
}

// A Gemini history merges what other wires keep apart: the step must not depend on it.
func TestTheScriptPicksTheAnswerOfAGeminiHistory(t *testing.T) {
	s, _ := server(t, scripted.ServerOptions{})
	const (
		script = `{"text":"go @@[{\"tool\":\"f\"},{\"text\":\"two\"},{\"text\":\"three\"}]@@"}`
		call   = `{"role":"model","parts":[{"functionCall":{"name":"f"}}]}`
		result = `{"functionResponse":{"name":"f","response":{"output":"@@[{\"text\":\"no\"}]@@"}}}`
	)
	for want, contents := range map[string]string{
		`"functionCall"`: `{"role":"user","parts":[` + script + `]}`,
		`"two"`:          `{"role":"user","parts":[` + script + `]},` + call + `,{"role":"user","parts":[` + result + `,{"text":"hurry"}]}`,
		`"three"`:        `{"parts":[` + script + `]},` + call + `,{"role":"user","parts":[` + result + `]},` + call + `,{"role":"user","parts":[` + result + `]}`,
		`"new"`:          `{"role":"user","parts":[` + script + `,{"text":"@@[{\"text\":\"new\"}]@@"},{"text":"now"}]}`,
		`"ok"`:           `{"role":"model","parts":[` + script + `]}`,
	} {
		_, _, body := do(t, "POST", s.URL+"/v1beta/models/m:generateContent", `{"contents":[`+contents+`]}`)
		if !strings.Contains(body, want) {
			t.Errorf("answer %s, want %s", body, want)
		}
	}
}
