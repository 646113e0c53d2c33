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
	switch {
	case args.OldText == "":
		return tool.Failure(tool.CodeInvalidArguments, "argument old_text is empty: give the text to replace, or use write to create or fill a file"), nil
	case args.OldText == args.NewText:
		return tool.Failure(tool.CodeInvalidArguments, "arguments old_text and new_text are the same: nothing would change"), nil
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
	sub := newSubstitution(before.data, []byte(args.OldText), []byte(args.NewText))
	lines, count := sub.lines()
	switch {
	case count == 0:
		return tool.Failure(tool.CodeNotFound, "argument old_text does not occur in %s: %s", display, explainMiss(before.data, args.OldText)), nil
	case count > 1 && !args.ReplaceAll:
		return tool.Failure(tool.CodeConflict, "argument old_text occurs %d times in %s, at lines %s: add context to make it unique, or set replace_all", count, display, joinLines(lines, count)), nil
	}
	after := sub.apply()
	if bytes.Equal(after, before.data) {
		return tool.Failure(tool.CodeInvalidArguments, "arguments old_text and new_text are the same with the line endings of %s: nothing would change", display), nil
	}
	if len(after) > maxWhole {
		return tool.Failure(tool.CodeTooLarge, "argument new_text: the file would have %d bytes, more than edit handles (%d)", len(after), maxWhole), nil
	}
	if err := replace(ctx, files, args.Path, &before, after); err != nil {
		return outcome(err)
	}
	version := sandbox.Version(after)
	res, err := tool.JSONResult(editResult{
		Path: display, Replacements: bytes.Count(before.data, sub.old), Lines: lines, Version: version,
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
