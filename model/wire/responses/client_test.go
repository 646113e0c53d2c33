package responses_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/tape"
	"github.com/harness-go/harness/model/wire/responses"
	"github.com/harness-go/harness/model/wire/transport"
)

const key = "sk-a-key-that-must-stay-secret"

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func ask(t testing.TB, c responses.Config) error {
	t.Helper()
	return modeltest.Collect(t.Context(), newClient(t, c), modeltest.Ask("hi")).Err
}

func TestErrorsAreTyped(t *testing.T) {
	object := func(kind, code, message string) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%s}}`, message, kind, code)
	}
	begun := stream(delta("output_text", 0, `"half"`))
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   model.Error
	}{
		"bad key":           {401, nil, object("invalid_request_error", `"invalid_api_key"`, "Incorrect API key provided: "+key), model.Error{Kind: model.ErrAuth, Code: "invalid_api_key", Message: "Incorrect API key provided: [redacted]"}},
		"too many":          {429, http.Header{"Retry-After": {"7"}}, object("requests", `"rate_limit_exceeded"`, "slow"), model.Error{Kind: model.ErrRateLimit, Code: "rate_limit_exceeded", Message: "slow", RetryAfter: 7 * time.Second}},
		"milliseconds":      {429, http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"1500"}}, object("tokens", `"rate_limit_exceeded"`, "slow"), model.Error{Kind: model.ErrRateLimit, Code: "rate_limit_exceeded", Message: "slow", RetryAfter: 1500 * time.Millisecond}},
		"no money":          {429, nil, object("insufficient_quota", `"insufficient_quota"`, "pay"), model.Error{Kind: model.ErrRateLimit, Code: "insufficient_quota", Message: "pay"}},
		"server":            {500, nil, object("server_error", "null", "oops"), model.Error{Kind: model.ErrServer, Code: "server_error", Message: "oops"}},
		"overloaded":        {503, nil, object("service_unavailable_error", "null", "later"), model.Error{Kind: model.ErrOverloaded, Code: "service_unavailable_error", Message: "later"}},
		"no body":           {502, nil, "", model.Error{Kind: model.ErrServer, Message: "Bad Gateway"}},
		"a page":            {502, nil, "<html>", model.Error{Kind: model.ErrServer, Message: "the server answered with an HTML page; check the base URL"}},
		"no model":          {404, nil, object("invalid_request_error", `"model_not_found"`, "which?"), model.Error{Kind: model.ErrInvalidRequest, Code: "model_not_found", Message: "which?"}},
		"too long":          {400, nil, object("invalid_request_error", `"context_length_exceeded"`, "long"), model.Error{Kind: model.ErrContextLength, Code: "context_length_exceeded", Message: "long"}},
		"not ours":          {400, nil, object("invalid_request_error", `"invalid_encrypted_content"`, "The encrypted content for item rs_1 could not be verified."), model.Error{Kind: model.ErrInvalidRequest, Code: "invalid_encrypted_content", Message: "The encrypted content for item rs_1 could not be verified."}},
		"flat, in stream":   {200, nil, begun + event("error", `,"code":"rate_limit_exceeded","message":"slow","param":null,"sequence_number":3`), model.Error{Kind: model.ErrRateLimit, Code: "rate_limit_exceeded", Message: "slow"}},
		"nested, in stream": {200, nil, begun + event("error", `,"error":{"type":"server_error","code":null,"message":"oops"}`), model.Error{Kind: model.ErrServer, Code: "server_error", Message: "oops"}},
		"empty, in stream":  {200, nil, begun + event("error", ``), model.Error{Kind: model.ErrServer, Message: "the server sent an error without a message"}},
		"failed":            {200, nil, begun + event("response.failed", `,"response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}`), model.Error{Kind: model.ErrRateLimit, Code: "rate_limit_exceeded", Message: "slow"}},
		"failed, at once":   {200, nil, `{"status":"failed","error":{"code":"server_error","message":"oops"}}`, model.Error{Kind: model.ErrServer, Code: "server_error", Message: "oops"}},
		"dropped":           {200, nil, begun, model.Error{Kind: model.ErrIncomplete, Message: "the answer ended without a finish reason"}},
		"cut in an event":   {200, nil, begun + completed[:len(completed)/2], model.Error{Kind: model.ErrIncomplete, Message: "the answer ended without a finish reason"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := c.header
			if h == nil {
				h = http.Header{}
			}
			h.Set("X-Request-Id", "req_1")
			calls := 0
			err := ask(t, responses.Config{Config: transport.Config{Provider: "p", APIKey: model.NewSecret(key), HTTPClient: &http.Client{
				Transport: roundTrip(func(*http.Request) (*http.Response, error) {
					calls++
					return answerWith(c.status, h, c.body), nil
				}),
			}}})
			e, ok := model.AsError(err)
			if !ok || calls != 1 {
				t.Fatalf("error %v after %d calls", err, calls)
			}
			c.want.Provider, c.want.RequestID = "p", "req_1"
			if c.status != http.StatusOK {
				c.want.Status = c.status
			}
			if *e != c.want {
				t.Errorf("\n got %+v\nwant %+v", *e, c.want)
			}
		})
	}
}

