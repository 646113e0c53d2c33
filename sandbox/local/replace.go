package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/harness-go/harness/sandbox"
)

const (
	// maxLinkHops bounds the links that a Replace follows to the file it writes.
	maxLinkHops = 8
	// dirLockLimit bounds the wait for other writers of the same directory.
	dirLockLimit = 5 * time.Second
)

// Replace writes data atomically. The new content is synced before it takes the name; writers of one directory that go
// through this package, in whatever process, take turns between check and rename. The mode is kept (without set-user-ID
// bits, as a plain write would drop them), and the owner where this process may give files away; extended attributes
// are not. A file that nobody may write to is fs.ErrPermission.
func (s *session) Replace(ctx context.Context, p string, data []byte, opts sandbox.ReplaceOptions) error {
	return s.replace(ctx, p, bytes.NewReader(data), opts)
}

func (s *session) replace(ctx context.Context, p string, r io.Reader, opts sandbox.ReplaceOptions) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	pl, err := s.locate("write", p)
	if err != nil {
		return err
	}
	if pl.name == "." || pl.name == "/" {
		return pathError("write", pl, sandbox.ErrNotRegular)
	}
	t, err := s.target(pl, opts)
	if err != nil {
		return pathError("write", pl, err)
	}
	defer t.dir.Close()
	return pathError("write", pl, t.replace(ctx, r, opts))
}

// target is a name in an open directory. Everything that follows names it through that directory.
type target struct {
	dir  file
	name string
}

// target opens the directory of the file to write, making parents, and follows links of the file itself.
func (s *session) target(pl place, opts sandbox.ReplaceOptions) (target, error) {
	for range maxLinkHops {
		dir, err := s.ensureDir(pl, path.Dir(pl.name))
		if err != nil {
			return target{}, err
		}
		t := target{dir: dir, name: path.Base(pl.name)}
		st, err := t.lstat()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			_ = dir.Close()
			return target{}, err
		}
		if err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
			return t, nil
		}
		_ = dir.Close()
		if opts.MustNotExist {
			return target{}, fs.ErrExist
		}
		next, err := s.follow(pl)
		if errors.Is(err, fs.ErrNotExist) {
			return target{}, fmt.Errorf("a link to a file that does not exist: %w", fs.ErrNotExist)
		}
		if err != nil {
			return target{}, err
		}
		pl = next
	}
	return target{}, syscall.ELOOP
}

// ensureDir opens a directory, making what is missing of it.
func (s *session) ensureDir(pl place, name string) (file, error) {
	at := place{in: pl.in, name: name, shown: pl.shown}
	d, err := s.open(at, os.O_RDONLY|syscall.O_DIRECTORY)
	if !errors.Is(err, fs.ErrNotExist) || name == "." || name == "/" {
		return d, err
	}
	parent, err := s.ensureDir(pl, path.Dir(name))
	if err != nil {
		return file{}, err
	}
	err = unix.Mkdirat(int(parent.Fd()), path.Base(name), 0o755)
	_ = parent.Close()
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return file{}, err
	}
	return s.open(at, os.O_RDONLY|syscall.O_DIRECTORY)
}

func (t target) fd() int { return int(t.dir.Fd()) }

