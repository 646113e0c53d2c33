//go:build !linux

package local

import "golang.org/x/sys/unix"

func (t target) createTemp() (*temp, error) { return t.namedTemp() }

// link is for files without a name, which createTemp does not make here.
func (tmp *temp) link(string) error { return unix.ENOTSUP }
