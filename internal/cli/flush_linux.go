package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushInput drops what was typed into a terminal and not yet read. On anything else it does nothing.
func flushInput(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
