// Package chat speaks the OpenAI Chat Completions wire, which most model servers understand.
//
// It owns the encoding of a model.Request, the decoding of the answer and the HTTP call between them. It makes one
// attempt for each Stream: retries, fallbacks and budgets belong to the caller. It reads no environment variable,
// starts no goroutine of its own and runs no tool.
//
// Invariants: the key goes to the configured host only, redirects to another are refused, and neither key nor header
// appears in an error. An answer without a finish reason is incomplete, however whole it looks. Whatever a server
// sends, the memory used is linear in it and bounded.
package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/sse"
)

// Wire is the tag of raw items that belong to this wire.
const Wire = "chat"

// The names that servers use for the limit of output tokens.
const (
	MaxTokens           = "max_tokens"
	MaxCompletionTokens = "max_completion_tokens"
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

// Config configures a Client. Only BaseURL is required.
type Config struct {
	// Provider names the service in errors. Empty means "openai-compat".
	Provider string
	// BaseURL is the address to which /chat/completions is added. A query (such as api-version) is kept.
	BaseURL string
	// APIKey is sent as a bearer token, or in KeyHeader as it is. The zero Secret sends none.
	APIKey    model.Secret
	KeyHeader string
	// Headers are sent with every call. They may not name what the client itself sets.
	Headers map[string]string
	// HTTPClient replaces the client's own. Its CheckRedirect is not used, and a Timeout in it is a total one, which
	// ends long streams.
	HTTPClient *http.Client
	// Proxy chooses a proxy for the client's own HTTP client. nil means none: the environment is not read.
	Proxy func(*http.Request) (*url.URL, error)
	// MaxTokensField is MaxTokens (the default) or MaxCompletionTokens.
	MaxTokensField string
	// IdleTimeout ends a stream in which nothing came for so long. 0 means DefaultIdleTimeout.
	IdleTimeout time.Duration
	// ResponseHeaderTimeout bounds the wait for the answer's headers. 0 means DefaultHeaderTimeout.
	ResponseHeaderTimeout time.Duration
	// MaxEvent and MaxAnswer bound one event and the whole answer in bytes. 0 means 64 MiB and 256 MiB.
	MaxEvent  int
	MaxAnswer int64
	// PromptCacheKey sends the request's SessionID as prompt_cache_key.
	PromptCacheKey bool
	// OmitStreamOptions leaves stream_options out, for servers that refuse it. Usage is then often unknown.
	OmitStreamOptions bool
}

// Client is a model.Model over Chat Completions. It is safe for concurrent use.
type Client struct {
	cfg      Config
	endpoint string
	http     *http.Client
	now      func() time.Time
}

var _ model.Model = (*Client)(nil)

// New checks the configuration and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.Provider == "" {
		cfg.Provider = model.TypeOpenAICompat
	}
	endpoint, err := endpointOf(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	switch cfg.MaxTokensField {
	case "":
		cfg.MaxTokensField = MaxTokens
	case MaxTokens, MaxCompletionTokens:
	default:
		return nil, fmt.Errorf("chat: MaxTokensField %q: use %s or %s", cfg.MaxTokensField, MaxTokens, MaxCompletionTokens)
	}
	if cfg.IdleTimeout < 0 || cfg.ResponseHeaderTimeout < 0 || cfg.MaxEvent < 0 || cfg.MaxAnswer < 0 {
		return nil, errors.New("chat: timeouts and bounds must not be negative")
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
		return nil, fmt.Errorf("chat: KeyHeader %q is not a header name", cfg.KeyHeader)
	}
	if err := checkHeaders(cfg.Headers, cfg.KeyHeader); err != nil {
		return nil, err
	}
	client, err := httpClient(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, endpoint: endpoint, http: client, now: time.Now}, nil
}

// FromProvider is the model.Factory of this wire.
func FromProvider(p model.ProviderConfig) (model.Model, error) {
	return New(Config{
		Provider: p.Name, BaseURL: p.BaseURL, APIKey: p.APIKey, Headers: p.Headers,
		MaxTokensField: p.MaxTokensField, PromptCacheKey: p.PromptCacheKey, IdleTimeout: p.IdleTimeout,
	})
}

func endpointOf(base string) (string, error) {
	if base == "" {
		return "", errors.New("chat: BaseURL is empty")
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return "", errors.New("chat: BaseURL is not a URL") // the parser's error would repeat it
	case u.User != nil:
		return "", errors.New("chat: BaseURL holds a user or password; use APIKey")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "", fmt.Errorf("chat: BaseURL %q: use http://host… or https://host…", base)
	case u.Fragment != "":
		return "", fmt.Errorf("chat: BaseURL %q holds a fragment", base)
	}
	return u.JoinPath("chat", "completions").String(), nil
}

// CloseIdleConnections closes the connections that no call uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Stream makes one call when it is ranged over, and can be ranged over once. See model.Model.
func (c *Client) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	var used atomic.Bool
	return func(yield func(model.Part, error) bool) {
		if used.Swap(true) {
			yield(model.Part{}, errors.New("chat: the stream was ranged over before; call Stream again"))
			return
		}
		if err := c.stream(ctx, req, yield); err != nil {
			yield(model.Part{}, err)
		}
	}
}

// errStopped ends a stream whose reader left the loop. It never leaves the package.
var errStopped = errors.New("stopped")

func (c *Client) stream(ctx context.Context, req model.Request, yield func(model.Part, error) bool) error {
	err := c.call(ctx, req, func(p model.Part) error {
		if !yield(p, nil) {
			return errStopped
		}
		return nil
	})
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

func (c *Client) call(ctx context.Context, req model.Request, emit func(model.Part) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	body, err := c.encode(req)
	if err != nil {
		return c.fail(model.ErrInvalidRequest, err.Error(), nil)
	}
	x := newExchange(ctx, c.cfg)
	defer x.close()
	httpReq, err := c.newRequest(x.ctx, req, body)
	if err != nil {
		return err
	}
	x.arm(c.cfg.ResponseHeaderTimeout)
	resp, err := c.http.Do(httpReq)
	x.disarm()
	if err != nil {
		return c.requestError(x, err)
	}
	x.body = resp.Body
	id := requestID(resp.Header)
	if resp.StatusCode != http.StatusOK {
		return c.statusError(x, resp, id)
	}
	d := newDecoder(req.Model, emit)
	if err := c.read(x, d); err != nil {
		return c.answerError(x, err, id)
	}
	x.drain()
	return nil
}

func (c *Client) newRequest(ctx context.Context, req model.Request, body []byte) (*http.Request, error) {
	if err := checkHeaders(req.Headers, c.cfg.KeyHeader); err != nil {
		return nil, c.fail(model.ErrInvalidRequest, err.Error(), nil)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, c.fail(model.ErrInvalidRequest, "the endpoint is not usable", nil)
	}
	for _, h := range []map[string]string{c.cfg.Headers, req.Headers} {
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
