// Package chat speaks the OpenAI Chat Completions wire, which most model servers understand.
//
// It owns the encoding of a model.Request and the decoding of the answer; package transport makes the call between
// them. It makes one attempt for each Stream and runs no tool.
//
// Invariants: an answer without a finish reason is incomplete, however whole it looks. Whatever a server sends, the
// memory used is linear in it and bounded.
package chat

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/transport"
)

// Wire is the tag of raw items that belong to this wire.
const Wire = "chat"

// The names that servers use for the limit of output tokens.
const (
	MaxTokens           = "max_tokens"
	MaxCompletionTokens = "max_completion_tokens"
)

// Config configures a Client. Only BaseURL is required; an empty Provider means "openai-compat".
type Config struct {
	transport.Config
	// MaxTokensField is MaxTokens (the default) or MaxCompletionTokens.
	MaxTokensField string
	// PromptCacheKey sends the request's SessionID as prompt_cache_key.
	PromptCacheKey bool
	// OmitStreamOptions leaves stream_options out, for servers that refuse it. Usage is then often unknown.
	OmitStreamOptions bool
}

// Client is a model.Model over Chat Completions. It is safe for concurrent use.
type Client struct {
	cfg Config
	*transport.Client
	endpoint string
	tools    transport.Tools
}

var _ model.Model = (*Client)(nil)

// New checks the configuration and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.Provider == "" {
		cfg.Provider = model.TypeOpenAICompat
	}
	switch cfg.MaxTokensField {
	case "":
		cfg.MaxTokensField = MaxTokens
	case MaxTokens, MaxCompletionTokens:
	default:
		return nil, fmt.Errorf("chat: MaxTokensField %q: use %s or %s", cfg.MaxTokensField, MaxTokens, MaxCompletionTokens)
	}
	t, err := transport.New(cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return &Client{cfg: cfg, Client: t, endpoint: t.URL(nil, "chat", "completions")}, nil
}

// FromProvider is the model.Factory of this wire.
func FromProvider(p model.ProviderConfig) (model.Model, error) {
	return New(Config{Config: transport.FromProvider(p), MaxTokensField: p.MaxTokensField, PromptCacheKey: p.PromptCacheKey})
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
