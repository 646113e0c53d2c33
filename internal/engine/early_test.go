package engine_test

import (
	"context"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/store"
)

// slowSandbox makes no session before its context ends.
type slowSandbox struct {
	sandbox.Provider
	begun chan struct{}
}

func (s *slowSandbox) CreateSession(ctx context.Context, _ sandbox.CreateOptions) (sandbox.NetworkSession, error) {
	close(s.begun)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestACancelWhileTheSandboxIsMadeCancelsTheRun(t *testing.T) {
	box := &slowSandbox{begun: make(chan struct{})}
	r := newRig(t, func(o *engine.Options) { o.Sandbox = box })
	run := r.submit(engine.RunRequest{Prompt: "x"})
	<-box.begun
	if _, err := r.engine.Cancel(t.Context(), engine.Local(), run.ID); err != nil {
		t.Fatal(err)
	}
	if all := r.until(run.ID, ended); all[len(all)-1].Type != event.RunCancelled {
		t.Errorf("the log ends with %s", dump(all))
	}
}

func TestAShutdownWhileTheSandboxIsMadeLeavesTheRunOpen(t *testing.T) {
	box := &slowSandbox{begun: make(chan struct{})}
	r := newRig(t, func(o *engine.Options) { o.Sandbox = box })
	run := r.submit(engine.RunRequest{Prompt: "x"})
	<-box.begun
	if err := r.engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := r.store.GetRun(t.Context(), run.ID)
	if err != nil || got.Status != store.StatusRunning {
		t.Errorf("the run is %s (%s), %v", got.Status, got.Error, err)
	}
}
