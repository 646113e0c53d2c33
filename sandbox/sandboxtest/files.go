package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/harness-go/harness/sandbox"
)

var fileTests = []test{
	{name: "what is written is read, with parents made", fn: func(b *trial) {
		s := b.open()
		data := []byte("a\x00b\xff\r\n")
		for _, path := range []string{"f", "a/b/c/f", "./x/../y/f", s.DefaultWorkingDirectory() + "/abs/f", "name with  spaces/ü\n'"} {
			if err := s.WriteFile(b.ctx(), path, bytes.NewReader(data)); err != nil {
				b.Fatalf("%q: %v", path, err)
			}
			if got, err := s.ReadBinaryFile(b.ctx(), path); err != nil || !bytes.Equal(got, data) {
				b.Errorf("%q: %q, %v", path, got, err)
			}
			r, err := s.ReadFile(b.ctx(), path)
			if err != nil {
				b.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if cerr := r.Close(); err != nil || cerr != nil || !bytes.Equal(got, data) {
				b.Errorf("%q: %q, %v, %v", path, got, err, cerr)
			}
		}
		if err := s.WriteBinaryFile(b.ctx(), "f", nil); err != nil {
			b.Fatal(err)
		}
		b.wantText(s, "f", "")
	}},
	{name: "commands and file tools see the same files", fn: func(b *trial) {
		s := b.open()
		b.sh(s, "mkdir d; echo shell > d/f")
		b.wantText(s, "d/f", "shell\n")
		b.write(s, "d/f", "tool\n")
		if out := b.sh(s, "cat d/f"); out != "tool\n" {
			b.Errorf("the shell reads %q", out)
		}
	}},
	{name: "lines are 1-based and inclusive, and reading past the end is no error", fn: func(b *trial) {
		s := b.open()
		long := strings.Repeat("x", 200_000)
		b.write(s, "f", "a\nb\r\nc\n")
		b.write(s, "open", "a\nb")
		b.write(s, "long", long+"\nend\n")
		b.write(s, "empty", "")
		for _, tt := range []struct {
			path       string
			start, end int
			want       string
		}{
			{"f", 0, 0, "a\nb\r\nc\n"}, {"f", 1, 0, "a\nb\r\nc\n"}, {"f", 2, 0, "b\r\nc\n"}, {"f", 1, 1, "a"}, {"f", 0, 2, "a\nb\r"},
			{"f", 2, 3, "b\r\nc"}, {"f", 3, 9, "c\n"}, {"f", 4, 9, ""}, {"f", 90, 0, ""}, {"f", 90, 95, ""},
			{"open", 2, 2, "b"}, {"open", 2, 5, "b"}, {"open", 1, 2, "a\nb"},
			{"long", 1, 1, long}, {"long", 2, 2, "end"}, {"empty", 0, 0, ""}, {"empty", 1, 1, ""},
		} {
			got, err := s.ReadTextFile(b.ctx(), tt.path, sandbox.ReadTextOptions{StartLine: tt.start, EndLine: tt.end})
			if err != nil || got != tt.want {
				b.Errorf("%s %d-%d: %.40q, %v; want %.40q", tt.path, tt.start, tt.end, got, err, tt.want)
			}
		}
		for _, bad := range [][2]int{{-1, 0}, {0, -1}, {3, 2}} {
			if _, err := s.ReadTextFile(b.ctx(), "f", sandbox.ReadTextOptions{StartLine: bad[0], EndLine: bad[1]}); err == nil {
				b.Errorf("lines %v were taken", bad)
			}
		}
	}},
	{name: "a missing file is fs.ErrNotExist and the error names the path", fn: func(b *trial) {
		s := b.open()
		for name, call := range reads(b, s, "d/missing") {
			err := call()
			b.wantErr(name, err, fs.ErrNotExist)
			if err != nil && !strings.Contains(err.Error(), "d/missing") {
				b.Errorf("%s: %v does not name the path", name, err)
			}
		}
	}},
	{name: "what is not a regular file is refused and never blocks", fn: func(b *trial) {
		s := b.open()
		b.sh(s, "mkdir dir; mkfifo fifo; ln -s fifo link; : > file")
		f := b.files(s)
		for _, path := range []string{"fifo", "link", "dir", "."} {
			b.inTime("open of "+path, func() {
				_, err := f.Open(b.ctx(), path)
				b.wantErr("Open "+path, err, sandbox.ErrNotRegular)
				_, err = s.ReadBinaryFile(b.ctx(), path)
				b.wantErr("ReadBinaryFile "+path, err, sandbox.ErrNotRegular)
				b.wantErr("Replace "+path, f.Replace(b.ctx(), path, []byte("x"), sandbox.ReplaceOptions{}), sandbox.ErrNotRegular)
				if _, err := f.Stat(b.ctx(), path); err != nil {
					b.Errorf("Stat %s: %v", path, err)
				}
			})
		}
		_, err := f.Open(b.ctx(), "file/below")
		b.wantErr("a file as directory", err, syscall.ENOTDIR)
		err = s.WriteTextFile(b.ctx(), "file/below", "x")
		b.wantErr("a file as directory", err, syscall.ENOTDIR)
	}},
	{name: "an open file can be read from any place and tells its size", fn: func(b *trial) {
		s := b.open()
		b.write(s, "f", "0123456789")
		f, err := b.files(s).Open(b.ctx(), "f")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || info.Size() != 10 || !info.Mode().IsRegular() {
			b.Errorf("%v, %v", info, err)
		}
		part := make([]byte, 3)
		if n, err := f.ReadAt(part, 4); n != 3 || err != nil || string(part) != "456" {
			b.Errorf("%d, %v, %q", n, err, part)
		}
		b.write(s, "f", "new")
		if all, err := io.ReadAll(f); err != nil || string(all) != "0123456789" {
			b.Errorf("after a replace the open file holds %q, %v", all, err)
		}
	}},
	{name: "a directory is listed in name order", fn: func(b *trial) {
		s := b.open()
		b.sh(s, "mkdir -p d/b; : > d/a; : > d/Z; printf 12345 > d/.h; ln -s a d/l")
		list, err := b.files(s).ReadDir(b.ctx(), "d")
		if err != nil {
			b.Fatal(err)
		}
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		if want := []string{".h", "Z", "a", "b", "l"}; !slices.Equal(names, want) {
			b.Errorf("%q, want %q", names, want)
		}
		if len(list) == 5 {
			if info, err := list[0].Info(); err != nil || info.Size() != 5 || info.Name() != ".h" {
				b.Errorf("%v, %v", info, err)
			}
			if info, err := list[4].Info(); err != nil || info.Mode()&fs.ModeSymlink == 0 || list[4].Type() != fs.ModeSymlink {
				b.Errorf("a link is %v, %v", info, err)
			}
			if !list[3].IsDir() {
				b.Error("b is no directory")
			}
		}
	}},
	{name: "a walk goes in lexical order, follows no link and can be cut short", fn: func(b *trial) {
		s := b.open()
		f := b.files(s)
		b.sh(s, "mkdir -p t/a/x t/b t/z; : > t/a/x/f; : > t/a-b; : > t/b/f; : > t/z/f; ln -s .. t/loop; ln -s / t/away")
		all := []string{"t/a", "t/a/x", "t/a/x/f", "t/a-b", "t/away", "t/b", "t/b/f", "t/loop", "t/z", "t/z/f"}
		for _, tt := range []struct {
			name, root string
			fn         func(string) error
			want       []string
		}{
			{"all", "t", func(string) error { return nil }, all},
			{"all, absolute", s.DefaultWorkingDirectory() + "/t", func(string) error { return nil }, all},
			{"skip a directory", "t", func(p string) error {
				if p == "t/a" {
					return fs.SkipDir
				}
				return nil
			}, slices.Concat(all[:1], all[3:])},
			{"skip the rest", "t", func(p string) error {
				if p == "t/b/f" {
					return fs.SkipAll
				}
				return nil
			}, all[:7]},
		} {
			var got []string
			err := f.Walk(b.ctx(), tt.root, func(p string, d fs.DirEntry) error { got = append(got, p); return tt.fn(p) })
			if err != nil || !slices.Equal(got, tt.want) {
				b.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
			}
		}
		stop := errors.New("stop")
		b.wantErr("an error of fn", f.Walk(b.ctx(), ".", func(string, fs.DirEntry) error { return stop }), stop)
		b.wantErr("a missing root", f.Walk(b.ctx(), "none", func(string, fs.DirEntry) error { return nil }), fs.ErrNotExist)
		ctx, cancel := context.WithCancel(b.ctx())
		b.wantErr("a context that ends", f.Walk(ctx, "t", func(string, fs.DirEntry) error { cancel(); return nil }), context.Canceled)
	}},
	{name: "a path is shown relative where it can be", fn: func(b *trial) {
		s := b.open()
		f := b.files(s)
		root := s.DefaultWorkingDirectory()
		for path, want := range map[string]string{root: ".", root + "/a/../b": "b", "./a//b": "a/b", "/elsewhere/x": "/elsewhere/x", root + "x": root + "x"} {
			if got := f.Display(path); got != want {
				b.Errorf("%q is shown as %q, want %q", path, got, want)
			}
		}
	}},
}

// reads is every way to look at a path.
func reads(b *trial, s sandbox.Session, path string) map[string]func() error {
	all := map[string]func() error{
		"ReadFile": func() error {
			r, err := s.ReadFile(b.ctx(), path)
			if err == nil {
				r.Close()
			}
			return err
		},
		"ReadBinaryFile": func() error { _, err := s.ReadBinaryFile(b.ctx(), path); return err },
		"ReadTextFile":   func() error { _, err := s.ReadTextFile(b.ctx(), path, sandbox.ReadTextOptions{}); return err },
	}
	if f, ok := s.(sandbox.Files); ok {
		all["Open"] = func() error {
			r, err := f.Open(b.ctx(), path)
			if err == nil {
				r.Close()
			}
			return err
		}
		all["Stat"] = func() error { _, err := f.Stat(b.ctx(), path); return err }
		all["ReadDir"] = func() error { _, err := f.ReadDir(b.ctx(), path); return err }
		all["Walk"] = func() error {
			return f.Walk(b.ctx(), path, func(string, fs.DirEntry) error { return nil })
		}
	}
	return all
}
