package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"charm.land/catwalk/pkg/catwalk"
	"charm.land/catwalk/pkg/embedded"
)

// catalogVersion is the embedded catalogue's module version; a test compares it with go.mod.
const catalogVersion = "catwalk-v0.52.1"

// Info is what the catalogue knows of a model. Zero limits are unknown. Prices are US dollars per million tokens and
// mean something only when Priced is set.
type Info struct {
	Provider       string
	ID             string
	Name           string
	ContextWindow  int64
	MaxOutput      int64
	Priced         bool
	CostPer1MIn    float64
	CostPer1MOut   float64
	CostCacheRead  float64 // per million input tokens read from the cache
	CostCacheWrite float64 // per million input tokens written to the cache
	CanReason      bool
	Efforts        []string
	DefaultEffort  string
	Images         bool
}

// ProviderInfo is what the catalogue knows of a provider. BaseURL is empty where the catalogue holds only a variable.
type ProviderInfo struct {
	ID, Name, Type, BaseURL string
	// KeyEnv is the customary environment variable of the key, without the dollar sign.
	KeyEnv string
}

// Catalog answers from the embedded catalogue and the user's file over it. The embedded data is parsed at the first
// question, not before. It is safe for concurrent use.
type Catalog struct {
	version  string
	override overrideFile
	load     func() *catalogData
}

type catalogData struct {
	providers []ProviderInfo
	byID      map[string]int
	models    map[string]map[string]Info
	order     map[string][]string
}

// overrideFile is the user's file. Absent members leave what the catalogue says; a price that is present counts, also
// when it is 0.
type overrideFile struct {
	Version   string             `json:"version"`
	Providers []overrideProvider `json:"providers"`
}

type overrideProvider struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	APIEndpoint string          `json:"api_endpoint"`
	Models      []overrideModel `json:"models"`
}

type overrideModel struct {
	ID             string   `json:"id"`
	Name           string   `json:"name"`
	ContextWindow  *int64   `json:"context_window"`
	MaxOutput      *int64   `json:"max_output_tokens"`
	CostIn         *float64 `json:"cost_per_1m_in"`
	CostOut        *float64 `json:"cost_per_1m_out"`
	CostCacheRead  *float64 `json:"cost_per_1m_cache_read"`
	CostCacheWrite *float64 `json:"cost_per_1m_cache_write"`
	CanReason      *bool    `json:"can_reason"`
	Efforts        []string `json:"reasoning_levels"`
	Images         *bool    `json:"supports_images"`
}

// NewCatalog returns the catalogue. override is the content of the user's file, {"version", "providers": [{"id",
// "models": [{"id", "context_window", "max_output_tokens", "cost_per_1m_in", …}]}]}; empty means no file. Unknown
// members and negative numbers are errors, so that a misspelt price is not silently ignored.
func NewCatalog(override []byte) (*Catalog, error) {
	c := &Catalog{version: catalogVersion}
	if len(bytes.TrimSpace(override)) > 0 {
		dec := json.NewDecoder(bytes.NewReader(override))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&c.override); err != nil {
			return nil, fmt.Errorf("model catalogue file: %w", err)
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return nil, errors.New("model catalogue file: more than one JSON value")
		}
		if err := c.override.check(); err != nil {
			return nil, fmt.Errorf("model catalogue file: %w", err)
		}
		label := c.override.Version
		if label == "" {
			sum := sha256.Sum256(override)
			label = hex.EncodeToString(sum[:4])
		}
		c.version += "+" + label
	}
	c.load = sync.OnceValue(func() *catalogData {
		d := readEmbedded()
		d.apply(c.override)
		return d
	})
	return c, nil
}

func (f overrideFile) check() error {
	for i, p := range f.Providers {
		if p.ID == "" {
			return fmt.Errorf("providers[%d].id is empty", i)
		}
		for j, m := range p.Models {
			at := fmt.Sprintf("providers[%d].models[%d]", i, j)
			if m.ID == "" {
				return fmt.Errorf("%s.id is empty", at)
			}
			for name, v := range map[string]*float64{
				"cost_per_1m_in": m.CostIn, "cost_per_1m_out": m.CostOut,
				"cost_per_1m_cache_read": m.CostCacheRead, "cost_per_1m_cache_write": m.CostCacheWrite,
			} {
				if v != nil && *v < 0 {
					return fmt.Errorf("%s.%s is negative", at, name)
				}
			}
			for name, v := range map[string]*int64{"context_window": m.ContextWindow, "max_output_tokens": m.MaxOutput} {
				if v != nil && *v < 0 {
					return fmt.Errorf("%s.%s is negative", at, name)
				}
			}
		}
	}
	return nil
}

// PricingVersion names the state of the prices: the catalogue's version and that of the user's file.
func (c *Catalog) PricingVersion() string { return c.version }

// Lookup finds a model of a provider by their exact ids. An unknown pair gives false and an Info with the ids alone.
func (c *Catalog) Lookup(provider, model string) (Info, bool) {
	if i, ok := c.load().models[provider][model]; ok {
		return i, true
	}
	return Info{Provider: provider, ID: model}, false
}

