package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
	"github.com/harness-go/harness/tool/builtin/internal/patch"
)

//go:embed apply_patch.md
var applyPatchDescription string

const applyPatchSchema = `{
  "type": "object",
  "properties": {
    "patch": {"type": "string"},
    "path": {"type": "string", "description": "The file of edits and find, or of a patch without file headers."},
    "edits": {
      "type": "array", "minItems": 1, "maxItems": 100,
      "items": {
        "type": "object",
        "properties": {
          "old_text": {"type": "string"},
          "new_text": {"type": "string"},
          "replace_all": {"type": "boolean"}
        },
        "required": ["old_text", "new_text"],
        "additionalProperties": false
      }
    },
    "find": {"type": "string"},
    "replace": {"type": "string"},
    "replace_all": {"type": "boolean", "description": "With find."},
    "expected_version": {"type": "string", "description": "Change the one file only if it still has this version."}
  },
  "additionalProperties": false
}`

// maxPatch bounds a patch in bytes.
const maxPatch = 1 << 20

type applyPatchArgs struct {
	Patch           *string    `json:"patch"`
	Path            string     `json:"path"`
	Edits           []textEdit `json:"edits"`
	Find            *string    `json:"find"`
	Replace         *string    `json:"replace"`
	ReplaceAll      bool       `json:"replace_all"`
	ExpectedVersion string     `json:"expected_version"`
}

type textEdit struct {
	OldText    string `json:"old_text"`
	NewText    string `json:"new_text"`
	ReplaceAll bool   `json:"replace_all"`
}

type applyPatchResult struct {
	Files []patchedFile `json:"files"`
}

// patchedFile is what happened to a file. Lines are where the hunks or edits took hold, in the file as it was.
type patchedFile struct {
	Path    string `json:"path"`
	From    string `json:"from,omitempty"`
	Action  string `json:"action"`
	Lines   []int  `json:"lines,omitempty"`
	Diff    change `json:"diff"`
	Version string `json:"version,omitempty"`
}

func applyPatchTool() *tool.Tool {
	return define(tool.Definition{
		Name: "apply_patch", Description: applyPatchDescription, Schema: json.RawMessage(applyPatchSchema),
		Kind: tool.KindEdit, Tags: []string{"file", "diff", "replace"},
	}, runApplyPatch)
}

// runApplyPatch checks everything, then writes. Like edit it needs no version of the session's own: the lines that a
// hunk names are the proof that the model knows what it changes.
func runApplyPatch(ctx context.Context, env tool.Env, args applyPatchArgs) (tool.Result, error) {
	if err := args.check(); err != nil {
		return outcome(err)
	}
	files, err := filesOf(env, "apply_patch")
	if err != nil {
		return outcome(err)
	}
	p := patcher{ctx: ctx, env: env, files: files}
	if args.Patch != nil {
		err = p.planPatch(args)
	} else {
		err = p.planEdits(args)
	}
	if err != nil {
		return outcome(err)
	}
	return p.write()
}

// check holds the arguments to one of their three forms.
func (a *applyPatchArgs) check() error {
	forms := 0
	for _, given := range []bool{a.Patch != nil, a.Edits != nil, a.Find != nil || a.Replace != nil} {
		if given {
			forms++
		}
	}
	switch {
	case forms == 0:
		return fail(tool.CodeInvalidArguments, "argument patch is missing: give patch, or path with edits, or path with find and replace")
	case forms > 1:
		return fail(tool.CodeInvalidArguments, "arguments patch, edits and find exclude each other: give one of them")
	case a.Patch != nil && len(*a.Patch) > maxPatch:
		return fail(tool.CodeTooLarge, "argument patch has %d bytes, more than %d: use several patches", len(*a.Patch), maxPatch)
	case a.Patch == nil && a.Path == "":
		return fail(tool.CodeInvalidArguments, "argument path is missing: name the file to change")
	case a.ReplaceAll && a.Find == nil:
		return fail(tool.CodeInvalidArguments, "argument replace_all belongs to find; an entry of edits has its own")
	case a.Find == nil && a.Replace != nil:
		return fail(tool.CodeInvalidArguments, "argument find is missing: give the text to replace")
	case a.Find != nil && a.Replace == nil:
		return fail(tool.CodeInvalidArguments, "argument replace is missing: give the new text, which may be empty")
	}
	if a.Path != "" {
		return checkPath("path", a.Path)
	}
	return nil
}

// planEdits makes replacements of exact text, each in what the one before it left.
func (p *patcher) planEdits(args applyPatchArgs) error {
	edits := args.Edits
	if args.Find != nil {
		edits = []textEdit{{*args.Find, *args.Replace, args.ReplaceAll}}
	}
	display := p.files.Display(args.Path)
	before, err := p.load("path", args.Path, display, maxWhole, args.ExpectedVersion)
	if err != nil {
		return err
	}
	step := planned{op: patch.Modify, path: args.Path, display: display, before: before, after: before.data, asked: args.ExpectedVersion != ""}
	for i, e := range edits {
		names := textNames{fmt.Sprintf("edits[%d].old_text", i), fmt.Sprintf("edits[%d].new_text", i)}
		if args.Find != nil {
			names = textNames{"find", "replace"}
		}
		if err := names.check(e.OldText, e.NewText); err != nil {
			return err
		}
		done, err := names.substitute(display, step.after, e.OldText, e.NewText, e.ReplaceAll)
		if err != nil {
			return p.missed(step, err)
		}
		step.after = done.data
		step.lines = append(step.lines, done.lines...)
	}
	if bytes.Equal(step.after, before.data) {
		return fail(tool.CodeInvalidArguments, "argument edits: together they change nothing in %s", display)
	}
	p.steps = []planned{step}
	return nil
}

// load reads a file that is to be changed and compares its version with the one that was asked for.
func (p *patcher) load(arg, path, display string, limit int64, version string) (*content, error) {
	if err := checkPath(arg, path); err != nil {
		return nil, err
	}
	c, err := load(p.ctx, p.files, path, limit)
	switch {
	case err != nil:
		return nil, fileError(p.ctx, arg, path, err)
	case version != "" && version != c.version:
		return nil, staleError(display, version, c.version)
	case c.tooBig:
		return nil, fail(tool.CodeTooLarge, "argument %s: %s has %d bytes, more than apply_patch handles (%d); change it with bash", arg, display, c.size, limit)
	case bytes.IndexByte(c.data, 0) >= 0:
		return nil, fail(tool.CodeInvalidArguments, "argument %s: %s is binary; apply_patch changes text only", arg, display)
	}
	return &c, nil
}

// missed tells of text that was not found in a file that is not what the session saw: its change is the likely cause.
func (p *patcher) missed(s planned, err error) error {
	f, ok := err.(*failed)
	if !ok || s.before == nil || f.code != tool.CodeNotFound && f.code != tool.CodeConflict {
		return err
	}
	if last, known := seen(p.env, s.display); known && last != s.before.version {
		return fail(tool.CodeStale, "%s changed since it was read: its version was %s then and is %s now; read it again. %s", s.display, last, s.before.version, f.message)
	}
	return err
}

// fresh reports whether the session knows what the file held.
func (p *patcher) fresh(s planned, display string) bool {
	last, ok := seen(p.env, display)
	return s.before == nil || s.asked || ok && last == s.before.version
}

// remover gives what takes files away.
func (p *patcher) remover() (sandbox.Remover, error) {
	r, ok := p.files.(sandbox.Remover)
	if !ok {
		return nil, fail(tool.CodeUnavailable, "argument patch: files cannot be deleted or renamed: this session's sandbox has no way to remove files")
	}
	return r, nil
}
