// Package otlp sends the SDK's spans and metrics to a collector over OTLP/HTTP, in protobuf.
//
// It owns the encoding of what this project exports (spans, sums and histograms) and the delivery: compression, retries
// as the protocol wants them, and the silence of failures: they go to the log, at most once a minute, and never to the
// caller. The vendor's exporters do the same; they are not used because they link gRPC and the generated messages, which
// costs every start of the program several milliseconds whether anything is exported or not.
//
// Invariants: no wait is without a bound; headers go to the configured address only, and never into an error or a log;
// proxies of the environment are not used.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/harness-go/harness/model"
)

// Config is the delivery of one signal. URL is required.
type Config struct {
	URL     string
	Headers map[string]model.Secret
	// Timeout is that of one request. 0 means 10 s.
	Timeout time.Duration
	Gzip    bool
	// CAFile has the authorities that vouch for the collector; empty: the system's. CertFile and KeyFile are ours.
	CAFile, CertFile, KeyFile string
	// Logger learns of failures. Nil: nobody does.
	Logger *slog.Logger
}

// Bounds of a delivery.
const (
	defaultTimeout = 10 * time.Second
	maxAnswer      = 64 << 10
	firstWait      = time.Second
	maxWait        = 30 * time.Second
	maxTries       = 5
	logEvery       = time.Minute
)

// client delivers encoded requests.
type client struct {
	c    Config
	http *http.Client
	what string // "traces", "metrics"
	// life ends with close, and with it what is on its way.
	life context.Context
	end  context.CancelFunc

	mu     sync.Mutex
	failed int // since the last line of the log
	logged time.Time
}

func newClient(c Config, what string) (*client, error) {
	if c.URL == "" {
		return nil, errors.New("otlp: Config.URL is required")
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	t, err := tlsConfig(c)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	return &client{c: c, what: what, life: life, end: end, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:     (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSClientConfig: t, TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second,
		},
	}}, nil
}

func tlsConfig(c Config) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("otlp: certificates: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("otlp: %s holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("otlp: client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

func (c *client) close() {
	c.end()
	c.http.CloseIdleConnections()
}

// send delivers one request within ctx. What cannot be delivered is lost and logged.
func (c *client) send(ctx context.Context, body []byte) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	if err := c.deliver(ctx, body); err != nil {
		c.tell(err)
	}
}

// deliver tries again where the protocol says that this can help.
func (c *client) deliver(ctx context.Context, body []byte) error {
	if c.c.Gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // to memory
		_ = z.Close()
		body = b.Bytes()
	}
	wait := firstWait
	for try := 1; ; try++ {
		again, after, err := c.post(ctx, body)
		if err == nil || !again || try == maxTries {
			return err
		}
		wait = min(max(wait, after), maxWait)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return errors.Join(err, ctx.Err())
		}
		wait *= 2
	}
}

// post makes one request. again tells that it may be made again, no sooner than after.
func (c *client) post(ctx context.Context, body []byte) (again bool, after time.Duration, err error) {
	rctx, cancel := context.WithTimeout(ctx, c.c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(rctx, http.MethodPost, c.c.URL, bytes.NewReader(body))
	if err != nil {
		return false, 0, errors.New("the address cannot be used")
	}
	for name, value := range c.c.Headers {
		req.Header.Set(name, value.Reveal())
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "harness-otlp")
	if c.c.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return ctx.Err() == nil, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case res.StatusCode/100 == 2:
		if n, why := rejected(answer); n > 0 {
			return false, 0, fmt.Errorf("the collector rejected %d of the records: %.200q", n, why)
		}
		return false, 0, nil
	case res.StatusCode == 429 || res.StatusCode == 502 || res.StatusCode == 503 || res.StatusCode == 504:
		return true, retryAfter(res.Header.Get("Retry-After"), time.Now()), fmt.Errorf("the collector answers %s", res.Status)
	}
	return false, 0, fmt.Errorf("the collector answers %s", res.Status)
}

// retryAfter reads the header in its two forms.
func retryAfter(v string, now time.Time) time.Duration {
	if s, err := strconv.Atoi(v); err == nil && s >= 0 {
		return min(time.Duration(s)*time.Second, maxWait)
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(t.Sub(now), 0), maxWait)
	}
	return 0
}

// tell logs a failure, and those that came since the last line.
func (c *client) tell(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed++
	if now := time.Now(); now.Sub(c.logged) >= logEvery {
		c.c.Logger.Warn("telemetry not exported", "signal", c.what, "failures", c.failed, "error", err)
		c.logged, c.failed = now, 0
	}
}
