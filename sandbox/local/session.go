package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/harness-go/harness/sandbox"
)

// session is a folder and the processes started for it.
type session struct {
	p        *Provider
	id       string
	dir      string // absolute and clean, as given
	realDir  func() string
	root     opener
	world    opener
	confined bool
	env      map[string]string

	made string   // the folder that Destroy removes; empty in place
	lock *os.File // held while a made folder has a session

	ended   atomic.Bool
	mu      sync.Mutex
	procs   map[*process]struct{}
	started sync.WaitGroup // starts under way
	stop    func() error
	shell   func() (string, error)
}

var (
	_ sandbox.NetworkSession = (*session)(nil)
	_ sandbox.Execer         = (*session)(nil)
	_ sandbox.Files          = (*session)(nil)
	_ sandbox.Remover        = (*session)(nil)
	_ sandbox.Reporter       = (*session)(nil)
)

func (p *Provider) newSession(opts sandbox.CreateOptions, dir string) (*session, error) {
	root, err := newRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &session{
		p: p, id: opts.SessionID, dir: dir, root: root, world: newWorld(),
		confined: opts.ConfineFiles, env: opts.Env, procs: map[*process]struct{}{},
	}
	s.realDir = sync.OnceValue(func() string {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real
		}
		return dir
	})
	s.shell = sync.OnceValues(s.findShell)
	s.stop = sync.OnceValue(s.stopOnce)
	return s, nil
}

// ready is the first check of every call.
func (s *session) ready(ctx context.Context) error {
	if s.ended.Load() {
		return sandbox.ErrEnded
	}
	return ctx.Err()
}

func (s *session) ID() string                      { return s.id }
func (s *session) DefaultWorkingDirectory() string { return s.dir }

func (s *session) Description() string {
	return fmt.Sprintf("The folder %s on this machine. Commands run in a shell as the user that the harness runs as, "+
		"with the machine's files and network in reach; nothing is isolated.", s.dir)
}

// Ports is empty: no port is set aside, and PortEndpoint takes any.
func (s *session) Ports() []int { return nil }

// PortEndpoint is the loopback address of a port: at tier 0 processes share the network of the machine. Whether
// somebody listens there is not checked. protocol is http, https or ws.
func (s *session) PortEndpoint(ctx context.Context, port int, protocol string) (sandbox.Endpoint, error) {
	if err := s.ready(ctx); err != nil {
		return sandbox.Endpoint{}, err
	}
	if port < 1 || port > 65535 {
		return sandbox.Endpoint{}, fmt.Errorf("port %d: must be between 1 and 65535", port)
	}
	switch protocol {
	case "http", "https", "ws":
		return sandbox.Endpoint{URL: fmt.Sprintf("%s://127.0.0.1:%d", protocol, port)}, nil
	}
	return sandbox.Endpoint{}, fmt.Errorf("protocol %q: use http, https or ws", protocol)
}

// Report tells that nothing is enforced.
func (s *session) Report() sandbox.Report {
	notes := []string{
		"Nothing is held by the kernel: approvals, tool lists and confined file tools are checks against mistakes, and a command can do what the user of the harness can.",
		"Commands share the machine's network, loopback services included.",
	}
	if n := treeNote(); n != "" {
		notes = append(notes, n)
	}
	if w := s.p.host().withheld; len(w) > 0 {
		notes = append(notes, "Variables of the host were not passed because their values carry credentials: "+strings.Join(w, ", ")+".")
	}
	return sandbox.Report{Tier: 0, Scope: sandbox.ScopeUnrestricted, Notes: notes}
}

// Restricted is the basic surface of the same session.
func (s *session) Restricted() sandbox.Session { return basic{s} }

// basic hides everything but the basic surface, also from type assertions.
type basic struct{ sandbox.Session }

// Stop ends every process, with the grace that each was started with, and keeps the files. A second call waits for
// the first. When ctx ends first its error is returned and the stop goes on.
func (s *session) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.ended.Store(true)
	idle := len(s.procs) == 0
	s.mu.Unlock()
	if idle {
		return s.stop()
	}
	done := make(chan error, 1)
	go func() { done <- s.stop() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop session %s: %w", s.id, ctx.Err())
	}
}

