// Package responses speaks the OpenAI Responses wire.
//
// It owns the encoding of a model.Request and the decoding of the answer; package transport makes the call between
// them. It makes one attempt for each Stream and runs no tool. No model's name is looked at.
//
// The service keeps nothing (store is false): reasoning comes back encrypted and is sent again by us. Some models cannot
// encrypt it, and the service refuses a request that asks them to, before it generates anything. Such a request is made
// once more without the question, and the Client remembers the model.
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
	"net/http"
	"strings"
	"sync"

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
	open     modelSet // models that do not encrypt their reasoning
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
	encrypted := effortOf(req) != noEffort && !c.open.has(req.Model)
	first := c.call(ctx, req, encrypted)
	return func(yield func(model.Part, error) bool) {
		refused := false
		for p, err := range first {
			if refused = refusesEncryption(err); refused {
				break
			}
			if !yield(p, err) {
				return
			}
		}
		if refused {
			c.open.add(req.Model)
			c.call(ctx, req, false)(yield)
		}
	}
}

func (c *Client) call(ctx context.Context, req model.Request, encrypted bool) iter.Seq2[model.Part, error] {
	return c.Client.Stream(ctx, func() (transport.Call, error) {
		body, err := c.encode(req, encrypted)
		return transport.Call{
			URL: c.endpoint, Headers: req.Headers, Body: body,
			Read: func(src io.Reader, emit func(model.Part) error) error {
				return read(src, c.MaxEvent(), newDecoder(req.Model, emit))
			},
		}, err
	})
}

// refusesEncryption reports whether a request failed because it asks for encrypted reasoning, in the service's words or
// in those of a server that does not know the member. An encrypted content that does not fit is another failure.
func refusesEncryption(err error) bool {
	e, ok := model.AsError(err)
	if !ok || e.Status != http.StatusBadRequest {
		return false
	}
	s := strings.ToLower(e.Message)
	return strings.Contains(s, "encrypted content is not supported") ||
		(strings.Contains(s, "include") && strings.Contains(s, "reasoning.encrypted_content"))
}

// maxModels bounds a modelSet. Beyond it everything is forgotten, which costs one refused request for each model.
const maxModels = 256

// modelSet is a set of models. The zero value is empty. It is safe for concurrent use.
type modelSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func (s *modelSet) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

func (s *modelSet) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil || len(s.names) >= maxModels {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

// Decode reads the body of an answer, as a server sent it, from src. requested is the model that was asked for. See
// transport.Decode.
func Decode(src io.Reader, provider, requested string) iter.Seq2[model.Part, error] {
	return transport.Decode(src, provider, func(body io.Reader, emit func(model.Part) error) error {
		return read(body, sse.DefaultMaxEvent, newDecoder(requested, emit))
	})
}
