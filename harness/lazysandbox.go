package harness

import (
	"context"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/harness-go/harness/sandbox"
)

// lazySession is a sandbox session that is made by the first operation that needs it. Until then it costs nothing, and
// ending it does nothing. A failed attempt is made again by the next operation.
type lazySession struct {
	id   string
	dir  string
	open func(ctx context.Context) (sandbox.NetworkSession, error)

	mu    sync.Mutex
	made  sandbox.NetworkSession
	ended bool
}

var (
	_ sandbox.NetworkSession = (*lazySession)(nil)
	_ sandbox.Files          = (*lazySession)(nil)
	_ sandbox.Remover        = (*lazySession)(nil)
	_ sandbox.Execer         = (*lazySession)(nil)
	_ sandbox.Reporter       = (*lazySession)(nil)
)

func (l *lazySession) get(ctx context.Context) (sandbox.NetworkSession, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, sandbox.ErrEnded
	}
	if l.made == nil {
		// The session outlives the operation that needs it first, but an operation that is cancelled must not leave a
		// half-made one: providers bind a session's life to Stop, not to this context.
		s, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		l.made = s
	}
	return l.made, nil
}

// peek is the session if it was made.
func (l *lazySession) peek() sandbox.NetworkSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

func (l *lazySession) files(ctx context.Context) (sandbox.Files, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	f, ok := s.(sandbox.Files)
	if !ok {
		return nil, &sandbox.UnsupportedError{What: "files by descriptor", Reason: "the sandbox provider's sessions do not have them"}
	}
	return f, nil
}

func (l *lazySession) Description() string {
	if s := l.peek(); s != nil {
		return s.Description()
	}
	return "The working directory is " + l.dir + "."
}

func (l *lazySession) ID() string                      { return l.id }
func (l *lazySession) DefaultWorkingDirectory() string { return l.dir }
func (l *lazySession) Restricted() sandbox.Session     { return basicSession{l} }

func (l *lazySession) Ports() []int {
	if s := l.peek(); s != nil {
		return s.Ports()
	}
	return nil
}

func (l *lazySession) PortEndpoint(ctx context.Context, port int, protocol string) (sandbox.Endpoint, error) {
	s, err := l.get(ctx)
	if err != nil {
		return sandbox.Endpoint{}, err
	}
	return s.PortEndpoint(ctx, port, protocol)
}

func (l *lazySession) Stop(ctx context.Context) error {
	if s := l.end(); s != nil {
		return s.Stop(ctx)
	}
	return nil
}

func (l *lazySession) Destroy(ctx context.Context) error {
	if s := l.end(); s != nil {
		return s.Destroy(ctx)
	}
	return nil
}

func (l *lazySession) end() sandbox.NetworkSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.made
}

func (l *lazySession) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.ReadFile(ctx, path)
}

func (l *lazySession) ReadBinaryFile(ctx context.Context, path string) ([]byte, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.ReadBinaryFile(ctx, path)
}

func (l *lazySession) ReadTextFile(ctx context.Context, path string, opts sandbox.ReadTextOptions) (string, error) {
	s, err := l.get(ctx)
	if err != nil {
		return "", err
	}
	return s.ReadTextFile(ctx, path, opts)
}

func (l *lazySession) WriteFile(ctx context.Context, path string, r io.Reader) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.WriteFile(ctx, path, r)
}

func (l *lazySession) WriteBinaryFile(ctx context.Context, path string, data []byte) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.WriteBinaryFile(ctx, path, data)
}

func (l *lazySession) WriteTextFile(ctx context.Context, path string, text string) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	return s.WriteTextFile(ctx, path, text)
}

func (l *lazySession) Run(ctx context.Context, opts sandbox.CommandOptions) (sandbox.RunResult, error) {
	s, err := l.get(ctx)
	if err != nil {
		return sandbox.RunResult{}, err
	}
	return s.Run(ctx, opts)
}

func (l *lazySession) Spawn(ctx context.Context, opts sandbox.CommandOptions) (sandbox.Process, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.Spawn(ctx, opts)
}

func (l *lazySession) Exec(ctx context.Context, opts sandbox.ExecOptions) (sandbox.Process, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	e, ok := s.(sandbox.Execer)
	if !ok {
		return nil, &sandbox.UnsupportedError{What: "running an argument vector", Reason: "the sandbox provider's sessions cannot"}
	}
	return e.Exec(ctx, opts)
}

func (l *lazySession) Open(ctx context.Context, path string) (sandbox.File, error) {
	f, err := l.files(ctx)
	if err != nil {
		return nil, err
	}
	return f.Open(ctx, path)
}

func (l *lazySession) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	f, err := l.files(ctx)
	if err != nil {
		return nil, err
	}
	return f.Stat(ctx, path)
}

func (l *lazySession) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	f, err := l.files(ctx)
	if err != nil {
		return nil, err
	}
	return f.ReadDir(ctx, path)
}

func (l *lazySession) Replace(ctx context.Context, path string, data []byte, opts sandbox.ReplaceOptions) error {
	f, err := l.files(ctx)
	if err != nil {
		return err
	}
	return f.Replace(ctx, path, data, opts)
}

func (l *lazySession) Remove(ctx context.Context, path string, opts sandbox.RemoveOptions) error {
	f, err := l.files(ctx)
	if err != nil {
		return err
	}
	r, ok := f.(sandbox.Remover)
	if !ok {
		return &sandbox.UnsupportedError{What: "removing files", Reason: "the sandbox provider's sessions cannot"}
	}
	return r.Remove(ctx, path, opts)
}

func (l *lazySession) Walk(ctx context.Context, root string, fn func(path string, d fs.DirEntry) error) error {
	f, err := l.files(ctx)
	if err != nil {
		return err
	}
	return f.Walk(ctx, root, fn)
}

func (l *lazySession) Display(path string) string {
	if f, ok := l.peek().(sandbox.Files); ok {
		return f.Display(path)
	}
	if rel, err := filepath.Rel(l.dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// Report makes the session, because only the session knows what it enforces.
func (l *lazySession) Report() sandbox.Report {
	s, err := l.get(context.Background())
	if err != nil {
		return sandbox.Report{Notes: []string{"The sandbox could not be made: " + err.Error() + "."}}
	}
	if r, ok := s.(sandbox.Reporter); ok {
		return r.Report()
	}
	return sandbox.Report{Notes: []string{"The sandbox provider does not say what it enforces."}}
}

// basicSession hides all but the basic surface.
type basicSession struct{ sandbox.Session }
