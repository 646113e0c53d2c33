package gemini_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/gemini"
)

// cassetteModule is a module whose tests hold recorded answers of many services (Apache-2.0). Nothing of it is copied:
// the recordings are read where the go command keeps the module.
const cassetteModule = "charm.land/fantasy@v0.41.2"

// cassettes finds the module's folder, or skips: the test needs `go mod download` of the module first. With
// HARNESS_REQUIRE_CASSETTES=1 a missing folder is a failure.
func cassettes(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	dir := filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(cassetteModule))
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err == nil {
		return dir
	}
	const how = "recorded streams are not there; get them with: go mod download -json " + cassetteModule
	if os.Getenv("HARNESS_REQUIRE_CASSETTES") == "1" {
		t.Fatal(how)
	}
	t.Skip(how)
	return ""
}

type recording struct {
	Interactions []struct {
		Request struct {
			URL string `yaml:"url"`
		} `yaml:"request"`
		Response struct {
			Body string `yaml:"body"`
			Code int    `yaml:"code"`
		} `yaml:"response"`
	} `yaml:"interactions"`
}

// TestRecordedAnswersAreDecoded compares the decoder with a plain reading of the same bytes, and looks for every
// signature in the request that continues the conversation.
func TestRecordedAnswersAreDecoded(t *testing.T) {
	dir := cassettes(t)
	streams, objects, signatures, streamed := 0, 0, 0, 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "enerateContent") {
			return err
		}
		var r recording
		if err := yaml.Unmarshal(data, &r); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		for _, i := range r.Interactions {
			if !strings.Contains(i.Request.URL, "enerateContent") || i.Response.Code != 200 {
				continue
			}
			n := compare(t, name, i.Response.Body)
			signatures += n
			if strings.HasPrefix(strings.TrimSpace(i.Response.Body), "{") {
				objects++
			} else {
				streams++
				streamed += n
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d streams, %d whole answers, %d signatures, %d of them streamed", streams, objects, signatures, streamed)
	if streams != 42 || streamed != 20 {
		t.Errorf("%d streams with %d signatures were found", streams, streamed)
	}
}

// compare returns the number of signatures.
func compare(t *testing.T, name, body string) int {
	t.Helper()
	a := decode(body)
	if a.Err != nil {
		t.Errorf("%s: %v", name, a.Err)
		return 0
	}
	want := plainly(t, body)
	if a.Text() != want.text || a.Reasoning != want.thoughts {
		t.Errorf("%s: text %q and thoughts %q, want %q and %q", name, a.Text(), a.Reasoning, want.text, want.thoughts)
	}
	var calls []string
	for _, c := range a.Calls {
		calls = append(calls, c.ToolName+" "+canonical(t, c.Input))
		if c.ToolCallID == "" {
			t.Errorf("%s: a call has no id", name)
		}
	}
	if strings.Join(calls, "\n") != strings.Join(want.calls, "\n") {
		t.Errorf("%s: calls\n%q, want\n%q", name, calls, want.calls)
	}
	finish := ai.FinishStop
	if len(want.calls) > 0 {
		finish = ai.FinishToolCalls
	}
	if f := a.Finish.Finish; f.Raw != want.finish || f.Unified != finish {
		t.Errorf("%s: finish %+v, want %q", name, f, want.finish)
	}
	u := a.Finish.Usage
	if u.InputTokens.Total == nil || u.OutputTokens.Total == nil {
		t.Errorf("%s: usage %s is not known", name, u.Raw)
	} else if got := *u.InputTokens.Total + *u.OutputTokens.Total; float64(got) != want.usage["totalTokenCount"] ||
		float64(*u.InputTokens.Total) != want.usage["promptTokenCount"] ||
		float64(*u.OutputTokens.Total) != want.usage["candidatesTokenCount"]+want.usage["thoughtsTokenCount"] {
		t.Errorf("%s: usage %+v, want %v", name, u, want.usage)
	}
	if a.Finish.ResponseID == "" || a.Finish.ServedModel == "" {
		t.Errorf("%s: response id %q, served model %q", name, a.Finish.ResponseID, a.Finish.ServedModel)
	}
	replayed(t, name, a, want.signed)
	return len(want.signed)
}

// replayed continues the conversation, before and after a store, and looks for the signed parts in the request.
func replayed(t *testing.T, name string, a modeltest.Answer, signed []string) {
	t.Helper()
	turn := ai.Message{Role: ai.RoleAssistant, Content: a.Content}
	for _, turn := range []ai.Message{turn, stored(t, turn)} {
		messages := []ai.Message{ai.UserMessage("go"), turn, ai.UserMessage("on")}
		r, err := sent(t, gemini.Config{}, model.Request{Model: "asked", Messages: messages})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		strict(t, r.body)
		rest := string(r.body)
		for _, s := range signed { // in their order
			_, after, ok := strings.Cut(rest, s)
			if !ok {
				t.Errorf("%s: the request lacks the part %s", name, s)
			}
			rest = after
		}
	}
}

type plainAnswer struct {
	text, thoughts, finish string
	calls, signed          []string
	usage                  map[string]float64
}

// plainly reads an answer with maps and no cleverness.
func plainly(t *testing.T, body string) (p plainAnswer) {
	t.Helper()
	var events []string
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		events = []string{body}
	} else {
		for line := range strings.Lines(body) {
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok {
				events = append(events, data)
			}
		}
	}
	for _, e := range events {
		var m struct {
			Candidates []struct {
				Content      struct{ Parts []json.RawMessage }
				FinishReason string
			}
			UsageMetadata map[string]any
		}
		if err := json.Unmarshal([]byte(e), &m); err != nil {
			t.Fatal(err)
		}
		if m.UsageMetadata != nil {
			p.usage = map[string]float64{}
			for k, v := range m.UsageMetadata {
				p.usage[k], _ = v.(float64)
			}
		}
		if len(m.Candidates) == 0 {
			continue
		}
		if f := m.Candidates[0].FinishReason; f != "" {
			p.finish = f
		}
		for _, raw := range m.Candidates[0].Content.Parts {
			var part struct {
				Text             string
				Thought          bool
				ThoughtSignature string
				FunctionCall     *struct {
					Name string
					Args json.RawMessage
				}
			}
			if err := json.Unmarshal(raw, &part); err != nil {
				t.Fatal(err)
			}
			switch {
			case part.FunctionCall != nil:
				p.calls = append(p.calls, part.FunctionCall.Name+" "+canonical(t, string(part.FunctionCall.Args)))
			case part.Thought:
				p.thoughts += part.Text
			default:
				p.text += part.Text
			}
			if part.ThoughtSignature != "" {
				p.signed = append(p.signed, compact(t, raw))
			}
		}
	}
	return p
}

func canonical(t *testing.T, s string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// compact is a part as a request holds it: without the blanks between its tokens, and else the same bytes.
func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
