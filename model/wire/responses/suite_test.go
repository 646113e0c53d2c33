package responses_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/model/wire/responses"
	"github.com/harness-go/harness/model/wire/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server that ends with the test.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func newClient(t testing.TB, c responses.Config) *responses.Client {
	t.Helper()
	m, err := responses.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.CloseIdleConnections)
	return m
}

func modelServer(t testing.TB) *httptest.Server {
	t.Helper()
	h, err := scripted.NewHandler(scripted.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, h)
}

func TestResponsesWirePassesTheSuite(t *testing.T) {
	modeltest.Run(t, func(t testing.TB, c modeltest.Config) model.Model {
		return newClient(t, responses.Config{Config: transport.Config{BaseURL: modelServer(t).URL + "/v1", IdleTimeout: c.IdleTimeout}})
	})
}
