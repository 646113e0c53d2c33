// Package gemini speaks the Gemini wire, Google's generateContent.
//
// It owns the encoding of a model.Request and the decoding of the answer; package transport makes the call between
// them. It makes one attempt for each Stream and runs no tool. No model's name is looked at.
//
// Invariants: a part that carries a signature, and any part that is not known here, is kept as the server sent it and
// is replayed unchanged, in its place and never merged, to this wire and the same model; any other model does not get
// it. An answer without a finish reason is incomplete, however whole it looks. Whatever a server sends, the memory used
// is linear in it and bounded.
package gemini

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/sse"
	"github.com/harness-go/harness/model/wire/transport"
)

// Wire is the tag of raw items that belong to this wire.
const Wire = "gemini"

// DefaultBaseURL is Google's own service.
const DefaultBaseURL = "https://generativelanguage.googleapis.com/v1beta"

const keyHeader = "x-goog-api-key"

// Config configures a Client. The zero value, with a key, calls Google's own service: an empty BaseURL means
// DefaultBaseURL, an empty Provider "google", an empty KeyHeader x-goog-api-key. A BaseURL includes the version.
type Config struct {
	transport.Config
}

// Client is a model.Model over generateContent. It is safe for concurrent use.
type Client struct {
	*transport.Client
	tools transport.Tools
}

var _ model.Model = (*Client)(nil)

// New checks the configuration and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.Provider == "" {
		cfg.Provider = model.TypeGoogle
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if cfg.KeyHeader == "" {
		cfg.KeyHeader = keyHeader
	}
	t, err := transport.New(cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("gemini: %w", err)
	}
	return &Client{Client: t}, nil
}

// FromProvider is the model.Factory of this wire.
func FromProvider(p model.ProviderConfig) (model.Model, error) {
	return New(Config{Config: transport.FromProvider(p)})
}

// Stream makes one call when it is ranged over, and can be ranged over once. See model.Model.
func (c *Client) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return c.Client.Stream(ctx, func() (transport.Call, error) {
		body, err := c.encode(req)
		return transport.Call{
			URL: c.endpoint(req.Model), Headers: req.Headers, Body: body,
			Read: func(src io.Reader, emit func(model.Part) error) error {
				return read(src, c.MaxEvent(), newDecoder(req.Model, emit))
			},
		}, err
	})
}

// endpoint is the address of a model. Its id is one element of the path, whatever characters it has; the prefix that
// the service's own lists put before ids is not part of it.
func (c *Client) endpoint(id string) string {
	id = strings.TrimPrefix(id, "models/")
	return c.URL(url.Values{"alt": {"sse"}}, "models", url.PathEscape(id)+":streamGenerateContent")
}

// Decode reads the body of an answer, as a server sent it, from src. requested is the model that was asked for. See
// transport.Decode.
func Decode(src io.Reader, provider, requested string) iter.Seq2[model.Part, error] {
	return transport.Decode(src, provider, func(body io.Reader, emit func(model.Part) error) error {
		return read(body, sse.DefaultMaxEvent, newDecoder(requested, emit))
	})
}
