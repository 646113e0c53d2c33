//go:build !linux

package daemon

// keepPrivate has no counterpart here: other processes of the user may be able to read this one's environment.
func keepPrivate() error { return nil }
