package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Explanation is what one setting is, and why.
type Explanation struct {
	Key  string `json:"key"`
	Type string `json:"type"`
	Help string `json:"help"`
	// Value is the setting's value; nil where it has none. Of a secret it says "set".
	Value any `json:"value"`
	// Source is default, a file with its line, a variable or a flag. Empty where there is no value.
	Source string `json:"source,omitempty"`
	// Lost are the values of weaker sources, the strongest first, and those that do not count.
	Lost []Candidate `json:"lost,omitempty"`
	// Env and Flag are other places to set it. Workspace: the file of a trusted workspace may set it too.
	Env       string `json:"env,omitempty"`
	Flag      string `json:"flag,omitempty"`
	Workspace bool   `json:"workspace,omitempty"`
	Secret    bool   `json:"secret,omitempty"`
}

// Candidate is a value that is not used.
type Candidate struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
	// Why it does not count, where that is not because a stronger source has one.
	Why string `json:"why,omitempty"`
}

// Explain loads the configuration and tells where each value comes from. Nothing that it returns holds a secret.
func Explain(src Sources) (Config, []Explanation, error) {
	l := newLoader(src)
	c, err := l.load()
	if err != nil {
		return Config{}, nil, err
	}
	var untrusted map[string]entry
	if c.Untrusted != nil {
		if doc, err := c.Untrusted.parse(); err == nil {
			untrusted = doc.entries
		}
	}
	out := make([]Explanation, 0, len(settings))
	for _, s := range settings {
		x := Explanation{Key: s.key, Type: s.typeName(), Help: s.help, Env: s.env, Workspace: s.workspace, Secret: s.secret}
		if s.flag != "" {
			x.Flag = "--" + s.flag
		}
		for _, layer := range slices.Backward(l.layers) {
			e, ok := layer[s.key]
			switch {
			case !ok:
			case x.Source == "":
				x.Value, x.Source = s.shown(e.value), sourceOf(e)
			default:
				x.Lost = append(x.Lost, Candidate{Value: s.shown(e.value), Source: sourceOf(e)})
			}
		}
		if x.Source == "" && s.kind == flag {
			x.Value, x.Source = false, "default"
		}
		if e, ok := untrusted[s.key]; ok {
			x.Lost = append(x.Lost, Candidate{Value: s.shown(e.value), Source: e.source, Why: "nobody trusted the file"})
		}
		out = append(out, x)
	}
	return c, append(out, l.explainProviders()...), nil
}

// shown is a value as people and programs may see it.
func (s setting) shown(v any) any {
	if s.secret {
		if t, ok := v.(string); ok && s.key == "proxy" {
			return shownProxy(t)
		}
		return "set"
	}
	if d, ok := v.(time.Duration); ok {
		return d.String()
	}
	return v
}

// explainProviders tells of the members of each provider.
func (l *loader) explainProviders() []Explanation {
	var out []Explanation
	entries := map[string]providerEntry{}
	for _, e := range l.entries {
		entries[e.config.Name] = e
	}
	for _, c := range l.config.Providers {
		e, inFile := entries[c.Name]
		add := func(member, typ, help string, value any, source string, secret bool) {
			if value == nil || value == "" {
				value, source = nil, ""
			}
			out = append(out, Explanation{
				Key: "providers." + c.Name + "." + member, Type: typ, Help: help, Value: value, Source: source, Secret: secret,
			})
		}
		source := e.source
		if !inFile {
			source = environmentSource(c.Name)
		}
		add("type", "text", "the wire that it speaks; not set: the catalogue's", c.Type, source, false)
		add("base_url", "text", "its address; not set: the catalogue's", c.BaseURL, source, false)
		key, from := any(nil), source
		if !c.APIKey.IsZero() {
			key = "set"
			switch {
			case e.keyEnv != "":
				from = e.keyEnv
			case e.keyFile != "":
				from = e.keyFile
			}
		}
		add("api_key", "secret", "its key", key, from, true)
		if len(c.Models) > 0 {
			add("models", "list", "models that it serves", c.Models, source, false)
		}
		switch {
		case e.proxy != "":
			add("proxy", "text", "the proxy that it is reached through", shownProxy(e.proxy), source, true)
		case c.Proxy != nil:
			add("proxy", "text", "the proxy that it is reached through", shownProxy(l.config.Proxy.Reveal()), l.config.Origins["proxy"], true)
		}
		for _, name := range slices.Sorted(maps.Keys(e.headers)) {
			h := e.headers[name]
			from := h.source
			if h.env != "" {
				from = h.env
			}
			add("headers."+name, "secret", "sent with each request", "set", from, true)
		}
	}
	return out
}

// environmentSource is the variable that gives a provider.
func environmentSource(name string) string {
	for _, k := range wellKnown {
		if k.name == name {
			return k.env
		}
	}
	return "default"
}

// Match reports whether the explanation is of the setting or group that key names.
func (x Explanation) Match(key string) bool {
	return key == "" || x.Key == key || strings.HasPrefix(x.Key, key+".")
}

// Text is the value for people.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return "not set"
	case string:
		return v
	case []string:
		return strings.Join(v, ", ")
	}
	return fmt.Sprint(v)
}
