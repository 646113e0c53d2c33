// Package engine turns requests into runs and drives them: it submits, executes, suspends, recovers and cancels.
//
// The store is the only truth. A segment of a run, from its start or a decision to its next wait, is executed by a
// worker that the Dispatcher gives; the body reads the store, drives the harness through the public library, and
// leaves everything it did in the store. Between segments a run is rows: no goroutine, no process, no lease.
//
// The engine knows harnesses only as factories; nothing here asks which adapter runs. It does not know HTTP.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// MaxAttempts is how often a run may be recovered without making progress before it is given up.
const MaxAttempts = 5

// HarnessFactory makes the adapter for one segment.
type HarnessFactory func(SegmentEnv) (harness.Harness, error)

// SegmentEnv is what a factory may use.
type SegmentEnv struct {
	Plan       Plan
	Transcript native.Transcript
	Artifacts  tool.Artifacts
	Activation *tool.ActivationTracker
	// Inbox returns the messages that people sent to the run, each once.
	Inbox func(ctx context.Context) ([]native.Message, error)
	// Memory keeps the notes of the run, of its conversation and of its agent id.
	Memory tool.Memory
	Fault  func(point string)
}

// Options make an engine. Store, Dispatcher, Sandbox and Harnesses are required.
type Options struct {
	Store      store.Store
	Dispatcher Dispatcher
	// Sandbox makes the sessions that runs work in.
	Sandbox sandbox.Provider
	// Harnesses are the adapters by the name of a run's harness field.
	Harnesses map[string]HarnessFactory
	// CheckModel reports whether a request's model and providers can be served. Nil: not checked.
	CheckModel func(model, provider string, fallbacks []string) error
	// ContextWindow is how many tokens a model takes, 0 where that is not known. Nil: it is never known.
	ContextWindow func(model, provider string) int64
	// Tools are listed by Tools.
	Tools []tool.Definition
	// Workspace is the absolute folder of runs that name none.
	Workspace string
	// Notes are sentences for people about this node; the first event of each run has them.
	Notes []string
	// StateDir is the daemon's own folder; it holds artifacts.
	StateDir string
	// Floor is what every run is at least bound to.
	Floor    tool.PermissionConfig
	Defaults Defaults
	// Rules and Hooks are the gate's, for every run.
	Hooks []control.Hook
	Rules []control.Rule
	// Observers are told what runs do.
	Observers []Observer
	Logger    *slog.Logger
	Now       func() time.Time
	// Fault is called at named points, for crash tests.
	Fault func(point string)
}

// Defaults fill what requests leave out. Zero limits are unbounded.
type Defaults struct {
	Model            string
	Provider         string
	MaxSteps         int
	MaxCostUSD       float64
	ApprovalDeadline time.Duration
	QuestionDeadline time.Duration
}

// Engine is the daemon's heart. It is safe for concurrent use.
type Engine struct {
	o          Options
	artifacts  *tool.ArtifactStore
	activation *tool.ActivationTracker

	mu       sync.Mutex
	segments map[string]*segment // running here, by run id
	steered  map[string]bool     // active runs that got a message while no segment ran

	// created are runs that were leased with their creation and whose first segment has not begun.
	created sync.Map
	tenants tenantCache

	// births is held by the creation of a run, and exclusively by the deletion of a conversation.
	births   sync.RWMutex
	indexing sync.Mutex // held over FlushSearch
	keeper   keeper
	keeping  atomic.Bool // the keeper's goroutine runs

	nudge  chan struct{} // wakes the sweeper
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// New checks the options.
func New(o Options) (*Engine, error) {
	switch {
	case o.Store == nil || o.Dispatcher == nil || o.Sandbox == nil || len(o.Harnesses) == 0:
		return nil, errors.New("engine: Store, Dispatcher, Sandbox and Harnesses are required")
	case !filepath.IsAbs(o.Workspace):
		return nil, fmt.Errorf("engine: workspace %q must be an absolute path", o.Workspace)
	case !filepath.IsAbs(o.StateDir):
		return nil, fmt.Errorf("engine: state directory %q must be an absolute path", o.StateDir)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Fault == nil {
		o.Fault = func(string) {}
	}
	if o.Defaults.ApprovalDeadline <= 0 {
		o.Defaults.ApprovalDeadline = control.DefaultApprovalDeadline
	}
	if o.Defaults.QuestionDeadline <= 0 {
		o.Defaults.QuestionDeadline = control.DefaultQuestionDeadline
	}
	a, err := tool.DirArtifacts(filepath.Join(o.StateDir, "artifacts"), tool.ArtifactLimits{})
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return &Engine{o: o, artifacts: a, activation: &tool.ActivationTracker{}, segments: map[string]*segment{}, steered: map[string]bool{}, nudge: make(chan struct{}, 1), keeper: newKeeper()}, nil
}

// Start takes over what an earlier process left open and begins to serve.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.buryAll(ctx); err != nil {
		return fmt.Errorf("engine: remove files of deleted conversations: %w", err)
	}
	if err := e.o.Dispatcher.Start(e.execute); err != nil {
		return fmt.Errorf("engine: start dispatcher: %w", err)
	}
	runs, err := e.o.Store.Recover(ctx)
	if err != nil {
		return fmt.Errorf("engine: recover: %w", err)
	}
	for _, w := range runs {
		e.dispatch(w)
	}
	if len(runs) > 0 {
		e.o.Logger.Info("recovered open runs", "count", len(runs))
	}
	bg, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	e.wg.Add(2)
	e.keeping.Store(true)
	go e.sweep(bg)
	go e.keep(bg)
	return nil
}

// ErrShutdown is the cause of segments that end because the process does. Their runs stay open and are recovered.
var ErrShutdown = errors.New("the daemon is shutting down")

// Shutdown lets no further segment start, interrupts the running ones and waits for them until ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	if e.cancel != nil {
		e.cancel()
	}
	err := e.o.Dispatcher.Stop(ctx, ErrShutdown)
	e.wg.Wait()
	return errors.Join(err, e.artifacts.Close())
}

// Tools lists the tools that runs can use.
func (e *Engine) Tools() []tool.Definition { return e.o.Tools }

func (e *Engine) dispatch(w store.Wake) {
	if w.RunID == "" {
		return
	}
	if err := e.o.Dispatcher.Dispatch(w); err != nil {
		// The lease is in the store, so the next start recovers the run.
		e.o.Logger.Warn("segment not dispatched", "run", w.RunID, "error", err)
	}
}

// sweep expires what nobody answered in time and starts queued runs whose conversation became free.
func (e *Engine) sweep(ctx context.Context) {
	defer e.wg.Done()
	const batch, idle = 500, time.Minute
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.nudge:
		case <-timer.C:
		}
		wait := idle
		wakes, next, err := e.o.Store.ExpireDue(ctx, batch)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.o.Logger.Error("expiry failed", "error", err)
		case len(wakes) == batch:
			wait = 0
		case !next.IsZero():
			wait = min(max(next.Sub(e.o.Now()), 0), idle)
		}
		for _, w := range wakes {
			e.dispatch(w)
		}
		runs, err := e.o.Store.LeaseQueued(ctx, batch)
		if err != nil && ctx.Err() == nil {
			e.o.Logger.Error("lease of queued runs failed", "error", err)
		}
		for _, w := range runs {
			e.dispatch(w)
		}
		timer.Reset(wait)
	}
}

// deadlineSet tells the sweeper that a deadline may be nearer than it knows.
func (e *Engine) deadlineSet() {
	select {
	case e.nudge <- struct{}{}:
	default:
	}
}
