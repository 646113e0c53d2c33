package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apiclient"
	"github.com/harness-go/harness/internal/engine"
)

// started makes a run of the fake engine.
func started(t testing.TB, f *fakeRuns) string {
	t.Helper()
	r, _, err := f.Submit(t.Context(), engine.Local(), engine.RunRequest{Prompt: "p"}, "")
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func deltas(n int) []event.Type {
	types := make([]event.Type, n)
	for i := range types {
		types[i] = event.AssistantMessageDelta
	}
	return types
}

// get opens a stream over a transport.
func get(ctx context.Context, rt http.RoundTripper, url string, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return rt.RoundTrip(req)
}

// seqs reads the ids of a stream until it ends or has limit of them.
func seqs(r io.Reader, limit int) (ids []int64, last string) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 8<<20)
	for sc.Scan() {
		if id, ok := strings.CutPrefix(sc.Text(), "id: "); ok {
			n, _ := strconv.ParseInt(id, 10, 64)
			ids = append(ids, n)
		}
		if ev, ok := strings.CutPrefix(sc.Text(), "event: "); ok {
			last = ev
		}
		if sc.Text() == "" && len(ids) >= limit {
			break
		}
	}
	return ids, last
}

func contiguous(from int64, ids []int64) error {
	for i, id := range ids {
		if id != from+int64(i) {
			return fmt.Errorf("id %d at place %d, want %d", id, i, from+int64(i))
		}
	}
	return nil
}

func TestAStreamHasTheFrameAndHeadersOfItsContract(t *testing.T) {
	s, f := open(t)
	id := started(t, f)
	f.emit(id, event.RunStarted, event.RunCompleted)
	w := ask(s, "GET", "/v1/runs/"+id+"/events", "")
	h := w.Header()
	if w.Code != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-cache, no-transform" ||
		h.Get("X-Accel-Buffering") != "no" || h.Get("Content-Encoding") != "" {
		t.Fatalf("%d %v", w.Code, h)
	}
	golden(t, "stream.golden", w.Body.Bytes())
}

func TestACursorStartsAfterItsEventOrIsRefused(t *testing.T) {
	s, f := open(t)
	id, other := started(t, f), started(t, f)
	f.emit(id, event.RunStarted, event.AssistantMessage, event.RunCompleted) // 1 to 4
	f.emit(other, event.RunStarted)
	path := "/v1/runs/" + id + "/events"
	for _, c := range []struct {
		query, header string
		want          int // events, or the status of a refusal
	}{
		{"", "", 4}, {"?after=0", "", 4}, {"?after=2", "", 2}, {"", "3", 1}, {"", id + ":1", 3}, {"?after=" + id + ":3", "", 1},
		{"?after=2", "2", 2}, {"?after=2", id + ":2", 2}, {"", "4", 204}, {"?after=4", "", 204},
		{"?after=1", "2", 400}, {"?after=5", "", 400}, {"", "99999999", 400}, {"?after=" + other + ":1", "", 400}, {"", other + ":1", 400},
		{"", "x", 400}, {"?after=-1", "", 400}, {"?after=1.5", "", 400}, {"?after=%2B1", "", 400}, {"?after=9223372036854775808", "", 400}, {"?after=:1", "", 400},
	} {
		w := ask(s, "GET", path+c.query, "", "Last-Event-ID", c.header)
		switch {
		case c.want == 204:
			if w.Code != 204 || w.Body.Len() != 0 {
				t.Errorf("%+v: %d %s", c, w.Code, w.Body)
			}
		case c.want >= 400:
			if p := problem(t, w); p.Code != api.CodeInvalidCursor {
				t.Errorf("%+v: %+v", c, p)
			}
		default:
			ids, last := seqs(w.Body, 100)
			if err := contiguous(int64(5-c.want), ids); err != nil || len(ids) != c.want || last != "run.completed" {
				t.Errorf("%+v: %v, last %s, %v", c, ids, last, err)
			}
		}
	}
	if w := ask(s, "HEAD", path, ""); w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("HEAD: %d %q", w.Code, w.Body)
	}
	if n := f.watching(id); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

func TestWhatIsCommittedBetweenReadsIsNotMissed(t *testing.T) {
	s, f := open(t)
	for range 1000 {
		id := started(t, f)
		reads := 0
		f.afterEvents = func(string) {
			// Between the read that found nothing more and the wait: two events and, a read later, the terminal one.
			switch reads++; reads {
			case 1:
				f.emit(id, event.RunStarted, event.AssistantMessage)
			case 2:
				f.emit(id, event.AssistantMessage, event.RunCompleted)
			}
		}
		ids, last := seqs(ask(s, "GET", "/v1/runs/"+id+"/events", "").Body, 100)
		if err := contiguous(1, ids); err != nil || len(ids) != 5 || last != "run.completed" {
			t.Fatalf("%v, last %s, %v", ids, last, err)
		}
	}
}

func TestAnIdleStreamBeatsAndEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := open(t)
		id := started(t, f)
		ctx, cancel := context.WithCancel(t.Context())
		res, err := get(ctx, apiclient.InProcess(s), "http://localhost/v1/runs/"+id+"/events")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		r := bufio.NewReader(res.Body)
		beats := 0
		for beats < 3 {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, ":") {
				beats++
			}
		}
		if took := time.Since(begun); took != 45*time.Second {
			t.Fatalf("three beats took %s", took)
		}
		f.emit(id, event.RunStarted) // puts the next beat off
		time.Sleep(14 * time.Second)
		synctest.Wait()
		cancel()
		rest, _ := io.ReadAll(r)
		if bytes.Contains(rest, []byte("\n:")) || !bytes.Contains(rest, []byte("event: run.started")) {
			t.Fatalf("after the event came %q", rest)
		}
		synctest.Wait()
		if n := f.watching(id); n != 0 || s.streams.Load() != 0 {
			t.Fatalf("%d watches, %d streams are left", n, s.streams.Load())
		}
	})
}

func TestAStreamEndsWithItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, keys := locked(t)
		id := started(t, f)
		plain := keys.add(t, "default", engine.ScopeRunsRead)
		res, err := get(t.Context(), apiclient.InProcess(s), "http://localhost/v1/runs/"+id+"/events", "Authorization", "Bearer "+plain)
		if err != nil {
			t.Fatal(err)
		}
		k, at := keys.get(plain), time.Now()
		k.RevokedAt = &at
		keys.put(k)
		body := readAll(t, res.Body)
		if !strings.Contains(body, ": the API key is no longer valid") || time.Since(at) > 31*time.Second {
			t.Fatalf("after %s: %q", time.Since(at), body)
		}
	})
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	f := newFake()
	s, err := New(Options{Runs: f, AuthDisabled: true, Limits: Limits{Streams: 1}})
	if err != nil {
		t.Fatal(err)
	}
	id := started(t, f)
	res, err := get(t.Context(), apiclient.InProcess(s), "http://localhost/v1/runs/"+id+"/events")
	if err != nil {
		t.Fatal(err)
	}
	if p := problem(t, ask(s, "GET", "/v1/runs/"+id+"/events", "")); p.Code != api.CodeTooManyStreams {
		t.Fatalf("%+v", p)
	}
	f.emit(id, event.RunCompleted)
	readAll(t, res.Body)
	if w := ask(s, "GET", "/v1/runs/"+id+"/events", ""); w.Code != 200 {
		t.Fatalf("%s", w.Body)
	}
}

