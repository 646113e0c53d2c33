package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/harness-go/harness/model"
)

// Telemetry says whether and where traces and metrics are exported.
type Telemetry struct {
	// Enabled switches the export on. The standard variables alone do not.
	Enabled bool `koanf:"enabled"`
	// Endpoint is the collector's address, before /v1/traces and /v1/metrics. It goes before the standard variables.
	Endpoint string `koanf:"endpoint"`
	// Content: prompts, arguments and outputs become attributes.
	Content bool `koanf:"content"`
	// Traces and Metrics are where each signal goes. They are set where Enabled is.
	Traces  OTLP `koanf:"-"`
	Metrics OTLP `koanf:"-"`
}

// OTLP is the export of one signal over OTLP/HTTP.
type OTLP struct {
	// Off: the signal is not exported.
	Off bool
	URL string
	// Headers go with each request.
	Headers map[string]model.Secret
	// Timeout is that of one request.
	Timeout time.Duration
	Gzip    bool
	// CAFile has the authorities that vouch for the collector; empty: the system's. CertFile and KeyFile are ours.
	CAFile, CertFile, KeyFile string
}

const (
	otlpVariable    = "OTEL_EXPORTER_OTLP_"
	defaultEndpoint = "http://localhost:4318"
	defaultTimeout  = 10 * time.Second
	maxOTLPTimeout  = 5 * time.Minute
)

// telemetry reads the standard variables of OpenTelemetry where the export is on.
func (l *loader) telemetry() error {
	t := &l.config.Telemetry
	if disabled, err := strconv.ParseBool(l.env["OTEL_SDK_DISABLED"]); err == nil && disabled {
		t.Enabled = false
	}
	if !t.Enabled {
		return nil
	}
	for _, s := range []struct {
		signal string
		out    *OTLP
	}{{"TRACES", &t.Traces}, {"METRICS", &t.Metrics}} {
		var err error
		if *s.out, err = l.otlp(s.signal); err != nil {
			return err
		}
	}
	return nil
}

// otlp reads the variables of one signal; each may be set for it alone.
func (l *loader) otlp(signal string) (OTLP, error) {
	o := OTLP{Timeout: defaultTimeout}
	exporter := "OTEL_" + signal + "_EXPORTER"
	switch v := l.env[exporter]; v {
	case "", "otlp":
	case "none":
		return OTLP{Off: true}, nil
	default:
		return o, &Error{Source: exporter, Message: shown(v) + " is not available; use otlp or none"}
	}
	// get finds the signal's own variable, else that of all signals.
	get := func(name string) (value, variable string) {
		for _, variable := range []string{otlpVariable + signal + "_" + name, otlpVariable + name} {
			if v := strings.TrimSpace(l.env[variable]); v != "" {
				return v, variable
			}
		}
		return "", ""
	}
	if v, name := get("PROTOCOL"); v != "" && v != "http/protobuf" {
		return o, &Error{Source: name, Message: shown(v) + " is not available; only http/protobuf is"}
	}
	var err error
	if o.URL, err = l.endpoint(signal); err != nil {
		return o, err
	}
	if v, name := get("HEADERS"); v != "" {
		if o.Headers, err = parseHeaderList(v); err != nil {
			return o, &Error{Source: name, Message: err.Error()}
		}
	}
	if v, name := get("TIMEOUT"); v != "" {
		ms, err := strconv.Atoi(v)
		if o.Timeout = time.Duration(ms) * time.Millisecond; err != nil || o.Timeout <= 0 || o.Timeout > maxOTLPTimeout {
			return o, &Error{Source: name, Message: fmt.Sprintf("%s is not a number of milliseconds up to %d", shown(v), maxOTLPTimeout.Milliseconds())}
		}
	}
	switch v, name := get("COMPRESSION"); v {
	case "", "none":
	case "gzip":
		o.Gzip = true
	default:
		return o, &Error{Source: name, Message: shown(v) + " is not one of gzip, none"}
	}
	o.CAFile, _ = get("CERTIFICATE")
	o.CertFile, _ = get("CLIENT_CERTIFICATE")
	o.KeyFile, _ = get("CLIENT_KEY")
	if (o.CertFile == "") != (o.KeyFile == "") {
		return o, &Error{Source: otlpVariable + "CLIENT_CERTIFICATE", Message: "needs " + otlpVariable + "CLIENT_KEY beside it, and the other way round"}
	}
	return o, nil
}

// endpoint is the URL of a signal: ours, the signal's own, or that of all signals.
func (l *loader) endpoint(signal string) (string, error) {
	base, source := l.config.Telemetry.Endpoint, l.config.Origins["telemetry.endpoint"]
	if base == "" {
		if name := otlpVariable + signal + "_ENDPOINT"; l.env[name] != "" {
			u := strings.TrimSpace(l.env[name])
			if err := checkURL(u); err != nil {
				return "", &Error{Source: name, Message: err.Error()}
			}
			return u, nil // as it is
		}
		source = otlpVariable + "ENDPOINT"
		base = cmp.Or(strings.TrimSpace(l.env[source]), defaultEndpoint)
	}
	if err := checkURL(base); err != nil {
		return "", &Error{Source: source, Message: err.Error()}
	}
	return strings.TrimRight(base, "/") + "/v1/" + strings.ToLower(signal), nil
}

// parseHeaderList reads "name=value,name=value", each percent-encoded. Its errors show no value.
func parseHeaderList(s string) (map[string]model.Secret, error) {
	out := map[string]model.Secret{}
	for item := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(item) == "" {
			continue
		}
		name, raw, ok := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(raw))
		if !ok || err != nil || name == "" || strings.ContainsFunc(name, notToken) || strings.ContainsFunc(value, control) {
			return nil, errors.New("is not a list of name=value with percent-encoded values")
		}
		if len(out) == maxHeaders {
			return nil, fmt.Errorf("has more than %d entries", maxHeaders)
		}
		out[textproto.CanonicalMIMEHeaderKey(name)] = model.NewSecret(value)
	}
	return out, nil
}

func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r)
}

func control(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }
