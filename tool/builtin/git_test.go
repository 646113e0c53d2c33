package builtin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/sandbox/local"
	"github.com/harness-go/harness/tool"
)

// newRepository is a session in a new git repository with one commit of the given files.
func newRepository(t testing.TB, files map[string]string) *session {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	s := newSession(t, true)
	s.git("init", "-q", "-b", "main")
	for name, text := range files {
		s.write(name, text)
	}
	s.git("add", "-A")
	s.git("commit", "-q", "--allow-empty", "-m", "first")
	return s
}

// git runs git as a person would.
func (s *session) git(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestGitStatusTellsWhatChanged(t *testing.T) {
	s := newRepository(t, map[string]string{"a": "one\n", "b": "two\ntwo\ntwo\n", "c": "three\n", "d": "four\n", "with space": "x\n"})
	if r := decoded[gitStatusResult](t, s.call("git_status", nil)); !r.Clean || r.Branch != "main" || r.Commit != s.git("rev-parse", "HEAD") {
		t.Errorf("%+v", r)
	}
	s.write("a", "changed\n")
	s.git("add", "a")
	s.write("a", "changed again\n")
	s.git("mv", "b", "moved b")
	s.git("rm", "-q", "c")
	if err := os.Remove(s.path("d")); err != nil {
		t.Fatal(err)
	}
	s.write("with space", "y\n")
	s.write("new\nline", "x")
	s.write("caf\xe9", "x")
	s.write("dir/u1", "x")
	res := s.call("git_status", nil)
	r := decoded[gitStatusResult](t, res)
	show := func(c gitChanges) string {
		var all []string
		for _, f := range c.Files {
			one := f.Status + " " + f.Path + f.Base64
			if f.From != nil {
				one += " from " + f.From.Path
			}
			all = append(all, one)
		}
		return fmt.Sprintf("%d: %s", c.Count, strings.Join(all, ", "))
	}
	if r.Clean || r.Truncated {
		t.Errorf("%+v", r)
	}
	for got, want := range map[string]string{
		show(r.Staged):     "3: modified a, deleted c, renamed moved b from b",
		show(r.Unstaged):   "3: modified a, deleted d, modified with space",
		show(r.Untracked):  "3:  caf\uFFFDY2Fm6Q==,  dir/,  new\nline",
		show(r.Conflicted): "0: ",
	} {
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestGitStatusTellsBranchesAndConflicts(t *testing.T) {
	s := newRepository(t, map[string]string{"f": "base\n"})
	s.git("checkout", "-q", "-b", "side")
	s.write("f", "side\n")
	s.git("commit", "-q", "-am", "side")
	s.git("checkout", "-q", "main")
	s.write("f", "main\n")
	s.git("commit", "-q", "-am", "main")
	s.git("branch", "-q", "--set-upstream-to=side")
	r := decoded[gitStatusResult](t, s.call("git_status", nil))
	if r.Upstream != "side" || r.Ahead != 1 || r.Behind != 1 {
		t.Errorf("%+v", r)
	}
	cmd := exec.Command("git", "merge", "-q", "side")
	cmd.Dir = s.dir
	_ = cmd.Run() // it ends with a conflict
	r = decoded[gitStatusResult](t, s.call("git_status", nil))
	if len(r.Conflicted.Files) != 1 || r.Conflicted.Files[0].Path != "f" || r.Conflicted.Files[0].Status != "both modified" || r.Clean {
		t.Errorf("%+v", r)
	}
	s.git("reset", "-q", "--hard")
	s.git("checkout", "-q", "--detach")
	if r := decoded[gitStatusResult](t, s.call("git_status", nil)); !r.Detached || r.Branch != "" || !r.Clean {
		t.Errorf("%+v", r)
	}
}

func TestGitToolsWorkBelowTheRootOfARepository(t *testing.T) {
	s := newRepository(t, map[string]string{"top": "x\n", "sub/in": "x\n", "sub/gone": "x\n"})
	s.write("top", "changed\n")
	s.write("sub/in", "changed\n")
	if err := os.Remove(s.path("sub/gone")); err != nil {
		t.Fatal(err)
	}
	below := sessionIn(t, s.path("sub"), true)
	r := decoded[gitStatusResult](t, below.call("git_status", nil))
	if r.Unstaged.Count != 2 || r.Unstaged.Files[0].Path != "gone" || r.Unstaged.Files[1].Path != "in" {
		t.Errorf("%+v", r)
	}
	d := decoded[gitDiffResult](t, below.call("git_diff", args{"path": "gone"}))
	if len(d.Files) != 1 || d.Files[0].Path != "gone" || d.Files[0].Deleted != 1 || !strings.Contains(d.Diff, "--- a/gone\n+++ /dev/null\n") {
		t.Errorf("%+v", d)
	}
	if d := decoded[gitDiffResult](t, below.call("git_diff", nil)); len(d.Files) != 2 || strings.Contains(d.Diff, "top") {
		t.Errorf("%+v", d)
	}
}

func TestGitDiffShowsChangesAgainstIndexHeadAndCommits(t *testing.T) {
	s := newRepository(t, map[string]string{"f": "one\n", "bin": "a\x00b", "old": strings.Repeat("same\n", 10)})
	first := s.git("rev-parse", "HEAD")
	s.git("tag", "v1")
	s.write("f", "two\n")
	s.git("commit", "-q", "-am", "second")
	s.write("f", "three\n")
	s.git("add", "f")
	s.write("f", "four\n")
	s.write("bin", "a\x00c")
	s.git("mv", "old", "new")
	for _, tc := range []struct {
		args  args
		words []string
		files int
	}{
		{nil, []string{"-three\n+four\n", "Binary files a/bin and b/bin differ"}, 2},
		{args{"staged": true}, []string{"-two\n+three\n", "rename from old\nrename to new\n"}, 2},
		{args{"base": "v1", "path": "f"}, []string{"-one\n+four\n"}, 1},
		{args{"base": "HEAD~1", "staged": true, "path": "./f"}, []string{"-one\n+three\n"}, 1},
		{args{"path": s.path("f")}, []string{"-three\n+four\n"}, 1},
		{args{"path": "nothing/there"}, nil, 0},
		{args{"stat": true}, nil, 2},
	} {
		d := decoded[gitDiffResult](t, s.call("git_diff", tc.args))
		if len(d.Files) != tc.files || len(tc.words) == 0 && d.Diff != "" {
			t.Errorf("%v: %+v", tc.args, d)
		}
		for _, w := range tc.words {
			if !strings.Contains(d.Diff, w) {
				t.Errorf("%v lacks %q: %s", tc.args, w, d.Diff)
			}
		}
		if tc.args["base"] != nil && d.Base != first {
			t.Errorf("%v: base %s, want %s", tc.args, d.Base, first)
		}
	}
	d := decoded[gitDiffResult](t, s.call("git_diff", args{"stat": true}))
	if b, f := d.Files[0], d.Files[1]; b.Path != "bin" || !b.Binary || f.Path != "f" || f.Added != 1 || f.Deleted != 1 {
		t.Errorf("%+v", d.Files)
	}
	d = decoded[gitDiffResult](t, s.call("git_diff", args{"staged": true, "stat": true}))
	if n := d.Files[1]; n.Path != "new" || n.From == nil || n.From.Path != "old" {
		t.Errorf("%+v", d.Files)
	}
}

func TestALongDiffIsCutAndKeptWhole(t *testing.T) {
	s := newRepository(t, map[string]string{"f": ""})
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "line %d é\n", i)
	}
	s.write("f", b.String())
	for _, limit := range []int{0, 2048} {
		a := args{}
		if limit > 0 {
			a["max_bytes"] = limit
		} else {
			limit = outputCap
		}
		res := s.call("git_diff", a)
		d := decoded[gitDiffResult](t, res)
		if !d.Truncated || !res.Truncated || len(d.Diff) > limit || d.TotalBytes < int64(b.Len()) || d.Files[0].Added != 20_000 {
			t.Errorf("%d bytes of %d, %+v", len(d.Diff), d.TotalBytes, d.Files)
		}
		whole, _ := s.readAll("artifact:"+d.Artifact, 1<<20)
		if int64(len(whole)) != d.TotalBytes || !strings.Contains(whole, "+line 10000 é\n") {
			t.Errorf("the artifact has %d bytes", len(whole))
		}
	}
	if s.liveText() != "" {
		t.Error("a diff is not live output")
	}
}

func TestWhatIsNoCommitIsRefusedBeforeGitSeesIt(t *testing.T) {
	s := newRepository(t, map[string]string{"f": "x\n"})
	for base, code := range map[string]string{
		"--output=" + s.path("evil"): tool.CodeInvalidArguments,
		"-h":                         tool.CodeInvalidArguments,
		"main..side":                 tool.CodeInvalidArguments,
		"a b":                        tool.CodeInvalidArguments,
		"HEAD:f":                     tool.CodeInvalidArguments,
		"x\n":                        tool.CodeInvalidArguments,
		strings.Repeat("a", 300):     tool.CodeInvalidArguments,
		"nope":                       tool.CodeNotFound,
		"HEAD~9":                     tool.CodeNotFound,
	} {
		refused(t, s.call("git_diff", args{"base": base}), code, "argument base")
	}
	if _, err := os.Stat(s.path("evil")); err == nil {
		t.Error("git took an option")
	}
	for _, p := range []string{"../x", "/etc/passwd", "a/../../x", strings.Repeat("n", 300)} {
		res := s.call("git_diff", args{"path": p})
		if res.Error != tool.CodePermissionDenied && res.Error != tool.CodeInvalidArguments {
			t.Errorf("%s: %s", p, res.Output)
		}
	}
	// A path is a path and never a pattern or an option.
	for _, p := range []string{":(top)f", "*", "--cached"} {
		if d := decoded[gitDiffResult](t, s.call("git_diff", args{"path": p})); len(d.Files) != 0 {
			t.Errorf("%s: %+v", p, d)
		}
	}
}

func TestWithoutARepositoryGitToolsSaySo(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	s := newSession(t, false)
	for _, name := range []string{"git_status", "git_diff"} {
		refused(t, s.call(name, nil), tool.CodeNotFound, "not in a git repository")
	}
	repo := newRepository(t, nil)
	inside := sessionIn(t, repo.path(".git"), false)
	refused(t, inside.call("git_status", nil), tool.CodeNotFound, "not of a working tree")
	// A repository without commits has a status and no diff.
	s.git("init", "-q", "-b", "main")
	s.write("f", "x\n")
	if r := decoded[gitStatusResult](t, s.call("git_status", nil)); r.Commit != "" || r.Branch != "main" || r.Untracked.Count != 1 {
		t.Errorf("%+v", r)
	}
	if d := decoded[gitDiffResult](t, s.call("git_diff", nil)); len(d.Files) != 0 {
		t.Errorf("%+v", d)
	}
	refused(t, s.call("git_diff", args{"base": "HEAD"}), tool.CodeNotFound, "no commit")
}

func TestWithoutGitTheToolsAreUnavailable(t *testing.T) {
	s := newSession(t, false)
	sb, err := local.NewProvider(local.Options{}).CreateSession(t.Context(), sandbox.CreateOptions{Root: s.dir, Env: map[string]string{"PATH": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(t.Context()) })
	s.env.Sandbox = sb
	refused(t, s.call("git_status", nil), tool.CodeUnavailable, "git is not installed")
}

// A repository's own configuration names programs; readonly tools run none of them.
func TestARepositoryCannotMakeAStatusOrDiffRunItsPrograms(t *testing.T) {
	s := newRepository(t, map[string]string{"f.txt": "one\n", "f.lfs": "one\n", ".gitattributes": "*.txt diff=evil\n*.lfs filter=evil\n"})
	marker := filepath.Join(t.TempDir(), "ran")
	script := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >> "+marker+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hooks := t.TempDir()
	for _, h := range []string{"post-index-change", "fsmonitor-watchman", "pre-commit", "reference-transaction"} {
		if err := os.Symlink(script, filepath.Join(hooks, h)); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range map[string]string{
		"core.fsmonitor": script, "core.hooksPath": hooks, "core.pager": script, "pager.diff": script, "pager.status": script,
		"diff.external": script, "diff.evil.textconv": script, "diff.evil.command": script,
		"filter.evil.clean": script, "filter.evil.smudge": script, "filter.evil.process": script, "filter.evil.required": "true",
		"filter.With.Dots.clean": script, "core.askPass": script, "core.sshCommand": script, "status.submoduleSummary": "true",
		"alias.status": "!" + script, "alias.diff": "!" + script,
	} {
		s.git("config", key, value)
	}
	s.write("f.txt", "two\n")
	s.write("f.lfs", "two\n")
	// The marker works: git without the switches runs the programs.
	cmd := exec.Command("git", "diff")
	cmd.Dir = s.dir
	_ = cmd.Run()
	if _, err := os.Stat(marker); err != nil {
		t.Fatal("the repository is harmless, the test shows nothing")
	}
	if err := os.Remove(marker); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(s.path(".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	r := decoded[gitStatusResult](t, s.call("git_status", nil))
	if r.Unstaged.Count != 2 {
		t.Errorf("%+v", r)
	}
	for _, a := range []args{nil, {"staged": true}, {"base": "HEAD"}} {
		d := decoded[gitDiffResult](t, s.call("git_diff", a))
		if a == nil && !strings.Contains(d.Diff, "-one\n+two\n") {
			t.Errorf("%+v", d)
		}
	}
	if ran, err := os.ReadFile(marker); err == nil {
		t.Errorf("the repository ran its program: %s", ran)
	}
	if after, err := os.ReadFile(s.path(".git/index")); err != nil || string(after) != string(index) {
		t.Error("a readonly tool changed the index")
	}
	s.git("config", "filter.a=b.clean", script)
	refused(t, s.call("git_status", nil), tool.CodePermissionDenied, `"a=b"`, "cannot be switched off")
}

func TestManyChangesAreCountedAndListedInPart(t *testing.T) {
	s := newRepository(t, nil)
	for i := range maxStatusEntries + 5 {
		s.write(fmt.Sprintf("f%03d", i), "x")
	}
	res := s.call("git_status", nil)
	r := decoded[gitStatusResult](t, res)
	if r.Untracked.Count != maxStatusEntries+5 || len(r.Untracked.Files) != maxStatusEntries || !r.Truncated || !res.Truncated || r.Clean {
		t.Errorf("%d of %d, truncated %v", len(r.Untracked.Files), r.Untracked.Count, r.Truncated)
	}
}

// FuzzGitStatus: no output of git makes the parser panic, and what it gives is text.
func FuzzGitStatus(f *testing.F) {
	f.Add([]byte("# branch.oid 1\x00# branch.head main\x00# branch.ab +1 -2\x001 .M N... 100644 100644 100644 a b a file\x002 R. N... 1 2 3 4 5 R100 new\x00old\x00u UU N... 1 2 3 4 5 6 7 f\x00? x\xff\x00"), true)
	f.Fuzz(func(t *testing.T, data []byte, cut bool) {
		r := (&repository{prefix: "sub/"}).parseStatus(data, cut)
		if _, err := tool.JSONResult(r); err != nil {
			t.Fatal(err)
		}
		for _, c := range []gitChanges{r.Staged, r.Unstaged, r.Untracked, r.Conflicted} {
			if len(c.Files) > c.Count || len(c.Files) > maxStatusEntries || c.Count > 0 && r.Clean {
				t.Fatalf("%+v", r)
			}
		}
		var d gitDiffResult
		parseStats(&d, string(data))
		if len(d.Files) > maxStatusEntries {
			t.Fatal("too many files")
		}
	})
}
