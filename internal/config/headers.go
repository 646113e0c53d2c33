package config

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/transport"
)

// fromEnv begins a value that stands in a variable.
const fromEnv = "env:"

// maxHeaders bounds the headers of one provider.
const maxHeaders = 32

// header is one header of a provider: its value, or the variable that has it.
type header struct {
	value, env string
	source     string
}

// headers reads the headers of a provider.
func (w *walker) headers(p *providerEntry, key string, n ast.Node) error {
	if err := w.plain(n); err != nil {
		return err
	}
	values, ok := pairs(n)
	if !ok {
		return w.at(n, key, "must be a mapping of names to values")
	}
	if len(values) > maxHeaders {
		return w.at(n, key, "has more than %d entries", maxHeaders)
	}
	p.headers = map[string]header{}
	for _, v := range values {
		name := v.Key.GetToken().Value
		at := key + "." + name
		for known := range p.headers {
			if strings.EqualFold(known, name) {
				return w.at(v.Key, at, "stands twice")
			}
		}
		value, err := w.value(v.Value)
		if err != nil {
			return err
		}
		text, ok := value.(string)
		if !ok {
			return w.at(v.Key, at, "must be text; put it into quotes")
		}
		h := header{value: text, source: fmt.Sprintf("%s:%d", w.name, v.Key.GetToken().Position.Line)}
		if env, ok := strings.CutPrefix(text, fromEnv); ok {
			if h.value, h.env = "", env; env == "" {
				return w.at(v.Key, at, "names no variable after %s", fromEnv)
			}
		}
		if err := transport.CheckHeaders(map[string]string{name: h.value}); err != nil {
			return w.at(v.Key, at, "%s", err)
		}
		p.headers[name] = h
	}
	return nil
}

// addHeaders puts an entry's headers into the provider. Values of variables are secret: they travel in a function, so
// that no printed configuration holds them.
func (p *providerEntry) addHeaders(c *model.ProviderConfig, env map[string]string) error {
	secret := map[string]model.Secret{}
	for _, name := range slices.Sorted(maps.Keys(p.headers)) {
		h := p.headers[name]
		if h.env == "" {
			if c.Headers == nil {
				c.Headers = map[string]string{}
			}
			c.Headers[name] = h.value
			continue
		}
		bad := func(format string, args ...any) error {
			return &Error{Source: h.source, Key: c.Name + ".headers." + name, Message: fmt.Sprintf(format, args...)}
		}
		v := strings.TrimSpace(env[h.env])
		if v == "" {
			return bad("the variable %s is not set", h.env)
		}
		if transport.CheckHeaders(map[string]string{name: v}) != nil {
			return bad("the value of the variable %s holds a control character", h.env)
		}
		secret[name] = model.NewSecret(v)
	}
	if len(secret) > 0 {
		c.Wrap = func(next http.RoundTripper) http.RoundTripper { return &headerTransport{next, secret} }
	}
	return nil
}

// headerTransport adds headers to each request.
type headerTransport struct {
	next    http.RoundTripper
	headers map[string]model.Secret
}

// RoundTrip implements http.RoundTripper.
func (t *headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range t.headers {
		r.Header.Set(name, value.Reveal())
	}
	return t.next.RoundTrip(r)
}
