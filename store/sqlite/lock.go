//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/harness-go/harness/store"
)

// dirLock is the exclusive lock on a state directory. The kernel frees it when the process ends in any way.
type dirLock struct{ f *os.File }

// lockDir takes the lock and writes this process into the lock file, for the message that a second opener gets. The
// file itself stays: removing it would let two processes lock two different files.
func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlite: lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("sqlite: %s: %w (%s)", dir, store.ErrLocked, owner(f))
		}
		return nil, fmt.Errorf("sqlite: lock %s: %w", path, err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendf(nil, "pid %d on host %s\n", os.Getpid(), host), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("sqlite: lock %s: %w", path, err)
	}
	return &dirLock{f: f}, nil
}

// owner reads who holds the lock. The owner may be between locking and writing, so an empty file is not an error.
func owner(f *os.File) string {
	b, _ := io.ReadAll(io.LimitReader(f, 512))
	if text := strings.TrimSpace(string(b)); text != "" {
		return text
	}
	return "owner unknown"
}

func (l *dirLock) release() error { return l.f.Close() }
