package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/harness-go/harness/tool"
)

//go:embed git_status.md
var gitStatusDescription string

const gitStatusSchema = `{"type": "object", "properties": {}, "additionalProperties": false}`

// Bounds of what a status lists: entries of each list, and bytes of all paths.
const (
	maxStatusEntries = 200
	maxStatusPaths   = 24 << 10
)

type gitStatusResult struct {
	Branch   string `json:"branch,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Detached bool   `json:"detached,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	Ahead    int    `json:"ahead,omitempty"`
	Behind   int    `json:"behind,omitempty"`
	Clean    bool   `json:"clean"`

	Staged     gitChanges `json:"staged,omitzero"`
	Unstaged   gitChanges `json:"unstaged,omitzero"`
	Untracked  gitChanges `json:"untracked,omitzero"`
	Conflicted gitChanges `json:"conflicted,omitzero"`
	Truncated  bool       `json:"truncated,omitempty"`
}

// gitChanges are files of one sort. Count is the number of all, listed or not.
type gitChanges struct {
	Count int         `json:"count"`
	Files []gitChange `json:"files"`
}

func (c gitChanges) IsZero() bool { return c.Count == 0 }

type gitChange struct {
	gitPath
	Status string   `json:"status,omitempty"`
	From   *gitPath `json:"from,omitempty"`
}

func gitStatusTool() *tool.Tool {
	return define(tool.Definition{
		Name: "git_status", Description: gitStatusDescription, Schema: json.RawMessage(gitStatusSchema),
		Kind: tool.KindReadonly, Parallel: true, Tags: []string{"git", "changes"},
	}, runGitStatus)
}

func runGitStatus(ctx context.Context, env tool.Env, _ struct{}) (tool.Result, error) {
	r, ctx, cancel, err := openRepository(ctx, env, "git_status")
	if err != nil {
		return outcome(err)
	}
	defer cancel()
	out, err := r.output(ctx, "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty", "--find-renames", "--", ".")
	if err != nil {
		return outcome(err)
	}
	s := r.parseStatus(out.data, out.cut)
	res, err := tool.JSONResult(s)
	res.Truncated = s.Truncated
	return res, err
}

// statusParser reads git's porcelain format, version 2, with NUL between records.
type statusParser struct {
	r    *repository
	out  gitStatusResult
	room int
}

func (r *repository) parseStatus(data []byte, cut bool) gitStatusResult {
	p := statusParser{r: r, room: maxStatusPaths}
	records := strings.Split(string(data), "\x00")
	if n := len(records); n > 0 {
		records = records[:n-1] // what stands behind the last NUL is nothing, or cut off
	}
	for i := 0; i < len(records); i++ {
		rec := records[i]
		if len(rec) < 4 && !strings.HasPrefix(rec, "? ") {
			continue // no record is so short
		}
		switch rec[0] {
		case '#':
			p.header(rec[1:])
		case '1':
			p.changed(field(rec, 8), rec[2:4], "")
		case '2':
			if i++; i < len(records) { // the next record is the name that it had
				p.changed(field(rec, 9), rec[2:4], records[i])
			}
		case 'u':
			p.add(&p.out.Conflicted, gitChange{gitPath: p.r.path(field(rec, 10)), Status: conflicts[rec[2:4]]})
		case '?':
			p.add(&p.out.Untracked, gitChange{gitPath: p.r.path(rec[2:])})
		}
	}
	o := &p.out
	o.Truncated = o.Truncated || cut
	o.Clean = o.Staged.Count+o.Unstaged.Count+o.Untracked.Count+o.Conflicted.Count == 0 && !cut
	return *o
}

// field is what follows the first n fields of a record: paths may hold spaces.
func field(rec string, n int) string {
	for range n {
		_, rest, ok := strings.Cut(rec, " ")
		if !ok {
			return ""
		}
		rec = rest
	}
	return rec
}

func (p *statusParser) header(h string) {
	key, value, _ := strings.Cut(strings.TrimSpace(h), " ")
	value, _ = decode([]byte(clip(value, 400)))
	switch key {
	case "branch.oid":
		if value != "(initial)" {
			p.out.Commit = value
		}
	case "branch.head":
		if p.out.Detached = value == "(detached)"; !p.out.Detached {
			p.out.Branch = value
		}
	case "branch.upstream":
		p.out.Upstream = value
	case "branch.ab":
		ahead, behind, _ := strings.Cut(value, " ")
		p.out.Ahead, _ = strconv.Atoi(strings.TrimPrefix(ahead, "+"))
		p.out.Behind, _ = strconv.Atoi(strings.TrimPrefix(behind, "-"))
	}
}

var statusWords = map[byte]string{
	'M': "modified", 'A': "added", 'D': "deleted", 'R': "renamed", 'C': "copied", 'T': "type changed",
}

var conflicts = map[string]string{
	"DD": "both deleted", "AU": "added by us", "UD": "deleted by them", "UA": "added by them", "DU": "deleted by us",
	"AA": "both added", "UU": "both modified",
}

// changed takes a record whose xy tells what differs in the index and in the working tree.
func (p *statusParser) changed(path, xy, from string) {
	for i, list := range []*gitChanges{&p.out.Staged, &p.out.Unstaged} {
		word, ok := statusWords[xy[i]]
		if !ok {
			continue
		}
		c := gitChange{gitPath: p.r.path(path), Status: word}
		if from != "" && (xy[i] == 'R' || xy[i] == 'C') {
			f := p.r.path(from)
			c.From = &f
		}
		p.add(list, c)
	}
}

func (p *statusParser) add(list *gitChanges, c gitChange) {
	list.Count++
	size := len(c.Path) + len(c.Base64)
	if c.From != nil {
		size += len(c.From.Path) + len(c.From.Base64)
	}
	if len(list.Files) >= maxStatusEntries || size > p.room {
		p.out.Truncated = true
		return
	}
	p.room -= size
	list.Files = append(list.Files, c)
}
