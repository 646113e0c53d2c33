package sandboxtest

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/harness-go/harness/sandbox"
)

var confineTests = []test{
	{name: "fi-13 no path leads out of a confined session", fn: func(b *trial) {
		s := b.open(func(o *sandbox.CreateOptions) { o.ConfineFiles = true })
		b.sh(s, "mkdir a; ln -s / escape; ln -s /etc etc; ln -s ../.. up; ln -s /proc/self/root magic; ln -s /etc/passwd file")
		for path, want := range map[string]error{
			"escape/tmp/evil": sandbox.ErrOutside, "escape": sandbox.ErrOutside, "etc/passwd": sandbox.ErrOutside,
			"file": sandbox.ErrOutside, "up/x": sandbox.ErrOutside, "magic/tmp/evil": sandbox.ErrOutside,
			"a/../../x": sandbox.ErrOutside, "..": sandbox.ErrOutside, "../x": sandbox.ErrOutside,
			"/tmp/evil": sandbox.ErrOutside, "/etc/passwd": sandbox.ErrOutside, "/": sandbox.ErrOutside,
			s.DefaultWorkingDirectory() + "/../x": sandbox.ErrOutside, s.DefaultWorkingDirectory() + "x/y": sandbox.ErrOutside,
			"//server/share": fs.ErrInvalid, "a\x00b": fs.ErrInvalid, "": fs.ErrInvalid,
			strings.Repeat("n", 300): syscall.ENAMETOOLONG, strings.Repeat("d/", 3000) + "f": syscall.ENAMETOOLONG,
		} {
			for name, call := range reads(b, s, path) {
				b.wantErr(name+" "+path, call(), want)
			}
			b.wantErr("Write "+path, s.WriteTextFile(b.ctx(), path, "x"), want)
		}
	}},
	{name: "fi-13 a relative path does not lead out of any session", fn: func(b *trial) {
		s := b.open()
		b.sh(s, "mkdir a; ln -s / escape")
		for _, path := range []string{"escape/etc/passwd", "a/../../x", "../x", s.DefaultWorkingDirectory() + "/escape/etc/passwd"} {
			for name, call := range reads(b, s, path) {
				b.wantErr(name+" "+path, call(), sandbox.ErrOutside)
			}
			b.wantErr("Write "+path, s.WriteTextFile(b.ctx(), path, "x"), sandbox.ErrOutside)
		}
	}},
	{name: "fi-13 a link that stays inside works", fn: func(b *trial) {
		s := b.open(func(o *sandbox.CreateOptions) { o.ConfineFiles = true })
		b.sh(s, "mkdir -p a/b; echo x > a/b/f; ln -s a/b rel; ln -s ../a a/self; ln -s \"$PWD/a/b\" abs; ln -s \"$(pwd -P)/a\" real")
		for _, path := range []string{"rel/f", "a/self/b/f", "abs/f", "real/b/f"} {
			b.wantText(s, path, "x\n")
			if info, err := b.files(s).Stat(b.ctx(), path); err != nil || info.Name() != "f" || info.Size() != 2 {
				b.Errorf("%s: %v, %v", path, info, err)
			}
		}
		b.write(s, "abs/g", "y")
		b.wantText(s, "a/b/g", "y")
		b.write(s, "rel/deep/h", "z")
		b.wantText(s, "a/b/deep/h", "z")
	}},
	{name: "fi-13 the root itself may be a link", fn: func(b *trial) {
		if !b.HostFiles {
			b.Skip("no sessions in place")
		}
		real, link := b.TempDir(), filepath.Join(b.TempDir(), "link")
		if err := os.Symlink(real, link); err != nil {
			b.Fatal(err)
		}
		s := b.open(func(o *sandbox.CreateOptions) { o.Root, o.ConfineFiles = link, true })
		b.write(s, "f", "x")
		b.wantText(s, link+"/f", "x")
		b.wantText(s, real+"/f", "x")
		if out := b.sh(s, "cat f"); out != "x" {
			b.Errorf("a command reads %q", out)
		}
		if got := b.files(s).Display(real + "/f"); got != "f" {
			b.Errorf("shown as %q", got)
		}
	}},
	{name: "an unconfined session reads and writes absolute paths, but not the harness's own process files", fn: func(b *trial) {
		if !b.HostFiles {
			b.Skip("the sandbox has files of its own")
		}
		if b.Options.Scope != "" && b.Options.Scope != sandbox.ScopeUnrestricted {
			b.Skip("the scope is confined")
		}
		s := b.open()
		out := b.TempDir()
		b.write(s, out+"/sub/f", "x")
		b.wantText(s, out+"/sub/f", "x")
		if err := os.Symlink(out+"/sub", out+"/link"); err != nil {
			b.Fatal(err)
		}
		b.wantText(s, out+"/link/f", "x")
		b.write(s, out+"/link/f", "y")
		b.wantText(s, out+"/sub/f", "y")
		for _, path := range []string{"/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/self/fd/0", "/dev/null", "/dev/zero"} {
			if _, err := os.Lstat(path); err != nil {
				continue
			}
			b.inTime("open of "+path, func() {
				if f, err := b.files(s).Open(b.ctx(), path); err == nil {
					f.Close()
					b.Errorf("%s was opened", path)
				}
			})
		}
	}},
	{name: "no race of links and renames leads out", fn: raceLinks},
}

