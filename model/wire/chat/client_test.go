package chat_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/wire/chat"
	"github.com/harness-go/harness/model/wire/transport"
)

const key = "sk-a-key-that-must-stay-secret"

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func ask(t testing.TB, c chat.Config) error {
	t.Helper()
	return modeltest.Collect(t.Context(), newClient(t, c), modeltest.Ask("hi")).Err
}

func answering(status int, h http.Header, body string) *http.Client {
	return &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answerWith(status, h, body), nil
	})}
}

func TestHTTPErrorsAreTyped(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   model.Error
	}{
		"nested":           {400, `{"error":{"message":"bad field","type":"invalid_request_error","code":"x1","param":"p"}}`, model.Error{Kind: model.ErrInvalidRequest, Code: "x1", Message: "bad field"}},
		"type for code":    {401, `{"error":{"message":"who?","type":"authentication_error","code":null}}`, model.Error{Kind: model.ErrAuth, Code: "authentication_error", Message: "who?"}},
		"forbidden":        {403, `{"error":"no"}`, model.Error{Kind: model.ErrAuth, Message: "no"}},
		"flat":             {404, `{"object":"error","message":"no such model","code":404}`, model.Error{Kind: model.ErrInvalidRequest, Code: "404", Message: "no such model"}},
		"detail":           {422, `{"detail":[{"loc":["body"]}]}`, model.Error{Kind: model.ErrInvalidRequest, Message: `[{"loc":["body"]}]`}},
		"array":            {429, `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED"}}]`, model.Error{Kind: model.ErrRateLimit, Code: "429", Message: "quota"}},
		"timeout":          {408, ``, model.Error{Kind: model.ErrServer, Message: "Request Timeout"}},
		"conflict":         {409, `busy`, model.Error{Kind: model.ErrServer, Message: "busy"}},
		"page":             {502, `<html><h1>Bad gateway</h1>`, model.Error{Kind: model.ErrServer, Message: "the server answered with an HTML page; check the base URL"}},
		"unavailable":      {503, `{}`, model.Error{Kind: model.ErrOverloaded, Message: "{}"}},
		"overloaded":       {529, `{"error":{"message":"later"}}`, model.Error{Kind: model.ErrOverloaded, Message: "later"}},
		"context by code":  {400, `{"error":{"message":"too much","code":"context_length_exceeded"}}`, model.Error{Kind: model.ErrContextLength, Code: "context_length_exceeded", Message: "too much"}},
		"context by words": {413, `{"error":{"message":"Prompt is too long: 9 > 8"}}`, model.Error{Kind: model.ErrContextLength, Message: "Prompt is too long: 9 > 8"}},
		"context, as 500":  {500, `{"error":{"message":"the request exceeds the available context size"}}`, model.Error{Kind: model.ErrContextLength, Message: "the request exceeds the available context size"}},
		"not followed":     {304, ``, model.Error{Kind: model.ErrProtocol, Message: "Not Modified"}},
		"control bytes":    {400, "a\x00b\nc\xff", model.Error{Kind: model.ErrInvalidRequest, Message: "a b c\uFFFD"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"X-Request-Id": {"req-7"}}
			err := ask(t, chat.Config{Config: transport.Config{Provider: "p", BaseURL: "http://host", HTTPClient: answering(c.status, h, c.body)}})
			e, ok := model.AsError(err)
			if !ok {
				t.Fatalf("error %v has no kind", err)
			}
			c.want.Provider, c.want.Status, c.want.RequestID = "p", c.status, "req-7"
			if *e != c.want {
				t.Errorf("\n got %+v\nwant %+v", *e, c.want)
			}
		})
	}
}

func TestErrorTextsAreBounded(t *testing.T) {
	err := ask(t, chat.Config{Config: transport.Config{BaseURL: "http://host", HTTPClient: answering(400, nil, strings.Repeat("ä", 1<<20))}})
	e, _ := model.AsError(err)
	if e == nil || len(e.Message) > 1010 || !strings.HasSuffix(e.Message, "ä…") {
		t.Errorf("message of %d bytes", len(err.Error()))
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		header, value string
		want          time.Duration
	}{
		"seconds":      {"Retry-After", "7", 7 * time.Second},
		"fractions":    {"Retry-After", "1.5", 1500 * time.Millisecond},
		"milliseconds": {"Retry-After-Ms", "250", 250 * time.Millisecond},
		"date":         {"Retry-After", time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC).Format(http.TimeFormat), 30 * time.Second},
		"past":         {"Retry-After", time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC).Format(http.TimeFormat), 0},
		"negative":     {"Retry-After", "-5", 0},
		"endless":      {"Retry-After", "1e300", 365 * 24 * time.Hour},
		"no number":    {"Retry-After", "NaN", 0},
		"nonsense":     {"Retry-After", "soon", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the clock of the bubble begins with the year 2000
				h := http.Header{c.header: {c.value}}
				e, _ := model.AsError(ask(t, chat.Config{Config: transport.Config{BaseURL: "http://host", HTTPClient: answering(429, h, "")}}))
				if e == nil || e.RetryAfter != c.want {
					t.Errorf("got %+v, want a wait of %s", e, c.want)
				}
			})
		})
	}
}

