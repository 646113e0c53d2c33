package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func (p place) explain(env []string, flags map[string]string) map[string]Explanation {
	p.t.Helper()
	_, list, err := Explain(Sources{Env: append([]string{"HOME=" + p.home}, env...), Dir: p.workspace, UserDir: p.user, Flags: flags})
	if err != nil {
		p.t.Fatal(err)
	}
	out := map[string]Explanation{}
	for _, x := range list {
		if _, twice := out[x.Key]; twice {
			p.t.Errorf("%s is explained twice", x.Key)
		}
		out[x.Key] = x
	}
	return out
}

func TestEachValueIsExplainedWithItsSourceAndTheValuesThatLost(t *testing.T) {
	p := newPlace(t)
	file := p.userFile("max_steps: 1\nauto_compact:\n  threshold: 0.5\n")
	ws := p.workspaceFile("max_steps: 2\n")
	p.trust()
	got := p.explain([]string{"HARNESS_MAX_STEPS=3", "HARNESS_APPROVAL_DEADLINE=90m"}, map[string]string{"max_steps": "4"})
	x := got["max_steps"]
	want := []Candidate{{Value: 3, Source: "HARNESS_MAX_STEPS"}, {Value: 2, Source: ws + ":1"}, {Value: 1, Source: file + ":1"}}
	if x.Value != 4 || x.Source != "--max-steps" || !slices.Equal(x.Lost, want) || x.Env != "HARNESS_MAX_STEPS" || x.Flag != "--max-steps" {
		t.Errorf("max_steps: %+v", x)
	}
	x = got["auto_compact.threshold"]
	if x.Value != 0.5 || x.Source != file+":3" || len(x.Lost) != 1 || x.Lost[0].Value != 0.8 || x.Lost[0].Source != "default" {
		t.Errorf("threshold: %+v", x)
	}
	if x = got["approval_deadline"]; x.Value != "1h30m0s" || x.Lost[0].Value != "72h0m0s" {
		t.Errorf("deadline: %+v", x)
	}
	if x = got["model"]; x.Value != nil || x.Source != "" {
		t.Errorf("model: %+v", x)
	}
	for _, s := range settings {
		if x := got[s.key]; x.Help == "" || x.Type == "" {
			t.Errorf("%s is not explained: %+v", s.key, x)
		}
	}
}

func TestAnUntrustedFileIsExplainedAsNotCounting(t *testing.T) {
	p := newPlace(t)
	ws := p.workspaceFile("model: repo\n")
	x := p.explain(nil, nil)["model"]
	if x.Value != nil || len(x.Lost) != 1 || x.Lost[0].Source != ws+":1" || x.Lost[0].Why == "" {
		t.Errorf("%+v", x)
	}
}

func TestAnExplanationShowsNoSecret(t *testing.T) {
	p := newPlace(t)
	p.write(p.user+"/key", "sk-file\n")
	p.userFile(`
proxy: http://u:sk-one@old.example:1
providers:
  - name: a
    base_url: https://models.example/v1
    api_key_env: KEY
    proxy: https://u:sk-two@own.example
    headers: {X-Org: sk-literal, X-Gate: 'env:GATE'}
  - name: b
    base_url: https://models.example/v1
    api_key_file: key
`)
	got := p.explain([]string{"HARNESS_PROXY=http://u:sk-three@new.example:2", "KEY=sk-env", "GATE=sk-gate", "OPENAI_API_KEY=sk-open"}, nil)
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "sk-") {
		t.Errorf("a secret is shown: %s", raw)
	}
	for key, want := range map[string][2]string{
		"proxy":                      {"http://new.example:2 (with credentials)", "HARNESS_PROXY"},
		"providers.a.api_key":        {"set", "KEY"},
		"providers.a.proxy":          {"https://own.example (with credentials)", ""},
		"providers.a.headers.X-Gate": {"set", "GATE"},
		"providers.b.proxy":          {"http://new.example:2 (with credentials)", "HARNESS_PROXY"},
		"providers.openai.api_key":   {"set", "OPENAI_API_KEY"},
	} {
		x := got[key]
		if x.Value != want[0] || (want[1] != "" && x.Source != want[1]) || !x.Secret {
			t.Errorf("%s: %+v", key, x)
		}
	}
	if x := got["proxy"]; len(x.Lost) != 1 || x.Lost[0].Value != "http://old.example:1 (with credentials)" {
		t.Errorf("proxy: %+v", x)
	}
	if x := got["providers.b.api_key"]; x.Value != "set" || !strings.HasSuffix(x.Source, "/key") {
		t.Errorf("key file: %+v", x)
	}
}
