// Package transport is the HTTP half of a wire: one POST with a bounded, idle-timed answer, and the errors of both.
//
// It owns headers, keys, redirects, timeouts, bounds and the classification of failures. It does not own what is in a
// body; a wire encodes the request and reads the answer. It makes one attempt for each call: retries belong to the
// caller. It reads no environment variable and starts no goroutine of its own.
//
// Invariants: the key goes to the configured host only, redirects to another are refused, and neither key nor header
// appears in an error. Whatever a server sends, the memory used is linear in it and bounded.
package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"path"
	"sync/atomic"
	"time"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/sse"
)

// The defaults of Config.
const (
	DefaultIdleTimeout         = 120 * time.Second
	DefaultHeaderTimeout       = 10 * time.Minute
	DefaultMaxAnswer           = 256 << 20
	userAgent                  = "harness-go"
	maxRedirects               = 3
	drainTimeout               = 100 * time.Millisecond
	drainBytes           int64 = 64 << 10
)

// Config configures a Client. Provider and BaseURL are required.
type Config struct {
	// Provider names the service in errors.
	Provider string
	// BaseURL is the address that a wire's path is added to. A query in it (such as api-version) is kept.
	BaseURL string
	// APIKey is sent as a bearer token, or in KeyHeader as it is. The zero Secret sends none.
	APIKey    model.Secret
	KeyHeader string
	// Defaults are headers of the wire that Headers may replace.
	Defaults map[string]string
	// Headers are sent with every call. They may not name what the client itself sets.
	Headers map[string]string
	// HTTPClient replaces the client's own. Its CheckRedirect is not used, and a Timeout in it is a total one, which
	// ends long streams.
	HTTPClient *http.Client
	// Proxy chooses a proxy for the client's own HTTP client. nil means none: the environment is not read.
	Proxy func(*http.Request) (*url.URL, error)
	// Wrap, when set, stands between the client and its HTTP transport, for recording and replay.
	Wrap func(http.RoundTripper) http.RoundTripper
	// IdleTimeout ends a stream in which nothing came for so long. 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
	// ResponseHeaderTimeout bounds the wait for the answer's headers. 0 means DefaultHeaderTimeout.
	ResponseHeaderTimeout time.Duration
	// MaxEvent and MaxAnswer bound one event and the whole answer in bytes. 0 means 64 MiB and 256 MiB.
	MaxEvent  int
	MaxAnswer int64
}

// FromProvider is the part of a Config that a provider's configuration gives.
func FromProvider(p model.ProviderConfig) Config {
	return Config{
		Provider: p.Name, BaseURL: p.BaseURL, APIKey: p.APIKey, Headers: p.Headers, Proxy: p.Proxy, Wrap: p.Wrap,
		IdleTimeout: p.IdleTimeout, ResponseHeaderTimeout: p.HeaderTimeout,
	}
}

// Client makes the calls of one provider. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base *url.URL
	http *http.Client
	now  func() time.Time
}

// New checks the configuration and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	base, err := baseOf(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	if cfg.IdleTimeout < 0 || cfg.ResponseHeaderTimeout < 0 || cfg.MaxEvent < 0 || cfg.MaxAnswer < 0 {
		return nil, errors.New("timeouts and bounds must not be negative")
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = DefaultIdleTimeout
	}
	if cfg.ResponseHeaderTimeout == 0 {
		cfg.ResponseHeaderTimeout = DefaultHeaderTimeout
	}
	if cfg.MaxEvent == 0 {
		cfg.MaxEvent = sse.DefaultMaxEvent
	}
	if cfg.MaxAnswer == 0 {
		cfg.MaxAnswer = DefaultMaxAnswer
	}
	if cfg.KeyHeader != "" && !isToken(cfg.KeyHeader) {
		return nil, fmt.Errorf("KeyHeader %q is not a header name", cfg.KeyHeader)
	}
	if err := checkHeaders(cfg.Headers, cfg.KeyHeader); err != nil {
		return nil, err
	}
	client, err := httpClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, base: base, http: client, now: time.Now}, nil
}

func baseOf(base string) (*url.URL, error) {
	if base == "" {
		return nil, errors.New("BaseURL is empty")
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("BaseURL is not a URL") // the parser's error would repeat it
	case u.User != nil:
		return nil, errors.New("BaseURL holds a user or password; use APIKey")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, fmt.Errorf("BaseURL %q: use http://host… or https://host…", base)
	case u.Fragment != "":
		return nil, fmt.Errorf("BaseURL %q holds a fragment", base)
	}
	return u, nil
}

