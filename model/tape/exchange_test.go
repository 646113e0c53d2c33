package tape_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/tape"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// exchange makes one call through a tape and returns what came of it.
func exchange(ctx context.Context, t *testing.T, rt http.RoundTripper, body string) (status int, answer string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://h/v1/a%2Fb", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); cerr != nil {
		t.Error(cerr)
	}
	return resp.StatusCode, string(b), err
}

func answering(body io.Reader, length int64) http.RoundTripper {
	return roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body), ContentLength: length}, nil
	})
}

func TestAnAnswerIsReplayedAsItCameAndAsItEnded(t *testing.T) {
	broken := errors.New("reset by peer")
	for name, c := range map[string]struct {
		request string
		next    http.RoundTripper
		want    string
		err     error
	}{
		"whole":          {`{"a":1}`, answering(strings.NewReader("data: ä\r\n\r\n"), -1), "data: ä\r\n\r\n", nil},
		"empty":          {`{"a":1}`, answering(strings.NewReader(""), 0), "", nil},
		"bytes":          {"\xff\x00", answering(strings.NewReader("\xff\x00\u2028<&>"), -1), "\xff\x00\u2028<&>", nil},
		"cut":            {`{"a":1}`, answering(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)), -1), "half", io.ErrUnexpectedEOF},
		"cut at once":    {``, answering(iotest.ErrReader(broken), -1), "", io.ErrUnexpectedEOF},
		"no answer":      {`null`, roundTrip(func(*http.Request) (*http.Response, error) { return nil, broken }), "", io.ErrUnexpectedEOF},
		"invalid in it":  {"{\"a\":\"\xff\"}", answering(strings.NewReader("x"), -1), "x", nil},
		"repeated names": {`{"a":1,"a":2}`, answering(strings.NewReader("x"), -1), "x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, body, err := exchange(t.Context(), t, open(t, tape.ModeRecord, dir).Wrap(c.next), c.request)
			if body != c.want || (err == nil) != (c.err == nil) {
				t.Fatalf("recording changed the answer: %q, %v", body, err)
			}
			_, body, err = exchange(t.Context(), t, open(t, tape.ModeReplay, dir).Wrap(nil), c.request)
			if body != c.want || !errors.Is(err, c.err) {
				t.Errorf("replayed %q, %v, want %q, %v", body, err, c.want, c.err)
			}
		})
	}
}

func TestAnAnswerThatIsLeftEarlyIsCut(t *testing.T) {
	for name, length := range map[string]int64{"open end": -1, "known length": 100} {
		dir := t.TempDir()
		rt := open(t, tape.ModeRecord, dir).Wrap(answering(strings.NewReader(strings.Repeat("x", 100)), length))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h/v1/a%2Fb", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		_, body, err := exchange(t.Context(), t, open(t, tape.ModeReplay, dir).Wrap(nil), "{}")
		if body != strings.Repeat("x", 10) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: replayed %q, %v", name, body, err)
		}
	}
}

func TestACallThatItsCallerEndsIsNotRecorded(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	rt := open(t, tape.ModeRecord, dir).Wrap(roundTrip(func(*http.Request) (*http.Response, error) {
		cancel()
		return nil, context.Canceled
	}))
	if _, _, err := exchange(ctx, t, rt, "{}"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("files %v", left)
	}
}

func TestAReplayEndsWithItsCaller(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := exchange(t.Context(), t, open(t, tape.ModeRecord, dir).Wrap(answering(strings.NewReader("x"), -1)), "{}"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := exchange(ctx, t, open(t, tape.ModeReplay, dir).Wrap(nil), "{}"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRedirectsAreReplayed(t *testing.T) {
	dir := t.TempDir()
	get := func(rt http.RoundTripper) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h/old", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: rt}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return string(b)
	}
	next := roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/old" {
			return &http.Response{StatusCode: 308, Header: http.Header{"Location": {"http://h/new%2Fer?alt=sse"}}, Body: http.NoBody}, nil
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(r.URL.String()))}, nil
	})
	want := get(open(t, tape.ModeRecord, dir).Wrap(next))
	if got := get(open(t, tape.ModeReplay, dir).Wrap(nil)); got != want || got != "http://h/new%2Fer?alt=sse" {
		t.Errorf("replayed %q, recorded %q", got, want)
	}
}

func TestATapeThatCannotWriteFailsLoudly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tape")
	tp, err := tape.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	called := 0
	rt := tp.Wrap(roundTrip(func(*http.Request) (*http.Response, error) {
		called++
		if called == 1 {
			if err := os.RemoveAll(dir); err != nil { // the disk fails while the answer comes
				t.Error(err)
			}
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("x"))}, nil
	}))
	if _, body, err := exchange(t.Context(), t, rt, "{}"); body != "x" || err != nil {
		t.Errorf("the answer that came: %q, %v", body, err)
	}
	if tp.Err() == nil {
		t.Error("the tape knows of no failure")
	}
	_, _, err = exchange(t.Context(), t, rt, "{}")
	if e, ok := model.AsError(err); !ok || e.Retryable() || !strings.Contains(e.Message, "could not be recorded") || called != 1 {
		t.Errorf("the next call: %v, %d calls made", err, called)
	}
}

func TestTapesThatCannotWorkAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		mode tape.Mode
		dir  string
	}{
		"no directory":        {tape.ModeRecord, ""},
		"use record or":       {"rewind", t.TempDir()},
		"no such file":        {tape.ModeReplay, filepath.Join(t.TempDir(), "none")},
		"holds no recordings": {tape.ModeReplay, t.TempDir()},
		"not a directory":     {tape.ModeRecord, file},
	} {
		if _, err := tape.New(c.mode, c.dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestAChangedRecordingIsNotPlayed(t *testing.T) {
	for name, change := range map[string][2]string{
		"its request": {`"a":1`, `"a":2`},
		"its version": {`"tape":1`, `"tape":2`},
		"a member":    {`"tape":1`, `"tape":1,"x":1`},
		"cut short":   {`"status"`, ``},
	} {
		dir := t.TempDir()
		if _, _, err := exchange(t.Context(), t, open(t, tape.ModeRecord, dir).Wrap(answering(strings.NewReader("x"), -1)), `{"a":1}`); err != nil {
			t.Fatal(err)
		}
		file := files(t, dir)[0]
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before, after, ok := strings.Cut(string(b), change[0])
		if !ok {
			t.Fatalf("%s: %s", name, b)
		}
		if err := os.WriteFile(file, []byte(before+change[1]+after), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err = exchange(t.Context(), t, open(t, tape.ModeReplay, dir).Wrap(nil), `{"a":1}`)
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrInvalidRequest || !strings.Contains(e.Message, filepath.Base(file)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
