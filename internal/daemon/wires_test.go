package daemon

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/model"
)

// wire is one of the ways to a model. broken is the event that its vendor sends when an answer fails in the middle.
type wire struct {
	name, kind, base, broken string
}

var wires = []wire{
	{"chat", model.TypeOpenAICompat, "/v1", `data: {"error":{"message":"overloaded","type":"overloaded_error"}}`},
	{"anthropic", model.TypeAnthropic, "", "event: error\ndata: " + `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
	{"responses", model.TypeResponses, "/v1", "event: error\ndata: " + `{"type":"error","code":"server_error","message":"The server had an error","param":null,"sequence_number":3}`},
	{"gemini", model.TypeGoogle, "/v1beta", `data: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`},
}

// The story: a run over HTTP, through each wire, makes a failing test of a real Go repository pass.
func TestARunFixesAFailingTest(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("runs go test")
	}
	prompt, err := os.ReadFile("../../examples/fix-failing-test/prompt.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			n, repo := storyNode(t, w, nil)
			if out, err := goTest(repo); err == nil {
				t.Fatalf("the test passes before the run:\n%s", out)
			}
			all := story(t, n, repo, string(prompt))
			if out, err := goTest(repo); err != nil {
				t.Fatalf("the test still fails:\n%s", out)
			}
			diff, outputs := "", []string{}
			for _, e := range all {
				if e.Type != event.ToolCallCompleted {
					continue
				}
				var p event.ToolCallCompletedPayload
				if err := json.Unmarshal(e.Payload, &p); err != nil {
					t.Fatal(err)
				}
				diff += p.Diff
				if p.Tool == "bash" {
					outputs = append(outputs, p.Output)
				}
			}
			if !strings.Contains(diff, `+		name = "world"`) {
				t.Errorf("the log has no diff of the edit: %q", diff)
			}
			if len(outputs) != 2 || !strings.Contains(outputs[0], "FAIL") || !strings.Contains(outputs[1], "ok") {
				t.Errorf("the log has no output of the tests: %q", outputs)
			}
			if last := all[len(all)-1]; last.Type != event.RunCompleted {
				t.Errorf("ended with %s", last.Payload)
			}
			if !slices.ContainsFunc(all, func(e event.Event) bool { return e.Type == event.AssistantMessageDelta }) {
				t.Error("nothing was streamed")
			}
		})
	}
}

// fault is something that a provider does wrong, once: spoil answers a call with an answer that would have been good.
type fault struct {
	name  string
	spoil func(w http.ResponseWriter, r *http.Request, good *httptest.ResponseRecorder, broken string)
	end   event.Type
	says  string
}

var faults = []fault{
	{"a wrong key", status(401), event.RunFailed, "authentication"},
	{"too many requests, with a wait", status(429), event.RunCompleted, "all is well"},
	{"a server error", status(500), event.RunCompleted, "all is well"},
	{"an overloaded server", status(529), event.RunCompleted, "all is well"},
	{"an error in mid stream", func(w http.ResponseWriter, _ *http.Request, good *httptest.ResponseRecorder, broken string) {
		begin(w, good)
		_, _ = io.WriteString(w, broken+"\n\n")
	}, event.RunCompleted, "all is well"},
	{"a dropped stream", func(w http.ResponseWriter, _ *http.Request, good *httptest.ResponseRecorder, _ string) {
		begin(w, good)
		panic(http.ErrAbortHandler)
	}, event.RunCompleted, "all is well"},
	{"a stream that ends early", func(w http.ResponseWriter, _ *http.Request, good *httptest.ResponseRecorder, _ string) {
		begin(w, good)
	}, event.RunCompleted, "all is well"},
	{"a hung call", func(_ http.ResponseWriter, r *http.Request, _ *httptest.ResponseRecorder, _ string) {
		<-r.Context().Done()
	}, event.RunCompleted, "all is well"},
	{"an idle stream", func(w http.ResponseWriter, r *http.Request, good *httptest.ResponseRecorder, _ string) {
		begin(w, good)
		<-r.Context().Done()
	}, event.RunCompleted, "all is well"},
}

func status(code int) func(http.ResponseWriter, *http.Request, *httptest.ResponseRecorder, string) {
	return func(w http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder, _ string) {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"error"}}`)
	}
}

// begin sends the first half of an answer, up to the end of an event.
func begin(w http.ResponseWriter, good *httptest.ResponseRecorder) {
	body := good.Body.Bytes()
	body = body[:bytes.LastIndex(body[:len(body)*2/3], []byte("\n\n"))+2]
	w.Header().Set("Content-Type", good.Header().Get("Content-Type"))
	_, _ = w.Write(body)
	w.(http.Flusher).Flush()
}

// What a provider does wrong once ends a run only where nothing else helps, on every wire alike. What was shown of a
// failed attempt is retracted.
func TestFaultsOfAProviderAreMendedOrTold(t *testing.T) {
	for _, w := range wires {
		for _, f := range faults {
			t.Run(w.name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				n, repo := storyNode(t, w, func(good http.Handler) http.Handler {
					return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
						if calls.Add(1) > 1 {
							good.ServeHTTP(rw, r)
							return
						}
						body, _ := io.ReadAll(r.Body)
						clone := r.Clone(r.Context())
						clone.Body = io.NopCloser(bytes.NewReader(body))
						rec := httptest.NewRecorder()
						good.ServeHTTP(rec, clone)
						f.spoil(rw, r, rec, w.broken)
					})
				})
				all := story(t, n, repo, `go @@[{"text":"this is a long answer after which all is well"}]@@`)
				last := all[len(all)-1]
				if last.Type != f.end || !strings.Contains(string(last.Payload), f.says) {
					t.Errorf("ended with %s: %s", last.Type, last.Payload)
				}
				if f.end == event.RunFailed && calls.Load() != 1 {
					t.Errorf("called %d times", calls.Load())
				}
				shown, retracted := "", false
				for _, e := range all {
					switch e.Type {
					case event.LLMAttemptDiscarded:
						retracted = true
						shown = ""
					case event.AssistantMessageDelta:
						var p event.AssistantMessageDeltaPayload
						if err := json.Unmarshal(e.Payload, &p); err != nil {
							t.Fatal(err)
						}
						shown += p.Content
					}
				}
				if !retracted {
					t.Error("the failed attempt was not retracted")
				}
				if f.end == event.RunCompleted && shown != "this is a long answer after which all is well" {
					t.Errorf("the deltas that count are %q", shown)
				}
				if bytes.Contains(mustJSON(t, all), []byte("a-key-of-the-story")) {
					t.Error("the key is in the log")
				}
			})
		}
	}
}

// Reasoning goes back as it was sent on every wire: the model server takes no other. A turn that reasoned is followed by
// one that reasons again, by a call that fails and by the end.
func TestReasoningGoesBackAsItWasSent(t *testing.T) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			n, repo := storyNode(t, w, nil)
			all := story(t, n, repo, `go @@[{"think":"look <first> & see","text":"I look.","tool":"ls","in":{"path":"."}},
				{"think":"ü","tools":[{"tool":"read","in":{"path":"no-such-file"}},{"tool":"ls","in":{}}]},{"think":"enough","text":"all seen"}]@@`)
			last := all[len(all)-1]
			if last.Type != event.RunCompleted || !strings.Contains(string(last.Payload), "all seen") {
				t.Errorf("ended with %s: %s", last.Type, last.Payload)
			}
			if slices.ContainsFunc(all, func(e event.Event) bool { return e.Type == event.LLMAttemptDiscarded }) {
				t.Error("a request was refused")
			}
		})
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
