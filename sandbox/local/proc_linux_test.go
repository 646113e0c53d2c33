package local

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestParseStatReadsNamesWithBracketsAndSpaces(t *testing.T) {
	tail := " S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2"
	for _, name := range []string{"(sh)", "(a b)", "(a) S 9 9 9 (b))", "()"} {
		p, ok := parseStat([]byte("42 " + name + tail))
		if want := (proc{pid: 42, ppid: 1, pgrp: 7, sid: 7, state: 'S', start: 987654}); !ok || p != want {
			t.Errorf("%s: %+v, %v; want %+v", name, p, ok, want)
		}
	}
	if p, ok := parseStat([]byte("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0")); !ok || !p.kernel {
		t.Errorf("a kernel thread is %+v, %v", p, ok)
	}
	if p, ok := readProc(os.Getpid()); !ok || p.pid != os.Getpid() || p.ppid != os.Getppid() || p.start == 0 {
		t.Errorf("this process is %+v, %v", p, ok)
	}
}

func TestScanMarkFindsItAcrossChunks(t *testing.T) {
	env := "A=1\x00HARNESS_PROC_ID=other\x00X=HARNESS_PROC_ID=n-1-2-r\x00HARNESS_PROC_ID=n-1-2-r\x00Z=" + strings.Repeat("z", 50) + "\x00"
	for size := 1; size <= len(env); size++ {
		var have []byte
		found := ""
		for at := 0; at < len(env) && found == ""; at += size {
			have = append(have, env[at:min(at+size, len(env))]...)
			rest, value, ok := scanMark(have, "n-", at+size >= len(env))
			if ok {
				found = value
			}
			have = append([]byte(nil), rest...)
		}
		if found != "n-1-2-r" {
			t.Errorf("chunks of %d: found %q", size, found)
		}
	}
}

func TestParseMarkRefusesWhatIsNotOurs(t *testing.T) {
	for mark, want := range map[string]owner{
		"77-12-345-abc": {12, 345}, "78-12-345-abc": {}, "77-0-345-abc": {}, "77--1-345-abc": {}, "77-12-345-": {}, "77-12-abc": {}, "": {},
	} {
		if got, ok := parseMark(mark, "77"); got != want || ok != (want != owner{}) {
			t.Errorf("%q: %+v, %v", mark, got, ok)
		}
	}
	if o, ok := parseMark(processMark()+"x", pidNamespace()); !ok || !o.alive() || o.pid != os.Getpid() {
		t.Errorf("this process's own mark is %+v, %v", o, ok)
	}
}

func TestLastPID(t *testing.T) {
	for line, want := range map[string]int{"0.1 0.2 0.3 1/99 4567\n": 4567, "0.00 0.00 0.00 0/0 0\n": 0, "0.1 0.2": 0, "": 0, "a b c d e": 0} {
		if got, ok := lastPID([]byte(line)); ok != (want > 0) || (ok && got != want) {
			t.Errorf("%q: %d, %v", line, got, ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (sh) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2"))
	f.Add([]byte("1 ("))
	f.Fuzz(func(t *testing.T, line []byte) {
		if p, ok := parseStat(line); ok && p.state == 0 {
			t.Errorf("%q: %+v", line, p)
		}
	})
}

func FuzzScanMark(f *testing.F) {
	f.Add([]byte("A=1\x00HARNESS_PROC_ID=n-1-2-r\x00"), "n-")
	f.Fuzz(func(t *testing.T, env []byte, prefix string) {
		rest, value, ok := scanMark(env, prefix, false)
		if ok && !strings.Contains(string(env), procIDVar+"="+value+"\x00") {
			t.Errorf("found %q in %q", value, env)
		}
		if !ok && !strings.HasSuffix(string(env), string(rest)) {
			t.Errorf("%q is no rest of %q", rest, env)
		}
	})
}

func FuzzParseMark(f *testing.F) {
	f.Add("77-12-345-abc")
	f.Fuzz(func(t *testing.T, mark string) {
		if o, ok := parseMark(mark, "77"); ok && !strings.HasPrefix(mark, "77-") {
			t.Errorf("%q: %+v", mark, fmt.Sprint(o))
		}
	})
}
