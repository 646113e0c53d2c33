package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/harness-go/harness/sandbox"
)

// portableRoot resolves with os.Root, where the kernel has no openat2.
type portableRoot struct{ root *os.Root }

func newPortableRoot(dir string) (opener, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return portableRoot{r}, nil
}

func (p portableRoot) open(name string, flags int) (file, error) {
	f, err := p.root.OpenFile(name, flags|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return file{}, portableError(err)
	}
	return openedFile(f)
}

func (p portableRoot) stat(name string) (fs.FileInfo, error) {
	info, err := p.root.Stat(name)
	return info, portableError(err)
}

func (p portableRoot) lstat(name string) (fs.FileInfo, error) {
	info, err := p.root.Lstat(name)
	return info, portableError(err)
}

func (p portableRoot) close() error { return p.root.Close() }

// portableWorld opens absolute names. It looks for /proc by name, which a race can defeat; a session that must not
// reach there is confined and never comes here.
type portableWorld struct{}

func (portableWorld) open(name string, flags int) (file, error) {
	if real, err := filepath.EvalSymlinks(name); inProc(name) || (err == nil && inProc(real)) {
		return file{}, sandbox.ErrNotRegular
	}
	f, err := os.OpenFile(name, flags|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return file{}, portableError(err)
	}
	return openedFile(f)
}

func inProc(name string) bool { return name == "/proc" || strings.HasPrefix(name, "/proc/") }

func (portableWorld) stat(name string) (fs.FileInfo, error)  { return os.Stat(name) }
func (portableWorld) lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }
func (portableWorld) close() error                           { return nil }

// escapeError is the value with which os.Root refuses a name that leads out. It has no exported name.
var escapeError = sync.OnceValue(func() error {
	r, err := os.OpenRoot("/")
	if err != nil {
		return sandbox.ErrOutside
	}
	defer r.Close()
	_, err = r.Stat("..")
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return sandbox.ErrOutside
})

func portableError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, escapeError()):
		return sandbox.ErrOutside
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EOPNOTSUPP):
		return sandbox.ErrNotRegular
	}
	return err
}
