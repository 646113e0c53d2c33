package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/apiclient"
	"github.com/harness-go/harness/internal/engine"
)

// A hundred subscribers, one slow and a third of them coming back again and again, read the same complete log of a run
// that streams 5,000 deltas while its daemon is stopped and started again.
func TestEverySubscriberReadsTheSameLogOverARestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := settings(t, "HARNESS_AUTH_DISABLED=true")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	serve := func(l net.Listener) (stop func()) {
		n, err := Open(t.Context(), Options{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		sctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = n.Serve(sctx, l) }()
		return func() {
			end()
			<-done
			cctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := n.Close(cctx); err != nil {
				t.Error(err)
			}
		}
	}
	stop := serve(l)
	client, err := apiclient.New(apiclient.Options{BaseURL: "http://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	// The daemon is stopped while the answer streams; the attempt is retracted and made again after the start.
	words := strings.TrimSpace(strings.Repeat("word ", 5000))
	run, err := client.CreateRun(ctx, engine.RunRequest{Prompt: fmt.Sprintf(
		`@@[{"text":%q,"tool":"AskUserQuestion","in":{"questions":[{"question":"Go on?","header":"Go","options":[{"label":"y","description":"yes"},{"label":"n","description":"no"}]}]}},{"text":"done"}]@@`, words)}, "")
	if err != nil {
		t.Fatal(err)
	}
	const subscribers = 100
	logs := make([][]int64, subscribers)
	half, slowGo := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	follow := func(i int) {
		var after int64
		for {
			n := 0
			for e, err := range client.Events(ctx, run.RunID, after) {
				if err != nil {
					t.Errorf("subscriber %d after %d: %v", i, after, err)
					return
				}
				logs[i] = append(logs[i], e.Seq)
				after = e.Seq
				if e.Seq == 2500 {
					once.Do(func() { close(half) })
					if i == 0 {
						<-slowGo
					}
				}
				if e.Type.Terminal() {
					return
				}
				if n++; i%3 == 1 && n == 500+i {
					break // goes away, and comes back with its cursor
				}
			}
		}
	}
	for i := range subscribers {
		wg.Go(func() { follow(i) })
	}
	<-half
	stop()
	l, err = net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	stop = serve(l)
	defer func() { stop() }()
	for e, err := range client.Events(ctx, run.RunID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.RunWaitingForUser {
			break
		}
	}
	if err := client.Answer(ctx, run.RunID, map[string][]string{"Go on?": {"y"}}); err != nil {
		t.Fatal(err)
	}
	close(slowGo)
	wg.Wait()
	for i, got := range logs {
		if len(got) < 5000 || got[0] != 1 || !slices.Equal(got, logs[0]) || int64(len(got)) != got[len(got)-1] {
			t.Fatalf("subscriber %d read %d events, the first one %d", i, len(got), len(logs[0]))
		}
	}
}
