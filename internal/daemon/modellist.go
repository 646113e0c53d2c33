package daemon

import (
	"net/url"
	"slices"
	"sync"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/model"
)

// providerKeys are the keys that were given to providers while the node runs. They stand before those of the settings
// and are kept in memory only.
type providerKeys struct {
	mu    sync.RWMutex
	given map[string]model.Secret
	set   map[string]model.Secret // of the settings
}

// of is a provider's key as it is at the time of each call.
func (k *providerKeys) of(provider string, settings model.Secret) model.Secret {
	if k.set == nil {
		k.set, k.given = map[string]model.Secret{}, map[string]model.Secret{}
	}
	k.set[provider] = settings
	return model.SecretFunc(func() string {
		k.mu.RLock()
		defer k.mu.RUnlock()
		if s, ok := k.given[provider]; ok {
			return s.Reveal()
		}
		return settings.Reveal()
	})
}

// from tells where a provider's key comes from; empty where there is none.
func (k *providerKeys) from(provider string) string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if _, ok := k.given[provider]; ok {
		return "api"
	}
	if k.set[provider].Reveal() != "" {
		return "settings"
	}
	return ""
}

// maxKeyBytes bounds a provider's key.
const maxKeyBytes = 16 << 10

// SetKey implements httpapi.Models.
func (m *models) SetKey(provider, key string) error {
	if err := m.takesKey(provider); err != nil {
		return err
	}
	if len(key) > maxKeyBytes || slices.ContainsFunc([]byte(key), func(c byte) bool { return c <= ' ' || c >= 0x7f }) {
		return api.NewProblem(api.CodeInvalidRequest, "key: must be at most %d printable ASCII characters without blanks", maxKeyBytes).At("key")
	}
	m.keys.mu.Lock()
	defer m.keys.mu.Unlock()
	m.keys.given[provider] = model.NewSecret(key)
	return nil
}

// RemoveKey implements httpapi.Models.
func (m *models) RemoveKey(provider string) error {
	if err := m.takesKey(provider); err != nil {
		return err
	}
	m.keys.mu.Lock()
	defer m.keys.mu.Unlock()
	delete(m.keys.given, provider)
	return nil
}

func (m *models) takesKey(provider string) error {
	if !slices.Contains(m.names, provider) {
		return api.NewProblem(api.CodeNotFound, "provider %q is not configured", provider)
	}
	if _, ok := m.keys.set[provider]; !ok {
		return api.NewProblem(api.CodeInvalidRequest, "provider %q takes no key", provider)
	}
	return nil
}

// ids lists the models of a provider that are known by name.
func (m *models) ids(p model.ProviderConfig) []model.Info {
	var list []model.Info
	switch {
	case len(p.Models) > 0:
		for _, id := range p.Models {
			info := model.Info{Provider: p.Name, ID: id}
			if m.priced {
				if known, ok := m.catalog.Lookup(p.Name, id); ok {
					info = known
				}
			}
			list = append(list, info)
		}
	case p.Type == model.TypeFake:
		list = []model.Info{{Provider: p.Name, ID: "scripted", Name: "the scripted model; it answers to every name"}}
	default:
		list = m.catalog.Models(p.Name)
	}
	if p.Name == m.defaultProvider && m.defaultModel != "" && !slices.ContainsFunc(list, func(i model.Info) bool { return i.ID == m.defaultModel }) {
		list = append(list, model.Info{Provider: p.Name, ID: m.defaultModel})
	}
	return list
}

// Models implements httpapi.Models.
func (m *models) Models() []api.Model {
	var out []api.Model
	for _, p := range m.providers.List() {
		for _, i := range m.ids(p) {
			out = append(out, api.Model{
				ID: i.ID, Provider: p.Name, Name: i.Name, Default: p.Name == m.defaultProvider && i.ID == m.defaultModel,
				ContextWindow: i.ContextWindow, MaxOutputTokens: i.MaxOutput, Priced: i.Priced,
				InputCostPerMTok: i.CostPer1MIn, OutputCostPerMTok: i.CostPer1MOut,
				CachedInputCostPerMTok: i.CostCacheRead, CacheWriteCostPerMTok: i.CostCacheWrite,
				ReasoningEfforts: i.Efforts, Images: i.Images,
			})
		}
	}
	return out
}

// Providers implements httpapi.Models.
func (m *models) Providers() []api.Provider {
	list := m.providers.List()
	out := make([]api.Provider, 0, len(list))
	for _, p := range list {
		v := api.Provider{
			Name: p.Name, Type: p.Type, BaseURL: p.BaseURL, KeyFrom: m.keys.from(p.Name), ModelCount: len(m.ids(p)),
			Default: p.Name == m.defaultProvider,
		}
		for _, k := range config.EnvironmentProviders() {
			if k[0] == p.Name {
				v.APIKeyEnv = k[1]
			}
		}
		v.Configured = v.KeyFrom != "" || p.Type == model.TypeFake || localAddress(p.BaseURL)
		out = append(out, v)
	}
	return out
}

func localAddress(base string) bool {
	u, err := url.Parse(base)
	return err == nil && base != "" && config.Loopback(u.Hostname()+":0")
}

// window is how many tokens a model takes; 0 where that is not known.
func (m *models) window(name, provider string) int64 {
	t, err := m.target(name, provider)
	if err != nil {
		return 0
	}
	return t.ContextWindow
}