func TestTheKeyIsInNoError(t *testing.T) {
	echo := `{"error":{"message":"wrong key ` + key + `","code":"` + key + `"}}`
	for name, c := range map[string]*http.Client{
		"status":      answering(401, http.Header{"X-Request-Id": {key}}, echo),
		"in a stream": answering(200, nil, stream(echo)),
		"not JSON":    answering(500, nil, "you sent Bearer "+key),
		"connection": {Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return nil, errors.New("dial: " + r.Header.Get("Authorization"))
		})},
	} {
		err := ask(t, chat.Config{Config: transport.Config{BaseURL: "http://host", APIKey: model.NewSecret(key), HTTPClient: c}})
		e, ok := model.AsError(err)
		if !ok {
			t.Fatalf("%s: error %v has no kind", name, err)
		}
		if s := fmt.Sprintf("%v %s %s %s", err, e.Code, e.RequestID, e.Message); strings.Contains(s, key) {
			t.Errorf("%s: the error holds the key: %s", name, s)
		}
	}
	broken := ask(t, chat.Config{Config: transport.Config{BaseURL: "http://host", APIKey: model.NewSecret(key + "\n"), HTTPClient: answering(200, nil, "")}})
	if e, ok := model.AsError(broken); !ok || e.Kind != model.ErrAuth || strings.Contains(fmt.Sprintf("%+v", e), key) {
		t.Errorf("a key with a line break: %+v", broken)
	}
}

func TestTheKeyGoesIntoItsHeader(t *testing.T) {
	for _, c := range []struct{ header, want string }{{"", "Authorization: Bearer " + key}, {"api-key", "Api-Key: " + key}} {
		r, err := sent(t, chat.Config{Config: transport.Config{APIKey: model.NewSecret(key), KeyHeader: c.header, Headers: map[string]string{"X-Title": "t"}}}, modeltest.Ask("hi"))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := r.header.Write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.want) || strings.Count(b.String(), key) != 1 || !strings.Contains(b.String(), "X-Title: t") {
			t.Errorf("headers\n%s", b.String())
		}
		if strings.Contains(string(r.body), key) {
			t.Error("the body holds the key")
		}
	}
}

func TestTheKeyNeverLeavesTheConfiguredHost(t *testing.T) {
	var reached atomic.Bool
	other := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	for _, status := range []int{301, 302, 303, 307, 308} {
		first := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/chat/completions", status)
		}))
		err := ask(t, chat.Config{Config: transport.Config{BaseURL: first.URL, APIKey: model.NewSecret(key)}})
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrProtocol || !strings.Contains(e.Message, "another host") {
			t.Errorf("%d: error %v", status, err)
		}
	}
	if reached.Load() {
		t.Error("the other host was called")
	}
}

func TestRedirectsOnTheSameHostKeepTheCall(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/old/chat/completions":
			http.Redirect(w, r, "/new", http.StatusPermanentRedirect)
		case r.URL.Path == "/get/chat/completions":
			http.Redirect(w, r, "/new", http.StatusFound)
		case r.URL.Path == "/loop/chat/completions":
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		case r.Method == http.MethodPost && strings.Contains(string(body), `"hi"`):
			_, _ = io.WriteString(w, stream(choice(`{"content":"ok"}`, "stop")))
		}
	}))
	if err := ask(t, chat.Config{Config: transport.Config{BaseURL: s.URL + "/old"}}); err != nil {
		t.Errorf("308 on the same host: %v", err)
	}
	for _, path := range []string{"/get", "/loop"} {
		if e, ok := model.AsError(ask(t, chat.Config{Config: transport.Config{BaseURL: s.URL + path}})); !ok || e.Kind != model.ErrProtocol {
			t.Errorf("%s: %v", path, e)
		}
	}
}

