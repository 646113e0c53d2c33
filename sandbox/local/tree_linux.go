package local

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a leader and everything that descends from it, as far as /proc tells: members of the leader's kernel session,
// descendants of members, and whoever carries the mark. The leader is 0 where only the mark is known.
//
// The leader must not have been reaped while its tree is looked at: a reaped number may name another session. A tree is
// used by one goroutine at a time.
type tree struct {
	leader int
	mark   string
	// seen were members once. They stay so to their end: while a process exits its environment is gone already.
	seen map[procKey]bool
}

const (
	// shortRun is how long a command may have run for killRest to look only at processes younger than its leader:
	// too short for the kernel to have given out every number once.
	shortRun = 250 * time.Millisecond
	// maxYoung bounds the numbers that are looked up one by one.
	maxYoung = 512
	// maxStopRounds bounds the attempts to find every process stopped before they are killed.
	maxStopRounds = 8
)

// members lists what is alive of the tree.
func (t *tree) members() []proc {
	if !procUsable() {
		return t.group()
	}
	return t.pick(listProcs())
}

// group stands in for members where /proc cannot be used: the process group as one, for as long as its leader lives.
// What the leader leaves in the group cannot be told from the unreaped leader and is killed unseen.
func (t *tree) group() []proc {
	if t.leader == 0 {
		return nil
	}
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, t.leader, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == nil && info.Signo == 0 {
		return []proc{{pid: -t.leader}}
	}
	_ = unix.Kill(-t.leader, unix.SIGKILL)
	return nil
}

// pick chooses the tree's members among processes.
func (t *tree) pick(all []proc) []proc {
	if t.seen == nil {
		t.seen = make(map[procKey]bool)
	}
	self := os.Getpid()
	since := uint64(0) // nothing of the tree is older than its leader
	if i := slices.IndexFunc(all, func(p proc) bool { return p.pid == t.leader }); i >= 0 {
		since = all[i].start
	}
	in := make(map[int]bool)
	var out, others []proc
	for _, p := range all {
		ours := t.leader != 0 && (p.sid == t.leader || p.pgrp == t.leader)
		switch {
		case p.pid == self || p.kernel || p.start < since:
		case p.dead():
			if ours && p.ppid == self && p.pid != t.leader {
				// Orphans come to this process where it is the first of its container.
				_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
			}
		case ours || t.seen[p.key()] || hasMark(p.pid, t.mark):
			in[p.pid] = true
			out = append(out, p)
		default:
			others = append(others, p)
		}
	}
	for grown := len(in) > 0; grown; {
		grown = false
		others = slices.DeleteFunc(others, func(p proc) bool {
			if !in[p.ppid] {
				return false
			}
			in[p.pid] = true
			out = append(out, p)
			grown = true
			return true
		})
	}
	for _, p := range out {
		t.seen[p.key()] = true
	}
	return out
}

// signal sends sig to each member.
func (t *tree) signal(sig unix.Signal) {
	for _, p := range t.members() {
		p.signal(sig)
	}
}

// gone waits until nothing of the tree is alive, at most for limit.
func (t *tree) gone(limit time.Duration) bool {
	return poll(limit, func() bool { return len(t.members()) == 0 })
}

// poll asks done more and more seldom until it is true, at most for limit.
func poll(limit time.Duration, done func() bool) bool {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if done() {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}

// kill ends the tree with SIGKILL. Members are stopped first, so that none can start another between being seen and
// being killed.
func (t *tree) kill(limit time.Duration) error {
	_, err := t.killAll(limit)
	return err
}

func (t *tree) killAll(limit time.Duration) (killed int, err error) {
	stopped := make(map[procKey]bool)
	var left []proc
	ended := poll(limit, func() bool {
		left = t.members()
		for range maxStopRounds {
			fresh := false
			for _, p := range left {
				if !stopped[p.key()] {
					stopped[p.key()], fresh = true, true
					p.signal(unix.SIGSTOP)
				}
			}
			if !fresh {
				break
			}
			left = t.members()
		}
		for _, p := range left {
			p.signal(unix.SIGKILL)
		}
		return len(left) == 0
	})
	if !ended {
		return len(stopped), fmt.Errorf("%d processes did not end within %v of SIGKILL, the first is %d", len(left), limit, left[0].pid)
	}
	return len(stopped), nil
}

// killRest ends what a leader left behind when it ended. It is quick where there is nothing.
func (t *tree) killRest(ran time.Duration) error {
	if ran < shortRun && procUsable() {
		if young, ok := youngerThan(t.leader); ok && len(t.pick(young)) == 0 {
			return nil
		}
	}
	return t.kill(killLimit)
}

// treeNote tells what cannot be followed here.
func treeNote() string {
	if procUsable() {
		return ""
	}
	return "The files of /proc are not those of this process's own PID namespace: of a command's processes only its process group is followed."
}

// Pdeathsig ends the leader with the thread that started it, see starter.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// hasPidfd is false before Linux 5.3.
var hasPidfd = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
})

// signal goes to the very process that was seen, not to one that has its number by now.
func (p proc) signal(sig unix.Signal) {
	if p.pid < 0 || !hasPidfd() {
		_ = unix.Kill(p.pid, sig)
		return
	}
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	if now, ok := readProc(p.pid); ok && now.start == p.start {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// leader is a tree's first process.
type leader struct{ proc *os.Process }

// awaitExit returns when the leader ended and leaves it unreaped.
func (l *leader) awaitExit() {
	for {
		err := unix.Waitid(unix.P_PID, l.proc.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (l *leader) reap() *os.ProcessState {
	st, _ := l.proc.Wait()
	return st
}
