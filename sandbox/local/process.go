package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/harness-go/harness/sandbox"
)

const (
	// drainTime is how long output may still arrive after a tree was killed.
	drainTime = 100 * time.Millisecond
	// killLimit bounds the wait for processes that were sent SIGKILL. Only ones stuck in the kernel take longer.
	killLimit = 5 * time.Second
)

// process is a started command: its first process, the leader, and the tree below it.
type process struct {
	s       *session
	grace   time.Duration
	tree    tree
	leader  leader
	started time.Time

	stdout, stderr *output
	stdin          *os.File

	mu      sync.Mutex
	exited  bool  // the leader ended before anybody asked it to
	ending  bool  // somebody asked
	cause   error // why, as Wait tells
	endDone chan struct{}
	endErr  error

	finish  sync.Once
	done    chan struct{}
	status  sandbox.ExitStatus
	waitErr error
}

var _ sandbox.Process = (*process)(nil)

func newProcess(s *session, grace time.Duration, mark string) *process {
	return &process{
		s: s, grace: grace, tree: tree{mark: mark},
		endDone: make(chan struct{}), done: make(chan struct{}),
	}
}

func (p *process) start(prog string, opts sandbox.ExecOptions, dir string, env []string) error {
	f, err := openFiles(opts.Stdin != nil || opts.OpenStdin)
	if err != nil {
		return fmt.Errorf("start %s: %w", opts.Argv[0], err)
	}
	attr := &os.ProcAttr{Dir: dir, Env: env, Files: f.child[:], Sys: childAttr()}
	var proc *os.Process
	p.started = time.Now()
	p.s.p.starter.do(func() { proc, err = os.StartProcess(prog, opts.Argv, attr) })
	f.closeChild()
	if err != nil {
		p.s.p.starter.release()
		f.closeAll()
		return fmt.Errorf("start %s: %w", opts.Argv[0], err)
	}
	p.leader = leader{proc: proc}
	p.tree.leader = proc.Pid
	p.stdout, p.stderr = newOutput(f.stdout), newOutput(f.stderr)
	switch {
	case opts.OpenStdin:
		p.stdin = f.stdin
	case opts.Stdin != nil:
		go copyStdin(f.stdin, opts.Stdin)
	}
	return nil
}

// watch ties the process to ctx and to its own end.
func (p *process) watch(ctx context.Context) {
	unwatch := context.AfterFunc(ctx, func() {
		cause := ctx.Err()
		if c := context.Cause(ctx); !errors.Is(c, cause) {
			cause = fmt.Errorf("%w: %w", cause, c)
		}
		_ = p.end(cause)
	})
	go func() {
		defer unwatch()
		p.follow()
	}()
}

// follow waits for the leader and then ends what it left behind.
func (p *process) follow() {
	// While the leader is not reaped, its number, which names the tree's session, cannot be given to another process.
	p.leader.awaitExit()
	p.mu.Lock()
	p.exited = true
	ending := p.ending
	p.mu.Unlock()
	var err error
	if ending {
		<-p.endDone
	} else {
		err = p.tree.killRest(time.Since(p.started))
	}
	p.complete(exitStatus(p.leader.reap()), err)
}

// end asks the tree to end and returns when it has. Further calls wait for the first.
func (p *process) end(cause error) error {
	p.mu.Lock()
	switch {
	case p.ending:
	case p.exited:
		p.mu.Unlock()
		<-p.done
		return nil
	default:
		p.ending, p.cause = true, cause
		go p.terminate()
	}
	p.mu.Unlock()
	<-p.endDone
	if p.endErr == nil {
		<-p.done
	}
	return p.endErr
}

// terminate is SIGTERM, the grace, SIGKILL.
func (p *process) terminate() {
	defer close(p.endDone)
	p.tree.signal(unix.SIGTERM)
	if !p.tree.gone(p.grace) {
		p.endErr = p.tree.kill(killLimit)
	}
	if p.endErr != nil {
		// The leader may be among those that do not end. Who waits for it must not wait for ever.
		p.complete(sandbox.ExitStatus{ExitCode: 128 + int(unix.SIGKILL), Signal: "SIGKILL"}, p.endErr)
	}
}

// complete publishes the outcome, once.
func (p *process) complete(status sandbox.ExitStatus, err error) {
	p.finish.Do(func() {
		p.mu.Lock()
		p.status, p.waitErr = status, errors.Join(p.cause, err)
		p.mu.Unlock()
		p.stdout.end()
		p.stderr.end()
		p.s.forget(p)
		p.s.p.starter.release()
		close(p.done)
	})
}

func (p *process) PID() int              { return p.tree.leader }
func (p *process) Stdout() io.ReadCloser { return p.stdout }
func (p *process) Stderr() io.ReadCloser { return p.stderr }

func (p *process) Stdin() io.WriteCloser {
	if p.stdin == nil {
		return nil // not a nil *os.File in an interface
	}
	return p.stdin
}

// Wait returns the outcome when the command ended and its tree is gone. It may be called any number of times.
func (p *process) Wait() (sandbox.ExitStatus, error) {
	<-p.done
	return p.status, p.waitErr
}

func (p *process) Kill() error { return p.end(nil) }

func exitStatus(st *os.ProcessState) sandbox.ExitStatus {
	if st == nil {
		return sandbox.ExitStatus{ExitCode: -1}
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return sandbox.ExitStatus{ExitCode: 128 + int(ws.Signal()), Signal: unix.SignalName(ws.Signal())}
	}
	return sandbox.ExitStatus{ExitCode: st.ExitCode()}
}
