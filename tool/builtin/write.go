package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

//go:embed write.md
var writeDescription string

const writeSchema = `{
  "type": "object",
  "properties": {
    "path": {"type": "string"},
    "content": {"type": "string", "description": "The whole new content, or with append what is added."},
    "new_text": {"type": "string", "description": "Alias of content."},
    "new_string": {"type": "string", "description": "Alias of content."},
    "text": {"type": "string", "description": "Alias of content."},
    "append": {"type": "boolean", "description": "Add to the end instead of replacing."},
    "expected_version": {"type": "string", "description": "Write only if the file still has this version."}
  },
  "required": ["path"],
  "additionalProperties": false
}`

type writeArgs struct {
	Path            string  `json:"path"`
	Content         *string `json:"content"`
	NewText         *string `json:"new_text"`
	NewString       *string `json:"new_string"`
	Text            *string `json:"text"`
	Append          bool    `json:"append"`
	ExpectedVersion string  `json:"expected_version"`
}

type writeResult struct {
	Path         string `json:"path"`
	BytesWritten int    `json:"bytes_written"`
	Appended     bool   `json:"appended"`
	Diff         change `json:"diff"`
	Version      string `json:"version"`
}

func writeTool() *tool.Tool {
	return define(tool.Definition{
		Name: "write", Description: writeDescription, Schema: json.RawMessage(writeSchema),
		Kind: tool.KindEdit, Tags: []string{"file"},
	}, runWrite)
}

func runWrite(ctx context.Context, env tool.Env, args writeArgs) (tool.Result, error) {
	text, err := args.content()
	if err != nil {
		return outcome(err)
	}
	files, err := filesOf(env, "write")
	if err != nil {
		return outcome(err)
	}
	if err := checkPath("path", args.Path); err != nil {
		return outcome(err)
	}
	display := files.Display(args.Path)
	before, err := existing(ctx, files, args.Path)
	if err != nil {
		return outcome(err)
	}
	lastSeen, known := seen(env, display)
	if args.ExpectedVersion != "" {
		lastSeen, known = args.ExpectedVersion, true
	}
	fresh := before == nil || known && lastSeen == before.version
	if err := args.checkVersion(display, before, lastSeen, known); err != nil {
		return outcome(err)
	}
	data := []byte(text)
	if args.Append && before != nil {
		if before.tooBig || before.size+int64(len(text)) > maxWhole {
			return tool.Failure(tool.CodeTooLarge, "argument append: %s has %d bytes, more than append handles (%d); append to it with bash", display, before.size, maxWhole), nil
		}
		data = append(append(make([]byte, 0, len(before.data)+len(text)), before.data...), text...)
	}
	if err := replace(ctx, files, args.Path, before, data, 0); err != nil {
		return outcome(err)
	}
	version := sandbox.Version(data)
	out := writeResult{
		Path: display, BytesWritten: len(text), Appended: args.Append, Version: version,
		Diff: change{AfterBytes: int64(len(data)), Changed: true},
	}
	var old []byte
	if before != nil {
		old = before.data
		out.Diff.BeforeBytes, out.Diff.Changed = before.size, before.version != version
	}
	res, err := tool.JSONResult(out)
	if err != nil {
		return tool.Result{}, err
	}
	if before == nil || !before.tooBig {
		res.Diff = unified(display, old, data, before == nil)
	}
	// After an append to content that the session had not seen, it still has not seen it.
	if fresh || !args.Append {
		saw(env, &res, display, version)
	}
	return res, nil
}

// content is the one of the four arguments that was given.
func (a writeArgs) content() (string, error) {
	var text *string
	for _, s := range []*string{a.Content, a.NewText, a.NewString, a.Text} {
		if s == nil {
			continue
		}
		if text != nil && *text != *s {
			return "", fail(tool.CodeInvalidArguments, "argument content is given twice, by its name and by an alias: give content alone")
		}
		text = s
	}
	if text == nil {
		return "", fail(tool.CodeInvalidArguments, "argument content is missing: give the text to write, which may be empty")
	}
	return *text, nil
}

// checkVersion refuses to erase a change that the session has not seen. A file that it never saw may be written
// blindly, one that is gone may be made anew, and appending erases nothing; but a version that was asked for counts
// always.
func (a writeArgs) checkVersion(display string, before *content, lastSeen string, known bool) error {
	switch {
	case !known, before == nil && a.ExpectedVersion == "", a.Append && a.ExpectedVersion == "":
		return nil
	case before == nil:
		return fail(tool.CodeStale, "argument expected_version: %s does not exist any more; leave expected_version out to create it", display)
	case before.version == "":
		return fail(tool.CodeTooLarge, "%s has %d bytes, too many to compare its version; write it with bash", display, before.size)
	case before.version != lastSeen:
		return staleError(display, lastSeen, before.version)
	}
	return nil
}

// existing loads the file that is to be replaced; nil when there is none.
func existing(ctx context.Context, files sandbox.Files, path string) (*content, error) {
	c, err := load(ctx, files, path, maxWhole)
	switch {
	case err == nil:
		return &c, nil
	case errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil:
		return nil, nil
	}
	return nil, fileError(ctx, "path", path, err)
}
