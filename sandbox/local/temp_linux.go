package local

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// canName tells whether a nameless file can be given a name, which goes through /proc.
var canName = sync.OnceValue(func() bool {
	_, err := os.Stat("/proc/self/fd")
	return err == nil
})

// createTemp makes a file without a name where the file system can, so that a kill while it is written leaves nothing.
func (t target) createTemp() (*temp, error) {
	if !canName() {
		return t.namedTemp()
	}
	fd, err := unix.Openat(t.fd(), ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o666)
	if err == nil {
		return &temp{t: t, f: os.NewFile(uintptr(fd), t.name)}, nil
	}
	return t.namedTemp()
}

// link names a nameless file. It fails where the name is taken.
func (tmp *temp) link(name string) error {
	self := fmt.Sprintf("/proc/self/fd/%d", tmp.f.Fd())
	return unix.Linkat(unix.AT_FDCWD, self, tmp.t.fd(), name, unix.AT_SYMLINK_FOLLOW)
}
