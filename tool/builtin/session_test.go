package builtin

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/internal/permit"
	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/sandbox/local"
	"github.com/harness-go/harness/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session is a run's view of the tools: a folder, and all that tool.Env can bring.
type session struct {
	t    testing.TB
	dir  string
	env  tool.Env
	jobs *tool.JobTable

	mu   sync.Mutex
	live []string
}

// newSession works in a folder of its own; confined holds the file tools beneath it.
func newSession(t testing.TB, confined bool) *session {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return sessionIn(t, dir, confined)
}

func sessionIn(t testing.TB, dir string, confined bool) *session {
	t.Helper()
	sb, err := local.NewProvider(local.Options{}).CreateSession(t.Context(), sandbox.CreateOptions{Root: dir, ConfineFiles: confined})
	if err != nil {
		t.Fatal(err)
	}
	store, err := tool.DirArtifacts(t.TempDir(), tool.ArtifactLimits{})
	if err != nil {
		t.Fatal(err)
	}
	artifacts := store.Session("s1")
	s := &session{t: t, dir: dir, jobs: tool.NewJobs(tool.JobLimits{}, nil)}
	s.env = tool.Env{
		Sandbox: sb, Dir: dir, Artifacts: artifacts, Jobs: s.jobs, Todos: new(tool.ListTodos), Versions: new(tool.MapVersions),
		Output: func(_ int, chunk string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.live = append(s.live, chunk)
		},
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.jobs.KillAll(ctx); err != nil {
			t.Error(err)
		}
		if err := sb.Destroy(ctx); err != nil {
			t.Error(err)
		}
		_ = store.Close()
	})
	return s
}

// another is a second session over the same folder.
func (s *session) another() *session { return sessionIn(s.t, s.dir, false) }

// args are a call's arguments.
type args map[string]any

// call runs a tool as the harness does: checked arguments, a permit, Execute.
func (s *session) call(name string, a args) tool.Result {
	s.t.Helper()
	res, err := s.try(s.t.Context(), name, a)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	return res
}

func (s *session) try(ctx context.Context, name string, a args) (tool.Result, error) {
	s.t.Helper()
	if a == nil {
		a = args{}
	}
	raw, err := json.Marshal(a)
	if err != nil {
		s.t.Fatal(err)
	}
	var ended *permit.Outcome
	p := permit.New("call_1", name, raw,
		func(context.Context) error { return nil },
		func(_ context.Context, o permit.Outcome) error { ended = &o; return nil })
	res, err := tool.Execute(ctx, lookup(s.t, name), p, s.env)
	if err == nil {
		if ended == nil || ended.Output != res.Output || ended.Error != res.Error {
			s.t.Errorf("%s: the committed outcome differs from the result", name)
		}
		if !utf8.ValidString(res.Output) || !json.Valid([]byte(res.Output)) {
			s.t.Errorf("%s: the result is not JSON in UTF-8: %.200q", name, res.Output)
		}
	}
	return res, err
}

func lookup(t testing.TB, name string) *tool.Tool {
	t.Helper()
	for _, tl := range Core() {
		if tl.Definition().Name == name {
			return tl
		}
	}
	t.Fatalf("no core tool %s", name)
	return nil
}

func (s *session) path(name string) string { return filepath.Join(s.dir, name) }

func (s *session) write(name, content string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) content(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *session) liveText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.live, "")
}

// decoded reads a result that must be a success.
func decoded[T any](t testing.TB, res tool.Result) T {
	t.Helper()
	if res.Error != "" {
		t.Fatalf("failed with %s: %s", res.Error, res.Output)
	}
	return output[T](t, res)
}

// output reads a result whatever its code.
func output[T any](t testing.TB, res tool.Result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(res.Output), &v); err != nil {
		t.Fatalf("%v: %s", err, res.Output)
	}
	return v
}

// refused checks a failure's code and that its message says each of the words.
func refused(t testing.TB, res tool.Result, code string, words ...string) {
	t.Helper()
	var v struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(res.Output), &v); err != nil {
		t.Fatalf("%v: %s", err, res.Output)
	}
	if res.Error != code || v.Error.Code != code {
		t.Errorf("code = %q and %q, want %q: %s", res.Error, v.Error.Code, code, res.Output)
	}
	for _, w := range words {
		if !strings.Contains(v.Error.Message, w) {
			t.Errorf("message does not say %q: %s", w, v.Error.Message)
		}
	}
	for _, leak := range []string{"json:", "Go struct", "Go value", "unmarshal"} {
		if strings.Contains(v.Error.Message, leak) {
			t.Errorf("message holds a decoder's text: %s", v.Error.Message)
		}
	}
}

// readAll pages through a file by cursor and returns what the pages hold together.
func (s *session) readAll(path string, maxBytes int) (text string, pages int) {
	s.t.Helper()
	a := args{"path": path, "max_bytes": maxBytes}
	var b strings.Builder
	for {
		r := decoded[readResult](s.t, s.call("read", a))
		if len(r.Content) > maxBytes && utf8.RuneCountInString(r.Content) > 1 {
			s.t.Fatalf("a page of %d bytes", len(r.Content))
		}
		b.WriteString(r.Content)
		pages++
		if r.NextCursor == 0 {
			return b.String(), pages
		}
		a["cursor"] = r.NextCursor
	}
}
