package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
	"github.com/harness-go/harness/tool/builtin/internal/patch"
)

// planned is one file's change, checked and ready to be written.
type planned struct {
	op            patch.Op
	path, display string
	// from is the source of a rename or copy.
	from, fromDisplay string
	// before is what the path, or the source, held; nil for a new file. after is nil for a deleted one.
	before *content
	after  []byte
	perm   fs.FileMode // zero keeps
	lines  []int
	asked  bool // a version was asked for and is the file's
}

// patcher carries out one call.
type patcher struct {
	ctx   context.Context
	env   tool.Env
	files sandbox.Files
	steps []planned
}

// planPatch checks every file of a patch against what is there.
func (p *patcher) planPatch(args applyPatchArgs) error {
	parts, err := patch.Parse(*args.Patch, args.Path)
	if err != nil {
		return patchError("argument patch: ", err)
	}
	if args.Path != "" && (len(parts) != 1 || p.files.Display(parts[0].Path) != p.files.Display(args.Path)) {
		return fail(tool.CodeInvalidArguments, "argument path is %s and the patch is for %s: leave path out", clip(args.Path, 200), clip(partNames(parts), 400))
	}
	if args.ExpectedVersion != "" && len(parts) != 1 {
		return fail(tool.CodeInvalidArguments, "argument expected_version belongs to a patch of one file, and this one has %d", len(parts))
	}
	if n := len(partNames(parts)); n > maxPatchNames {
		return fail(tool.CodeTooLarge, "argument patch: its file names have %d bytes together, more than %d; use several patches", n, maxPatchNames)
	}
	total := 0
	taken := make(map[string]bool, len(parts))
	for _, part := range parts {
		s, err := p.plan(part, args.ExpectedVersion)
		if err != nil {
			return err
		}
		for _, name := range []string{s.display, s.fromDisplay} {
			if name != "" && taken[name] {
				return fail(tool.CodeInvalidArguments, "argument patch names %s twice, in different spellings; put both parts into one", name)
			}
			taken[name] = true
		}
		if s.before != nil {
			total += len(s.before.data)
		}
		if total += len(s.after); total > maxWhole {
			return fail(tool.CodeTooLarge, "argument patch: its files have more than %d bytes together; use several patches", maxWhole)
		}
		p.steps = append(p.steps, s)
	}
	return nil
}

// maxPatchNames bounds what a result has to say about the files of a patch, in bytes.
const maxPatchNames = 16 << 10

func partNames(parts []patch.File) string {
	names := make([]string, len(parts))
	for i, f := range parts {
		names[i] = f.Path
	}
	return strings.Join(names, ", ")
}

func patchError(prefix string, err error) error {
	e, ok := errors.AsType[*patch.Error](err)
	if !ok {
		return err
	}
	code := tool.CodeInvalidArguments
	switch e.Kind {
	case patch.Missing:
		code = tool.CodeNotFound
	case patch.Ambiguous, patch.Conflict:
		code = tool.CodeConflict
	}
	return fail(code, "%s%s", prefix, e.Text)
}

func (p *patcher) plan(part patch.File, version string) (planned, error) {
	s := planned{op: part.Op, path: part.Path, display: p.files.Display(part.Path), from: part.From, asked: version != ""}
	if err := checkPath("patch", part.Path); err != nil {
		return s, err
	}
	source, shown := s.path, s.display
	if s.from != "" {
		s.fromDisplay = p.files.Display(s.from)
		source, shown = s.from, s.fromDisplay
	}
	if s.op == patch.Delete || s.op == patch.Rename {
		if _, err := p.remover(); err != nil {
			return s, err
		}
	}
	if s.op != patch.Modify && s.op != patch.Delete {
		if err := p.mustBeFree(s); err != nil {
			return s, err
		}
	}
	var err error
	if s.op == patch.Create {
		if version != "" {
			return s, fail(tool.CodeStale, "argument expected_version: %s does not exist; leave expected_version out to create it", s.display)
		}
	} else if s.before, err = p.load("patch", source, shown, patch.MaxContent, version); err != nil {
		return s, err
	}
	if s.perm, err = p.permissions(s, source, part.Exec); err != nil {
		return s, err
	}
	var data []byte
	if s.before != nil {
		data = s.before.data
	}
	if s.op == patch.Delete && !part.Shown {
		if last, known := seen(p.env, shown); known && !s.asked && last != s.before.version {
			return s, staleError(shown, last, s.before.version)
		}
		return s, nil
	}
	if s.after, s.lines, err = patch.Apply(data, part.Hunks); err != nil {
		return s, p.missed(s, patchError("argument patch: "+shown+": ", err))
	}
	switch {
	case s.op == patch.Delete && len(s.after) > 0:
		return s, fail(tool.CodeConflict, "argument patch: it deletes %s and shows only a part of it: %d bytes would be left; read it again", shown, len(s.after))
	case s.op == patch.Modify && s.perm == 0 && bytes.Equal(s.after, data):
		return s, fail(tool.CodeInvalidArguments, "argument patch: nothing would change in %s", shown)
	case bytes.IndexByte(s.after, 0) >= 0:
		return s, fail(tool.CodeInvalidArguments, "argument patch: %s would hold a NUL character", shown)
	}
	return s, nil
}

// mustBeFree refuses to make a file where something is.
func (p *patcher) mustBeFree(s planned) error {
	_, err := p.files.Stat(p.ctx, s.path)
	switch {
	case err == nil:
		return fail(tool.CodeConflict, "argument patch: %s exists already; change it instead of adding it", s.display)
	case errors.Is(err, fs.ErrNotExist) && p.ctx.Err() == nil:
		return nil
	}
	return fileError(p.ctx, "patch", s.path, err)
}

