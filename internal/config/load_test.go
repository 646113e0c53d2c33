package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
)

// place is a home, a user folder and a workspace for one test.
type place struct {
	t                     *testing.T
	home, user, workspace string
}

func newPlace(t *testing.T) place {
	t.Helper()
	home := t.TempDir()
	p := place{t: t, home: home, user: filepath.Join(home, ".config", "harness"), workspace: filepath.Join(home, "work")}
	for _, dir := range []string{p.user, filepath.Join(p.workspace, ".harness")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p place) write(name, content string) string {
	p.t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return name
}

func (p place) userFile(content string) string {
	return p.write(filepath.Join(p.user, "harness.yaml"), content)
}

func (p place) workspaceFile(content string) string {
	return p.write(filepath.Join(p.workspace, ".harness", "harness.yaml"), content)
}

func (p place) trust() {
	p.t.Helper()
	f, err := FindWorkspaceFile(p.workspace)
	if err != nil || f == nil {
		p.t.Fatalf("workspace file: %v, %v", f, err)
	}
	if err := f.Trust(p.user); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) load(env []string, flags map[string]string) (Config, error) {
	return Load(Sources{Env: append([]string{"HOME=" + p.home}, env...), Dir: p.workspace, UserDir: p.user, Flags: flags})
}

func (p place) mustLoad(env []string, flags map[string]string) Config {
	p.t.Helper()
	c, err := p.load(env, flags)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func TestDefaultsNeedNoFileAndNoVariable(t *testing.T) {
	p := newPlace(t)
	c := p.mustLoad(nil, nil)
	want := Config{
		Addr: "127.0.0.1:8080", StateDir: filepath.Join(p.home, ".local", "state", "harness"), Workspace: p.workspace,
		ApprovalDeadline: 72 * time.Hour, QuestionDeadline: 24 * time.Hour, UserDir: p.user,
		LogLevel: "info", LogFormat: "auto", Floor: c.Floor.Normalize(), Origins: map[string]string{}, Instructions: true,
		AutoCompact: AutoCompact{Enabled: true, Threshold: 0.8, Mode: tool.CompactHybrid, KeepLast: 4},
	}
	if !reflect.DeepEqual(c, want) {
		t.Fatalf("got  %+v\nwant %+v", c, want)
	}
}

func TestAStrongerSourceWins(t *testing.T) {
	p := newPlace(t)
	file := p.userFile("model: user\nmax_steps: 1\nprovider: a\nproviders:\n  - name: a\n    base_url: http://127.0.0.1:1/v1\n")
	ws := p.workspaceFile("model: workspace\nmax_steps: 2\n")
	p.trust()
	steps := []struct {
		name   string
		env    []string
		flags  map[string]string
		model  string
		origin string
	}{
		{"workspace over user file", nil, nil, "workspace", ws + ":1"},
		{"environment over workspace", []string{"HARNESS_MODEL=env"}, nil, "env", "HARNESS_MODEL"},
		{"an empty variable is not set", []string{"HARNESS_MODEL="}, nil, "workspace", ws + ":1"},
		{"flag over environment", []string{"HARNESS_MODEL=env"}, map[string]string{"model": "flag"}, "flag", "--model"},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			c := p.mustLoad(s.env, s.flags)
			if c.Model != s.model || c.Origins["model"] != s.origin {
				t.Errorf("model %q from %q, want %q from %q", c.Model, c.Origins["model"], s.model, s.origin)
			}
			if c.MaxSteps != 2 || c.Provider != "a" || c.Origins["provider"] != file+":3" {
				t.Errorf("settings of weaker sources are lost: %+v", c)
			}
		})
	}
}

