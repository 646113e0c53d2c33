package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

//go:embed edit.md
var editDescription string

const editSchema = `{
  "type": "object",
  "properties": {
    "path": {"type": "string"},
    "old_text": {"type": "string", "description": "Exact text to replace, with enough context to occur once."},
    "new_text": {"type": "string"},
    "replace_all": {"type": "boolean", "description": "Replace every occurrence."},
    "expected_version": {"type": "string", "description": "Edit only if the file still has this version."}
  },
  "required": ["path", "old_text", "new_text"],
  "additionalProperties": false
}`

type editArgs struct {
	Path            string `json:"path"`
	OldText         string `json:"old_text"`
	NewText         string `json:"new_text"`
	ReplaceAll      bool   `json:"replace_all"`
	ExpectedVersion string `json:"expected_version"`
}

type editResult struct {
	Path         string `json:"path"`
	Replacements int    `json:"replacements"`
	Lines        []int  `json:"lines"`
	Diff         change `json:"diff"`
	Version      string `json:"version"`
}

func editTool() *tool.Tool {
	return define(tool.Definition{
		Name: "edit", Description: editDescription, Schema: json.RawMessage(editSchema),
		Kind: tool.KindEdit, Tags: []string{"file", "replace"},
	}, runEdit)
}

// runEdit needs no version of the session's own: old_text is the proof that the model knows what it replaces. A
// version that the model names is checked.
func runEdit(ctx context.Context, env tool.Env, args editArgs) (tool.Result, error) {
	if err := editNames.check(args.OldText, args.NewText); err != nil {
		return outcome(err)
	}
	files, err := filesOf(env, "edit")
	if err != nil {
		return outcome(err)
	}
	if err := checkPath("path", args.Path); err != nil {
		return outcome(err)
	}
	display := files.Display(args.Path)
	before, err := load(ctx, files, args.Path, maxWhole)
	switch {
	case err != nil:
		return outcome(fileError(ctx, "path", args.Path, err))
	case before.tooBig:
		return tool.Failure(tool.CodeTooLarge, "argument path: %s has %d bytes, more than edit handles (%d); change it with bash", display, before.size, maxWhole), nil
	case args.ExpectedVersion != "" && args.ExpectedVersion != before.version:
		return outcome(staleError(display, args.ExpectedVersion, before.version))
	case bytes.IndexByte(before.data, 0) >= 0:
		return tool.Failure(tool.CodeInvalidArguments, "argument path: %s is binary; edit changes text only", display), nil
	}
	done, err := editNames.substitute(display, before.data, args.OldText, args.NewText, args.ReplaceAll)
	if err != nil {
		return outcome(err)
	}
	after := done.data
	if err := replace(ctx, files, args.Path, &before, after, 0); err != nil {
		return outcome(err)
	}
	version := sandbox.Version(after)
	res, err := tool.JSONResult(editResult{
		Path: display, Replacements: done.count, Lines: done.lines, Version: version,
		Diff: change{BeforeBytes: before.size, AfterBytes: int64(len(after)), Changed: true},
	})
	if err != nil {
		return tool.Result{}, err
	}
	res.Diff = unified(display, before.data, after, false)
	// The session knows the new content only if it knew the old one. Otherwise a later write from an old read would
	// pass as fresh and erase what the session has not seen.
	if last, ok := seen(env, display); ok && last == before.version || args.ExpectedVersion != "" {
		saw(env, &res, display, version)
	}
	return res, nil
}

// textNames are what the arguments of a replacement are called in messages.
type textNames struct{ old, new string }

var editNames = textNames{"old_text", "new_text"}

// check refuses texts that cannot mean a change.
func (n textNames) check(old, new string) error {
	switch {
	case old == "":
		return fail(tool.CodeInvalidArguments, "argument %s is empty: give the text to replace, or use write to create or fill a file", n.old)
	case old == new:
		return fail(tool.CodeInvalidArguments, "arguments %s and %s are the same: nothing would change", n.old, n.new)
	}
	return nil
}

// substituted is content after a substitution, with the lines of its first places and the number of all.
type substituted struct {
	data  []byte
	lines []int
	count int
}

// substitute replaces text in content: one place, or all of them. The content is not changed.
func (n textNames) substitute(display string, data []byte, old, new string, all bool) (substituted, error) {
	sub := newSubstitution(data, []byte(old), []byte(new))
	lines, count := sub.lines()
	switch {
	case count == 0:
		return substituted{}, fail(tool.CodeNotFound, "argument %s does not occur in %s: %s", n.old, display, explainMiss(data, old))
	case count > 1 && !all:
		return substituted{}, fail(tool.CodeConflict, "argument %s occurs %d times in %s, at lines %s: add context to make it unique, or set replace_all", n.old, count, display, joinLines(lines, count))
	}
	after := sub.apply()
	switch {
	case bytes.Equal(after, data):
		return substituted{}, fail(tool.CodeInvalidArguments, "arguments %s and %s are the same with the line endings of %s: nothing would change", n.old, n.new, display)
	case len(after) > maxWhole:
		return substituted{}, fail(tool.CodeTooLarge, "argument %s: the file would have %d bytes, more than edit handles (%d)", n.new, len(after), maxWhole)
	}
	return substituted{data: after, lines: lines, count: bytes.Count(data, sub.old)}, nil
}
