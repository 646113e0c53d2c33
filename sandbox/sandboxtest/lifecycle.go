package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/harness-go/harness/sandbox"
)

var lifecycleTests = []test{
	{name: "a session says who and where it is", fn: func(b *trial) {
		one, two := b.open(), b.open()
		if b.Provider.ProviderID() == "" || one.ID() == "" || one.ID() == two.ID() {
			b.Errorf("ids: provider %q, sessions %q and %q", b.Provider.ProviderID(), one.ID(), two.ID())
		}
		if one.Description() == "" {
			b.Error("no description")
		}
		if dir := one.DefaultWorkingDirectory(); !filepath.IsAbs(dir) {
			b.Errorf("working directory %q is not absolute", dir)
		}
		named := b.open(func(o *sandbox.CreateOptions) { o.SessionID = "Ünïque/42" })
		if named.ID() != "Ünïque/42" {
			b.Errorf("id %q is not the one that was asked for", named.ID())
		}
	}},
	{name: "sessions without a root do not share files", fn: func(b *trial) {
		one, two := b.open(), b.open()
		b.write(one, "f", "x")
		_, err := two.ReadBinaryFile(b.ctx(), "f")
		b.wantErr("the other session's file", err, fs.ErrNotExist)
	}},
	{name: "after stop every call is ErrEnded", fn: func(b *trial) {
		s := b.open()
		b.write(s, "f", "x")
		for range 2 {
			if err := s.Stop(b.ctx()); err != nil {
				b.Fatalf("Stop: %v", err)
			}
		}
		for name, call := range calls(b, s) {
			b.wantErr(name, call(b.ctx()), sandbox.ErrEnded)
		}
	}},
	{name: "destroy stops and may follow a stop or a destroy", fn: func(b *trial) {
		for _, stopFirst := range []bool{true, false} {
			s := b.open()
			b.write(s, "f", "x")
			if stopFirst {
				if err := s.Stop(b.ctx()); err != nil {
					b.Fatal(err)
				}
			}
			for range 2 {
				if err := s.Destroy(b.ctx()); err != nil {
					b.Fatal(err)
				}
			}
			_, err := s.ReadBinaryFile(b.ctx(), "f")
			b.wantErr("read", err, sandbox.ErrEnded)
		}
	}},
	{name: "restricted hides everything but the basic surface", fn: func(b *trial) {
		s := b.open()
		r := s.Restricted()
		b.write(r, "f", "x")
		b.wantText(s, "f", "x")
		if _, ok := r.(sandbox.NetworkSession); ok {
			b.Error("restricted is a NetworkSession")
		}
		if _, ok := r.(sandbox.Execer); ok {
			b.Error("restricted is an Execer")
		}
		if _, ok := r.(sandbox.Files); ok {
			b.Error("restricted has Files")
		}
	}},
	{name: "what cannot be enforced is refused and nothing is created", fn: func(b *trial) {
		for _, bad := range b.Refused {
			ran := false
			bad.SessionID = "refused"
			bad.OnFirstCreate = func(context.Context, sandbox.Session) error { ran = true; return nil }
			_, err := b.Provider.CreateSession(b.ctx(), bad)
			var unsupported *sandbox.UnsupportedError
			if !errors.As(err, &unsupported) {
				b.Fatalf("%+v: got %v, want UnsupportedError", bad.Scope, err)
			}
			for _, value := range []string{string(bad.Scope), string(bad.Network.Mode)} {
				if !strings.Contains(unsupported.What, value) {
					b.Errorf("the error %q does not name %q", err, value)
				}
			}
			if ran {
				b.Error("OnFirstCreate ran")
			}
			if r, ok := b.Provider.(sandbox.Resumer); ok {
				_, err := r.ResumeSession(b.ctx(), "refused")
				b.wantErr("resume of the refused session", err, fs.ErrNotExist)
			}
		}
		if _, err := b.create(func(o *sandbox.CreateOptions) { o.Scope = "everything" }); err == nil {
			b.Error("a scope that does not exist was taken")
		}
		if _, err := b.create(func(o *sandbox.CreateOptions) { o.Network.Mode = "some" }); err == nil {
			b.Error("a network mode that does not exist was taken")
		}
	}},
	{name: "a session that ended its context is not created", fn: func(b *trial) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := b.Provider.CreateSession(ctx, b.Options)
		b.wantErr("CreateSession", err, context.Canceled)
	}},
	{name: "in place the user's folder is used and never deleted", fn: func(b *trial) {
		if !b.HostFiles {
			b.Skip("no sessions in place")
		}
		root := b.TempDir()
		s := b.open(func(o *sandbox.CreateOptions) { o.Root = root })
		if s.DefaultWorkingDirectory() != root {
			b.Errorf("works in %s, not %s", s.DefaultWorkingDirectory(), root)
		}
		b.write(s, "kept", "x")
		if err := s.Destroy(b.ctx()); err != nil {
			b.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(root, "kept")); err != nil {
			b.Error(err)
		}
		left, err := os.ReadDir(root)
		if err != nil || len(left) != 1 {
			b.Errorf("the folder holds %v, %v; want only the file written", left, err)
		}
		for _, bad := range []string{filepath.Join(root, "missing"), filepath.Join(root, "kept"), "relative"} {
			if _, err := b.create(func(o *sandbox.CreateOptions) { o.Root = bad }); err == nil {
				b.Errorf("root %q was taken", bad)
			}
		}
	}},
	{name: "a stopped session is found again with its files", fn: func(b *trial) {
		r, ok := b.Provider.(sandbox.Resumer)
		if !ok {
			b.Skip("the provider does not resume")
		}
		s := b.open(func(o *sandbox.CreateOptions) { o.SessionID = "again"; o.ConfineFiles = true })
		b.write(s, "f", "x")
		if err := s.Stop(b.ctx()); err != nil {
			b.Fatal(err)
		}
		back, err := r.ResumeSession(b.ctx(), "again")
		if err != nil {
			b.Fatal(err)
		}
		b.wantText(back, "f", "x")
		_, err = back.ReadBinaryFile(b.ctx(), "/etc/passwd")
		b.wantErr("a confined session after resume", err, sandbox.ErrOutside)
		if err := back.Destroy(b.ctx()); err != nil {
			b.Fatal(err)
		}
		for _, id := range []string{"again", "never"} {
			_, err = r.ResumeSession(b.ctx(), id)
			b.wantErr("resume of "+id, err, fs.ErrNotExist)
		}
	}},
	{name: "OnFirstCreate runs once for an identity and all its sessions have the files", fn: func(b *trial) {
		runs := 0
		with := func(o *sandbox.CreateOptions) {
			o.Identity = "Template:1"
			o.OnFirstCreate = func(ctx context.Context, s sandbox.Session) error {
				if runs++; runs == 1 {
					return errors.New("no luck")
				}
				return s.WriteTextFile(ctx, "bin/tool", "ready")
			}
		}
		if _, err := b.create(with); err == nil || !strings.Contains(err.Error(), "no luck") {
			b.Fatalf("a failing OnFirstCreate gave %v", err)
		}
		b.wantText(b.open(with), "bin/tool", "ready")
		b.wantText(b.open(with), "bin/tool", "ready")
		if runs != 2 {
			b.Errorf("ran %d times, want once in vain and once well", runs)
		}
	}},
	{name: "a port has an endpoint", fn: func(b *trial) {
		s := b.open()
		port := 8080
		if p := s.Ports(); len(p) > 0 {
			port = p[0]
		}
		for _, protocol := range []string{"http", "https", "ws"} {
			if e, err := s.PortEndpoint(b.ctx(), port, protocol); err != nil || !strings.HasPrefix(e.URL, protocol) {
				b.Errorf("%s: %+v, %v", protocol, e, err)
			}
		}
		for _, bad := range []struct {
			port     int
			protocol string
		}{{port, "gopher"}, {0, "http"}, {70000, "http"}} {
			if _, err := s.PortEndpoint(b.ctx(), bad.port, bad.protocol); err == nil {
				b.Errorf("%+v was taken", bad)
			}
		}
	}},
	{name: "a session reports what it does not enforce", fn: func(b *trial) {
		r, ok := b.open().(sandbox.Reporter)
		if !ok {
			b.Skip("the session does not report")
		}
		if rep := r.Report(); rep.Scope == "" || (rep.Tier == 0 && len(rep.Notes) == 0) {
			b.Errorf("report %+v says nothing about what is not enforced", rep)
		}
	}},
}

