// Package patch reads patches and applies their hunks to content. It does no input or output: whoever calls it reads
// the files, applies, and writes.
//
// Two forms are read: unified diffs as git and diff write them, and the "*** Begin Patch" envelope. Both become the
// same list of File.
//
// Invariants: a hunk goes where its old lines stand, and only if they stand there alone; numbers in hunk headers are
// never trusted for a place. A line ending is the only thing in which old lines may differ from the file, because
// models write LF whatever a file has. Lines that a hunk does not change keep their bytes.
package patch

import (
	"fmt"
	"slices"
	"strings"
)

// Op says what happens to a file.
type Op string

// The operations.
const (
	Modify Op = "modify"
	Create Op = "create"
	Delete Op = "delete"
	Rename Op = "rename"
	Copy   Op = "copy"
)

// Exec says what becomes of a file's executable bits.
type Exec int

// The zero value leaves them.
const (
	KeepExec Exec = iota
	SetExec
	ClearExec
)

// File is what a patch does to one file.
type File struct {
	Op   Op
	Path string
	// From is the source of Rename and Copy.
	From  string
	Exec  Exec
	Hunks []Hunk
	// Shown, of a Delete: the hunks are the whole content. Otherwise the patch names the file alone.
	Shown bool
	// Line is where its part begins in the patch, from 1.
	Line int
}

// Hunk is one place of a file.
type Hunk struct {
	Lines []Line
	// Anchors are lines that stand before the place, outermost first.
	Anchors []string
	// AtEnd: the place is the end of the file.
	AtEnd bool
	// Line is where the hunk begins in the patch, from 1.
	Line int
}

// Line is a line of a hunk: ' ' is kept, '-' removed, '+' added. Text has no "\n"; its "\r", if it has one, belongs to
// the line's ending. NoEOL: the file ends with this line and has no line ending there.
type Line struct {
	Op    byte
	Text  string
	NoEOL bool
}

func (l Line) old() bool { return l.Op != '+' }
func (l Line) new() bool { return l.Op != '-' }

// Kind tells errors apart.
type Kind int

// The kinds of errors.
const (
	// Invalid: the patch cannot be read, or asks for what is not done.
	Invalid Kind = iota
	// Missing: the old lines are nowhere in the file.
	Missing
	// Ambiguous: they are in several places.
	Ambiguous
	// Conflict: two hunks change the same lines.
	Conflict
)

// Error is text for whoever wrote the patch.
type Error struct {
	Kind Kind
	Text string
}

func (e *Error) Error() string { return e.Text }

