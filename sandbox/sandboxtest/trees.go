package sandboxtest

import (
	"context"
	"strings"
	"time"

	"github.com/harness-go/harness/sandbox"
)

// stubborn are commands whose trees do not end by themselves when they are asked to. Each prints "pid N" for the
// processes that must be gone, and needs the program named.
var stubborn = []struct {
	name, needs, command string
	pids                 int
}{
	{"a child that ignores SIGTERM", "sh",
		`trap : TERM; sh -c 'trap "" TERM; echo pid $$; while :; do sleep 1; done' & wait; wait`, 1},
	{"a child in a session of its own", "setsid",
		`setsid sh -c 'trap "" TERM; echo pid $$; while :; do sleep 1; done' & echo pid $$; wait; wait`, 2},
	{"an orphan in a session of its own", "setsid",
		`(setsid sh -c 'trap "" TERM; echo pid $$; while :; do sleep 1; done' > out &) ; until grep -q pid out 2>/dev/null; do sleep 0.01; done; cat out; exec sleep 300`, 1},
	{"an orphan that holds no stream", "setsid",
		`(setsid sh -c 'exec 3> out; echo pid $$ >&3; exec sleep 300' < /dev/null > /dev/null 2>&1 &) ; until grep -q pid out 2>/dev/null; do sleep 0.01; done; cat out; trap "" TERM; while :; do sleep 1; done`, 1},
	{"many children", "sh",
		`for i in 1 2 3 4 5 6 7 8; do sh -c 'trap "" TERM; echo pid $$; exec sleep 300' & done; trap "" TERM; wait; wait`, 8},
}

var treeTests = []test{
	{name: "pr-01 a timeout ends a command whose child holds the pipe, and keeps the output so far", fn: func(b *trial) {
		s := b.open()
		// The pipe's reader is the shell's last program, its writer a child that is not waited for.
		ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
		defer cancel()
		var res sandbox.RunResult
		var err error
		b.inTime("Run", func() {
			res, err = s.Run(ctx, sandbox.CommandOptions{Command: "mkfifo p; (while true; do echo child; sleep 1; done) > p & echo pid $!; echo pid $$; cat p"})
		})
		b.wantErr("Run", err, context.DeadlineExceeded)
		if !strings.Contains(res.Stdout, "child") {
			b.Errorf("output so far is %q", res.Stdout)
		}
		b.wantDead(s, pids(res.Stdout)...)
	}},
	{name: "pr-02 what a command leaves behind is ended when it ends", fn: func(b *trial) {
		s := b.open()
		for _, command := range []string{
			"sleep 300 & echo pid $!; exit 0",
			"(sleep 300 & echo pid $!); exit 0",
			"nohup sleep 300 > /dev/null 2>&1 & echo pid $!",
			"trap '' TERM HUP; sleep 300 & echo pid $!",
		} {
			var res sandbox.RunResult
			var err error
			b.inTime("Run", func() { res, err = s.Run(b.ctx(), sandbox.CommandOptions{Command: command}) })
			if err != nil || res.ExitCode != 0 {
				b.Errorf("%s: %+v, %v", command, res, err)
			}
			b.wantDead(s, pids(res.Stdout)...)
		}
	}},
	{name: "pr-02 also when it left the process group", fn: func(b *trial) {
		s := b.open()
		b.need(s, "setsid")
		for _, ran := range []string{"", "sleep 0.4; "} { // a command that ran for long is looked at in another way
			var res sandbox.RunResult
			var err error
			b.inTime("Run", func() {
				res, err = s.Run(b.ctx(), sandbox.CommandOptions{Command: ran + `rm -f out; setsid sh -c 'echo pid $$ > out; exec sleep 300' < /dev/null > /dev/null 2>&1 & until grep -q pid out 2>/dev/null; do sleep 0.01; done; cat out`})
			})
			if err != nil || res.ExitCode != 0 {
				b.Errorf("%+v, %v", res, err)
			}
			b.wantDead(s, pids(res.Stdout)...)
		}
	}},
	{name: "pr-06 after the grace nothing of a tree is left", fn: func(b *trial) {
		s := b.open()
		for _, tt := range stubborn {
			b.need(s, tt.needs)
			ctx, cancel := context.WithCancel(context.Background())
			p, err := s.Spawn(ctx, sandbox.CommandOptions{Command: tt.command, Grace: 100 * time.Millisecond})
			if err != nil {
				b.Fatal(err)
			}
			all := b.firstPIDs(p, tt.pids)
			cancel()
			b.inTime(tt.name, func() { _, err = p.Wait() })
			b.wantErr(tt.name, err, context.Canceled)
			b.wantDead(s, all...)
			p.Stderr().Close()
			b.sh(s, "rm -f out")
		}
	}},
	{name: "pr-07 stop ends every process and Wait says so", fn: func(b *trial) {
		if b.Alive == nil {
			b.Skip("processes cannot be seen after the session's end")
		}
		s := b.open()
		a := b.spawn(s, "echo pid $$; while :; do sleep 1; done")
		c := b.spawn(s, "sleep 300 & echo pid $!; wait")
		all := append(b.firstPIDs(a, 1), b.firstPIDs(c, 1)...)
		other := b.open()
		d := b.spawn(other, "echo pid $$; exec sleep 300")
		spared := b.firstPIDs(d, 1)
		b.inTime("Stop", func() {
			if err := s.Stop(context.Background()); err != nil {
				b.Errorf("Stop: %v", err)
			}
		})
		for _, p := range []sandbox.Process{a, c} {
			_, err := p.Wait()
			b.wantErr("Wait", err, sandbox.ErrEnded)
		}
		b.wantDead(s, all...)
		if !b.Alive(spared[0]) {
			b.Error("stop ended a process of another session")
		}
	}},
	{name: "a graceful child has its grace", fn: func(b *trial) {
		s := b.open()
		p := b.spawn(s, `trap 'echo bye > bye; exit 7' TERM; echo pid $$; while :; do sleep 0.05; done`)
		b.firstPIDs(p, 1)
		if err := p.Kill(); err != nil {
			b.Fatal(err)
		}
		if st, err := p.Wait(); err != nil || st.ExitCode != 7 {
			b.Errorf("%+v, %v", st, err)
		}
		b.wantText(s, "bye", "bye\n")
	}},
	{name: "stop in the middle of starts leaves nothing", fn: func(b *trial) {
		s := b.open()
		started := make(chan struct{}, 8)
		ended := make(chan error, 8)
		for range 8 {
			go func() {
				var err error
				for err == nil {
					_, err = s.Run(context.Background(), sandbox.CommandOptions{Command: "sleep 0.01", Grace: 50 * time.Millisecond})
					select {
					case started <- struct{}{}:
					default:
					}
				}
				ended <- err
			}()
		}
		<-started
		if err := s.Stop(b.ctx()); err != nil {
			b.Fatal(err)
		}
		for range 8 {
			b.inTime("Run", func() { b.wantErr("Run", <-ended, sandbox.ErrEnded) })
		}
	}},
}

// need skips a test whose sandbox lacks a program.
func (b *trial) need(s sandbox.Session, program string) {
	b.Helper()
	if res, err := s.Run(b.ctx(), sandbox.CommandOptions{Command: "command -v " + program}); err != nil || res.ExitCode != 0 {
		b.Skipf("the sandbox has no %s", program)
	}
}
