package patch

import (
	"errors"
	"strings"
	"testing"
)

// parse reads a patch that must be valid.
func parse(t testing.TB, text string) []File {
	t.Helper()
	files, err := Parse(text, "f")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return files
}

func wantError(t testing.TB, err error, kind Kind, words ...string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Kind != kind {
		t.Errorf("got %v, want an error of kind %d", err, kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(e.Text, w) {
			t.Errorf("the message does not say %q: %s", w, e.Text)
		}
	}
}

// apply applies a patch of one file.
func apply(t testing.TB, data, text string) (string, error) {
	t.Helper()
	files := parse(t, text)
	if len(files) != 1 {
		t.Fatalf("%d files", len(files))
	}
	out, _, err := Apply([]byte(data), files[0].Hunks)
	return string(out), err
}

func TestAHunkGoesWhereItsLinesStandWhateverItsNumbersSay(t *testing.T) {
	const file = "one\ntwo\nthree\nfour\nfive\n"
	for name, patch := range map[string]string{
		"right numbers":   "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n",
		"wrong numbers":   "--- a/f\n+++ b/f\n@@ -77,3 +99,3 @@ func x\n two\n-three\n+3\n four\n",
		"wrong counts":    "--- a/f\n+++ b/f\n@@ -2,9 +2,1 @@\n two\n-three\n+3\n four\n",
		"counts too low":  "--- a/f\n+++ b/f\n@@ -2,1 +2,1 @@\n two\n-three\n+3\n four\n",
		"no numbers":      "--- a/f\n+++ b/f\n@@ @@\n two\n-three\n+3\n four\n",
		"bare":            "--- a/f\n+++ b/f\n@@\n two\n-three\n+3\n four\n",
		"no header":       "@@\n two\n-three\n+3\n four\n",
		"empty line last": "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n\n\n",
		"not ended":       "--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four",
		"git":             "diff --git a/f b/f\nindex 1234567..89abcde 100644\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n",
		"odd index":       "diff --git a/f b/f\nindex abc\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n",
		"no prefixes":     "diff --git f f\n--- f\n+++ f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n",
		"timestamps":      "--- f\t2024-01-02 03:04:05\n+++ f\t2024-01-02 03:04:06\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n",
		"all CRLF":        "--- a/f\r\n+++ b/f\r\n@@ -2,3 +2,3 @@\r\n two\r\n-three\r\n+3\r\n four\r\n",
		"fenced":          "```diff\n--- a/f\n+++ b/f\n@@\n two\n-three\n+3\n four\n```\n",
		"mail":            "From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n---\n f | 2 +-\n\ndiff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -2,3 +2,3 @@\n two\n-three\n+3\n four\n-- \n2.39.5\n\n",
		"envelope":        "*** Begin Patch\n*** Update File: f\n@@\n two\n-three\n+3\n four\n*** End Patch\n",
		"envelope, bare":  "*** Begin Patch\n*** Update File: f\n two\n-three\n+3\n four\n\n*** End Patch",
		"envelope, both":  "*** Begin Patch\n*** Update File: f\n@@ -1,2 +3,4 @@\n two\n-three\n+3\n four\n*** End Patch",
	} {
		t.Run(name, func(t *testing.T) {
			files := parse(t, patch)
			if len(files) != 1 || files[0].Path != "f" || files[0].Op != Modify || files[0].Exec != KeepExec {
				t.Fatalf("%+v", files)
			}
			out, lines, err := Apply([]byte(file), files[0].Hunks)
			if err != nil || string(out) != "one\ntwo\n3\nfour\nfive\n" || lines[0] != 2 {
				t.Errorf("%q, %v, %v", out, lines, err)
			}
		})
	}
}

func TestLinesThatLookLikeHeadersAreLines(t *testing.T) {
	const file = "a\n-- old\nb\n"
	for name, text := range map[string]string{
		"last":       "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n--- old\n+++ new\n",
		"and a hunk": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n--- old\n+++ new\n@@ -3 +3 @@\n-b\n+b\n+c\n",
		"inside":     "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n--- old\n+++ new\n b\n",
	} {
		out, err := apply(t, file, text)
		if err != nil || !strings.HasPrefix(out, "a\n++ new\nb\n") {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	// Without counts two such lines are the header of the next file.
	files := parse(t, "--- a/f\n+++ b/f\n@@\n a\n-b\n+c\n--- a/g\n+++ b/g\n@@\n-x\n+y\n")
	if len(files) != 2 || files[1].Path != "g" || len(files[0].Hunks[0].Lines) != 3 {
		t.Errorf("%+v", files)
	}
}

func TestEachPartBecomesItsOperation(t *testing.T) {
	files := parse(t, `diff --git a/new.sh b/new.sh
new file mode 100755
index 0000000..1234567
--- /dev/null
+++ b/new.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+true
diff --git a/gone b/gone
deleted file mode 100644
index 1234567..0000000
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/old name b/new name
similarity index 90%
rename from old name
rename to new name
--- a/old name
+++ b/new name
@@ -1 +1 @@
-x
+y
diff --git a/tool b/tool
old mode 100755
new mode 100644
diff --git a/src b/dst
similarity index 100%
copy from src
copy to dst
diff --git "a/caf\303\251" "b/caf\303\251"
--- "a/caf\303\251"
+++ "b/caf\303\251"
@@ -1 +1 @@
-x
+y
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
--- /dev/null
+++ plain/path
@@ -0,0 +1 @@
+x
--- left
+++ left
@@ -1 +1 @@
-x
+y
`)
	want := []File{
		{Op: Create, Path: "new.sh", Exec: SetExec}, {Op: Delete, Path: "gone", Shown: true},
		{Op: Rename, Path: "new name", From: "old name"}, {Op: Modify, Path: "tool", Exec: ClearExec},
		{Op: Copy, Path: "dst", From: "src"}, {Op: Modify, Path: "café"}, {Op: Create, Path: "empty"},
		{Op: Create, Path: "plain/path"}, {Op: Modify, Path: "left"},
	}
	if len(files) != len(want) {
		t.Fatalf("%d files: %+v", len(files), files)
	}
	for i, w := range want {
		f := files[i]
		if f.Op != w.Op || f.Path != w.Path || f.From != w.From || f.Exec != w.Exec || f.Shown != w.Shown {
			t.Errorf("%d: %+v, want %+v", i, f, w)
		}
	}
}

func TestTheEnvelopesParts(t *testing.T) {
	files := parse(t, `*** Begin Patch
*** Add File: new.txt
+one
+
+three
*** Add File: empty
*** Delete File: gone
*** Update File: old
*** Move to: moved
@@ class A
@@   def f():
-x
+y

@@
 last
+line
*** End of File
*** End Patch
`)
	if len(files) != 4 {
		t.Fatalf("%+v", files)
	}
	if f := files[0]; f.Op != Create || len(f.Hunks) != 1 || len(f.Hunks[0].Lines) != 3 || f.Hunks[0].Lines[1].Text != "" {
		t.Errorf("%+v", f)
	}
	if f := files[1]; f.Op != Create || len(f.Hunks) != 0 {
		t.Errorf("%+v", f)
	}
	if f := files[2]; f.Op != Delete || f.Shown || f.Path != "gone" {
		t.Errorf("%+v", f)
	}
	f := files[3]
	if f.Op != Rename || f.From != "old" || f.Path != "moved" || len(f.Hunks) != 2 {
		t.Fatalf("%+v", f)
	}
	if h := f.Hunks[0]; strings.Join(h.Anchors, "|") != "class A|def f():" || len(h.Lines) != 2 || h.AtEnd {
		t.Errorf("%+v", h)
	}
	if h := f.Hunks[1]; len(h.Anchors) != 0 || !h.AtEnd {
		t.Errorf("%+v", h)
	}
}

func TestPatchesThatCannotBeReadSayWhereAndWhy(t *testing.T) {
	for text, words := range map[string][]string{
		"":                                {"empty"},
		"hello\n":                         {"names no file"},
		"--- a/x\n+++ b/x\n":              {"line 1", "nothing is to change in x"},
		"--- a/x\n+++ b/x\n@@ -1 +1 @@\n": {"line 3", "hunk is empty"},
		"--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\nb\n":                                                           {"line 5", `"b"`, "begin with a space"},
		"--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n":                                                                  {"line 3", "adds and removes nothing"},
		"--- a/x\n+++ b/x\n+foo\n":                                                                             {"line 3", "no hunk"},
		"--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n":                                                              {"x and y differ", "rename from"},
		"--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n":                                                  {"line 1", "/dev/null"},
		"--- /dev/null\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n":                                                        {"x is a new file"},
		"--- a/x\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n":                                                        {"x is deleted"},
		"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+t\n":                {"symbolic links"},
		"diff --git a/m b/m\nindex 1..2 160000\n--- a/m\n+++ b/m\n@@ -1 +1 @@\n-a\n+b\n":                       {"submodules"},
		"diff --git a/b b/b\nindex 1..2\nBinary files a/b and b/b differ\n":                                    {"line 3", "binary"},
		"diff --git a/b b/b\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZ\n":                                  {"binary"},
		"diff --git x/y x/y\nold mode 100644\nnew mode 100755\n":                                               {"diff --git a/<path> b/<path>"},
		"--- a/x\n+++ b/x\n@@\n-a\n+b\n--- /dev/null\n+++ b/x\n@@\n+b\n":                                       {"two parts for x"},
		"--- a/x\n+++ b/x\n@@\n+a\n\\ No newline at end of file\n+b\n":                                         {"in the middle"},
		"--- a/x\n+++ b/x\n@@\n\\ No newline at end of file\n":                                                 {"follows no line"},
		"--- \"a/x\n+++ b/x\n@@\n-a\n+b\n":                                                                     {"quoted name"},
		"--- a/x\n+++ b/x\n@@\n-a\x00\n+b\n":                                                                   {"NUL"},
		"*** Begin Patch\n*** Update File: x\n@@\n-a\n+b\n":                                                    {"End Patch", "cut off"},
		"*** Begin Patch\n*** Add File: x\nfoo\n*** End Patch\n":                                               {"line 3", "begin with"},
		"*** Begin Patch\n*** Burn File: x\n*** End Patch\n":                                                   {"line 2", "Burn"},
		"*** Begin Patch\n*** Update File: x\n*** End Patch\n":                                                 {"nothing is to change"},
		"*** Begin Patch\n*** Update File: x\n*** End of File\n*** End Patch\n":                                {"follows no hunk"},
		"*** Begin Patch\n*** End Patch\n--- a/x\n":                                                            {"line 3", "stands after"},
		"*** Begin Patch\n*** End Patch\n":                                                                     {"names no file"},
		"*** Begin Patch\n*** Update File: x\n*** Move to: y\n@@\n-a\n+b\n*** Delete File: x\n*** End Patch\n": {"another part for x"},
	} {
		files, err := Parse(text, "")
		if err == nil {
			t.Errorf("%q gave %+v", text, files)
			continue
		}
		wantError(t, err, Invalid, words...)
	}
	_, err := Parse("@@\n-a\n+b\n", "")
	wantError(t, err, Invalid, "stands under no file", "path")
}

func TestTheNewlineAtTheEndIsKeptUnlessThePatchSaysOtherwise(t *testing.T) {
	const none = "\\ No newline at end of file\n"
	head := "--- a/f\n+++ b/f\n@@\n"
	for _, tc := range []struct{ name, file, patch, want string }{
		{"kept without a mark", "a\nb", head + " a\n-b\n+c\n", "a\nc"},
		{"kept when lines follow", "a\nb", head + " b\n+c\n", "a\nb\nc"},
		{"kept where nothing changes", "a\nb", head + "-a\n+c\n b\n", "c\nb"},
		{"kept with CRLF", "a\r\nb", head + " b\n+c\n", "a\r\nb\r\nc"},
		{"marks on both sides", "a\nb", head + " a\n-b\n" + none + "+c\n" + none, "a\nc"},
		{"added", "a\nb", head + " a\n-b\n" + none + "+b\n", "a\nb\n"},
		{"added with CRLF", "a\r\nb", head + "-b\n" + none + "+b\n", "a\r\nb\r\n"},
		{"removed", "a\nb\n", head + " a\n-b\n+b\n" + none, "a\nb"},
		{"the last line removed", "a\nb", head + " a\n-b\n" + none, "a\n"},
		{"all removed", "a\nb", head + "-a\n-b\n", ""},
		{"an empty file filled", "", head + "+a\n", "a\n"},
		{"an empty file filled without", "", head + "+a\n" + none, "a"},
		{"context with a mark", "a\nb", head + "-a\n+x\n b\n" + none, "x\nb"},
	} {
		out, err := apply(t, tc.file, tc.patch)
		if err != nil || out != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.name, out, err, tc.want)
		}
	}
	_, err := apply(t, "a\nb\n", head+"-b\n"+none+"+c\n")
	wantError(t, err, Missing, "newline at its end")
	_, err = apply(t, "b\na\n", head+"-b\n+c\n"+none)
	wantError(t, err, Missing, "not the end of the file")
}

func TestLineEndingsAreThoseOfTheFile(t *testing.T) {
	head := "--- a/f\n+++ b/f\n@@\n"
	for _, tc := range []struct{ name, file, patch, want string }{
		{"one word in a mixed file", "a\r\nb\nc\rprogress\r\n", head + " a\n-b\n+B\n c\rprogress\n", "a\r\nB\nc\rprogress\r\n"},
		{"LF patch, CRLF file", "a\r\nb\r\nc\r\n", head + " a\n-b\n+x\n+y\n c\n", "a\r\nx\r\ny\r\nc\r\n"},
		{"CRLF patch, LF file", "a\nb\nc\n", head + " a\r\n-b\r\n+x\r\n c\r\n", "a\nx\nc\n"},
		{"endings that the patch shows count", "a\r\nb\na\nb\n", head + " a\r\n-b\n+x\n", "a\r\nx\na\nb\n"},
		{"endings are what the patch changes", "a\r\nb\r\n", head + "-a\r\n+a\n b\r\n", "a\nb\r\n"},
		{"an added line is like its neighbours", "a\r\nb\nc\n", head + " a\n+x\n b\n", "a\r\nx\r\nb\nc\n"},
		{"first line", "a\r\nb\n", head + "+x\n a\n", "x\r\na\r\nb\n"},
		{"each line like the one that it replaces", "a\r\nb\nc\n", head + "-a\n-b\n+x\n+y\n+z\n c\n", "x\r\ny\nz\nc\n"},
		{"bare CR", "a\rb\nc\n", head + "-a\rb\n+a\rB\n c\n", "a\rB\nc\n"},
		{"a bare CR at the end", "x\ny\r", head + " x\n-y\r\n+z\n", "x\nz"},
	} {
		out, err := apply(t, tc.file, tc.patch)
		if err != nil || out != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.name, out, err, tc.want)
		}
	}
}

