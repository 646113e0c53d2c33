package local

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/harness-go/harness/sandbox"
)

// maxResolveTries bounds how often the kernel may ask to resolve again because something was renamed meanwhile.
const maxResolveTries = 128

// hasOpenat2 is false on kernels before 5.6 and under seccomp filters that refuse what they do not know.
var hasOpenat2 = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
})

func newRoot(dir string) (opener, error) {
	if !hasOpenat2() {
		return newPortableRoot(dir)
	}
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &beneathDir{dir: f, conn: conn}, nil
}

// beneathDir resolves with openat2 and RESOLVE_BENEATH.
type beneathDir struct {
	dir  *os.File
	conn syscall.RawConn
}

func (b *beneathDir) openFD(name string, flags int) (fd int, err error) {
	// Control holds the directory's descriptor open, so that a session that stops cannot lend its number to another file.
	cerr := b.conn.Control(func(dirfd uintptr) {
		fd, err = resolve(int(dirfd), name, flags, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	})
	if cerr != nil {
		return -1, cerr
	}
	return fd, err
}

func (b *beneathDir) open(name string, flags int) (file, error) {
	fd, err := b.openFD(name, flags|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return file{}, err
	}
	return openedFile(os.NewFile(uintptr(fd), path.Join(b.dir.Name(), name)))
}

func (b *beneathDir) stat(name string) (fs.FileInfo, error) {
	return statFD(b.openFD(name, unix.O_PATH))(name)
}

func (b *beneathDir) lstat(name string) (fs.FileInfo, error) {
	return statFD(b.openFD(name, unix.O_PATH|unix.O_NOFOLLOW))(name)
}

func (b *beneathDir) close() error { return b.dir.Close() }

// world resolves absolute names anywhere but through the links of /proc, which lead to the daemon's own descriptors.
type world struct{}

func newWorld() opener {
	if !hasOpenat2() {
		return portableWorld{}
	}
	return world{}
}

func (world) open(name string, flags int) (file, error) {
	fd, err := resolve(unix.AT_FDCWD, name, flags|unix.O_NONBLOCK|unix.O_NOCTTY, unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return file{}, err
	}
	return openedFile(os.NewFile(uintptr(fd), name))
}

func (world) stat(name string) (fs.FileInfo, error) {
	return statFD(resolve(unix.AT_FDCWD, name, unix.O_PATH, unix.RESOLVE_NO_MAGICLINKS))(name)
}

func (world) lstat(name string) (fs.FileInfo, error) {
	return statFD(resolve(unix.AT_FDCWD, name, unix.O_PATH|unix.O_NOFOLLOW, unix.RESOLVE_NO_MAGICLINKS))(name)
}

func (world) close() error { return nil }

func resolve(dirfd int, name string, flags int, how uint64) (int, error) {
	oh := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: how}
	for range maxResolveTries {
		fd, err := unix.Openat2(dirfd, name, &oh)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR, unix.EAGAIN:
		case unix.EXDEV:
			return -1, sandbox.ErrOutside
		case unix.ENXIO: // a socket, or a FIFO without a reader
			return -1, sandbox.ErrNotRegular
		default:
			return -1, err
		}
	}
	return -1, unix.EAGAIN
}

func statFD(fd int, err error) func(name string) (fs.FileInfo, error) {
	return func(name string) (fs.FileInfo, error) {
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		return f.Stat()
	}
}

// isProcFile tells files of procfs, which speak of the daemon that opens them: its environment, its memory.
func isProcFile(f file) bool {
	st, ok := f.info.Sys().(*syscall.Stat_t)
	if !ok || st.Blocks != 0 {
		return false // procfs files occupy no blocks
	}
	var sfs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &sfs); err != nil {
		return true
	}
	return sfs.Type == unix.PROC_SUPER_MAGIC
}
