package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/sandbox"
)

func inPlace(t testing.TB, opts Options, change ...func(*sandbox.CreateOptions)) *session {
	t.Helper()
	co := sandbox.CreateOptions{Root: t.TempDir()}
	for _, c := range change {
		c(&co)
	}
	s, err := NewProvider(opts).CreateSession(context.Background(), co)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.(*session)
}

// runFor runs a command that ends by itself (0) or is cut short after so many tenths of a second.
func runFor(t *testing.T, s *session, command string, tenths int) sandbox.RunResult {
	t.Helper()
	ctx, want := t.Context(), error(nil)
	if tenths > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(tenths)*100*time.Millisecond)
		defer cancel()
		want = context.DeadlineExceeded
	}
	res, err := s.Run(ctx, sandbox.CommandOptions{Command: command, Grace: 50 * time.Millisecond})
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", command, err, want)
	}
	return res
}

func TestHostEnvTakesNamesOfTheListOnly(t *testing.T) {
	got := pickHostEnv([]string{
		"PATH=/bin:.::rel:/usr/bin", "HOME=/h", "USER=u", "LC_ALL=de_DE", "GOPATH=/go", "GOPROXY=https://u:p@proxy,direct", "https_proxy=http://proxy:1",
		"OPENAI_API_KEY=k", "EXTRA=e", "OTHER=o", "LD_PRELOAD=/x.so", "BASH_ENV=/x", "GIT_DIR=/x",
	}, []string{"EXTRA"})
	if got.err != nil {
		t.Fatal(got.err)
	}
	for k, want := range map[string]string{
		"PATH": "/bin:/usr/bin", "HOME": "/h", "USER": "u", "LC_ALL": "de_DE", "GOPATH": "/go", "https_proxy": "http://proxy:1",
		"EXTRA": "e", "TERM": "dumb", "LANG": "C.UTF-8", "TMPDIR": os.TempDir(),
	} {
		if got.vars[k] != want {
			t.Errorf("%s is %q, want %q", k, got.vars[k], want)
		}
		delete(got.vars, k)
	}
	if len(got.vars) != 0 {
		t.Errorf("also passed: %v", got.vars)
	}
	if !slices.Equal(got.withheld, []string{"GOPROXY"}) {
		t.Errorf("withheld: %v", got.withheld)
	}
}

