package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// The provider types that configuration may name. Which of them work is decided by the factories that the program
// brings: a known type without a factory is ErrTypeNotBuilt, never a silent substitute.
const (
	TypeOpenAICompat = "openai-compat" // Chat Completions, and every server that speaks it
	TypeOpenAI       = "openai"        // OpenAI's own service
	TypeOpenRouter   = "openrouter"
	TypeVercel       = "vercel"
	TypeResponses    = "openai-responses"
	TypeAnthropic    = "anthropic"
	TypeGoogle       = "google"
	TypeAzure        = "azure"
	TypeBedrock      = "bedrock"
	TypeVertex       = "google-vertex"
	TypeFake         = "fake" // the scripted provider: every model name, no network
)

var knownTypes = []string{
	TypeOpenAICompat, TypeOpenAI, TypeOpenRouter, TypeVercel, TypeResponses, TypeAnthropic, TypeGoogle, TypeAzure,
	TypeBedrock, TypeVertex, TypeFake,
}

// Errors of Resolve that callers branch on.
var (
	ErrUnknownProvider = errors.New("no such provider")
	ErrUnknownModel    = errors.New("no provider serves this model")
	ErrTypeNotBuilt    = errors.New("this provider type is not built yet")
)

// ProviderConfig configures one provider. The key goes to BaseURL's host only.
type ProviderConfig struct {
	Name    string            `json:"name"`
	Type    string            `json:"type"`     // empty: the catalogue's, or openai-compat with a BaseURL
	BaseURL string            `json:"base_url"` // empty: the catalogue's
	APIKey  Secret            `json:"api_key,omitzero"`
	Headers map[string]string `json:"headers,omitempty"`
	// Models are the ids that the provider serves. Empty: any model that is asked of it by name.
	Models []string `json:"models,omitempty"`
	// MaxTokensField is the Chat wire's name for the output limit; empty means the wire's default.
	MaxTokensField string `json:"max_tokens_field,omitempty"`
	// PromptCacheKey sends the session's id as the cache key, for servers that know the field.
	PromptCacheKey bool `json:"prompt_cache_key,omitempty"`
	// Thinking is the form in which an effort is said on the Anthropic wire: adaptive or budget. Empty means the
	// wire's default.
	Thinking string `json:"thinking,omitempty"`
	// IdleTimeout ends a stream that says nothing. 0 means the wire's default.
	IdleTimeout time.Duration `json:"-"`
	// HeaderTimeout bounds the wait for the beginning of an answer. 0 means the wire's default.
	HeaderTimeout time.Duration `json:"-"`
	// Proxy chooses an HTTP proxy for the provider's calls. nil means none; the environment is not read.
	Proxy func(*http.Request) (*url.URL, error) `json:"-"`
	// Wrap, when set, stands between the provider's client and the network, for recording and replay.
	Wrap func(http.RoundTripper) http.RoundTripper `json:"-"`
}

// Factory makes the Model of a provider.
type Factory func(ProviderConfig) (Model, error)

// ProvidersConfig is what NewProviders needs.
type ProvidersConfig struct {
	Providers []ProviderConfig
	// Types are the provider types that this program can build.
	Types map[string]Factory
	// DefaultProvider serves models that no other rule places. Empty: the only provider, if there is just one.
	DefaultProvider string
	// DefaultModel is used when a call names none. Empty: the first of the provider's Models.
	DefaultModel string
	// Catalog fills empty types and URLs and places models that no configuration lists. nil: neither happens.
	Catalog *Catalog
}

// Providers finds the provider and the Model for a model's name. It is safe for concurrent use.
type Providers struct {
	config ProvidersConfig
	list   []*provider
}

type provider struct {
	config ProviderConfig
	build  func() (Model, error)
}

// Resolved is the answer of Resolve. ModelID is the id to put into Request.Model.
type Resolved struct {
	Model    Model
	Provider string
	ModelID  string
}

// NewProviders checks the configuration. It builds no Model: a type that is not built yet fails only the calls that
// need it.
func NewProviders(cfg ProvidersConfig) (*Providers, error) {
	p := &Providers{config: cfg}
	for i, c := range cfg.Providers {
		if c.Name == "" {
			return nil, fmt.Errorf("model providers[%d].name is empty", i)
		}
		if strings.ContainsAny(c.Name, "/ \t\r\n") {
			return nil, fmt.Errorf("model providers[%d].name %q holds a slash or a blank", i, c.Name)
		}
		if p.find(c.Name) != nil {
			return nil, fmt.Errorf("model providers[%d].name %q is used twice", i, c.Name)
		}
		if c.Type != "" && !slices.Contains(knownTypes, c.Type) && cfg.Types[c.Type] == nil {
			return nil, fmt.Errorf("model provider %q: type %q is unknown; known are %s", c.Name, c.Type, strings.Join(knownTypes, ", "))
		}
		entry := &provider{config: c}
		entry.build = sync.OnceValues(func() (Model, error) { return p.make(c) })
		p.list = append(p.list, entry)
	}
	if d := cfg.DefaultProvider; d != "" && p.find(d) == nil {
		return nil, fmt.Errorf("model default provider %q is not configured; configured are %s", d, p.names())
	}
	return p, nil
}

