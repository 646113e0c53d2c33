package patch

import (
	"bytes"
	"fmt"
	"strings"
)

// Bounds of the search for the nearest place.
const (
	nearLines   = 50_000
	nearCompare = 5_000_000
	nearShown   = 3
)

// explain says why a hunk has no place: where it comes nearest and what differs there.
func (d *doc) explain(h *Hunk, old []Line) string {
	if d.n() == 0 {
		return "the file is empty"
	}
	if at := d.already(h); at >= 0 {
		return fmt.Sprintf("what it removes is not in the file, but what it would make is there already, at line %d", at+1)
	}
	best, equal := d.nearest(old)
	if best < 0 {
		return "the lines that it names are not in the file, and none is like them; read the file again"
	}
	last := min(best+len(old), d.n())
	if h.atEnd() && equal == len(old) {
		return fmt.Sprintf("its lines stand at %s, which is not the end of the file", span(best, len(old)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the lines that it names are not in the file. Nearest are %s, where %d of %d lines are the same", span(best, last-best), equal, len(old))
	shown := 0
	for k, l := range old {
		i := best + k
		if i < d.n() && d.matchLine(i, l, false) {
			continue
		}
		if shown++; shown > nearShown {
			b.WriteString("; more lines differ")
			break
		}
		switch {
		case i >= d.n():
			fmt.Fprintf(&b, "; the file ends before %s", quote(l.Text))
		case l.NoEOL && string(d.text(i)) == l.Text:
			fmt.Fprintf(&b, "; line %d has a newline at its end, which the patch denies", i+1)
		default:
			what := ""
			if squeeze(d.text(i)) == squeeze([]byte(l.Text)) {
				what = " (only white space differs)"
			}
			fmt.Fprintf(&b, "; line %d is %s and not %s%s", i+1, quote(string(d.text(i))), quote(l.Text), what)
		}
	}
	return b.String()
}

// already finds the one place where the lines stand that the hunk would make; -1 if there is none.
func (d *doc) already(h *Hunk) int {
	var made []Line
	added := false
	for _, l := range h.Lines {
		if l.new() {
			added = added || l.Op == '+' && strings.TrimSpace(l.Text) != ""
			l.NoEOL = false // whatever ends the file
			made = append(made, l)
		}
	}
	if !added {
		return -1
	}
	if at := d.matches(&Hunk{}, made, false); len(at) == 1 {
		return at[0]
	}
	return -1
}

// nearest finds the place where most of the lines stand, and of those the one whose other lines are most alike.
func (d *doc) nearest(old []Line) (best, equal int) {
	best = -1
	score := 0.0
	n := min(d.n(), nearLines, max(1, nearCompare/len(old)))
	for i := range n {
		same, alike := 0, 0.0
		for k, l := range old {
			switch {
			case i+k >= d.n():
			case d.matchLine(i+k, l, false):
				same++
				if strings.TrimSpace(l.Text) != "" {
					alike++ // an empty line says little about a place
				}
			default:
				if a := likeness(d.text(i+k), []byte(l.Text)); a >= 0.5 {
					alike += a / 2
				}
			}
		}
		if alike > score {
			best, equal, score = i, same, alike
		}
	}
	return best, equal
}

// likeness is the part of two lines that their beginnings and ends share, 0 to 1.
func likeness(a, b []byte) float64 {
	a, b = bytes.TrimSpace(a[:min(len(a), 400)]), bytes.TrimSpace(b[:min(len(b), 400)])
	longer, shorter := max(len(a), len(b)), min(len(a), len(b))
	if longer == 0 {
		return 0
	}
	head := 0
	for head < shorter && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < shorter-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return float64(head+tail) / float64(longer)
}

func squeeze(b []byte) string { return strings.Join(strings.Fields(string(b)), " ") }
