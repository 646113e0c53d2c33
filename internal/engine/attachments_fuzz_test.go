package engine

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever is attached under whatever name of a type: what is accepted is what its type says.
func FuzzAttachedMediaType(f *testing.F) {
	f.Add("", []byte("\x89PNG\r\n\x1a\n"))
	f.Add("image/jpg", []byte("\xff\xd8\xff\xe0"))
	f.Add("text/markdown; charset=utf-8", []byte("# a"))
	f.Add("application/json", []byte("{}"))
	f.Add("application/pdf", []byte("%PDF-1.4"))
	f.Add("image/png", []byte("<html>"))
	f.Add("", []byte{0, 1, 2})
	f.Fuzz(func(t *testing.T, claimed string, data []byte) {
		got, err := mediaType("a", claimed, data)
		if err != nil {
			return
		}
		if slices.Contains(binaryTypes, got) {
			if is := http.DetectContentType(data); is != got {
				t.Fatalf("%s is accepted as %s", is, got)
			}
			return
		}
		if !strings.HasPrefix(got, "text/") && got != "application/json" || !utf8.Valid(data) || len(data) == 0 {
			t.Fatalf("%q of %d bytes is accepted as %q", data[:min(len(data), 20)], len(data), got)
		}
	})
}
