package daemon

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/model/wire/anthropic"
	"github.com/harness-go/harness/model/wire/chat"
	"github.com/harness-go/harness/model/wire/gemini"
	"github.com/harness-go/harness/model/wire/responses"
)

// models finds the models of runs and their prices.
type models struct {
	providers *model.Providers
	names     []string
	catalog   *model.Catalog
	keys      *providerKeys
	// defaultModel serves runs that name none, on defaultProvider.
	defaultModel, defaultProvider string
	// priced: the catalogue is asked for limits and prices. Not for the scripted provider alone, unless a price file
	// names it: reading the catalogue costs time and memory.
	priced bool
	// replays: models answer from recordings.
	replays bool
}

func newModels(c config.Config) (*models, error) {
	if err := taped(&c); err != nil {
		return nil, err
	}
	var prices []byte
	if c.PriceFile != "" {
		var err error
		if prices, err = os.ReadFile(c.PriceFile); err != nil {
			return nil, &config.Error{Source: cmp.Or(c.Origins["price_file"], "price_file"), Message: err.Error()}
		}
	}
	catalog, err := model.NewCatalog(prices)
	if err != nil {
		return nil, &config.Error{Source: c.PriceFile, Message: err.Error()}
	}
	keys := &providerKeys{}
	list := slices.Clone(c.Providers)
	for i := range list {
		if list[i].Type != model.TypeFake { // takes none
			list[i].APIKey = keys.of(list[i].Name, list[i].APIKey)
		}
	}
	p, err := model.NewProviders(model.ProvidersConfig{
		Providers: list,
		Types: map[string]model.Factory{
			model.TypeOpenAICompat: chat.FromProvider,
			model.TypeAnthropic:    anthropic.FromProvider,
			model.TypeOpenAI:       responses.FromProvider,
			model.TypeResponses:    responses.FromProvider,
			model.TypeGoogle:       gemini.FromProvider,
			model.TypeFake:         scripted.FromProvider,
		},
		DefaultProvider: defaultProvider(c),
		DefaultModel:    c.Model,
		Catalog:         catalog,
	})
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	m := &models{
		replays:   c.ModelReplay != "",
		providers: p, catalog: catalog, keys: keys, defaultModel: c.Model, defaultProvider: defaultProvider(c),
		priced: !c.Fake() || len(prices) > 0,
	}
	for _, e := range c.Providers {
		m.names = append(m.names, e.Name)
	}
	return m, nil
}

// defaultProvider serves models that nothing else places: the configured one, else the first in the list.
func defaultProvider(c config.Config) string {
	if c.Provider != "" || len(c.Providers) == 0 {
		return c.Provider
	}
	return c.Providers[0].Name
}

// targets resolves a model on its provider and the fallbacks in their order. A fallback is a provider's name, or
// "provider/model" where the model has another name there.
func (m *models) targets(name, provider string, fallbacks []string) ([]native.Target, error) {
	first, err := m.target(name, provider)
	if err != nil {
		return nil, err
	}
	out := []native.Target{first}
	for _, f := range fallbacks {
		fname, fprovider := name, f
		if p, rest, ok := strings.Cut(f, "/"); ok && slices.Contains(m.names, p) {
			fname, fprovider = rest, p
		}
		t, err := m.target(fname, fprovider)
		if err != nil {
			return nil, fmt.Errorf("fallback provider %s: %w", f, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func (m *models) target(name, provider string) (native.Target, error) {
	r, err := m.providers.Resolve(name, provider)
	if err != nil {
		return native.Target{}, err
	}
	t := native.Target{Model: r.Model, Provider: r.Provider, ModelID: r.ModelID}
	if m.priced {
		info, _ := m.catalog.Lookup(r.Provider, r.ModelID)
		t.MaxOutputTokens, t.ContextWindow = int(info.MaxOutput), info.ContextWindow
		t.PricingVersion = m.catalog.PricingVersion()
		if info.Priced { // without a Cost a run with max_cost_usd is refused
			t.Cost = func(u ai.Usage) (float64, event.CostStatus) { return model.Cost(info, u) }
		}
	}
	return t, nil
}

// check reports whether a request's model can be served.
func (m *models) check(name, provider string, fallbacks []string) error {
	_, err := m.targets(name, provider, fallbacks)
	return err
}
