package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store/sqlite"
	"github.com/harness-go/harness/tool"
)

// The crash drill. A child process runs one run with text, parallel reads, a write, a shell command, approvals and a
// question, and kills itself (SIGKILL) at its n-th fault point; a second child takes over. The parent does that for
// every n until a child gets through, and looks at what is left.

const (
	drillDir   = "HARNESS_DRILL_DIR"
	drillFault = "HARNESS_DRILL_FAULT"
	drillWhat  = "HARNESS_DRILL_WHAT"
)

// drill is what a drilled run does, and how many events of each kind it leaves however often it was killed.
type drill struct {
	script string
	counts map[event.Type]int
}

var drills = map[string]drill{
	"work": {drillScript, map[event.Type]int{
		event.ToolApprovalRequired: 2, event.ToolApprovalGranted: 2, event.RunWaitingForUser: 1, event.RunResumed: 1,
		event.RunStarted: 1, event.RunQueued: 1, event.RunStepCompleted: 5,
	}},
	"compaction": {compactScript, map[event.Type]int{
		event.ToolApprovalRequired: 1, event.ToolApprovalGranted: 1, event.RunStarted: 1, event.RunQueued: 1,
		event.RunStepCompleted: 6, event.CompactHistoryCompleted: 1,
	}},
}

const compactScript = `[
	{"tool":"read","in":{"path":"a.txt"}},
	{"tool":"glob","in":{"pattern":"*.txt"}},
	{"tool":"bash","in":{"command":"echo line >> log"}},
	{"tool":"compact_history","in":{"mode":"summarize","keep_last":2}},
	{"tool":"read","in":{"path":"b.txt"}},
	{"text":"All done."}]`

const drillScript = `[
	{"text":"I look first. ","tools":[{"tool":"read","in":{"path":"a.txt"}},{"tool":"read","in":{"path":"b.txt"}},{"tool":"glob","in":{"pattern":"*.txt"}}]},
	{"text":"Then I write. ","tool":"write","in":{"path":"c.txt","content":"c\n"}},
	{"tool":"bash","in":{"command":"echo line >> log"}},
	{"tool":"AskUserQuestion","in":{"questions":[{"question":"Which?","header":"Pick","options":[{"label":"a","description":"x"},{"label":"b","description":"y"}]}]}},
	{"text":"All done."}]`

func TestMain(m *testing.M) {
	if dir := os.Getenv(drillDir); dir != "" {
		os.Exit(drillChild(dir, os.Getenv(drillWhat), os.Getenv(drillFault)))
	}
	os.Exit(m.Run())
}

// drillChild runs the drill's run to its end, answering what it asks, or dies on the way.
func drillChild(dir, what, at string) int {
	n, _ := strconv.ParseInt(at, 10, 64)
	var hits atomic.Int64
	fault := func(string) {
		if n > 0 && hits.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	t := &childTB{}
	r := &rig{t: t, dir: filepath.Join(dir, "state"), workspace: filepath.Join(dir, "ws"), me: engine.Local(), change: func(o *engine.Options) { o.Fault = fault }}
	r.storeFault = func(string, []string) { fault("") }
	r.open()
	run, _, err := r.engine.Submit(context.Background(), r.me, engine.RunRequest{Prompt: "go @@" + drills[what].script + "@@", Permissions: &tool.PermissionConfig{Approval: tool.ApprovalPolicyDestructive}}, "drill")
	if err != nil {
		fmt.Fprintln(os.Stderr, "submit:", err)
		return 1
	}
	seen, err := os.OpenFile(filepath.Join(dir, "seen"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	last := int64(0)
	r.until(run.ID, func(all []event.Event) bool {
		for _, e := range all {
			if e.Seq <= last {
				continue
			}
			last = e.Seq
			fmt.Fprintf(seen, "%d %s\n", e.Seq, e.Type)
			switch e.Type {
			case event.ToolApprovalRequired:
				var p event.ToolApprovalRequiredPayload
				_ = json.Unmarshal(e.Payload, &p)
				_, _ = r.engine.Decide(context.Background(), r.me, p.ApprovalID, engine.Decision{Approve: true})
			case event.RunWaitingForUser:
				_, _ = r.engine.Answer(context.Background(), r.me, run.ID, map[string][]string{"Which?": {"b"}})
			}
		}
		return ended(all)
	})
	r.close()
	return 0
}

// childTB is the little of testing.TB that a rig needs outside of a test.
type childTB struct{ testing.TB }

func (*childTB) Helper() {}
func (*childTB) Error(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}
func (*childTB) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}
func (*childTB) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func runChild(t *testing.T, dir, what string, fault int) (killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), drillDir+"="+dir, drillWhat+"="+what, drillFault+"="+strconv.Itoa(fault))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return false
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
		return true
	}
	t.Fatalf("fault %d: the child failed: %v\n%s", fault, err, out.String())
	return false
}

