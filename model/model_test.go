package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
)

const key = "sk-very-secret-value"

func TestASecretPrintsNowhere(t *testing.T) {
	s := NewSecret(key)
	type config struct {
		Name   string
		Key    Secret `json:"key"`
		hidden Secret
	}
	c := config{"n", s, s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s"} {
		for _, v := range []any{s, &s, c, &c, []Secret{s}, map[string]Secret{"k": s}, struct{ x any }{s}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("m", "secret", s, "config", c, "pointer", &c)
	}
	for _, spelling := range []string{key, fmt.Sprintf("%x", key), fmt.Sprintf("%X", key)} {
		if strings.Contains(out.String(), spelling) {
			t.Errorf("the output holds the secret:\n%s", out.String())
		}
	}
	if s.Reveal() != key || c.hidden.Reveal() != key {
		t.Error("Reveal does not give the value")
	}
}

func TestASecretIsReadFromAFileButNotFromAPrintedOne(t *testing.T) {
	var c struct{ Key Secret }
	if err := json.Unmarshal([]byte(`{"Key":"abc"}`), &c); err != nil || c.Key.Reveal() != "abc" {
		t.Errorf("%q, %v", c.Key.Reveal(), err)
	}
	if err := json.Unmarshal([]byte(`{"Key":"[redacted]"}`), &c); err == nil {
		t.Error("the placeholder was taken for a key")
	}
	if !NewSecret("").IsZero() || NewSecret("").Reveal() != "" || NewSecret("").String() != "" {
		t.Error("the empty secret is not zero")
	}
	n := 0
	rotating := SecretFunc(func() string { n++; return fmt.Sprint(n) })
	if rotating.IsZero() || n != 0 || rotating.Reveal() != "1" || rotating.Reveal() != "2" {
		t.Errorf("a secret's source was asked %d times", n)
	}
}

func TestRetryDecides(t *testing.T) {
	fixed := Retry{Jitter: func() float64 { return 0.5 }}
	for name, c := range map[string]struct {
		retry   Retry
		err     error
		attempt int
		again   bool
		wait    time.Duration
	}{
		"first":              {fixed, &Error{Kind: ErrServer}, 1, true, 375 * time.Millisecond},
		"second":             {fixed, &Error{Kind: ErrOverloaded}, 2, true, 750 * time.Millisecond},
		"fourth":             {fixed, &Error{Kind: ErrIncomplete}, 4, true, 3 * time.Second},
		"fifth is the last":  {fixed, &Error{Kind: ErrIdle}, 5, false, 0},
		"never beyond five":  {Retry{Attempts: 50}, &Error{Kind: ErrServer}, 5, false, 0},
		"fewer when asked":   {Retry{Attempts: 2}, &Error{Kind: ErrServer}, 2, false, 0},
		"bounded":            {Retry{Jitter: fixed.Jitter, Base: time.Minute, Max: 2 * time.Second}, &Error{Kind: ErrConnection}, 1, true, 1500 * time.Millisecond},
		"retry-after":        {fixed, &Error{Kind: ErrRateLimit, RetryAfter: 7 * time.Second}, 1, true, 7 * time.Second},
		"retry-after, short": {fixed, &Error{Kind: ErrRateLimit, RetryAfter: time.Millisecond}, 1, true, 375 * time.Millisecond},
		"retry-after, long":  {fixed, &Error{Kind: ErrRateLimit, RetryAfter: time.Hour}, 1, false, 0},
		"auth":               {fixed, &Error{Kind: ErrAuth}, 1, false, 0},
		"context length":     {fixed, &Error{Kind: ErrContextLength}, 1, false, 0},
		"invalid":            {fixed, &Error{Kind: ErrInvalidRequest}, 1, false, 0},
		"protocol":           {fixed, &Error{Kind: ErrProtocol}, 1, false, 0},
		"wrapped":            {fixed, fmt.Errorf("step 3: %w", &Error{Kind: ErrServer}), 1, true, 375 * time.Millisecond},
		"cancelled":          {fixed, context.Canceled, 1, false, 0},
		"no error":           {fixed, nil, 1, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := c.retry.Next(c.err, c.attempt)
			if v.Again != c.again || v.Wait != c.wait || (v.Reason == "") != v.Again {
				t.Errorf("got %+v, want again %v after %s", v, c.again, c.wait)
			}
		})
	}
}

