package config

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/harness-go/harness/model"
)

// providerEntry is one entry of a file's list of providers.
type providerEntry struct {
	config  model.ProviderConfig
	keyEnv  string
	keyFile string
	proxy   string
	headers map[string]header
	source  string
}

var providerKeys = []string{
	"name", "type", "base_url", "api_key_env", "api_key_file", "models", "max_tokens_field", "prompt_cache_key", "thinking", "idle_timeout", "proxy", "headers",
}

func (w *walker) providers(n ast.Node) error {
	if err := w.plain(n); err != nil {
		return err
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return w.at(n, "providers", "must be a list")
	}
	for i, item := range seq.Values {
		if err := w.plain(item); err != nil {
			return err
		}
		values, ok := pairs(item)
		if !ok || len(values) == 0 {
			return w.at(item, fmt.Sprintf("providers[%d]", i), "must be a mapping with a name")
		}
		p := providerEntry{source: fmt.Sprintf("%s:%d", w.name, values[0].Key.GetToken().Position.Line)}
		seen := map[string]bool{}
		for _, v := range values {
			name := v.Key.GetToken().Value
			key := fmt.Sprintf("providers[%d].%s", i, name)
			if seen[name] {
				return w.at(v.Key, key, "stands twice")
			}
			seen[name] = true
			if name == "headers" {
				if err := w.headers(&p, key, v.Value); err != nil {
					return err
				}
				continue
			}
			value, err := w.value(v.Value)
			if err != nil {
				return err
			}
			if err := p.set(name, value, filepath.Dir(w.name)); err != nil {
				return w.at(v.Key, key, "%s", err)
			}
		}
		if p.config.Name == "" {
			return w.at(values[0].Key, fmt.Sprintf("providers[%d].name", i), "is missing")
		}
		if slices.ContainsFunc(w.doc.providers, func(o providerEntry) bool { return o.config.Name == p.config.Name }) {
			return w.at(values[0].Key, fmt.Sprintf("providers[%d].name", i), "%s is used twice", shown(p.config.Name))
		}
		w.doc.providers = append(w.doc.providers, p)
	}
	return nil
}

func (p *providerEntry) set(name string, value any, dir string) error {
	str := setting{check: checkName}
	switch name {
	case "api_key":
		return fmt.Errorf("keys do not belong in this file: name a variable with api_key_env or a file with api_key_file")
	case "models":
		v, err := setting{kind: list}.accept(value)
		if err != nil {
			return err
		}
		p.config.Models = v.([]string)
		return nil
	case "prompt_cache_key":
		v, err := setting{kind: flag}.accept(value)
		if err != nil {
			return err
		}
		p.config.PromptCacheKey = v.(bool)
		return nil
	case "idle_timeout":
		v, err := setting{kind: span}.accept(value)
		if err != nil {
			return err
		}
		p.config.IdleTimeout = v.(time.Duration)
		return nil
	}
	if !slices.Contains(providerKeys, name) {
		return fmt.Errorf("unknown key%s", suggestion(name, providerKeys))
	}
	if name == "api_key_file" || name == "proxy" { // an error must not show a proxy's password
		str.check = nil
	}
	v, err := str.accept(value)
	if err != nil {
		return err
	}
	s := v.(string)
	switch name {
	case "name":
		if s == "" || strings.Contains(s, "/") {
			return fmt.Errorf("must be a name without a slash")
		}
		p.config.Name = s
	case "type":
		p.config.Type = s
	case "base_url":
		if err := checkURL(s); err != nil {
			return err
		}
		p.config.BaseURL = s
	case "api_key_env":
		p.keyEnv = s
	case "api_key_file":
		p.keyFile = absolute(dir, s)
	case "max_tokens_field":
		p.config.MaxTokensField = s
	case "thinking":
		if s != "adaptive" && s != "budget" {
			return fmt.Errorf("must be adaptive or budget")
		}
		p.config.Thinking = s
	case "proxy":
		if s != direct {
			if _, err := parseProxy(s); err != nil {
				return err
			}
		}
		p.proxy = s
	}
	return nil
}

// checkURL does not show the value: a URL can hold a password.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return fmt.Errorf("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("must begin with https:// or http://")
	case u.Host == "":
		return fmt.Errorf("names no host")
	case u.User != nil:
		return fmt.Errorf("must not hold a user or a password; use api_key_env")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("must not hold a query or a fragment")
	}
	return nil
}