func TestEverySettingIsReadFromFileEnvironmentAndFlag(t *testing.T) {
	p := newPlace(t)
	values := map[string]string{
		"addr": "127.0.0.1:9999", "state_dir": p.home + "/s", "workspace": p.home, "auth_disabled": "true",
		"allow_remote_unsandboxed": "true", "allowed_hosts": "a.example, b.example", "dev": "true", "workers": "7",
		"provider": "fake", "model": "m", "max_steps": "9", "max_cost_usd": "1.5", "approval_deadline": "5m",
		"question_deadline": "6m", "floor.sandbox": "unrestricted", "floor.network": "allow", "floor.approval": "all",
		"price_file": p.home + "/prices.json", "log_level": "debug", "log_format": "json", "instructions": "false",
		"auto_compact.enabled": "false", "auto_compact.threshold": "0.5", "auto_compact.mode": "strip", "auto_compact.keep_last": "9",
		"telemetry.enabled": "true", "telemetry.endpoint": "https://collector.example", "telemetry.content": "true",
		"model_record": p.home + "/tape", "model_replay": p.home + "/tape", "proxy": "http://u:pw@127.0.0.1:3128",
	}
	check := func(t *testing.T, key string, c Config) {
		t.Helper()
		got := map[string]any{
			"addr": c.Addr, "state_dir": c.StateDir, "workspace": c.Workspace, "auth_disabled": c.AuthDisabled,
			"allow_remote_unsandboxed": c.AllowRemoteUnsandboxed, "allowed_hosts": strings.Join(c.AllowedHosts, ", "), "dev": c.Dev,
			"workers": c.Workers, "provider": c.Provider, "model": c.Model, "max_steps": c.MaxSteps, "max_cost_usd": c.MaxCostUSD,
			"approval_deadline": c.ApprovalDeadline, "question_deadline": c.QuestionDeadline, "floor.sandbox": c.Floor.Sandbox,
			"floor.network": c.Floor.Network, "floor.approval": c.Floor.Approval, "price_file": c.PriceFile, "log_level": c.LogLevel, "log_format": c.LogFormat, "instructions": c.Instructions,
			"auto_compact.enabled": c.AutoCompact.Enabled, "auto_compact.threshold": c.AutoCompact.Threshold,
			"auto_compact.mode": c.AutoCompact.Mode, "auto_compact.keep_last": c.AutoCompact.KeepLast,
			"telemetry.enabled": c.Telemetry.Enabled, "telemetry.endpoint": c.Telemetry.Endpoint, "telemetry.content": c.Telemetry.Content,
			"model_record": c.ModelRecord, "model_replay": c.ModelReplay, "proxy": c.Proxy.Reveal(),
		}[key]
		want := values[key]
		if d, ok := got.(time.Duration); ok {
			parsed, _ := time.ParseDuration(want)
			if d != parsed {
				t.Errorf("%s = %s, want %s", key, d, want)
			}
			return
		}
		if s := fmt.Sprint(got); s != want {
			t.Errorf("%s = %q, want %q", key, s, want)
		}
	}
	for _, s := range settings {
		if s.key == "database_url" {
			continue
		}
		value, ok := values[s.key]
		if !ok {
			t.Errorf("the test has no value for %s", s.key)
			continue
		}
		t.Run(s.key, func(t *testing.T) {
			check(t, s.key, p.mustLoad([]string{s.env + "=" + value}, nil))
			if s.flag != "" {
				check(t, s.key, p.mustLoad(nil, map[string]string{s.key: value}))
			}
			yaml := value
			if s.kind == list {
				yaml = "[" + value + "]"
			}
			if group, name, ok := strings.Cut(s.key, "."); ok {
				p.userFile(group + ":\n  " + name + ": " + yaml + "\n")
			} else {
				p.userFile(s.key + ": " + yaml + "\n")
			}
			check(t, s.key, p.mustLoad(nil, nil))
			p.userFile("")
		})
	}
}

