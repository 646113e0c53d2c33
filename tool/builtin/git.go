package builtin

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

// Bounds of what git may take and say.
const (
	gitTimeout = 30 * time.Second // of all commands of a call together
	gitOutput  = 8 << 20          // bytes of a command's output that are read
	gitStderr  = 4 << 10
	maxFilters = 64
)

// repository runs git for one call. A repository's configuration can name programs for many occasions, and these tools
// are readonly: each occasion that a status or a diff can meet is switched off, so that nothing but git runs.
type repository struct {
	env    tool.Env
	execer sandbox.Execer
	// prefix is where the working directory lies in the repository, with a slash at its end, or empty.
	prefix string
	off    []string // options that switch off the filters of the configuration
}

// gitEnv keeps git from asking, paging, locking, fetching and reading what the machine's owner configured.
var gitEnv = map[string]string{
	"LC_ALL": "C", "LANGUAGE": "", "GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1",
	"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "", "GIT_PAGER": "cat", "PAGER": "cat", "GIT_EXTERNAL_DIFF": "",
	"GIT_LITERAL_PATHSPECS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_REPLACE_OBJECTS": "1",
}

var gitOptions = []string{
	"git", "--no-pager", "--no-optional-locks",
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat", "-c", "core.askPass=",
	"-c", "diff.external=", "-c", "core.quotePath=false", "-c", "status.submoduleSummary=false", "-c", "submodule.recurse=false",
	"-c", "safe.bareRepository=explicit", "-c", "protocol.allow=never",
}

// openRepository looks whether the working directory is in a repository and what its configuration has to be kept
// from. The returned context bounds all that follows.
func openRepository(ctx context.Context, env tool.Env, toolName string) (*repository, context.Context, context.CancelFunc, error) {
	execer, ok := env.Sandbox.(sandbox.Execer)
	if !ok {
		return nil, nil, nil, fail(tool.CodeUnavailable, "%s is not available: this session's sandbox runs no commands", toolName)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, gitTimeout, errGitTime)
	r := &repository{env: env, execer: execer}
	err := r.locate(ctx)
	if err == nil {
		err = r.disarm(ctx)
	}
	if err != nil {
		cancel()
		return nil, nil, nil, err
	}
	return r, ctx, cancel, nil
}

// errGitTime is why a call's commands end when their time is up.
var errGitTime = fail(tool.CodeTimeout, "git did not end within %s; the repository may be too large, use bash with git and a narrower path", gitTimeout)

var errNoTree = fail(tool.CodeNotFound, "the working directory is inside of a git directory, not of a working tree")

func (r *repository) locate(ctx context.Context) error {
	out, err := r.output(ctx, "rev-parse", "--is-inside-work-tree", "--show-prefix")
	if err != nil {
		return err
	}
	inside, prefix, _ := strings.Cut(string(out.data), "\n")
	if inside != "true" {
		return errNoTree
	}
	r.prefix = strings.TrimSuffix(prefix, "\n")
	return nil
}

// disarm finds the filters that the configuration names: programs that git runs over the content of files.
func (r *repository) disarm(ctx context.Context) error {
	out, err := r.output(ctx, "config", "--list", "--name-only", "-z")
	if err != nil {
		return err
	}
	if out.cut {
		return fail(tool.CodeTooLarge, "the repository's configuration is too large to be made safe; use bash with git")
	}
	var names []string
	for key := range strings.SplitSeq(string(out.data), "\x00") {
		rest, ok := strings.CutPrefix(key, "filter.")
		if !ok {
			continue
		}
		if i := strings.LastIndexByte(rest, '.'); i >= 0 && !slices.Contains(names, rest[:i]) {
			names = append(names, rest[:i])
		}
	}
	if len(names) > maxFilters {
		return fail(tool.CodePermissionDenied, "the repository's configuration has %d filters, too many to switch off; use bash with git", len(names))
	}
	for _, name := range names {
		if strings.ContainsAny(name, "=\n") {
			return fail(tool.CodePermissionDenied, "the repository's configuration has a filter named %s, which cannot be switched off; use bash with git", quote(clip(name, 64)))
		}
		for _, setting := range []string{"clean=", "smudge=", "process=", "required=false"} {
			r.off = append(r.off, "-c", "filter."+name+"."+setting)
		}
	}
	return nil
}

// gitOut is what a command wrote, up to the bound.
type gitOut struct {
	data []byte
	cut  bool
}

// output runs a command and gives its output.
func (r *repository) output(ctx context.Context, args ...string) (gitOut, error) {
	w := &boundedWriter{limit: gitOutput}
	if err := r.run(ctx, w, args...); err != nil {
		return gitOut{}, err
	}
	return gitOut{w.buf.Bytes(), w.cut}, nil
}

// run runs a command whose standard output goes to w. A failure of git is a failed.
func (r *repository) run(ctx context.Context, w io.Writer, args ...string) error {
	var stderr boundedWriter
	stderr.limit = gitStderr
	argv := slices.Concat(gitOptions, r.off, args)
	opts := sandbox.ExecOptions{Argv: argv, Dir: r.env.Dir, Env: gitEnv, Grace: bashGrace}
	exit, timedOut, err := foreground(ctx, r.execer, opts, gitTimeout, [2]io.Writer{streamStdout: w, streamStderr: &stderr})
	switch {
	case timedOut:
		return errGitTime
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return fail(tool.CodeUnavailable, "git is not installed where commands run")
	case err != nil:
		return startError(ctx, err)
	case exit.ExitCode != 0:
		return gitError(stderr.buf.String())
	}
	return nil
}

// gitError says what git said.
func gitError(stderr string) error {
	said, _ := decode(bytes.TrimSpace([]byte(stderr)))
	said = strings.TrimPrefix(said, "fatal: ")
	switch {
	case strings.Contains(said, "not a git repository"):
		return fail(tool.CodeNotFound, "the working directory is not in a git repository")
	case strings.Contains(said, "cannot use bare repository"):
		return errNoTree
	case strings.Contains(said, "dubious ownership"):
		return fail(tool.CodePermissionDenied, "git does not trust this repository, because another user owns it: %s", clip(said, 400))
	}
	return fail(tool.CodeFailed, "git failed: %s", clip(said, 1000))
}

// boundedWriter keeps the first bytes of what it is given.
type boundedWriter struct {
	limit int
	buf   bytes.Buffer
	cut   bool
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.limit-w.buf.Len())
	w.cut = w.cut || n < len(p)
	_, _ = w.buf.Write(p[:n])
	return len(p), nil
}

// gitPath is a path as JSON can hold it. Base64 has its bytes where they are not valid UTF-8.
type gitPath struct {
	Path   string `json:"path"`
	Base64 string `json:"path_base64,omitempty"`
}

// path shows a path of the repository relative to the working directory.
func (r *repository) path(raw string) gitPath { return pathOf(strings.TrimPrefix(raw, r.prefix)) }

func pathOf(raw string) gitPath {
	if utf8.ValidString(raw) {
		return gitPath{Path: raw}
	}
	shown, _ := decode([]byte(raw))
	return gitPath{Path: shown, Base64: base64.StdEncoding.EncodeToString([]byte(raw))}
}
