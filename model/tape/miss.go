package tape

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// maxCompared bounds the recordings that a miss is compared with, and the bytes of them that are read.
const (
	maxCompared      = 64
	maxComparedBytes = 64 << 20
)

// missed finds the recorded request that is nearest to one without an answer: of those to the same path that are
// nearest in size, the one that has the most in common with it.
func (t *Tape) missed(path string, body []byte, sum string, recorded int) *MissError {
	e := &MissError{Path: path, Recorded: recorded}
	if recorded > 0 {
		return e
	}
	want, isJSON := decode(canonical(body))
	best := -1
	for _, name := range t.candidates(len(body)) {
		x, err := t.load(name)
		if err != nil || x.Path != path {
			continue
		}
		have, ok := decode(canonical(x.request()))
		if !ok || !isJSON {
			if best < 0 {
				best, e.Nearest, e.Difference = 0, name, "the body, which is not JSON"
			}
			continue
		}
		c := comparison{}
		c.compare("", want, have)
		if c.equal > best {
			best, e.Nearest, e.Difference = c.equal, name, c.first
		}
	}
	return e
}

// candidates are the recordings that are nearest in size.
func (t *Tape) candidates(size int) []string {
	type file struct {
		name  string
		apart int64
		size  int64
	}
	var files []file
	for _, digest := range slices.Sorted(maps.Keys(t.recorded)) {
		name := t.recorded[digest][0]
		info, err := os.Stat(filepath.Join(t.dir, name))
		if err != nil {
			continue
		}
		files = append(files, file{name, max(info.Size()-int64(size), int64(size)-info.Size()), info.Size()})
	}
	slices.SortStableFunc(files, func(a, b file) int { return int(min(max(a.apart-b.apart, -1), 1)) })
	var names []string
	left := int64(maxComparedBytes)
	for _, f := range files {
		if len(names) == maxCompared {
			break
		}
		if left -= f.size; left < 0 && len(names) > 0 {
			break
		}
		names = append(names, f.name)
	}
	return names
}

// comparison walks two values side by side. It counts what is equal and keeps the first place where they differ.
type comparison struct {
	equal int
	first string
}

func (c *comparison) differ(at, how string) {
	if c.first == "" {
		if at == "" {
			at = "the body"
		}
		c.first = at + " (" + how + ")"
	}
}

func (c *comparison) compare(at string, want, have any) {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			c.differ(at, "another type")
			return
		}
		all := maps.Clone(w)
		maps.Copy(all, h)
		for _, k := range slices.Sorted(maps.Keys(all)) {
			wv, inWant := w[k]
			hv, inHave := h[k]
			switch p := member(at, k); {
			case !inWant:
				c.differ(p, "only in the recorded request")
			case !inHave:
				c.differ(p, "not in the recorded request")
			default:
				c.compare(p, wv, hv)
			}
		}
	case []any:
		h, ok := have.([]any)
		if !ok {
			c.differ(at, "another type")
			return
		}
		for i := range min(len(w), len(h)) {
			c.compare(fmt.Sprintf("%s[%d]", at, i), w[i], h[i])
		}
		if len(w) != len(h) {
			c.differ(fmt.Sprintf("%s[%d]", at, min(len(w), len(h))), fmt.Sprintf("%d elements, recorded are %d", len(w), len(h)))
		}
	case string:
		h, ok := have.(string)
		switch {
		case !ok:
			c.differ(at, "another type")
		case w != h:
			n := 0
			for n < len(w) && n < len(h) && w[n] == h[n] {
				n++
			}
			c.differ(at, fmt.Sprintf("from byte %d of its text", n))
		default:
			c.equal++
		}
	default:
		if want != have {
			c.differ(at, "another value")
			return
		}
		c.equal++
	}
}

func member(at, key string) string {
	if len(key) > 60 {
		key = key[:60] + "…"
	}
	if at == "" {
		return key
	}
	return at + "." + key
}