func TestAHunkThatFitsSeveralPlacesIsRefused(t *testing.T) {
	file := "x {\n  a\n  b\n}\ny {\n  a\n  b\n}\n"
	_, err := apply(t, file, "--- a/f\n+++ b/f\n@@ -6,3 +6,3 @@\n   a\n-  b\n+  c\n }\n")
	wantError(t, err, Ambiguous, "2 places", "lines 2–4", "lines 6–8", "context")
	out, err := apply(t, file, "--- a/f\n+++ b/f\n@@\n y {\n   a\n-  b\n+  c\n }\n")
	if err != nil || out != "x {\n  a\n  b\n}\ny {\n  a\n  c\n}\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = apply(t, strings.Repeat("a\n", 50), "--- a/f\n+++ b/f\n@@\n-a\n+b\n")
	wantError(t, err, Ambiguous, "50 places", "line 1, line 2", "and 40 more")
}

func TestAnchorsChooseAmongPlaces(t *testing.T) {
	file := `def f():
    x = 1
    return x

def g(a,
      b):
    x = 1
    return x

class A:
    def f(self):
        x = 1
        return x

    def g(self):
        x = 1
        return x
`
	patch := func(anchors, depth string) string {
		return "*** Begin Patch\n*** Update File: f\n" + anchors + "-" + depth + "x = 1\n+" + depth + "x = 2\n*** End Patch\n"
	}
	for _, tc := range []struct {
		anchors, depth string
		line           int
	}{
		{"@@ def f():\n", "    ", 2},
		{"@@ def g(a,\n", "    ", 7},
		{"@@ class A:\n@@ def f(self):\n", "        ", 12},
		{"@@ class A:\n@@ def g(self):\n", "        ", 16},
		{"@@ def g(self): @@\n", "        ", 16},
	} {
		files := parse(t, patch(tc.anchors, tc.depth))
		out, lines, err := Apply([]byte(file), files[0].Hunks)
		if err != nil || lines[0] != tc.line || strings.Count(string(out), "x = 2") != 1 {
			t.Errorf("%q: %v, %v", tc.anchors, lines, err)
		}
	}
	_, err := apply(t, file, patch("@@ class A:\n", "        "))
	wantError(t, err, Ambiguous, "line 12", "line 16")
	_, err = apply(t, file, patch("@@ class B:\n", "        "))
	wantError(t, err, Missing, "class B:")
	_, err = apply(t, "x\ny\nanchor\n", "*** Begin Patch\n*** Update File: f\n@@ anchor\n-x\n+z\n*** End Patch\n")
	wantError(t, err, Missing, "not behind", "anchor")
	// A place that is alone needs only stand behind its anchor.
	out, err := apply(t, "# part\ny\nx\n", "*** Begin Patch\n*** Update File: f\n@@ # part\n-x\n+z\n*** End Patch\n")
	if err != nil || out != "# part\ny\nz\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestTheEndOfFileMarkChoosesTheEnd(t *testing.T) {
	patch := "*** Begin Patch\n*** Update File: f\n@@\n a\n+b\n*** End of File\n*** End Patch\n"
	out, err := apply(t, "a\nx\na\n", patch)
	if err != nil || out != "a\nx\na\nb\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err = apply(t, "a\nx\n", "*** Begin Patch\n*** Update File: f\n@@\n+b\n*** End of File\n*** End Patch\n")
	if err != nil || out != "a\nx\nb\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = apply(t, "a\nx\n", "*** Begin Patch\n*** Update File: f\n@@\n+b\n*** End Patch\n")
	wantError(t, err, Invalid, "no line that stands in the file")
}

