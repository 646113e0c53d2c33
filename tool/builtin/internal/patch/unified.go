package patch

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

const devNull = "/dev/null"

// section is the part of a unified diff that is about one file.
type section struct {
	line     int
	git      string   // its "diff --git" line
	extended []string // the lines of git's extended header
	// old and new are the names of the "---" and "+++" lines.
	named    bool
	old, new string
	hunks    []rawHunk
}

// rawHunk is a hunk's body as it stands in the patch.
type rawHunk struct {
	line int
	body []string
}

// parseUnified splits a diff into its sections. What git's own format means (names, quoting, modes, renames) is read by
// gitdiff, from each section in its strict form: with prefixes, and with hunk headers whose counts are true. Models
// often write neither, and a parser that trusts counts would drop lines.
func parseUnified(lines []string, path string) ([]File, error) {
	var sections []*section
	var cur *section
	open := func(s *section) *section {
		sections = append(sections, s)
		return s
	}
	for i := 0; i < len(lines); {
		l := lines[i]
		switch {
		case strings.HasPrefix(l, "diff --git "):
			cur = open(&section{line: i + 1, git: l})
			for i++; i < len(lines) && isExtended(lines[i]); i++ {
				cur.extended = append(cur.extended, lines[i])
			}
		case isNames(lines, i):
			before, after, err := names(l[4:], lines[i+1][4:])
			if err != nil {
				return nil, bad(Invalid, "line %d of the patch: %s", i+1, err)
			}
			if cur == nil || cur.named || len(cur.hunks) > 0 || !about(cur.git, before, after) {
				cur = open(&section{line: i + 1})
			}
			cur.named, cur.old, cur.new = true, before, after
			i += 2
		case strings.HasPrefix(l, "@@"):
			if cur == nil {
				if path == "" {
					return nil, bad(Invalid, `line %d of the patch: the hunk stands under no file; begin with "--- a/<path>" and "+++ b/<path>", or give path`, i+1)
				}
				cur = open(&section{line: i + 1, named: true, old: path, new: path})
			}
			h, next, err := readHunk(lines, i)
			if err != nil {
				return nil, err
			}
			cur.hunks = append(cur.hunks, h)
			i = next
		case l == "GIT binary patch", strings.HasPrefix(l, "Binary files "):
			return nil, bad(Invalid, "line %d of the patch: binary files cannot be patched", i+1)
		case cur != nil && l != "" && strings.ContainsRune(" +-", rune(l[0])) && !isSignature(lines, i):
			return nil, bad(Invalid, "line %d of the patch (%s) stands in no hunk; a hunk begins with @@", i+1, quote(l))
		default:
			i++ // text between the parts: a commit message, an index line, a signature
		}
	}
	var files []File
	for _, s := range sections {
		f, err := s.file()
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

var extendedHeaders = []string{
	"old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ", "rename from ", "rename to ",
	"similarity index ", "dissimilarity index ", "index ",
}

func isExtended(l string) bool {
	for _, p := range extendedHeaders {
		if strings.HasPrefix(l, p) {
			return true
		}
	}
	return false
}

func isNames(lines []string, i int) bool {
	return strings.HasPrefix(lines[i], "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ ")
}

// isSignature finds the mail signature at the end of what git format-patch writes.
func isSignature(lines []string, i int) bool {
	return lines[i] == "-- " && len(lines)-i <= 3
}

// names reads the names of a "---" and a "+++" line. The prefixes a/ and b/ are taken off only as a pair.
func names(oldToken, newToken string) (before, after string, err error) {
	if before, err = name(oldToken); err != nil {
		return "", "", err
	}
	if after, err = name(newToken); err != nil {
		return "", "", err
	}
	a, isA := strings.CutPrefix(before, "a/")
	b, isB := strings.CutPrefix(after, "b/")
	switch {
	case before == devNull && after == devNull:
		return "", "", fmt.Errorf("both names are %s", devNull)
	case isA && isB:
		return a, b, nil
	case isA && after == devNull:
		return a, after, nil
	case before == devNull && isB:
		return before, b, nil
	}
	return before, after, nil
}

// about reports whether a "diff --git" line is of the file with these names. If it is not, they belong to a part of
// their own, and the part before has no hunks.
func about(git, before, after string) bool {
	last := after
	if after == devNull {
		last = before
	}
	if strings.HasSuffix(git, `"`) {
		if at := strings.LastIndex(git, ` "`); at > 0 {
			unquoted, err := strconv.Unquote(git[at+1:])
			return err == nil && (unquoted == last || unquoted == "b/"+last)
		}
	}
	return strings.HasSuffix(git, " b/"+last) || strings.HasSuffix(git, " "+last)
}

func name(token string) (string, error) {
	if strings.HasPrefix(token, `"`) {
		quoted, err := strconv.QuotedPrefix(token)
		if err == nil {
			token, err = strconv.Unquote(quoted)
		}
		if err != nil {
			return "", fmt.Errorf("the quoted name %s cannot be read", quote(token))
		}
		return token, nil
	}
	token, _, _ = strings.Cut(token, "\t")
	token = strings.TrimRight(token, " \r")
	if token == "" {
		return "", fmt.Errorf("the name is empty")
	}
	return token, nil
}

var hunkHeader = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`) })

// readHunk collects the body of the hunk whose header is line at, and returns where it ends. The counts of the header
// help only where a line could be both a part of the hunk and the next header.
func readHunk(lines []string, at int) (h rawHunk, next int, err error) {
	h.line = at + 1
	wantOld, wantNew, counted := counts(lines[at])
	before, after := 0, 0
	i := at + 1
	for ; i < len(lines); i++ {
		l := lines[i]
		full := counted && before == wantOld && after == wantNew
		if ends(l) || full && (isSignature(lines, i) || onlyBlank(lines[i:])) {
			break
		}
		if isNames(lines, i) {
			inside := counted && before < wantOld && after < wantNew
			if i+2 < len(lines) && strings.HasPrefix(lines[i+2], "@@") {
				inside = counted && before+1 == wantOld && after+1 == wantNew
			}
			if !inside {
				break
			}
		}
		op := byte(' ')
		if l != "" {
			op = l[0]
		}
		switch op {
		case ' ':
			before++
			after++
		case '-':
			before++
		case '+':
			after++
		case '\\':
			if len(h.body) == 0 {
				return h, i, bad(Invalid, "line %d of the patch: the mark for a missing newline follows no line", i+1)
			}
		default:
			if full {
				return h, i, nil
			}
			return h, i, bad(Invalid, `line %d of the patch (%s) begins with none of " ", "+" and "-"; lines that stay begin with a space`, i+1, quote(l))
		}
		h.body = append(h.body, l)
	}
	if !counted || before != wantOld || after != wantNew {
		// Empty lines before the next header separate; they are context only where the counts say so.
		for len(h.body) > 0 && h.body[len(h.body)-1] == "" {
			h.body = h.body[:len(h.body)-1]
		}
	}
	if len(h.body) == 0 {
		return h, i, bad(Invalid, "line %d of the patch: the hunk is empty", h.line)
	}
	if !slices.ContainsFunc(h.body, func(l string) bool { return l != "" && (l[0] == '+' || l[0] == '-') }) {
		return h, i, noChange(h.line)
	}
	return h, i, nil
}

func counts(header string) (before, after int, ok bool) {
	m := hunkHeader().FindStringSubmatch(header)
	if m == nil {
		return 0, 0, false
	}
	n := [2]int{1, 1}
	for i, s := range m[1:] {
		if s == "" {
			continue
		}
		var err error
		if n[i], err = strconv.Atoi(s); err != nil {
			return 0, 0, false
		}
	}
	return n[0], n[1], true
}

// ends reports whether a line can only be the beginning of something new.
func ends(l string) bool {
	for _, p := range []string{"@@", "diff --git ", "Index: ", "*** ", "```", "From "} {
		if strings.HasPrefix(l, p) {
			return true
		}
	}
	return false
}

