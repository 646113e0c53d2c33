package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/harness-go/harness/sandbox"
)

const (
	// maxDirEntries bounds what one listing holds in memory.
	maxDirEntries = 1 << 20
	// maxWalkDepth bounds the descriptors that a walk holds open.
	maxWalkDepth = 256
)

// Open opens a regular file for reading. Files of /proc are refused like devices: opened here they would tell of the
// daemon.
func (s *session) Open(ctx context.Context, p string) (sandbox.File, error) {
	f, err := s.openRegular(ctx, p)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (s *session) openRegular(ctx context.Context, p string) (file, error) {
	if err := s.ready(ctx); err != nil {
		return file{}, err
	}
	pl, err := s.locate("open", p)
	if err != nil {
		return file{}, err
	}
	f, err := s.open(pl, os.O_RDONLY)
	if err == nil {
		f, err = f.regular()
	}
	if err != nil {
		return file{}, pathError("open", pl, err)
	}
	return f, nil
}

// Stat follows links that stay inside. The answer's name is the last element of path.
func (s *session) Stat(ctx context.Context, p string) (fs.FileInfo, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	pl, err := s.locate("stat", p)
	if err != nil {
		return nil, err
	}
	info, err := pl.in.stat(pl.name)
	if errors.Is(err, sandbox.ErrOutside) {
		if real, ferr := s.follow(pl); ferr == nil && real.name != pl.name {
			info, err = real.in.stat(real.name)
		}
	}
	if err != nil {
		return nil, pathError("stat", pl, err)
	}
	return named{info, path.Base(pl.name)}, nil
}

// named is a file's information under the name that was asked for.
type named struct {
	fs.FileInfo
	name string
}

func (n named) Name() string { return n.name }

// ReadDir lists a directory in name order.
func (s *session) ReadDir(ctx context.Context, p string) ([]fs.DirEntry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	pl, err := s.locate("readdir", p)
	if err != nil {
		return nil, err
	}
	d, err := s.open(pl, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil, pathError("readdir", pl, err)
	}
	defer d.Close()
	list, err := s.entries(d.File, pl.name)
	return list, pathError("readdir", pl, err)
}

// entries reads an open directory. name is where it lies, for entries whose details are asked for later.
func (s *session) entries(d *os.File, name string) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	for {
		batch, err := d.ReadDir(4096)
		for _, e := range batch {
			out = append(out, entry{DirEntry: e, s: s, name: path.Join(name, e.Name())})
		}
		if len(out) > maxDirEntries {
			return nil, fmt.Errorf("the directory has more than %d entries", maxDirEntries)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// entry asks for its details beneath the root, not by a path that may have come to lead elsewhere.
type entry struct {
	fs.DirEntry
	s    *session
	name string
}

func (e entry) Info() (fs.FileInfo, error) {
	in := e.s.root
	if e.s.outside(e.name) {
		in = e.s.world
	}
	info, err := in.lstat(e.name)
	return info, pathError("lstat", place{shown: e.name}, err)
}

// Walk visits what lies below root, see sandbox.Files. A tree deeper than 256 directories is an error.
func (s *session) Walk(ctx context.Context, root string, fn func(path string, d fs.DirEntry) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	pl, err := s.locate("walk", root)
	if err != nil {
		return err
	}
	d, err := s.open(pl, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return pathError("walk", pl, err)
	}
	w := walk{ctx: ctx, s: s, fn: fn}
	err = w.dir(d.File, pl.name, 0)
	if errors.Is(err, fs.SkipAll) || errors.Is(err, fs.SkipDir) {
		return nil
	}
	return err
}

type walk struct {
	ctx context.Context
	s   *session
	fn  func(string, fs.DirEntry) error
}

// dir visits the entries of d and closes it.
func (w walk) dir(d *os.File, name string, depth int) error {
	defer d.Close()
	if depth > maxWalkDepth {
		return pathError("walk", place{shown: name}, fmt.Errorf("deeper than %d directories", maxWalkDepth))
	}
	if err := w.s.ready(w.ctx); err != nil {
		return err
	}
	list, err := w.s.entries(d, name)
	if err != nil {
		if depth > 0 && skippable(err) {
			return nil
		}
		return pathError("walk", place{shown: name}, err)
	}
	for i, e := range list {
		if i%256 == 255 && w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		p := path.Join(name, e.Name())
		switch err := w.fn(p, e); {
		case errors.Is(err, fs.SkipDir):
			if e.IsDir() {
				continue
			}
			return nil // like filepath.WalkDir: the rest of this directory
		case err != nil:
			return err
		}
		if !e.IsDir() {
			continue
		}
		fd, err := unix.Openat(int(d.Fd()), e.Name(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			if skippable(err) {
				continue
			}
			return pathError("walk", place{shown: p}, err)
		}
		if err := w.dir(os.NewFile(uintptr(fd), path.Join(d.Name(), e.Name())), p, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// skippable errors are of a directory that went away, became something else, or is not ours to read.
func skippable(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// Display is the path as people should see it.
func (s *session) Display(p string) string {
	if p == "" {
		return ""
	}
	clean := path.Clean(p)
	if path.IsAbs(clean) {
		if rel, ok := s.beneath(clean); ok {
			return rel
		}
	}
	return clean
}
