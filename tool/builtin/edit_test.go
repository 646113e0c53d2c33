package builtin

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

// fi-01: only the bytes that were named change.
func TestAnEditLeavesOtherLineEndingsAlone(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "a\r\nb\nc\rprogress\r\n")
	if err := os.Chmod(s.path("f"), 0o640); err != nil {
		t.Fatal(err)
	}
	res := s.call("edit", args{"path": "f", "old_text": "b", "new_text": "B"})
	r := decoded[editResult](t, res)
	if got := s.content("f"); got != "a\r\nB\nc\rprogress\r\n" {
		t.Errorf("content = %q", got)
	}
	if r.Replacements != 1 || fmt.Sprint(r.Lines) != "[2]" || r.Diff != (change{17, 17, true}) || r.Version != sandbox.Version([]byte("a\r\nB\nc\rprogress\r\n")) {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(res.Diff, "-b\n+B\n") {
		t.Errorf("diff = %q", res.Diff)
	}
	if info, err := os.Stat(s.path("f")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}

// fi-03: models write LF; the file keeps its own ending.
func TestAnEditTakesTheLineEndingOfTheFile(t *testing.T) {
	for _, tc := range []struct{ what, file, old, new, want string }{
		{"LF text in a CRLF file", "line1\r\nline2\r\nline3\r\n", "line2\nline3", "x\ny", "line1\r\nx\r\ny\r\n"},
		{"one line becomes two", "a\r\nb\r\n", "b", "x\ny", "a\r\nx\r\ny\r\n"},
		{"CRLF text in a CRLF file", "a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"},
		{"an ending is not torn apart", "a\r\nb\r\n", "\nb", "\n\nb", "a\r\n\r\nb\r\n"},
		{"a line is removed", "a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n"},
		{"LF file", "a\nb\n", "a\nb", "x\ny", "x\ny\n"},
		{"CR only", "a\rb\r", "a\rb", "x\ry", "x\ry\r"},
		{"CRLF part of a mixed file", "a\nb\r\nc\r\n", "b\nc", "x\ny", "a\nx\r\ny\r\n"},
		{"LF part of a mixed file", "a\nb\nc\r\n", "a\nb", "x\ny", "x\ny\nc\r\n"},
	} {
		s := newSession(t, false)
		s.write("f", tc.file)
		decoded[editResult](t, s.call("edit", args{"path": "f", "old_text": tc.old, "new_text": tc.new}))
		if got := s.content("f"); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
	}
}

// fi-03: a text that occurs twice is refused with both places.
func TestAnAmbiguousEditNamesThePlaces(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "x\r\nline2\r\nline3\r\ny\r\nline2\r\nline3\r\n")
	before := s.content("f")
	refused(t, s.call("edit", args{"path": "f", "old_text": "line2\nline3", "new_text": "z"}), tool.CodeConflict, "2 times", "lines 2, 5", "replace_all")
	if s.content("f") != before {
		t.Error("the file changed")
	}
	r := decoded[editResult](t, s.call("edit", args{"path": "f", "old_text": "line2\nline3", "new_text": "z", "replace_all": true}))
	if got := s.content("f"); got != "x\r\nz\r\ny\r\nz\r\n" || r.Replacements != 2 {
		t.Errorf("%q, %+v", got, r)
	}
	s.write("many", strings.Repeat("same\n", 30))
	refused(t, s.call("edit", args{"path": "many", "old_text": "same", "new_text": "z"}), tool.CodeConflict, "30 times", "9, 10 and 20 more")
	s.write("aaa", "aaa")
	refused(t, s.call("edit", args{"path": "aaa", "old_text": "aa", "new_text": "z"}), tool.CodeConflict, "2 times", "lines 1, 1")
}

func TestAMissSaysWhereTheFileComesNearest(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "package main\n\nfunc main() {\n\tprintln(\"hello, world\")\n}\n")
	for _, tc := range []struct{ old, word string }{
		{"    println(\"hello, world\")", `line 4 differs from it only in white space; the file has "\tprintln(\"hello, world\")"`},
		{"func main()  {\n  println(\"hello, world\")", "line 3 differs from it only in white space"},
		{"\tprintln(\"hallo, world\")", "nearest is line 4 ("},
		{"func main() {\n\tsomething else", "its first line is there, at line 3"},
		{"completely unlike anything 1234567890", "no line of the file is like it"},
		{" ", ""},
	} {
		res := s.call("edit", args{"path": "f", "old_text": tc.old, "new_text": "x"})
		if tc.word != "" {
			refused(t, res, tool.CodeNotFound, "old_text", tc.word)
		}
	}
	s.write("empty", "")
	refused(t, s.call("edit", args{"path": "empty", "old_text": "a", "new_text": "b"}), tool.CodeNotFound, "the file is empty")
}

