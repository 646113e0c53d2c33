package builtin

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
)

// Bounds of diffs, in bytes: of the content that is compared and of the diff that is kept.
const (
	maxDiffInput = 1 << 20
	maxDiff      = 64 << 10
)

// unified is the diff that people see. It is empty where there is no change; of large or binary content it only says
// so.
func unified(path string, before, after []byte, created bool) string {
	if !created && string(before) == string(after) {
		return ""
	}
	from := "a/" + path
	if created {
		from = noFile
	}
	return diffOf(from, "b/"+path, before, after)
}

// noFile stands in a diff for a file that is not there.
const noFile = "/dev/null"

func diffOf(from, to string, before, after []byte) string {
	if len(before) > maxDiffInput || len(after) > maxDiffInput {
		return fmt.Sprintf("--- %s\n+++ %s\n(%d bytes became %d: too large to show)\n", from, to, len(before), len(after))
	}
	if !utf8.Valid(before) || !utf8.Valid(after) || strings.ContainsRune(string(before)+string(after), 0) {
		return fmt.Sprintf("--- %s\n+++ %s\n(binary: %d bytes became %d)\n", from, to, len(before), len(after))
	}
	return shortDiff(udiff.Unified(from, to, string(before), string(after)))
}

// shortDiff holds a diff to its bound.
func shortDiff(d string) string {
	if len(d) <= maxDiff {
		return d
	}
	cut := runeBefore([]byte(d), maxDiff)
	if i := strings.LastIndexByte(d[:cut], '\n'); i >= 0 {
		cut = i + 1
	}
	return d[:cut] + fmt.Sprintf("(%d more bytes of this diff are not shown)\n", len(d)-cut)
}