func (s *session) stopOnce() error {
	s.started.Wait() // no start can follow: ended is set
	s.mu.Lock()
	procs := make([]*process, 0, len(s.procs))
	for p := range s.procs {
		procs = append(procs, p)
	}
	s.mu.Unlock()
	errs := make([]error, len(procs), len(procs)+3)
	var wg sync.WaitGroup
	for i, p := range procs {
		wg.Go(func() { errs[i] = p.end(sandbox.ErrEnded) })
	}
	wg.Wait()
	errs = append(errs, s.root.close(), s.world.close())
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// Destroy stops the session and removes the folder that was made for it. The folder of a session in place stays.
func (s *session) Destroy(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	if s.made == "" {
		return nil
	}
	return removeAll(s.made)
}

// ReadFile streams a file.
func (s *session) ReadFile(ctx context.Context, p string) (io.ReadCloser, error) {
	return s.Open(ctx, p)
}

// ReadBinaryFile reads a whole file of at most sandbox.MaxFileSize bytes.
func (s *session) ReadBinaryFile(ctx context.Context, p string) ([]byte, error) {
	f, err := s.openRegular(ctx, p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var buf bytes.Buffer
	if n := f.info.Size(); n < sandbox.MaxFileSize {
		buf.Grow(int(n) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(io.LimitReader(f, sandbox.MaxFileSize+1)); err != nil {
		return nil, err
	}
	if buf.Len() > sandbox.MaxFileSize {
		return nil, tooLarge(p)
	}
	return buf.Bytes(), nil
}

func tooLarge(p string) error {
	return &fs.PathError{Op: "read", Path: p, Err: fmt.Errorf("more than %d bytes; read a part of it", sandbox.MaxFileSize)}
}

// ReadTextFile reads lines. With a range, the newline that ends the last line of it is left out.
func (s *session) ReadTextFile(ctx context.Context, p string, opts sandbox.ReadTextOptions) (string, error) {
	start, end := opts.StartLine, opts.EndLine
	if start < 0 || end < 0 || (end > 0 && end < start) {
		return "", &fs.PathError{Op: "read", Path: p, Err: fmt.Errorf("lines %d to %d are not a range: %w", start, end, fs.ErrInvalid)}
	}
	if start <= 1 && end == 0 {
		data, err := s.ReadBinaryFile(ctx, p)
		return string(data), err
	}
	f, err := s.Open(ctx, p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := readLines(ctx, f, start, end)
	if errors.Is(err, errTooLarge) {
		return "", tooLarge(p)
	}
	return text, err
}

var errTooLarge = errors.New("too large")

// readLines reads lines start to end (0: to the last) and holds no more than those.
func readLines(ctx context.Context, r io.Reader, start, end int) (string, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	var out strings.Builder
	for line := 1; end == 0 || line <= end; {
		part, err := br.ReadSlice('\n')
		if line >= start {
			if out.Len()+len(part) > sandbox.MaxFileSize {
				return "", errTooLarge
			}
			out.Write(part)
		}
		switch {
		case err == nil:
			line++
			if line%4096 == 0 && ctx.Err() != nil {
				return "", ctx.Err()
			}
		case errors.Is(err, io.EOF):
			return out.String(), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// WriteFile replaces a file's content atomically with what r gives, of at most sandbox.MaxFileSize bytes.
func (s *session) WriteFile(ctx context.Context, p string, r io.Reader) error {
	return s.replace(ctx, p, r, sandbox.ReplaceOptions{})
}

// WriteBinaryFile is Replace without conditions.
func (s *session) WriteBinaryFile(ctx context.Context, p string, data []byte) error {
	return s.Replace(ctx, p, data, sandbox.ReplaceOptions{})
}

// WriteTextFile is Replace without conditions.
func (s *session) WriteTextFile(ctx context.Context, p, text string) error {
	return s.replace(ctx, p, strings.NewReader(text), sandbox.ReplaceOptions{})
}
