package anthropic_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/anthropic"
	"github.com/harness-go/harness/model/wire/transport"
)

const key = "sk-ant-a-key-that-must-stay-secret"

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHTTPErrorsAreTyped(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   model.Error
	}{
		"bad key":          {401, nil, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, model.Error{Kind: model.ErrAuth, Code: "authentication_error", Message: "invalid x-api-key"}},
		"too many":         {429, http.Header{"Retry-After": {"7"}}, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"},"request_id":"req_1"}`, model.Error{Kind: model.ErrRateLimit, Code: "rate_limit_error", Message: "slow", RetryAfter: 7 * time.Second}},
		"server":           {500, nil, `{"type":"error","error":{"type":"api_error","message":"oops"}}`, model.Error{Kind: model.ErrServer, Code: "api_error", Message: "oops"}},
		"overloaded":       {529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, model.Error{Kind: model.ErrOverloaded, Code: "overloaded_error", Message: "Overloaded"}},
		"prompt too long":  {400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`, model.Error{Kind: model.ErrContextLength, Code: "invalid_request_error", Message: "prompt is too long: 9 tokens > 8 maximum"}},
		"request too big":  {413, nil, `{"type":"error","error":{"type":"request_too_large","message":"big"}}`, model.Error{Kind: model.ErrInvalidRequest, Code: "request_too_large", Message: "big"}},
		"no body":          {502, nil, ``, model.Error{Kind: model.ErrServer, Message: "Bad Gateway"}},
		"the key repeated": {401, nil, `{"type":"error","error":{"type":"authentication_error","message":"` + key + ` is wrong"}}`, model.Error{Kind: model.ErrAuth, Code: "authentication_error", Message: "[redacted] is wrong"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := c.header
			if h == nil {
				h = http.Header{}
			}
			h.Set("Request-Id", "req_1")
			m := newClient(t, anthropic.Config{Config: transport.Config{Provider: "p", APIKey: model.NewSecret(key), HTTPClient: &http.Client{
				Transport: roundTrip(func(*http.Request) (*http.Response, error) { return answerWith(c.status, h, c.body), nil }),
			}}})
			e, ok := model.AsError(modeltest.Collect(t.Context(), m, modeltest.Ask("hi")).Err)
			if !ok {
				t.Fatal("the error has no kind")
			}
			c.want.Provider, c.want.Status, c.want.RequestID = "p", c.status, "req_1"
			if *e != c.want {
				t.Errorf("\n got %+v\nwant %+v", *e, c.want)
			}
		})
	}
}

func TestTheRequestGoesWhereItShouldWithItsHeaders(t *testing.T) {
	for base, want := range map[string]string{
		"":                              "https://api.anthropic.com/v1/messages",
		"http://proxy/anthropic":        "http://proxy/anthropic/v1/messages",
		"http://proxy/anthropic/v1/":    "http://proxy/anthropic/v1/messages",
		"http://proxy/v1?api-version=2": "http://proxy/v1/messages?api-version=2",
	} {
		r, err := sent(t, anthropic.Config{Config: transport.Config{BaseURL: base, APIKey: model.NewSecret(key), Headers: map[string]string{"anthropic-beta": "a,b"}}}, modeltest.Ask("hi"))
		if err != nil || r.url != want {
			t.Errorf("%q: %s, %v", base, r.url, err)
		}
		if r.header.Get("X-Api-Key") != key || r.header.Get("Authorization") != "" || r.header.Get("Anthropic-Version") != "2023-06-01" || r.header.Get("Anthropic-Beta") != "a,b" {
			t.Errorf("%q: headers %v", base, r.header)
		}
	}
	if _, err := anthropic.New(anthropic.Config{Config: transport.Config{Headers: map[string]string{"x-api-key": "k"}}}); err == nil || !strings.Contains(err.Error(), "managed") {
		t.Errorf("a second credential is taken: %v", err)
	}
}

func TestAProviderOfThisTypeAnswers(t *testing.T) {
	p, err := model.NewProviders(model.ProvidersConfig{
		Providers: []model.ProviderConfig{{Name: "local", Type: model.TypeAnthropic, BaseURL: modelServer(t).URL, APIKey: model.NewSecret(key)}},
		Types:     map[string]model.Factory{model.TypeAnthropic: anthropic.FromProvider},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Resolve("any", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Model.(*anthropic.Client).CloseIdleConnections)
	req := modeltest.Ask(`@@[{"think":"well","text":"hello"}]@@`)
	req.Model = m.ModelID
	if a := modeltest.Collect(t.Context(), m.Model, req); a.Err != nil || a.Text() != "hello" || a.Reasoning != "well" {
		t.Errorf("%+v", a)
	}
}
