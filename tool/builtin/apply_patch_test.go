package builtin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

// patched calls apply_patch with a patch that must apply.
func (s *session) patched(patch string) (applyPatchResult, tool.Result) {
	s.t.Helper()
	res := s.call("apply_patch", args{"patch": patch})
	return decoded[applyPatchResult](s.t, res), res
}

// tree is every file of the session's folder with its content and mode.
func (s *session) tree() string {
	s.t.Helper()
	var b strings.Builder
	err := fs.WalkDir(os.DirFS(s.dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(s.path(p))
		if len(data) > 1<<20 {
			data = []byte(sandbox.Version(data))
		}
		fmt.Fprintf(&b, "%s %v %q\n", p, info.Mode(), data)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return b.String()
}

func TestAPatchChangesSeveralFiles(t *testing.T) {
	s := newSession(t, true)
	s.write("a.txt", "one\ntwo\nthree\n")
	s.write("gone.txt", "x\n")
	s.write("old/name.sh", "#!/bin/sh\nfalse\n")
	if err := os.Chmod(s.path("old/name.sh"), 0o750); err != nil {
		t.Fatal(err)
	}
	s.write("run.sh", "true\n")
	r, res := s.patched(manyFiles)
	want := `a.txt -rw-r--r-- "one\n2\nthree\n"
dir/new.sh -rwxr-xr-x "true\n"
new/name.sh -rwxr-x--- "#!/bin/sh\ntrue\n"
run.sh -rwxr-xr-x "true\n"
`
	if got := s.tree(); got != want {
		t.Errorf("the folder holds\n%swant\n%s", got, want)
	}
	var told []string
	for _, f := range r.Files {
		told = append(told, fmt.Sprint(f.Action, " ", f.From, f.Path, f.Lines, f.Diff))
	}
	if got := strings.Join(told, "\n"); got != `modified a.txt[1] {14 12 true}
created dir/new.sh[1] {0 5 true}
deleted gone.txt[1] {2 0 true}
renamed old/name.shnew/name.sh[1] {16 15 true}
modified run.sh[] {5 5 true}` {
		t.Errorf("%s", got)
	}
	if v := sandbox.Version([]byte("one\n2\nthree\n")); r.Files[0].Version != v || r.Files[2].Version != "" {
		t.Errorf("%+v", r.Files)
	}
	if res.Seen["dir/new.sh"] == "" || res.Seen["a.txt"] != "" {
		t.Errorf("seen %v; a file that was never read is not known", res.Seen)
	}
	for _, w := range []string{"-two\n+2\n", "--- /dev/null\n+++ b/dir/new.sh\n", "--- a/gone.txt\n+++ /dev/null\n", "rename from old/name.sh\nrename to new/name.sh\n", "run.sh: new mode 755\n"} {
		if !strings.Contains(res.Diff, w) {
			t.Errorf("the diff lacks %q:\n%s", w, res.Diff)
		}
	}
}

const manyFiles = `diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+2
 three
diff --git a/dir/new.sh b/dir/new.sh
new file mode 100755
--- /dev/null
+++ b/dir/new.sh
@@ -0,0 +1,1 @@
+true
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/old/name.sh b/new/name.sh
rename from old/name.sh
rename to new/name.sh
--- a/old/name.sh
+++ b/new/name.sh
@@ -1,2 +1,2 @@
 #!/bin/sh
-false
+true
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
`

func TestAnEnvelopeChangesSeveralFiles(t *testing.T) {
	s := newSession(t, true)
	s.write("a.py", "def f():\n    return 1\n\ndef g():\n    return 1\n")
	s.write("gone", "x")
	s.write("old", "a\r\nb\r\n")
	r, _ := s.patched("*** Begin Patch\n*** Update File: a.py\n@@ def g():\n-    return 1\n+    return 2\n*** Add File: new\n+hello\n*** Delete File: gone\n*** Update File: old\n*** Move to: moved\n@@\n a\n-b\n+c\n*** End Patch\n")
	want := `a.py -rw-r--r-- "def f():\n    return 1\n\ndef g():\n    return 2\n"
moved -rw-r--r-- "a\r\nc\r\n"
new -rw-r--r-- "hello\n"
`
	if got := s.tree(); got != want {
		t.Errorf("the folder holds\n%swant\n%s", got, want)
	}
	if len(r.Files) != 4 || r.Files[0].Lines[0] != 5 {
		t.Errorf("%+v", r.Files)
	}
}

// fi-01: only the bytes that were named change, whatever the endings around them.
func TestAPatchLeavesOtherLineEndingsAlone(t *testing.T) {
	for name, a := range map[string]args{
		"patch":    {"patch": "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\rprogress\n"},
		"envelope": {"patch": "*** Begin Patch\n*** Update File: f\n-b\n+B\n*** End Patch"},
		"edits":    {"path": "f", "edits": []args{{"old_text": "b\n", "new_text": "B\n"}}},
		"find":     {"path": "f", "find": "b", "replace": "B"},
	} {
		s := newSession(t, false)
		s.write("f", "a\r\nb\nc\rprogress\r\n")
		if err := os.Chmod(s.path("f"), 0o640); err != nil {
			t.Fatal(err)
		}
		decoded[applyPatchResult](t, s.call("apply_patch", a))
		if got := s.tree(); got != `f -rw-r----- "a\r\nB\nc\rprogress\r\n"`+"\n" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// fi-03: models write LF; the file keeps its own ending, and a text in two places is refused with both.
func TestAPatchTakesTheLineEndingOfTheFile(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "line1\r\nline2\r\nline3\r\n")
	s.patched("--- a/f\n+++ b/f\n@@\n-line2\n-line3\n+x\n+y\n+z\n")
	if got := s.content("f"); got != "line1\r\nx\r\ny\r\nz\r\n" {
		t.Errorf("%q", got)
	}
	decoded[applyPatchResult](t, s.call("apply_patch", args{"path": "f", "edits": []args{{"old_text": "x\ny", "new_text": "1\n2"}, {"old_text": "2\nz", "new_text": "3"}}}))
	if got := s.content("f"); got != "line1\r\n1\r\n3\r\n" {
		t.Errorf("%q", got)
	}
	s.write("two", "x\r\na\r\nb\r\ny\r\na\r\nb\r\n")
	before := s.tree()
	refused(t, s.call("apply_patch", args{"patch": "--- a/two\n+++ b/two\n@@\n a\n-b\n+c\n"}), tool.CodeConflict, "two", "2 places", "lines 2–3", "lines 5–6")
	refused(t, s.call("apply_patch", args{"path": "two", "find": "a\nb", "replace": "c"}), tool.CodeConflict, "argument find", "2 times", "lines 2, 5")
	if s.tree() != before {
		t.Error("the file changed")
	}
}

// fi-04: a hunk that fits two places is refused with both; one more line of context decides.
func TestAnAmbiguousHunkIsRefusedWithBothPlaces(t *testing.T) {
	s := newSession(t, false)
	block := "  begin\n  one\n  two\n  end\n"
	s.write("f", "first:\n"+block+"second:\n"+block)
	before := s.tree()
	refused(t, s.call("apply_patch", args{"patch": "--- a/f\n+++ b/f\n@@\n   begin\n   one\n-  two\n+  2\n   end\n"}),
		tool.CodeConflict, "2 places", "lines 2–5", "lines 7–10", "context")
	if s.tree() != before {
		t.Error("the file changed")
	}
	s.patched("--- a/f\n+++ b/f\n@@\n second:\n   begin\n   one\n-  two\n+  2\n   end\n")
	if got := s.content("f"); got != "first:\n"+block+"second:\n  begin\n  one\n  2\n  end\n" {
		t.Errorf("%q", got)
	}
}

// fi-05: a near miss never edits; the answer shows the nearest place and what differs there.
func TestANearMissEditsNothing(t *testing.T) {
	s := newSession(t, false)
	s.write("t.md", "| name | text | link |\n| --- | --- | --- |\n| alpha | the first row | [a](https://x/a) |\n| beta | the second row | [b](https://x/b) |\n| beta2 | the third row | [b](https://x/b) |\n")
	before := s.tree()
	res := s.call("apply_patch", args{"patch": "--- a/t.md\n+++ b/t.md\n@@\n-| beta | the other row | [b](https://x/b) |\n+| beta | gone |\n"})
	refused(t, res, tool.CodeNotFound, "t.md", "Nearest are line 4", "the second row", "the other row")
	if s.tree() != before {
		t.Error("the file changed")
	}
}

// fi-10: what another session changed is not lost, and the answer has both versions.
func TestAPatchOfAnOldReadIsStale(t *testing.T) {
	a := newSession(t, false)
	b := a.another()
	a.write("f", "one\ntwo\nthree\n")
	then := decoded[readResult](t, a.call("read", args{"path": "f"})).Version
	b.patched("--- a/f\n+++ b/f\n@@\n-two\n+2\n")
	now := sandbox.Version([]byte(a.content("f")))
	// What the patch names is not there any more: the session is told that its read is old.
	refused(t, a.call("apply_patch", args{"patch": "--- a/f\n+++ b/f\n@@\n-two\n+zwei\n"}), tool.CodeStale, then, now, "read it again")
	refused(t, a.call("apply_patch", args{"path": "f", "find": "two", "replace": "zwei"}), tool.CodeStale, then, now)
	// A version that is named is compared always.
	refused(t, a.call("apply_patch", args{"patch": "--- a/f\n+++ b/f\n@@\n-one\n+eins\n", "expected_version": then}), tool.CodeStale, then, now)
	// A deletion that does not show the content goes by the version that was seen.
	refused(t, a.call("apply_patch", args{"patch": "*** Begin Patch\n*** Delete File: f\n*** End Patch"}), tool.CodeStale, then, now)
	if got := a.content("f"); got != "one\n2\nthree\n" {
		t.Errorf("%q", got)
	}
	// Another place of the file can be changed, and after it a write from the old read is still stale.
	a.patched("--- a/f\n+++ b/f\n@@\n-one\n+eins\n")
	refused(t, a.call("write", args{"path": "f", "content": "mine"}), tool.CodeStale, then)
	if got := a.content("f"); got != "eins\n2\nthree\n" {
		t.Errorf("%q", got)
	}
	// After a read of it the patch makes the session know what it wrote.
	decoded[readResult](t, a.call("read", args{"path": "f"}))
	_, res := a.patched("--- a/f\n+++ b/f\n@@\n-three\n+drei\n")
	if res.Seen["f"] == "" {
		t.Error("the new version is not known")
	}
	decoded[writeResult](t, a.call("write", args{"path": "f", "content": "mine"}))
}

func TestAPatchThatCannotApplyWholeWritesNothing(t *testing.T) {
	s := newSession(t, true)
	s.write("a", "one\n")
	s.write("b", "two\n")
	s.write("locked", "x\n")
	if err := os.Chmod(s.path("locked"), 0o444); err != nil {
		t.Fatal(err)
	}
	s.write("bin", "a\x00b\n")
	s.write("big", strings.Repeat("x", 9<<20))
	good := "--- a/a\n+++ b/a\n@@\n-one\n+1\n"
	before := s.tree()
	for _, tc := range []struct {
		patch, code string
		words       []string
	}{
		{"--- a/b\n+++ b/b\n@@\n-nope\n+2\n", tool.CodeNotFound, []string{"b: "}},
		{"--- a/none\n+++ b/none\n@@\n-two\n+2\n", tool.CodeNotFound, []string{"none does not exist"}},
		{"--- /dev/null\n+++ b/b\n@@\n+2\n", tool.CodeConflict, []string{"b exists already"}},
		{"--- a/b\n+++ /dev/null\n@@\n-other\n", tool.CodeNotFound, []string{"b: "}},
		{"--- a/locked\n+++ b/locked\n@@\n-x\n+y\n", tool.CodePermissionDenied, []string{"locked is read-only"}},
		{"--- a/bin\n+++ b/bin\n@@\n-x\n+y\n", tool.CodeInvalidArguments, []string{"bin is binary"}},
		{"--- a/big\n+++ b/big\n@@\n-x\n+y\n", tool.CodeTooLarge, []string{"big has"}},
		{"--- a/./a\n+++ b/./a\n@@\n-one\n+2\n", tool.CodeInvalidArguments, []string{"names a twice"}},
		{"diff --git a/b b/c\nrename from b\nrename to a\n", tool.CodeInvalidArguments, []string{"two parts for a"}},
		{"diff --git a/b b/locked\nrename from b\nrename to locked\n", tool.CodeConflict, []string{"locked exists already"}},
		{"--- a/b\n+++ b/b\n@@\n-two\n+two\n", tool.CodeInvalidArguments, []string{"nothing would change in b"}},
		{"--- a/b\n+++ b/b\n@@\n*two\n", tool.CodeInvalidArguments, []string{"line 9 of the patch"}},
	} {
		refused(t, s.call("apply_patch", args{"patch": good + tc.patch}), tc.code, tc.words...)
		if s.tree() != before {
			t.Fatalf("%q changed the folder", tc.patch)
		}
	}
	refused(t, s.call("apply_patch", args{"path": "a", "edits": []args{{"old_text": "one", "new_text": "1"}, {"old_text": "two", "new_text": "2"}}}), tool.CodeNotFound, "edits[1].old_text")
	refused(t, s.call("apply_patch", args{"path": "a", "edits": []args{{"old_text": "one", "new_text": "1"}, {"old_text": "1", "new_text": "one"}}}), tool.CodeInvalidArguments, "change nothing")
	if s.tree() != before {
		t.Error("the folder changed")
	}
	// Half of a deletion is not one.
	s.write("b", "two\nthree\n")
	refused(t, s.call("apply_patch", args{"patch": "--- a/b\n+++ /dev/null\n@@\n-two\n"}), tool.CodeConflict, "only a part")
}

func TestArgumentsOfAPatchHaveOneForm(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "a\n")
	s.write("g", "a\n")
	patch := "--- a/f\n+++ b/f\n@@\n-a\n+b\n"
	for _, tc := range []struct {
		args args
		word string
	}{
		{args{}, "patch is missing"},
		{args{"patch": patch, "path": "f", "find": "a", "replace": "b"}, "exclude each other"},
		{args{"edits": []args{{"old_text": "a", "new_text": "b"}}}, "path is missing"},
		{args{"path": "f", "edits": []args{}}, "edits"},
		{args{"path": "f", "find": "a"}, "replace is missing"},
		{args{"path": "f", "replace": "a"}, "find is missing"},
		{args{"path": "f", "find": "", "replace": "b"}, "find is empty"},
		{args{"path": "f", "find": "a", "replace": "a"}, "find and replace are the same"},
		{args{"path": "f", "edits": []args{{"old_text": "a", "new_text": "b"}}, "replace_all": true}, "replace_all belongs to find"},
		{args{"path": "g", "patch": patch}, "path is g and the patch is for f"},
		{args{"patch": patch + "--- a/g\n+++ b/g\n@@\n-a\n+b\n", "expected_version": "0"}, "expected_version"},
		{args{"patch": ""}, "empty"},
	} {
		refused(t, s.call("apply_patch", tc.args), tool.CodeInvalidArguments, tc.word)
	}
	refused(t, s.call("apply_patch", args{"patch": strings.Repeat("x", 1<<20+1)}), tool.CodeTooLarge, "several patches")
	refused(t, s.call("apply_patch", args{"patch": "--- /dev/null\n+++ b/new\n@@\n+b\n", "expected_version": "0"}), tool.CodeStale, "new does not exist")
	if s.content("f") != "a\n" {
		t.Error("the file changed")
	}
	// path is right beside a patch of that file, and needed beside bare hunks.
	decoded[applyPatchResult](t, s.call("apply_patch", args{"patch": patch, "path": "./f", "expected_version": sandbox.Version([]byte("a\n"))}))
	decoded[applyPatchResult](t, s.call("apply_patch", args{"patch": "@@ -1 +1 @@\n-b\n+c\n", "path": "f"}))
	decoded[applyPatchResult](t, s.call("apply_patch", args{"path": "f", "find": "c", "replace": "", "replace_all": true}))
	if s.content("f") != "\n" {
		t.Errorf("%q", s.content("f"))
	}
}

// fi-13: the names in a patch are held like every path.
func TestPathsInAPatchThatLeadOutAreRefused(t *testing.T) {
	s := newSession(t, true)
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.write("a/in.txt", "inside\n")
	for link, target := range map[string]string{"escape": "/", "abs": secret, "stay": "a"} {
		if err := os.Symlink(target, s.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ path, code string }{
		{"escape/tmp/evil", tool.CodePermissionDenied},
		{"abs", tool.CodePermissionDenied},
		{"a/../../x", tool.CodePermissionDenied},
		{"../x", tool.CodePermissionDenied},
		{secret, tool.CodePermissionDenied},
		{"//server/x", tool.CodeInvalidArguments},
		{strings.Repeat("n", 300), tool.CodeInvalidArguments},
	} {
		for _, patch := range []string{
			"*** Begin Patch\n*** Update File: %s\n-s3cret\n+evil\n*** End Patch",
			"*** Begin Patch\n*** Add File: %s\n+evil\n*** End Patch",
			"*** Begin Patch\n*** Delete File: %s\n*** End Patch",
			"*** Begin Patch\n*** Update File: a/in.txt\n*** Move to: %s\n-inside\n+evil\n*** End Patch",
			"*** Begin Patch\n*** Update File: %s\n*** Move to: stolen\n-s3cret\n+evil\n*** End Patch",
			"--- a/%[1]s\n+++ b/%[1]s\n@@\n-s3cret\n+evil\n",
		} {
			if strings.HasPrefix(patch, "---") && strings.HasPrefix(tc.path, "/") {
				continue // behind a/ it is another path
			}
			res := s.call("apply_patch", args{"patch": fmt.Sprintf(patch, tc.path)})
			if res.Error == "" || res.Error != tc.code && !strings.Contains(patch, "Add File") && !strings.Contains(patch, "Move to: %s") {
				t.Errorf("%q: %s", fmt.Sprintf(patch, tc.path), res.Output)
			}
			if strings.Contains(res.Output, "s3cret") && !strings.Contains(tc.path, "s3cret") {
				t.Errorf("the answer tells the content: %s", res.Output)
			}
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "s3cret\n" {
		t.Errorf("the secret changed: %q, %v", b, err)
	}
	if _, err := os.Stat("/tmp/evil"); err == nil {
		t.Error("/tmp/evil exists")
	}
	// A link that stays inside works.
	s.patched("--- a/stay/in.txt\n+++ b/stay/in.txt\n@@\n-inside\n+changed\n")
	if s.content("a/in.txt") != "changed\n" {
		t.Error("the link inside was not followed")
	}
}

// brokenFiles fails to write one path.
type brokenFiles struct {
	sandbox.Session
	sandbox.Files
	sandbox.Remover
	path string
	err  error
}

func (b *brokenFiles) Replace(ctx context.Context, path string, data []byte, opts sandbox.ReplaceOptions) error {
	if path == b.path {
		return b.err
	}
	return b.Files.Replace(ctx, path, data, opts)
}

func (b *brokenFiles) Remove(ctx context.Context, path string, opts sandbox.RemoveOptions) error {
	if path == b.path {
		return b.err
	}
	return b.Remover.Remove(ctx, path, opts)
}

func TestAPatchThatBreaksHalfWaySaysWhatWasWritten(t *testing.T) {
	s := newSession(t, false)
	s.write("a", "one\n")
	s.write("b", "two\n")
	s.write("c", "three\n")
	real := s.env.Sandbox
	s.env.Sandbox = &brokenFiles{real, real.(sandbox.Files), real.(sandbox.Remover), "b", sandbox.ErrStale}
	decoded[readResult](t, s.call("read", args{"path": "a"}))
	patch := "--- a/a\n+++ b/a\n@@\n-one\n+1\n--- a/b\n+++ b/b\n@@\n-two\n+2\n--- a/c\n+++ b/c\n@@\n-three\n+3\n"
	res := s.call("apply_patch", args{"patch": patch})
	refused(t, res, tool.CodeStale, "b was changed by somebody else", "Written before it: modified a (version "+sandbox.Version([]byte("1\n"))+")", "Not written: b, c")
	if s.content("a") != "1\n" || s.content("b") != "two\n" || s.content("c") != "three\n" {
		t.Error(s.tree())
	}
	if !strings.Contains(res.Diff, "+1\n") || strings.Contains(res.Diff, "+2\n") || res.Seen["a"] == "" {
		t.Errorf("diff %q, seen %v", res.Diff, res.Seen)
	}
	s.env.Sandbox.(*brokenFiles).err = errors.New("disk full")
	refused(t, s.call("apply_patch", args{"patch": "diff --git a/b b/d\nrename from b\nrename to d\n--- a/c\n+++ b/c\n@@\n-three\n+3\n"}),
		tool.CodeFailed, "d was written, but b is still there", "Nothing was written before it", "Not written: d, c")
	// A sandbox that cannot remove says so before anything is written.
	s.env.Sandbox = &noRemover{real, real.(sandbox.Files)}
	refused(t, s.call("apply_patch", args{"patch": "--- a/c\n+++ b/c\n@@\n-three\n+3\n--- a/b\n+++ /dev/null\n@@\n-two\n"}), tool.CodeUnavailable, "deleted or renamed")
	if s.content("c") != "three\n" {
		t.Error("something was written")
	}
}

type noRemover struct {
	sandbox.Session
	sandbox.Files
}
