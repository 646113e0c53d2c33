package local

import (
	"context"
	"io"
	"os/exec"
	"testing"

	"github.com/harness-go/harness/sandbox"
)

func BenchmarkCreateInPlace(b *testing.B) {
	p, root, ctx := NewProvider(Options{}), b.TempDir(), context.Background()
	for b.Loop() {
		s, err := p.CreateSession(ctx, sandbox.CreateOptions{Root: root})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Stop(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunTrue(b *testing.B) {
	b.Run("session", func(b *testing.B) {
		s := inPlace(b, Options{})
		for b.Loop() {
			if res, err := s.Run(context.Background(), sandbox.CommandOptions{Command: "true"}); err != nil || res.ExitCode != 0 {
				b.Fatal(res, err)
			}
		}
	})
	b.Run("plain exec", func(b *testing.B) {
		for b.Loop() {
			if _, err := exec.Command("bash", "-c", "true").Output(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOpenAndRead(b *testing.B) {
	s := inPlace(b, Options{})
	if err := s.WriteTextFile(context.Background(), "a/b.txt", "hello"); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 64)
	for b.Loop() {
		f, err := s.Open(context.Background(), "a/b.txt")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(f, buf[:5]); err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
	}
}

func BenchmarkReplace(b *testing.B) {
	s := inPlace(b, Options{})
	for b.Loop() {
		if err := s.WriteTextFile(context.Background(), "a/b.txt", "hello"); err != nil {
			b.Fatal(err)
		}
	}
}