// raceOps is how often the race is run.
const raceOps = 2000

// raceLinks swaps a folder with a link to an outside one while the file tools work below that name.
func raceLinks(b *trial) {
	if !b.HostFiles {
		b.Skip("the sandbox's folder cannot be raced from here")
	}
	root, out := b.TempDir(), b.TempDir()
	s := b.open(func(o *sandbox.CreateOptions) { o.Root, o.ConfineFiles = root, true })
	f := b.files(s)
	const secret = "outside"
	inside := filepath.Join(root, "d")
	for _, step := range []error{
		os.Mkdir(inside, 0o755),
		os.WriteFile(filepath.Join(inside, "f"), []byte("inside"), 0o644),
		os.WriteFile(filepath.Join(out, "f"), []byte(secret), 0o644),
		os.WriteFile(filepath.Join(out, "only-outside"), nil, 0o644),
		os.Symlink(out, filepath.Join(root, "l")),
	} {
		if step != nil {
			b.Fatal(step)
		}
	}
	ctx, cancel := context.WithCancel(b.ctx())
	swapping := make(chan struct{})
	go func() {
		defer close(swapping)
		for ctx.Err() == nil {
			if err := exchange(inside, filepath.Join(root, "l")); err != nil {
				b.Errorf("swap: %v", err)
				return
			}
		}
	}()
	good, refused := 0, 0
	for i := range raceOps {
		var err error
		switch i % 4 {
		case 0:
			err = f.Replace(b.ctx(), "d/f", []byte("inside"), sandbox.ReplaceOptions{})
		case 1:
			var r sandbox.File
			if r, err = f.Open(b.ctx(), "d/f"); err == nil {
				data, _ := io.ReadAll(r)
				r.Close()
				if string(data) == secret {
					b.Fatalf("operation %d read the outside file", i)
				}
			}
		case 2:
			err = f.Replace(b.ctx(), "d/new/g", []byte("inside"), sandbox.ReplaceOptions{})
		case 3:
			err = f.Walk(b.ctx(), ".", func(p string, d fs.DirEntry) error {
				if strings.Contains(p, "only-outside") {
					b.Errorf("the walk saw %s", p)
				}
				_, _ = d.Info()
				return nil
			})
		}
		if err == nil {
			good++
		} else {
			refused++
		}
	}
	cancel()
	<-swapping
	b.Logf("%d operations went through, %d were refused", good, refused)
	if good == 0 {
		b.Error("no operation went through")
	}
	data, err := os.ReadFile(filepath.Join(out, "f"))
	if err != nil || string(data) != secret {
		b.Errorf("the outside file holds %q, %v", data, err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != 2 {
		b.Errorf("the outside folder holds %v, %v", left, err)
	}
}
