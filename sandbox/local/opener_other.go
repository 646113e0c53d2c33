//go:build !linux

package local

func newRoot(dir string) (opener, error) { return newPortableRoot(dir) }

func newWorld() opener { return portableWorld{} }

func isProcFile(file) bool { return false }
