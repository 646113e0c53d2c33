package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/internal/httpapi"
	"github.com/harness-go/harness/sandbox/local"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/store/sqlite"
	"github.com/harness-go/harness/tool"
	"github.com/harness-go/harness/tool/builtin"
)

// Options open a node. Config is required.
type Options struct {
	Config  config.Config
	Version string
	// Logger gets what the node has to say. Nil: nothing.
	Logger *slog.Logger
	// Fault and StoreFault are called at named points, for crash tests. Nil: never.
	Fault      func(point string)
	StoreFault func(point string, kinds []string)
}

// Node is one opened node. Its methods are safe for concurrent use.
type Node struct {
	o      Options
	log    *slog.Logger
	store  *sqlite.Store
	engine *engine.Engine
	http   *httpapi.Server

	watching watching

	mu      sync.Mutex
	started bool
	socket  *socket
	served  sync.WaitGroup
	stop    context.CancelFunc
	ctx     context.Context

	closing  sync.Once
	closeErr error
}

// Open opens the store and puts the node together. Nothing executes and nothing listens yet. The error wraps
// store.ErrLocked when another process has the state directory.
func Open(ctx context.Context, o Options) (*Node, error) {
	n := &Node{o: o, log: o.Logger}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	m, err := newModels(o.Config)
	if err != nil {
		return nil, err
	}
	// The parts that cost time are made side by side. The API gets the store and the engine through late, which are
	// set before it serves anything.
	runs, keys := &lateRuns{}, &lateKeys{}
	opened := make(chan error, 1)
	go func() {
		var err error
		n.store, err = sqlite.Open(ctx, n.storeOptions())
		opened <- err
	}()
	n.watch(keys)
	h, tools, herr := newNative(m, n.log)
	api := httpapi.Options{
		Runs: runs, AuthDisabled: o.Config.AuthDisabled, Hosts: o.Config.AllowedHosts, Version: o.Version, Logger: n.log,
		KeyStore: keys, Models: m,
	}
	n.serveMetrics(&api)
	if !o.Config.AuthDisabled {
		api.Keys = keys
	}
	server, serr := httpapi.New(api)
	if err := <-opened; err != nil {
		return nil, err
	}
	n.http, err = server, errors.Join(herr, serr)
	if err == nil {
		err = n.export(ctx)
	}
	if err == nil {
		n.engine, err = n.newEngine(m, h, tools)
	}
	if err != nil {
		n.watching.flush(ctx, n.log)
		return nil, errors.Join(err, n.store.Close())
	}
	runs.Engine, keys.Store = n.engine, n.store
	n.ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	return n, nil
}

// lateRuns and lateKeys are the engine and the store of a node that is being opened.
type (
	lateRuns struct{ *engine.Engine }
	lateKeys struct{ *sqlite.Store }
)

// newNative makes our own loop with the built-in tools, and lists them.
func newNative(m *models, log *slog.Logger) (*native.Harness, []tool.Definition, error) {
	catalog, err := tool.NewCatalog(builtin.Core()...)
	if err != nil {
		return nil, nil, fmt.Errorf("tools: %w", err)
	}
	h, err := native.New(native.Settings{
		Resolve: func(name string) ([]native.Target, error) { return m.targets(name, "", nil) },
		Tools:   catalog, Logger: log,
	})
	var defs []tool.Definition
	for _, t := range catalog.All() {
		defs = append(defs, t.Definition())
	}
	return h, defs, err
}

func (n *Node) newEngine(m *models, base *native.Harness, tools []tool.Definition) (*engine.Engine, error) {
	c := n.o.Config
	loop := loopOf(c)
	var notes []string
	if c.Dev {
		notes = append(notes, "no sandbox: dev mode")
	}
	return engine.New(engine.Options{
		Store: n.store, Dispatcher: engine.NewLocalDispatcher(c.Workers, n.log), Sandbox: local.NewProvider(local.Options{}),
		Harnesses: map[string]engine.HarnessFactory{
			native.HarnessID: func(e engine.SegmentEnv) (harness.Harness, error) { return nativeFor(base, m, e, loop) },
		},
		CheckModel: m.check, ContextWindow: m.window, Tools: tools, Notes: notes, Workspace: c.Workspace, StateDir: c.StateDir, Floor: c.Floor,
		Defaults: engine.Defaults{
			Model: c.Model, Provider: c.Provider, MaxSteps: c.MaxSteps, MaxCostUSD: c.MaxCostUSD,
			ApprovalDeadline: c.ApprovalDeadline, QuestionDeadline: c.QuestionDeadline,
		},
		Logger: n.log, Fault: n.o.Fault, Observers: n.observers(tools),
	})
}

// Start takes over the runs that an earlier process left open and begins to execute.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.started {
		return nil
	}
	n.started = true
	if err := keepPrivate(); err != nil {
		return fmt.Errorf("keep the environment from other processes: %w", err)
	}
	n.served.Go(n.sweep)
	return n.engine.Start(ctx)
}

// sweep ends what the commands of a killed process left running.
func (n *Node) sweep() {
	killed, err := local.Sweep(n.ctx)
	switch {
	case err != nil && n.ctx.Err() == nil:
		n.log.Warn("left-over processes not looked for", "error", err)
	case killed > 0:
		n.log.Info("ended left-over processes of an earlier start", "count", killed)
	}
}

// Handler is the API as this process uses it: without keys, as engine.Local.
func (n *Node) Handler() http.Handler { return n.http.Trusted() }

// ListenLocal listens on the socket of the state directory. A path that is too long for a socket is told in the log
// and is no error: the node then has no local socket.
func (n *Node) ListenLocal() error {
	s, err := listenSocket(n.o.Config.StateDir)
	if err != nil {
		if errors.Is(err, errSocketPath) {
			n.log.Warn("no local socket: commands need --server and a key", "cause", err)
			return nil
		}
		return err
	}
	n.mu.Lock()
	n.socket = s
	n.mu.Unlock()
	n.served.Go(func() {
		if err := n.http.ServeTrusted(n.ctx, s.Listener); err != nil {
			n.log.Error("the local socket failed", "error", err)
		}
	})
	return nil
}

// Serve answers requests on a listener until ctx ends.
func (n *Node) Serve(ctx context.Context, l net.Listener) error { return n.http.Serve(ctx, l) }

// HasKeys reports whether the default tenant has an API key that could be valid.
func (n *Node) HasKeys(ctx context.Context) (bool, error) {
	keys, err := n.store.ListKeys(ctx, engine.DefaultTenant)
	return slices.ContainsFunc(keys, func(k store.Key) bool { return k.RevokedAt == nil }), err
}

// Close stops listening on the socket, interrupts what executes and closes the store. When ctx ends first, what is
// left ends with the process; open runs are recovered by the next start either way.
func (n *Node) Close(ctx context.Context) error {
	n.closing.Do(func() {
		n.mu.Lock()
		socket, started := n.socket, n.started
		n.mu.Unlock()
		n.stop()
		var errs []error
		if socket != nil {
			errs = append(errs, socket.remove())
		}
		if started {
			errs = append(errs, n.engine.Shutdown(ctx))
		}
		var flushed sync.WaitGroup
		flushed.Go(func() { n.watching.flush(ctx, n.log) })
		defer flushed.Wait()
		errs = append(errs, n.http.Shutdown(ctx))
		n.served.Wait()
		closed := make(chan error, 1)
		go func() { closed <- n.store.Close() }()
		select {
		case err := <-closed:
			errs = append(errs, err)
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("the store did not close in time: %w", ctx.Err()))
		}
		n.closeErr = errors.Join(errs...)
	})
	return n.closeErr
}
