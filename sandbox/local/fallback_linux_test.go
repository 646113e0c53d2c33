package local

import (
	"testing"

	"github.com/harness-go/harness/sandbox/sandboxtest"
)

// What older kernels and strict filters lack is made up for: the suite passes without openat2, pidfd, nameless files.
func TestConformanceWithoutNewSystemCalls(t *testing.T) {
	o, p, c := hasOpenat2, hasPidfd, canName
	t.Cleanup(func() { hasOpenat2, hasPidfd, canName = o, p, c })
	no := func() bool { return false }
	hasOpenat2, hasPidfd, canName = no, no, no
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Target {
		return sandboxtest.Target{Provider: NewProvider(Options{BaseDir: t.TempDir()}), HostFiles: true}
	})
}

// Where /proc is another namespace's, a command and its group still end, and the report says that no more is followed.
func TestWithoutProcTheGroupEnds(t *testing.T) {
	u := procUsable
	t.Cleanup(func() { procUsable = u })
	procUsable = func() bool { return false }
	s := inPlace(t, Options{})
	runFor(t, s, "sleep 300 & echo $!", 0)
	runFor(t, s, "trap '' TERM; while :; do sleep 1; done", 1)
	if n := len(s.Report().Notes); n != 3 {
		t.Errorf("%d notes, want one on what is not followed", n)
	}
	if _, err := Sweep(t.Context()); err == nil {
		t.Error("the sweep claims to have looked")
	}
}
