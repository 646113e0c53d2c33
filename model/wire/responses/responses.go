// Package responses speaks the OpenAI Responses wire.
//
// It owns the encoding of a model.Request and the decoding of the answer; package transport makes the call between
// them. It makes one attempt for each Stream and runs no tool. No model's name is looked at.
//
// The service keeps nothing (store is false): reasoning comes back encrypted and is sent again by us. A service that
// refuses to encrypt it, for a model that does not reason, is asked without by the reasoning effort none.
//
// Invariants: the items of an answer are kept as the server finished them and are replayed unchanged and in order to
// this wire and the same model; any other model gets their texts and calls alone. Where reasoning came without its
// encrypted form, nothing of the answer is replayed as it was: the service would miss the reasoning. An answer without
// its last event is incomplete, however whole it looks. Whatever a server sends, the memory used is linear in it and
// bounded.
package responses

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
const Wire = "responses"

// DefaultBaseURL is OpenAI's own service.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config configures a Client. The zero value, with a key, calls OpenAI's own service: an empty BaseURL means
// DefaultBaseURL, an empty Provider "openai". A BaseURL includes the version.
type Config struct {
	transport.Config
}

// Client is a model.Model over Responses. It is safe for concurrent use.
type Client struct {
	*transport.Client
	endpoint string
	tools    transport.Tools
}

var _ model.Model = (*Client)(nil)

// New checks the configuration and returns a Client. It makes no call.
func New(cfg Config) (*Client, error) {
	if cfg.Provider == "" {
		cfg.Provider = model.TypeOpenAI
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	t, err := transport.New(cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("responses: %w", err)
	}
	return &Client{Client: t, endpoint: t.URL(nil, "responses")}, nil
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
