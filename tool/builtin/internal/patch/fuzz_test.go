package patch

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// generated makes a file and an edit of it out of arbitrary bytes: few different lines, so that places are often not
// alone, in all line endings.
func generated(script []byte) (before, after []byte) {
	next := func() byte {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return b
	}
	texts := []string{"", "a", "b", "c", "  a", "d\re", "-- x", "++ y", "@@ -1 +1 @@", "\\ z", "diff --git a/f b/f", "\u00e9", "\xff"}
	line := func(b byte) string {
		eol := "\n"
		if b&0x80 != 0 {
			eol = "\r\n"
		}
		return texts[int(b&0x7f)%len(texts)] + eol
	}
	n := int(next()) % 40
	var a, z []string
	for range n {
		l := line(next())
		a = append(a, l)
		switch op := next() % 8; op {
		case 0:
		case 1:
			z = append(z, line(next()), l)
		case 2:
			z = append(z, line(next()))
		default:
			z = append(z, l)
		}
	}
	cut := func(lines []string, keep bool) []byte {
		s := strings.Join(lines, "")
		if !keep {
			s = strings.TrimSuffix(s, "\n")
		}
		return []byte(s)
	}
	return cut(a, next()%2 == 0), cut(z, next()%2 == 0)
}

// occurrences counts in how many places of a file the old lines of a hunk stand, independently of Apply.
func occurrences(data string, h Hunk) int {
	norm := func(s string) string { return strings.ReplaceAll(s+"\n", "\r\n", "\n") }
	var old strings.Builder
	for _, l := range h.Lines {
		if l.Op != '+' {
			old.WriteString(norm(l.Text))
		}
	}
	text := "\n" + norm(strings.TrimSuffix(data, "\n"))
	n := 0
	for i := range text {
		if strings.HasPrefix(text[i:], "\n"+old.String()) {
			n++
		}
	}
	return n
}

// enveloped writes hunks as an envelope, where it has a form for them: it has no mark for a missing newline.
func enveloped(hunks []Hunk) (text string, ok bool) {
	var b strings.Builder
	b.WriteString("*** Begin Patch\n*** Update File: f\n")
	for _, h := range hunks {
		b.WriteString("@@\n")
		for _, l := range h.Lines {
			if l.NoEOL {
				return "", false
			}
			b.WriteString(string(l.Op) + l.Text + "\n")
		}
	}
	b.WriteString("*** End Patch\n")
	return b.String(), true
}

// FuzzApply: a diff of two files makes the one into the other, as an independent implementation says too, or is
// refused because a hunk truly fits several places.
func FuzzApply(f *testing.F) {
	f.Add([]byte{3, 1, 7, 2, 2, 3, 3, 7, 0, 0})
	f.Add([]byte{5, 0x81, 7, 2, 2, 0x83, 0x84, 7, 1, 1, 9, 1, 4, 1, 1, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		before, after := generated(script)
		if bytes.Equal(before, after) {
			return
		}
		diff := udiff.Unified("a/f", "b/f", string(before), string(after))
		files, err := Parse(diff, "")
		if err != nil {
			t.Fatalf("%v\n%s", err, diff)
		}
		kept := bytes.Clone(before)
		out, _, err := Apply(before, files[0].Hunks)
		if !bytes.Equal(before, kept) {
			t.Fatal("the content was changed in place")
		}
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			several := false
			for _, h := range files[0].Hunks {
				several = several || occurrences(string(before), h) > 1 || len(h.oldLines()) == 0
			}
			if !ok || !several || e.Kind != Ambiguous && e.Kind != Invalid {
				t.Fatalf("%v\n%q\n%s", err, before, diff)
			}
			return
		}
		if !bytes.Equal(out, after) {
			t.Fatalf("got  %q\nwant %q\nfrom %q\n%s", out, after, before, diff)
		}
		if text, ok := enveloped(files[0].Hunks); ok {
			again, err := Parse(text, "")
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if same, _, err := Apply(before, again[0].Hunks); err != nil || !bytes.Equal(same, out) {
				t.Fatalf("the envelope gives %q, %v, and the diff %q\n%s", same, err, out, text)
			}
		}
		parsed, _, err := gitdiff.Parse(strings.NewReader(diff))
		if err != nil || len(parsed) != 1 {
			return // it reads fewer diffs than Parse
		}
		var ref bytes.Buffer
		if err := gitdiff.Apply(&ref, bytes.NewReader(before), parsed[0]); err == nil && !bytes.Equal(ref.Bytes(), out) {
			t.Fatalf("got  %q\nref  %q\nfrom %q\n%s", out, ref.Bytes(), before, diff)
		}
	})
}

// FuzzParse: no patch makes the parser or the applier panic, and what applies changes only what the hunks name.
func FuzzParse(f *testing.F) {
	f.Add("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nb\n")
	f.Add("diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\nold mode 100644\nnew mode 100755\n", "")
	f.Add("*** Begin Patch\n*** Update File: f\n*** Move to: g\n@@ class A\n@@ def f\n a\n-b\n+c\n*** End of File\n*** Add File: x\n+a\n*** Delete File: d\n*** End Patch\n", "class A\n def f\na\nb\n")
	f.Add("diff --git \"a/\\303\\251\" \"b/\\303\\251\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\303\\251\"\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n", "")
	f.Fuzz(func(t *testing.T, text, data string) {
		files, err := Parse(text, "")
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		for _, file := range files {
			if file.Path == "" || file.Path == "/dev/null" {
				t.Fatalf("path %q", file.Path)
			}
			out, lines, err := Apply([]byte(data), file.Hunks)
			if err != nil {
				continue
			}
			if len(lines) != len(file.Hunks) {
				t.Fatal("places are missing")
			}
			added, removed := 0, 0
			for _, h := range file.Hunks {
				for _, l := range h.Lines {
					switch l.Op {
					case '+':
						added++
					case '-':
						removed++
					}
				}
			}
			if got := newDoc(out).n() - newDoc([]byte(data)).n(); got != added-removed {
				if got == added-removed-1 && !bytes.HasSuffix(out, []byte("\n")) {
					continue // an added empty line without a newline at its end is no line
				}
				t.Fatalf("%d lines more, want %d: %q from %q", got, added-removed, out, data)
			}
		}
	})
}

func BenchmarkApply(b *testing.B) {
	var data, diff strings.Builder
	for i := range 100_000 {
		data.WriteString(strings.Repeat("x", i%70) + " line " + string(rune('a'+i%26)) + "\n")
	}
	data.WriteString("the place\nof the change\n")
	diff.WriteString("--- a/f\n+++ b/f\n@@\n the place\n-of the change\n+changed\n")
	files, err := Parse(diff.String(), "")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(data.Len()))
	for b.Loop() {
		if _, _, err := Apply([]byte(data.String()), files[0].Hunks); err != nil {
			b.Fatal(err)
		}
	}
}
