package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

//go:embed git_diff.md
var gitDiffDescription string

const gitDiffSchema = `{
  "type": "object",
  "properties": {
    "staged": {"type": "boolean"},
    "path": {"type": "string", "description": "One file or directory."},
    "base": {"type": "string", "description": "Commit, branch or tag."},
    "stat": {"type": "boolean", "description": "Only the numbers of lines."},
    "max_bytes": {"type": "integer", "minimum": 1024, "maximum": 16384, "description": "Of the diff shown, default 16384; the whole is kept as an artifact."}
  },
  "additionalProperties": false
}`

type gitDiffArgs struct {
	Staged   bool    `json:"staged"`
	Path     string  `json:"path"`
	Base     string  `json:"base"`
	Stat     bool    `json:"stat"`
	MaxBytes integer `json:"max_bytes"`
}

type gitDiffResult struct {
	Base       string     `json:"base,omitempty"`
	Staged     bool       `json:"staged,omitempty"`
	Files      []diffStat `json:"files"`
	MoreFiles  int        `json:"more_files,omitempty"`
	Diff       string     `json:"diff,omitempty"`
	Truncated  bool       `json:"truncated,omitempty"`
	TotalBytes int64      `json:"total_bytes,omitempty"`
	Artifact   string     `json:"artifact,omitempty"`
	Invalid    bool       `json:"invalid_utf8,omitempty"`
}

// diffStat is how much of a file changed. Of a binary file no lines are counted.
type diffStat struct {
	gitPath
	From    *gitPath `json:"from,omitempty"`
	Added   int      `json:"added"`
	Deleted int      `json:"deleted"`
	Binary  bool     `json:"binary,omitempty"`
}

func gitDiffTool() *tool.Tool {
	return define(tool.Definition{
		Name: "git_diff", Description: gitDiffDescription, Schema: json.RawMessage(gitDiffSchema),
		Kind: tool.KindReadonly, Parallel: true, Tags: []string{"git", "changes"},
	}, runGitDiff)
}

func runGitDiff(ctx context.Context, env tool.Env, args gitDiffArgs) (tool.Result, error) {
	pathspec, err := args.pathspec(ctx, env)
	if err == nil {
		err = checkRevision(args.Base)
	}
	if err != nil {
		return outcome(err)
	}
	r, ctx, cancel, err := openRepository(ctx, env, "git_diff")
	if err != nil {
		return outcome(err)
	}
	defer cancel()
	command := []string{
		"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--find-renames", "--relative", "--unified=3",
		"--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=dirty",
	}
	if args.Staged {
		command = append(command, "--cached")
	}
	out := gitDiffResult{Staged: args.Staged, Files: []diffStat{}}
	var tail []string
	if args.Base != "" {
		if out.Base, err = r.commit(ctx, args.Base); err != nil {
			return outcome(err)
		}
		tail = append(tail, out.Base)
	}
	tail = append(tail, "--", pathspec)
	stats, err := r.output(ctx, slices.Concat(command, []string{"--numstat", "-z"}, tail)...)
	if err != nil {
		return outcome(err)
	}
	parseStats(&out, string(stats.data))
	out.Truncated = out.MoreFiles > 0 || stats.cut
	if args.Stat || len(out.Files) == 0 {
		return gitDiffOutcome(out)
	}
	return r.diff(ctx, out, slices.Concat(command, []string{"--patch"}, tail), int(args.MaxBytes))
}

func gitDiffOutcome(out gitDiffResult) (tool.Result, error) {
	res, err := tool.JSONResult(out)
	res.Truncated, res.Artifact = out.Truncated, out.Artifact
	return res, err
}

// diff runs the command and adds what it says to the result, within the bound; the whole becomes an artifact.
func (r *repository) diff(ctx context.Context, out gitDiffResult, command []string, limit int) (tool.Result, error) {
	quiet := r.env
	quiet.Output = nil
	c := newCollector(ctx, quiet)
	if err := r.run(ctx, c.stream(streamStdout), command...); err != nil {
		c.discard()
		return outcome(err)
	}
	got := c.finish()
	if limit > 0 && len(got.text) > limit {
		got = c.shorter(got, limit)
	}
	for limit = outputCap; ; {
		out.Diff, out.Artifact, out.Invalid = got.text, got.artifact, got.invalid
		if got.truncated || got.binary {
			out.Truncated, out.TotalBytes = true, got.total
		}
		res, err := gitDiffOutcome(out)
		if err != nil || len(res.Output) <= outputHard || limit <= 2*markerRoom {
			return res, err
		}
		limit /= 2
		got = c.shorter(got, limit)
	}
}

