package chat_test

import (
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
			URL  string `yaml:"url"`
			Body string `yaml:"body"`
		} `yaml:"request"`
		Response struct {
			Body string `yaml:"body"`
			Code int    `yaml:"code"`
		} `yaml:"response"`
	} `yaml:"interactions"`
}

// TestRecordedAnswersAreDecoded compares the decoder with a plain reading of the same bytes.
func TestRecordedAnswersAreDecoded(t *testing.T) {
	dir := cassettes(t)
	streams, objects := 0, 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "/chat/completions") {
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
			if !strings.HasSuffix(i.Request.URL, "/chat/completions") || i.Response.Code != 200 {
				continue
			}
			if strings.HasPrefix(strings.TrimSpace(i.Response.Body), "{") {
				objects++
			} else {
				streams++
			}
			compare(t, name, i.Response.Body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d streams and %d whole answers", streams, objects)
	if streams < 100 {
		t.Errorf("only %d streams were found", streams)
	}
}

func compare(t *testing.T, name, body string) {
	t.Helper()
	a := modeltest.Collect(t.Context(), decoded{strings.NewReader(body)}, model.Request{})
	if a.Err != nil {
		t.Errorf("%s: %v", name, a.Err)
		return
	}
	text, calls, finish := plainly(t, body)
	if a.Text() != text {
		t.Errorf("%s: text %q, want %q", name, a.Text(), text)
	}
	var got []string
	for _, c := range a.Calls {
		got = append(got, c.ToolCallID+" "+c.ToolName+" "+c.Input)
		if !json.Valid([]byte(c.Input)) {
			t.Errorf("%s: arguments %q", name, c.Input)
		}
	}
	if strings.Join(got, "\n") != strings.Join(calls, "\n") {
		t.Errorf("%s: calls\n%q, want\n%q", name, got, calls)
	}
	if a.Finish.Finish.Raw != finish || a.Finish.Finish.Unified == ai.FinishOther {
		t.Errorf("%s: finish %+v, want %q", name, a.Finish.Finish, finish)
	}
	if !a.Finish.Usage.Known() || a.Finish.ResponseID == "" || a.Finish.ServedModel == "" {
		t.Errorf("%s: usage known: %v, response id %q, served model %q", name, a.Finish.Usage.Known(), a.Finish.ResponseID, a.Finish.ServedModel)
	}
	if len(a.Content) == 0 && a.Finish.Finish.Unified != ai.FinishLength {
		t.Errorf("%s: the answer is empty", name)
	}
}

// plainly reads an answer with maps and no cleverness.
func plainly(t *testing.T, body string) (text string, calls []string, finish string) {
	t.Helper()
	var events []string
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		events = []string{body}
	} else {
		for line := range strings.Lines(body) {
			if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:"); ok && !strings.Contains(data, "[DONE]") {
				events = append(events, data)
			}
		}
	}
	type openCall struct{ id, name, args string }
	open := map[float64]*openCall{}
	order := []float64{}
	for _, e := range events {
		var m map[string]any
		if err := json.Unmarshal([]byte(e), &m); err != nil {
			t.Fatal(err)
		}
		list, _ := m["choices"].([]any)
		if len(list) == 0 {
			continue
		}
		choice, _ := list[0].(map[string]any)
		if f, ok := choice["finish_reason"].(string); ok && f != "" {
			finish = f
		}
		delta, ok := choice["delta"].(map[string]any)
		if !ok {
			delta, _ = choice["message"].(map[string]any)
		}
		if s, ok := delta["content"].(string); ok {
			text += s
		}
		fragments, _ := delta["tool_calls"].([]any)
		for n, f := range fragments {
			f, _ := f.(map[string]any)
			index, ok := f["index"].(float64)
			if !ok {
				index = float64(n)
			}
			c := open[index]
			if c == nil {
				c = &openCall{}
				open[index] = c
				order = append(order, index)
			}
			if id, ok := f["id"].(string); ok && c.id == "" {
				c.id = id
			}
			fn, _ := f["function"].(map[string]any)
			if s, ok := fn["name"].(string); ok && c.name == "" {
				c.name = s
			}
			if s, ok := fn["arguments"].(string); ok {
				c.args += s
			}
		}
	}
	for _, i := range order {
		c := open[i]
		if strings.TrimSpace(c.args) == "" {
			c.args = "{}"
		}
		calls = append(calls, c.id+" "+c.name+" "+c.args)
	}
	return text, calls, finish
}
