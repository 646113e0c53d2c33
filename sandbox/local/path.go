package local

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/harness-go/harness/sandbox"
)

const (
	maxName = 255
	maxPath = 4096
)

// place is a path that has been decided: a name, and the opener that resolves it.
type place struct {
	in opener
	// name is slash-separated and clean: relative to the session's folder, or absolute outside of it.
	name string
	// shown is what errors call it.
	shown string
}

func (s *session) outside(name string) bool { return strings.HasPrefix(name, "/") }

// locate decides where a caller's path leads, by its text alone: what it names is only known when it is opened.
func (s *session) locate(op, p string) (place, error) {
	fail := func(err error) (place, error) {
		return place{}, &fs.PathError{Op: op, Path: shorten(p), Err: err}
	}
	switch {
	case p == "":
		return fail(fmt.Errorf("the path is empty: %w", fs.ErrInvalid))
	case strings.ContainsRune(p, 0):
		return fail(fmt.Errorf("the path contains a NUL byte: %w", fs.ErrInvalid))
	case strings.HasPrefix(p, "//"):
		return fail(fmt.Errorf("the path starts with // and would name another host; use one slash: %w", fs.ErrInvalid))
	case len(p) > maxPath:
		return fail(fmt.Errorf("the path has %d bytes, at most %d are possible: %w", len(p), maxPath, syscall.ENAMETOOLONG))
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > maxName {
			return fail(fmt.Errorf("a name in the path has %d bytes, at most %d are possible: %w", len(part), maxName, syscall.ENAMETOOLONG))
		}
	}
	name := path.Clean(p)
	if !path.IsAbs(name) {
		if name == ".." || strings.HasPrefix(name, "../") {
			return fail(sandbox.ErrOutside)
		}
		return place{in: s.root, name: name, shown: name}, nil
	}
	if rel, ok := s.beneath(name); ok {
		return place{in: s.root, name: rel, shown: rel}, nil
	}
	if s.confined {
		return fail(sandbox.ErrOutside)
	}
	return place{in: s.world, name: name, shown: name}, nil
}

// beneath gives an absolute path relative to the session's folder, under the name that the folder was given or the
// one that its links lead to.
func (s *session) beneath(abs string) (string, bool) {
	if rel, ok := cutDir(s.dir, abs); ok {
		return rel, true
	}
	if real := s.realDir(); real != s.dir {
		return cutDir(real, abs)
	}
	return "", false
}

func cutDir(dir, abs string) (string, bool) {
	if abs == dir {
		return ".", true
	}
	if dir == "/" {
		return strings.TrimPrefix(abs, "/"), true
	}
	if rest, ok := strings.CutPrefix(abs, dir); ok && rest[0] == '/' {
		return rest[1:], true
	}
	return "", false
}

// follow finds the file that a link leads to and decides anew where that is. It is for links that an opener refuses
// though they may lead back inside. The answer is only a name: whoever opens it is held by the opener.
func (s *session) follow(pl place) (place, error) {
	abs := pl.name
	if !s.outside(pl.name) {
		abs = path.Join(s.dir, pl.name)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return place{}, err
	}
	if rel, ok := s.beneath(real); ok {
		return place{in: s.root, name: rel, shown: pl.shown}, nil
	}
	if !s.outside(pl.name) || s.confined {
		return place{}, sandbox.ErrOutside
	}
	return place{in: s.world, name: real, shown: pl.shown}, nil
}

// open opens a place, once more by its real name when a link with an absolute target stands in the way.
func (s *session) open(pl place, flags int) (file, error) {
	f, err := pl.in.open(pl.name, flags)
	if !errors.Is(err, sandbox.ErrOutside) {
		return f, err
	}
	real, ferr := s.follow(pl)
	if ferr != nil || real.name == pl.name {
		return file{}, err
	}
	return real.in.open(real.name, flags)
}

func pathError(op string, pl place, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		err = fmt.Errorf("a loop of links, or a link of the kernel's process files: %w", err)
	case errors.Is(err, fs.ErrClosed):
		err = sandbox.ErrEnded
	}
	return &fs.PathError{Op: op, Path: pl.shown, Err: err}
}

func shorten(p string) string {
	if len(p) > 120 {
		return p[:120] + "…"
	}
	return p
}