func TestAValueThatCannotBeUsedStopsTheStartAndNamesItself(t *testing.T) {
	tests := []struct {
		name, file, workspace string
		env                   []string
		flags                 map[string]string
		want                  []string
		never                 string
	}{
		{name: "address without a port", env: []string{"HARNESS_ADDR=localhost"}, want: []string{"HARNESS_ADDR", "localhost", "127.0.0.1:8080"}},
		{name: "port out of range", flags: map[string]string{"addr": "127.0.0.1:70000"}, want: []string{"--addr", "70000"}},
		{name: "no truth value", env: []string{"HARNESS_AUTH_DISABLED=yes please"}, want: []string{"HARNESS_AUTH_DISABLED", "yes please"}},
		{name: "no number", env: []string{"HARNESS_MAX_STEPS=many"}, want: []string{"HARNESS_MAX_STEPS", "many"}},
		{name: "negative number", env: []string{"HARNESS_MAX_STEPS=-1"}, want: []string{"HARNESS_MAX_STEPS", "-1"}},
		{name: "too large", file: "max_steps: 100001\n", want: []string{"harness.yaml:1", "max_steps", "100000"}},
		{name: "money that is no number", env: []string{"HARNESS_MAX_COST_PER_RUN_USD=NaN"}, want: []string{"HARNESS_MAX_COST_PER_RUN_USD"}},
		{name: "deadline", env: []string{"HARNESS_APPROVAL_DEADLINE=3 days"}, want: []string{"HARNESS_APPROVAL_DEADLINE", "72h"}},
		{name: "deadline of nothing", env: []string{"HARNESS_QUESTION_DEADLINE=0s"}, want: []string{"HARNESS_QUESTION_DEADLINE"}},
		{name: "approval floor", env: []string{"HARNESS_FLOOR_APPROVAL=some"}, want: []string{"HARNESS_FLOOR_APPROVAL", "none, destructive, all"}},
		{name: "sandbox floor that nothing enforces", env: []string{"HARNESS_FLOOR_SANDBOX=workspace"}, want: []string{"HARNESS_FLOOR_SANDBOX", "floor.sandbox", "workspace is not available on this node"}},
		{name: "network floor that nothing enforces", file: "floor:\n  network: deny\n", want: []string{"harness.yaml:2", "floor.network", "deny is not available"}},
		{name: "Postgres", env: []string{"HARNESS_DATABASE_URL=postgres://u:secretpw@h/db"}, want: []string{"HARNESS_DATABASE_URL", "a Postgres store is not built yet"}, never: "secretpw"},
		{name: "Postgres in the file", file: "database_url: postgres://u:secretpw@h/db\n", want: []string{"database_url", "a Postgres store is not built yet"}, never: "secretpw"},
		{name: "no auth beyond loopback", env: []string{"HARNESS_AUTH_DISABLED=true", "HARNESS_ADDR=0.0.0.0:8080"}, want: []string{"HARNESS_AUTH_DISABLED", "loopback", "0.0.0.0:8080"}},
		{name: "no auth on all interfaces", env: []string{"HARNESS_AUTH_DISABLED=true", "HARNESS_ADDR=:8080"}, want: []string{"HARNESS_AUTH_DISABLED", "loopback"}},
		{name: "beyond loopback without a sandbox", env: []string{"HARNESS_ADDR=192.0.2.1:8080"}, want: []string{"HARNESS_ADDR", "--allow-remote-unsandboxed"}},
		{name: "unknown key", file: "addr: 127.0.0.1:1\nmodle: x\n", want: []string{"harness.yaml:2:1", "modle", "unknown key", "did you mean model?", "2 | modle:"}},
		{name: "unknown key shows no value", file: "api_key: sk-secretpw\n", want: []string{"api_key", "unknown key"}, never: "secretpw"},
		{name: "key in the file", file: "providers:\n  - name: a\n    api_key: sk-secretpw\n", want: []string{"providers[0].api_key", "api_key_env"}, never: "secretpw"},
		{name: "wrong type", file: "max_steps: lots\n", want: []string{"harness.yaml:1", "max_steps", "whole number"}},
		{name: "twice", file: "model: a\nmodel: b\n", want: []string{"harness.yaml:2", "model"}},
		{name: "bad YAML", file: "model: [secretpw\n", want: []string{"harness.yaml", "is not valid YAML"}, never: "secretpw"},
		{name: "a list in place of settings", file: "- a\n", want: []string{"mapping"}},
		{name: "an anchor", file: "model: &a x\n", want: []string{"anchors"}},
		{name: "two documents", file: "model: a\n---\nmodel: b\n", want: []string{"more than one YAML document"}},
		{name: "provider without a name", file: "providers:\n  - base_url: http://127.0.0.1/v1\n", want: []string{"providers[0].name", "missing"}},
		{name: "provider twice", file: "providers:\n  - name: a\n  - name: a\n", want: []string{"providers[1].name", "twice"}},
		{name: "password in a URL", file: "providers:\n  - name: a\n    base_url: https://u:secretpw@h/v1\n", want: []string{"base_url", "password"}, never: "secretpw"},
		{name: "no URL", env: []string{"OPENAI_BASE_URL=localhost:1"}, want: []string{"OPENAI_BASE_URL", "https://"}},
		{name: "two keys", env: []string{"K=secretpw"}, file: "providers:\n  - name: a\n    api_key_env: K\n    api_key_file: k\n", want: []string{"api_key_env and api_key_file"}, never: "secretpw"},
		{name: "key file that is not there", file: "providers:\n  - name: a\n    api_key_file: none\n", want: []string{"api_key_file", "does not exist"}},
		{name: "provider that is not configured", env: []string{"HARNESS_PROVIDER=other"}, want: []string{"HARNESS_PROVIDER", "other", "OPENAI_API_KEY"}},
		{name: "workspace that is not there", env: []string{"HARNESS_WORKSPACE=/nonexistent/x"}, want: []string{"HARNESS_WORKSPACE", "/nonexistent/x"}},
		{name: "control character", env: []string{"HARNESS_MODEL=a\x1b[2J"}, want: []string{"HARNESS_MODEL", "control character"}},
		{name: "proxy that is none", env: []string{"HARNESS_PROXY=ftp://u:secretpw@h"}, want: []string{"HARNESS_PROXY", "socks5://"}, never: "secretpw"},
		{name: "proxy with a path", file: "proxy: http://u:secretpw@h/x\n", want: []string{"harness.yaml:1", "proxy", "path"}, never: "secretpw"},
		{name: "a provider's proxy", file: "providers:\n  - name: a\n    proxy: u:secretpw@h\n", want: []string{"harness.yaml:3", "providers[0].proxy"}, never: "secretpw"},
		{name: "a provider's proxy with a blank", file: "providers:\n  - name: a\n    proxy: 'http://u:secretpw @h'\n", want: []string{"providers[0].proxy"}, never: "secretpw"},
		{name: "managed header", file: "providers:\n  - name: a\n    headers:\n      authorization: Bearer secretpw\n", want: []string{"harness.yaml:4", "providers[0].headers.authorization", "Authorization is managed"}, never: "secretpw"},
		{name: "managed header of another wire", file: "providers:\n  - name: a\n    headers: {x-goog-api-key: secretpw}\n", want: []string{"X-Goog-Api-Key is managed"}, never: "secretpw"},
		{name: "header twice", file: "providers:\n  - name: a\n    headers: {X-Org: a, x-org: b}\n", want: []string{"headers.x-org", "twice"}},
		{name: "no header name", file: "providers:\n  - name: a\n    headers: {'X Org': secretpw}\n", want: []string{"not a header name"}, never: "secretpw"},
		{name: "header that is a number", file: "providers:\n  - name: a\n    headers: {X-Org: 7}\n", want: []string{"headers.X-Org", "quotes"}},
		{name: "headers that are a list", file: "providers:\n  - name: a\n    headers: [X-Org]\n", want: []string{"providers[0].headers", "mapping"}},
		{name: "header of a variable that is not set", file: "providers:\n  - name: a\n    base_url: http://127.0.0.1/v1\n    headers:\n      X-Org: env:ORG\n", want: []string{"harness.yaml:5", "a.headers.X-Org", "ORG is not set"}},
		{name: "header of a variable with a line break", env: []string{"ORG=a\nsecretpw"}, file: "providers:\n  - name: a\n    headers: {X-Org: 'env:ORG'}\n", want: []string{"a.headers.X-Org", "ORG", "control character"}, never: "secretpw"},
		{name: "recorded and replayed", env: []string{"HARNESS_MODEL_RECORD=a", "HARNESS_MODEL_REPLAY=b"}, want: []string{"HARNESS_MODEL_REPLAY", "model_replay", "HARNESS_MODEL_RECORD"}},
		{name: "nothing to record", env: []string{"HARNESS_MODEL_RECORD=a", "HARNESS_PROVIDER=fake"}, want: []string{"HARNESS_MODEL_RECORD", "fake"}},
		{name: "nothing to replay", env: []string{"HARNESS_MODEL_REPLAY=a", "HARNESS_PROVIDER=fake"}, want: []string{"HARNESS_MODEL_REPLAY", "fake"}},
		{name: "threshold above the window", env: []string{"HARNESS_AUTO_COMPACT_THRESHOLD=80"}, want: []string{"HARNESS_AUTO_COMPACT_THRESHOLD", "80", "part of 1"}},
		{name: "threshold of nothing", file: "auto_compact:\n  threshold: 0\n", want: []string{"harness.yaml:2", "auto_compact.threshold", "part of 1"}},
		{name: "unknown mode", file: "auto_compact: {mode: half}\n", want: []string{"auto_compact.mode", "strip, summarize, hybrid"}},
		{name: "nothing kept", env: []string{"HARNESS_AUTO_COMPACT_KEEP_LAST=1"}, want: []string{"HARNESS_AUTO_COMPACT_KEEP_LAST", "between 2"}},
		{name: "unknown key of a group", file: "auto_compact: {treshold: 0.5}\n", want: []string{"auto_compact.treshold", "did you mean auto_compact.threshold?"}},
		{name: "log format", env: []string{"HARNESS_LOG_FORMAT=xml"}, want: []string{"HARNESS_LOG_FORMAT", "auto, text, json"}},
		{name: "collector", env: []string{"HARNESS_TELEMETRY_ENDPOINT=collector:4318"}, want: []string{"HARNESS_TELEMETRY_ENDPOINT", "https://"}},
		{name: "collector with a password", file: "telemetry: {endpoint: 'https://u:secretpw@h'}\n", want: []string{"telemetry.endpoint", "password"}, never: "secretpw"},
		{name: "protocol", env: []string{"HARNESS_TELEMETRY=1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, want: []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"}},
		{name: "exporter", env: []string{"HARNESS_TELEMETRY=1", "OTEL_TRACES_EXPORTER=zipkin"}, want: []string{"OTEL_TRACES_EXPORTER", "zipkin"}},
		{name: "exporter's headers", env: []string{"HARNESS_TELEMETRY=1", "OTEL_EXPORTER_OTLP_METRICS_HEADERS=a=b,secretpw"}, want: []string{"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "name=value"}, never: "secretpw"},
		{name: "exporter's timeout", env: []string{"HARNESS_TELEMETRY=1", "OTEL_EXPORTER_OTLP_TIMEOUT=10s"}, want: []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "milliseconds"}},
		{name: "compression", env: []string{"HARNESS_TELEMETRY=1", "OTEL_EXPORTER_OTLP_COMPRESSION=zstd"}, want: []string{"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"}},
		{name: "half a client certificate", env: []string{"HARNESS_TELEMETRY=1", "OTEL_EXPORTER_OTLP_CLIENT_KEY=k"}, want: []string{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"}},
		{name: "workspace names a proxy", workspace: "proxy: http://evil.example\n", want: []string{"proxy", "may not be set by a workspace"}},
		{name: "workspace exports", workspace: "telemetry: {enabled: true}\n", want: []string{"telemetry.enabled", "may not be set by a workspace"}},
		{name: "workspace sets what it may not", workspace: "addr: 127.0.0.1:1\n", want: []string{".harness/harness.yaml:1", "addr", "may not be set by a workspace"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			if tt.file != "" {
				p.userFile(tt.file)
			}
			var err error
			if tt.workspace != "" {
				p.workspaceFile(tt.workspace)
				var f *WorkspaceFile
				if f, err = FindWorkspaceFile(p.workspace); err == nil {
					err = f.Trust(p.user)
				}
			} else {
				_, err = p.load(tt.env, tt.flags)
			}
			if err == nil {
				t.Fatal("the value was accepted")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("the error does not say %q: %v", w, err)
				}
			}
			if tt.never != "" && strings.Contains(err.Error(), tt.never) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestAWorkspaceFileCountsOnlyWhileItsContentIsTrusted(t *testing.T) {
	p := newPlace(t)
	p.workspaceFile("model: repo\n")
	c := p.mustLoad(nil, nil)
	if c.Model != "" || c.Untrusted == nil || !strings.Contains(strings.Join(c.Notes, "\n"), "harness trust") {
		t.Fatalf("an untrusted file was used or not told: %+v", c)
	}
	p.trust()
	if c := p.mustLoad(nil, nil); c.Model != "repo" || c.Untrusted != nil {
		t.Fatalf("a trusted file was ignored: %+v", c)
	}
	p.workspaceFile("model: changed\n")
	if c := p.mustLoad(nil, nil); c.Model != "" || c.Untrusted == nil {
		t.Fatalf("changed content kept its trust: %+v", c)
	}
	p.workspaceFile("addr: 0.0.0.0:1\n")
	if c := p.mustLoad(nil, nil); c.Untrusted == nil {
		t.Fatal("an untrusted file that could not be used must not stop the start")
	}
}

func TestAWorkspaceFileIsNotReadThroughALinkOutOfTheWorkspace(t *testing.T) {
	p := newPlace(t)
	outside := p.write(filepath.Join(p.home, "outside.yaml"), "model: x\n")
	if err := os.Symlink(outside, filepath.Join(p.workspace, ".harness", "harness.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.load(nil, nil); err == nil {
		t.Fatal("the link was followed")
	}
}

func TestFakeServesEveryModelAndNoOtherProviderIsLeft(t *testing.T) {
	p := newPlace(t)
	c := p.mustLoad([]string{"HARNESS_PROVIDER=fake", "OPENAI_API_KEY=sk-x"}, nil)
	if !c.Fake() || len(c.Providers) != 1 || c.Providers[0].Type != model.TypeFake || len(c.Providers[0].Models) != 0 {
		t.Fatalf("providers: %+v", c.Providers)
	}
}

func TestProvidersOfFileAndEnvironment(t *testing.T) {
	p := newPlace(t)
	p.write(filepath.Join(p.user, "key"), "sk-file\n")
	p.userFile(`
providers:
  - name: local
    base_url: http://127.0.0.1:11434/v1
    models: [a, b]
    max_tokens_field: max_tokens
    idle_timeout: 2m
    thinking: budget
  - name: groq
    type: openai-compat
    base_url: https://api.groq.com/openai/v1
    api_key_file: key
  - name: mine
    base_url: http://models.example/v1
    api_key_env: MINE
  - name: absent
    base_url: https://models.example/v1
    api_key_env: NOT_SET
`)
	c := p.mustLoad([]string{"OPENAI_API_KEY=sk-open", "OPENAI_BASE_URL=http://localhost:9/v1", "GROQ_API_KEY=sk-other", "XAI_API_KEY=sk-x", "MINE=sk-mine"}, nil)
	var got []string
	for _, pr := range c.Providers {
		got = append(got, pr.Name+" "+pr.Type+" "+pr.BaseURL+" "+pr.APIKey.Reveal())
	}
	want := []string{
		"local  http://127.0.0.1:11434/v1 ",
		"groq openai-compat https://api.groq.com/openai/v1 sk-file",
		"mine  http://models.example/v1 sk-mine",
		"absent  https://models.example/v1 ",
		"openai openai-compat http://localhost:9/v1 sk-open",
		"xai   sk-x",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if c.Providers[0].IdleTimeout != 2*time.Minute || c.Providers[0].Thinking != "budget" || !slices.Equal(c.Providers[0].Models, []string{"a", "b"}) {
		t.Errorf("local: %+v", c.Providers[0])
	}
	notes := strings.Join(c.Notes, "\n")
	for _, w := range []string{"absent has no key: NOT_SET", "mine travels unencrypted"} {
		if !strings.Contains(notes, w) {
			t.Errorf("no note says %q: %s", w, notes)
		}
	}
	if s := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(s, "sk-") {
		t.Error("a printed configuration shows a key")
	}
}

func TestWellKnownProvidersAreThoseOfTheCatalogue(t *testing.T) {
	cat, err := model.NewCatalog(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range wellKnown {
		info, ok := cat.Provider(k.name)
		if !ok || info.KeyEnv != k.env {
			t.Errorf("%s: the catalogue has %+v", k.name, info)
		}
		if k.url == "" && (info.BaseURL == "" || info.Type != model.TypeOpenAICompat) {
			t.Errorf("%s needs its URL here: the catalogue has %+v", k.name, info)
		}
	}
}

func TestUnknownVariablesAreTold(t *testing.T) {
	p := newPlace(t)
	c := p.mustLoad([]string{"HARNESS_ADRR=127.0.0.1:1", "HARNESS_API_KEY=x"}, nil)
	if n := strings.Join(c.Notes, "\n"); !strings.Contains(n, "HARNESS_ADRR") || !strings.Contains(n, "HARNESS_ADDR") || strings.Contains(n, "API_KEY") {
		t.Errorf("notes: %s", n)
	}
}

func TestANamedConfigurationFileMustExist(t *testing.T) {
	p := newPlace(t)
	_, err := p.load([]string{"HARNESS_CONFIG=other.yaml"}, nil)
	if err == nil || !strings.Contains(err.Error(), "HARNESS_CONFIG") {
		t.Fatalf("err = %v", err)
	}
	p.write(filepath.Join(p.workspace, "other.yaml"), "model: other\n")
	if c := p.mustLoad([]string{"HARNESS_CONFIG=other.yaml"}, nil); c.Model != "other" {
		t.Fatalf("model %q", c.Model)
	}
}

func TestWithoutAHomeTheErrorNamesTheVariable(t *testing.T) {
	p := newPlace(t)
	_, err := Load(Sources{Dir: p.workspace})
	if err == nil || !strings.Contains(err.Error(), "HARNESS_STATE_DIR") {
		t.Fatalf("err = %v", err)
	}
	if _, err := Load(Sources{Dir: p.workspace, Env: []string{"HARNESS_STATE_DIR=" + p.home + "/s"}}); err != nil {
		t.Fatal(err)
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:80": true, "[::1]:80": true, "localhost:80": true, "[::ffff:127.0.0.1]:1": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.0.2.1:80": false, "localhost.example:80": false, "x": false,
	} {
		if Loopback(addr) != want {
			t.Errorf("Loopback(%q) = %v", addr, !want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"", "model: x\n", "floor: {sandbox: local}\n", "providers:\n- name: a\n  models: [b]\n", "a: &x [*x]\n", "? : :", "---\n---\n", "model: !!binary x\n", "1: 2\n", "<<: {a: b}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := parseFile("/f/harness.yaml", data, nil)
		if err != nil {
			return
		}
		for key := range doc.entries {
			if _, ok := settingByKey(key); !ok {
				t.Fatalf("key %q is not a setting", key)
			}
		}
	})
}
