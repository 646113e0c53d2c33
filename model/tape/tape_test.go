package tape_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/modeltest"
	"github.com/harness-go/harness/model/scripted"
	"github.com/harness-go/harness/model/tape"
	"github.com/harness-go/harness/model/wire/chat"
	"github.com/harness-go/harness/model/wire/gemini"
	"github.com/harness-go/harness/model/wire/transport"
)

const key = "sk-a-key-that-must-stay-secret"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func server(t testing.TB) *httptest.Server {
	t.Helper()
	h, err := scripted.NewHandler(scripted.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func open(t testing.TB, mode tape.Mode, dir string) *tape.Tape {
	t.Helper()
	tp, err := tape.New(mode, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tp.Err(); err != nil && !t.Failed() {
			t.Errorf("the tape failed: %v", err)
		}
	})
	return tp
}

type closer interface {
	model.Model
	CloseIdleConnections()
}

// wires are two different ones, behind a tape.
func wires(t testing.TB, tp *tape.Tape, url string) map[string]closer {
	t.Helper()
	c := transport.Config{Provider: "p", BaseURL: url + "/v1", APIKey: model.NewSecret(key), Wrap: tp.Wrap}
	one, err := chat.New(chat.Config{Config: c, PromptCacheKey: true})
	if err != nil {
		t.Fatal(err)
	}
	c.BaseURL = url + "/v1beta"
	two, err := gemini.New(gemini.Config{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]closer{"chat": one, "gemini": two}
	for _, m := range out {
		t.Cleanup(m.CloseIdleConnections)
	}
	return out
}

const nowhere = "http://127.0.0.1:1" // nothing listens there

// converse lets a model work through a script with calls, a failure and a broken connection, as a loop would.
func converse(ctx context.Context, name string, m model.Model, session string) (answers []modeltest.Answer) {
	req := modeltest.Ask(name + ` @@[{"think":"hm","text":"I look","tool":"read","in":{"path":"ä<b>"}},{"status":503,"times":1,"tool":"read","args":"{\"bad"},{"text":"half","drop":true},{"text":"never"}]@@`)
	req.SessionID = session
	for range 4 {
		a := modeltest.Collect(ctx, m, req)
		answers = append(answers, a)
		if a.Err != nil {
			continue // the same call again
		}
		results := ai.Message{Role: ai.RoleTool}
		for _, c := range a.Calls {
			results.Content = append(results.Content, ai.ToolResultContent{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Output: ai.TextResult("content")})
		}
		req.Messages = append(req.Messages, ai.Message{Role: ai.RoleAssistant, Content: a.Content}, results)
	}
	return answers
}

// show says what an answer is, its errors by their kinds.
func show(answers []modeltest.Answer) string {
	var b strings.Builder
	for _, a := range answers {
		e, _ := model.AsError(a.Err)
		if e != nil {
			fmt.Fprintf(&b, "%s %d %s %s; ", e.Kind, e.Status, e.RequestID, a.Deltas)
			continue
		}
		fmt.Fprintf(&b, "%s %q %v %s; ", a.Finish.ResponseID, a.Text(), a.Args, a.Finish.Finish.Raw)
	}
	return b.String()
}

func files(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil {
		t.Fatal(err)
	}
	return append(names, hidden...)
}

func TestAConversationIsReplayedWithoutAServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tape")
	s := server(t)
	want := map[string][]modeltest.Answer{}
	for name, m := range wires(t, open(t, tape.ModeRecord, dir), s.URL) {
		want[name] = converse(t.Context(), name, m, "session one")
		if got := show(want[name]); !strings.Contains(got, "overloaded 503") || !strings.Contains(got, "incomplete") || !strings.Contains(got, `{"bad`) {
			t.Fatalf("%s: the conversation is not what the test needs: %s", name, got)
		}
	}
	s.Close()
	for range 2 { // each in a scope of its own
		for name, m := range wires(t, open(t, tape.ModeReplay, dir), nowhere) {
			for range 2 {
				got := converse(tape.WithScope(t.Context()), name, m, "session two")
				if show(got) != show(want[name]) {
					t.Errorf("%s:\n got %s\nwant %s", name, show(got), show(want[name]))
				}
				for i := range got {
					if got[i].Err == nil && !reflect.DeepEqual(got[i].Parts, want[name][i].Parts) {
						t.Errorf("%s: answer %d has other parts", name, i)
					}
				}
			}
		}
	}
	if n := len(files(t, dir)); n != 8 {
		t.Errorf("%d files, want one for each of 8 exchanges", n)
	}
}

func TestNoFileHoldsAKey(t *testing.T) {
	dir := t.TempDir()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Request-Id", "id-of-"+key)
		w.Header().Set("Set-Cookie", "session=cookie-secret")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"wrong key %s %s"}}`, r.Header.Get("Authorization"), body)
	}))
	t.Cleanup(echo.Close)
	tp := open(t, tape.ModeRecord, dir)
	client := &http.Client{Transport: tp.Wrap(&http.Transport{DisableKeepAlives: true})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, echo.URL+"/v1/x?alt=sse&key="+key+"&other=query-secret", strings.NewReader(`{"say":"`+key+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + key, "X-Api-Key": "header-secret", "Cookie": "a=cookie-secret", "X-Title": "title-secret"} {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), key) {
		t.Errorf("the caller's own answer was changed: %s, %v", body, err)
	}
	_ = resp.Body.Close()
	for _, m := range wires(t, tp, server(t).URL) {
		modeltest.Collect(t.Context(), m, modeltest.Ask(`@@[{"status":401}]@@`))
	}
	names := files(t, dir)
	if len(names) != 3 {
		t.Fatalf("%d files", len(names))
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{key, "secret", "127.0.0.1", "Bearer"} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s holds %q:\n%s", name, secret, b)
			}
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
}

