package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/harness-go/harness/internal/daemon"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"harness":  func() { os.Exit(Main(os.Args[1:])) },
		"harnessd": func() { os.Exit(daemon.Main(os.Args[1:], os.Stdout, os.Stderr)) },
		"code":     func() { os.Exit(code(os.Args[1:])) },
	})
}

// code runs a command and tells its exit code on standard error.
func code(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run()
	fmt.Fprintf(os.Stderr, "exit code %d\n", cmd.ProcessState.ExitCode())
	return 0
}

func TestStories(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			port, err := freePort()
			if err != nil {
				return err
			}
			for _, dir := range []string{"home", "work"} {
				if err := os.MkdirAll(filepath.Join(e.WorkDir, dir), 0o755); err != nil {
					return err
				}
			}
			// The path of a socket is short, that of a test's folder can be long.
			state, err := os.MkdirTemp("", "hs")
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(state) })
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("HARNESS_STATE_DIR", state)
			e.Setenv("HARNESS_ADDR", fmt.Sprintf("127.0.0.1:%d", port))
			e.Setenv("HARNESS_PROVIDER", "fake")
			e.Cd = filepath.Join(e.WorkDir, "work")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"capture": capture, "ready": ready, "normal": normal, "until": until, "found": found,
		},
	})
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// capture NAME stdout|stderr REGEXP sets a variable to the first group that matches.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: capture NAME stdout|stderr REGEXP")
	}
	m := regexp.MustCompile(args[2]).FindStringSubmatch(ts.ReadFile(args[1]))
	if len(m) < 2 {
		ts.Fatalf("%s does not match %s", args[1], args[2])
	}
	ts.Setenv(args[0], m[1])
}

// ready waits until a process serves the state directory and its address.
func ready(ts *testscript.TestScript, _ bool, _ []string) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		s, err := net.Dial("unix", filepath.Join(ts.Getenv("HARNESS_STATE_DIR"), daemon.SocketName))
		if err == nil {
			_ = s.Close()
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("nothing serves the state directory: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

var (
	callRE = regexp.MustCompile(`call_[0-9a-f]{16}_`)
	idRE   = regexp.MustCompile(`\b(run_|ap_|qu_|key_|conv_)[0-9a-z-]{8,}`)
	timeRE = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	msRE   = regexp.MustCompile(`"(\w*_ms)":\d+`)
	hexRE  = regexp.MustCompile(`sha256:[0-9a-f]{64}`)
	spanRE = regexp.MustCompile(`\b\d+(\.\d)?m?s\b`)
)

// normal FILE writes standard output, or standard error with -e, to FILE with what differs from run to run replaced.
func normal(ts *testscript.TestScript, neg bool, args []string) {
	from := "stdout"
	if len(args) == 2 && args[0] == "-e" {
		from, args = "stderr", args[1:]
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: normal [-e] FILE")
	}
	s := ts.ReadFile(from)
	seen := map[string]string{}
	s = idRE.ReplaceAllStringFunc(s, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("%s%d", id[:strings.Index(id, "_")+1], len(seen)+1)
		}
		return seen[id]
	})
	s = strings.ReplaceAll(s, ts.Getenv("WORK"), "$WORK")
	s = callRE.ReplaceAllString(s, "call_ID_")
	s = timeRE.ReplaceAllString(s, "TIME")
	s = msRE.ReplaceAllString(s, `"$1":0`)
	s = hexRE.ReplaceAllString(s, "sha256:DIGEST")
	s = spanRE.ReplaceAllString(s, "TOOK")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(s), 0o644))
}

// until TEXT COMMAND… runs a command again and again until its standard error holds the text.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until TEXT COMMAND…")
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ts.Check(ts.Exec("code", args[1:]...))
		if strings.Contains(ts.ReadFile("stderr"), args[0]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("standard error never held %q", args[0])
		}
	}
}

// found TEXT COMMAND… runs a command again and again until its standard output holds the text.
func found(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: found TEXT COMMAND…")
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("standard output never held %q", args[0])
		}
	}
}
