package patch

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxContent bounds, in bytes, the content that Apply takes.
const MaxContent = 8 << 20

// maxCompared bounds the lines that are compared to find the places of all hunks.
const maxCompared = 1 << 30

// maxShown is how many places a message lists.
const maxShown = 10

// Apply gives the content with all hunks applied, and the line of each hunk's place, from 1, in the order of the
// hunks. The hunks are looked for in data as it is, not in what earlier hunks made of it.
func Apply(data []byte, hunks []Hunk) (out []byte, lines []int, err error) {
	d := newDoc(data)
	if d.n() > 0 && len(hunks) > maxCompared/d.n() {
		return nil, nil, bad(Invalid, "%d hunks are too many for a file of %d lines; use several patches", len(hunks), d.n())
	}
	places := make([]place, len(hunks))
	lines = make([]int, len(hunks))
	for i := range hunks {
		if places[i], err = d.find(&hunks[i]); err != nil {
			return nil, nil, inHunk(err, i, len(hunks), hunks[i].Line)
		}
		places[i].index = i
		lines[i] = places[i].first + 1
	}
	if err := disjoint(places, hunks); err != nil {
		return nil, nil, err
	}
	return d.assemble(places), lines, nil
}

func inHunk(err error, i, of, line int) error {
	e, ok := err.(*Error)
	if !ok || of == 1 {
		return err
	}
	return &Error{Kind: e.Kind, Text: fmt.Sprintf("hunk %d of %d (line %d of the patch): %s", i+1, of, line, e.Text)}
}

// doc is a file's content with its lines.
type doc struct {
	data  []byte
	start []int // where each line begins, and the end of data
	eol   string
}

func newDoc(data []byte) *doc {
	d := &doc{data: data, eol: "\n"}
	for at := 0; at < len(data); {
		d.start = append(d.start, at)
		n := bytes.IndexByte(data[at:], '\n')
		if n < 0 {
			break
		}
		at += n + 1
	}
	d.start = append(d.start, len(data))
	if lf := bytes.Count(data, []byte{'\n'}); bytes.Count(data, []byte("\r\n"))*2 > lf {
		d.eol = "\r\n"
	}
	return d
}

func (d *doc) n() int { return len(d.start) - 1 }

// raw is a line with its ending.
func (d *doc) raw(i int) []byte { return d.data[d.start[i]:d.start[i+1]] }

// ending is a line's ending: "\n", "\r\n", or nothing at the end of a file.
func (d *doc) ending(i int) string { return ending(d.raw(i)) }

func ending(raw []byte) string {
	switch {
	case bytes.HasSuffix(raw, []byte("\r\n")):
		return "\r\n"
	case bytes.HasSuffix(raw, []byte("\n")):
		return "\n"
	}
	return ""
}

func (d *doc) text(i int) []byte {
	raw := d.raw(i)
	return raw[:len(raw)-len(ending(raw))]
}

// place is where a hunk goes: lines [first, end).
type place struct {
	index      int
	first, end int
	splices    []splice
	// said: the hunk says whether the file ends with a newline.
	said bool
}

// splice replaces lines [first, end) by text.
type splice struct {
	first, end int
	text       []byte
	index      int
}

// find is the one place of a hunk.
func (d *doc) find(h *Hunk) (place, error) {
	old := h.oldLines()
	exactly := false // the patch tells line endings apart
	for _, l := range h.Lines {
		exactly = exactly || strings.HasSuffix(l.Text, "\r")
	}
	if len(old) == 0 {
		if d.n() > 0 && !h.AtEnd {
			return place{}, bad(Invalid, "it has no line that stands in the file, so that its place is unknown; give the lines around the change")
		}
		return d.fill(h, d.n(), exactly), nil
	}
	var at []int
	if exactly {
		at = d.matches(h, old, true)
	}
	if len(at) == 0 {
		exactly = false
		at = d.matches(h, old, false)
	}
	at, err := d.anchored(h, at)
	switch {
	case err != nil:
		return place{}, err
	case len(at) == 0:
		return place{}, bad(Missing, "%s", d.explain(h, old))
	case len(at) > 1:
		return place{}, bad(Ambiguous, "it fits %d places, %s; nothing was changed. Add lines of context until it fits one", len(at), spans(at, len(old)))
	}
	return d.fill(h, at[0], exactly), nil
}

// matches gives the lines, from 0, where all old lines stand. Exactly: with their line endings too.
func (d *doc) matches(h *Hunk, old []Line, exactly bool) []int {
	var at []int
	first := 0
	if h.atEnd() {
		first = max(0, d.n()-len(old))
	}
next:
	for i := first; i+len(old) <= d.n(); i++ {
		for k, l := range old {
			if !d.matchLine(i+k, l, exactly) {
				continue next
			}
		}
		at = append(at, i)
	}
	return at
}