func TestEditsThatMakeNoSenseAreRefused(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "a\r\n")
	s.write("bin", "a\x00b")
	refused(t, s.call("edit", args{"path": "f", "old_text": "", "new_text": "x"}), tool.CodeInvalidArguments, "old_text is empty", "use write")
	refused(t, s.call("edit", args{"path": "f", "old_text": "a", "new_text": "a"}), tool.CodeInvalidArguments, "nothing would change")
	refused(t, s.call("edit", args{"path": "f", "old_text": "a\n", "new_text": "a\r\n"}), tool.CodeInvalidArguments, "nothing would change")
	refused(t, s.call("edit", args{"path": "bin", "old_text": "a", "new_text": "b"}), tool.CodeInvalidArguments, "binary")
	refused(t, s.call("edit", args{"path": "nope", "old_text": "a", "new_text": "b"}), tool.CodeNotFound, "nope")
	refused(t, s.call("edit", args{"path": "f", "old_text": "a", "new_text": "b", "expected_version": "0123456789abcdef"}), tool.CodeStale, "0123456789abcdef", "read it again")
	if s.content("f") != "a\r\n" {
		t.Error("the file changed")
	}
}

func TestAfterAnEditOfWhatWasReadAWriteIsFresh(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "one\n")
	decoded[readResult](t, s.call("read", args{"path": "f"}))
	res := s.call("edit", args{"path": "f", "old_text": "one", "new_text": "two"})
	if v := decoded[editResult](t, res).Version; res.Seen["f"] != v {
		t.Errorf("seen %q", res.Seen["f"])
	}
	decoded[writeResult](t, s.call("write", args{"path": "f", "content": "three\n"}))
}

// An edit changes what it names and nothing else, in any file.
func FuzzSubstitution(f *testing.F) {
	f.Add([]byte("a\r\nb\nc\rprogress\r\n"), []byte("b"), []byte("B"))
	f.Add([]byte("line1\r\nline2\r\n"), []byte("line1\nline2"), []byte("x\ny"))
	f.Add([]byte("a\r\nb\r\n"), []byte("\nb"), []byte("\n\nb"))
	f.Add([]byte("aaa"), []byte("aa"), []byte(""))
	f.Add([]byte("\r\n"), []byte("\n"), []byte("\r"))
	f.Fuzz(func(t *testing.T, data, old, new []byte) {
		if len(old) == 0 {
			return
		}
		orig := bytes.Clone(data)
		s := newSubstitution(data, old, new)
		lines, count := s.lines()
		if len(lines) != min(count, maxLines) || count < bytes.Count(data, s.old) {
			t.Fatalf("%d lines, %d matches", len(lines), count)
		}
		all := strings.Split(string(data), "\n")
		for i, n := range lines {
			if n < 1 || n > len(all) || i > 0 && n < lines[i-1] {
				t.Fatalf("lines %v of %d", lines, len(all))
			}
			if !strings.Contains(strings.Join(all[n-1:], "\n"), string(s.old)) {
				t.Fatalf("line %d does not begin a match", n)
			}
		}
		after := s.apply()
		if !bytes.Equal(data, orig) {
			t.Fatal("the input was changed")
		}
		if count == 0 && !bytes.Equal(after, data) {
			t.Fatal("changed without a match")
		}
		// Taking the new text out again gives the old file: nothing else was touched.
		parts := bytes.Split(data, s.old)
		if !bytes.Equal(bytes.Join(parts, s.new), after) {
			t.Fatal("more changed than what was named")
		}
		if len(parts) > 1 && !(bytes.HasPrefix(after, parts[0]) && bytes.HasSuffix(after, parts[len(parts)-1])) {
			t.Fatal("the surroundings changed")
		}
		if bytes.Equal(old, s.old) && bytes.Contains(data, old) != (count > 0) {
			t.Fatal("a match was missed")
		}
		if uniformCRLF(data) && count > 0 && uniformCRLF(toCRLF(new)) && bytes.Count(after, []byte{'\n'}) != bytes.Count(after, []byte("\r\n")) &&
			!bytes.HasSuffix(s.old, []byte{'\r'}) && !bytes.HasPrefix(s.old, []byte{'\n'}) {
			t.Fatalf("a CRLF file became mixed: %q", after)
		}
	})
}

func FuzzExplainMiss(f *testing.F) {
	f.Add([]byte("a\n\tb\n"), "  b")
	f.Add([]byte("\xff\n\n"), "\n")
	f.Fuzz(func(t *testing.T, data []byte, old string) {
		if s := explainMiss(data, old); s == "" || len(s) > 3000 {
			t.Fatalf("%d bytes: %q", len(s), s)
		}
	})
}

func BenchmarkEdit(b *testing.B) {
	s := newSession(b, false)
	s.write("f", numbered(1000))
	texts := [2]string{"line 000500 of the file", "line 000500 was edited"}
	for i := 0; b.Loop(); i++ {
		res := s.call("edit", args{"path": "f", "old_text": texts[i%2], "new_text": texts[(i+1)%2]})
		if res.Error != "" {
			b.Fatal(res.Output)
		}
	}
}

func BenchmarkEditMissInALargeFile(b *testing.B) {
	data := []byte(numbered(20_000))
	for b.Loop() {
		explainMiss(data, "line 019999 of this file\nand another")
	}
}