func TestPassEnvRefusesSecrets(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "aws_secret_access_key", "SSH_AUTH_SOCK"} {
		_, err := NewProvider(Options{PassEnv: []string{name}}).CreateSession(t.Context(), sandbox.CreateOptions{Root: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCarriesCredentials(t *testing.T) {
	for v, want := range map[string]bool{
		"https://proxy.example,direct": false, "https://u:p@h": true, "direct,https://tok@h/x": true, "http://u:p%zz@h": true,
		"user@host": false, "/a@b:/c": false, "https://h/x@v1.2": false, "": false,
	} {
		if got := carriesCredentials(v); got != want {
			t.Errorf("%q: %v", v, got)
		}
	}
}

func TestProcessMarkCannotBeGiven(t *testing.T) {
	s := inPlace(t, Options{})
	if _, err := s.Run(t.Context(), sandbox.CommandOptions{Command: ":", Env: map[string]string{procIDVar: "x"}}); err == nil {
		t.Error("the mark was overridden")
	}
}

func TestFolderNamesAreOneToOne(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"a", "A", "a/b", "a%2fb", "a.b", ".", "..", ".a", "%", "%25", "ü", "a\x00", "-", "_"} {
		name, err := folderName("id", id)
		if err != nil {
			t.Fatal(err)
		}
		low := strings.ToLower(name)
		if other, ok := seen[low]; ok {
			t.Errorf("%q and %q are both %q", id, other, name)
		}
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			t.Errorf("%q is %q", id, name)
		}
		seen[low] = id
	}
	for _, bad := range []string{"", strings.Repeat("x", 201), strings.Repeat("X", 100)} {
		if name, err := folderName("id", bad); err == nil {
			t.Errorf("%.10q became %q", bad, name)
		}
	}
}

func TestCaptureKeepsHeadAndTail(t *testing.T) {
	for _, chunk := range []int{1, 3, 7, 100} {
		for _, n := range []int{0, 5, 10, 11, 15, 20, 57} {
			in := strings.Repeat("0123456789", 10)[:n]
			c := capture{limit: 10}
			for b := []byte(in); len(b) > 0; {
				m := min(chunk, len(b))
				c.add(b[:m])
				b = b[m:]
			}
			want := in
			if n > 10 {
				want = in[:5] + "\n[... " + strconv.Itoa(n-10) + " bytes of output left out ...]\n" + in[n-5:]
			}
			if got := c.String(); got != want {
				t.Errorf("%d bytes by %d: %q, want %q", n, chunk, got, want)
			}
		}
	}
}

func TestRunOutputIsBounded(t *testing.T) {
	s := inPlace(t, Options{MaxOutput: 1000})
	res := runFor(t, s, "printf first; head -c 5000000 /dev/zero; printf last", 0)
	if len(res.Stdout) > 1100 || !strings.HasPrefix(res.Stdout, "first") || !strings.HasSuffix(res.Stdout, "last") || !strings.Contains(res.Stdout, "4999009 bytes") {
		t.Errorf("%d bytes: %.60q", len(res.Stdout), strings.ReplaceAll(res.Stdout, "\x00", ""))
	}
}

func TestProcessesOfASessionAreBounded(t *testing.T) {
	s := inPlace(t, Options{MaxProcesses: 2})
	for range 2 {
		if _, err := s.Spawn(t.Context(), sandbox.CommandOptions{Command: "exec sleep 300"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Spawn(t.Context(), sandbox.CommandOptions{Command: ":"}); err == nil || !strings.Contains(err.Error(), "MaxProcesses") {
		t.Errorf("a third command: %v", err)
	}
}

func TestAPipeHeldFromOutsideDoesNotHoldUpRun(t *testing.T) {
	s := inPlace(t, Options{})
	hold := make(chan *os.File, 1)
	p, err := s.Spawn(t.Context(), sandbox.CommandOptions{Command: "echo text; read line < gate"})
	if err != nil {
		t.Fatal(err)
	}
	// Somebody outside of the tree keeps a copy of the writing end, as a service that the command talked to could.
	go func() {
		f, _ := os.OpenFile("/proc/"+strconv.Itoa(p.PID())+"/fd/1", os.O_WRONLY, 0)
		hold <- f
	}()
	f := <-hold
	if f == nil {
		_, _ = p.Wait()
		t.Skip("the process ended first, or there is no /proc")
	}
	defer f.Close()
	done := make(chan string, 1)
	go func() {
		var c capture
		c.limit = 1000
		c.drain(p.Stdout())
		done <- c.String()
	}()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	select {
	case got := <-done:
		if got != "text\n" {
			t.Errorf("read %q", got)
		}
	case <-time.After(30 * time.Second):
		t.Error("the reader waits for a stranger")
	}
}

func TestASessionsFolderHasOneHolder(t *testing.T) {
	base := t.TempDir()
	a, b := NewProvider(Options{BaseDir: base}), NewProvider(Options{BaseDir: base})
	s, err := a.CreateSession(t.Context(), sandbox.CreateOptions{SessionID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ResumeSession(t.Context(), "one"); !errors.Is(err, ErrInUse) {
		t.Errorf("resume of a live session: %v", err)
	}
	if _, err := b.CreateSession(t.Context(), sandbox.CreateOptions{SessionID: "one"}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create of an existing session: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := b.ResumeSession(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	left, _ := os.ReadDir(filepath.Join(base, "sessions"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAFailedCreateLeavesNothing(t *testing.T) {
	base := t.TempDir()
	p := NewProvider(Options{BaseDir: base})
	boom := errors.New("boom")
	fail := func(context.Context, sandbox.Session) error { return boom }
	for _, opts := range []sandbox.CreateOptions{{SessionID: "x", OnFirstCreate: fail}, {SessionID: "x", OnFirstCreate: fail, Identity: "i"}, {Root: t.TempDir(), OnFirstCreate: fail, Identity: "i"}} {
		if _, err := p.CreateSession(t.Context(), opts); !errors.Is(err, boom) {
			t.Errorf("%+v: %v", opts.SessionID, err)
		}
	}
	left, _ := os.ReadDir(filepath.Join(base, "sessions"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInPlaceOnFirstCreateRunsOncePerFolder(t *testing.T) {
	base, runs := t.TempDir(), 0
	one, two := t.TempDir(), t.TempDir()
	for _, root := range []string{one, one, two} {
		s, err := NewProvider(Options{BaseDir: base}).CreateSession(t.Context(), sandbox.CreateOptions{Root: root, Identity: "i",
			OnFirstCreate: func(context.Context, sandbox.Session) error { runs++; return nil }})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Destroy(t.Context())
	}
	if runs != 2 {
		t.Errorf("ran %d times for two folders", runs)
	}
	if left, _ := os.ReadDir(one); len(left) != 0 {
		t.Errorf("the user's folder holds %v", left)
	}
}

func TestDestroyRemovesLockedFolders(t *testing.T) {
	p := NewProvider(Options{BaseDir: t.TempDir()})
	s, err := p.CreateSession(t.Context(), sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := s.Run(t.Context(), sandbox.CommandOptions{Command: "mkdir -p a/b && : > a/b/f && chmod 555 a/b a"}); err != nil || res.ExitCode != 0 {
		t.Fatal(res, err)
	}
	if err := s.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.DefaultWorkingDirectory()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestBaseDirMustBeOurs(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{open, "relative", "/dev/null/x"} {
		if _, err := NewProvider(Options{BaseDir: dir}).CreateSession(t.Context(), sandbox.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "BaseDir") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	// In place needs no folder of ours.
	s, err := NewProvider(Options{BaseDir: open}).CreateSession(t.Context(), sandbox.CreateOptions{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Destroy(t.Context())
}

func FuzzLocateNeverLeavesAConfinedRoot(f *testing.F) {
	for _, p := range []string{"a", "../x", "/etc", "a/../../x", "//s", "\x00", "", ".", "/w/s/../x", "/w/s/x", "/w/s", "/w/sx"} {
		f.Add(p)
	}
	s := &session{dir: "/w/s", realDir: func() string { return "/real/w" }, confined: true, root: portableRoot{}, world: portableWorld{}}
	f.Fuzz(func(t *testing.T, p string) {
		pl, err := s.locate("open", p)
		if err != nil {
			return
		}
		if !fs.ValidPath(strings.ToValidUTF8(pl.name, "x")) || path.IsAbs(pl.name) || pl.in != s.root {
			t.Errorf("%q leads to %q", p, pl.name)
		}
	})
}
