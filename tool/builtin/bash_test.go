package builtin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/harness-go/harness/tool"
)

// artifact reads a kept output as it is.
func (s *session) artifact(id string) []byte {
	s.t.Helper()
	r, err := s.env.Artifacts.Open(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// gone waits until no process has the number, and fails after ten seconds.
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for syscall.Kill(pid, 0) == nil {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && bytes.Contains(stat, []byte(") Z ")) {
			return // only its parent's wait is missing
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func pidIn(t *testing.T, text, word string) int {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			if pid, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil {
				return pid
			}
		}
	}
	t.Fatalf("no %s in %q", word, text)
	return 0
}

func TestBashGivesOutputInItsOrderAndTheExitCode(t *testing.T) {
	s := newSession(t, false)
	res := s.call("bash", args{"command": "echo one; echo two >&2; echo three; exit 3", "description": "count"})
	r := output[bashResult](t, res)
	if r.Output != "one\ntwo\nthree\n" || r.ExitCode != 3 || r.TimedOut || r.WorkingDir != s.dir || r.Truncated {
		t.Errorf("%+v", r)
	}
	if res.Error != tool.CodeExitStatus {
		t.Errorf("code = %q", res.Error)
	}
	if s.liveText() != r.Output {
		t.Errorf("live output = %q", s.liveText())
	}
	ok := s.call("bash", args{"command": "true"})
	if r := decoded[bashResult](t, ok); r.ExitCode != 0 || r.Output != "" {
		t.Errorf("%+v", r)
	}
}

func TestACommandIsOneArgumentWhateverItHolds(t *testing.T) {
	s := newSession(t, false)
	r := decoded[bashResult](t, s.call("bash", args{"command": "printf '%s|' \"a b\" '$1' 'x\"y'\ncat <<'E'\n2>&1 it's\nE"}))
	if r.Output != "a b|$1|x\"y|2>&1 it's\n" {
		t.Errorf("output = %q", r.Output)
	}
	bad := output[bashResult](t, s.call("bash", args{"command": "if then"}))
	if bad.ExitCode != 2 || !strings.Contains(bad.Output, "syntax error") {
		t.Errorf("%+v", bad)
	}
	refused(t, s.call("bash", args{"command": "true " + strings.Repeat("x", maxCommand)}), tool.CodeTooLarge, "command", "write it to a file")
}

func TestBashRunsInTheWorkingDirectory(t *testing.T) {
	s := newSession(t, true)
	s.write("sub/f", "")
	if r := decoded[bashResult](t, s.call("bash", args{"command": "pwd; ls", "working_dir": "sub"})); r.Output != s.path("sub")+"\nf\n" || r.WorkingDir != s.path("sub") {
		t.Errorf("%+v", r)
	}
	refused(t, s.call("bash", args{"command": "true", "working_dir": "nope"}), tool.CodeNotFound, "working_dir")
	refused(t, s.call("bash", args{"command": "true", "working_dir": "sub/f"}), tool.CodeInvalidArguments, "working_dir")
	refused(t, s.call("bash", args{"command": "true", "working_dir": "../x"}), tool.CodePermissionDenied, "working_dir")
}

func TestACommandHasNoInput(t *testing.T) {
	s := newSession(t, false)
	if r := decoded[bashResult](t, s.call("bash", args{"command": "cat; echo end"})); r.Output != "end\n" {
		t.Errorf("%+v", r)
	}
}

// ou-01: a flood reaches the model cut, with both ends, and is read whole in pages.
func TestAFloodIsCutAndKeptWhole(t *testing.T) {
	s := newSession(t, false)
	for _, tc := range []struct{ what, command, last string }{
		{"one line", `head -c 2000000 /dev/zero | tr "\0" x`, "x"},
		{"a million lines", "seq 1 1000000", "999999\n1000000\n"},
	} {
		want, err := runDirectly(tc.command)
		if err != nil {
			t.Fatal(err)
		}
		res := s.call("bash", args{"command": tc.command})
		r := decoded[bashResult](t, res)
		if len(r.Output) > outputCap || strings.Count(r.Output, "\n") > outputLines+3 || len(res.Output) > outputHard {
			t.Errorf("%s: %d bytes, %d lines", tc.what, len(r.Output), strings.Count(r.Output, "\n"))
		}
		if !strings.HasSuffix(r.Output, tc.last) || !strings.HasPrefix(r.Output, string(want[:100])) {
			t.Errorf("%s: an end is missing", tc.what)
		}
		if !r.Truncated || !res.Truncated || r.Strategy != "head_tail" || r.MaxBytes != outputCap || r.TotalBytes != int64(len(want)) {
			t.Errorf("%s: %+v", tc.what, r)
		}
		if !strings.Contains(r.Output, fmt.Sprint(len(want))+" bytes in all") || !strings.Contains(r.Output, artifactPrefix+r.Artifact) || res.Artifact != r.Artifact {
			t.Errorf("%s: the marker does not say where the rest is", tc.what)
		}
		if !bytes.Equal(s.artifact(r.Artifact), want) {
			t.Errorf("%s: the artifact is not the output", tc.what)
		}
		if got, _ := s.readAll(artifactPrefix+r.Artifact, 1<<20); got != string(want) {
			t.Errorf("%s: the pages are not the output", tc.what)
		}
		if n := len(s.liveText()); n > 2*liveCap+1000 {
			t.Errorf("%d bytes of live output", n)
		}
	}
	if !strings.Contains(s.liveText(), "[live output ends here") {
		t.Error("the live output does not say that it ended")
	}
}

func runDirectly(command string) ([]byte, error) {
	switch {
	case strings.HasPrefix(command, "head"):
		return bytes.Repeat([]byte("x"), 2_000_000), nil
	default:
		var b bytes.Buffer
		for i := range 1_000_000 {
			b.WriteString(strconv.Itoa(i + 1))
			b.WriteByte('\n')
		}
		return b.Bytes(), nil
	}
}

func TestManyShortLinesAreCutToo(t *testing.T) {
	s := newSession(t, false)
	r := decoded[bashResult](t, s.call("bash", args{"command": "yes '' | head -n 9000"}))
	if n := strings.Count(r.Output, "\n"); !r.Truncated || n > outputLines+3 {
		t.Errorf("%d lines", n)
	}
	if len(s.artifact(r.Artifact)) != 9000 {
		t.Error("the artifact is not whole")
	}
}

func TestEscapesDoNotCarryAResultPastTheHardBound(t *testing.T) {
	s := newSession(t, false)
	res := s.call("bash", args{"command": `head -c 16000 /dev/zero | tr "\0" "\033"`})
	r := decoded[bashResult](t, res)
	if len(res.Output) > outputHard || !r.Truncated || r.MaxBytes >= outputCap {
		t.Errorf("%d bytes, %d", len(res.Output), r.MaxBytes)
	}
	if len(s.artifact(r.Artifact)) != 16000 {
		t.Error("the artifact is not whole")
	}
}

func TestWithoutArtifactsTheResultSaysThatTheRestIsLost(t *testing.T) {
	s := newSession(t, false)
	s.env.Artifacts = nil
	r := decoded[bashResult](t, s.call("bash", args{"command": "seq 1 10000"}))
	if !r.Truncated || r.Artifact != "" || !strings.Contains(r.Output, "the rest was not kept") {
		t.Errorf("%+v", r)
	}
}

// ou-02: binary output is described, and the result stays valid.
func TestBinaryOutputIsDescribedAndKept(t *testing.T) {
	s := newSession(t, false)
	res := s.call("bash", args{"command": "cat /bin/ls"})
	want, err := os.ReadFile("/bin/ls")
	if err != nil {
		t.Skip("no /bin/ls")
	}
	r := decoded[bashResult](t, res)
	sum := sha256.Sum256(want)
	for _, w := range []string{"binary", fmt.Sprint(len(want)), hex.EncodeToString(sum[:]), artifactPrefix + r.Artifact} {
		if !strings.Contains(r.Output, w) {
			t.Errorf("output does not say %s: %s", w, r.Output)
		}
	}
	if !r.Binary || r.TotalBytes != int64(len(want)) || len(r.Output) > 1000 {
		t.Errorf("%+v", r)
	}
	if !bytes.Equal(s.artifact(r.Artifact), want) {
		t.Error("the artifact is not the file")
	}
	if live := s.liveText(); strings.ContainsRune(live, 0) || !strings.Contains(live, "[binary output") {
		t.Errorf("live output = %.200q", live)
	}
	if b := decoded[binaryResult](t, s.call("read", args{"path": artifactPrefix + r.Artifact})); !b.Binary || b.Size != int64(len(want)) {
		t.Errorf("%+v", b)
	}
}

// ou-04: one invalid byte changes nothing but itself.
func TestInvalidBytesAreReplacedFlaggedAndKept(t *testing.T) {
	s := newSession(t, false)
	res := s.call("bash", args{"command": `printf 'a\xf0b\xff\n'; exit 3`})
	r := output[bashResult](t, res)
	if r.Output != "a\ufffdb\ufffd\n" || r.ExitCode != 3 || !r.Invalid || r.Truncated || res.Error != tool.CodeExitStatus {
		t.Errorf("%+v, %s", r, res.Error)
	}
	if got := s.artifact(r.Artifact); string(got) != "a\xf0b\xff\n" {
		t.Errorf("artifact = %q", got)
	}
	if s.liveText() != r.Output {
		t.Errorf("live output = %q", s.liveText())
	}
}

// ou-06: cuts fall between runes, at each offset.
func TestACutNeverSplitsARune(t *testing.T) {
	s := newSession(t, false)
	s.write("emoji", strings.Repeat("a", 65_535)+"😀")
	r := decoded[bashResult](t, s.call("bash", args{"command": "cat emoji"}))
	if !utf8.ValidString(r.Output) || r.Invalid || !strings.HasSuffix(r.Output, "😀") {
		t.Errorf("emoji: invalid %v", r.Invalid)
	}
	for shift := range 7 {
		name := fmt.Sprint("cjk", shift)
		text := strings.Repeat("b", shift) + strings.Repeat("語", 20_000)
		s.write(name, text)
		r := decoded[bashResult](t, s.call("bash", args{"command": "cat " + name}))
		if strings.ContainsRune(r.Output, utf8.RuneError) || r.Invalid {
			t.Errorf("shift %d: a rune was split", shift)
		}
		if string(s.artifact(r.Artifact)) != text {
			t.Errorf("shift %d: the artifact differs", shift)
		}
	}
	// Exactly the bound, with a rune that ends on it.
	exact := strings.Repeat("c", outputCap-4) + "😀"
	s.write("exact", exact)
	if r := decoded[bashResult](t, s.call("bash", args{"command": "cat exact"})); r.Output != exact || r.Truncated {
		t.Error("output of exactly the bound was cut")
	}
}

// ou-06: a rune that comes in two pieces.
func TestARuneAcrossPiecesStaysWholeInTheLiveOutput(t *testing.T) {
	s := newSession(t, false)
	r := decoded[bashResult](t, s.call("bash", args{"command": `printf '\xe2\x82'; sleep 0.1; printf '\xac\n'; printf '\xf0\x9f'; sleep 0.1; printf '\x98\x80'`}))
	if r.Output != "€\n😀" || s.liveText() != r.Output || r.Invalid {
		t.Errorf("output %q, live %q", r.Output, s.live)
	}
}

// pr-01, fault 15: children that hold the pipes do not hold the call.
func TestATimeoutEndsTheWholeTree(t *testing.T) {
	s := newSession(t, false)
	res := s.call("bash", args{"timeout_seconds": 1, "command": "echo pid $$; mkfifo p; (echo child $BASHPID; while true; do echo child; sleep 1; done) > p & cat p"})
	r := output[bashResult](t, res)
	if !r.TimedOut || r.ExitCode != -1 || res.Error != tool.CodeTimeout || !strings.Contains(r.Output, "child\n") {
		t.Errorf("%+v, %s", r, res.Error)
	}
	gone(t, pidIn(t, r.Output, "pid"))
	gone(t, pidIn(t, r.Output, "child"))
}

// pr-06 at the tool: who ignores the polite signal is ended as well.
func TestATimeoutEndsWhoIgnoresTheSignal(t *testing.T) {
	s := newSession(t, false)
	r := output[bashResult](t, s.call("bash", args{"timeout_seconds": 1, "command": "trap : TERM; (trap '' TERM; echo child $BASHPID; sleep 300) & wait; sleep 300"}))
	if !r.TimedOut {
		t.Errorf("%+v", r)
	}
	gone(t, pidIn(t, r.Output, "child"))
}

// pr-02: a call ends with its command, and what the command left behind ends with it.
func TestWhatACommandLeavesBehindEndsWithIt(t *testing.T) {
	s := newSession(t, false)
	r := decoded[bashResult](t, s.call("bash", args{"command": "sleep 300 & echo pid $!; exit 0", "timeout_seconds": 200}))
	gone(t, pidIn(t, r.Output, "pid"))
	if len(s.jobs.List()) != 0 {
		t.Error("a job appeared")
	}
}

// pr-07: a cancelled call leaves no process and no result; jobs of others are untouched.
func TestACancelledCallLeavesNoProcess(t *testing.T) {
	s := newSession(t, false)
	other := decoded[startedResult](t, s.call("bash", args{"command": "sleep 300", "run_in_background": true}))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("run cancelled")
	pids := make(chan int, 1)
	s.env.Output = func(_ int, chunk string) {
		if rest, ok := strings.CutPrefix(chunk, "pid "); ok {
			pid, _ := strconv.Atoi(strings.TrimSpace(rest))
			pids <- pid
			cancel(cause)
		}
	}
	_, err := s.try(ctx, "bash", args{"command": "echo pid $$; while true; do find / -name zzz; done", "timeout_seconds": 3600})
	if !errors.Is(err, cause) {
		t.Errorf("error = %v", err)
	}
	gone(t, <-pids)
	if job, ok := s.jobs.Get(other.ShellID); !ok {
		t.Error("the job is gone")
	} else if _, running, _ := job.Status(); !running {
		t.Error("another's job was ended")
	}
}

func TestASignalIsNamed(t *testing.T) {
	s := newSession(t, false)
	if r := output[bashResult](t, s.call("bash", args{"command": "kill -9 $$"})); r.ExitCode != 137 || r.Signal != "SIGKILL" {
		t.Errorf("%+v", r)
	}
}

func BenchmarkBashTrue(b *testing.B) {
	s := newSession(b, false)
	for b.Loop() {
		if res := s.call("bash", args{"command": "true"}); res.Error != "" {
			b.Fatal(res.Output)
		}
	}
}
