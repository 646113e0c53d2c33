package patch

import (
	"bytes"
	"strings"
)

// anchored keeps the places that a hunk's anchors can mean. An anchor names a line such as the head of a function; its
// scope is what is indented below it. A place that is alone in the file needs only stand behind its anchors.
func (d *doc) anchored(h *Hunk, at []int) ([]int, error) {
	if len(h.Anchors) == 0 || len(at) == 0 {
		return at, nil
	}
	// scopes are ranges of lines [first, end); behind is where the last anchor can stand first.
	scopes := [][2]int{{0, d.n()}}
	behind := 0
	for _, anchor := range h.Anchors {
		var inner [][2]int
		next := -1
		for i := behind; i < d.n(); i++ {
			if string(bytes.TrimSpace(d.text(i))) != anchor {
				continue
			}
			if next < 0 {
				next = i
			}
			for _, s := range scopes {
				if i >= s[0] && i < s[1] {
					inner = append(inner, [2]int{i, min(s[1], d.scopeEnd(i))})
					break
				}
			}
		}
		if next < 0 {
			return nil, bad(Missing, "no line of the file is %s, which stands behind @@", quote(anchor))
		}
		scopes, behind = inner, next
	}
	var inside, after []int
	for _, i := range at {
		for _, s := range scopes {
			if i >= s[0] && i < s[1] {
				inside = append(inside, i)
				break
			}
		}
		if i >= behind {
			after = append(after, i)
		}
	}
	switch {
	case len(inside) > 0:
		return inside, nil
	case len(after) > 0:
		return after, nil
	}
	return nil, bad(Missing, "it fits %s, which is not behind the line %s", spans(at, len(h.oldLines())), quote(h.Anchors[len(h.Anchors)-1]))
}

// scopeEnd is the line after what belongs to the line at: all that is indented deeper, with what closes it.
func (d *doc) scopeEnd(at int) int {
	depth := indent(d.text(at))
	for i := at + 1; i < d.n(); i++ {
		line := d.text(i)
		trimmed := string(bytes.TrimSpace(line))
		if trimmed == "" || indent(line) > depth {
			continue
		}
		switch {
		case trimmed == "{", strings.ContainsRune(")]}", rune(trimmed[0])) && strings.ContainsRune("{(:", rune(trimmed[len(trimmed)-1])):
			continue // a head of several lines
		case strings.ContainsRune(")]}", rune(trimmed[0])), trimmed == "end":
			return i + 1
		}
		return i
	}
	return d.n()
}

// indent is how far a line is indented; a tab counts as eight.
func indent(line []byte) int {
	n := 0
	for _, c := range line {
		switch c {
		case ' ':
			n++
		case '\t':
			n += 8
		default:
			return n
		}
	}
	return n
}