func (d *doc) matchLine(i int, l Line, exactly bool) bool {
	raw := d.raw(i)
	if l.NoEOL && ending(raw) != "" {
		return false
	}
	if exactly {
		rest, ok := bytes.CutPrefix(raw, []byte(l.Text))
		return ok && (string(rest) == "\n" || len(rest) == 0 && i == d.n()-1)
	}
	return string(raw[:len(raw)-len(ending(raw))]) == trimCR(l)
}

// trimCR is a line's text without the CR of its ending. A line without an ending has none.
func trimCR(l Line) string {
	if l.NoEOL {
		return l.Text
	}
	return strings.TrimSuffix(l.Text, "\r")
}

func spans(at []int, n int) string {
	var b strings.Builder
	for i, first := range at {
		if i == maxShown {
			fmt.Fprintf(&b, " and %d more", len(at)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(span(first, n))
	}
	return b.String()
}

func span(first, n int) string {
	if n == 1 {
		return "line " + strconv.Itoa(first+1)
	}
	return fmt.Sprintf("lines %d–%d", first+1, first+n)
}

// fill makes the splices of a hunk at its place.
func (d *doc) fill(h *Hunk, first int, exactly bool) place {
	p := place{first: first}
	at := first
	for i := 0; i < len(h.Lines); {
		if h.Lines[i].Op == ' ' {
			at++
			i++
			continue
		}
		run := splice{first: at, end: at}
		var added []Line
		for ; i < len(h.Lines) && h.Lines[i].Op != ' '; i++ {
			if h.Lines[i].Op == '-' {
				run.end++
			} else {
				added = append(added, h.Lines[i])
			}
		}
		at = run.end
		for k, l := range added {
			switch {
			case l.NoEOL:
				run.text = append(run.text, l.Text...)
			case exactly:
				run.text = append(append(run.text, l.Text...), '\n')
			default:
				run.text = append(append(run.text, trimCR(l)...), d.endingFor(run, k)...)
			}
		}
		p.splices = append(p.splices, run)
	}
	p.end = at
	for _, l := range h.Lines {
		p.said = p.said || l.NoEOL
	}
	return p
}

// endingFor is the ending of the k-th line that a splice adds: that of the line which it replaces, or else of a
// neighbour.
func (d *doc) endingFor(s splice, k int) string {
	near := []int{min(s.first+k, s.end-1), s.first - 1, s.end}
	if s.first == s.end {
		near = near[1:]
	}
	for _, i := range near {
		if i >= 0 && i < d.n() && d.ending(i) != "" {
			return d.ending(i)
		}
	}
	return d.eol
}

// disjoint refuses hunks of which one changes lines that another one needs.
func disjoint(places []place, hunks []Hunk) error {
	sorted := slices.Clone(places)
	slices.SortStableFunc(sorted, func(a, b place) int { return cmp.Compare(a.first, b.first) })
	for i, a := range sorted {
		for _, b := range sorted[i+1:] {
			if b.first >= a.end {
				break
			}
			if a.changes(b) || b.changes(a) {
				x, y := min(a.index, b.index), max(a.index, b.index)
				return bad(Conflict, "hunks %d and %d (lines %d and %d of the patch) change the same lines of the file, near line %d; make them one hunk",
					x+1, y+1, hunks[x].Line, hunks[y].Line, b.first+1)
			}
		}
	}
	return nil
}

// changes reports whether p changes what q needs: a line of it, or what stands between two.
func (p place) changes(q place) bool {
	for _, s := range p.splices {
		if s.first < q.end && s.end > q.first && s.first < s.end {
			return true
		}
		if s.first == s.end && s.first > q.first && s.first < q.end {
			return true
		}
	}
	return false
}

// assemble writes the content anew, with the splices in their places.
func (d *doc) assemble(places []place) []byte {
	var all []splice
	said := false
	for _, p := range places {
		for _, s := range p.splices {
			s.index = p.index
			all = append(all, s)
		}
		said = said || p.said
	}
	slices.SortStableFunc(all, func(a, b splice) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.end, b.end), cmp.Compare(a.index, b.index))
	})
	var out []byte
	add := func(b []byte) {
		if len(b) == 0 {
			return
		}
		if len(out) > 0 && out[len(out)-1] != '\n' { // the last line of the file is not the last any more
			out = append(out, d.eol...)
		}
		out = append(out, b...)
	}
	at := 0
	for _, s := range all {
		add(d.data[d.start[at]:d.start[s.first]])
		add(s.text)
		at = s.end
	}
	add(d.data[d.start[at]:])
	// A last line that was added ends as the file ended, unless the patch says otherwise.
	added := at == d.n() && len(all) > 0 && len(all[len(all)-1].text) > 0
	if added && !said && d.n() > 0 && d.ending(d.n()-1) == "" {
		out = out[:len(out)-len(ending(out))]
	}
	return out
}
