package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/harness-go/harness/tool"
)

//go:embed glob.md
var globDescription string

const globSchema = `{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "description": "E.g. **/*.go or cmd/{a,b}/*.md, relative to path."},
    "path": {"type": "string", "description": "Directory, default: the workspace."}
  },
  "required": ["pattern"],
  "additionalProperties": false
}`

const maxGlob = 100

type globArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

type globResult struct {
	Pattern   string   `json:"pattern"`
	Path      string   `json:"path"`
	Matches   []string `json:"matches"`
	Total     int      `json:"total"`
	Truncated bool     `json:"truncated"`
	Note      string   `json:"note,omitempty"`
}

func globTool() *tool.Tool {
	return define(tool.Definition{
		Name: "glob", Description: globDescription, Schema: json.RawMessage(globSchema),
		Kind: tool.KindReadonly, Parallel: true, Tags: []string{"file", "find"},
	}, runGlob)
}

func runGlob(ctx context.Context, env tool.Env, args globArgs) (tool.Result, error) {
	files, err := filesOf(env, "glob")
	if err != nil {
		return outcome(err)
	}
	root, pattern := args.Path, args.Pattern
	if root == "" {
		root = "."
	}
	if err := checkPath("path", root); err != nil {
		return outcome(err)
	}
	if !doublestar.ValidatePattern(pattern) {
		return tool.Failure(tool.CodeInvalidArguments, "argument pattern: %s is not a valid pattern; check its brackets and braces", quote(clip(pattern, 200))), nil
	}
	// The part without wildcards is the place to start from; what comes before it need not be walked.
	base, rest := doublestar.SplitPattern(pattern)
	if path.IsAbs(pattern) {
		if args.Path != "" {
			return tool.Failure(tool.CodeInvalidArguments, "argument pattern is absolute, so argument path has no meaning: give one of them"), nil
		}
		root = base
	} else {
		root = path.Join(root, base)
	}
	if err := checkPath("pattern", root); err != nil {
		return outcome(err)
	}

	type match struct {
		path string
		time time.Time
	}
	var found []match
	total := 0
	byAge := func(a, b match) int { return cmp.Or(b.time.Compare(a.time), cmp.Compare(a.path, b.path)) }
	err = walkFiles(ctx, files, root, func(shown, rel string, d fs.DirEntry) error {
		if !doublestar.MatchUnvalidated(rest, rel) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil // it went away meanwhile
		}
		total++
		found = append(found, match{shown, info.ModTime()})
		if len(found) >= 4*maxGlob { // keep the newest only
			slices.SortFunc(found, byAge)
			found = found[:maxGlob]
		}
		return nil
	})
	out := globResult{Pattern: pattern, Path: files.Display(root), Matches: []string{}, Total: total}
	switch {
	case errors.Is(err, errWalkBound):
		out.Truncated, out.Note = true, err.Error()
	case errors.Is(err, fs.ErrNotExist) && base != "." && ctx.Err() == nil: // the pattern's own directory: it matches nothing
		out.Note = root + " does not exist"
	case err != nil:
		return outcome(fileError(ctx, "path", root, err))
	}
	slices.SortFunc(found, byAge)
	if len(found) > maxGlob {
		found = found[:maxGlob]
	}
	for _, m := range found {
		out.Matches = append(out.Matches, m.path)
	}
	if total > len(found) {
		out.Truncated = true
	}
	if total == 0 && out.Note == "" && !strings.Contains(pattern, "/") {
		out.Note = "without a slash the pattern matches in " + out.Path + " only; **/" + pattern + " looks below it too"
	}
	res, err := tool.JSONResult(out)
	res.Truncated = out.Truncated
	return res, err
}
