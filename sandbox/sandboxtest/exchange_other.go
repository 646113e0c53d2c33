//go:build !linux

package sandboxtest

import (
	"errors"
	"os"
)

// exchange swaps two names, with a moment in which one is missing.
func exchange(a, b string) error {
	return errors.Join(os.Rename(a, a+".swap"), os.Rename(b, a), os.Rename(a+".swap", b))
}
