package native

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/harness-go/harness/ai"
)

// Bounds of the files of one result; what goes beyond is named in the output instead.
const (
	maxFileBytes   = 8 << 20
	maxResultFiles = 16
)

// sniffed are the media types that a file's first bytes tell for sure.
var sniffed = []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}

// damage says why a provider would refuse a file; empty when it would not. One refused file makes every later request
// of its session fail, so it must not get there.
func damage(f ai.FilePart) string {
	switch {
	case len(f.Data) == 0:
		return "its content is missing or damaged"
	case !slices.Contains(sniffed, f.MediaType):
		return ""
	}
	if is := http.DetectContentType(f.Data); is != f.MediaType {
		return fmt.Sprintf("its content is not %s but %s", f.MediaType, is)
	}
	return ""
}

func fileName(f ai.FilePart) string {
	if f.Filename != "" {
		return f.Filename
	}
	return "a file of type " + f.MediaType
}

// usable is the file, or a note in its place.
func (h *history) usable(f ai.FilePart) ai.Part {
	why := damage(f)
	if why == "" {
		return f
	}
	note := fileName(f) + " is left out: " + why
	h.damaged = append(h.damaged, note)
	return ai.TextPart{Text: "[" + note + "]"}
}

// fitting are the files that a result may bring, and a note about the others.
func fitting(files []ai.FilePart) (kept []ai.FilePart, note string) {
	for _, f := range files {
		switch {
		case len(f.Data) > maxFileBytes:
			note += fmt.Sprintf("\n[%s is left out: it has %d bytes, at most %d can be shown]", fileName(f), len(f.Data), maxFileBytes)
		case len(kept) == maxResultFiles:
			note += fmt.Sprintf("\n[%s is left out: a result can have %d files]", fileName(f), maxResultFiles)
		default:
			kept = append(kept, f)
		}
	}
	return kept, note
}

// mended is an item's JSON without the file contents that are no base64, so that one bad file does not lock its
// session. It is nil where nothing could be mended.
func mended(data []byte) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if dec.Decode(&v) != nil || !mend(v) {
		return nil
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return out
}

// mend empties the damaged contents below v and reports whether there were any.
func mend(v any) (found bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			found = mend(e) || found
		}
	case map[string]any:
		if s, ok := v["data"].(string); ok && v["mediaType"] != nil {
			var b []byte
			quoted, err := json.Marshal(s)
			if err != nil || json.Unmarshal(quoted, &b) != nil {
				v["data"], found = "", true
			}
		} else if ok := v["data"] != nil && v["mediaType"] != nil; ok {
			v["data"], found = "", true // not even a text
		}
		for key, e := range v {
			if key != "raw" { // a provider's own item is its own
				found = mend(e) || found
			}
		}
	}
	return found
}
