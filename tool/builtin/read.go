package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"github.com/harness-go/harness/tool"
)

//go:embed read.md
var readDescription string

const readSchema = `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "File, or artifact:<id> for the full output of an earlier call."},
    "file_path": {"type": "string", "description": "Alias of path."},
    "offset": {"type": "integer", "minimum": 1, "description": "First line, from 1."},
    "limit": {"type": "integer", "minimum": 1, "description": "Number of lines."},
    "cursor": {"type": "integer", "minimum": 0, "description": "First byte: next_cursor of the last page. Not with offset."},
    "max_bytes": {"type": "integer", "minimum": 1, "maximum": 1048576, "description": "Size of the page, default 16384."}
  },
  "additionalProperties": false
}`

// defaultPage is the size of a page in bytes.
const defaultPage = 16 << 10

// artifactPrefix marks a path that names an artifact.
const artifactPrefix = "artifact:"

type readArgs struct {
	Path     string   `json:"path"`
	FilePath string   `json:"file_path"`
	Offset   integer  `json:"offset"`
	Limit    integer  `json:"limit"`
	Cursor   *integer `json:"cursor"`
	MaxBytes integer  `json:"max_bytes"`
}

type readResult struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Truncated   bool   `json:"truncated"`
	Version     string `json:"version,omitempty"`
	TotalLines  int64  `json:"total_lines,omitempty"`
	NextOffset  int64  `json:"next_offset,omitempty"`
	NextCursor  int64  `json:"next_cursor,omitempty"`
	InvalidUTF8 bool   `json:"invalid_utf8,omitempty"`
	Note        string `json:"note,omitempty"`
}

type binaryResult struct {
	Path      string `json:"path"`
	Binary    bool   `json:"binary"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256,omitempty"`
	Version   string `json:"version,omitempty"`
	Note      string `json:"note"`
}

func readTool() *tool.Tool {
	return define(tool.Definition{
		Name: "read", Description: readDescription, Schema: json.RawMessage(readSchema),
		Kind: tool.KindReadonly, Parallel: true, Tags: []string{"file", "artifact"},
	}, runRead)
}

func runRead(ctx context.Context, env tool.Env, args readArgs) (tool.Result, error) {
	path, err := oneOf("path", args.Path, "file_path", args.FilePath)
	if err != nil {
		return outcome(err)
	}
	if args.Cursor != nil && args.Offset > 0 {
		return tool.Failure(tool.CodeInvalidArguments, "arguments offset and cursor exclude each other: offset counts lines, cursor is the next_cursor of the last page"), nil
	}
	req := pageRequest{line: int64(args.Offset), lines: int64(args.Limit), maxBytes: int(args.MaxBytes)}
	if args.Cursor != nil {
		req.cursor = int64(*args.Cursor)
	}
	if req.maxBytes == 0 {
		req.maxBytes = defaultPage
	}
	src, display, err := openSource(ctx, env, path)
	if err != nil {
		return outcome(err)
	}
	defer func() { _ = src.Close() }()
	p, err := readPage(ctx, src, req)
	if err != nil {
		return outcome(fileError(ctx, "path", path, err))
	}
	isArtifact := strings.HasPrefix(path, artifactPrefix)
	var res tool.Result
	var broken *brokenImage
	if t := imageType(p.head); t != "" {
		img, err := readImage(ctx, src, display, t, p.size)
		if err == nil {
			return img.result(env, isArtifact)
		}
		if !errors.As(err, &broken) {
			return outcome(fileError(ctx, "path", path, err))
		}
	}
	if p.binary {
		res, err = tool.JSONResult(binaryPage(display, p, broken))
	} else {
		res, err = tool.JSONResult(textPage(display, req, p, isArtifact))
		res.Truncated = p.truncated
	}
	if err != nil {
		return tool.Result{}, err
	}
	if !isArtifact {
		saw(env, &res, display, p.version)
	}
	return res, nil
}

func textPage(display string, req pageRequest, p page, isArtifact bool) readResult {
	r := readResult{Path: display, Truncated: p.truncated, TotalLines: p.totalLines, NextOffset: p.nextLine, NextCursor: p.nextCursor}
	r.Content, r.InvalidUTF8 = decode(p.content)
	if !isArtifact {
		r.Version = p.version
	}
	switch {
	case len(p.content) == 0 && p.eof && (req.line > 1 || req.cursor > 0):
		r.Note = "this is past the end of the file"
	case p.truncated && p.nextLine == 0:
		r.Note = "the page ends inside a line: go on with cursor"
	}
	return r
}

func binaryPage(display string, p page, broken *brokenImage) binaryResult {
	r := binaryResult{Path: display, Binary: true, Size: p.size, Version: p.version, MediaType: http.DetectContentType(p.head)}
	if p.scanned {
		r.SHA256 = p.sha256
	}
	r.Note = "not text, so no content is shown"
	switch {
	case broken != nil:
		r.Note = "an image that cannot be shown: " + clip(broken.Error(), 200)
	case strings.HasPrefix(r.MediaType, "image/"):
		r.Note = "an image of a kind that is not shown; make a PNG or JPEG copy of it with bash to see it"
	}
	if !p.eof {
		r.Note += "; too large to read to its end, so size counts only what was read"
	}
	return r
}

// source is what read reads from.
type source interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

// openSource opens a file or an artifact.
func openSource(ctx context.Context, env tool.Env, path string) (source, string, error) {
	id, isArtifact := strings.CutPrefix(path, artifactPrefix)
	if !isArtifact {
		files, err := filesOf(env, "read")
		if err != nil {
			return nil, "", err
		}
		if err := checkPath("path", path); err != nil {
			return nil, "", err
		}
		f, err := files.Open(ctx, path)
		if err != nil {
			return nil, "", fileError(ctx, "path", path, err)
		}
		return f, files.Display(path), nil
	}
	if env.Artifacts == nil {
		return nil, "", fail(tool.CodeUnavailable, "this session keeps no artifacts")
	}
	r, err := env.Artifacts.Open(ctx, id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", fail(tool.CodeNotFound, "argument path: this session has no artifact %q; use the id that a result names", clip(id, 64))
	case err != nil:
		return nil, "", fileError(ctx, "path", path, err)
	}
	return struct {
		*io.SectionReader
		io.Closer
	}{io.NewSectionReader(r, 0, r.Size()), r}, path, nil
}

// oneOf takes an argument that has an alias.
func oneOf(name, value, alias, aliasValue string) (string, error) {
	if value != "" && aliasValue != "" && value != aliasValue {
		return "", fail(tool.CodeInvalidArguments, "arguments %s and %s differ: give %s alone", name, alias, name)
	}
	if value == "" {
		value = aliasValue
	}
	if value == "" {
		return "", fail(tool.CodeInvalidArguments, "argument %s is missing", name)
	}
	return value, nil
}
