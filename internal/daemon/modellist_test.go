package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model"
)

func TestModelsAndProvidersAreToldWithoutTheirKeys(t *testing.T) {
	c := settings(t)
	c.Provider, c.Model = "work", "b"
	c.Providers = []model.ProviderConfig{
		{Name: "anthropic", Type: model.TypeAnthropic, APIKey: model.NewSecret("sk-of-the-settings")},
		{Name: "work", Type: model.TypeOpenAICompat, BaseURL: "http://127.0.0.1:1/v1", Models: []string{"a"}},
		{Name: "far", Type: model.TypeOpenAICompat, BaseURL: "https://models.example.com/v1"},
		{Name: "fake", Type: model.TypeFake},
	}
	m, err := newModels(c)
	if err != nil {
		t.Fatal(err)
	}
	find := func(id string) api.Model {
		i := slices.IndexFunc(m.Models(), func(v api.Model) bool { return v.ID == id })
		if i < 0 {
			return api.Model{}
		}
		return m.Models()[i]
	}
	if v := find("claude-sonnet-4-5-20250929"); !v.Priced || v.InputCostPerMTok == 0 || v.ContextWindow == 0 || v.Provider != "anthropic" {
		t.Errorf("%+v", v)
	}
	if v := find("a"); v.Priced || v.Default {
		t.Errorf("%+v", v)
	}
	if v := find("b"); !v.Default {
		t.Errorf("%+v", v)
	}
	list := m.Providers()
	if len(list) != 4 || list[0].KeyFrom != "settings" || list[0].APIKeyEnv != "ANTHROPIC_API_KEY" || !list[1].Configured || !list[1].Default || list[2].Configured || !list[3].Configured {
		t.Fatalf("%+v", list)
	}
	if err := m.SetKey("far", "sk-given"); err != nil {
		t.Fatal(err)
	}
	if v := m.Providers()[2]; v.KeyFrom != "api" || !v.Configured {
		t.Errorf("%+v", v)
	}
	if got := m.providers.List()[2].APIKey.Reveal(); got != "sk-given" {
		t.Errorf("the next call would use %q", got)
	}
	if err := m.RemoveKey("far"); err != nil || m.providers.List()[2].APIKey.Reveal() != "" {
		t.Errorf("the key stays: %v", err)
	}
	for provider, key := range map[string]string{"none": "k", "fake": "k", "far": "two words"} {
		if err := m.SetKey(provider, key); err == nil || strings.Contains(err.Error(), "two words") {
			t.Errorf("%s: %v", provider, err)
		}
	}
}

func TestARequestThatNamesAWrongFallbackIsToldSo(t *testing.T) {
	n := open(t, settings(t))
	for field, req := range map[string]engine.RunRequest{
		"provider_name":      {Prompt: "a", ProviderName: "none"},
		"fallback_providers": {Prompt: "a", FallbackProviders: []string{"none"}},
	} {
		_, _, err := n.engine.Submit(t.Context(), engine.Local(), req, "")
		e, ok := errors.AsType[*engine.Error](err)
		if !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
