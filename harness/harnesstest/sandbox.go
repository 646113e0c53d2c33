package harnesstest

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"sync"

	"github.com/harness-go/harness/sandbox"
)

// Sandbox is a sandbox provider in memory. Its sessions keep files; of commands they know "pwd" and "mkdir".
type Sandbox struct {
	// Dir is the default working directory, "/sandbox" when empty.
	Dir string
	// Log, when not nil, receives the calls that make and end sessions.
	Log *Log

	mu    sync.Mutex
	files map[string]map[string][]byte // by session
}

// Provider is the sandbox with or without resuming.
func (s *Sandbox) Provider(resume bool) sandbox.Provider {
	if resume {
		return resumer{s}
	}
	return s
}

// ProviderID implements sandbox.Provider.
func (s *Sandbox) ProviderID() string { return "mock-sandbox" }

// CreateSession implements sandbox.Provider.
func (s *Sandbox) CreateSession(_ context.Context, o sandbox.CreateOptions) (sandbox.NetworkSession, error) {
	s.Log.Add("createSession", map[string]any{"sessionId": o.SessionID, "hasOnFirstCreate": o.OnFirstCreate != nil})
	dir := o.Root
	if dir == "" {
		dir = s.dir()
	}
	return s.session(o.SessionID, dir), nil
}

func (s *Sandbox) dir() string {
	if s.Dir == "" {
		return "/sandbox"
	}
	return s.Dir
}

func (s *Sandbox) session(id, dir string) *memSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string]map[string][]byte{}
	}
	if s.files[id] == nil {
		s.files[id] = map[string][]byte{}
	}
	return &memSession{s: s, id: id, dir: dir}
}

type resumer struct{ *Sandbox }

// ResumeSession implements sandbox.Resumer.
func (r resumer) ResumeSession(_ context.Context, id string) (sandbox.NetworkSession, error) {
	r.Log.Add("resumeSession", map[string]any{"sessionId": id})
	return r.session(id, r.dir()), nil
}

type memSession struct {
	s   *Sandbox
	id  string
	dir string
}

func (m *memSession) abs(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(m.dir, p)
}

func (m *memSession) Description() string {
	return "A sandbox in memory. The working directory is " + m.dir + "."
}
func (m *memSession) ID() string                      { return m.id }
func (m *memSession) DefaultWorkingDirectory() string { return m.dir }
func (m *memSession) Ports() []int                    { return nil }
func (m *memSession) Restricted() sandbox.Session     { return m }
func (m *memSession) unsupported(what string) error {
	return &sandbox.UnsupportedError{What: what, Reason: "the sandbox is in memory"}
}

func (m *memSession) PortEndpoint(context.Context, int, string) (sandbox.Endpoint, error) {
	return sandbox.Endpoint{}, m.unsupported("a port")
}

func (m *memSession) Stop(context.Context) error {
	m.s.Log.Add("sandbox.stop", nil)
	return nil
}

func (m *memSession) Destroy(context.Context) error {
	m.s.Log.Add("sandbox.destroy", nil)
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	maps.DeleteFunc(m.s.files[m.id], func(string, []byte) bool { return true })
	return nil
}

func (m *memSession) ReadBinaryFile(_ context.Context, p string) ([]byte, error) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	b, ok := m.s.files[m.id][m.abs(p)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
	}
	return bytes.Clone(b), nil
}

func (m *memSession) ReadFile(ctx context.Context, p string) (io.ReadCloser, error) {
	b, err := m.ReadBinaryFile(ctx, p)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *memSession) ReadTextFile(ctx context.Context, p string, o sandbox.ReadTextOptions) (string, error) {
	b, err := m.ReadBinaryFile(ctx, p)
	if err != nil {
		return "", err
	}
	lines := strings.SplitAfter(string(b), "\n")
	from, to := max(o.StartLine-1, 0), len(lines)
	if o.EndLine > 0 {
		to = min(o.EndLine, to)
	}
	if from >= to {
		return "", nil
	}
	return strings.Join(lines[from:to], ""), nil
}

func (m *memSession) WriteBinaryFile(_ context.Context, p string, data []byte) error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.files[m.id][m.abs(p)] = bytes.Clone(data)
	return nil
}

func (m *memSession) WriteFile(ctx context.Context, p string, r io.Reader) error {
	b, err := io.ReadAll(io.LimitReader(r, sandbox.MaxFileSize))
	if err != nil {
		return err
	}
	return m.WriteBinaryFile(ctx, p, b)
}

func (m *memSession) WriteTextFile(ctx context.Context, p, text string) error {
	return m.WriteBinaryFile(ctx, p, []byte(text))
}

func (m *memSession) Run(_ context.Context, o sandbox.CommandOptions) (sandbox.RunResult, error) {
	switch {
	case o.Command == "pwd":
		return sandbox.RunResult{Stdout: m.dir + "\n"}, nil
	case strings.HasPrefix(o.Command, "mkdir "):
		return sandbox.RunResult{}, nil // directories need not be made
	}
	return sandbox.RunResult{}, m.unsupported("running commands")
}

func (m *memSession) Spawn(context.Context, sandbox.CommandOptions) (sandbox.Process, error) {
	return nil, m.unsupported("running commands")
}
