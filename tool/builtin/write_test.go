package builtin

import (
	"os"
	"strings"
	"testing"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

func TestWriteCreatesReplacesAndAppends(t *testing.T) {
	s := newSession(t, false)
	res := s.call("write", args{"path": "d/e/f", "content": "one\n"})
	r := decoded[writeResult](t, res)
	if want := (writeResult{Path: "d/e/f", BytesWritten: 4, Diff: change{0, 4, true}, Version: sandbox.Version([]byte("one\n"))}); r != want {
		t.Errorf("create: %+v", r)
	}
	if !strings.Contains(res.Diff, "+one") || !strings.Contains(res.Diff, "/dev/null") {
		t.Errorf("diff = %q", res.Diff)
	}
	res = s.call("write", args{"path": "d/e/f", "content": "two\n", "append": true})
	if r := decoded[writeResult](t, res); r.BytesWritten != 4 || !r.Appended || r.Diff != (change{4, 8, true}) {
		t.Errorf("append: %+v", r)
	}
	res = s.call("write", args{"path": "d/e/f", "content": "one\ntwo\n"})
	if r := decoded[writeResult](t, res); r.Diff.Changed || res.Diff != "" {
		t.Errorf("the same again: %+v, %q", r, res.Diff)
	}
	decoded[writeResult](t, s.call("write", args{"path": "d/e/f", "content": ""}))
	if got := s.content("d/e/f"); got != "" {
		t.Errorf("content = %q", got)
	}
	decoded[writeResult](t, s.call("write", args{"path": "log", "content": "new", "append": true}))
	if got := s.content("log"); got != "new" {
		t.Errorf("append to a new file: %q", got)
	}
}

func TestWriteTakesItsAliases(t *testing.T) {
	s := newSession(t, false)
	for _, alias := range []string{"content", "new_text", "new_string", "text"} {
		decoded[writeResult](t, s.call("write", args{"path": alias, alias: "x"}))
		if s.content(alias) != "x" {
			t.Errorf("%s was not written", alias)
		}
	}
}

func TestWriteKeepsTheMode(t *testing.T) {
	s := newSession(t, false)
	s.write("run.sh", "#!/bin/sh\n")
	if err := os.Chmod(s.path("run.sh"), 0o751); err != nil {
		t.Fatal(err)
	}
	decoded[writeResult](t, s.call("write", args{"path": "run.sh", "content": "#!/bin/sh\ntrue\n"}))
	if info, err := os.Stat(s.path("run.sh")); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}

// fi-10: a whole-file write from an old read does not erase another's change.
func TestAWriteFromAnOldReadIsStale(t *testing.T) {
	a := newSession(t, false)
	b := a.another()
	a.write("f", "shared\n")
	then := decoded[readResult](t, a.call("read", args{"path": "f"})).Version
	decoded[editResult](t, b.call("edit", args{"path": "f", "old_text": "shared", "new_text": "changed by b"}))
	now := sandbox.Version([]byte("changed by b\n"))

	res := a.call("write", args{"path": "f", "content": "from the old read\n"})
	refused(t, res, tool.CodeStale, then, now, "read it again")
	if got := a.content("f"); got != "changed by b\n" {
		t.Fatalf("b's change is gone: %q", got)
	}
	refused(t, b.call("write", args{"path": "f", "content": "x", "expected_version": then}), tool.CodeStale, then, now)

	decoded[readResult](t, a.call("read", args{"path": "f"}))
	decoded[writeResult](t, a.call("write", args{"path": "f", "content": "after reading\n"}))
	// What the session wrote itself it has seen.
	decoded[writeResult](t, a.call("write", args{"path": "f", "content": "again\n"}))

	// New files and blind writes of files never seen still work.
	decoded[writeResult](t, a.call("write", args{"path": "new", "content": "x"}))
	a.write("unseen", "old")
	decoded[writeResult](t, a.call("write", args{"path": "unseen", "content": "blind"}))
	// A file that is gone may be made again.
	if err := os.Remove(a.path("new")); err != nil {
		t.Fatal(err)
	}
	decoded[writeResult](t, a.call("write", args{"path": "new", "content": "once more"}))
	refused(t, a.call("write", args{"path": "gone", "content": "x", "expected_version": then}), tool.CodeStale, "expected_version")
}

func TestAnEditOrAppendDoesNotMakeAnOldReadFresh(t *testing.T) {
	for name, a := range map[string]args{
		"edit":  {"path": "f", "old_text": "mine", "new_text": "edited"},
		"write": {"path": "f", "content": "tail\n", "append": true},
	} {
		s := newSession(t, false)
		s.write("f", "mine\n")
		decoded[readResult](t, s.call("read", args{"path": "f"}))
		s.write("f", "mine\nby another\n")
		if res := s.call(name, a); res.Error != "" {
			t.Fatalf("%s: %s", name, res.Output)
		}
		refused(t, s.call("write", args{"path": "f", "content": "from the old read\n"}), tool.CodeStale)
		if !strings.Contains(s.content("f"), "by another") {
			t.Error("the other's change is gone")
		}
	}
}

func TestALargeChangeHasABoundedDiff(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "")
	res := s.call("write", args{"path": "f", "content": numbered(10_000)})
	if len(res.Diff) > maxDiff+200 || !strings.Contains(res.Diff, "more bytes of this diff") {
		t.Errorf("a diff of %d bytes", len(res.Diff))
	}
	res = s.call("write", args{"path": "f", "content": numbered(60_000)})
	if len(res.Diff) > 500 || !strings.Contains(res.Diff, "too large to show") {
		t.Errorf("a diff of %d bytes", len(res.Diff))
	}
	s.write("bin", "\x00\x01")
	if res := s.call("write", args{"path": "bin", "content": "x"}); !strings.Contains(res.Diff, "binary") {
		t.Errorf("diff = %q", res.Diff)
	}
}

func TestFilesTooLargeToHoldAreRefusedOrReplacedWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("reads files of 64 MiB")
	}
	s := newSession(t, false)
	s.write("big", "")
	if err := os.Truncate(s.path("big"), maxWhole+1); err != nil {
		t.Fatal(err)
	}
	refused(t, s.call("write", args{"path": "big", "content": "x", "append": true}), tool.CodeTooLarge, "append", "bash")
	refused(t, s.call("edit", args{"path": "big", "old_text": "x", "new_text": "y"}), tool.CodeTooLarge, "bash")
	refused(t, s.call("write", args{"path": "big", "content": "x", "expected_version": "0123456789abcdef"}), tool.CodeStale)
	res := s.call("write", args{"path": "big", "content": "small"})
	if r := decoded[writeResult](t, res); r.Diff != (change{maxWhole + 1, 5, true}) || res.Diff != "" || s.content("big") != "small" {
		t.Errorf("%+v, %q", r, res.Diff)
	}
}