func TestAMissShowsTheNearestPlaceAndWhatDiffers(t *testing.T) {
	table := "| name | link |\n| one | [a](x) |\n| two | [b](x) |\n| three | [c](x) |\n"
	_, err := apply(t, table, "--- a/f\n+++ b/f\n@@\n-| two | [b](y) |\n+| two | gone |\n")
	wantError(t, err, Missing, "Nearest are line 3", `line 3 is "| two | [b](x) |"`, `not "| two | [b](y) |"`)
	_, err = apply(t, "\tif x {\n\t\ty()\n\t}\n", "--- a/f\n+++ b/f\n@@\n     if x {\n-        y()\n+        z()\n     }\n")
	wantError(t, err, Missing, "only white space differs")
	_, err = apply(t, "a\nnew\nb\n", "--- a/f\n+++ b/f\n@@\n a\n-old\n+new\n b\n")
	wantError(t, err, Missing, "there already, at line 1")
	_, err = apply(t, "a\n", "--- a/f\n+++ b/f\n@@\n-completely different\n+x\n")
	wantError(t, err, Missing, "none is like them")
	_, err = apply(t, "", "--- a/f\n+++ b/f\n@@\n-x\n+y\n")
	wantError(t, err, Missing, "empty")
	_, err = apply(t, "alpha\nbeta\n", "--- a/f\n+++ b/f\n@@\n alpha\n beta\n-gamma\n+y\n")
	wantError(t, err, Missing, "the file ends before")
}