func (t target) lstat() (st unix.Stat_t, err error) {
	err = unix.Fstatat(t.fd(), t.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// check looks at the file that is about to be replaced. missing is true when there is none.
func (t target) check(opts sandbox.ReplaceOptions) (st unix.Stat_t, missing bool, err error) {
	st, err = t.lstat()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if opts.ExpectedVersion != "" {
			return st, true, fmt.Errorf("%w: it no longer exists (%w)", sandbox.ErrStale, fs.ErrNotExist)
		}
		return st, true, nil
	case err != nil:
		return st, false, err
	case opts.MustNotExist:
		return st, false, fs.ErrExist
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return st, false, sandbox.ErrNotRegular
	case st.Mode&0o222 == 0:
		return st, false, fmt.Errorf("the file is read-only for everybody: %w", fs.ErrPermission)
	case opts.ExpectedVersion == "":
		return st, false, nil
	}
	fd, err := unix.Openat(t.fd(), t.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return st, false, err
	}
	f, err := openedFile(os.NewFile(uintptr(fd), t.name))
	if err == nil {
		f, err = f.regular()
	}
	if err != nil {
		return st, false, err
	}
	defer f.Close()
	got, err := sandbox.VersionOf(io.LimitReader(f, sandbox.MaxFileSize+1))
	if err == nil && got != opts.ExpectedVersion {
		err = fmt.Errorf("%w: its version is %s, not %s", sandbox.ErrStale, got, opts.ExpectedVersion)
	}
	return st, false, err
}

func (t target) replace(ctx context.Context, r io.Reader, opts sandbox.ReplaceOptions) error {
	// The first check spares a write that cannot succeed. The one that counts is under the lock.
	st, missing, err := t.check(opts)
	if err != nil {
		return err
	}
	tmp, err := t.createTemp()
	if err != nil {
		return err
	}
	defer tmp.discard()
	n, err := io.Copy(tmp.f, io.LimitReader(r, sandbox.MaxFileSize+1))
	switch {
	case err != nil:
		return err
	case n > sandbox.MaxFileSize:
		return fmt.Errorf("the content has more than %d bytes: %w", sandbox.MaxFileSize, syscall.EFBIG)
	}
	switch perm := opts.Perm.Perm(); {
	case !missing:
		err = keepAttributes(tmp.f, st, perm)
	case perm != 0:
		err = unix.Fchmod(int(tmp.f.Fd()), uint32(perm))
	}
	if err != nil {
		return err
	}
	if err := tmp.f.Sync(); err != nil {
		return err
	}
	if err := waitLock(ctx, t.dir.File, dirLockLimit); err != nil {
		return err
	}
	// Closing the directory gives the lock back.
	now, gone, err := t.check(opts)
	if err != nil {
		return err
	}
	if !gone && (missing || now.Mode != st.Mode || now.Uid != st.Uid || now.Gid != st.Gid) {
		if err := keepAttributes(tmp.f, now, opts.Perm.Perm()); err != nil {
			return err
		}
	}
	return tmp.commit(opts.MustNotExist)
}

// keepAttributes gives f the owner of the file that it replaces, and its permissions unless perm says others.
func keepAttributes(f *os.File, st unix.Stat_t, perm fs.FileMode) error {
	// Ownership first: giving a file away may clear mode bits. Who may not give it away keeps it, as editors do.
	if int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid() {
		_ = unix.Fchown(int(f.Fd()), int(st.Uid), int(st.Gid))
	}
	mode := uint32(st.Mode) & 0o777
	if perm != 0 {
		mode = uint32(perm)
	}
	return unix.Fchmod(int(f.Fd()), mode)
}

// temp is a new file in the target's directory that nobody has under its final name yet.
type temp struct {
	t    target
	f    *os.File
	name string // empty while the file has no name at all
}

func (t target) namedTemp() (*temp, error) {
	name := tempName()
	fd, err := unix.Openat(t.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return nil, err
	}
	return &temp{t: t, f: os.NewFile(uintptr(fd), name), name: name}, nil
}

func tempName() string { return ".harness-" + rand.Text() + ".tmp" }

func (tmp *temp) discard() {
	_ = tmp.f.Close()
	if tmp.name != "" {
		_ = unix.Unlinkat(tmp.t.fd(), tmp.name, 0)
	}
}

// commit gives the file its final name.
func (tmp *temp) commit(mustNotExist bool) error {
	if tmp.name == "" {
		if mustNotExist {
			return tmp.link(tmp.t.name)
		}
		name := tempName()
		if err := tmp.link(name); err != nil {
			return err
		}
		tmp.name = name
	}
	if mustNotExist {
		// A link fails where the name is taken; a rename would not.
		return unix.Linkat(tmp.t.fd(), tmp.name, tmp.t.fd(), tmp.t.name, 0)
	}
	if err := unix.Renameat(tmp.t.fd(), tmp.name, tmp.t.fd(), tmp.t.name); err != nil {
		return err
	}
	tmp.name = ""
	return nil
}