// silent answers with the body and then says nothing until the call ends.
func silent(body string) *http.Client {
	return &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		pr, pw := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = pw.CloseWithError(r.Context().Err()) })
		go func() { _, _ = io.WriteString(pw, body) }()
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Request-Id": {"req_1"}}, Body: pr}, nil
	})}
}

func TestASilentServerEndsTheCall(t *testing.T) {
	hung := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})}
	for name, c := range map[string]struct {
		config transport.Config
		after  time.Duration
	}{
		"in the stream":      {transport.Config{HTTPClient: silent(stream(delta("output_text", 0, `"a"`))), IdleTimeout: time.Minute}, time.Minute},
		"before its headers": {transport.Config{HTTPClient: hung, ResponseHeaderTimeout: time.Hour}, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			e, ok := model.AsError(ask(t, responses.Config{Config: c.config}))
			if !ok || e.Kind != model.ErrIdle || !e.Retryable() || time.Since(begin) != c.after {
				t.Errorf("%s: %+v after %s", name, e, time.Since(begin))
			}
		})
	}
}

// plainModels is a service of which the model "plain" cannot encrypt its reasoning. It notes who was asked to.
type plainModels struct {
	says  string
	asked []bool
}

func (s *plainModels) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	with := strings.Contains(string(body), `"include":["reasoning.encrypted_content"]`)
	s.asked = append(s.asked, with)
	if with && strings.Contains(string(body), `"model":"plain"`) {
		return answerWith(400, nil, fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","param":"include","code":null}}`, s.says)), nil
	}
	return answerWith(200, nil, stream(done(0, message("hi")), completed)), nil
}

func askOf(t *testing.T, m model.Model, name, prompt string) {
	t.Helper()
	req := modeltest.Ask(prompt)
	req.Model = name
	if a := modeltest.Collect(t.Context(), m, req); a.Err != nil || a.Text() != "hi" {
		t.Fatalf("%s: %q, %v", name, a.Text(), a.Err)
	}
}

const notSupported = "Encrypted content is not supported with this model."

// A model that cannot encrypt its reasoning is served all the same, by a second request the first time only.
func TestAModelThatCannotEncryptItsReasoningIsAskedWithout(t *testing.T) {
	for _, said := range []string{notSupported, "Unsupported value in include: 'reasoning.encrypted_content'"} {
		s := &plainModels{says: said}
		m := newClient(t, responses.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: s}}})
		for _, name := range []string{"plain", "plain", "other"} {
			askOf(t, m, name, "hi")
		}
		if want := []bool{true, false, false, true}; !slices.Equal(s.asked, want) {
			t.Errorf("%s: asked for encryption %v, want %v", said, s.asked, want)
		}
	}
	never := newClient(t, responses.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answerWith(400, nil, `{"error":{"message":"`+notSupported+`"}}`), nil
	})}}})
	for range 2 { // a service that says so whatever it is asked is not asked for ever
		if e, ok := model.AsError(modeltest.Collect(t.Context(), never, modeltest.Ask("hi")).Err); !ok || e.Kind != model.ErrInvalidRequest {
			t.Errorf("error %v", e)
		}
	}
}

