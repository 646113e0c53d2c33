package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// killDir names the state directory for the child process of SurvivesKill.
const killDir = "HARNESS_STORETEST_DIR"

// SurvivesKill tests that the death of the process at any point loses nothing that was acknowledged. It must be called
// directly by a test function of its own: it starts the test binary again with that test only, lets it write, and
// kills it.
func SurvivesKill(t *testing.T, open Open) {
	if dir := os.Getenv(killDir); dir != "" {
		writeUntilKilled(t, open(t, dir, nil))
		return
	}
	dir := t.TempDir()
	epoch := int64(1)
	acked := int64(0)
	for round, after := range []int{1, 40, 400, 3} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), killDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); {
			rest, ok := strings.CutPrefix(lines.Text(), "acked ")
			if !ok {
				continue
			}
			head, err := strconv.ParseInt(rest, 10, 64)
			if err != nil {
				t.Fatalf("the child wrote %q", lines.Text())
			}
			acked = max(acked, head)
			if n++; n == after {
				// The rest of the pipe is read after the kill too: what stands in it was acknowledged.
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		err = cmd.Wait()
		timer.Stop()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Success() || acked == 0 {
			t.Fatalf("round %d: the child was not killed in the middle of its work: %v, %d acknowledged", round, err, acked)
		}
		checkSurvivors(t, open(t, dir, nil), &epoch, acked)
	}
}

const killRun = "run_killed"

// writeUntilKilled streams batches of three events and tells of each that was acknowledged.
func writeUntilKilled(t *testing.T, s store.Store) {
	ctx := t.Context()
	r, err := s.GetRun(ctx, killRun)
	if errors.Is(err, store.ErrNotFound) {
		var c store.Created
		c, err = s.CreateRun(ctx, store.NewRun{ID: killRun, TenantID: tenant, ConversationID: "cv_k", Lease: true})
		r = c.Run
	}
	if err != nil {
		t.Fatal(err)
	}
	receipts := make(chan store.Receipt, 64)
	go func() {
		for i := 0; ; i++ {
			text := fmt.Sprintf("%d %s", i, strings.Repeat("x", i%3000))
			receipts <- s.Submit(store.Batch{RunID: r.ID, Epoch: r.Epoch, State: []byte(strconv.Itoa(i)),
				Events: []store.NewEvent{delta(r, text+"a"), delta(r, text+"b"), delta(r, text+"c")}})
		}
	}()
	for rc := range receipts {
		head, err := rc.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("acked %d\n", head)
	}
}

// checkSurvivors opens what the killed process left: whole batches, no gap, everything acknowledged.
func checkSurvivors(t *testing.T, s store.Store, epoch *int64, acked int64) {
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := t.Context()
	r, err := s.GetRun(ctx, killRun)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != store.StatusRunning || r.Epoch != *epoch {
		t.Fatalf("the run is %s with epoch %d, want running with %d", r.Status, r.Epoch, *epoch)
	}
	if r.Head < acked {
		t.Fatalf("%d events were acknowledged, %d are there", acked, r.Head)
	}
	if (r.Head-1)%3 != 0 {
		t.Fatalf("head %d: a part of a batch was written", r.Head)
	}
	seq := int64(0)
	for {
		page, err := s.Events(ctx, killRun, seq, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			if seq++; e.Seq != seq {
				t.Fatalf("seq %d follows %d", e.Seq, seq-1)
			}
			if seq == 1 {
				continue
			}
			p, err := event.Decode(e.Type, e.Payload)
			if err != nil {
				t.Fatal(err)
			}
			want := "abc"[(seq-2)%3 : (seq-2)%3+1]
			if text := p.(*event.AssistantMessageDeltaPayload).Content; !strings.HasSuffix(text, want) {
				t.Fatalf("event %d ends with %q, want %q", seq, text[len(text)-1:], want)
			}
		}
		if len(page) == 0 {
			break
		}
	}
	if seq != r.Head {
		t.Fatalf("%d events, head %d", seq, r.Head)
	}
	runs, err := s.Recover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	*epoch++
	if len(runs) != 1 || runs[0].Epoch != *epoch {
		t.Fatalf("recovered %+v", runs)
	}
	rc := s.Submit(store.Batch{RunID: killRun, Epoch: *epoch - 1, Events: []store.NewEvent{delta(r, "stale")}})
	if _, err := rc.Wait(ctx); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("the dead owner's epoch: %v", err)
	}
	t.Logf("%d events, %d acknowledged", r.Head, acked)
}
