package daemon

import "golang.org/x/sys/unix"

// keepPrivate makes this process's memory and environment unreadable to other processes of the same user, the
// commands of runs among them: the environment holds the keys of model providers. It does not bind root.
func keepPrivate() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