func TestHunksOfAFileDoNotChangeWhatAnotherOneNeeds(t *testing.T) {
	file := "a\nb\nc\nd\ne\nf\n"
	head := "--- a/f\n+++ b/f\n"
	for _, tc := range []struct{ name, patch, want string }{
		{"in order", "@@\n-a\n+A\n b\n@@\n e\n-f\n+F\n", "A\nb\nc\nd\ne\nF\n"},
		{"out of order", "@@\n e\n-f\n+F\n@@\n-a\n+A\n b\n", "A\nb\nc\nd\ne\nF\n"},
		{"shared context", "@@\n-a\n+A\n b\n c\n@@\n b\n c\n-d\n+D\n", "A\nb\nc\nD\ne\nf\n"},
		{"both add at one place", "@@\n b\n+1\n@@\n+2\n c\n", "a\nb\n1\n2\nc\nd\ne\nf\n"},
	} {
		out, err := apply(t, file, head+tc.patch)
		if err != nil || out != tc.want {
			t.Errorf("%s: %q, %v", tc.name, out, err)
		}
	}
	for _, patch := range []string{
		"@@\n-a\n+A\n b\n@@\n a\n-b\n+B\n",
		"@@\n a\n-b\n+B\n c\n@@\n b\n-c\n+C\n",
		"@@\n a\n+x\n b\n@@\n a\n b\n-c\n+C\n",
		"@@\n-a\n+A\n b\n@@\n-a\n+A\n b\n",
	} {
		_, err := apply(t, file, head+patch)
		wantError(t, err, Conflict, "hunks 1 and 2")
	}
	_, err := apply(t, file, head+"@@\n-a\n+A\n b\n@@\n-nope\n+B\n")
	wantError(t, err, Missing, "hunk 2 of 2 (line 7 of the patch)")
}

func TestAPatchHasBounds(t *testing.T) {
	var b strings.Builder
	for i := range MaxFiles + 1 {
		name := strings.Repeat("d/", i+1) + "f"
		b.WriteString("--- a/" + name + "\n+++ b/" + name + "\n@@\n-a\n+b\n")
	}
	_, err := Parse(b.String(), "")
	wantError(t, err, Invalid, "201 files")
	_, err = Parse("--- a/f\n+++ b/f\n"+strings.Repeat("@@\n-a\n+b\n", MaxHunks+1), "")
	wantError(t, err, Invalid, "2001 hunks")
}