// pathspec is the argument path as git takes it, relative to the working directory; it may be of a file that is gone.
func (a gitDiffArgs) pathspec(ctx context.Context, env tool.Env) (string, error) {
	if a.Path == "" {
		return ".", nil
	}
	if err := checkPath("path", a.Path); err != nil {
		return "", err
	}
	shown := path.Clean(a.Path)
	if files, ok := env.Sandbox.(sandbox.Files); ok {
		shown = files.Display(a.Path)
		// A path that leads out is refused; a deleted file has a diff.
		if _, err := files.Stat(ctx, a.Path); err != nil {
			if f, ok := fileError(ctx, "path", a.Path, err).(*failed); !ok || f.code != tool.CodeNotFound {
				return "", fileError(ctx, "path", a.Path, err)
			}
		}
	}
	if path.IsAbs(shown) || shown == ".." || strings.HasPrefix(shown, "../") {
		return "", fail(tool.CodePermissionDenied, "argument path: %s leads out of the workspace; use a path inside it", a.Path)
	}
	return shown, nil
}

// checkRevision refuses what cannot be the name of a commit, above all what git would take for an option.
func checkRevision(rev string) error {
	switch {
	case strings.HasPrefix(rev, "-"):
		return fail(tool.CodeInvalidArguments, "argument base begins with a dash: give a commit, branch or tag")
	case len(rev) > 256:
		return fail(tool.CodeInvalidArguments, "argument base has %d characters: give a commit, branch or tag", len(rev))
	case strings.Contains(rev, ".."):
		return fail(tool.CodeInvalidArguments, "argument base names a range: give one commit; the other side is the working tree, or with staged the index")
	}
	for _, c := range rev {
		if unicode.IsControl(c) || unicode.IsSpace(c) || strings.ContainsRune(`:?*[\`, c) {
			return fail(tool.CodeInvalidArguments, "argument base contains %q, which no name of a commit has", c)
		}
	}
	return nil
}

// commit finds the commit that a name means.
func (r *repository) commit(ctx context.Context, rev string) (string, error) {
	out, err := r.output(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{commit}")
	if f, ok := err.(*failed); ok && f.code == tool.CodeFailed {
		return "", fail(tool.CodeNotFound, "argument base: the repository has no commit %s", quote(rev))
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out.data))
	id = id[strings.LastIndexByte(id, '\n')+1:] // some versions repeat --end-of-options first
	if len(id) < 40 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", fail(tool.CodeFailed, "argument base: git gave no commit for %s", quote(rev))
	}
	return id, nil
}

// parseStats reads "added\tdeleted\tpath" records with NUL between them; of a renamed file both names follow. The paths
// are relative to the working directory.
func parseStats(out *gitDiffResult, data string) {
	records := strings.Split(data, "\x00")
	room := maxStatusPaths
	for i := 0; i+1 < len(records); i++ {
		parts := strings.SplitN(records[i], "\t", 3)
		if len(parts) != 3 {
			continue
		}
		name, from := parts[2], ""
		if name == "" {
			if i+3 >= len(records) {
				return
			}
			from, name = records[i+1], records[i+2]
			i += 2
		}
		if room -= len(name) + len(from); len(out.Files) >= maxStatusEntries || room < 0 {
			out.MoreFiles++
			continue
		}
		s := diffStat{gitPath: pathOf(name), Binary: parts[0] == "-"}
		s.Added, _ = strconv.Atoi(parts[0]) // "-" of a binary file counts none
		s.Deleted, _ = strconv.Atoi(parts[1])
		if from != "" {
			f := pathOf(from)
			s.From = &f
		}
		out.Files = append(out.Files, s)
	}
}