func TestEverySubscriberReadsTheSameCompleteLog(t *testing.T) {
	const subscribers, total = 100, 5000
	s, f := open(t)
	base := serve(t, s)
	id := started(t, f)
	url := base + "/v1/runs/" + id + "/events"
	rt := &http.Transport{MaxIdleConnsPerHost: subscribers}
	defer rt.CloseIdleConnections()

	slowGo := make(chan struct{}) // closed when the writer is done: the slow one reads only then
	var ready, all sync.WaitGroup
	errs := make(chan error, subscribers)
	follow := func(n int) error {
		var ids []int64
		last, isReady := "", false
		for last != "run.completed" {
			header := []string{}
			if len(ids) > 0 {
				header = []string{"Last-Event-ID", strconv.FormatInt(ids[len(ids)-1], 10)}
			}
			res, err := get(t.Context(), rt, url, header...)
			if err != nil || res.StatusCode != 200 {
				return fmt.Errorf("subscriber %d: %v %v", n, res, err)
			}
			if !isReady {
				isReady = true
				ready.Done()
			}
			limit := total * 2
			switch {
			case n == 0:
				<-slowGo
			case n%3 == 0: // hangs up after every thousand events and comes back
				limit = 1000
			}
			var got []int64
			got, last = seqs(res.Body, limit)
			_ = res.Body.Close()
			ids = append(ids, got...)
		}
		if err := contiguous(1, ids); err != nil || len(ids) != total {
			return fmt.Errorf("subscriber %d: %d events, %v", n, len(ids), err)
		}
		return nil
	}
	for n := range subscribers {
		ready.Add(1)
		all.Add(1)
		go func() {
			defer all.Done()
			if err := follow(n); err != nil {
				errs <- err
			}
		}()
	}
	ready.Wait()
	for range 49 {
		f.emit(id, deltas(102)...)
	}
	f.emit(id, append(deltas(total-1-49*102-1), event.RunCompleted)...)
	close(slowGo)
	all.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func TestAStalledReaderIsCutOffAloneAndComesBack(t *testing.T) {
	f := newFake()
	s, err := New(Options{Runs: f, AuthDisabled: true, Limits: Limits{Stall: 3 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	base := serve(t, s)
	id := started(t, f)
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET /v1/runs/%s/events HTTP/1.1\r\nHost: localhost\r\n\r\n", id); err != nil {
		t.Fatal(err)
	}
	// Enough to fill every buffer between us, then the server waits in vain. The other reader is not held up.
	f.emit(id, append(deltas(100_000), event.RunCompleted)...)
	ids, _ := seqs(mustGet(t, base+"/v1/runs/"+id+"/events"), 1<<30)
	if err := contiguous(1, ids); err != nil || len(ids) != 100_002 {
		t.Fatalf("the other reader got %d events, %v", len(ids), err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for s.streams.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the stalled reader was not cut off")
		}
		time.Sleep(5 * time.Millisecond) // polling the server's own count
	}
	raw, _ := io.ReadAll(conn)
	got, _ := seqs(bytes.NewReader(raw[:bytes.LastIndex(raw, []byte("\n\nid: "))+2]), 1<<30)
	if err := contiguous(1, got); err != nil || len(got) == 0 || len(got) == len(ids) {
		t.Fatalf("the stalled reader got %d events, %v", len(got), err)
	}
	ids, last := seqs(mustGet(t, fmt.Sprintf("%s/v1/runs/%s/events?after=%d", base, id, len(got))), 1<<30)
	if err := contiguous(int64(len(got)+1), ids); err != nil || last != "run.completed" {
		t.Fatalf("after coming back: %v, last %s", err, last)
	}
}

func mustGet(t *testing.T, url string) io.Reader {
	t.Helper()
	res, err := get(t.Context(), http.DefaultTransport, url)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res.Body
}

func TestAStreamOutlivesTheTimeLimitsOfRequests(t *testing.T) {
	f := newFake()
	s, err := New(Options{Runs: f, AuthDisabled: true, Limits: Limits{
		Read: 50 * time.Millisecond, ReadHeader: 50 * time.Millisecond, Handler: 50 * time.Millisecond, Idle: 50 * time.Millisecond,
		Heartbeat: 20 * time.Millisecond,
	}})
	if err != nil {
		t.Fatal(err)
	}
	base := serve(t, s)
	id := started(t, f)
	r := bufio.NewReader(mustGet(t, base+"/v1/runs/"+id+"/events"))
	for beats := 0; beats < 20; { // 400 ms
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %d beats: %v", beats, err)
		}
		if strings.HasPrefix(line, ":") {
			beats++
		}
	}
	f.emit(id, event.RunCompleted)
	if _, last := seqs(r, 100); last != "run.completed" {
		t.Fatalf("last %s", last)
	}

	// A client that sends its headers and then nothing is cut at the read limit.
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	raw, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(raw, []byte("408")) || !bytes.Contains(raw, []byte(`"code":"read_timeout"`)) {
		t.Fatalf("%q, %v", raw, err)
	}
}

func TestShutdownEndsStreamsWithAHandover(t *testing.T) {
	s, f := open(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	id := started(t, f)
	f.emit(id, deltas(10)...)
	var bodies []io.Reader
	for range 20 {
		bodies = append(bodies, mustGet(t, "http://"+l.Addr().String()+"/v1/runs/"+id+"/events"))
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not end")
	}
	for _, b := range bodies {
		raw := readAll(t, b) // an error here would mean that the stream was cut, not ended
		if !strings.HasSuffix(raw, ": server is shutting down\n\n") || strings.Count(raw, "\nid: ") != 11 {
			t.Fatalf("%q", raw)
		}
	}
}

func TestAStreamThatCannotGoOnSaysSoAndShowsNoHole(t *testing.T) {
	s, f := open(t)
	id := started(t, f)
	f.emit(id, deltas(5)...)
	f.logs[id] = append(f.logs[id][:3], f.logs[id][4:]...)
	ids, _ := seqs(ask(s, "GET", "/v1/runs/"+id+"/events", "").Body, 100)
	if err := contiguous(1, ids); err != nil || len(ids) > 3 {
		t.Fatalf("%v, %v", ids, err)
	}
}

// BenchmarkStream is one subscriber that reads a log of 5,000 events.
func BenchmarkStream(b *testing.B) {
	s, f := open(b)
	id := started(b, f)
	f.emit(id, append(deltas(4998), event.RunCompleted)...)
	base := serve(b, s)
	b.ReportAllocs()
	for b.Loop() {
		res, err := get(b.Context(), http.DefaultTransport, base+"/v1/runs/"+id+"/events")
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if err != nil || n < 500_000 {
			b.Fatal(n, err)
		}
		_ = res.Body.Close()
	}
}

// BenchmarkFrames is the writing of a page of 256 events.
func BenchmarkFrames(b *testing.B) {
	f := newFake()
	id := started(b, f)
	f.emit(id, deltas(255)...)
	page := f.logs[id]
	out := newFrames(discard{}, time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		for i := range page {
			if err := out.event(&page[i]); err != nil {
				b.Fatal(err)
			}
		}
		if err := out.flush(); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Flush()                      {}