// calls is every call of a session that must fail when it has ended.
func calls(b *trial, s sandbox.NetworkSession) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"ReadFile":       func(ctx context.Context) error { _, err := s.ReadFile(ctx, "f"); return err },
		"ReadBinaryFile": func(ctx context.Context) error { _, err := s.ReadBinaryFile(ctx, "f"); return err },
		"ReadTextFile": func(ctx context.Context) error {
			_, err := s.ReadTextFile(ctx, "f", sandbox.ReadTextOptions{})
			return err
		},
		"WriteFile":       func(ctx context.Context) error { return s.WriteFile(ctx, "f", strings.NewReader("y")) },
		"WriteBinaryFile": func(ctx context.Context) error { return s.WriteBinaryFile(ctx, "f", nil) },
		"WriteTextFile":   func(ctx context.Context) error { return s.WriteTextFile(ctx, "f", "y") },
		"Run": func(ctx context.Context) error {
			_, err := s.Run(ctx, sandbox.CommandOptions{Command: ":"})
			return err
		},
		"Spawn": func(ctx context.Context) error {
			_, err := s.Spawn(ctx, sandbox.CommandOptions{Command: ":"})
			return err
		},
		"PortEndpoint": func(ctx context.Context) error { _, err := s.PortEndpoint(ctx, 80, "http"); return err },
		"Restricted.Run": func(ctx context.Context) error {
			_, err := s.Restricted().Run(ctx, sandbox.CommandOptions{Command: ":"})
			return err
		},
	}
	if e, ok := s.(sandbox.Execer); ok {
		all["Exec"] = func(ctx context.Context) error {
			_, err := e.Exec(ctx, sandbox.ExecOptions{Argv: []string{"true"}})
			return err
		}
	}
	if f, ok := s.(sandbox.Files); ok {
		all["Open"] = func(ctx context.Context) error { _, err := f.Open(ctx, "f"); return err }
		all["Stat"] = func(ctx context.Context) error { _, err := f.Stat(ctx, "f"); return err }
		all["ReadDir"] = func(ctx context.Context) error { _, err := f.ReadDir(ctx, "."); return err }
		all["Replace"] = func(ctx context.Context) error {
			return f.Replace(ctx, "f", nil, sandbox.ReplaceOptions{})
		}
		all["Walk"] = func(ctx context.Context) error {
			return f.Walk(ctx, ".", func(string, fs.DirEntry) error { return nil })
		}
	}
	return all
}
