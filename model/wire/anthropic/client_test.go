package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
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

// silent answers with the beginning of a stream and then says nothing.
func silent(body string) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = pw.CloseWithError(r.Context().Err()) })
		go func() { _, _ = io.WriteString(pw, body) }()
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Request-Id": {"req_1"}}, Body: pr}, nil
	})}
}

// broken answers with the beginning of a stream and then breaks the connection.
func broken(body string) *http.Client {
	return &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		r := io.MultiReader(strings.NewReader(body), iotest.ErrReader(errors.New("connection reset by peer")))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Request-Id": {"req_1"}}, Body: io.NopCloser(r)}, nil
	})}
}

func TestAStreamThatFailsTellsHow(t *testing.T) {
	hung := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})}
	half := stream(block(0, `{"type":"text","text":"half"}`))
	ended := func(body string) *http.Client {
		return &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return answerWith(200, http.Header{"Request-Id": {"req_1"}}, body), nil
		})}
	}
	for name, c := range map[string]struct {
		config transport.Config
		want   model.ErrorKind
		after  time.Duration
		id     string
	}{
		"silent in the stream": {transport.Config{HTTPClient: silent(half)}, model.ErrIdle, transport.DefaultIdleTimeout, "req_1"},
		"hung":                 {transport.Config{HTTPClient: hung, ResponseHeaderTimeout: time.Hour}, model.ErrIdle, time.Hour, ""},
		"dropped":              {transport.Config{HTTPClient: broken(half)}, model.ErrIncomplete, 0, "req_1"},
		"ended early":          {transport.Config{HTTPClient: ended(half)}, model.ErrIncomplete, 0, "req_1"},
		"an error in it":       {transport.Config{HTTPClient: ended(half + event("error", `,"error":{"type":"overloaded_error","message":"Overloaded"}`))}, model.ErrOverloaded, 0, "req_1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			e, ok := model.AsError(modeltest.Collect(t.Context(), newClient(t, anthropic.Config{Config: c.config}), modeltest.Ask("hi")).Err)
			if !ok || e.Kind != c.want || !e.Retryable() || e.RequestID != c.id || time.Since(begun) != c.after {
				t.Errorf("%s: %+v after %s", name, e, time.Since(begun))
			}
		})
	}
}

func TestAStreamIsRangedOverOnce(t *testing.T) {
	calls := 0
	seq := newClient(t, anthropic.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		calls++
		return answerWith(200, nil, stream(stop("end_turn"))), nil
	})}}}).Stream(t.Context(), modeltest.Ask("hi"))
	var last error
	for range 2 {
		for _, err := range seq {
			last = err
		}
	}
	if last == nil || calls != 1 {
		t.Errorf("%d calls, error %v", calls, last)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, c := range map[string]transport.Config{"event": {MaxEvent: 1000}, "answer": {MaxAnswer: 1000}} {
		for _, body := range []string{
			stream(block(0, `{"type":"text","text":"`+long+`"}`), stop("end_turn")),
			`{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"` + long + `"}]}`,
		} {
			c.HTTPClient = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return answerWith(200, nil, body), nil })}
			a := modeltest.Collect(t.Context(), newClient(t, anthropic.Config{Config: c}), modeltest.Ask("hi"))
			if e, ok := model.AsError(a.Err); !ok || e.Kind != model.ErrProtocol || !strings.Contains(e.Message, "bound") {
				t.Errorf("%s: %v", name, a.Err)
			}
		}
	}
}

// An effort that is a word has two forms; the configuration says which one a service's models take.
func TestTheFormOfAnEffortIsConfigured(t *testing.T) {
	for _, c := range []struct{ form, effort, want string }{
		{"", "High", `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}`},
		{anthropic.ThinkingAdaptive, "new-word", `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"new-word"}`},
		{anthropic.ThinkingBudget, "low", `"max_tokens":12288,"messages":[`},
		{anthropic.ThinkingBudget, "low", `"thinking":{"type":"enabled","budget_tokens":4096,"display":"summarized"},"stream"`},
		{anthropic.ThinkingBudget, "NONE", `"thinking":{"type":"disabled"},"stream"`},
		{anthropic.ThinkingBudget, "", `}]}],"stream"`},
	} {
		req := modeltest.Ask("hi")
		req.ReasoningEffort = c.effort
		r, err := sent(t, anthropic.Config{Thinking: c.form}, req)
		if err != nil || !strings.Contains(string(r.body), c.want) {
			t.Errorf("%+v: %s, %v", c, r.body, err)
		}
	}
	req := modeltest.Ask("hi")
	req.ReasoningEffort = "much"
	if _, err := sent(t, anthropic.Config{Thinking: anthropic.ThinkingBudget}, req); err == nil || !strings.Contains(err.Error(), "minimal, low, medium, high") {
		t.Errorf("error %v", err)
	}
	if _, err := anthropic.New(anthropic.Config{Thinking: "loud"}); err == nil || !strings.Contains(err.Error(), "use adaptive or budget") {
		t.Errorf("error %v", err)
	}
}

func TestAProvidersFormOfAnEffortIsChecked(t *testing.T) {
	if _, err := anthropic.FromProvider(model.ProviderConfig{Name: "p", Thinking: "loud"}); err == nil {
		t.Error("a form that is not known is taken")
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
