// Package anthropic speaks the Anthropic Messages wire.
//
// It owns the encoding of a model.Request and the decoding of the answer; package transport makes the call between
// them. It makes one attempt for each Stream and runs no tool. No model's name is looked at.
//
// Invariants: blocks of reasoning, blocks with citations and blocks that are not known here are kept as the server sent
// them and are replayed unchanged, in their place, to this wire and the same model; any other model does not get them.
// An answer without a stop reason is incomplete, however whole it looks. Whatever a server sends, the memory used is
// linear in it and bounded.
//
// An answer with the stop reason pause_turn is to be continued: its Finish has that word in Raw, and the caller makes
// the call again with the answer at the end of the messages.
package anthropic

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/sse"
	"github.com/harness-go/harness/model/wire/transport"
)

// Wire is the tag of raw items that belong to this wire.
const Wire = "anthropic"

// The defaults of Config and of a request.
const (
	DefaultBaseURL = "https://api.anthropic.com"
	// DefaultMaxTokens is the limit of output tokens of a request that names none. The wire demands one.
	DefaultMaxTokens = 8192

	version   = "2023-06-01"
	keyHeader = "x-api-key"
)

// Config configures a Client. The zero value, with a key, calls Anthropic's own service: an empty BaseURL means
// DefaultBaseURL, an empty Provider "anthropic", an empty KeyHeader x-api-key. A BaseURL may end in /v1 or not.
type Config struct {
	transport.Config
	// Thinking is ThinkingAdaptive (the default) or ThinkingBudget: the form in which the models of this service take
	// an effort that is a word. An effort that is a number is a budget in any case.
	Thinking string
}

// Client is a model.Model over Messages. It is safe for concurrent use.
type Client struct {
	*transport.Client
	endpoint string
	thinking string
	tools    transport.Tools
}

var _ model.Model = (*Client)(nil)

// New checks the configuration and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.Provider == "" {
		cfg.Provider = model.TypeAnthropic
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.KeyHeader == "" {
		cfg.KeyHeader = keyHeader
	}
	switch cfg.Thinking {
	case "", ThinkingAdaptive, ThinkingBudget:
	default:
		return nil, fmt.Errorf("anthropic: Thinking %q: use %s or %s", cfg.Thinking, ThinkingAdaptive, ThinkingBudget)
	}
	cfg.Defaults = map[string]string{"anthropic-version": version}
	t, err := transport.New(cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	path := []string{"v1", "messages"}
	if t.PathEndsIn("v1") {
		path = path[1:]
	}
	return &Client{Client: t, endpoint: t.URL(nil, path...), thinking: cfg.Thinking}, nil
}

// FromProvider is the model.Factory of this wire.
func FromProvider(p model.ProviderConfig) (model.Model, error) {
	return New(Config{Config: transport.FromProvider(p), Thinking: p.Thinking})
}

// Stream makes one call when it is ranged over, and can be ranged over once. See model.Model.
func (c *Client) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return c.Client.Stream(ctx, func() (transport.Call, error) {
		body, err := c.encode(req)
		return transport.Call{
			URL: c.endpoint, Headers: req.Headers, Body: body,
			Read: func(src io.Reader, emit func(model.Part) error) error {
				return read(src, c.MaxEvent(), newDecoder(req.Model, emit))
			},
		}, err
	})
}

// Decode reads the body of an answer, as a server sent it, from src. requested is the model that was asked for. See
// transport.Decode.
func Decode(src io.Reader, provider, requested string) iter.Seq2[model.Part, error] {
	return transport.Decode(src, provider, func(body io.Reader, emit func(model.Part) error) error {
		return read(body, sse.DefaultMaxEvent, newDecoder(requested, emit))
	})
}