// URL is the base with a path, whose elements are joined as they are, and query values added.
func (c *Client) URL(query url.Values, elements ...string) string {
	u := c.base.JoinPath(elements...)
	if len(query) > 0 {
		q := u.Query()
		for k, v := range query {
			q[k] = v
		}
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// PathEndsIn reports whether the base's last path element is the given one.
func (c *Client) PathEndsIn(element string) bool { return path.Base(c.base.Path) == element }

// MaxEvent is the bound of one event in bytes.
func (c *Client) MaxEvent() int { return c.cfg.MaxEvent }

// CloseIdleConnections closes the connections that no call uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Call is one POST.
type Call struct {
	URL string
	// Headers are those of the request; managed ones are refused.
	Headers map[string]string
	Body    []byte
	// Read decodes the answer of a 200 and gives its parts to emit, whose error it returns. Its own errors are
	// ErrIncomplete, ErrTooLarge, a Protocolf or an *APIError; any other is taken as a broken connection.
	Read func(body io.Reader, emit func(model.Part) error) error
}

// Stream makes the call that prepare describes when it is ranged over, and can be ranged over once. An error of prepare
// is an invalid request. See model.Model.
func (c *Client) Stream(ctx context.Context, prepare func() (Call, error)) iter.Seq2[model.Part, error] {
	var used atomic.Bool
	return func(yield func(model.Part, error) bool) {
		if used.Swap(true) {
			yield(model.Part{}, errors.New("the stream was ranged over before; call Stream again"))
			return
		}
		err := c.call(ctx, prepare, func(p model.Part) error {
			if !yield(p, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(model.Part{}, err)
		}
	}
}

// errStopped ends a stream whose reader left the loop. It never leaves the package.
var errStopped = errors.New("stopped")

func (c *Client) call(ctx context.Context, prepare func() (Call, error), emit func(model.Part) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call, err := prepare()
	if err != nil {
		return c.fail(model.ErrInvalidRequest, err.Error(), nil)
	}
	x := newExchange(ctx, c.cfg)
	defer x.close()
	req, err := c.newRequest(x.ctx, call)
	if err != nil {
		return err
	}
	x.arm(c.cfg.ResponseHeaderTimeout)
	resp, err := c.http.Do(req)
	x.disarm()
	if err != nil {
		return c.requestError(x, err)
	}
	x.body = resp.Body
	id := requestID(resp.Header)
	if resp.StatusCode != http.StatusOK {
		return c.statusError(x, resp, id)
	}
	if err := call.Read(x, emit); err != nil {
		return c.answerError(x, err, id)
	}
	x.drain()
	return nil
}

func (c *Client) newRequest(ctx context.Context, call Call) (*http.Request, error) {
	if err := checkHeaders(call.Headers, c.cfg.KeyHeader); err != nil {
		return nil, c.fail(model.ErrInvalidRequest, err.Error(), nil)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return nil, c.fail(model.ErrInvalidRequest, "the endpoint is not usable", nil)
	}
	for _, h := range []map[string]string{c.cfg.Defaults, c.cfg.Headers, call.Headers} {
		for k, v := range h {
			r.Header.Set(k, v)
		}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream, application/json")
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", userAgent)
	}
	key := c.cfg.APIKey.Reveal()
	switch {
	case key == "":
	case !isHeaderValue(key):
		return nil, c.fail(model.ErrAuth, "the configured key holds a line break or another control character", nil)
	case c.cfg.KeyHeader != "":
		r.Header.Set(c.cfg.KeyHeader, key)
	default:
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return r, nil
}

func (c *Client) fail(kind model.ErrorKind, message string, cause error) *model.Error {
	return &model.Error{Kind: kind, Provider: c.cfg.Provider, Message: c.clean(message), Cause: cause}
}

// Decode reads the body of an answer, as a server sent it, from src: a recorded stream or a scripted one. provider
// names the service in errors. It does not close src and has no idle timeout.
func Decode(src io.Reader, provider string, read func(body io.Reader, emit func(model.Part) error) error) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		c := &Client{cfg: Config{Provider: provider, MaxAnswer: DefaultMaxAnswer, IdleTimeout: DefaultIdleTimeout}}
		x := newExchange(context.Background(), c.cfg)
		defer x.close()
		err := read(io.LimitReader(src, c.cfg.MaxAnswer), func(p model.Part) error {
			if !yield(p, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(model.Part{}, c.answerError(x, err, ""))
		}
	}
}
