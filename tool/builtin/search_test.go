package builtin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/tool"
)

// tree is a small repository.
func tree(t testing.TB) *session {
	s := newSession(t, false)
	for name, content := range map[string]string{
		"main.go":               "package main\n\nfunc main() { hello() }\n",
		"hello.go":              "package main\n\n// Hello greets.\nfunc hello() {\n\tprintln(\"hello\")\n}\n",
		"cmd/tool/run.go":       "package tool\n",
		"cmd/tool/deep/more.go": "package deep\n\nfunc Hello() {}\r\n",
		"docs/readme.md":        "# hello\n",
		".git/config":           "hello\n",
		"sub/.git/HEAD":         "hello\n",
		"bin/prog":              "hello\x00hello\n",
	} {
		s.write(name, content)
	}
	base := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, name := range []string{"main.go", "hello.go", "cmd/tool/run.go", "cmd/tool/deep/more.go", "docs/readme.md"} {
		at := base.Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(s.path(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Fault 83.
func TestGlobFindsNestedFilesNewestFirst(t *testing.T) {
	s := tree(t)
	for _, tc := range []struct {
		args args
		want string
	}{
		{args{"pattern": "**/*.go"}, "cmd/tool/deep/more.go cmd/tool/run.go hello.go main.go"},
		{args{"pattern": "*.go"}, "hello.go main.go"},
		{args{"pattern": "cmd/**/*.go"}, "cmd/tool/deep/more.go cmd/tool/run.go"},
		{args{"pattern": "**/*.go", "path": "cmd"}, "cmd/tool/deep/more.go cmd/tool/run.go"},
		{args{"pattern": "*.go", "path": "cmd/tool"}, "cmd/tool/run.go"},
		{args{"pattern": "{docs,cmd}/**/*.{md,go}"}, "docs/readme.md cmd/tool/deep/more.go cmd/tool/run.go"},
		{args{"pattern": "main.go"}, "main.go"},
		{args{"pattern": s.dir + "/cmd/*/*.go"}, "cmd/tool/run.go"},
		{args{"pattern": "**/config"}, ""}, // .git is left out
		{args{"pattern": "nowhere/*"}, ""},
		{args{"pattern": "*.rs"}, ""},
	} {
		r := decoded[globResult](t, s.call("glob", tc.args))
		if got := strings.Join(r.Matches, " "); got != tc.want || r.Truncated || r.Total != len(r.Matches) {
			t.Errorf("%v: %+v", tc.args, r)
		}
		if tc.want == "" && tc.args["pattern"] == "*.rs" && !strings.Contains(r.Note, "**/*.rs") {
			t.Errorf("note = %q", r.Note)
		}
	}
	refused(t, s.call("glob", args{"pattern": "*", "path": "nope"}), tool.CodeNotFound, "nope")
	refused(t, s.call("glob", args{"pattern": "*", "path": "main.go"}), tool.CodeInvalidArguments, "main.go")
	refused(t, s.call("glob", args{"pattern": "/x/*", "path": "cmd"}), tool.CodeInvalidArguments, "absolute")
}

func TestGlobGivesTheHundredNewest(t *testing.T) {
	s := newSession(t, false)
	base := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 450 {
		name := fmt.Sprintf("f%03d", i)
		s.write(name, "")
		at := base.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(s.path(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	res := s.call("glob", args{"pattern": "f*"})
	r := decoded[globResult](t, res)
	if len(r.Matches) != 100 || r.Total != 450 || !r.Truncated || !res.Truncated || r.Matches[0] != "f449" || r.Matches[99] != "f350" {
		t.Errorf("%d of %d, %s to %s", len(r.Matches), r.Total, r.Matches[0], r.Matches[len(r.Matches)-1])
	}
}

func places(r grepResult) string {
	var out []string
	for _, m := range r.Matches {
		out = append(out, fmt.Sprintf("%s:%d", m.Path, m.Line))
	}
	return strings.Join(out, " ")
}

func TestGrepFindsLines(t *testing.T) {
	s := tree(t)
	for _, tc := range []struct {
		args args
		want string
	}{
		{args{"pattern": "hello"}, "docs/readme.md:1 hello.go:4 hello.go:5 main.go:3"},
		{args{"pattern": "hello", "case_insensitive": true}, "cmd/tool/deep/more.go:3 docs/readme.md:1 hello.go:3 hello.go:4 hello.go:5 main.go:3"},
		{args{"pattern": "hello", "include": "*.md"}, "docs/readme.md:1"},
		{args{"pattern": "package", "include": "cmd/**/*.go"}, "cmd/tool/deep/more.go:1 cmd/tool/run.go:1"},
		{args{"pattern": "package", "path": "cmd/tool", "include": "*.go"}, "cmd/tool/deep/more.go:1 cmd/tool/run.go:1"},
		{args{"pattern": "^func (main|hello)", "path": "main.go"}, "main.go:3"},
		{args{"pattern": `main\s+func`}, ""}, // a match lies within one line
		{args{"pattern": "^$", "path": "main.go"}, "main.go:2"},
		{args{"pattern": "nothing like it"}, ""},
	} {
		r := decoded[grepResult](t, s.call("grep", tc.args))
		if got := places(r); got != tc.want || r.Truncated {
			t.Errorf("%v: %s", tc.args, got)
		}
	}
	refused(t, s.call("grep", args{"pattern": "x", "path": "nope"}), tool.CodeNotFound, "nope")
	refused(t, s.call("grep", args{"pattern": "a(b"}), tool.CodeInvalidArguments, "pattern", "missing closing )")
	refused(t, s.call("grep", args{"pattern": "a", "include": "[x"}), tool.CodeInvalidArguments, "include")
}

func TestGrepShowsContextAndShortensLongLines(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "one\ntwo\r\nthree\nfour\nfive\n"+strings.Repeat("語", 1000)+"needle"+strings.Repeat("語", 1000))
	r := decoded[grepResult](t, s.call("grep", args{"pattern": "three", "context": 2}))
	if m := r.Matches[0]; m.Text != "three" || strings.Join(m.Before, "|") != "one|two" || strings.Join(m.After, "|") != "four|five" {
		t.Errorf("%+v", m)
	}
	r = decoded[grepResult](t, s.call("grep", args{"pattern": "one", "context": 10}))
	if m := r.Matches[0]; len(m.Before) != 0 || len(m.After) != 5 {
		t.Errorf("%+v", m)
	}
	r = decoded[grepResult](t, s.call("grep", args{"pattern": "needle"}))
	if text := r.Matches[0].Text; len(text) > grepLine+10 || !strings.Contains(text, "needle") || strings.ContainsRune(text, '\ufffd') {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}

func TestGrepSaysWhatItLeftOut(t *testing.T) {
	s := newSession(t, false)
	s.write("many", strings.Repeat("match\n", 300))
	res := s.call("grep", args{"pattern": "match"})
	if r := decoded[grepResult](t, res); len(r.Matches) != 100 || !r.Truncated || !res.Truncated || !strings.Contains(r.Note, "more matches") {
		t.Errorf("%d matches, %+v", len(r.Matches), r.Note)
	}
	if r := decoded[grepResult](t, s.call("grep", args{"pattern": "match", "max_results": 300})); len(r.Matches) != 300 || r.Truncated {
		t.Errorf("%d matches, %v", len(r.Matches), r.Truncated)
	}
	s.write("many", strings.Repeat("match"+strings.Repeat("x", 1000)+"\n", 1000))
	if res := s.call("grep", args{"pattern": "match", "max_results": 1000}); len(res.Output) > 2*grepOutput || !res.Truncated {
		t.Errorf("%d bytes", len(res.Output))
	}
	if err := os.Truncate(s.path("many"), grepFile+1); err != nil {
		t.Fatal(err)
	}
	if r := decoded[grepResult](t, s.call("grep", args{"pattern": "match"})); r.SkippedLarge != 1 || len(r.Matches) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestASearchEndsWithItsContext(t *testing.T) {
	s := tree(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("run cancelled")
	cancel(cause)
	for name, a := range map[string]args{"grep": {"pattern": "x"}, "glob": {"pattern": "**"}, "ls": {}} {
		if _, err := s.try(ctx, name, a); !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever the text and the expression: the lines that are found are those that match by themselves.
func FuzzGrepLines(f *testing.F) {
	f.Add("a\nb\nab\n", "a")
	f.Add("x\n\ny", "^$")
	f.Add("one two\nthree", `\s`)
	f.Add("é\xff\n", `[^a]+`)
	f.Fuzz(func(t *testing.T, text, expr string) {
		re, err := regexp.Compile("(?m)" + expr)
		if err != nil || text == "" || len(text) > 1<<12 || strings.Contains(expr, `\A`) || strings.Contains(expr, `\z`) || strings.Contains(expr, "(?") {
			return
		}
		s := searcher{re: re, max: 1 << 20}
		if err := s.search("f", []byte(text)); err != nil && !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		lines := strings.Split(text, "\n")
		if strings.HasSuffix(text, "\n") {
			lines = lines[:len(lines)-1]
		}
		want := map[int]bool{}
		for i, l := range lines {
			if re.MatchString(l) {
				want[i+1] = true
			}
		}
		for _, m := range s.out.Matches {
			if !want[m.Line] {
				t.Fatalf("line %d of %q does not match %q", m.Line, text, expr)
			}
			delete(want, m.Line)
		}
		if len(want) > 0 && s.shown <= grepOutput {
			t.Fatalf("lines %v of %q match %q and were not found", want, text, expr)
		}
	})
}

func TestLsShowsTypesAndSizes(t *testing.T) {
	s := tree(t)
	if err := os.Symlink("main.go", s.path("link")); err != nil {
		t.Fatal(err)
	}
	r := decoded[lsResult](t, s.call("ls", args{}))
	got := map[string]lsEntry{}
	for _, e := range r.Entries {
		got[e.Name] = e
	}
	if r.Path != "." || r.Total != 8 || got["cmd"].Type != "dir" || got["link"].Type != "link" || got["main.go"].Type != "file" || *got["main.go"].Size != 38 || got["cmd"].Size != nil {
		t.Errorf("%+v", r)
	}
	refused(t, s.call("ls", args{"path": "main.go"}), tool.CodeInvalidArguments, "not a directory", "read")
	refused(t, s.call("ls", args{"path": "nope"}), tool.CodeNotFound, "nope")
	for i := range 600 {
		s.write(fmt.Sprintf("big/%03d", i), "")
	}
	if r := decoded[lsResult](t, s.call("ls", args{"path": "big"})); len(r.Entries) != maxEntries || r.Total != 600 || !r.Truncated {
		t.Errorf("%d of %d", len(r.Entries), r.Total)
	}
}

func BenchmarkGrep(b *testing.B) {
	s := newSession(b, false)
	for i := range 200 {
		s.write(fmt.Sprintf("d%d/f%d.txt", i%10, i), numbered(500))
	}
	for b.Loop() {
		if res := s.call("grep", args{"pattern": "no such (text|line)"}); res.Error != "" {
			b.Fatal(res.Output)
		}
	}
}