func TestAMissIsLoud(t *testing.T) {
	dir := t.TempDir()
	recording := open(t, tape.ModeRecord, dir)
	ask := func(m model.Model, change func(*model.Request)) modeltest.Answer {
		req := modeltest.Ask("hello")
		req.Tools = []model.Tool{{Name: "f", Description: "does f"}}
		req.Messages = append(req.Messages, ai.Message{Role: ai.RoleAssistant, Content: []ai.Part{ai.TextPart{Text: "hi"}}}, ai.UserMessage("what now?"))
		if change != nil {
			change(&req)
		}
		return modeltest.Collect(t.Context(), m, req)
	}
	s := server(t)
	for _, change := range []func(*model.Request){nil, func(r *model.Request) { r.Messages = r.Messages[:1] }} {
		if a := ask(wires(t, recording, s.URL)["chat"], change); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	replay := open(t, tape.ModeReplay, dir)
	for name, c := range map[string]struct {
		wire   string
		change func(*model.Request)
		want   string
	}{
		"a text":          {"chat", func(r *model.Request) { r.Messages[2] = ai.UserMessage("what then?") }, "000001-* differs first at messages[2].content (from byte 5 of its text)"},
		"a setting":       {"chat", func(r *model.Request) { r.MaxOutputTokens = 5 }, "000001-* differs first at max_tokens (not in the recorded request)"},
		"a turn more":     {"chat", func(r *model.Request) { r.Messages = append(r.Messages, ai.UserMessage("x")) }, "000001-* differs first at messages[3] (4 elements, recorded are 3)"},
		"a tool less":     {"chat", func(r *model.Request) { r.Tools = nil }, "000001-* differs first at tools (only in the recorded request)"},
		"another type":    {"chat", func(r *model.Request) { r.Messages[0].Content = append(r.Messages[0].Content, ai.TextPart{Text: "b"}) }, "000001-* differs first at messages[0].content (another type)"},
		"another wire":    {"gemini", nil, "no request to this path is recorded"},
		"the shorter one": {"chat", func(r *model.Request) { r.Messages, r.Model = r.Messages[:1], "n" }, "000002-* differs first at model (from byte 0 of its text)"},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask(wires(t, replay, nowhere)[c.wire], c.change)
			e, ok := model.AsError(a.Err)
			if !ok || e.Kind != model.ErrInvalidRequest || e.Retryable() || e.Provider != "p" || e.Code != "not_recorded" {
				t.Fatalf("error %+v", a.Err)
			}
			var miss *tape.MissError
			if !errors.As(a.Err, &miss) {
				t.Fatal("the miss is not in the chain")
			}
			for _, part := range strings.Split(c.want, "*") {
				if !strings.Contains(e.Message, part) {
					t.Errorf("message %q lacks %q", e.Message, part)
				}
			}
			if strings.Contains(e.Message, "what") || strings.Contains(e.Message, "hello") {
				t.Errorf("message %q shows the conversation", e.Message)
			}
		})
	}
	m := wires(t, replay, nowhere)["chat"]
	if a := ask(m, nil); a.Err != nil {
		t.Errorf("the recorded one: %v", a.Err)
	}
	if a := ask(m, nil); a.Err == nil || !strings.Contains(a.Err.Error(), "recorded 1 times and was asked for once more") {
		t.Errorf("once more: %v", a.Err)
	}
}

func TestWhatDoesNotCountIsNotCompared(t *testing.T) {
	dir := t.TempDir()
	made := func(id string) []ai.Message {
		return []ai.Message{
			ai.UserMessage("go"),
			{Role: ai.RoleAssistant, Content: []ai.Part{ai.ToolCallPart{ToolCallID: id, ToolName: "f", Input: "{}"}}},
			{Role: ai.RoleTool, Content: []ai.Part{ai.ToolResultContent{ToolCallID: id, ToolName: "f", Output: ai.TextResult("r")}}},
		}
	}
	s := server(t)
	tp := open(t, tape.ModeRecord, dir)
	a := modeltest.Collect(t.Context(), wires(t, tp, s.URL)["chat"], model.Request{Model: "m", SessionID: "one", Messages: made("call_ABCDEFGHIJKLMNOPQRSTUVWXYZ")})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	a = modeltest.Collect(t.Context(), wires(t, open(t, tape.ModeReplay, dir), nowhere)["chat"], model.Request{Model: "m", SessionID: "two", Messages: made("call_ZYXWVUTSRQPONMLKJIHGFEDCBA")})
	if a.Err != nil {
		t.Error(a.Err)
	}
}

func TestRunsBesideEachOtherShareADirectory(t *testing.T) {
	dir := t.TempDir()
	s := server(t)
	const runs = 12
	var wg sync.WaitGroup
	for i := range runs {
		tp := open(t, tape.ModeRecord, dir) // as another process would
		m := wires(t, tp, s.URL)["chat"]
		wg.Go(func() {
			for _, prompt := range []string{"the same", fmt.Sprintf("mine %d", i)} {
				if a := modeltest.Collect(t.Context(), m, modeltest.Ask(prompt)); a.Err != nil {
					t.Error(a.Err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(files(t, dir)); n != 2*runs {
		t.Errorf("%d files for %d exchanges", n, 2*runs)
	}
	m := wires(t, open(t, tape.ModeReplay, dir), nowhere)["chat"]
	for range runs {
		wg.Go(func() {
			if a := modeltest.Collect(t.Context(), m, modeltest.Ask("the same")); a.Err != nil {
				t.Error(a.Err)
			}
		})
	}
	wg.Wait()
}
