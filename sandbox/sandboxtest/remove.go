package sandboxtest

import (
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/harness-go/harness/sandbox"
)

var removeTests = []test{
	{name: "a file is removed as it was seen, or not at all", fn: func(b *trial) {
		s := b.open()
		r := b.remover(s)
		b.write(s, "dir/f", "one")
		b.wantErr("stale", r.Remove(b.ctx(), "dir/f", sandbox.RemoveOptions{ExpectedVersion: sandbox.Version([]byte("two"))}), sandbox.ErrStale)
		b.wantText(s, "dir/f", "one")
		if err := r.Remove(b.ctx(), "dir/f", sandbox.RemoveOptions{ExpectedVersion: sandbox.Version([]byte("one"))}); err != nil {
			b.Fatal(err)
		}
		b.wantErr("gone", r.Remove(b.ctx(), "dir/f", sandbox.RemoveOptions{}), fs.ErrNotExist)
		b.wantErr("no parent", r.Remove(b.ctx(), "no/f", sandbox.RemoveOptions{}), fs.ErrNotExist)
		if out := b.sh(s, "ls -A dir; ls -d dir"); strings.TrimSpace(out) != "dir" {
			b.Errorf("left: %q", out)
		}
	}},
	{name: "only regular files inside are removed", fn: func(b *trial) {
		s := b.open(func(o *sandbox.CreateOptions) { o.ConfineFiles = true })
		r := b.remover(s)
		b.write(s, "f", "one")
		b.sh(s, "mkdir dir; mkfifo fifo; ln -s f link; ln -s / out; touch locked; chmod a-w locked")
		for _, path := range []string{"dir", "fifo", "link", "."} {
			b.wantErr(path, r.Remove(b.ctx(), path, sandbox.RemoveOptions{}), sandbox.ErrNotRegular)
		}
		b.wantErr("locked", r.Remove(b.ctx(), "locked", sandbox.RemoveOptions{}), fs.ErrPermission)
		for _, path := range []string{"../f", "/etc/hostname", "out/etc/hostname"} {
			b.wantErr(path, r.Remove(b.ctx(), path, sandbox.RemoveOptions{}), sandbox.ErrOutside)
		}
		b.wantText(s, "f", "one")
	}},
	{name: "of a removal and many writers that saw the same content one wins", fn: func(b *trial) {
		s := b.open()
		f, r := b.files(s), b.remover(s)
		b.write(s, "f", "start")
		saw := sandbox.Version([]byte("start"))
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				var err error
				if i%2 == 0 {
					err = r.Remove(b.ctx(), "f", sandbox.RemoveOptions{ExpectedVersion: saw})
				} else {
					err = f.Replace(b.ctx(), "f", []byte("other"), sandbox.ReplaceOptions{ExpectedVersion: saw})
				}
				if err == nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			b.Errorf("%d won", won.Load())
		}
	}},
	{name: "Perm sets the permissions of new and existing files", fn: func(b *trial) {
		s := b.open()
		f := b.files(s)
		b.write(s, "old", "x")
		for _, path := range []string{"new", "old"} {
			for _, perm := range []fs.FileMode{0o755, 0, 0o640} {
				if err := f.Replace(b.ctx(), path, []byte(path), sandbox.ReplaceOptions{Perm: perm}); err != nil {
					b.Fatal(err)
				}
				if perm == 0 {
					perm = 0o755 // what it had stays
				}
				if info, err := f.Stat(b.ctx(), path); err != nil || info.Mode().Perm() != perm {
					b.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, perm)
				}
			}
		}
	}},
}

func (b *trial) remover(s sandbox.Session) sandbox.Remover {
	b.Helper()
	r, ok := s.(sandbox.Remover)
	if !ok {
		b.Skip("the session has no sandbox.Remover")
	}
	return r
}
