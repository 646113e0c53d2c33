package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/harness-go/harness/internal/apikey"
)

// Options configures a Server.
type Options struct {
	// Runs is the engine. Required.
	Runs Runs
	// Keys finds API keys. Required, unless AuthDisabled.
	Keys apikey.Lookup
	// KeyStore, when set, gives the server the routes that administer keys.
	KeyStore KeyStore
	// Models, when set, gives the server the routes that tell of models and providers.
	Models Models
	// AuthDisabled lets everybody in as engine.Local. Only loopback connections and requests from inside the process
	// are then served, and Serve refuses any other listener.
	AuthDisabled bool
	// Hosts are names, beside the loopback ones, that requests may give as their Host; without ports.
	Hosts []string
	// Metrics answers GET /metrics. Nil: there is no such route.
	Metrics http.Handler
	// Answered is told of each answer. Nil: nobody is.
	Answered Answered
	// Version is the program's version, for the API description. Empty: "dev".
	Version string
	// Logger gets failures, and every request at level debug. Nil: none.
	Logger *slog.Logger
	Limits Limits
}

// Limits bounds what requests may use. The zero value of each is its default.
type Limits struct {
	ReadHeader time.Duration // headers of a request; 10 s
	Read       time.Duration // a whole request; 60 s
	Idle       time.Duration // an idle connection; 120 s
	Handler    time.Duration // a request but for event streams; 30 s
	Heartbeat  time.Duration // between comments on an idle stream; 15 s
	Stall      time.Duration // how long a stream's reader may take nothing; 60 s
	Shutdown   time.Duration // for open requests once Serve's context ends; 1.5 s
	Streams    int           // event streams at once; 10,000
	Page       int           // events read at once for a stream; 256
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&l.ReadHeader, 10 * time.Second}, {&l.Read, time.Minute}, {&l.Idle, 2 * time.Minute},
		{&l.Handler, 30 * time.Second}, {&l.Heartbeat, 15 * time.Second}, {&l.Stall, time.Minute},
		{&l.Shutdown, 1500 * time.Millisecond},
	} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if l.Streams <= 0 {
		l.Streams = 10_000
	}
	if l.Page <= 0 {
		l.Page = 256
	}
	return l
}

const maxHeaderBytes = 64 << 10

// Server is the HTTP API. It is an http.Handler, and serves listeners itself with the right timeouts.
type Server struct {
	runs   Runs
	log    *slog.Logger
	limits Limits
	hosts  map[string]bool
	auth   authenticator
	origin *http.CrossOriginProtection
	mux    *http.ServeMux
	api    huma.API
	http   *http.Server
	local  *http.Server // the same API for trusted listeners

	revoking sync.Mutex // held over the end of a key
	answered Answered
	streams  atomic.Int64
	closing  chan struct{} // closed when streams must end
	closed   chan struct{} // closed when Shutdown is through
	shutdown sync.Once
	document func() (documents, error)
}

// New makes a server. It listens to nothing yet.
func New(o Options) (*Server, error) {
	switch {
	case o.Runs == nil:
		return nil, errors.New("http api: Options.Runs is required")
	case o.AuthDisabled && o.Keys != nil:
		return nil, errors.New("http api: Options.Keys is of no use with AuthDisabled; give one of them")
	case !o.AuthDisabled && o.Keys == nil:
		return nil, errors.New("http api: Options.Keys is required, unless AuthDisabled is set")
	}
	s := &Server{
		runs: o.Runs, log: o.Logger, limits: o.Limits.withDefaults(), hosts: map[string]bool{},
		auth: authenticator{keys: o.Keys}, origin: http.NewCrossOriginProtection(), mux: http.NewServeMux(),
		closing: make(chan struct{}), closed: make(chan struct{}), answered: o.Answered,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, h := range o.Hosts {
		if h == "" || strings.ContainsAny(h, "/*@ ") {
			return nil, fmt.Errorf("http api: Options.Hosts: %q is not a host name", h)
		}
		s.hosts[strings.ToLower(strings.TrimSuffix(strings.Trim(h, "[]"), "."))] = true
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	s.routes(o.Version)
	s.keyRoutes(o.KeyStore)
	s.metricsRoute(o.Metrics)
	s.modelRoutes(o.Models)
	s.http, s.local = s.serverOf(s), s.serverOf(s.Trusted())
	return s, nil
}

func (s *Server) serverOf(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.limits.ReadHeader,
		ReadTimeout:       s.limits.Read,
		WriteTimeout:      s.limits.Handler + s.limits.Read, // streams set their own, for each write
		IdleTimeout:       s.limits.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// ErrOpenBind refuses a listener that others can reach while authentication is off.
var ErrOpenBind = errors.New("authentication is switched off, so the server may listen on loopback only: listen on 127.0.0.1 or switch authentication on")

// Serve answers requests on a listener until ctx ends, then shuts down within Limits.Shutdown and returns nil. It
// closes the listener. Call it once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.auth.off() && !loopbackAddr(l.Addr()) {
		_ = l.Close()
		return fmt.Errorf("http api: %s: %w", l.Addr(), ErrOpenBind)
	}
	return s.serve(ctx, s.http, l)
}

func (s *Server) serve(ctx context.Context, hs *http.Server, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.Shutdown)
		defer cancel()
		_ = s.Shutdown(grace)
	})
	defer stop()
	if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http api: serve %s: %w", l.Addr(), err)
	}
	<-s.closed
	return nil
}

// Shutdown ends the event streams at once, each with a comment, waits for the other requests until ctx ends, and
// closes what is left then. The error is ctx's when something had to be cut.
func (s *Server) Shutdown(ctx context.Context) error {
	var err error
	s.shutdown.Do(func() {
		close(s.closing)
		for _, hs := range []*http.Server{s.http, s.local} {
			if serr := hs.Shutdown(ctx); serr != nil {
				err = serr
				_ = hs.Close()
			}
		}
		close(s.closed)
	})
	select {
	case <-s.closed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
