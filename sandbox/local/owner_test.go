package local_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/sandbox/local"
)

// ownerVar makes the test program an owner of processes that is to be killed. Its value is the folder to work in.
const ownerVar = "SANDBOX_TEST_OWNER"

// own starts a busy leader and helpers that outlive it, prints their numbers and waits to be killed.
func own(dir string) {
	s, err := local.NewProvider(local.Options{}).CreateSession(context.Background(), sandbox.CreateOptions{Root: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, command := range []string{
		"echo leader $$; while :; do :; done",
		"sleep 300 & echo child $!; (sleep 300 & echo orphan $!); command -v setsid > /dev/null && setsid sh -c 'echo daemon $$; exec sleep 300' & wait",
	} {
		p, err := s.Spawn(context.Background(), sandbox.CommandOptions{Command: command})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go func() {
			sc := bufio.NewScanner(p.Stdout())
			for sc.Scan() {
				fmt.Println(sc.Text())
			}
		}()
	}
	select {}
}

// alive reads the process table.
func alive(pid int) bool {
	if err := unix.Kill(pid, 0); err != nil {
		return false
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	state := strings.TrimSpace(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	return state[0] != 'Z' && state[0] != 'X'
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// pr-09: what a killed owner leaves dies with it or is found by the next start's sweep.
func TestKilledOwnerLeavesNothingAfterSweep(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties processes to their owner")
	}
	owner := func() (*exec.Cmd, map[string]int) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), ownerVar+"="+t.TempDir())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if _, err := local.Sweep(context.Background()); err != nil {
				t.Error(err)
			}
		})
		pids := map[string]int{}
		for sc := bufio.NewScanner(out); len(pids) < 4 && sc.Scan(); {
			var name string
			var pid int
			if _, err := fmt.Sscan(sc.Text(), &name, &pid); err != nil {
				t.Fatalf("the owner says %q", sc.Text())
			}
			pids[name] = pid
		}
		if len(pids) < 4 {
			t.Fatalf("the owner told only %v", pids)
		}
		return cmd, pids
	}
	killed, gone := owner()
	_, spared := owner()

	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	eventually(t, "the kernel ends the leader", func() bool { return !alive(gone["leader"]) })

	n, err := local.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n < 3 {
		t.Errorf("the sweep killed %d processes, want the child, the orphan and the daemon", n)
	}
	for name, pid := range gone {
		if alive(pid) {
			t.Errorf("%s %d of the killed owner lives", name, pid)
		}
	}
	for name, pid := range spared {
		if !alive(pid) {
			t.Errorf("%s %d of the living owner was ended", name, pid)
		}
	}
}
