//go:build !linux

package cli

import "os"

// flushInput does nothing where the terminal has no such call: the dropped line is then the only guard.
func flushInput(*os.File) {}
