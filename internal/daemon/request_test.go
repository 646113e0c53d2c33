package daemon

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/scripted"
)

// A provider refuses; the next one of the request's list serves the run, and the log names it.
func TestAFallbackServesTheRunAndIsNamed(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(refusing.Close)
	h, err := scripted.NewHandler(scripted.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	serving := httptest.NewServer(h)
	t.Cleanup(serving.Close)
	c := settings(t, "HARNESS_AUTH_DISABLED=true", "HARNESS_PROVIDER=", "HARNESS_MODEL=scripted")
	c.Providers = []model.ProviderConfig{
		{Name: "first", Type: model.TypeAnthropic, BaseURL: refusing.URL, APIKey: model.NewSecret("key-of-first")},
		{Name: "second", Type: model.TypeOpenAICompat, BaseURL: serving.URL + "/v1", APIKey: model.NewSecret("key-of-second")},
	}
	n := open(t, c)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := storyOf(t, n, engine.RunRequest{
		Prompt: `go @@[{"text":"served"}]@@`, ProviderName: "first", FallbackProviders: []string{"second/another"}, Workspace: t.TempDir(),
	})
	if p := decoded[event.RunCompletedPayload](t, all, event.RunCompleted); p.Output != "served" {
		t.Errorf("%+v", p)
	}
	var by []string
	for _, e := range all {
		if e.Type == event.ProviderResolved {
			p := decoded[event.ProviderResolvedPayload](t, []event.Event{e}, e.Type)
			by = append(by, p.Provider+"/"+p.Model)
		}
		if bytes.Contains(e.Payload, []byte("key-of-")) {
			t.Errorf("%s holds a key: %s", e.ID(), e.Payload)
		}
	}
	if !slices.Equal(by, []string{"first/scripted", "second/another"}) {
		t.Errorf("resolved %v", by)
	}
}

// What is attached is in the request that the model gets, on each wire.
func TestAttachmentsReachTheModelOnEveryWire(t *testing.T) {
	png := append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{7}, 32)...)
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			var mu sync.Mutex
			var got []byte
			n, repo := storyNode(t, w, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					data, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					got = data
					mu.Unlock()
					r.Body = io.NopCloser(bytes.NewReader(data))
					h.ServeHTTP(w, r)
				})
			})
			all := storyOf(t, n, engine.RunRequest{
				Prompt: `go @@[{"text":"seen"}]@@`, Workspace: repo,
				Attachments: []engine.Attachment{{Data: base64.StdEncoding.EncodeToString(png), Filename: "shot.png"}, {Path: "greet.go"}},
			})
			if p := decoded[event.RunCompletedPayload](t, all, event.RunCompleted); p.Output != "seen" {
				t.Errorf("%+v", p)
			}
			mu.Lock()
			defer mu.Unlock()
			if !bytes.Contains(got, []byte(base64.StdEncoding.EncodeToString(png))) || !bytes.Contains(got, []byte("image/png")) {
				t.Errorf("the image is not in the request: %s", got)
			}
			if !bytes.Contains(got, []byte("greet.go:\\n")) {
				t.Errorf("the text is not in the request: %s", got)
			}
		})
	}
}
