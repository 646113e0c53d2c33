package scripted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout   = 10 * time.Second
	shutdownTimeout = 3 * time.Second
)

// Serve runs the model server at addr ("127.0.0.1:8099"; port 0 picks a free one) until ctx ends. It writes
// "listening on http://…" to o.Out once clients can connect. The end of ctx is no error.
func Serve(ctx context.Context, addr string, o ServerOptions) error {
	h, err := NewHandler(o)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("model server: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: 2 * time.Minute}
	if o.Out != nil {
		if _, err := fmt.Fprintf(o.Out, "listening on http://%s\n", l.Addr()); err != nil {
			_ = l.Close() // the write's error is the one to tell
			return fmt.Errorf("model server: %w", err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		// A scripted answer may hang for an hour: what does not end soon is cut.
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if srv.Shutdown(stop) != nil {
			_ = srv.Close() // closing is the last resort; it has no other way to fail
		}
		err = <-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("model server: %w", err)
}
