package transport

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

func httpClient(cfg Config) (*http.Client, error) {
	if cfg.HTTPClient != nil {
		if cfg.Proxy != nil {
			return nil, errors.New("set Proxy or HTTPClient, not both")
		}
		c := *cfg.HTTPClient
		c.CheckRedirect = sameHost
		c.Transport = wrapped(cfg.Wrap, c.Transport)
		return &c, nil
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		CheckRedirect: sameHost,
		Transport: wrapped(cfg.Wrap, &http.Transport{
			Proxy:                 cfg.Proxy,
			DialContext:           dialer.DialContext,
			ForceAttemptHTTP2:     true,
			TLSHandshakeTimeout:   15 * time.Second,
			ExpectContinueTimeout: time.Second,
			IdleConnTimeout:       90 * time.Second,
			MaxIdleConns:          128,
			MaxIdleConnsPerHost:   128,
			// A compressed stream reaches us in the compressor's blocks and not event by event.
			DisableCompression: true,
		}),
	}, nil
}

func wrapped(wrap func(http.RoundTripper) http.RoundTripper, rt http.RoundTripper) http.RoundTripper {
	switch {
	case wrap == nil:
		return rt
	case rt == nil:
		return wrap(http.DefaultTransport)
	}
	return wrap(rt)
}

var errRedirect = errors.New("redirect refused")

// sameHost follows a redirect only where it keeps the scheme, the host and the method: anywhere else the key and the
// conversation would go to somebody whom nobody configured.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	if req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
		return fmt.Errorf("%w: the server points to another host, %s", errRedirect, req.URL.Host)
	}
	if req.Method != first.Method {
		return fmt.Errorf("%w: it would turn the call into a %s", errRedirect, req.Method)
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d in a row", errRedirect, maxRedirects)
	}
	return nil
}
