package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

//go:embed grep.md
var grepDescription string

const grepSchema = `{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "description": "Regular expression (RE2), matched in each line."},
    "path": {"type": "string", "description": "File or directory, default: the workspace."},
    "include": {"type": "string", "description": "Only files like this, e.g. *.go or cmd/**/*.go."},
    "case_insensitive": {"type": "boolean"},
    "context": {"type": "integer", "minimum": 0, "maximum": 10, "description": "Lines before and after."},
    "max_results": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Default 100."}
  },
  "required": ["pattern"],
  "additionalProperties": false
}`

// Bounds of grep, in bytes.
const (
	grepFile    = 10 << 20 // larger files are not searched
	grepLine    = 400      // of a line that is shown
	grepOutput  = 48 << 10 // of all lines that are shown
	grepResults = 100
)

type grepArgs struct {
	Pattern         string  `json:"pattern"`
	Path            string  `json:"path"`
	Include         string  `json:"include"`
	CaseInsensitive bool    `json:"case_insensitive"`
	Context         integer `json:"context"`
	MaxResults      integer `json:"max_results"`
}

type grepMatch struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`
	Text   string   `json:"text"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

type grepResult struct {
	Pattern       string      `json:"pattern"`
	Path          string      `json:"path"`
	Matches       []grepMatch `json:"matches"`
	FilesSearched int         `json:"files_searched"`
	SkippedLarge  int         `json:"skipped_large,omitempty"`
	Truncated     bool        `json:"truncated"`
	Note          string      `json:"note,omitempty"`
}

func grepTool() *tool.Tool {
	return define(tool.Definition{
		Name: "grep", Description: grepDescription, Schema: json.RawMessage(grepSchema),
		Kind: tool.KindReadonly, Parallel: true, Tags: []string{"search", "regexp"},
	}, runGrep)
}

func runGrep(ctx context.Context, env tool.Env, args grepArgs) (tool.Result, error) {
	files, err := filesOf(env, "grep")
	if err != nil {
		return outcome(err)
	}
	root := args.Path
	if root == "" {
		root = "."
	}
	if err := checkPath("path", root); err != nil {
		return outcome(err)
	}
	flags := "(?m)"
	if args.CaseInsensitive {
		flags = "(?mi)"
	}
	re, err := regexp.Compile(flags + args.Pattern)
	if err != nil {
		return tool.Failure(tool.CodeInvalidArguments, "argument pattern: %s; it is RE2 syntax, and plain text needs a backslash before .*+?()[]{}|^$", reSyntax(err)), nil
	}
	if args.Include != "" && !doublestar.ValidatePattern(args.Include) {
		return tool.Failure(tool.CodeInvalidArguments, "argument include: %s is not a valid pattern", quote(clip(args.Include, 200))), nil
	}
	s := searcher{re: re, context: int(args.Context), max: int(args.MaxResults)}
	if s.max == 0 {
		s.max = grepResults
	}
	s.out = grepResult{Pattern: args.Pattern, Path: files.Display(root), Matches: []grepMatch{}}

	info, err := files.Stat(ctx, root)
	if err != nil {
		return outcome(fileError(ctx, "path", root, err))
	}
	if info.IsDir() {
		err = walkFiles(ctx, files, root, func(shown, rel string, _ fs.DirEntry) error {
			if args.Include != "" && !includes(args.Include, rel) {
				return nil
			}
			return s.file(ctx, files, shown)
		})
	} else {
		err = s.file(ctx, files, s.out.Path)
	}
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, context.Cause(ctx)
	case errors.Is(err, errEnough):
		s.out.Truncated, s.out.Note = true, "there are more matches: narrow the pattern, the path or include"
	case errors.Is(err, errWalkBound):
		s.out.Truncated, s.out.Note = true, err.Error()
	case err != nil:
		return outcome(fileError(ctx, "path", root, err))
	}
	res, err := tool.JSONResult(s.out)
	res.Truncated = s.out.Truncated
	return res, err
}