// permissions are those that the file is to get, zero where it keeps them. A file that cannot be written is refused
// here, before anything is.
func (p *patcher) permissions(s planned, source string, x patch.Exec) (fs.FileMode, error) {
	if s.before == nil {
		if x == patch.SetExec {
			return 0o755, nil
		}
		return 0, nil
	}
	info, err := p.files.Stat(p.ctx, source)
	if err != nil {
		return 0, fileError(p.ctx, "patch", source, err)
	}
	perm := info.Mode().Perm()
	if s.op != patch.Copy && perm&0o222 == 0 {
		return 0, fail(tool.CodePermissionDenied, "argument patch: %s is read-only for everybody", p.files.Display(source))
	}
	changed := perm
	switch x {
	case patch.SetExec:
		changed |= perm & 0o444 >> 2
	case patch.ClearExec:
		changed &^= 0o111
	}
	if s.from == "" && changed == perm {
		return 0, nil
	}
	return changed, nil
}

// write makes the planned changes in their order. Where one fails the result says what was written before it.
func (p *patcher) write() (tool.Result, error) {
	var (
		res  tool.Result
		out  applyPatchResult
		diff strings.Builder
	)
	for i, s := range p.steps {
		if err := p.writeOne(s); err != nil {
			return p.broken(err, i, out, res, diff.String())
		}
		done := patchedFile{
			Path: s.display, From: s.fromDisplay, Action: actions[s.op], Lines: s.lines,
			Diff: change{AfterBytes: int64(len(s.after)), Changed: true},
		}
		var before []byte
		if s.before != nil {
			before = s.before.data
			done.Diff.BeforeBytes = s.before.size
		}
		diff.WriteString(s.diff(before))
		if s.op != patch.Delete {
			done.Version = sandbox.Version(s.after)
			known := s.display
			if s.from != "" {
				known = s.fromDisplay
			}
			if p.fresh(s, known) {
				saw(p.env, &res, s.display, done.Version)
			}
		}
		out.Files = append(out.Files, done)
	}
	encoded, err := tool.JSONResult(out)
	if err != nil {
		return tool.Result{}, err
	}
	res.Output, res.Diff = encoded.Output, shortDiff(diff.String())
	return res, nil
}

var actions = map[patch.Op]string{
	patch.Modify: "modified", patch.Create: "created", patch.Delete: "deleted", patch.Rename: "renamed", patch.Copy: "copied",
}

func (p *patcher) writeOne(s planned) error {
	switch s.op {
	case patch.Modify:
		return replace(p.ctx, p.files, s.path, s.before, s.after, s.perm)
	case patch.Delete:
		return p.remove(s.path, s.before.version)
	}
	if err := replace(p.ctx, p.files, s.path, nil, s.after, s.perm); err != nil || s.op != patch.Rename {
		return err
	}
	if err := p.remove(s.from, s.before.version); err != nil {
		if f, ok := err.(*failed); ok {
			return fail(f.code, "%s was written, but %s is still there: %s", s.display, s.fromDisplay, f.message)
		}
		return err
	}
	return nil
}

func (p *patcher) remove(path, version string) error {
	r, err := p.remover()
	if err != nil {
		return err
	}
	err = r.Remove(p.ctx, path, sandbox.RemoveOptions{ExpectedVersion: version})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sandbox.ErrStale), errors.Is(err, fs.ErrNotExist):
		return fail(tool.CodeStale, "%s was changed by somebody else in this moment; read it again", path)
	case errors.Is(err, sandbox.ErrNotRegular):
		return fail(tool.CodeInvalidArguments, "argument patch: %s is a symbolic link; remove it with bash", path)
	}
	return fileError(p.ctx, "patch", path, err)
}

// diff is what people see of the change.
func (s planned) diff(before []byte) string {
	switch s.op {
	case patch.Create:
		return unified(s.display, nil, s.after, true)
	case patch.Delete:
		return diffOf("a/"+s.display, noFile, before, nil)
	case patch.Rename, patch.Copy:
		head := fmt.Sprintf("%[1]s from %[2]s\n%[1]s to %[3]s\n", s.op, s.fromDisplay, s.display)
		if bytes.Equal(before, s.after) {
			return head
		}
		return head + diffOf("a/"+s.fromDisplay, "b/"+s.display, before, s.after)
	}
	if bytes.Equal(before, s.after) {
		return fmt.Sprintf("%s: new mode %o\n", s.display, s.perm)
	}
	return unified(s.display, before, s.after, false)
}

// broken is the result of a patch that could be written only in part.
func (p *patcher) broken(err error, at int, out applyPatchResult, res tool.Result, diff string) (tool.Result, error) {
	f, ok := err.(*failed)
	if !ok || len(p.steps) == 1 {
		return outcome(err)
	}
	written := make([]string, 0, at)
	for _, done := range out.Files {
		w := done.Action + " " + done.Path
		if done.Version != "" {
			w += " (version " + done.Version + ")"
		}
		written = append(written, w)
	}
	said := "Nothing was written before it"
	if at > 0 {
		said = "Written before it: " + strings.Join(written, ", ")
	}
	left := make([]string, 0, len(p.steps)-at)
	for _, s := range p.steps[at:] {
		left = append(left, s.display)
	}
	failure := tool.Failure(f.code, "%s. %s. Not written: %s. Apply the rest in a new patch", f.message, said, strings.Join(left, ", "))
	res.Output, res.Error, res.Diff = failure.Output, failure.Error, shortDiff(diff)
	return res, nil
}
