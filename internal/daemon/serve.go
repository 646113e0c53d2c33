package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/store"
)

// grace bounds a shutdown. Runs that do not stop within it are cut and recovered by the next start.
const grace = 1800 * time.Millisecond

// Serve runs a node until ctx ends. ready, when not nil, is called with the address once requests are answered.
func Serve(ctx context.Context, o Options, ready func(net.Addr)) (err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	log, c := o.Logger, o.Config
	// The address comes first: clients that connect from here on wait in its queue instead of being refused.
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w (choose another address with --addr or HARNESS_ADDR)", err)
	}
	n, err := Open(ctx, o)
	if err != nil {
		_ = l.Close()
		if errors.Is(err, store.ErrLocked) {
			return fmt.Errorf("%w; stop that process, or choose another folder with --state-dir or HARNESS_STATE_DIR", err)
		}
		return err
	}
	shutdown := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if cerr := n.Close(ctx); cerr != nil {
			log.Warn("the shutdown was not clean; open runs are recovered by the next start", "error", cerr)
		}
		log.Info("stopped")
	})
	// Runs are interrupted while open requests still end, so that both fit into the grace.
	defer context.AfterFunc(ctx, shutdown)()
	defer shutdown()
	if err := n.Start(ctx); err != nil {
		_ = l.Close()
		return err
	}
	if err := n.ListenLocal(); err != nil {
		_ = l.Close()
		return err
	}
	log.Info("listening", "url", "http://"+l.Addr().String(), "state_dir", c.StateDir, "workspace", c.Workspace,
		"auth", !c.AuthDisabled, "provider", cmp.Or(defaultProvider(c), "none"), "version", o.Version)
	n.greet(ctx)
	if ready != nil {
		ready(l.Addr())
	}
	return n.Serve(ctx, l)
}

// greet tells what a person should know after the start.
func (n *Node) greet(ctx context.Context) {
	c := n.o.Config
	for _, note := range c.Notes {
		n.log.Warn(note)
	}
	if len(c.Providers) == 0 {
		n.log.Warn("no model provider is configured, so runs cannot start: set OPENAI_API_KEY, list providers in harness.yaml, or try HARNESS_PROVIDER=fake")
	}
	if c.Dev {
		n.log.Warn("no sandbox: dev mode")
	}
	if !config.Loopback(c.Addr) {
		n.log.Warn("listening beyond loopback without a kernel sandbox: whoever has a key runs commands as this user")
	}
	if c.AuthDisabled {
		n.log.Warn("authentication is off: every process of this machine that reaches the address can start runs")
		return
	}
	has, err := n.HasKeys(ctx)
	switch {
	case err != nil:
		n.log.Error("API keys cannot be read", "error", err)
	case !has:
		n.log.Warn("there is no API key yet; make one with: harness keys create --name NAME")
	}
}

// NewLogger writes lines for people or, without text, JSON.
func NewLogger(w io.Writer, text bool, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	o := &slog.HandlerOptions{Level: l}
	if text {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// memoryLimit is where the collector begins to work harder, in bytes.
const memoryLimit = 512 << 20

// TuneMemory lets the heap grow to five times what is alive before it is collected: a daemon's live heap is small, and
// at the default pace a busy one would spend half of its time on collections. The function that it returns gives back
// what the start left behind. Variables of the Go runtime win.
func TuneMemory() (started func()) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	return func() { go debug.FreeOSMemory() }
}
