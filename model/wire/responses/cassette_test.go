package responses_test

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
// finished item in the request that continues the conversation.
func TestRecordedAnswersAreDecoded(t *testing.T) {
	streams, objects, reasoned := 0, 0, 0
	err := filepath.WalkDir(cassettes(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "/responses") {
			return err
		}
		var r recording
		if err := yaml.Unmarshal(data, &r); err != nil {
			return err
		}
		for _, i := range r.Interactions {
			if url, _, _ := strings.Cut(i.Request.URL, "?"); !strings.HasSuffix(url, "/responses") || i.Response.Code != 200 {
				continue
			}
			if strings.HasPrefix(strings.TrimSpace(i.Response.Body), "{") {
				objects++
			} else {
				streams++
			}
			reasoned += compare(t, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), i.Response.Body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d streams, %d whole answers, %d with encrypted reasoning", streams, objects, reasoned)
	if streams < 39 {
		t.Errorf("%d streams were found", streams)
	}
}

func compare(t *testing.T, name, body string) (reasoned int) {
	t.Helper()
	a := decode(body)
	if a.Err != nil {
		t.Errorf("%s: %v", name, a.Err)
		return 0
	}
	p := plainly(t, body)
	if a.Text() != p.text || a.Deltas != p.text {
		t.Errorf("%s: text %q, want %q", name, a.Text(), p.text)
	}
	var calls []string
	for _, c := range a.Calls {
		calls = append(calls, c.ToolCallID+" "+c.ToolName+" "+c.Input)
	}
	if strings.Join(calls, "\n") != strings.Join(p.calls, "\n") {
		t.Errorf("%s: calls\n%q, want\n%q", name, calls, p.calls)
	}
	if a.Finish.ResponseID == "" || a.Finish.ServedModel == "" || a.Finish.Finish.Raw != p.ended {
		t.Errorf("%s: finish %+v, want %q", name, a.Finish, p.ended)
	}
	u := a.Finish.Usage
	if u.InputTokens.Total == nil || *u.InputTokens.Total != p.in || u.OutputTokens.Total == nil || *u.OutputTokens.Total != p.out {
		t.Errorf("%s: usage %s, want %d and %d", name, u.Raw, p.in, p.out)
	}
	if p.unsigned {
		if got := raws(a); len(got) != 0 {
			t.Errorf("%s: items would be replayed without their reasoning: %v", name, got)
		}
		return 0
	}
	if got := raws(a); strings.Join(got, "\n") != strings.Join(p.items, "\n") {
		t.Errorf("%s: items\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(p.items, "\n"))
	}
	replayed(t, name, a, p.items)
	if p.signed {
		return 1
	}
	return 0
}

type plainAnswer struct {
	text, ended      string
	calls, items     []string
	in, out          int64
	signed, unsigned bool
}

// plainly reads an answer with no cleverness: its finished items and its last event.
func plainly(t *testing.T, body string) (p plainAnswer) {
	t.Helper()
	type response struct {
		Status     string
		Incomplete struct{ Reason string } `json:"incomplete_details"`
		Output     []json.RawMessage
		Usage      struct {
			In  int64 `json:"input_tokens"`
			Out int64 `json:"output_tokens"`
		}
	}
	var last response
	var items []json.RawMessage
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		if err := json.Unmarshal([]byte(body), &last); err != nil {
			t.Fatal(err)
		}
		items = last.Output
	} else {
		for line := range strings.Lines(body) {
			data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
			if !ok {
				continue
			}
			var m struct {
				Type     string
				Item     json.RawMessage
				Response response
			}
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			switch m.Type {
			case "response.output_item.done":
				items = append(items, m.Item)
			case "response.completed", "response.incomplete":
				last = m.Response
			}
		}
	}
	p.ended, p.in, p.out = last.Status, last.Usage.In, last.Usage.Out
	if last.Incomplete.Reason != "" {
		p.ended = last.Incomplete.Reason
	}
	for _, raw := range items {
		var it struct {
			Type, Name, Arguments string
			CallID                string `json:"call_id"`
			Encrypted             string `json:"encrypted_content"`
			Content               []struct{ Text string }
		}
		if err := json.Unmarshal(raw, &it); err != nil {
			t.Fatal(err)
		}
		switch it.Type {
		case "message":
			for _, c := range it.Content {
				p.text += c.Text
			}
		case "reasoning":
			p.signed, p.unsigned = p.signed || it.Encrypted != "", p.unsigned || it.Encrypted == ""
		case "function_call":
			p.calls = append(p.calls, it.CallID+" "+it.Name+" "+it.Arguments)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			t.Fatal(err)
		}
		p.items = append(p.items, compact.String())
	}
	return p
}