func onlyBlank(lines []string) bool {
	for _, l := range lines {
		switch {
		case ends(l):
			return true
		case l != "":
			return false
		}
	}
	return true
}

// strict is the section as git would have written it. Where the section has names of its own they are not told again:
// git's form takes off the first folder of a name, whatever it is.
func (s *section) strict() string {
	var b strings.Builder
	if s.named {
		b.WriteString("diff --git a/f b/f\n")
	} else {
		b.WriteString(s.git + "\n")
	}
	for _, l := range s.extended {
		if !strings.Contains(l, "index ") || indexWithMode().MatchString(l) {
			b.WriteString(l + "\n")
		}
	}
	for _, h := range s.hunks {
		before, after := 0, 0
		for _, l := range h.body {
			switch {
			case l == "" || l[0] == ' ':
				before++
				after++
			case l[0] == '-':
				before++
			case l[0] == '+':
				after++
			}
		}
		fmt.Fprintf(&b, "@@ -1,%d +1,%d @@\n", before, after)
		for _, l := range h.body {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

// indexWithMode is the only line with hashes or similarities that says something to us.
var indexWithMode = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^index [0-9a-f]+\.\.[0-9a-f]+ [0-7]{6}$`) })

// file reads the section.
func (s *section) file() (File, error) {
	parsed, _, err := gitdiff.Parse(strings.NewReader(s.strict()))
	if err != nil || len(parsed) != 1 {
		return File{}, bad(Invalid, "line %d of the patch: this part cannot be read%s", s.line, detail(err))
	}
	g := parsed[0]
	f := File{Op: Modify, Line: s.line}
	before, after := g.OldName, g.NewName
	if s.named {
		before, after = s.old, s.new
	} else if !prefixed(s.git) {
		return File{}, bad(Invalid, `line %d of the patch: write the names of this line as "diff --git a/<path> b/<path>"`, s.line)
	}
	f.Path = after
	switch {
	case len(g.TextFragments) != len(s.hunks):
		return File{}, bad(Invalid, "line %d of the patch: its hunks cannot be read", s.line)
	case g.IsNew || before == devNull:
		f.Op = Create
	case g.IsDelete || after == devNull:
		f.Op, f.Path, f.Shown = Delete, before, true
	case g.IsRename, g.IsCopy:
		f.Op, f.From = Rename, before
		if g.IsCopy {
			f.Op = Copy
		}
		if g.OldName != before || g.NewName != after {
			return File{}, bad(Invalid, "line %d of the patch: the %s is from %s to %s and the names under it are %s and %s", s.line, f.Op, g.OldName, g.NewName, before, after)
		}
		if before == after {
			return File{}, bad(Invalid, "line %d of the patch: both names of the %s are %s", s.line, f.Op, before)
		}
	case before != after:
		return File{}, bad(Invalid, `line %d of the patch: the names %s and %s differ; a renamed file has "rename from" and "rename to" under "diff --git"`, s.line, before, after)
	}
	if f.Exec, err = exec(uint32(g.OldMode), uint32(g.NewMode), f.Op); err != nil {
		return File{}, bad(Invalid, "line %d of the patch: %s: %s", s.line, f.Path, err)
	}
	for i, t := range g.TextFragments {
		h := Hunk{Line: s.hunks[i].line}
		for _, l := range t.Lines {
			text, hasEOL := strings.CutSuffix(l.Line, "\n")
			h.Lines = append(h.Lines, Line{Op: l.Op.String()[0], Text: text, NoEOL: !hasEOL})
		}
		f.Hunks = append(f.Hunks, h)
	}
	return f, nil
}

// prefixed reports whether the names of a "diff --git" line have the prefixes that gitdiff takes off unseen.
func prefixed(l string) bool {
	l = strings.TrimPrefix(l, "diff --git ")
	return (strings.HasPrefix(l, "a/") || strings.HasPrefix(l, `"a/`)) && (strings.Contains(l, " b/") || strings.Contains(l, ` "b/`))
}

const (
	typeMask    = 0o170000
	typeRegular = 0o100000
	typeLink    = 0o120000
	typeModule  = 0o160000
)

// exec reads the mode lines.
func exec(before, after uint32, op Op) (Exec, error) {
	for _, m := range []uint32{before, after} {
		switch t := m & typeMask; {
		case m == 0 || t == typeRegular:
		case t == typeLink:
			return 0, fmt.Errorf("symbolic links cannot be patched; make them with bash")
		case t == typeModule:
			return 0, fmt.Errorf("submodules cannot be patched; change them with bash")
		default:
			return 0, fmt.Errorf("the mode %o is not the mode of a file", m)
		}
	}
	switch {
	case after == 0 || op == Delete:
		return KeepExec, nil
	case after&0o111 != 0:
		return SetExec, nil
	case op == Create:
		return KeepExec, nil
	}
	return ClearExec, nil
}

func detail(err error) string {
	if err == nil {
		return ""
	}
	// The line numbers are those of a text that nobody has seen.
	s := strings.TrimPrefix(err.Error(), "gitdiff: ")
	if rest, ok := strings.CutPrefix(s, "line "); ok {
		if _, after, ok := strings.Cut(rest, ": "); ok {
			s = after
		}
	}
	return ": " + s
}

// quote shows a line in a message.
func quote(l string) string {
	const most = 120
	if len(l) > most {
		l = strings.ToValidUTF8(l[:most], "") + "…"
	}
	return strconv.Quote(l)
}