func TestARunSurvivesAKillAtEveryFaultPoint(t *testing.T) { killEverywhere(t, "work", 40) }

// A compaction whose process dies is made once, with one summary, and the run goes on from it.
func TestACompactionSurvivesAKillAtEveryFaultPoint(t *testing.T) { killEverywhere(t, "compaction", 30) }

func killEverywhere(t *testing.T, what string, atLeast int) {
	t.Helper()
	step := 1
	if testing.Short() {
		step = 7
	}
	points, interrupted := 0, 0
	for n := 1; ; n += step {
		dir := t.TempDir()
		ws := filepath.Join(dir, "ws")
		for name, content := range map[string]string{"a.txt": "a\n", "b.txt": "b\n"} {
			if err := os.MkdirAll(ws, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(ws, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		killed := runChild(t, dir, what, n)
		if killed {
			points++
			if runChild(t, dir, what, 0) {
				t.Fatalf("fault %d: the second child was killed", n)
			}
		}
		interrupted += checkDrill(t, dir, what, n)
		if t.Failed() || !killed {
			break
		}
	}
	t.Logf("%d fault points, %d interrupted calls", points, interrupted)
	if points < atLeast/step {
		t.Errorf("only %d fault points were reached", points)
	}
}

// checkDrill looks at what a drilled run left, and returns how many calls were interrupted.
func checkDrill(t *testing.T, dir, what string, n int) int {
	t.Helper()
	st, err := sqlite.Open(context.Background(), sqlite.Options{Dir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	runs, err := st.Recover(context.Background())
	if err != nil || len(runs) != 0 {
		t.Errorf("fault %d: %d runs are still open, %v", n, len(runs), err)
	}
	id := onlyRun(t, st)
	all, err := st.Events(context.Background(), id, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	checkLog(t, all)
	if len(all) == 0 || all[len(all)-1].Type != event.RunCompleted {
		t.Errorf("fault %d: the run did not complete\n%s", n, dump(all))
		return 0
	}
	seen, _ := os.ReadFile(filepath.Join(dir, "seen"))
	for _, line := range strings.Split(strings.TrimSpace(string(seen)), "\n") {
		var seq int64
		var typ string
		if _, err := fmt.Sscanf(line, "%d %s", &seq, &typ); err != nil {
			continue // a kill cut the line short
		}
		if seq > int64(len(all)) || string(all[seq-1].Type) != typ {
			t.Errorf("fault %d: event %s was visible and is not in the log", n, line)
		}
	}
	cut := 0
	for _, e := range all {
		if e.Type != event.ToolCallCompleted {
			continue
		}
		var p event.ToolCallCompletedPayload
		_ = json.Unmarshal(e.Payload, &p)
		if p.Interrupted {
			cut++
			if !strings.Contains(p.Output, "interrupted: outcome unknown") || p.Tool == "read" || p.Tool == "glob" {
				t.Errorf("fault %d: %s: %s", n, p.Tool, p.Output)
			}
		}
	}
	lines, _ := os.ReadFile(filepath.Join(dir, "ws", "log"))
	if got := strings.Count(string(lines), "line"); got > 1 || (got == 0 && cut == 0) {
		t.Errorf("fault %d: the command ran %d times, %d calls interrupted", n, got, cut)
	}
	if cut > 1 {
		t.Errorf("fault %d: %d calls interrupted", n, cut)
	}
	for typ, want := range drills[what].counts {
		if got := count(all, typ); got != want {
			t.Errorf("fault %d: %d × %s, want %d\n%s", n, got, typ, want, dump(all))
		}
	}
	return cut
}

func onlyRun(t *testing.T, st *sqlite.Store) string {
	t.Helper()
	runs, _, err := st.ListRuns(context.Background(), listAll)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	return runs[0].ID
}
