package config

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/harness-go/harness/model"
)

// direct is the value of a provider's proxy that switches the node's proxy off for it.
const direct = "direct"

// parseProxy checks the address of a proxy. Its errors do not show the value, which can hold a password.
func parseProxy(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" && u.Scheme != "socks5h":
		return nil, errors.New("must begin with http://, https:// or socks5://")
	case u.Hostname() == "":
		return nil, errors.New("names no host")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("must hold no path, query or fragment")
	}
	u.Path = ""
	return u, nil
}

func checkProxy(v any) error {
	if v.(string) == "" {
		return nil
	}
	_, err := parseProxy(v.(string))
	return err
}

// through sends every call through a proxy. The node's proxy leaves out this machine itself.
func through(u *url.URL, ofNode bool) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if ofNode && Loopback(r.URL.Hostname()+":0") {
			return nil, nil
		}
		return u, nil
	}
}

// shownProxy is a proxy's address without its credentials.
func shownProxy(s string) string {
	if s == "" || s == direct {
		return s
	}
	u, err := parseProxy(s)
	if err != nil {
		return "set"
	}
	text := u.Scheme + "://" + u.Host
	if u.User != nil {
		text += " (with credentials)"
	}
	return text
}

// proxyOf decides how a provider is reached: by its own proxy, by the node's, or directly. The environment's
// HTTP_PROXY does not count.
func proxyOf(own string, node model.Secret) (func(*http.Request) (*url.URL, error), error) {
	address, ofNode := own, false
	if own == "" {
		address, ofNode = node.Reveal(), true
	}
	if address == "" || address == direct {
		return nil, nil
	}
	u, err := parseProxy(address)
	if err != nil {
		return nil, err
	}
	return through(u, ofNode), nil
}