func TestJitterStaysBetweenHalfAndWhole(t *testing.T) {
	for range 1000 {
		if w := (Retry{}).Next(&Error{Kind: ErrServer}, 3).Wait; w < time.Second || w > 2*time.Second {
			t.Fatalf("wait %s", w)
		}
	}
}

func TestSleepEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		if err := Sleep(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		if err := Sleep(ctx, 0); err == nil {
			t.Error("no wait under an ended context gave no error")
		}
	})
}

func TestKindsOfStatus(t *testing.T) {
	for status, want := range map[int]ErrorKind{
		400: ErrInvalidRequest, 404: ErrInvalidRequest, 413: ErrInvalidRequest, 422: ErrInvalidRequest, 401: ErrAuth, 403: ErrAuth,
		408: ErrServer, 409: ErrServer, 425: ErrServer, 429: ErrRateLimit, 500: ErrServer, 502: ErrServer, 503: ErrOverloaded,
		529: ErrOverloaded, 302: ErrProtocol, 204: ErrProtocol,
	} {
		if got := KindOfStatus(status); got != want {
			t.Errorf("%d: %s, want %s", status, got, want)
		}
	}
}

func newCatalog(t testing.TB, override string) *Catalog {
	t.Helper()
	c, err := NewCatalog([]byte(override))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheCatalogueKnowsModelsAndPrices(t *testing.T) {
	c := newCatalog(t, "")
	i, ok := c.Lookup("anthropic", "claude-opus-4-5-20251101")
	if !ok || !i.Priced || i.CostPer1MIn != 5 || i.CostPer1MOut != 25 || i.CostCacheRead != 0.5 || i.CostCacheWrite != 6.25 || i.ContextWindow != 200000 {
		t.Errorf("%+v, %v", i, ok)
	}
	if i, ok := c.Lookup("anthropic", "no-such-model"); ok || i.Priced || i.ID != "no-such-model" {
		t.Errorf("%+v, %v", i, ok)
	}
	if p, ok := c.Provider("groq"); !ok || p.Type != TypeOpenAICompat || p.BaseURL == "" || p.KeyEnv != "GROQ_API_KEY" {
		t.Errorf("%+v, %v", p, ok)
	}
	if p, _ := c.Provider("anthropic"); p.BaseURL != "" {
		t.Errorf("a variable's name became an address: %q", p.BaseURL)
	}
	models := 0
	for _, p := range c.Providers() {
		for _, i := range c.Models(p.ID) {
			models++
			if i.Priced && (i.CostCacheRead > i.CostPer1MIn || i.CostCacheWrite < i.CostPer1MIn || (i.CostPer1MIn > 0 && i.CostCacheRead == 0)) {
				t.Errorf("%s/%s: in %g, cache read %g, cache write %g", i.Provider, i.ID, i.CostPer1MIn, i.CostCacheRead, i.CostCacheWrite)
			}
		}
	}
	if models < 1000 {
		t.Errorf("%d models", models)
	}
}

func TestThePricingVersionIsTheOneInUse(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	c := newCatalog(t, "")
	if want := strings.Replace(c.PricingVersion(), "catwalk-", "charm.land/catwalk ", 1); !strings.Contains(string(mod), want) {
		t.Errorf("go.mod does not require %q", want)
	}
	a, b := newCatalog(t, `{"providers":[]}`).PricingVersion(), newCatalog(t, `{"providers":[] }`).PricingVersion()
	if a == b || a == c.PricingVersion() {
		t.Errorf("files %q and %q are not told apart", a, b)
	}
	if v := newCatalog(t, `{"version":"mine-3"}`).PricingVersion(); !strings.HasSuffix(v, "+mine-3") {
		t.Errorf("version %q", v)
	}
}

func TestTheUsersFileOverridesAndAdds(t *testing.T) {
	c := newCatalog(t, `{"providers":[
		{"id":"anthropic","models":[
			{"id":"claude-opus-4-5-20251101","cost_per_1m_in":1,"cost_per_1m_cache_read":0.25},
			{"id":"claude-next","context_window":7,"cost_per_1m_in":2,"cost_per_1m_out":3}]},
		{"id":"local","type":"openai-compat","api_endpoint":"http://127.0.0.1:8080/v1","models":[
			{"id":"free","cost_per_1m_in":0,"cost_per_1m_out":0},{"id":"unpriced","max_output_tokens":5}]}]}`)
	i, _ := c.Lookup("anthropic", "claude-opus-4-5-20251101")
	if i.CostPer1MIn != 1 || i.CostCacheRead != 0.25 || i.CostCacheWrite != 1 || i.CostPer1MOut != 25 || i.ContextWindow != 200000 {
		t.Errorf("changed: %+v", i)
	}
	if i, ok := c.Lookup("anthropic", "claude-next"); !ok || !i.Priced || i.ContextWindow != 7 || i.CostCacheRead != 2 {
		t.Errorf("added: %+v", i)
	}
	if i, _ := c.Lookup("local", "free"); !i.Priced {
		t.Errorf("a price of 0 that is written is a price: %+v", i)
	}
	if i, ok := c.Lookup("local", "unpriced"); !ok || i.Priced || i.MaxOutput != 5 {
		t.Errorf("unpriced: %+v", i)
	}
	if p, ok := c.Provider("local"); !ok || p.BaseURL != "http://127.0.0.1:8080/v1" {
		t.Errorf("provider: %+v", p)
	}
}

func TestAUsersFileWithAMistakeIsRefused(t *testing.T) {
	for want, file := range map[string]string{
		"cost_per_1m":                        `{"providers":[{"id":"a","models":[{"id":"m","cost_per_1m":1}]}]}`,
		"providers[0].id":                    `{"providers":[{}]}`,
		"providers[0].models[1].id":          `{"providers":[{"id":"a","models":[{"id":"m"},{}]}]}`,
		"models[0].cost_per_1m_out is neg":   `{"providers":[{"id":"a","models":[{"id":"m","cost_per_1m_out":-1}]}]}`,
		"models[0].context_window is negati": `{"providers":[{"id":"a","models":[{"id":"m","context_window":-1}]}]}`,
		"more than one":                      `{} {}`,
		"unexpected EOF":                     `{`,
	} {
		if _, err := NewCatalog([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that names %q", file, err, want)
		}
	}
}

func FuzzCatalogFile(f *testing.F) {
	f.Add([]byte(`{"version":"1","providers":[{"id":"a","models":[{"id":"m","cost_per_1m_in":1}]}]}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := NewCatalog(file)
		if err == nil && !strings.HasPrefix(c.PricingVersion(), catalogVersion) {
			t.Errorf("version %q", c.PricingVersion())
		}
	})
}

func usage(total, read, write, out *int64) ai.Usage {
	return ai.Usage{
		InputTokens:  ai.InputTokens{Total: total, CacheRead: read, CacheWrite: write},
		OutputTokens: ai.OutputTokens{Total: out},
	}
}

func TestCost(t *testing.T) {
	n := ai.Tokens
	priced := Info{Priced: true, CostPer1MIn: 10, CostPer1MOut: 50, CostCacheRead: 1, CostCacheWrite: 12.5}
	for name, c := range map[string]struct {
		info   Info
		usage  ai.Usage
		usd    float64
		status event.CostStatus
	}{
		"plain":                        {priced, usage(n(100), nil, nil, n(10)), (100*10 + 10*50) * 1e-6, event.CostAvailable},
		"cached at the cached price":   {priced, usage(n(2613), n(2560), nil, n(7)), (53*10 + 2560*1 + 7*50) * 1e-6, event.CostAvailable},
		"cache writes":                 {priced, usage(n(100), n(50), n(40), n(0)), (10*10 + 50*1 + 40*12.5) * 1e-6, event.CostAvailable},
		"more cached than there is":    {priced, usage(n(10), n(50), nil, n(0)), 50e-6, event.CostAvailable},
		"unpriced is said":             {Info{}, usage(n(100), nil, nil, n(10)), 0, event.CostUnpricedModel},
		"free is a price":              {Info{Priced: true}, usage(n(100), nil, nil, n(10)), 0, event.CostAvailable},
		"nothing reported":             {priced, ai.Usage{}, 0, event.CostProviderUnreported},
		"no input reported":            {priced, usage(nil, nil, nil, n(10)), 500e-6, event.CostProviderUnreported},
		"no output reported":           {priced, usage(n(100), nil, nil, nil), 1000e-6, event.CostProviderUnreported},
		"the split given by the wire":  {priced, ai.Usage{InputTokens: ai.InputTokens{Total: n(100), NoCache: n(60), CacheRead: n(40)}, OutputTokens: ai.OutputTokens{Total: n(0)}}, 640e-6, event.CostAvailable},
		"negative counts cost nothing": {priced, usage(n(-5), nil, nil, n(-5)), 0, event.CostAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			usd, status := Cost(c.info, c.usage)
			if math.Abs(usd-c.usd) > 1e-12 || status != c.status {
				t.Errorf("%g %s, want %g %s", usd, status, c.usd, c.status)
			}
		})
	}
}

// named is a Model that knows which provider made it.
type named string

func (named) Stream(context.Context, Request) iter.Seq2[Part, error] {
	return func(func(Part, error) bool) {}
}

func providers(t testing.TB, cfg ProvidersConfig) *Providers {
	t.Helper()
	build := func(c ProviderConfig) (Model, error) { return named(c.Name + "@" + c.BaseURL), nil }
	cfg.Types = map[string]Factory{TypeOpenAICompat: build, TypeFake: build}
	p, err := NewProviders(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestResolve(t *testing.T) {
	compat := func(name string, models ...string) ProviderConfig {
		return ProviderConfig{Name: name, Type: TypeOpenAICompat, BaseURL: "http://" + name, Models: models}
	}
	one := ProvidersConfig{Providers: []ProviderConfig{compat("a")}}
	two := ProvidersConfig{Providers: []ProviderConfig{compat("a", "m1", "m2", "b/x"), compat("b")}}
	std := two
	std.DefaultProvider, std.DefaultModel = "b", "m9"
	fake := ProvidersConfig{Providers: []ProviderConfig{{Name: "fake", Type: TypeFake}}}
	cat := ProvidersConfig{Providers: []ProviderConfig{{Name: "groq"}, {Name: "deepseek"}, {Name: "anthropic", BaseURL: "http://x"}}, Catalog: newCatalog(t, "")}
	var deepseek string
	for _, i := range cat.Catalog.Models("deepseek") {
		deepseek = i.ID
	}
	for name, c := range map[string]struct {
		cfg                   ProvidersConfig
		model, provider, want string
		err                   error
	}{
		"the only provider":          {one, "any", "", "a any", nil},
		"listed":                     {two, "m2", "", "a m2", nil},
		"by name":                    {two, "any", "b", "b any", nil},
		"by name, not listed":        {two, "m3", "a", "", ErrUnknownModel},
		"by prefix":                  {two, "b/any", "", "b any", nil},
		"a listed name with a slash": {two, "b/x", "", "a b/x", nil},
		"prefix and name":            {two, "b/any", "b", "b any", nil},
		"nobody's":                   {two, "m3", "", "", ErrUnknownModel},
		"unknown provider":           {two, "m1", "z", "", ErrUnknownProvider},
		"no model, first listed":     {two, "", "a", "a m1", nil},
		"no model at all":            {two, "", "", "", ErrUnknownModel},
		"default model":              {std, "", "", "b m9", nil},
		"default provider":           {std, "m3", "", "b m3", nil},
		"no provider":                {ProvidersConfig{}, "m", "", "", ErrUnknownProvider},
		"fake serves every name":     {fake, "gpt-9", "", "fake gpt-9", nil},
		"fake needs none":            {fake, "", "", "fake scripted", nil},
		"by the catalogue":           {cat, deepseek, "", "deepseek " + deepseek, nil},
		"not built":                  {cat, "claude", "anthropic", "", ErrTypeNotBuilt},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := providers(t, c.cfg).Resolve(c.model, c.provider)
			if c.err != nil {
				if !errors.Is(err, c.err) {
					t.Errorf("error %v, want %v", err, c.err)
				}
				return
			}
			if got := r.Provider + " " + r.ModelID; err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if m := string(r.Model.(named)); !strings.HasPrefix(m, r.Provider+"@") {
				t.Errorf("the model is %s's", m)
			}
		})
	}
}

func TestTheCatalogueFillsTypeAndAddress(t *testing.T) {
	p := providers(t, ProvidersConfig{Providers: []ProviderConfig{{Name: "groq"}, {Name: "unheard"}}, Catalog: newCatalog(t, "")})
	r, err := p.Resolve("x", "groq")
	if err != nil || r.Model != named("groq@https://api.groq.com/openai/v1") {
		t.Errorf("%v, %v", r.Model, err)
	}
	if _, err := p.Resolve("x", "unheard"); err == nil || !strings.Contains(err.Error(), "base_url") {
		t.Errorf("error %v, want one that says what to set", err)
	}
}

func TestATypeThatIsNotBuiltIsNamed(t *testing.T) {
	p := providers(t, ProvidersConfig{Providers: []ProviderConfig{{Name: "claude", Type: TypeAnthropic}}})
	_, err := p.Resolve("m", "")
	if !errors.Is(err, ErrTypeNotBuilt) || !strings.Contains(err.Error(), `"anthropic"`) || !strings.Contains(err.Error(), `"claude"`) {
		t.Errorf("error %v", err)
	}
}

func TestProvidersThatCannotWorkAreRefused(t *testing.T) {
	for want, cfg := range map[string]ProvidersConfig{
		"providers[0].name is empty": {Providers: []ProviderConfig{{}}},
		"used twice":                 {Providers: []ProviderConfig{{Name: "a"}, {Name: "a"}}},
		"slash":                      {Providers: []ProviderConfig{{Name: "a/b"}}},
		`type "openai-compact" is`:   {Providers: []ProviderConfig{{Name: "a", Type: "openai-compact"}}},
		`default provider "z"`:       {Providers: []ProviderConfig{{Name: "a"}}, DefaultProvider: "z"},
	} {
		if _, err := NewProviders(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

func TestListingProvidersShowsNoKey(t *testing.T) {
	p := providers(t, ProvidersConfig{Providers: []ProviderConfig{{Name: "a", Type: TypeFake, APIKey: NewSecret(key)}}})
	b, err := json.Marshal(p.List())
	if err != nil || strings.Contains(string(b)+fmt.Sprintf("%+v", p), key) {
		t.Errorf("%s, %v", b, err)
	}
}

func BenchmarkCatalogFirstLookup(b *testing.B) {
	for b.Loop() {
		newCatalog(b, "").Lookup("openai", "gpt-5.5")
	}
}
