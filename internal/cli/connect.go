package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/harness-go/harness/internal/apiclient"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/internal/daemon"
	"github.com/harness-go/harness/store"
)

// need is what a command wants of the other side.
type need int

const (
	toRead    need = iota // rows are read or changed
	toExecute             // runs must go on
)

// link is the way to an engine.
type link struct {
	*apiclient.Client
	// remote: the engine is on a server that --server names.
	remote bool
	// node is the engine of this process, nil where another process has it.
	node   *daemon.Node
	config config.Config // not set when remote
	closed bool
}

// close ends the use. A node of this process is closed: its open runs wait for the next one.
func (l *link) close() {
	if l.node == nil || l.closed {
		return
	}
	l.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	// What did not end in time is recovered by the next start; there is nothing that a person could do.
	_ = l.node.Close(ctx)
}

// load reads the configuration. flags are settings that the command line gives, by their keys.
func (a *app) load(flags map[string]string) (config.Config, error) {
	all := map[string]string{}
	for k, v := range flags {
		if v != "" {
			all[k] = v
		}
	}
	if a.stateDir != "" {
		all["state_dir"] = a.stateDir
	}
	return config.Load(config.Sources{Env: a.env, Dir: a.dir, UserDir: a.userDir, File: a.configArg, Flags: all})
}

// takeover bounds how long a command waits for a state directory that another process is about to serve or to leave.
const takeover = 5 * time.Second

// connect finds an engine: the server that was named, the process that has the state directory, or one of its own.
func (a *app) connect(ctx context.Context, n need, flags map[string]string) (*link, error) {
	if server := a.serverURL(); server != "" {
		c, err := apiclient.New(apiclient.Options{BaseURL: server, Key: a.getenv(a.keyEnv)})
		if err != nil {
			return nil, usageError("--server: %w", err)
		}
		return &link{Client: c, remote: true}, nil
	}
	c, err := a.load(flags)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, takeover, errTakeover)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		l, err := a.connectLocal(ctx, n, c)
		if err == nil || !errors.Is(err, store.ErrLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errTakeover) {
				return nil, unreachable("%w, and it does not answer on its socket %s; wait for it to end, stop it, or use --server with a key",
					err, filepath.Join(c.StateDir, daemon.SocketName))
			}
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

var errTakeover = errors.New("took too long")

func (a *app) serverURL() string {
	if a.server != "" {
		return a.server
	}
	return a.getenv("HARNESS_SERVER")
}

func (a *app) connectLocal(ctx context.Context, n need, c config.Config) (*link, error) {
	if l, ok, err := a.overSocket(ctx, c); ok || err != nil {
		return l, err
	}
	node, err := daemon.Open(ctx, daemon.Options{Config: c, Version: a.build.Version})
	if err != nil {
		return nil, err
	}
	l := &link{node: node, config: c}
	fail := func(err error) (*link, error) {
		l.close()
		return nil, err
	}
	if n == toExecute {
		if err := node.Start(ctx); err != nil {
			return fail(err)
		}
		// Other commands reach this process while it has the state directory.
		if err := node.ListenLocal(); err != nil {
			return fail(err)
		}
		for _, note := range c.Notes {
			a.infof("note: %s", note)
		}
	}
	l.Client, err = apiclient.New(apiclient.Options{BaseURL: "http://localhost", Transport: apiclient.InProcess(node.Handler())})
	if err != nil {
		return fail(err)
	}
	return l, nil
}

// overSocket tries the socket of the process that has the state directory. One that nobody listens on is what a
// killed process left.
func (a *app) overSocket(ctx context.Context, c config.Config) (*link, bool, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(c.StateDir, daemon.SocketName))
	if err != nil {
		return nil, false, nil //nolint:nilerr // no daemon is an answer, not a fault
	}
	_ = conn.Close()
	client, err := apiclient.New(apiclient.Options{
		BaseURL: "http://localhost", Transport: daemon.LocalTransport(c.StateDir), Patience: time.Second,
	})
	if err != nil {
		return nil, false, fmt.Errorf("local socket: %w", err)
	}
	return &link{Client: client, config: c}, true, nil
}