// resolve reads the key of an entry. A variable that is not set leaves the provider without a key, which a note tells:
// servers on the own machine need none.
func (p *providerEntry) resolve(env map[string]string) (model.ProviderConfig, string, error) {
	c := p.config
	switch {
	case p.keyEnv != "" && p.keyFile != "":
		return c, "", &Error{Source: p.source, Key: c.Name, Message: "names both api_key_env and api_key_file; keep one"}
	case p.keyEnv != "":
		v := strings.TrimSpace(env[p.keyEnv])
		if v == "" {
			return c, fmt.Sprintf("Provider %s has no key: %s is not set.", c.Name, p.keyEnv), nil
		}
		c.APIKey = model.NewSecret(v)
	case p.keyFile != "":
		data, err := readFile(openPlain(p.keyFile), p.keyFile)
		if err == nil && data == nil {
			err = &Error{Source: p.source, Key: c.Name + ".api_key_file", Message: p.keyFile + " does not exist"}
		}
		if err != nil {
			return c, "", err
		}
		v := strings.TrimSpace(string(data))
		if v == "" || strings.ContainsAny(v, "\r\n") {
			return c, "", &Error{Source: p.keyFile, Message: "must hold one line with the key"}
		}
		c.APIKey = model.NewSecret(v)
		if info, err := os.Stat(p.keyFile); err == nil && info.Mode().Perm()&(fs.FileMode(0o077)) != 0 {
			return c, fmt.Sprintf("The key file of provider %s can be read by others; chmod 600 it.", c.Name), nil
		}
	}
	if !c.APIKey.IsZero() && strings.HasPrefix(c.BaseURL, "http://") {
		if u, err := url.Parse(c.BaseURL); err == nil && !Loopback(u.Hostname()+":0") {
			return c, fmt.Sprintf("The key of provider %s travels unencrypted: its base_url begins with http://.", c.Name), nil
		}
	}
	return c, "", nil
}

// wellKnown are providers that need only a key in the environment. Where URL is empty the catalogue has it, which is
// read when the provider is first used and not at the start.
var wellKnown = []struct{ name, env, url string }{
	{"openai", "OPENAI_API_KEY", "https://api.openai.com/v1"},
	{"anthropic", "ANTHROPIC_API_KEY", "https://api.anthropic.com"},
	{"gemini", "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta"},
	{"openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1"},
	{"cerebras", "CEREBRAS_API_KEY", ""},
	{"deepseek", "DEEPSEEK_API_KEY", ""},
	{"fireworks", "FIREWORKS_API_KEY", ""},
	{"groq", "GROQ_API_KEY", ""},
	{"moonshot", "MOONSHOT_API_KEY", ""},
	{"nebius", "NEBIUS_API_KEY", ""},
	{"venice", "VENICE_API_KEY", ""},
	{"xai", "XAI_API_KEY", ""},
	{"zai", "ZAI_API_KEY", ""},
}

// wires are the providers with a wire of their own. Their address can be changed by a variable too.
var wires = map[string]string{"openai": model.TypeOpenAI, "anthropic": model.TypeAnthropic, "gemini": model.TypeGoogle}

// baseVariable is the variable of a provider's address beside the one of its key.
func baseVariable(keyVariable string) string {
	return strings.TrimSuffix(keyVariable, "_API_KEY") + "_BASE_URL"
}

// fromEnvironment are the providers that the environment's keys give, without those that a file configures.
func fromEnvironment(env map[string]string, have []model.ProviderConfig) ([]model.ProviderConfig, error) {
	var out []model.ProviderConfig
	for _, k := range wellKnown {
		if slices.ContainsFunc(have, func(c model.ProviderConfig) bool { return c.Name == k.name }) {
			continue
		}
		c := model.ProviderConfig{Name: k.name, BaseURL: k.url, APIKey: model.NewSecret(strings.TrimSpace(env[k.env]))}
		switch {
		case c.BaseURL == "":
		case wires[k.name] != "":
			c.Type = wires[k.name]
		default:
			c.Type = model.TypeOpenAICompat
		}
		if base := env[baseVariable(k.env)]; wires[k.name] != "" && base != "" {
			if err := checkURL(base); err != nil {
				return nil, &Error{Source: baseVariable(k.env), Message: err.Error()}
			}
			c.BaseURL = base
			if k.name == "openai" { // servers that stand in for it speak Chat Completions
				c.Type = model.TypeOpenAICompat
			}
		} else if c.APIKey.IsZero() {
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

// EnvironmentProviders lists the providers that a variable alone gives: name and variable.
func EnvironmentProviders() [][2]string {
	out := make([][2]string, 0, len(wellKnown))
	for _, k := range wellKnown {
		out = append(out, [2]string{k.name, k.env})
	}
	return out
}

// ProviderMembers lists the members of an entry of providers.
func ProviderMembers() []string { return slices.Clone(providerKeys) }
