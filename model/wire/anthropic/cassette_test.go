package anthropic_test

import (
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

// TestRecordedAnswersAreDecoded compares the decoder with a plain reading of the same bytes, and looks for every block
// of reasoning in the request that continues the conversation.
func TestRecordedAnswersAreDecoded(t *testing.T) {
	streams, objects, signed := 0, 0, 0
	err := filepath.WalkDir(cassettes(t), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), "anthropic") {
			return err
		}
		var r recording
		if err := yaml.Unmarshal(data, &r); err != nil {
			return err
		}
		for _, i := range r.Interactions {
			// Another cloud serves the same wire under a path of its own.
			if !strings.Contains(i.Request.URL, "/v1/messages") && !strings.Contains(i.Request.URL, "streamRawPredict") || i.Response.Code != 200 {
				continue
			}
			if strings.HasPrefix(strings.TrimSpace(i.Response.Body), "{") {
				objects++
			} else {
				streams++
			}
			signed += compare(t, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), i.Response.Body)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d streams, %d whole answers, %d signed blocks", streams, objects, signed)
	if streams < 23 {
		t.Errorf("%d streams were found", streams)
	}
}

func compare(t *testing.T, name, body string) (signed int) {
	t.Helper()
	a := decode(body)
	if a.Err != nil {
		t.Errorf("%s: %v", name, a.Err)
		return 0
	}
	p := plainly(t, body)
	if a.Text() != p.text || a.Reasoning != p.thinking {
		t.Errorf("%s: text %q, reasoning %q; want %q, %q", name, a.Text(), a.Reasoning, p.text, p.thinking)
	}
	var calls []string
	for _, c := range a.Calls {
		calls = append(calls, c.ToolCallID+" "+c.ToolName+" "+canonical(c.Input))
	}
	if strings.Join(calls, "\n") != strings.Join(p.calls, "\n") {
		t.Errorf("%s: calls\n%q, want\n%q", name, calls, p.calls)
	}
	if a.Finish.Finish.Raw != p.stop || a.Finish.ResponseID == "" || a.Finish.ServedModel == "" {
		t.Errorf("%s: finish %+v, want %q", name, a.Finish, p.stop)
	}
	u := a.Finish.Usage
	if u.InputTokens.Total == nil || *u.InputTokens.Total != p.in || u.OutputTokens.Total == nil || *u.OutputTokens.Total != p.out {
		t.Errorf("%s: usage %s, want %d and %d", name, u.Raw, p.in, p.out)
	}
	replayed(t, name, a, p.signatures)
	replayed(t, name, a, raws(a))
	return len(p.signatures)
}

type plainAnswer struct {
	text, thinking, stop string
	calls, signatures    []string
	in, out              int64
}

// plainly reads an answer with maps and no cleverness.
func plainly(t *testing.T, body string) (p plainAnswer) {
	t.Helper()
	usage := func(v any) {
		m, _ := v.(map[string]any)
		in, seen := 0.0, false
		for _, k := range []string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"} {
			n, ok := m[k].(float64)
			in, seen = in+n, seen || ok
		}
		if seen {
			p.in = int64(in)
		}
		if n, ok := m["output_tokens"].(float64); ok {
			p.out = int64(n)
		}
	}
	blocks := map[float64]map[string]any{}
	order := []float64{}
	var whole map[string]any
	if json.Unmarshal([]byte(body), &whole) == nil {
		p.stop, _ = whole["stop_reason"].(string)
		usage(whole["usage"])
		list, _ := whole["content"].([]any)
		for i, b := range list {
			m, _ := b.(map[string]any)
			if in, ok := m["input"]; ok {
				raw, _ := json.Marshal(in)
				m["args"] = string(raw)
			}
			blocks[float64(i)] = m
			order = append(order, float64(i))
		}
	} else {
		for line := range strings.Lines(body) {
			data, ok := strings.CutPrefix(strings.TrimSpace(line), "data:")
			if !ok {
				continue
			}
			var m map[string]any
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			i, _ := m["index"].(float64)
			switch m["type"] {
			case "message_start":
				msg, _ := m["message"].(map[string]any)
				usage(msg["usage"])
			case "content_block_start":
				blocks[i], _ = m["content_block"].(map[string]any)
				order = append(order, i)
			case "content_block_delta":
				d, _ := m["delta"].(map[string]any)
				for from, to := range map[string]string{"text": "text", "thinking": "thinking", "signature": "signature", "partial_json": "args"} {
					if s, ok := d[from].(string); ok {
						old, _ := blocks[i][to].(string)
						blocks[i][to] = old + s
					}
				}
			case "message_delta":
				d, _ := m["delta"].(map[string]any)
				p.stop, _ = d["stop_reason"].(string)
				usage(m["usage"])
			}
		}
	}
	for _, i := range order {
		b := blocks[i]
		str := func(k string) string { s, _ := b[k].(string); return s }
		switch b["type"] {
		case "text":
			p.text += str("text")
		case "thinking":
			p.thinking += str("thinking")
			sig, _ := json.Marshal(str("signature"))
			p.signatures = append(p.signatures, string(sig))
		case "redacted_thinking":
			p.signatures = append(p.signatures, str("data"))
		case "tool_use":
			args := str("args")
			if args == "" {
				args = "{}"
			}
			p.calls = append(p.calls, str("id")+" "+str("name")+" "+canonical(args))
		}
	}
	return p
}

// canonical is JSON with its members in order.
func canonical(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	b, _ := json.Marshal(v) // it was JSON
	return string(b)
}
