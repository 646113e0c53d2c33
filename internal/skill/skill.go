// Package skill finds and reads skills: folders with a SKILL.md, whose front matter says what the skill is for and whose
// body is instructions for a model.
//
// It owns where skills lie, what a SKILL.md may say and how arguments are filled in. It runs nothing: what a skill asks
// for and this project does not do (a tool filter, an agent of its own, commands that run while it is loaded) makes the
// skill unavailable, with the reason, and is never passed over.
//
// Invariants: a workspace's skills are read beneath the workspace, a user's beneath the user's folder; no link leads out
// of either. Files, lists and results are bounded. What is on disk is read anew at each call and never kept.
package skill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/harness-go/harness/tool"
)

// Bounds of what is read.
const (
	// MaxFile bounds a SKILL.md in bytes.
	MaxFile = 64 << 10
	// MaxSkills bounds the skills of one folder, and MaxEntries the entries that are looked at to find them.
	MaxSkills  = 256
	MaxEntries = 4096
)

// fileName is the file that makes a folder a skill.
const fileName = "SKILL.md"

// workspaceFolders hold a workspace's skills, nearest first.
var workspaceFolders = []string{".harness/skills", ".agents/skills", ".claude/skills"}

// Options say where skills lie.
type Options struct {
	// Workspace is the absolute folder of a run; empty: there is none.
	Workspace string
	// UserDir is the folder of the user's own skills, such as skills/ in the configuration folder; empty: there is none.
	UserDir string
}

// Finder finds skills. Of two with one name the workspace's wins over the user's, and in the workspace the first of
// .harness/skills, .agents/skills and .claude/skills. It is safe for concurrent use.
type Finder struct{ o Options }

var _ tool.Skills = (*Finder)(nil)

// New checks that the folders are absolute. They need not exist.
func New(o Options) (*Finder, error) {
	if o.Workspace != "" && !filepath.IsAbs(o.Workspace) {
		return nil, fmt.Errorf("skill: Options.Workspace %q is not absolute", o.Workspace)
	}
	if o.UserDir != "" && !filepath.IsAbs(o.UserDir) {
		return nil, fmt.Errorf("skill: Options.UserDir %q is not absolute", o.UserDir)
	}
	return &Finder{o}, nil
}

// place is a folder of skills beneath a root that nothing leads out of.
type place struct {
	root string // absolute
	sub  string // slash-separated, "." for the root itself
}

func (f *Finder) places() []place {
	var out []place
	if f.o.Workspace != "" {
		for _, sub := range workspaceFolders {
			out = append(out, place{f.o.Workspace, sub})
		}
	}
	if f.o.UserDir != "" {
		out = append(out, place{f.o.UserDir, "."})
	}
	return out
}

// List gives every skill, also those that cannot be run, with the reason. A folder that cannot be read is an error.
func (f *Finder) List(ctx context.Context) ([]tool.Skill, error) {
	found := make(map[string]tool.Skill)
	for _, p := range f.places() {
		names, err := p.names(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if _, hidden := found[name]; hidden {
				continue
			}
			s, err := p.read(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a folder without SKILL.md
			}
			if err != nil {
				s = document{source: p.source(name), unavailable: err.Error()}
			}
			found[name] = tool.Skill{
				Name: name, Description: s.description, ArgumentHint: s.argumentHint, Source: s.source, Unavailable: s.unavailable,
			}
		}
	}
	out := make([]tool.Skill, 0, len(found))
	for _, s := range found {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b tool.Skill) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Load gives a skill's instructions with its arguments filled in. An unknown name is fs.ErrNotExist; a skill that cannot
// be run is an error that says why.
func (f *Finder) Load(ctx context.Context, name, arguments string) (string, error) {
	if err := checkName(name); err != nil {
		return "", fmt.Errorf("skill %.70q: %w: %w", name, err, fs.ErrNotExist)
	}
	for _, p := range f.places() {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		s, err := p.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", fmt.Errorf("skill %s (%s): %w", name, p.source(name), err)
		case s.unavailable != "":
			return "", fmt.Errorf("skill %s (%s) is not available: %s", name, s.source, s.unavailable)
		}
		return fill(s.body, values{arguments: arguments, workspace: f.o.Workspace, dir: filepath.Dir(s.source)}), nil
	}
	return "", fmt.Errorf("skill %s: %w", name, fs.ErrNotExist)
}

// source is the absolute name of a skill's file.
func (p place) source(name string) string {
	return filepath.Join(p.root, filepath.FromSlash(p.sub), name, fileName)
}

// names lists the folders that may be skills, in order.
func (p place) names(ctx context.Context) ([]string, error) {
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return nil, absent(p, err)
	}
	defer root.Close()
	dir, err := root.OpenFile(p.sub, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, absent(p, err)
	}
	defer dir.Close()
	var names []string
	for seen := 0; ; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		entries, err := dir.ReadDir(256)
		for _, e := range entries {
			// A link may lead to a folder; whether it stays inside is seen when it is opened.
			if (e.IsDir() || e.Type()&fs.ModeSymlink != 0) && checkName(e.Name()) == nil {
				names = append(names, e.Name())
			}
		}
		if seen += len(entries); seen > MaxEntries || len(names) > MaxSkills {
			return nil, fmt.Errorf("skills: %s has more than %d skills or %d entries", filepath.Join(p.root, p.sub), MaxSkills, MaxEntries)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("skills: %w", err)
		}
	}
	slices.Sort(names)
	return names, nil
}

// absent: a folder that is not there has no skills.
func absent(p place, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return fmt.Errorf("skills: %s: %w", filepath.Join(p.root, filepath.FromSlash(p.sub)), err)
}

// read reads a skill. It is fs.ErrNotExist where there is none.
func (p place) read(name string) (document, error) {
	root, err := os.OpenRoot(p.root)
	if err != nil {
		return document{}, err
	}
	defer root.Close()
	// Not blocking, because the name may be a FIFO.
	f, err := root.OpenFile(path.Join(p.sub, name, fileName), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return document{}, openError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return document{}, err
	case !info.Mode().IsRegular():
		return document{}, fmt.Errorf("%s is not a regular file", fileName)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	switch {
	case err != nil:
		return document{}, err
	case len(data) > MaxFile:
		return document{}, fmt.Errorf("%s has more than %d bytes", fileName, MaxFile)
	}
	d, err := parse(data)
	if err != nil {
		return document{}, err
	}
	d.source = p.source(name)
	if d.name != name {
		return document{}, fmt.Errorf("its name is %q and its folder is %q; they must be the same", d.name, name)
	}
	return d, nil
}

// openError tells a missing file from one that a link hides outside.
func openError(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fs.ErrNotExist
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s cannot be opened: %w; links that lead out of the folder are not followed", fileName, pe.Err)
	}
	return err
}

var errName = errors.New("a skill's name has 1 to 64 letters, digits, dashes, underscores and dots")

// checkName holds a name to what a folder of a skill is called.
func checkName(name string) error {
	if name == "" || len(name) > 64 || name[0] == '.' || name[0] == '-' {
		return errName
	}
	for _, c := range []byte(name) {
		if c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return errName
		}
	}
	return nil
}
