package local

import (
	"io/fs"
	"os"

	"github.com/harness-go/harness/sandbox"
)

// opener resolves names below one place. Where it is confined, a name that leads out is sandbox.ErrOutside whatever
// other processes rename meanwhile.
type opener interface {
	// open takes O_* flags without O_CREAT. It never blocks on a FIFO.
	open(name string, flags int) (file, error)
	stat(name string) (fs.FileInfo, error)
	lstat(name string) (fs.FileInfo, error)
	close() error
}

// file is an open file or directory with what was known when it was opened.
type file struct {
	*os.File
	info fs.FileInfo
}

// regular closes what is not a regular file.
func (f file) regular() (file, error) {
	if f.info.Mode().IsRegular() && !isProcFile(f) {
		return f, nil
	}
	_ = f.Close()
	return file{}, sandbox.ErrNotRegular
}

// openedFile completes an open.
func openedFile(f *os.File) (file, error) {
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return file{}, err
	}
	return file{File: f, info: info}, nil
}
