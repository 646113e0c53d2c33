// Package sandboxtest is the suite that every sandbox implementation passes: what package sandbox promises, one test
// for each promise.
//
// It owns no sandbox and makes no processes but through the sessions it is given. The sandbox must have a POSIX shell
// with the usual small programs (cat, ln, mkfifo, sleep).
package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/sandbox"
)

// Target is an implementation under test.
type Target struct {
	Provider sandbox.Provider
	// Options is what every session of the suite starts from. The suite sets the fields that a test is about.
	Options sandbox.CreateOptions
	// HostFiles: a session's default working directory is a folder of this machine, and CreateOptions.Root is taken.
	HostFiles bool
	// Refused are options that the provider cannot enforce.
	Refused []sandbox.CreateOptions
	// Alive tells whether a process lives that printed its number in a session, also after that session's end. Nil:
	// only live sessions are asked.
	Alive func(pid int) bool
}

// Run runs the suite. newTarget is called for each test and registers its own clean-up.
func Run(t *testing.T, newTarget func(t *testing.T) Target) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"lifecycle", lifecycleTests},
		{"environment", environmentTests},
		{"processes", processTests},
		{"trees", treeTests},
		{"files", fileTests},
		{"replace", replaceTests},
		{"remove", removeTests},
		{"confinement", confineTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, tt := range group.tests {
				t.Run(tt.name, func(t *testing.T) {
					if tt.host != nil {
						tt.host(t)
					}
					tt.fn(&trial{T: t, Target: newTarget(t)})
				})
			}
		})
	}
}

type test struct {
	name string
	fn   func(b *trial)
	// host prepares the machine before the provider is made.
	host func(t *testing.T)
}

// patience bounds every wait of the suite. Nothing is asserted about how long things take below it.
const patience = 30 * time.Second

// trial is one test at work.
type trial struct {
	*testing.T
	Target
}

func (b *trial) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.Cleanup(cancel)
	return ctx
}

// open makes a session that ends with the test.
func (b *trial) open(change ...func(*sandbox.CreateOptions)) sandbox.NetworkSession {
	b.Helper()
	s, err := b.create(change...)
	if err != nil {
		b.Fatalf("CreateSession: %v", err)
	}
	return s
}

func (b *trial) create(change ...func(*sandbox.CreateOptions)) (sandbox.NetworkSession, error) {
	opts := b.Options
	for _, c := range change {
		c(&opts)
	}
	s, err := b.Provider.CreateSession(b.ctx(), opts)
	if err == nil {
		b.Cleanup(func() {
			if err := s.Destroy(context.Background()); err != nil {
				b.Errorf("Destroy: %v", err)
			}
		})
	}
	return s, err
}

func (b *trial) files(s sandbox.Session) sandbox.Files {
	b.Helper()
	f, ok := s.(sandbox.Files)
	if !ok {
		b.Skip("the session has no sandbox.Files")
	}
	return f
}

func (b *trial) execer(s sandbox.Session) sandbox.Execer {
	b.Helper()
	e, ok := s.(sandbox.Execer)
	if !ok {
		b.Skip("the session has no sandbox.Execer")
	}
	return e
}

// sh runs a command that must succeed.
func (b *trial) sh(s sandbox.Session, command string) string {
	b.Helper()
	res, err := s.Run(b.ctx(), sandbox.CommandOptions{Command: command})
	if err != nil || res.ExitCode != 0 {
		b.Fatalf("%s: exit %d, %v\n%s", command, res.ExitCode, err, res.Stderr)
	}
	return res.Stdout
}

func (b *trial) write(s sandbox.Session, path, text string) {
	b.Helper()
	if err := s.WriteTextFile(b.ctx(), path, text); err != nil {
		b.Fatal(err)
	}
}

func (b *trial) wantText(s sandbox.Session, path, want string) {
	b.Helper()
	if got, err := s.ReadTextFile(b.ctx(), path, sandbox.ReadTextOptions{}); err != nil || got != want {
		b.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

func (b *trial) wantErr(what string, err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// inTime fails the test when fn does not return.
func (b *trial) inTime(what string, fn func()) {
	b.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(patience):
		b.Fatalf("%s did not return within %v", what, patience)
	}
}

// wantDead checks that none of the processes lives.
func (b *trial) wantDead(s sandbox.Session, pids ...int) {
	b.Helper()
	if len(pids) == 0 {
		b.Fatal("the command told no process number")
	}
	for _, pid := range pids {
		alive := b.Alive
		if alive == nil {
			alive = func(pid int) bool { return b.aliveInside(s, pid) }
		}
		if alive(pid) {
			b.Errorf("process %d is alive", pid)
		}
	}
}

// aliveInside asks the session. A process that ended and was not reaped is not alive.
func (b *trial) aliveInside(s sandbox.Session, pid int) bool {
	b.Helper()
	out := b.sh(s, fmt.Sprintf(`if [ -r /proc/self/stat ]; then cat /proc/%d/stat 2>/dev/null | sed 's/.*) //'; else ps -o stat= -p %d; fi; :`, pid, pid))
	state := strings.TrimSpace(out)
	return state != "" && state[0] != 'Z' && state[0] != 'X'
}

// pids finds the numbers that a command printed as "pid N".
func pids(out string) []int {
	var all []int
	f := strings.Fields(out)
	for i := range len(f) - 1 {
		if n, err := strconv.Atoi(f[i+1]); err == nil && f[i] == "pid" {
			all = append(all, n)
		}
	}
	return all
}
