package config

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestProxiesComeFromTheSettingsAlone(t *testing.T) {
	p := newPlace(t)
	p.userFile(`
providers:
  - name: far
    base_url: https://models.example/v1
  - name: near
    base_url: http://127.0.0.1:11434/v1
  - name: own
    base_url: http://127.0.0.1:1/v1
    proxy: socks5://me:sk-pw@proxy.example:1080
  - name: free
    base_url: https://free.example/v1
    proxy: direct
`)
	hop := func(c Config, i int) string {
		t.Helper()
		pr := c.Providers[i]
		if pr.Proxy == nil {
			return ""
		}
		r, err := http.NewRequest(http.MethodPost, pr.BaseURL, nil)
		if err != nil {
			t.Fatal(err)
		}
		u, err := pr.Proxy(r)
		if err != nil {
			t.Fatal(err)
		}
		if u == nil {
			return ""
		}
		return u.String()
	}
	tests := []struct {
		env  []string
		want [4]string
	}{
		{[]string{"HTTP_PROXY=http://silent.example", "HTTPS_PROXY=http://silent.example", "ALL_PROXY=http://silent.example"},
			[4]string{"", "", "socks5://me:sk-pw@proxy.example:1080", ""}},
		{[]string{"HARNESS_PROXY=http://u:sk-pw2@node.example:3128"},
			[4]string{"http://u:sk-pw2@node.example:3128", "", "socks5://me:sk-pw@proxy.example:1080", ""}},
	}
	for _, tt := range tests {
		c := p.mustLoad(append(tt.env, "OPENAI_API_KEY=sk-open"), nil)
		for i, want := range tt.want {
			if got := hop(c, i); got != want {
				t.Errorf("%s goes through %q, want %q", c.Providers[i].Name, got, want)
			}
		}
		if got := hop(c, 4); got != tt.want[0] {
			t.Errorf("the provider of the environment goes through %q", got)
		}
		if s := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(s, "sk-") {
			t.Errorf("a printed configuration shows a password: %s", s)
		}
	}
}

// recorded is a transport that keeps the headers of the last request.
type recorded struct{ header http.Header }

func (r *recorded) RoundTrip(req *http.Request) (*http.Response, error) {
	r.header = req.Header
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

func TestHeadersOfVariablesAreSentAndNeverShown(t *testing.T) {
	p := newPlace(t)
	p.userFile(`
providers:
  - name: a
    base_url: https://models.example/v1
    headers:
      X-Title: harness
      X-Gateway-Key: env:GATEWAY
`)
	c := p.mustLoad([]string{"GATEWAY=sk-gateway"}, nil)
	pr := c.Providers[0]
	if len(pr.Headers) != 1 || pr.Headers["X-Title"] != "harness" {
		t.Errorf("headers %v", pr.Headers)
	}
	var rec recorded
	req, err := http.NewRequest(http.MethodPost, pr.BaseURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pr.Wrap(&rec).RoundTrip(req); err != nil {
		t.Fatal(err)
	}
	if rec.header.Get("X-Gateway-Key") != "sk-gateway" || req.Header.Get("X-Gateway-Key") != "" {
		t.Errorf("sent %v; the caller's request has %v", rec.header, req.Header)
	}
	if s := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(s, "sk-") {
		t.Error("a printed configuration shows a header's value")
	}
}

func TestTheStandardVariablesSayWhereTelemetryGoes(t *testing.T) {
	p := newPlace(t)
	env := []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c.example:4318/", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://t.example/in",
		"OTEL_EXPORTER_OTLP_HEADERS=x-key=sk-a%3Db, x-team=t", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT=1500",
		"OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
	}
	if c := p.mustLoad(env, nil); c.Telemetry.Enabled || c.Telemetry.Traces.URL != "" {
		t.Fatalf("the standard variables alone switched the export on: %+v", c.Telemetry)
	}
	env = append(env, "HARNESS_TELEMETRY=true")
	c := p.mustLoad(env, nil)
	tr, me := c.Telemetry.Traces, c.Telemetry.Metrics
	if tr.URL != "https://t.example/in" || me.URL != "http://c.example:4318/v1/metrics" {
		t.Errorf("traces to %s, metrics to %s", tr.URL, me.URL)
	}
	if tr.Headers["X-Key"].Reveal() != "sk-a=b" || tr.Headers["X-Team"].Reveal() != "t" || !tr.Gzip {
		t.Errorf("traces: %+v", tr)
	}
	if tr.Timeout != 10*time.Second || me.Timeout != 1500*time.Millisecond {
		t.Errorf("timeouts %s, %s", tr.Timeout, me.Timeout)
	}
	if s := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(s, "sk-") {
		t.Error("a printed configuration shows a header's value")
	}
	c = p.mustLoad(append(env, "HARNESS_TELEMETRY_ENDPOINT=http://ours.example", "OTEL_METRICS_EXPORTER=none"), nil)
	if c.Telemetry.Traces.URL != "http://ours.example/v1/traces" || !c.Telemetry.Metrics.Off {
		t.Errorf("ours does not go before the standard ones: %+v", c.Telemetry)
	}
	if c = p.mustLoad(append(env, "OTEL_SDK_DISABLED=true"), nil); c.Telemetry.Enabled {
		t.Error("OTEL_SDK_DISABLED was not heard")
	}
	if c = p.mustLoad([]string{"HARNESS_TELEMETRY=1"}, nil); c.Telemetry.Traces.URL != "http://localhost:4318/v1/traces" {
		t.Errorf("default: %+v", c.Telemetry)
	}
}

func FuzzHeaderList(f *testing.F) {
	for _, s := range []string{"", "a=b", "a=b,c=%20d", "a", "=b", "a=%zz", "a=%0a", ",,", "é=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHeaderList(s)
		if err != nil {
			return
		}
		r := http.Header{}
		for name, v := range h {
			r.Set(name, v.Reveal())
			if name == "" || strings.ContainsAny(name+v.Reveal(), "\r\n\x00") {
				t.Fatalf("%q gives a header that cannot be sent: %q", s, name)
			}
		}
	})
}

func FuzzProxy(f *testing.F) {
	for _, s := range []string{"http://h:1", "socks5://u:p@h", "http://", "http://:80", "://", "http://h/x", "http://[::1]:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := parseProxy(s)
		if err != nil {
			return
		}
		if u.Hostname() == "" {
			t.Fatalf("%q names no host", s)
		}
		if u.User != nil {
			if pw, _ := u.User.Password(); len(pw) > 3 && !strings.Contains(u.Host, pw) && strings.Contains(shownProxy(s), pw) && !strings.Contains("http://https://socks5h:// (with credentials)", pw) {
				t.Fatalf("the password of %q is shown: %q", s, shownProxy(s))
			}
		}
	})
}
