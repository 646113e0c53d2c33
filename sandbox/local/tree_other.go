//go:build !linux

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is the leader's process group.
type tree struct {
	leader int
	mark   string
}

func (t *tree) signal(sig unix.Signal) { _ = unix.Kill(-t.leader, sig) }

// gone waits until the group is empty, at most for limit.
func (t *tree) gone(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if unix.Kill(-t.leader, 0) != nil {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}

func (t *tree) kill(limit time.Duration) error {
	t.signal(unix.SIGKILL)
	if !t.gone(limit) {
		return fmt.Errorf("processes of group %d did not end within %v of SIGKILL", t.leader, limit)
	}
	return nil
}

func (t *tree) killRest(time.Duration) error { return t.kill(killLimit) }

func treeNote() string {
	return "Of a command's processes only its process group is followed: one that leaves the group outlives the command, and a killed daemon leaves its commands running."
}

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func processMark() string { return fmt.Sprintf("%d-", os.Getpid()) }

// Sweep cannot tell whose a process is on this system, and says so.
func Sweep(context.Context) (int, error) {
	return 0, fmt.Errorf("sweep: %w on this system", errors.ErrUnsupported)
}

// leader is a tree's first process. It is reaped when it ends.
type leader struct {
	proc  *os.Process
	state *os.ProcessState
}

func (l *leader) awaitExit() { l.state, _ = l.proc.Wait() }

func (l *leader) reap() *os.ProcessState { return l.state }
