package local

import (
	"context"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/harness-go/harness/sandbox"
)

// Remove takes a file away, see sandbox.Remover. It takes turns with Replace between check and removal, and as there a
// file that nobody may write to is fs.ErrPermission.
func (s *session) Remove(ctx context.Context, p string, opts sandbox.RemoveOptions) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	pl, err := s.locate("remove", p)
	if err != nil {
		return err
	}
	if pl.name == "." || pl.name == "/" {
		return pathError("remove", pl, sandbox.ErrNotRegular)
	}
	dir, err := s.open(place{in: pl.in, name: path.Dir(pl.name), shown: pl.shown}, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return pathError("remove", pl, err)
	}
	defer dir.Close() // gives the lock back
	return pathError("remove", pl, target{dir: dir, name: path.Base(pl.name)}.remove(ctx, opts))
}

func (t target) remove(ctx context.Context, opts sandbox.RemoveOptions) error {
	if err := waitLock(ctx, t.dir.File, dirLockLimit); err != nil {
		return err
	}
	_, missing, err := t.check(sandbox.ReplaceOptions{ExpectedVersion: opts.ExpectedVersion})
	switch {
	case err != nil:
		return err
	case missing:
		return syscall.ENOENT
	}
	return unix.Unlinkat(t.fd(), t.name, 0)
}