// reSyntax is the validator's message without the flags that were added.
func reSyntax(err error) string {
	return strings.TrimPrefix(err.Error(), "error parsing regexp: ")
}

// includes matches a pattern without a slash against the file's name, as others do.
func includes(pattern, rel string) bool {
	if !strings.Contains(pattern, "/") {
		rel = path.Base(rel)
	}
	return doublestar.MatchUnvalidated(pattern, rel)
}

var errEnough = errors.New("enough matches")

type searcher struct {
	re      *regexp.Regexp
	context int
	max     int
	buf     bytes.Buffer
	shown   int // bytes of lines
	out     grepResult
}

// file searches one file. A file that cannot be read is left out, as one that is not there.
func (s *searcher) file(ctx context.Context, files sandbox.Files, shown string) error {
	f, err := files.Open(ctx, shown)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, sandbox.ErrEnded) {
			return err
		}
		return nil
	}
	defer func() { _ = f.Close() }()
	s.buf.Reset()
	if _, err := s.buf.ReadFrom(io.LimitReader(f, grepFile+1)); err != nil {
		return nil
	}
	if s.buf.Len() > grepFile {
		s.out.SkippedLarge++
		return nil
	}
	data := s.buf.Bytes()
	if looksBinary(data[:min(len(data), sniffLen)]) {
		return nil
	}
	s.out.FilesSearched++
	if len(data) == 0 {
		return nil
	}
	return s.search(shown, data)
}

// search runs the expression over the whole text, which is fast where nothing matches, and then over the line alone,
// because a match must lie within one line.
func (s *searcher) search(shown string, data []byte) error {
	line, counted := 1, 0
	data = bytes.TrimSuffix(data, []byte{'\n'}) // what follows the last newline is no line
	for at := 0; at <= len(data); {
		loc := s.re.FindIndex(data[at:])
		if loc == nil {
			return nil
		}
		start := bytes.LastIndexByte(data[:at+loc[0]], '\n') + 1
		end := lineEnd(data, start)
		if m := s.re.FindIndex(data[start:end]); m != nil {
			line += bytes.Count(data[counted:start], []byte{'\n'})
			counted = start
			if err := s.add(shown, data, line, start, end, m); err != nil {
				return err
			}
		}
		at = end + 1
	}
	return nil
}

func (s *searcher) add(shown string, data []byte, line, start, end int, m []int) error {
	if len(s.out.Matches) >= s.max || s.shown > grepOutput {
		return errEnough
	}
	g := grepMatch{Path: shown, Line: line, Text: excerpt(data[start:end], m)}
	s.shown += len(g.Text) + len(shown)
	for from := start; len(g.Before) < s.context && from > 0; {
		to := from - 1
		from = bytes.LastIndexByte(data[:to], '\n') + 1
		g.Before = append([]string{excerpt(data[from:to], nil)}, g.Before...)
		s.shown += to - from
	}
	for to := end; len(g.After) < s.context && to+1 < len(data); {
		from := to + 1
		to = lineEnd(data, from)
		g.After = append(g.After, excerpt(data[from:to], nil))
		s.shown += min(to-from, grepLine)
	}
	s.out.Matches = append(s.out.Matches, g)
	return nil
}

func lineEnd(data []byte, from int) int {
	if i := bytes.IndexByte(data[from:], '\n'); i >= 0 {
		return from + i
	}
	return len(data)
}

// excerpt is a line as it is shown: without its CR, and of a long one the part around the match.
func excerpt(line []byte, m []int) string {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	from, to := 0, len(line)
	if len(line) > grepLine {
		if m != nil {
			from = runeBefore(line, max(0, min(m[0]-grepLine/4, len(line)-grepLine)))
		}
		to = runeBefore(line, min(from+grepLine, len(line)))
	}
	text, _ := decode(line[from:to])
	if from > 0 {
		text = "…" + text
	}
	if to < len(line) {
		text += "…"
	}
	return text
}
