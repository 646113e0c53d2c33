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
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/scripted"
)

// storyNode is a daemon whose only provider is a model server behind one of the wires, and a copy of the failing
// repository. spoil stands in front of the server.
func storyNode(t *testing.T, w wire, spoil func(http.Handler) http.Handler) (*Node, string) {
	t.Helper()
	var h http.Handler
	h, err := scripted.NewHandler(scripted.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if spoil != nil {
		h = spoil(h)
	}
	models := httptest.NewServer(h)
	t.Cleanup(models.Close)
	t.Cleanup(models.CloseClientConnections)
	repo := t.TempDir()
	if err := os.CopyFS(repo, os.DirFS("../../examples/fix-failing-test/repo")); err != nil {
		t.Fatal(err)
	}
	c := settings(t, "HARNESS_AUTH_DISABLED=true", "HARNESS_PROVIDER=", "HARNESS_MODEL=scripted")
	c.Providers = []model.ProviderConfig{{
		Name: "vendor", Type: w.kind, BaseURL: models.URL + w.base, APIKey: model.NewSecret("a-key-of-the-story"),
		IdleTimeout: 300 * time.Millisecond, HeaderTimeout: 300 * time.Millisecond,
	}}
	n := open(t, c)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n, repo
}

// story runs a prompt over HTTP and returns the run's whole log.
func story(t *testing.T, n *Node, repo, prompt string) []event.Event {
	t.Helper()
	return storyOf(t, n, engine.RunRequest{Prompt: prompt, Workspace: repo})
}

// storyOf does it with any request.
func storyOf(t *testing.T, n *Node, request any) []event.Event {
	t.Helper()
	srv := httptest.NewServer(n.Handler())
	t.Cleanup(srv.Close)
	body, err := json.Marshal(request)
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
