package apiclient

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/harness-go/harness/internal/api"
)

func TestAnExportThatBreaksOffIsAnError(t *testing.T) {
	const first = `{"type":"conversation","format":"harness.conversation","version":1}` + "\n"
	long := `{"type":"message","message":{"text":"` + strings.Repeat("x", 5000) + `"}}` + "\n"
	for name, tc := range map[string]struct {
		body  string
		whole bool
	}{
		"whole":                {first + long + `{"type":"end","lines":2}` + "\n", true},
		"without the end":      {first + long, false},
		"in the end":           {first + long + `{"type":"end","lines":2}`, false},
		"a message of the end": {first + `{"type":"message","message":{"text":"{\"type\":\"end\",\"lines\":1}"}}` + "\n", false},
		"nothing":              {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Options{BaseURL: "http://localhost", Transport: InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/conversations/a/b/export" || r.URL.EscapedPath() != "/v1/conversations/a%2Fb/export" {
					t.Errorf("path %s", r.URL.EscapedPath())
				}
				for _, chunk := range strings.SplitAfter(tc.body, "e") {
					_, _ = w.Write([]byte(chunk))
				}
			}))})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = c.ExportConversation(t.Context(), "a/b", "", &out)
			if out.String() != tc.body || (err == nil) != tc.whole || (err != nil && !errors.Is(err, errCutExport)) {
				t.Errorf("%d bytes, %v", out.Len(), err)
			}
		})
	}
}

func TestARefusedExportIsAProblem(t *testing.T) {
	c, err := New(Options{BaseURL: "http://localhost", Transport: InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":"not_found","status":404,"detail":"conversation x does not exist"}`))
	}))})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = c.ExportConversation(t.Context(), "x", "events", &out)
	if p, ok := errors.AsType[*Problem](err); !ok || p.Code != api.CodeNotFound || out.Len() != 0 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
}
