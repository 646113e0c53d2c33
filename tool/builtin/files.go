package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

// maxWhole bounds, in bytes, the files that edit and append hold in memory.
const maxWhole = 64 << 20

// failed is a tool.Failure on its way up through functions that return an error.
type failed struct{ code, message string }

func (f *failed) Error() string { return f.message }

func fail(code, format string, args ...any) error {
	return &failed{code, fmt.Sprintf(format, args...)}
}

// outcome turns an error into what a body returns: a failed becomes its result, any other stays an error.
func outcome(err error) (tool.Result, error) {
	if f, ok := errors.AsType[*failed](err); ok {
		return tool.Failure(f.code, "%s", f.message), nil
	}
	return tool.Result{}, err
}

// filesOf gives the sandbox's files.
func filesOf(env tool.Env, toolName string) (sandbox.Files, error) {
	files, ok := env.Sandbox.(sandbox.Files)
	if !ok {
		return nil, fail(tool.CodeUnavailable, "%s is not available: this session's sandbox gives no access to files", toolName)
	}
	return files, nil
}

// checkPath refuses what cannot be a path anywhere, before the sandbox sees it.
func checkPath(arg, path string) error {
	switch {
	case path == "":
		return fail(tool.CodeInvalidArguments, "argument %s is missing: give the path of a file", arg)
	case strings.ContainsRune(path, 0):
		return fail(tool.CodeInvalidArguments, "argument %s contains a NUL character: give a plain path", arg)
	case !utf8.ValidString(path):
		return fail(tool.CodeInvalidArguments, "argument %s is not valid UTF-8", arg)
	case len(path) > 4096:
		return fail(tool.CodeInvalidArguments, "argument %s is longer than 4096 bytes: use a relative path", arg)
	}
	for name := range strings.SplitSeq(path, "/") {
		if len(name) > 255 {
			return fail(tool.CodeInvalidArguments, "argument %s has a name of %d bytes; names have at most 255", arg, len(name))
		}
	}
	return nil
}

// fileError says what went wrong with a file. An end of the context or of the sandbox is for the harness.
func fileError(ctx context.Context, arg, path string, err error) error {
	if f, ok := errors.AsType[*failed](err); ok {
		return f
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, sandbox.ErrEnded):
		return err
	case errors.Is(err, sandbox.ErrOutside):
		return fail(tool.CodePermissionDenied, "argument %s: %s leads out of the workspace; use a path inside it", arg, path)
	case errors.Is(err, fs.ErrNotExist):
		return fail(tool.CodeNotFound, "argument %s: %s does not exist; look with ls or glob", arg, path)
	case errors.Is(err, sandbox.ErrNotRegular), errors.Is(err, syscall.EISDIR):
		return fail(tool.CodeInvalidArguments, "argument %s: %s is not a regular file; list directories with ls", arg, path)
	case errors.Is(err, syscall.ENOTDIR):
		return fail(tool.CodeInvalidArguments, "argument %s: a part of %s is a file, not a directory", arg, path)
	case errors.Is(err, syscall.ELOOP):
		return fail(tool.CodePermissionDenied, "argument %s: %s passes a symbolic link that is not followed", arg, path)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fail(tool.CodeInvalidArguments, "argument %s: %s is too long a path", arg, path)
	case errors.Is(err, fs.ErrInvalid):
		return fail(tool.CodeInvalidArguments, "argument %s: %s: %s", arg, clip(path, 120), reason(err))
	case errors.Is(err, fs.ErrPermission):
		return fail(tool.CodePermissionDenied, "argument %s: no permission for %s", arg, path)
	}
	return fail(tool.CodeFailed, "argument %s: %s: %s", arg, path, reason(err))
}

// reason is the innermost cause: the layers around it name operations and host paths that say nothing to a model.
func reason(err error) string {
	for {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
			continue
		}
		return err.Error()
	}
}

// content is an existing file's content and version. With tooBig, data is nil.
type content struct {
	data    []byte
	size    int64
	version string // empty when the file is larger than sandbox.MaxFileSize
	tooBig  bool
}

// load reads a file of at most limit bytes; of a larger one it only finds the version.
func load(ctx context.Context, files sandbox.Files, path string, limit int64) (content, error) {
	f, err := files.Open(ctx, path)
	if err != nil {
		return content{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return content{}, err
	}
	if int64(len(data)) <= limit {
		return content{data: data, size: int64(len(data)), version: sandbox.Version(data)}, nil
	}
	h := newVersionHash()
	_, _ = h.Write(data)
	n, err := io.Copy(h, &ctxReader{ctx, io.LimitReader(f, sandbox.MaxFileSize-int64(len(data))+1)})
	if err != nil {
		return content{}, err
	}
	c := content{size: int64(len(data)) + n, tooBig: true}
	if c.size <= sandbox.MaxFileSize {
		c.version = h.version()
	}
	return c, nil
}

// ctxReader ends a long read when the context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *ctxReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// versionHash finds sandbox.Version of a stream.
type versionHash struct{ hash.Hash }

func newVersionHash() versionHash { return versionHash{sha256.New()} }

func (h versionHash) version() string { return hex.EncodeToString(h.Sum(nil)[:8]) }
func (h versionHash) sha256() string  { return hex.EncodeToString(h.Sum(nil)) }

// staleError tells that a file is not what the model saw.
func staleError(path, then, now string) error {
	if now == "" {
		now = "of another content"
	}
	return fail(tool.CodeStale, "%s changed since it was read: its version was %s then and is %s now; read it again and apply your change to its new content", path, then, now)
}

// saw records a version that the session knows now, and the result's copy of it.
func saw(env tool.Env, res *tool.Result, path, version string) {
	if version == "" {
		return
	}
	if env.Versions != nil {
		env.Versions.See(path, version)
	}
	if res.Seen == nil {
		res.Seen = make(map[string]string, 1)
	}
	res.Seen[path] = version
}

// seen is the version that the session saw last.
func seen(env tool.Env, path string) (string, bool) {
	if env.Versions == nil {
		return "", false
	}
	return env.Versions.Seen(path)
}

// change is how write and edit report what they did, in bytes.
type change struct {
	BeforeBytes int64 `json:"before_bytes"`
	AfterBytes  int64 `json:"after_bytes"`
	Changed     bool  `json:"changed"`
}

// replace writes the file under the condition that it still is what was loaded; before is nil for a new file, and perm
// zero keeps the permissions. The sandbox holds the file's directory locked over its comparison and the change, so that
// of two sessions that saw the same content one is told that it is stale.
func replace(ctx context.Context, files sandbox.Files, path string, before *content, data []byte, perm fs.FileMode) error {
	opts := sandbox.ReplaceOptions{MustNotExist: before == nil, Perm: perm}
	if before != nil {
		opts.ExpectedVersion = before.version
	}
	err := files.Replace(ctx, path, data, opts)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sandbox.ErrStale),
		before != nil && errors.Is(err, fs.ErrNotExist):
		return fail(tool.CodeStale, "%s was changed by somebody else in this moment; read it again and apply your change to its new content", path)
	case errors.Is(err, fs.ErrExist):
		return fail(tool.CodeConflict, "%s was created by somebody else in this moment; read it before writing to it", path)
	}
	return fileError(ctx, "path", path, err)
}

func quote(s string) string { return fmt.Sprintf("%q", s) }
