package daemon

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/store"
)

// A run's model traffic is recorded, and answers the same runs again without a network; what was not recorded fails
// loudly. Neither the key nor a secret header is in the recording.
func TestRecordedTrafficAnswersTheSameRunsWithoutANetwork(t *testing.T) {
	h, err := scripted.NewHandler(scripted.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	models := httptest.NewServer(h)
	t.Cleanup(models.Close)
	repo, dir := t.TempDir(), filepath.Join(t.TempDir(), "tape")
	if err := os.WriteFile(filepath.Join(repo, "f.txt"), []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	node := func(set func(*config.Config)) *Node {
		t.Helper()
		c := settings(t, "HARNESS_AUTH_DISABLED=true", "HARNESS_PROVIDER=", "HARNESS_MODEL=scripted")
		c.Providers = []model.ProviderConfig{{Name: "vendor", Type: model.TypeOpenAICompat, BaseURL: models.URL + "/v1", APIKey: model.NewSecret("sk-of-the-tape")}}
		set(&c)
		n := open(t, c)
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	prompt := `read it @@[{"tool":"read","in":{"path":"f.txt"}},{"text":"seen"}]@@`
	run := func(n *Node, prompt string, want store.Status) store.Run {
		t.Helper()
		r, _, err := n.engine.Submit(t.Context(), engine.Local(), engine.RunRequest{Prompt: prompt, Workspace: repo}, "")
		if err != nil {
			t.Fatal(err)
		}
		return waitFor(t, n, r.ID, want)
	}
	first := run(node(func(c *config.Config) { c.ModelRecord = dir }), prompt, store.StatusCompleted)
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("recordings %v, %v", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || strings.Contains(string(data), "sk-of-the-tape") {
			t.Errorf("%s, %v: the key was recorded", f, err)
		}
	}
	models.Close()
	n := node(func(c *config.Config) { c.ModelReplay = dir })
	for range 2 {
		if r := run(n, prompt, store.StatusCompleted); r.Output != first.Output || r.Output != "seen" {
			t.Errorf("replayed %q, recorded %q", r.Output, first.Output)
		}
	}
	missed := run(n, "something else", store.StatusFailed)
	if missed.Reason != event.ReasonProvider || !strings.Contains(missed.Error, "not recorded") && !strings.Contains(missed.Error, "record") {
		t.Errorf("a miss says %s: %s", missed.Reason, missed.Error)
	}
	c := settings(t, "HARNESS_PROVIDER=", "HARNESS_MODEL=scripted")
	c.ModelReplay, c.Origins = filepath.Join(dir, "none"), map[string]string{"model_replay": "HARNESS_MODEL_REPLAY"}
	if _, err := Open(t.Context(), Options{Config: c}); err == nil || !strings.Contains(err.Error(), "HARNESS_MODEL_REPLAY") {
		t.Errorf("a folder without recordings: %v", err)
	}
}
