package sandboxtest

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/harness-go/harness/sandbox"
)

var replaceTests = []test{
	{name: "a version that is not the file's is ErrStale and nothing is written", fn: func(b *trial) {
		s := b.open()
		f := b.files(s)
		b.write(s, "f", "one")
		v := sandbox.Version([]byte("one"))
		if err := f.Replace(b.ctx(), "f", []byte("two"), sandbox.ReplaceOptions{ExpectedVersion: v}); err != nil {
			b.Fatal(err)
		}
		b.wantErr("stale", f.Replace(b.ctx(), "f", []byte("three"), sandbox.ReplaceOptions{ExpectedVersion: v}), sandbox.ErrStale)
		b.wantText(s, "f", "two")
		b.wantErr("missing", f.Replace(b.ctx(), "g", []byte("x"), sandbox.ReplaceOptions{ExpectedVersion: v}), sandbox.ErrStale)
		if _, err := s.ReadBinaryFile(b.ctx(), "g"); err == nil {
			b.Error("the missing file was made")
		}
	}},
	{name: "MustNotExist refuses an existing file, link and directory", fn: func(b *trial) {
		s := b.open()
		f := b.files(s)
		must := sandbox.ReplaceOptions{MustNotExist: true}
		if err := f.Replace(b.ctx(), "new/f", []byte("x"), must); err != nil {
			b.Fatal(err)
		}
		b.sh(s, "ln -s new/f link; ln -s nowhere dangling; mkdir dir")
		for _, path := range []string{"new/f", "link", "dangling", "dir"} {
			b.wantErr(path, f.Replace(b.ctx(), path, []byte("y"), must), fs.ErrExist)
		}
		b.wantText(s, "new/f", "x")
	}},
	{name: "of many writers that saw the same content one wins", fn: func(b *trial) {
		s := b.open()
		f := b.files(s)
		b.write(s, "f", "start")
		for name, opts := range map[string]sandbox.ReplaceOptions{
			"f":   {ExpectedVersion: sandbox.Version([]byte("start"))},
			"new": {MustNotExist: true},
		} {
			var won atomic.Int32
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					if f.Replace(b.ctx(), name, fmt.Appendf(nil, "writer %d", i), opts) == nil {
						won.Add(1)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				b.Errorf("%s: %d writers won", name, won.Load())
			}
		}
	}},
	{name: "readers see the old or the new content, whole", fn: func(b *trial) {
		s := b.open()
		old, new := strings.Repeat("a", 300_000), strings.Repeat("b", 200_000)
		b.write(s, "f", old)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 20 {
				b.write(s, "f", []string{new, old}[i%2])
			}
		}()
		for {
			got, err := s.ReadTextFile(b.ctx(), "f", sandbox.ReadTextOptions{})
			if err != nil || (got != old && got != new) {
				b.Errorf("read %d bytes, %v", len(got), err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}},
	{name: "the mode is kept, and new files have an ordinary one", fn: func(b *trial) {
		s := b.open()
		f := b.files(s)
		b.sh(s, "for m in 600 755 640; do : > f$m; chmod $m f$m; done; : > ro; chmod 444 ro; umask > umask")
		for path, want := range map[string]fs.FileMode{"f600": 0o600, "f755": 0o755, "f640": 0o640} {
			b.write(s, path, "x")
			if info, err := f.Stat(b.ctx(), path); err != nil || info.Mode() != want {
				b.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
			}
		}
		b.write(s, "fresh", "x")
		if info, err := f.Stat(b.ctx(), "fresh"); err != nil || info.Mode().Perm()&0o111 != 0 || info.Mode().Perm()&0o600 != 0o600 {
			b.Errorf("a new file has mode %v, %v", info.Mode(), err)
		}
		b.wantErr("a read-only file", s.WriteTextFile(b.ctx(), "ro", "x"), fs.ErrPermission)
	}},
	{name: "a link inside is written through and stays a link", fn: func(b *trial) {
		s := b.open()
		b.sh(s, "mkdir -p d/e; echo old > d/f; ln -s d/f link; ln -s ../link d/chain; ln -s d dirlink; ln -s \"$PWD/d/f\" abs; ln -s loop loop; ln -s none dangling")
		for _, path := range []string{"link", "d/chain", "dirlink/f", "abs"} {
			b.write(s, path, "by "+path)
			b.wantText(s, "d/f", "by "+path)
			b.wantText(s, path, "by "+path)
		}
		b.sh(s, "test -L link && test -L d/chain && test -L abs && test -L dirlink")
		if err := s.WriteTextFile(b.ctx(), "loop", "x"); err == nil {
			b.Error("a loop of links was written")
		}
		b.wantErr("dangling", s.WriteTextFile(b.ctx(), "dangling", "x"), fs.ErrNotExist)
	}},
	{name: "another hard link keeps the old content", fn: func(b *trial) {
		s := b.open()
		b.sh(s, "echo old > f; ln f g")
		b.write(s, "f", "new")
		b.wantText(s, "g", "old\n")
	}},
	{name: "nothing but the file is left in its directory", fn: func(b *trial) {
		s := b.open()
		f := b.files(s)
		b.write(s, "d/f", "x")
		b.write(s, "d/f", "y")
		_ = f.Replace(b.ctx(), "d/f", []byte("z"), sandbox.ReplaceOptions{MustNotExist: true})
		_ = f.Replace(b.ctx(), "d/f", []byte("z"), sandbox.ReplaceOptions{ExpectedVersion: "0"})
		_ = s.WriteFile(b.ctx(), "d/f", brokenReader{})
		b.wantText(s, "d/f", "y")
		if list, err := f.ReadDir(b.ctx(), "d"); err != nil || len(list) != 1 {
			b.Errorf("%v, %v", list, err)
		}
	}},
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, fs.ErrInvalid }