func (p *Providers) make(c ProviderConfig) (Model, error) {
	if p.config.Catalog != nil && (c.Type == "" || c.BaseURL == "") {
		if known, ok := p.config.Catalog.Provider(c.Name); ok {
			c.Type = cmp.Or(c.Type, known.Type)
			c.BaseURL = cmp.Or(c.BaseURL, known.BaseURL)
		}
	}
	if c.Type == "" {
		if c.BaseURL == "" {
			return nil, fmt.Errorf("model provider %q: set its type and base_url; the catalogue does not know it", c.Name)
		}
		c.Type = TypeOpenAICompat
	}
	f := p.config.Types[c.Type]
	if f == nil {
		return nil, fmt.Errorf("model provider %q: type %q: %w; built are %s", c.Name, c.Type, ErrTypeNotBuilt, p.types())
	}
	m, err := f(c)
	if err != nil {
		return nil, fmt.Errorf("model provider %q: %w", c.Name, err)
	}
	return m, nil
}

// Resolve finds who serves a model. With a provider's name only that one is asked. Without, the order is: a provider
// that lists the model; "provider/model"; a provider without a list that the catalogue knows to have the model; the
// default provider. An empty model means the default one. Errors wrap ErrUnknownProvider, ErrUnknownModel or
// ErrTypeNotBuilt.
func (p *Providers) Resolve(model, providerName string) (Resolved, error) {
	entry, id, err := p.place(model, providerName)
	if err != nil {
		return Resolved{}, err
	}
	m, err := entry.build()
	if err != nil {
		return Resolved{}, err
	}
	return Resolved{Model: m, Provider: entry.config.Name, ModelID: id}, nil
}

func (p *Providers) place(model, providerName string) (*provider, string, error) {
	if len(p.list) == 0 {
		return nil, "", fmt.Errorf("%w: no model provider is configured", ErrUnknownProvider)
	}
	if providerName != "" {
		entry := p.find(providerName)
		if entry == nil {
			return nil, "", fmt.Errorf("%w: %q; configured are %s", ErrUnknownProvider, providerName, p.names())
		}
		id := strings.TrimPrefix(model, providerName+"/")
		if entry.lists(model) {
			id = model
		}
		return p.on(entry, id)
	}
	if model == "" {
		model = p.config.DefaultModel
	}
	if model != "" {
		if entry, id := p.byModel(model); entry != nil {
			return p.on(entry, id)
		}
	}
	if entry := p.standard(); entry != nil && (model == "" || len(entry.config.Models) == 0) {
		return p.on(entry, model)
	}
	if model == "" {
		return nil, "", fmt.Errorf("%w: the request names no model and there is no default", ErrUnknownModel)
	}
	return nil, "", fmt.Errorf("%w: %q; name a provider too, configured are %s", ErrUnknownModel, model, p.names())
}

func (p *Providers) byModel(model string) (*provider, string) {
	for _, e := range p.list {
		if e.lists(model) {
			return e, model
		}
	}
	if name, rest, ok := strings.Cut(model, "/"); ok && rest != "" {
		if e := p.find(name); e != nil {
			return e, rest
		}
	}
	if p.config.Catalog == nil || len(p.list) < 2 {
		return nil, ""
	}
	for _, e := range p.list {
		if len(e.config.Models) > 0 {
			continue
		}
		if _, ok := p.config.Catalog.Lookup(e.config.Name, model); ok {
			return e, model
		}
	}
	return nil, ""
}

// on checks a model against the list of its provider and fills an empty one.
func (p *Providers) on(e *provider, model string) (*provider, string, error) {
	if model == "" {
		switch {
		case p.config.DefaultModel != "" && (len(e.config.Models) == 0 || e.lists(p.config.DefaultModel)):
			model = p.config.DefaultModel
		case len(e.config.Models) > 0:
			model = e.config.Models[0]
		case e.config.Type == TypeFake:
			model = "scripted"
		default:
			return nil, "", fmt.Errorf("%w: the request names no model and provider %q has no default", ErrUnknownModel, e.config.Name)
		}
	}
	if len(e.config.Models) > 0 && !e.lists(model) {
		return nil, "", fmt.Errorf("%w: %q is not among the models of provider %q: %s", ErrUnknownModel, model, e.config.Name,
			strings.Join(e.config.Models, ", "))
	}
	return e, model, nil
}

func (p *Providers) standard() *provider {
	if p.config.DefaultProvider != "" {
		return p.find(p.config.DefaultProvider)
	}
	if len(p.list) == 1 {
		return p.list[0]
	}
	return nil
}

func (e *provider) lists(model string) bool { return slices.Contains(e.config.Models, model) }

func (p *Providers) find(name string) *provider {
	for _, e := range p.list {
		if e.config.Name == name {
			return e
		}
	}
	return nil
}

// List returns the configured providers in their order. The keys in it do not print.
func (p *Providers) List() []ProviderConfig {
	list := make([]ProviderConfig, 0, len(p.list))
	for _, e := range p.list {
		list = append(list, e.config)
	}
	return list
}

func (p *Providers) names() string {
	names := make([]string, 0, len(p.list))
	for _, e := range p.list {
		names = append(names, e.config.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (p *Providers) types() string {
	var built []string
	for t := range p.config.Types {
		built = append(built, t)
	}
	slices.Sort(built)
	return strings.Join(built, ", ")
}
