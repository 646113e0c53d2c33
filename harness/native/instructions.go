package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/sandbox"
)

// InstructionFile is an AGENTS.md or CLAUDE.md of the workspace, as it goes into the system prompt.
type InstructionFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Cut     bool   `json:"cut,omitempty"`
}

// The instruction files of one folder, in the order in which they are read.
var instructionNames = []string{"AGENTS.md", "CLAUDE.md"}

// Bounds of instruction files. The nearest files are read first, so the farthest are what the second leaves out.
const (
	maxInstructionFile  = 32 << 10
	maxInstructionBytes = 64 << 10
	maxFolders          = 32
)

// instructionReader finds the instruction files of a working directory and its parents, up to the root of the
// repository that it lies in or to what the sandbox shows. Outside of a repository only the working directory counts.
//
// Only regular files are read: what a link leads to may lie outside of the workspace.
type instructionReader struct {
	files sandbox.Files
	left  int
	// nearest first, until the end
	found []InstructionFile
	facts []event.PromptFile
}

// readInstructions returns the farthest file first, so that the nearest has the last word.
func readInstructions(ctx context.Context, s sandbox.Session, dir string) ([]InstructionFile, []event.PromptFile, error) {
	files, ok := s.(sandbox.Files)
	if !ok || dir == "" {
		return nil, nil, nil
	}
	r := instructionReader{files: files, left: maxInstructionBytes}
	folders, err := r.folders(ctx, dir)
	if err != nil {
		var none *sandbox.UnsupportedError
		if errors.As(err, &none) {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	for _, f := range folders {
		if err := r.folder(ctx, f); err != nil {
			return nil, nil, err
		}
	}
	slices.Reverse(r.found)
	slices.Reverse(r.facts)
	return r.found, r.facts, nil
}

// folders are the working directory and its parents up to the root of the repository, nearest first.
func (r *instructionReader) folders(ctx context.Context, dir string) ([]string, error) {
	var list []string
	for d := path.Clean(dir); len(list) < maxFolders; d = path.Dir(d) {
		list = append(list, d)
		switch _, err := r.files.Stat(ctx, path.Join(d, ".git")); {
		case err == nil:
			return list, nil
		case !missing(err):
			if d == path.Clean(dir) {
				return nil, fmt.Errorf("native: instruction files of %s: %w", dir, err)
			}
			return list[:1], nil // the sandbox ends here, and with it what is known of a repository
		}
		if d == path.Dir(d) {
			break
		}
	}
	return list[:1], nil
}

// missing reports whether an error says that there is no such file, or none that the session may see.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (r *instructionReader) folder(ctx context.Context, dir string) error {
	var here []InstructionFile
	var facts []event.PromptFile
	for _, name := range instructionNames {
		p := path.Join(dir, name)
		if _, err := r.files.Stat(ctx, p); missing(err) {
			continue
		}
		shown := r.files.Display(p)
		f, why, err := r.read(ctx, dir, name)
		switch {
		case err != nil:
			return err
		case why == "" && repeats(f.Content, here):
			why = "it says the same as the file beside it"
		case why == "" && strings.TrimSpace(f.Content) == "":
			why = "it is empty"
		}
		if why != "" {
			facts = append(facts, event.PromptFile{Path: shown, Skipped: why})
			continue
		}
		f.Path = shown
		r.left -= len(f.Content)
		here = append(here, f)
		facts = append(facts, event.PromptFile{Path: shown, Bytes: len(f.Content), Cut: f.Cut})
	}
	slices.Reverse(here)
	slices.Reverse(facts)
	r.found, r.facts = append(r.found, here...), append(r.facts, facts...)
	return nil
}

// repeats reports whether a file only says what a file beside it says: the same, or "@" and its name.
func repeats(content string, beside []InstructionFile) bool {
	trimmed := strings.TrimSpace(content)
	return slices.ContainsFunc(beside, func(f InstructionFile) bool {
		name := path.Base(f.Path)
		return trimmed == strings.TrimSpace(f.Content) || trimmed == "@"+name || trimmed == "@./"+name
	})
}

// read gives a file's beginning, or why it is not read.
func (r *instructionReader) read(ctx context.Context, dir, name string) (f InstructionFile, skipped string, err error) {
	if regular, err := r.regular(ctx, dir, name); err != nil || !regular {
		return f, "it is no regular file", err
	}
	if r.left <= 0 {
		return f, fmt.Sprintf("the instruction files nearer to the working directory fill the %d bytes that they may have", maxInstructionBytes), nil
	}
	file, err := r.files.Open(ctx, path.Join(dir, name))
	if err != nil {
		if ctx.Err() != nil {
			return f, "", err
		}
		return f, "it cannot be read", nil
	}
	defer func() { _ = file.Close() }()
	limit := min(r.left, maxInstructionFile)
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return f, "it cannot be read", nil
	}
	if f.Cut = len(b) > limit; f.Cut {
		b = b[:limit]
		for len(b) > 0 && !utf8.Valid(b[max(0, len(b)-utf8.UTFMax):]) && !utf8.RuneStart(b[len(b)-1]) {
			b = b[:len(b)-1]
		}
	}
	f.Content = strings.ToValidUTF8(string(b), "\uFFFD")
	return f, "", nil
}

// regular reports whether the folder holds a regular file of that name itself, and not by a link.
func (r *instructionReader) regular(ctx context.Context, dir, name string) (bool, error) {
	list, err := r.files.ReadDir(ctx, dir)
	if err != nil {
		return false, ctx.Err()
	}
	i, ok := slices.BinarySearchFunc(list, name, func(e fs.DirEntry, n string) int { return strings.Compare(e.Name(), n) })
	return ok && list[i].Type().IsRegular(), nil
}

// instructionText is the part of the system prompt that instruction files make.
func instructionText(files []InstructionFile) string {
	if len(files) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\n# Instructions of this project\nThe files below were written for those who work on this project. Where two of them disagree, the later one counts.")
	for _, f := range files {
		b.WriteString("\n\n## " + f.Path + "\n" + strings.TrimSpace(f.Content))
		if f.Cut {
			fmt.Fprintf(&b, "\n[cut here: only the first %d bytes are shown]", len(f.Content))
		}
	}
	return b.String()
}
