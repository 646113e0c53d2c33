package gemini_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/gemini"
	"github.com/harness-go/harness/model/wire/transport"
)

const key = "AIza-a-key-that-must-stay-secret"

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answering(status int, h http.Header, body string) *http.Client {
	return &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answerWith(status, h, body), nil
	})}
}

func ask(t testing.TB, c gemini.Config) error {
	t.Helper()
	return modeltest.Collect(t.Context(), newClient(t, c), modeltest.Ask("hi")).Err
}

func TestHTTPErrorsAreTyped(t *testing.T) {
	const (
		retryInfo = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}`
		quota     = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaValue":"50"}]}`
		badKey    = `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}`
	)
	body := func(code int, status, message string, details ...string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q,"details":[%s]}}`, code, message, status, strings.Join(details, ","))
	}
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   model.Error
	}{
		"bad request":        {400, nil, body(400, "INVALID_ARGUMENT", "no"), model.Error{Kind: model.ErrInvalidRequest, Code: "400", Message: "no"}},
		"bad key":            {400, nil, body(400, "INVALID_ARGUMENT", "API key not valid.", badKey), model.Error{Kind: model.ErrAuth, Code: "400", Message: "API key not valid."}},
		"no key":             {403, nil, body(403, "PERMISSION_DENIED", "who?"), model.Error{Kind: model.ErrAuth, Code: "403", Message: "who?"}},
		"no model":           {404, nil, body(404, "NOT_FOUND", "models/m is not found"), model.Error{Kind: model.ErrInvalidRequest, Code: "404", Message: "models/m is not found"}},
		"quota":              {429, nil, body(429, "RESOURCE_EXHAUSTED", "slow", quota, retryInfo), model.Error{Kind: model.ErrRateLimit, Code: "429", Message: "slow", RetryAfter: 34500 * time.Millisecond}},
		"quota in an array":  {429, nil, "[" + body(429, "RESOURCE_EXHAUSTED", "slow", retryInfo) + "]", model.Error{Kind: model.ErrRateLimit, Code: "429", Message: "slow", RetryAfter: 34500 * time.Millisecond}},
		"the header is told": {429, http.Header{"Retry-After": {"7"}}, body(429, "RESOURCE_EXHAUSTED", "slow", retryInfo), model.Error{Kind: model.ErrRateLimit, Code: "429", Message: "slow", RetryAfter: 7 * time.Second}},
		"strange delays":     {429, nil, body(429, "RESOURCE_EXHAUSTED", "slow", `{"retryDelay":"-5s"}`, `{"retryDelay":"soon"}`, `{"retryDelay":{}}`), model.Error{Kind: model.ErrRateLimit, Code: "429", Message: "slow"}},
		"an endless delay":   {429, nil, body(429, "RESOURCE_EXHAUSTED", "slow", `{"retryDelay":"1000000h"}`), model.Error{Kind: model.ErrRateLimit, Code: "429", Message: "slow", RetryAfter: 365 * 24 * time.Hour}},
		"other details":      {500, nil, `{"error":{"code":500,"message":"broke","status":"INTERNAL","details":"none"}}`, model.Error{Kind: model.ErrServer, Code: "500", Message: "broke"}},
		"overloaded":         {503, nil, body(503, "UNAVAILABLE", "later"), model.Error{Kind: model.ErrOverloaded, Code: "503", Message: "later"}},
		"deadline":           {504, nil, body(504, "DEADLINE_EXCEEDED", "late"), model.Error{Kind: model.ErrServer, Code: "504", Message: "late"}},
		"prompt too long":    {400, nil, body(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum"), model.Error{Kind: model.ErrContextLength, Code: "400", Message: "The input token count (9) exceeds the maximum"}},
		"not JSON":           {502, nil, "<html>", model.Error{Kind: model.ErrServer, Message: "the server answered with an HTML page; check the base URL"}},
		"in the stream":      {200, nil, stream(parts(`{"text":"a"}`, ""), body(429, "RESOURCE_EXHAUSTED", "slow", retryInfo)), model.Error{Kind: model.ErrRateLimit, Code: "429", Message: "slow", RetryAfter: 34500 * time.Millisecond}},
		"a bare object":      {200, nil, body(429, "RESOURCE_EXHAUSTED", "slow", retryInfo), model.Error{Kind: model.ErrRateLimit, Code: "429", Message: "slow", RetryAfter: 34500 * time.Millisecond}},
		"a bare array":       {200, nil, "[" + body(503, "UNAVAILABLE", "later") + "]", model.Error{Kind: model.ErrOverloaded, Code: "503", Message: "later"}},
		"key in the stream":  {200, nil, stream(body(400, "INVALID_ARGUMENT", "API key not valid.", badKey)), model.Error{Kind: model.ErrAuth, Code: "400", Message: "API key not valid."}},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask(t, gemini.Config{Config: transport.Config{Provider: "p", HTTPClient: answering(c.status, c.header, c.body)}})
			e, ok := model.AsError(err)
			if !ok {
				t.Fatalf("error %v has no kind", err)
			}
			c.want.Provider, c.want.Status = "p", c.status
			if c.status == http.StatusOK {
				c.want.Status = e.Status
			}
			if *e != c.want {
				t.Errorf("\n got %+v\nwant %+v", *e, c.want)
			}
		})
	}
}

func TestTheKeyGoesIntoItsHeader(t *testing.T) {
	r, err := sent(t, gemini.Config{Config: transport.Config{APIKey: model.NewSecret(key), Headers: map[string]string{"X-Title": "t"}}}, modeltest.Ask("hi"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.header.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "X-Goog-Api-Key: "+key) || strings.Count(b.String(), key) != 1 || strings.Contains(b.String(), "Authorization") {
		t.Errorf("headers\n%s", b.String())
	}
	if strings.Contains(string(r.body)+r.url, key) {
		t.Error("the body or the address holds the key")
	}
	err = ask(t, gemini.Config{Config: transport.Config{APIKey: model.NewSecret(key), HTTPClient: answering(400, nil, `{"error":{"message":"key `+key+`"}}`)}})
	if err == nil || strings.Contains(fmt.Sprintf("%+v", err), key) {
		t.Errorf("the error %v", err)
	}
}

func TestTheEndpoint(t *testing.T) {
	for _, c := range []struct{ base, model, want string }{
		{"", "gemini-2.5-pro", gemini.DefaultBaseURL + "/models/gemini-2.5-pro:streamGenerateContent?alt=sse"},
		{"http://h/v1beta/", "models/gemini-2.5-pro", "http://h/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"},
		{"http://h/v1?key=v", "m", "http://h/v1/models/m:streamGenerateContent?alt=sse&key=v"},
		{"http://h/v1", "google/gemini-3.1/a b?c#d%e", "http://h/v1/models/google%2Fgemini-3.1%2Fa%20b%3Fc%23d%25e:streamGenerateContent?alt=sse"},
		{"http://h/v1", "..", "http://h/v1/models/..:streamGenerateContent?alt=sse"},
		{"http://h/v1", "../../x", "http://h/v1/models/..%2F..%2Fx:streamGenerateContent?alt=sse"},
		{"http://h/a%2Fb", "m:tuned", "http://h/a%2Fb/models/m:tuned:streamGenerateContent?alt=sse"},
	} {
		r, err := sent(t, gemini.Config{Config: transport.Config{BaseURL: c.base}}, model.Request{Model: c.model, Messages: []ai.Message{ai.UserMessage("x")}})
		if err != nil {
			t.Fatal(err)
		}
		if r.url != c.want {
			t.Errorf("%s\nwant %s", r.url, c.want)
		}
	}
}

// Whatever a model is called, it reaches the server as it is.
func TestAnyModelIDReachesTheServer(t *testing.T) {
	s := modelServer(t)
	c := newClient(t, gemini.Config{Config: transport.Config{BaseURL: s.URL + "/v1beta"}})
	for _, id := range []string{"gemini-2.5-flash", "google/gemini-3.1-pro", "a b", "ü.1", "a?b#c%d", "m:tuned"} {
		req := modeltest.Ask(`@@[{"text":"ok"}]@@`)
		req.Model = id
		if a := modeltest.Collect(t.Context(), c, req); a.Err != nil || a.Finish.ServedModel != id {
			t.Errorf("%q: served %q, %v", id, a.Finish.ServedModel, a.Err)
		}
	}
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	for want, c := range map[string]gemini.Config{
		"gemini: BaseURL":          {Config: transport.Config{BaseURL: "ftp://h"}},
		"X-Goog-Api-Key is manage": {Config: transport.Config{Headers: map[string]string{"x-goog-api-key": "x"}}},
		"not both":                 {Config: transport.Config{HTTPClient: &http.Client{}, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}},
	} {
		if _, err := gemini.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", want, err)
		}
	}
}

func TestFromProvider(t *testing.T) {
	s := modelServer(t)
	p, err := model.NewProviders(model.ProvidersConfig{
		Providers: []model.ProviderConfig{{Name: "local", Type: model.TypeGoogle, BaseURL: s.URL + "/v1beta", APIKey: model.NewSecret(key)}},
		Types:     map[string]model.Factory{model.TypeGoogle: gemini.FromProvider},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Resolve("scripted", "")
	if err != nil {
		t.Fatal(err)
	}
	a := modeltest.Collect(t.Context(), r.Model, modeltest.Ask(`@@[{"status":429,"retryAfter":7}]@@`))
	if e, ok := model.AsError(a.Err); !ok || e.Provider != "local" || e.RetryAfter != 7*time.Second {
		t.Errorf("error %v, want one that names the provider", a.Err)
	}
	r.Model.(*gemini.Client).CloseIdleConnections()
}

func TestAnswersAreBounded(t *testing.T) {
	long := parts(`{"text":"`+strings.Repeat("x", 5000)+`"}`, "STOP")
	calls := parts(strings.TrimSuffix(strings.Repeat(`{"functionCall":{"name":"f"}},`, 1025), ","), "STOP")
	items := parts(strings.TrimSuffix(strings.Repeat(`{"text":"a"},{"text":"b","thought":true},`, 1<<15+1), ","), "STOP")
	for name, c := range map[string]struct {
		config transport.Config
		body   string
		want   string
	}{
		"event":  {transport.Config{MaxEvent: 1000}, stream(long), "bound"},
		"answer": {transport.Config{MaxAnswer: 1000}, stream(long), "bound"},
		"object": {transport.Config{MaxAnswer: 1000}, long, "bound"},
		"calls":  {transport.Config{}, stream(calls), "1024 tool calls"},
		"items":  {transport.Config{}, stream(items), "65536 items"},
	} {
		c.config.HTTPClient = answering(200, nil, c.body)
		if e, ok := model.AsError(ask(t, gemini.Config{Config: c.config})); !ok || e.Kind != model.ErrProtocol || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v", name, e)
		}
	}
}