// Provider finds a provider by its id.
func (c *Catalog) Provider(id string) (ProviderInfo, bool) {
	d := c.load()
	i, ok := d.byID[id]
	if !ok {
		return ProviderInfo{}, false
	}
	return d.providers[i], true
}

// Providers lists all providers in the catalogue's order, the user's own last.
func (c *Catalog) Providers() []ProviderInfo {
	return append([]ProviderInfo(nil), c.load().providers...)
}

// Models lists a provider's models in the catalogue's order, the user's own last.
func (c *Catalog) Models(provider string) []Info {
	d := c.load()
	list := make([]Info, 0, len(d.order[provider]))
	for _, id := range d.order[provider] {
		list = append(list, d.models[provider][id])
	}
	return list
}

func readEmbedded() *catalogData {
	d := &catalogData{byID: map[string]int{}, models: map[string]map[string]Info{}, order: map[string][]string{}}
	for _, p := range embedded.GetAll() {
		id := string(p.ID)
		d.addProvider(ProviderInfo{
			ID: id, Name: p.Name, Type: string(p.Type),
			BaseURL: literal(p.APIEndpoint), KeyEnv: strings.TrimPrefix(p.APIKey, "$"),
		})
		for _, m := range p.Models {
			d.addModel(fromCatwalk(id, m))
		}
	}
	return d
}

// literal drops endpoints that are only the name of a variable: nothing here reads the environment.
func literal(endpoint string) string {
	if strings.Contains(endpoint, "$") {
		return ""
	}
	return endpoint
}

func (d *catalogData) addProvider(p ProviderInfo) {
	if i, ok := d.byID[p.ID]; ok {
		d.providers[i] = p
		return
	}
	d.byID[p.ID] = len(d.providers)
	d.providers = append(d.providers, p)
	if d.models[p.ID] == nil {
		d.models[p.ID] = map[string]Info{}
	}
}

func (d *catalogData) addModel(i Info) {
	if _, ok := d.models[i.Provider][i.ID]; !ok {
		d.order[i.Provider] = append(d.order[i.Provider], i.ID)
	}
	d.models[i.Provider][i.ID] = i
}

func fromCatwalk(provider string, m catwalk.Model) Info {
	i := Info{
		Provider: provider, ID: m.ID, Name: m.Name,
		ContextWindow: m.ContextWindow, MaxOutput: m.DefaultMaxTokens,
		CostPer1MIn: m.CostPer1MIn, CostPer1MOut: m.CostPer1MOut,
		CanReason: m.CanReason, Efforts: m.ReasoningLevels, DefaultEffort: m.DefaultReasoningEffort,
		Images: m.SupportsImages,
	}
	// The data has no way to say "free": two zeros are a price that nobody entered.
	i.Priced = i.CostPer1MIn > 0 || i.CostPer1MOut > 0
	i.CostCacheRead, i.CostCacheWrite = cachePrices(m.CostPer1MIn, m.CostPer1MInCached, m.CostPer1MOutCached)
	return i
}

// cachePrices reads the two cache prices, which the data does not use alike for all providers: reading is the
// cheapest price that is given and below the input price, writing is the one above it. What is not given costs as
// much as plain input, so that cached tokens are never counted as free.
func cachePrices(in, first, second float64) (read, write float64) {
	read, write = in, in
	for _, p := range []float64{first, second} {
		if p > 0 && p < read {
			read = p
		}
	}
	if first > in {
		write = first
	}
	return read, write
}

func (d *catalogData) apply(f overrideFile) {
	for _, p := range f.Providers {
		known := ProviderInfo{ID: p.ID, Name: p.ID}
		if i, ok := d.byID[p.ID]; ok {
			known = d.providers[i]
		}
		set(&known.Name, p.Name)
		set(&known.Type, p.Type)
		set(&known.BaseURL, p.APIEndpoint)
		d.addProvider(known)
		for _, m := range p.Models {
			i, ok := d.models[p.ID][m.ID]
			if !ok {
				i = Info{Provider: p.ID, ID: m.ID, Name: m.ID}
			}
			d.addModel(m.over(i))
		}
	}
}

func set[T comparable](to *T, v T) {
	var zero T
	if v != zero {
		*to = v
	}
}

func setIf[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func (m overrideModel) over(i Info) Info {
	set(&i.Name, m.Name)
	setIf(&i.ContextWindow, m.ContextWindow)
	setIf(&i.MaxOutput, m.MaxOutput)
	setIf(&i.CanReason, m.CanReason)
	setIf(&i.Images, m.Images)
	if m.Efforts != nil {
		i.Efforts = m.Efforts
	}
	if m.CostIn != nil {
		i.CostPer1MIn = *m.CostIn
		// The cache prices belonged to the old price of input.
		i.CostCacheRead, i.CostCacheWrite = *m.CostIn, *m.CostIn
	}
	setIf(&i.CostPer1MOut, m.CostOut)
	setIf(&i.CostCacheRead, m.CostCacheRead)
	setIf(&i.CostCacheWrite, m.CostCacheWrite)
	if m.CostIn != nil || m.CostOut != nil {
		i.Priced = true
	}
	return i
}
