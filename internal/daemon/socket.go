package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// SocketName is the local socket's name in the state directory.
const SocketName = "harnessd.sock"

// maxSocketPath is what every supported system takes as the path of a socket.
const maxSocketPath = 103

var errSocketPath = errors.New("the path of the state directory is too long for a socket")

// socket is the node's local listener. Only the process that holds the state directory's lock makes one, so an old
// one in its place is what a killed process left.
type socket struct {
	net.Listener
	path string
}

func listenSocket(stateDir string) (*socket, error) {
	// The socket is made in a folder that only we can enter and moved when its mode is right: there is no moment in
	// which others could connect.
	dir, err := os.MkdirTemp(stateDir, ".s")
	if err != nil {
		return nil, fmt.Errorf("local socket: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, made := filepath.Join(stateDir, SocketName), filepath.Join(dir, "s")
	if len(path) > maxSocketPath || len(made) > maxSocketPath {
		return nil, fmt.Errorf("%w (%d bytes; the limit is %d)", errSocketPath, max(len(path), len(made)), maxSocketPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("local socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("local socket: %w", err), l.Close())
	}
	return &socket{Listener: l, path: path}, nil
}

// remove takes the path away. The server that serves the listener closes it.
func (s *socket) remove() error {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("local socket: %w", err)
	}
	return nil
}

// LocalTransport is the way to the node that has a state directory, over its socket. Requests on it need no key.
func LocalTransport(stateDir string) *http.Transport {
	path := filepath.Join(stateDir, SocketName)
	var d net.Dialer
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) },
		// The node ends an idle connection after two minutes.
		IdleConnTimeout: 90 * time.Second,
	}
}
