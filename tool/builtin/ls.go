package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"io/fs"

	"github.com/harness-go/harness/tool"
)

//go:embed ls.md
var lsDescription string

const lsSchema = `{
  "type": "object",
  "properties": {"path": {"type": "string", "description": "Directory, default: the workspace."}},
  "additionalProperties": false
}`

const maxEntries = 500

type lsArgs struct {
	Path string `json:"path"`
}

type lsEntry struct {
	Name string `json:"name"`
	Type string `json:"type"` // file | dir | link | other
	Size *int64 `json:"size,omitempty"`
}

type lsResult struct {
	Path      string    `json:"path"`
	Entries   []lsEntry `json:"entries"`
	Total     int       `json:"total"`
	Truncated bool      `json:"truncated"`
}

func lsTool() *tool.Tool {
	return define(tool.Definition{
		Name: "ls", Description: lsDescription, Schema: json.RawMessage(lsSchema),
		Kind: tool.KindReadonly, Parallel: true, Tags: []string{"directory"},
	}, runLs)
}

func runLs(ctx context.Context, env tool.Env, args lsArgs) (tool.Result, error) {
	files, err := filesOf(env, "ls")
	if err != nil {
		return outcome(err)
	}
	dir := args.Path
	if dir == "" {
		dir = "."
	}
	if err := checkPath("path", dir); err != nil {
		return outcome(err)
	}
	info, err := files.Stat(ctx, dir)
	if err != nil {
		return outcome(fileError(ctx, "path", dir, err))
	}
	if !info.IsDir() {
		return tool.Failure(tool.CodeInvalidArguments, "argument path: %s is not a directory; use read for files", dir), nil
	}
	list, err := files.ReadDir(ctx, dir)
	if err != nil {
		return outcome(fileError(ctx, "path", dir, err))
	}
	out := lsResult{Path: files.Display(dir), Entries: []lsEntry{}, Total: len(list), Truncated: len(list) > maxEntries}
	for _, d := range list[:min(len(list), maxEntries)] {
		out.Entries = append(out.Entries, describe(d))
	}
	res, err := tool.JSONResult(out)
	res.Truncated = out.Truncated
	return res, err
}

func describe(d fs.DirEntry) lsEntry {
	name, _ := decode([]byte(d.Name()))
	e := lsEntry{Name: name, Type: "other"}
	switch t := d.Type(); {
	case t.IsDir():
		e.Type = "dir"
	case t&fs.ModeSymlink != 0:
		e.Type = "link"
	case t.IsRegular():
		e.Type = "file"
		if info, err := d.Info(); err == nil {
			size := info.Size()
			e.Size = &size
		}
	}
	return e
}