func bad(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Bounds of a patch.
const (
	MaxFiles = 200
	MaxHunks = 2000
)

// Parse reads a patch. path is the file of hunks that stand under no header of their own; it may be empty.
func Parse(text, path string) ([]File, error) {
	if strings.ContainsRune(text, 0) {
		return nil, bad(Invalid, "the patch contains a NUL character; binary content cannot be patched")
	}
	lines := split(text)
	first := 0
	for first < len(lines) && strings.TrimSpace(lines[first]) == "" {
		first++
	}
	if first == len(lines) {
		return nil, bad(Invalid, "the patch is empty")
	}
	var files []File
	var err error
	if strings.TrimRight(lines[first], " \t\r") == beginPatch {
		files, err = parseEnvelope(lines, first+1)
	} else {
		files, err = parseUnified(lines, path)
	}
	if err != nil {
		return nil, err
	}
	return merge(files)
}

// split gives the lines without their "\n". A patch whose every line ends with CRLF came over something that made it
// so, and the CRs are not part of it.
func split(text string) []string {
	text = strings.TrimSuffix(text, "\n")
	lines := strings.Split(text, "\n")
	crs := 0
	for i, l := range lines {
		if strings.HasSuffix(l, "\r") || i == len(lines)-1 && !strings.HasPrefix(l, "+") {
			crs++
		}
	}
	if crs == len(lines) && strings.Contains(text, "\r\n") {
		for i, l := range lines {
			lines[i] = strings.TrimSuffix(l, "\r")
		}
	}
	return lines
}

// merge joins what a patch says about one file in several parts, checks each part and the bounds.
func merge(files []File) ([]File, error) {
	var out []File
	at := make(map[string]int, len(files))
	hunks := 0
	for _, f := range files {
		if err := f.check(); err != nil {
			return nil, err
		}
		hunks += len(f.Hunks)
		i, again := at[f.Path]
		switch {
		case again && out[i].Op == Modify && f.Op == Modify && f.Exec == KeepExec:
			out[i].Hunks = append(out[i].Hunks, f.Hunks...)
			continue
		case again:
			return nil, bad(Invalid, "the patch has two parts for %s (lines %d and %d), to %s and to %s it; put them into one", f.Path, out[i].Line, f.Line, out[i].Op, f.Op)
		}
		at[f.Path] = len(out)
		out = append(out, f)
	}
	for _, f := range out {
		if i, touched := at[f.From]; touched && f.From != "" {
			return nil, bad(Invalid, "the patch makes %s from %s (line %d) and has another part for %s (line %d); use two patches", f.Path, f.From, f.Line, f.From, out[i].Line)
		}
	}
	switch {
	case len(out) == 0:
		return nil, bad(Invalid, `the patch names no file; each begins with "--- a/<path>" and "+++ b/<path>"`)
	case len(out) > MaxFiles:
		return nil, bad(Invalid, "the patch has %d files, more than %d", len(out), MaxFiles)
	case hunks > MaxHunks:
		return nil, bad(Invalid, "the patch has %d hunks, more than %d", hunks, MaxHunks)
	}
	return out, nil
}

// check holds a part to what its operation can be.
func (f *File) check() error {
	for _, h := range f.Hunks {
		if err := h.check(); err != nil {
			return err
		}
		for _, l := range h.Lines {
			switch {
			case f.Op == Create && l.Op != '+':
				return bad(Invalid, "line %d of the patch: %s is a new file and can only have added lines", h.Line, f.Path)
			case f.Op == Delete && l.Op != '-':
				return bad(Invalid, "line %d of the patch: %s is deleted and can only have removed lines", h.Line, f.Path)
			}
		}
	}
	switch {
	case f.Path == "":
		return bad(Invalid, "line %d of the patch names no file", f.Line)
	case f.Op == Create && len(f.Hunks) > 1:
		return bad(Invalid, "line %d of the patch: the new file %s has several hunks; give its content in one", f.Line, f.Path)
	case f.Op == Modify && len(f.Hunks) == 0 && f.Exec == KeepExec:
		return bad(Invalid, "line %d of the patch: nothing is to change in %s; hunks begin with @@", f.Line, f.Path)
	}
	return nil
}

// check refuses hunks without change and "no newline" marks that cannot be.
func (h *Hunk) check() error {
	changes := false
	lastOld, lastNew := -1, -1
	for i, l := range h.Lines {
		changes = changes || l.Op != ' '
		if l.old() {
			lastOld = i
		}
		if l.new() {
			lastNew = i
		}
	}
	if !changes {
		return noChange(h.Line)
	}
	for i, l := range h.Lines {
		if l.NoEOL && (l.old() && i != lastOld || l.new() && i != lastNew) {
			return bad(Invalid, "line %d of the patch: the hunk says that the file has no newline at its end in the middle of the hunk", h.Line)
		}
	}
	return nil
}

func noChange(line int) error {
	return bad(Invalid, "line %d of the patch: the hunk adds and removes nothing; lines to add begin with + and lines to remove with -", line)
}

// oldLines are the lines that must stand in the file.
func (h *Hunk) oldLines() []Line {
	var out []Line
	for _, l := range h.Lines {
		if l.old() {
			out = append(out, l)
		}
	}
	return out
}

// atEnd reports whether the hunk can only be at the end of a file.
func (h *Hunk) atEnd() bool {
	return h.AtEnd || slices.ContainsFunc(h.Lines, func(l Line) bool { return l.NoEOL })
}
