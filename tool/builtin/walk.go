package builtin

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/harness-go/harness/sandbox"
)

// Bounds of a search through a tree.
const (
	walkEntries = 200_000
	walkTime    = 20 * time.Second
)

// errWalkBound ends a walk that has become too long; its result says so.
var errWalkBound = errors.New("the search was ended: too many files or too much time; search in a smaller path")

// walkFiles calls fn for each regular file below root, in lexical order, with its display path and its path relative
// to root. It leaves out .git. The error is errWalkBound where the bounds ended it.
func walkFiles(ctx context.Context, files sandbox.Files, root string, fn func(shown, rel string, d fs.DirEntry) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, walkTime, errWalkBound)
	defer cancel()
	prefix := files.Display(root)
	switch prefix {
	case ".", "":
		prefix = ""
	case "/":
	default:
		prefix += "/"
	}
	entries := 0
	err := files.Walk(limited, root, func(p string, d fs.DirEntry) error {
		if entries++; entries > walkEntries {
			return errWalkBound
		}
		if entries%64 == 0 && limited.Err() != nil {
			return context.Cause(limited)
		}
		if d.IsDir() {
			if path.Base(p) == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		return fn(p, strings.TrimPrefix(p, prefix), d)
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return errWalkBound
	}
	return err
}
