package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/harness-go/harness/sandbox"
)

const defaultGrace = 2 * time.Second

// Run runs a shell command to its end. It keeps at most Options.MaxOutput bytes of each stream: more loses its middle,
// with a line that says how much.
func (s *session) Run(ctx context.Context, opts sandbox.CommandOptions) (sandbox.RunResult, error) {
	p, err := s.spawn(ctx, opts)
	if err != nil {
		return sandbox.RunResult{}, err
	}
	out, errOut := capture{limit: s.p.opts.MaxOutput}, capture{limit: s.p.opts.MaxOutput}
	done := make(chan struct{})
	go func() {
		defer close(done)
		errOut.drain(p.stderr)
	}()
	out.drain(p.stdout)
	<-done
	status, err := p.Wait()
	res := sandbox.RunResult{ExitCode: status.ExitCode, Stdout: out.String(), Stderr: errOut.String()}
	if err != nil {
		return res, fmt.Errorf("command ended early: %w", err)
	}
	return res, nil
}

// Spawn starts a shell command with bash -c, or sh -c where there is no bash.
func (s *session) Spawn(ctx context.Context, opts sandbox.CommandOptions) (sandbox.Process, error) {
	p, err := s.spawn(ctx, opts)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (s *session) spawn(ctx context.Context, opts sandbox.CommandOptions) (*process, error) {
	if opts.Command == "" {
		return nil, errors.New("CommandOptions.Command is empty")
	}
	shell, err := s.shell()
	if err != nil {
		return nil, err
	}
	return s.start(ctx, "CommandOptions", sandbox.ExecOptions{
		Argv:  []string{shell, "-c", opts.Command},
		Dir:   opts.WorkingDirectory,
		Env:   opts.Env,
		Grace: opts.Grace,
	})
}

// Exec runs an argument vector. A name without a slash is looked up in the PATH that the process gets. The goroutine
// that copies Stdin ends when the reader does, which may be after the process.
func (s *session) Exec(ctx context.Context, opts sandbox.ExecOptions) (sandbox.Process, error) {
	p, err := s.start(ctx, "ExecOptions", opts)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (s *session) start(ctx context.Context, what string, opts sandbox.ExecOptions) (*process, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if len(opts.Argv) == 0 || opts.Argv[0] == "" {
		return nil, fmt.Errorf("%s.Argv names no program", what)
	}
	for _, a := range opts.Argv {
		if strings.ContainsRune(a, 0) {
			return nil, fmt.Errorf("%s: an argument contains a NUL byte", what)
		}
	}
	if opts.Stdin != nil && opts.OpenStdin {
		return nil, fmt.Errorf("%s: Stdin and OpenStdin exclude each other", what)
	}
	if err := checkEnv(what+".Env", opts.Env); err != nil {
		return nil, err
	}
	dir, err := s.workingDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	mark := processMark() + rand.Text()
	env := mergeEnv(mark, s.p.host().vars, s.env, map[string]string{"PWD": dir}, opts.Env)
	prog, err := lookProgram(opts.Argv[0], dir, env)
	if err != nil {
		return nil, err
	}
	if opts.Grace <= 0 {
		opts.Grace = defaultGrace
	}

	s.mu.Lock()
	switch {
	case s.ended.Load():
		err = sandbox.ErrEnded
	case len(s.procs) >= s.p.opts.MaxProcesses:
		err = fmt.Errorf("session %s has %d commands alive, as many as local.Options.MaxProcesses allows", s.id, len(s.procs))
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	p := newProcess(s, opts.Grace, mark)
	s.procs[p] = struct{}{}
	s.started.Add(1)
	s.mu.Unlock()
	defer s.started.Done()
	if err := p.start(prog, opts, dir, env); err != nil {
		s.forget(p)
		return nil, err
	}
	p.watch(ctx)
	return p, nil
}

func (s *session) forget(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.procs, p)
}

// workingDir is absolute. A relative one must stay beneath the session's folder by its text.
func (s *session) workingDir(p string) (string, error) {
	if p == "" {
		return s.dir, nil
	}
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("working directory %s: %w", shorten(p), err)
	}
	if strings.ContainsRune(p, 0) {
		return fail(errors.New("contains a NUL byte"))
	}
	dir := path.Clean(p)
	if !path.IsAbs(dir) {
		if dir == ".." || strings.HasPrefix(dir, "../") {
			return fail(sandbox.ErrOutside)
		}
		dir = path.Join(s.dir, dir)
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return fail(errors.Unwrap(err))
	case !info.IsDir():
		return fail(syscall.ENOTDIR)
	}
	return dir, nil
}

func (s *session) findShell() (string, error) {
	vars := s.p.host().vars
	for _, name := range []string{"bash", "sh"} {
		if p, err := lookProgram(name, s.dir, []string{"PATH=" + vars["PATH"]}); err == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("neither bash nor sh is in PATH %s", vars["PATH"])
}

// lookProgram finds a program as the process would: in its own PATH, and relative names from its own folder.
func lookProgram(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			if !filepath.IsAbs(d) {
				d = filepath.Join(dir, d)
			}
			if p := filepath.Join(d, name); executable(p) == nil {
				return p, nil
			}
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

func executable(p string) error {
	info, err := os.Stat(p)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return &os.PathError{Op: "exec", Path: p, Err: syscall.EACCES}
	}
	return nil
}

// files are the three streams of a child, and our ends of them.
type files struct {
	child          [3]*os.File
	stdin          *os.File
	stdout, stderr *os.File
}

func openFiles(withStdin bool) (f files, err error) {
	defer func() {
		if err != nil {
			f.closeAll()
		}
	}()
	if withStdin {
		f.child[0], f.stdin, err = os.Pipe()
	} else {
		f.child[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return f, err
	}
	if f.stdout, f.child[1], err = os.Pipe(); err != nil {
		return f, err
	}
	f.stderr, f.child[2], err = os.Pipe()
	return f, err
}

func (f *files) closeChild() {
	for i, c := range f.child {
		if c != nil {
			_ = c.Close()
			f.child[i] = nil
		}
	}
}

func (f *files) closeAll() {
	f.closeChild()
	for _, o := range []*os.File{f.stdin, f.stdout, f.stderr} {
		if o != nil {
			_ = o.Close()
		}
	}
}

func copyStdin(w *os.File, r io.Reader) {
	// A process that reads no further is not an error of the one who started it.
	_, _ = io.Copy(w, r)
	_ = w.Close()
}