func TestTheEnvironmentIsNotRead(t *testing.T) {
	for _, v := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(v, "http://127.0.0.1:1")
	}
	t.Setenv("OPENAI_API_KEY", key)
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	var header atomic.Value
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header.Store(r.Header)
		_, _ = io.WriteString(w, stream(choice(`{"content":"ok"}`, "stop")))
	}))
	if err := ask(t, chat.Config{Config: transport.Config{BaseURL: s.URL}}); err != nil {
		t.Fatal(err)
	}
	if got := header.Load().(http.Header).Get("Authorization"); got != "" {
		t.Errorf("a key of the environment was sent: %q", got)
	}
}

func TestTheProxyIsTheOneConfigured(t *testing.T) {
	var asked atomic.Value
	proxy := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.String())
		_, _ = io.WriteString(w, stream(choice(`{"content":"ok"}`, "stop")))
	}))
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := ask(t, chat.Config{Config: transport.Config{BaseURL: "http://model.invalid/v1", Proxy: http.ProxyURL(u)}}); err != nil {
		t.Fatal(err)
	}
	if got := asked.Load(); got != "http://model.invalid/v1/chat/completions" {
		t.Errorf("the proxy was asked for %v", got)
	}
}

func TestTheEndpoint(t *testing.T) {
	for base, want := range map[string]string{
		"http://h":                             "/chat/completions",
		"http://h/v1/":                         "/v1/chat/completions",
		"https://h/openai/d?api-version=1&b=2": "/openai/d/chat/completions?api-version=1&b=2",
		"http://h/a%2Fb":                       "/a%2Fb/chat/completions",
	} {
		r := &recorder{}
		if err := ask(t, chat.Config{Config: transport.Config{BaseURL: base, HTTPClient: &http.Client{Transport: r}}}); err != nil {
			t.Fatal(err)
		}
		if r.path != want {
			t.Errorf("%s: %s, want %s", base, r.path, want)
		}
	}
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	for want, c := range map[string]chat.Config{
		"BaseURL is empty":      {},
		"use http://":           {Config: transport.Config{BaseURL: "ftp://h"}},
		"user or password":      {Config: transport.Config{BaseURL: "http://u:" + key + "@h"}},
		"not a URL":             {Config: transport.Config{BaseURL: "http://h\x7f" + key}},
		"fragment":              {Config: transport.Config{BaseURL: "http://h/#x"}},
		"MaxTokensField":        {Config: transport.Config{BaseURL: "http://h"}, MaxTokensField: "tokens"},
		"negative":              {Config: transport.Config{BaseURL: "http://h", IdleTimeout: -1}},
		"KeyHeader":             {Config: transport.Config{BaseURL: "http://h", KeyHeader: "a b"}},
		"Content-Type is":       {Config: transport.Config{BaseURL: "http://h", Headers: map[string]string{"content-type": "x"}}},
		"X-Key is managed":      {Config: transport.Config{BaseURL: "http://h", KeyHeader: "x-key", Headers: map[string]string{"X-KEY": "x"}}},
		"not both":              {Config: transport.Config{BaseURL: "http://h", HTTPClient: &http.Client{}, Proxy: http.ProxyFromEnvironment}},
		"value of header X-A h": {Config: transport.Config{BaseURL: "http://h", Headers: map[string]string{"X-A": "b\nc"}}},
	} {
		_, err := chat.New(c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), key) {
			t.Errorf("%q: error %v", want, err)
		}
	}
}

// trickle is a body that gives one event and then says nothing until the call ends.
func trickle(events ...string) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = pw.CloseWithError(r.Context().Err()) })
		go func() { _, _ = io.WriteString(pw, stream(events...)) }()
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Request-Id": {"req-1"}}, Body: pr}, nil
	})}
}

func TestAStreamThatSaysNothingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := ask(t, chat.Config{Config: transport.Config{BaseURL: "http://h", HTTPClient: trickle(choice(`{"content":"a"}`, ""))}})
		e, ok := model.AsError(err)
		if !ok || e.Kind != model.ErrIdle || e.RequestID != "req-1" || !e.Retryable() {
			t.Fatalf("error %+v", err)
		}
		if d := time.Since(begin); d != transport.DefaultIdleTimeout {
			t.Errorf("after %s", d)
		}
	})
}

func TestHeadersThatDoNotComeEndTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		begin := time.Now()
		err := ask(t, chat.Config{Config: transport.Config{BaseURL: "http://h", HTTPClient: silent, ResponseHeaderTimeout: time.Minute}})
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrIdle || time.Since(begin) != time.Minute {
			t.Errorf("error %v after %s", err, time.Since(begin))
		}
	})
}

func TestASteadyStreamHasNoTotalTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steady := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			go func() {
				for range 30 {
					time.Sleep(time.Minute)
					_, _ = io.WriteString(pw, stream(choice(`{"content":"a"}`, "")))
				}
				_, _ = io.WriteString(pw, stream(choice(`{}`, "stop"), "[DONE]"))
				_ = pw.Close()
			}()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: pr}, nil
		})}
		if err := ask(t, chat.Config{Config: transport.Config{BaseURL: "http://h", HTTPClient: steady}}); err != nil {
			t.Errorf("half an hour of steady deltas: %v", err)
		}
	})
}

func TestASlowReaderIsNotAnIdleServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, chat.Config{Config: transport.Config{BaseURL: "http://h", HTTPClient: answering(200, nil, stream(choice(`{"content":"a"}`, ""), choice(`{}`, "stop")))}})
		for _, err := range c.Stream(t.Context(), modeltest.Ask("hi")) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestAServerThatHoldsTheEndOpenDoesNotHoldTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := ask(t, chat.Config{Config: transport.Config{BaseURL: "http://h", HTTPClient: trickle(choice(`{"content":"a"}`, "stop"), "[DONE]")}}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("the call took %s more", d)
		}
	})
}

func TestLeavingTheLoopClosesTheConnection(t *testing.T) {
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, stream(choice(`{"content":"a"}`, "")))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	c := newClient(t, chat.Config{Config: transport.Config{BaseURL: s.URL}})
	for _, err := range c.Stream(t.Context(), modeltest.Ask("hi")) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	<-gone
	c.CloseIdleConnections()
	s.Close()
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, stream(choice(`{"content":"a"}`, "stop"), "[DONE]"))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := newClient(t, chat.Config{Config: transport.Config{BaseURL: s.URL}})
	for range 5 {
		if a := modeltest.Collect(t.Context(), c, modeltest.Ask("hi")); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("5 calls opened %d connections", n)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	long := stream(choice(`{"content":"`+strings.Repeat("x", 5000)+`"}`, "stop"))
	for name, c := range map[string]chat.Config{"event": {Config: transport.Config{MaxEvent: 1000}}, "answer": {Config: transport.Config{MaxAnswer: 1000}}} {
		for _, body := range []string{long, `{"choices":[{"message":{"content":"` + strings.Repeat("x", 5000) + `"},"finish_reason":"stop"}]}`} {
			c.BaseURL, c.HTTPClient = "http://h", answering(200, nil, body)
			if e, ok := model.AsError(ask(t, c)); !ok || e.Kind != model.ErrProtocol || !strings.Contains(e.Message, "bound") {
				t.Errorf("%s: %v", name, e)
			}
		}
	}
}

func TestAStreamIsRangedOverOnce(t *testing.T) {
	var calls atomic.Int32
	h := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		calls.Add(1)
		return answerWith(200, nil, stream(choice(`{"content":"a"}`, "stop"))), nil
	})}
	seq := newClient(t, chat.Config{Config: transport.Config{BaseURL: "http://h", HTTPClient: h}}).Stream(t.Context(), modeltest.Ask("hi"))
	if calls.Load() != 0 {
		t.Error("the call was made before anybody ranged over the stream")
	}
	var last error
	for range 2 {
		for _, err := range seq {
			last = err
		}
	}
	if last == nil || calls.Load() != 1 {
		t.Errorf("ranging twice: %d calls, error %v", calls.Load(), last)
	}
}

func TestNobodyListensIsAConnectionError(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	if e, ok := model.AsError(ask(t, chat.Config{Config: transport.Config{BaseURL: s.URL}})); !ok || e.Kind != model.ErrConnection || !e.Retryable() {
		t.Errorf("error %v", e)
	}
}

func TestFromProvider(t *testing.T) {
	s := modelServer(t)
	p, err := model.NewProviders(model.ProvidersConfig{
		Providers: []model.ProviderConfig{{Name: "local", BaseURL: s.URL + "/v1", APIKey: model.NewSecret(key)}},
		Types:     map[string]model.Factory{model.TypeOpenAICompat: chat.FromProvider},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Resolve("scripted", "")
	if err != nil {
		t.Fatal(err)
	}
	a := modeltest.Collect(t.Context(), r.Model, modeltest.Ask(`@@[{"status":500}]@@`))
	if e, ok := model.AsError(a.Err); !ok || e.Provider != "local" {
		t.Errorf("error %v, want one that names the provider", a.Err)
	}
	r.Model.(*chat.Client).CloseIdleConnections()
}
