package patch

import (
	"regexp"
	"strings"
	"sync"
)

const (
	beginPatch = "*** Begin Patch"
	endPatch   = "*** End Patch"
	endOfFile  = "*** End of File"
)

// numbered is a hunk header of a unified diff. In an envelope its numbers mean nothing.
var numbered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-\d+(,\d+)? \+\d+(,\d+)?( @@.*)?$`) })

// parseEnvelope reads what stands after "*** Begin Patch".
func parseEnvelope(lines []string, at int) ([]File, error) {
	p := envelope{lines: lines, at: at}
	var files []File
	for {
		l, ok := p.peek()
		switch {
		case !ok:
			return nil, bad(Invalid, "the patch ends without %q; it may have been cut off", endPatch)
		case l == endPatch:
			for _, rest := range lines[p.at+1:] {
				if strings.TrimSpace(rest) != "" {
					return nil, bad(Invalid, "line %d of the patch stands after %q", p.at+2, endPatch)
				}
			}
			return files, nil
		case strings.TrimSpace(l) == "":
			p.at++
			continue
		}
		f := File{Line: p.at + 1}
		var err error
		switch {
		case p.take("*** Add File: ", &f.Path):
			f.Op = Create
			err = p.content(&f)
		case p.take("*** Delete File: ", &f.Path):
			f.Op = Delete
		case p.take("*** Update File: ", &f.Path):
			f.Op = Modify
			var to string
			if p.take("*** Move to: ", &to) {
				f.Op, f.From, f.Path = Rename, f.Path, to
				if f.From == f.Path {
					return nil, bad(Invalid, "line %d of the patch: %s is to move to itself", f.Line, f.Path)
				}
			}
			err = p.hunks(&f)
		default:
			err = bad(Invalid, `line %d of the patch (%s) is none of "*** Add File: ", "*** Update File: " and "*** Delete File: "`, p.at+1, quote(l))
		}
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
}

type envelope struct {
	lines []string
	at    int
}

// peek gives the next line, a mark of the envelope without what trails it.
func (p *envelope) peek() (string, bool) {
	if p.at >= len(p.lines) {
		return "", false
	}
	l := p.lines[p.at]
	if strings.HasPrefix(l, "*** ") {
		l = strings.TrimRight(l, " \t\r")
	}
	return l, true
}

// take consumes a line with that beginning and gives the rest of it.
func (p *envelope) take(prefix string, rest *string) bool {
	l, ok := p.peek()
	if !ok || !strings.HasPrefix(l, prefix) {
		return false
	}
	*rest = strings.TrimSpace(l[len(prefix):])
	p.at++
	return true
}

// content reads the lines of a new file.
func (p *envelope) content(f *File) error {
	h := Hunk{Line: p.at + 1}
	for {
		l, ok := p.peek()
		switch {
		case ok && strings.HasPrefix(l, "+"):
			h.Lines = append(h.Lines, Line{Op: '+', Text: l[1:]})
			p.at++
			continue
		case ok && !strings.HasPrefix(l, "*** ") && strings.TrimSpace(l) != "":
			return bad(Invalid, `line %d of the patch (%s): lines of a new file begin with "+"`, p.at+1, quote(l))
		}
		if len(h.Lines) > 0 {
			f.Hunks = append(f.Hunks, h)
		}
		return nil
	}
}

// hunks reads the hunks of a changed file.
func (p *envelope) hunks(f *File) error {
	var h *Hunk
	blank := 0      // lines at the end of h that are empty even of their space
	closed := false // "*** End of File" was read
	flush := func() error {
		if h == nil {
			return nil
		}
		if !h.AtEnd { // empty lines before the next mark separate
			h.Lines = h.Lines[:len(h.Lines)-blank]
		}
		if len(h.Lines) == 0 {
			return bad(Invalid, "line %d of the patch: the hunk is empty", h.Line)
		}
		f.Hunks = append(f.Hunks, *h)
		h, blank = nil, 0
		return nil
	}
	for {
		l, ok := p.peek()
		switch {
		case !ok, strings.HasPrefix(l, "*** ") && l != endOfFile:
			return flush()
		case l == endOfFile:
			if h == nil || len(h.Lines) == 0 {
				return bad(Invalid, "line %d of the patch: %q follows no hunk", p.at+1, endOfFile)
			}
			h.AtEnd, closed = true, true
			if err := flush(); err != nil {
				return err
			}
		case strings.HasPrefix(l, "@@"):
			if h != nil && len(h.Lines) > 0 {
				if err := flush(); err != nil {
					return err
				}
			}
			if h == nil {
				h = &Hunk{Line: p.at + 1}
			}
			closed = false
			if anchor := strings.TrimSpace(strings.TrimPrefix(l, "@@")); anchor != "" && !numbered().MatchString(anchor) {
				h.Anchors = append(h.Anchors, strings.TrimSpace(strings.TrimSuffix(anchor, "@@")))
			}
		case l == "" && h == nil:
		case l == "" || strings.ContainsRune(" +-", rune(l[0])):
			if closed {
				return bad(Invalid, "line %d of the patch: a new hunk begins with @@", p.at+1)
			}
			if h == nil {
				h = &Hunk{Line: p.at + 1}
			}
			line := Line{Op: ' '}
			if blank++; l != "" {
				line, blank = Line{Op: l[0], Text: l[1:]}, 0
			}
			h.Lines = append(h.Lines, line)
		default:
			return bad(Invalid, `line %d of the patch (%s) begins with none of " ", "+" and "-"; lines that stay begin with a space`, p.at+1, quote(l))
		}
		p.at++
	}
}
