package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// managed are the headers that the client or the HTTP layer sets. Nobody else may: a second credential or a forged
// length would change where a call goes or what it means.
var managed = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Api-Key": true, "Authorization": true, "Connection": true,
	"Content-Length": true, "Content-Type": true, "Cookie": true, "Host": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "X-Api-Key": true, "X-Goog-Api-Key": true,
}

func checkHeaders(headers map[string]string, keyHeader string) error {
	for k, v := range headers {
		name := textproto.CanonicalMIMEHeaderKey(k)
		switch {
		case !isToken(k):
			return fmt.Errorf("header %q is not a header name", k)
		case managed[name] || name == textproto.CanonicalMIMEHeaderKey(keyHeader):
			return fmt.Errorf("header %s is managed and cannot be set", name)
		case !isHeaderValue(v):
			return fmt.Errorf("the value of header %s holds a control character", name)
		}
	}
	return nil
}

func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("()<>@,;:\\\"/[]?={}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}

func httpClient(cfg Config) (*http.Client, error) {
	if cfg.HTTPClient != nil {
		if cfg.Proxy != nil {
			return nil, errors.New("chat: set Proxy or HTTPClient, not both")
		}
		c := *cfg.HTTPClient
		c.CheckRedirect = sameHost
		return &c, nil
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		CheckRedirect: sameHost,
		Transport: &http.Transport{
			Proxy:                 cfg.Proxy,
			DialContext:           dialer.DialContext,
			ForceAttemptHTTP2:     true,
			TLSHandshakeTimeout:   15 * time.Second,
			ExpectContinueTimeout: time.Second,
			IdleConnTimeout:       90 * time.Second,
			MaxIdleConns:          128,
			MaxIdleConnsPerHost:   128,
			// A compressed stream reaches us in the compressor's blocks and not event by event.
			DisableCompression: true,
		},
	}, nil
}

var errRedirect = errors.New("redirect refused")

// sameHost follows a redirect only where it keeps the scheme, the host and the method: anywhere else the key and the
// conversation would go to somebody whom nobody configured.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	if req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
		return fmt.Errorf("%w: the server points to another host, %s", errRedirect, req.URL.Host)
	}
	if req.Method != first.Method {
		return fmt.Errorf("%w: it would turn the call into a %s", errRedirect, req.Method)
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d in a row", errRedirect, maxRedirects)
	}
	return nil
}

var (
	errIdle      = errors.New("idle timeout")
	errTooLarge  = errors.New("answer is larger than the bound")
	errExchanged = errors.New("exchange is over")
)

// exchange is one HTTP call. Its timer runs only while the call waits for the server, never while the reader of the
// stream works; firing, it cancels the call and so ends the Read that waits.
type exchange struct {
	caller  context.Context
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	waiting time.Duration
	idle    time.Duration
	body    io.ReadCloser
	left    int64
}

func newExchange(caller context.Context, cfg Config) *exchange {
	x := &exchange{caller: caller, idle: cfg.IdleTimeout, left: cfg.MaxAnswer}
	x.ctx, x.cancel = context.WithCancelCause(caller)
	x.timer = time.AfterFunc(time.Hour, func() { x.cancel(errIdle) })
	x.timer.Stop()
	return x
}

func (x *exchange) arm(d time.Duration) {
	x.waiting = d
	x.timer.Reset(d)
}

func (x *exchange) disarm() { x.timer.Stop() }

// Read reads the body under the idle timeout and the bound of the whole answer.
func (x *exchange) Read(p []byte) (int, error) {
	if x.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > x.left {
		p = p[:x.left]
	}
	x.arm(x.idle)
	n, err := x.body.Read(p)
	x.disarm()
	x.left -= int64(n)
	return n, err
}

// drain reads the little that may follow the end of the answer, so that the connection can be used again. A server
// that holds the stream open costs one short wait and its connection.
func (x *exchange) drain() {
	x.idle = drainTimeout
	x.left = min(x.left, drainBytes)
	_, _ = io.Copy(io.Discard, x)
}

func (x *exchange) close() {
	x.timer.Stop()
	x.cancel(errExchanged)
	if x.body != nil {
		_ = x.body.Close() // the answer was read or is given up; nothing depends on this
	}
}
