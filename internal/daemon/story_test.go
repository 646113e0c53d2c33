package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model/scripted"
)

// The story: a run over HTTP, through the Chat Completions wire, makes a failing test of a real Go repository pass.
func TestARunFixesAFailingTest(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("runs go test")
	}
	prompt, err := os.ReadFile("../../examples/fix-failing-test/prompt.txt")
	if err != nil {
		t.Fatal(err)
	}
	n, repo := storyNode(t)
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
}

// What a provider does wrong ends a run only where nothing else helps.
func TestFaultsOfAProviderAreMendedOrTold(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		end    event.Type
		says   string
	}{
		"a wrong key":            {`{"status":401}`, event.RunFailed, "authentication"},
		"too many requests once": {`{"status":429,"times":1,"retryAfter":1,"text":"well"}`, event.RunCompleted, "well"},
		"a server error once":    {`{"status":500,"times":1,"text":"well"}`, event.RunCompleted, "well"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, repo := storyNode(t)
			all := story(t, n, repo, name+" @@["+c.script+"]@@")
			last := all[len(all)-1]
			if last.Type != c.end || !strings.Contains(string(last.Payload), c.says) {
				t.Errorf("ended with %s: %s", last.Type, last.Payload)
			}
		})
	}
}

// storyNode is a daemon with a provider behind the Chat Completions wire, and a copy of the failing repository.
func storyNode(t *testing.T) (*Node, string) {
	t.Helper()
	h, err := scripted.NewHandler(scripted.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	models := httptest.NewServer(h)
	t.Cleanup(models.Close)
	repo := t.TempDir()
	if err := os.CopyFS(repo, os.DirFS("../../examples/fix-failing-test/repo")); err != nil {
		t.Fatal(err)
	}
	n := open(t, settings(t, "HARNESS_AUTH_DISABLED=true", "HARNESS_PROVIDER=", "OPENAI_API_KEY=none", "OPENAI_BASE_URL="+models.URL+"/v1", "HARNESS_MODEL=scripted"))
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n, repo
}

// story runs a prompt over HTTP and returns the run's whole log.
func story(t *testing.T, n *Node, repo, prompt string) []event.Event {
	t.Helper()
	srv := httptest.NewServer(n.Handler())
	t.Cleanup(srv.Close)
	body, err := json.Marshal(engine.RunRequest{Prompt: prompt, Workspace: repo})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(srv.URL+"/v1/runs", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var run api.RunAccepted
	if err := json.NewDecoder(res.Body).Decode(&run); err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatalf("%d, %v", res.StatusCode, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/runs/"+run.RunID+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	buf := new(strings.Builder)
	if _, err := io.Copy(buf, stream.Body); err != nil {
		t.Fatal(err)
	}
	var all []event.Event
	for _, line := range strings.Split(buf.String(), "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var e event.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
	}
	if r, err := n.engine.Run(t.Context(), engine.Local(), run.RunID); err != nil || !r.Status.Terminal() || int64(len(all)) != r.Head {
		t.Fatalf("%d events, run %+v, %v", len(all), r.Status, err)
	}
	return all
}

func goTest(dir string) (string, error) {
	cmd := exec.Command("go", "test", "./...")
	cmd.Dir = filepath.Clean(dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
