package sandboxtest

import (
	"bufio"
	"context"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/harness-go/harness/sandbox"
)

var processTests = []test{
	{name: "run gives exit code and both streams", fn: func(b *trial) {
		s := b.open()
		for _, tt := range []struct {
			command string
			want    sandbox.RunResult
		}{
			{"echo out; echo err >&2; exit 3", sandbox.RunResult{ExitCode: 3, Stdout: "out\n", Stderr: "err\n"}},
			{"printf 'no newline'", sandbox.RunResult{Stdout: "no newline"}},
			{"kill -9 $$", sandbox.RunResult{ExitCode: 137}},
			{"read x; echo \"[$x]\"", sandbox.RunResult{Stdout: "[]\n"}},
		} {
			if got, err := s.Run(b.ctx(), sandbox.CommandOptions{Command: tt.command}); err != nil || got != tt.want {
				b.Errorf("%s: %+v, %v; want %+v", tt.command, got, err, tt.want)
			}
		}
		if _, err := s.Run(b.ctx(), sandbox.CommandOptions{}); err == nil {
			b.Error("an empty command was taken")
		}
	}},
	{name: "a command works in the default directory or the one it names", fn: func(b *trial) {
		s := b.open()
		b.sh(s, "mkdir -p sub/dir; echo here > sub/dir/f")
		for dir, want := range map[string]string{"": "sub\n", ".": "sub\n", "sub": "dir\n", "sub/dir": "f\n", s.DefaultWorkingDirectory() + "/sub": "dir\n"} {
			res, err := s.Run(b.ctx(), sandbox.CommandOptions{Command: "ls", WorkingDirectory: dir})
			if err != nil || res.Stdout != want {
				b.Errorf("%q: %q, %v; want %q", dir, res.Stdout, err, want)
			}
		}
		for dir, want := range map[string]error{"../x": sandbox.ErrOutside, "sub/../../x": sandbox.ErrOutside, "missing": fs.ErrNotExist} {
			_, err := s.Run(b.ctx(), sandbox.CommandOptions{Command: "ls", WorkingDirectory: dir})
			b.wantErr(dir, err, want)
		}
	}},
	{name: "much output on both streams arrives whole", fn: func(b *trial) {
		s := b.open()
		res, err := s.Run(b.ctx(), sandbox.CommandOptions{Command: "head -c 1000000 /dev/zero >&2 & head -c 1000000 /dev/zero; wait"})
		if err != nil || len(res.Stdout) != 1000000 || len(res.Stderr) != 1000000 {
			b.Errorf("got %d and %d bytes, %v", len(res.Stdout), len(res.Stderr), err)
		}
	}},
	{name: "a spawned command streams, and its output can be read after Wait", fn: func(b *trial) {
		s := b.open()
		p, err := s.Spawn(b.ctx(), sandbox.CommandOptions{Command: "echo one; read x < gate; echo two; exit 4"})
		if err == nil {
			defer p.Kill()
		}
		if err != nil || p.PID() <= 0 || p.Stdin() != nil {
			b.Fatalf("%v, %+v", err, p)
		}
		// There is no gate, so the shell goes on; the first line is read while it runs or when it has ended.
		line, err := bufio.NewReader(io.LimitReader(p.Stdout(), 4)).ReadString('\n')
		if line != "one\n" {
			b.Errorf("first line %q, %v", line, err)
		}
		st, err := p.Wait()
		if err != nil || st != (sandbox.ExitStatus{ExitCode: 4}) {
			b.Errorf("%+v, %v", st, err)
		}
		if rest, err := io.ReadAll(p.Stdout()); err != nil || string(rest) != "two\n" {
			b.Errorf("after Wait: %q, %v", rest, err)
		}
		if rest, err := io.ReadAll(p.Stderr()); err != nil || !strings.Contains(string(rest), "gate") {
			b.Errorf("after Wait: %q, %v", rest, err)
		}
		p.Stdout().Close()
		p.Stderr().Close()
	}},
	{name: "kill tells the signal and is safe at any time", fn: func(b *trial) {
		s := b.open()
		p := b.spawn(s, "echo pid $$; exec sleep 300")
		out := b.firstPIDs(p, 1)
		b.inTime("Kill", func() {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					if err := p.Kill(); err != nil {
						b.Errorf("Kill: %v", err)
					}
				})
			}
			wg.Wait()
		})
		if st, err := p.Wait(); err != nil || st != (sandbox.ExitStatus{ExitCode: 143, Signal: "SIGTERM"}) {
			b.Errorf("%+v, %v", st, err)
		}
		if err := p.Kill(); err != nil {
			b.Errorf("Kill after the end: %v", err)
		}
		b.wantDead(s, out...)
	}},
	{name: "closing a stream that is written to ends the writer, not the session", fn: func(b *trial) {
		s := b.open()
		p := b.spawn(s, "yes")
		p.Stdout().Close()
		p.Stderr().Close()
		b.inTime("Wait", func() { _, _ = p.Wait() })
		b.sh(s, ":")
	}},
	{name: "exec takes arguments as they are", fn: func(b *trial) {
		s := b.open()
		p, err := b.execer(s).Exec(b.ctx(), sandbox.ExecOptions{Argv: []string{"printf", "%s|", "a b", "$HOME", "`id`", "", "*"}, Env: map[string]string{"X": "1"}})
		if got := b.output(p, err); got != "a b|$HOME|`id`||*|" {
			b.Errorf("got %q", got)
		}
	}},
	{name: "exec reads standard input to its end", fn: func(b *trial) {
		s := b.open()
		e := b.execer(s)
		big := strings.Repeat("0123456789abcdef", 1<<16)
		p, err := e.Exec(b.ctx(), sandbox.ExecOptions{Argv: []string{"cat"}, Stdin: strings.NewReader(big)})
		if got := b.output(p, err); got != big {
			b.Errorf("got %d bytes of %d", len(got), len(big))
		}
		p, err = e.Exec(b.ctx(), sandbox.ExecOptions{Argv: []string{"true"}, Stdin: strings.NewReader(big)})
		if got := b.output(p, err); got != "" {
			b.Errorf("a program that reads nothing wrote %q", got)
		}
	}},
	{name: "exec lets the caller talk to the process", fn: func(b *trial) {
		s := b.open()
		p, err := b.execer(s).Exec(b.ctx(), sandbox.ExecOptions{Argv: []string{"cat"}, OpenStdin: true})
		if err != nil {
			b.Fatal(err)
		}
		defer p.Kill()
		r := bufio.NewReader(p.Stdout())
		for _, line := range []string{"one\n", "two\n"} {
			if _, err := io.WriteString(p.Stdin(), line); err != nil {
				b.Fatal(err)
			}
			if got, err := r.ReadString('\n'); err != nil || got != line {
				b.Fatalf("got %q, %v", got, err)
			}
		}
		if err := p.Stdin().Close(); err != nil {
			b.Fatal(err)
		}
		if st, err := p.Wait(); err != nil || st.ExitCode != 0 {
			b.Errorf("%+v, %v", st, err)
		}
	}},
	{name: "exec refuses what it cannot start and says what", fn: func(b *trial) {
		e := b.execer(b.open())
		for _, tt := range []struct {
			opts sandbox.ExecOptions
			want string
		}{
			{sandbox.ExecOptions{}, "Argv"},
			{sandbox.ExecOptions{Argv: []string{"no-such-program"}}, "no-such-program"},
			{sandbox.ExecOptions{Argv: []string{"./no-such-program"}}, "no-such-program"},
			{sandbox.ExecOptions{Argv: []string{"true", "a\x00b"}}, "NUL"},
			{sandbox.ExecOptions{Argv: []string{"true"}, Dir: "missing"}, "missing"},
			{sandbox.ExecOptions{Argv: []string{"true"}, Stdin: strings.NewReader(""), OpenStdin: true}, "OpenStdin"},
		} {
			if _, err := e.Exec(b.ctx(), tt.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
				b.Errorf("%+v: %v does not name %q", tt.opts, err, tt.want)
			}
		}
	}},
	{name: "a context that has ended starts nothing", fn: func(b *trial) {
		s := b.open()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := s.Run(ctx, sandbox.CommandOptions{Command: "touch ran"})
		b.wantErr("Run", err, context.Canceled)
		_, err = s.ReadBinaryFile(b.ctx(), "ran")
		b.wantErr("what the command makes", err, fs.ErrNotExist)
	}},
	{name: "many commands at once", fn: func(b *trial) {
		s := b.open()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if res, err := s.Run(b.ctx(), sandbox.CommandOptions{Command: "echo hi"}); err != nil || res.Stdout != "hi\n" {
					b.Errorf("%+v, %v", res, err)
				}
			})
		}
		wg.Wait()
	}},
}

func (b *trial) spawn(s sandbox.Session, command string) sandbox.Process {
	b.Helper()
	p, err := s.Spawn(b.ctx(), sandbox.CommandOptions{Command: command})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Kill() })
	return p
}

// firstPIDs reads until n numbers were printed, and goes on reading so that the command is never held up.
func (b *trial) firstPIDs(p sandbox.Process, n int) []int {
	b.Helper()
	got := make(chan []int, 1)
	go func() {
		var text strings.Builder
		sc := bufio.NewScanner(p.Stdout())
		for sc.Scan() {
			text.WriteString(sc.Text() + "\n")
			if all := pids(text.String()); len(all) >= n {
				got <- all
				break
			}
		}
		close(got)
		_, _ = io.Copy(io.Discard, p.Stdout())
	}()
	var all []int
	b.inTime("the command's first output", func() { all = <-got })
	if len(all) < n {
		b.Fatalf("the command told %d process numbers, want %d", len(all), n)
	}
	return all
}

func (b *trial) output(p sandbox.Process, err error) string {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	defer p.Kill()
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		b.Fatal(err)
	}
	if st, err := p.Wait(); err != nil || st.ExitCode != 0 {
		b.Fatalf("%+v, %v", st, err)
	}
	return string(out)
}