// What a client learned before a recording, or learns while it replays one, changes nothing about the answers.
func TestARecordingIsReplayedByAClientThatLearnedNothing(t *testing.T) {
	dir := t.TempDir()
	client := func(tp *tape.Tape, err error) *responses.Client {
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, responses.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: &plainModels{says: notSupported}}, Wrap: tp.Wrap}})
	}
	recorded := client(tape.Record(dir))
	for _, prompt := range []string{"one", "two", "one"} {
		askOf(t, recorded, "plain", prompt)
	}
	for _, prompts := range [][]string{{"two"}, {"one", "two", "one"}, {"two", "one", "one"}} {
		m := client(tape.Replay(dir))
		for _, prompt := range prompts {
			askOf(t, m, "plain", prompt)
		}
	}
}

func TestAStreamIsRangedOverOnce(t *testing.T) {
	calls := 0
	seq := newClient(t, responses.Config{Config: transport.Config{HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		calls++
		return answerWith(200, nil, stream(done(0, message("hi")), completed)), nil
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

func TestTheRequestGoesWhereItShouldWithItsHeaders(t *testing.T) {
	for base, want := range map[string]string{
		"":                              "https://api.openai.com/v1/responses",
		"http://proxy/openai/v1/":       "http://proxy/openai/v1/responses",
		"http://proxy/v1?api-version=2": "http://proxy/v1/responses?api-version=2",
	} {
		r, err := sent(t, responses.Config{Config: transport.Config{BaseURL: base, APIKey: model.NewSecret(key), Headers: map[string]string{"OpenAI-Organization": "o"}}}, modeltest.Ask("hi"))
		if err != nil || r.url != want {
			t.Errorf("%q: %s, %v", base, r.url, err)
		}
		if r.header.Get("Authorization") != "Bearer "+key || r.header.Get("Openai-Organization") != "o" || strings.Contains(string(r.body)+r.url, key) {
			t.Errorf("%q: headers %v", base, r.header)
		}
	}
	for want, c := range map[string]transport.Config{
		"responses: BaseURL":       {BaseURL: "ftp://h"},
		"Authorization is managed": {Headers: map[string]string{"authorization": "Bearer x"}},
	} {
		if _, err := responses.New(responses.Config{Config: c}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", want, err)
		}
	}
}

func TestAProviderOfEitherTypeAnswers(t *testing.T) {
	for _, kind := range []string{model.TypeOpenAI, model.TypeResponses} {
		p, err := model.NewProviders(model.ProvidersConfig{
			Providers: []model.ProviderConfig{{Name: "local", Type: kind, BaseURL: modelServer(t).URL + "/v1", APIKey: model.NewSecret(key)}},
			Types:     map[string]model.Factory{kind: responses.FromProvider},
		})
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Resolve("any", "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Model.(*responses.Client).CloseIdleConnections)
		req := modeltest.Ask(`@@[{"think":"well","text":"hello"}]@@`)
		req.Model = m.ModelID
		if a := modeltest.Collect(t.Context(), m.Model, req); a.Err != nil || a.Text() != "hello" || a.Reasoning != "well" {
			t.Errorf("%+v", a)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	long := message(strings.Repeat("x", 5000))
	var calls, items strings.Builder
	for i := range 1025 {
		calls.WriteString(done(i, fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":"f","arguments":"{}"}`, i)))
	}
	items.WriteString(`{"status":"completed","output":[{}` + strings.Repeat(`,{}`, maxItems) + `]}`)
	for name, c := range map[string]struct {
		config transport.Config
		body   string
		want   string
	}{
		"event":  {transport.Config{MaxEvent: 1000}, stream(done(0, long), completed), "bound"},
		"answer": {transport.Config{MaxAnswer: 1000}, stream(done(0, long), completed), "bound"},
		"object": {transport.Config{MaxAnswer: 1000}, `{"status":"completed","output":[` + long + `]}`, "bound"},
		"calls":  {transport.Config{}, stream(calls.String(), completed), "1024 tool calls"},
		"items":  {transport.Config{}, items.String(), "65536 items"},
	} {
		c.config.HTTPClient = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return answerWith(200, nil, c.body), nil })}
		if e, ok := model.AsError(ask(t, responses.Config{Config: c.config})); !ok || e.Kind != model.ErrProtocol || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v", name, e)
		}
	}
}
