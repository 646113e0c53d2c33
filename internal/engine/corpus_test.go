package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// told is a dispatcher that tells of each segment that ended.
type told struct {
	engine.Dispatcher
	ended chan string
}

func (d told) Start(body func(context.Context, store.Wake)) error {
	return d.Dispatcher.Start(func(ctx context.Context, w store.Wake) {
		body(ctx, w)
		d.ended <- w.RunID
	})
}

// A worker hangs in a call for longer than anybody waits for it, and another one takes its run over. When the first one
// comes back, what it did is not committed, and nobody ran the call again.
func TestAWorkerThatLostItsRunCommitsNothingAndItsCallIsNotRunAgain(t *testing.T) {
	var o engine.Options
	first := told{ended: make(chan string, 1)}
	r := newRig(t, func(have *engine.Options) {
		o = *have
		first.Dispatcher = have.Dispatcher
		have.Dispatcher = first
	})
	gate := filepath.Join(r.workspace, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	run := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"bash","in":{"command":"echo line >> log; echo going; read x < gate; echo late >> log","timeout_seconds":600}},{"text":"went on"}]`)})
	r.until(run.ID, has(event.ToolOutputDelta))

	o.Dispatcher = engine.NewLocalDispatcher(0, nil)
	second, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(bg); err != nil { // takes over what has no living owner
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Shutdown(bg); err != nil {
			t.Error(err)
		}
	})
	all := r.finish(run.ID)
	p := payload[event.ToolCallCompletedPayload](t, all, event.ToolCallCompleted)
	if !p.Interrupted || !strings.Contains(p.Output, "outcome unknown") {
		t.Errorf("the call of the lost worker: %+v", p)
	}
	if out := payload[event.RunCompletedPayload](t, all, event.RunCompleted); out.Output != "went on" {
		t.Errorf("%+v", out)
	}

	// The first worker comes back.
	f, err := os.OpenFile(gate, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := fmt.Fprintln(f, "x"); err != nil {
		t.Fatal(err)
	}
	<-first.ended
	again, err := r.store.Events(bg, run.ID, 0, 0)
	if err != nil || len(again) != len(all) {
		t.Errorf("the log has %d events, it had %d at the run's end; %v", len(again), len(all), err)
	}
	if n := strings.Count(r.read("log"), "line"); n != 1 {
		t.Errorf("the command ran %d times", n)
	}
}

// What a run did before it asked is not done again when the answer comes, however often it asks, and each answer
// belongs to its question.
func TestWorkBeforeAQuestionIsDoneOnceAndEachAnswerIsItsOwn(t *testing.T) {
	r := newRig(t, nil)
	var steps []string
	for i := 1; i <= 3; i++ {
		steps = append(steps, fmt.Sprintf(`{"tools":[{"tool":"bash","in":{"command":"echo %d >> log"}},{"tool":"AskUserQuestion","in":{"questions":[{"question":"Which?","header":"Pick","options":[{"label":"a","description":"x"},{"label":"b","description":"y"}]}]}}]}`, i))
	}
	run := r.submit(engine.RunRequest{Prompt: script("[" + strings.Join(steps, ",") + `,{"text":"done"}]`)})
	asked := map[string]string{} // answers by call
	for i := 1; i <= 3; i++ {
		r.until(run.ID, func(all []event.Event) bool { return count(all, event.RunWaitingForUser) == i })
		if i == 2 { // over a restart too
			r.close()
			r.open()
		}
		q, err := r.engine.PendingQuestion(bg, r.me, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if asked[q.CallID] != "" {
			t.Fatalf("call %s asks again", q.CallID)
		}
		asked[q.CallID] = fmt.Sprintf("answer %d", i)
		if _, err := r.engine.Answer(bg, r.me, run.ID, map[string][]string{"Which?": {asked[q.CallID]}}); err != nil {
			t.Fatal(err)
		}
	}
	all := r.finish(run.ID)
	if got := r.read("log"); got != "1\n2\n3\n" {
		t.Errorf("log %q", got)
	}
	if n := count(all, event.RunResumed); n != 3 {
		t.Errorf("resumed %d times", n)
	}
	items, err := r.store.Transcript(bg, engine.DefaultTenant, run.ConversationID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, row := range items {
		it, err := native.DecodeItem(row.Data)
		if err != nil {
			t.Fatal(err)
		}
		if want := asked[it.CallID]; it.Kind == native.KindResult && want != "" {
			read++
			if !strings.Contains(it.Output, want) {
				t.Errorf("the model read %q for %q", it.Output, want)
			}
		}
	}
	if read != 3 {
		t.Errorf("the model read %d answers", read)
	}
}

// Two runs work in one folder. A write of what was read before the other one's edit is refused, and the edit stays.
func TestAWriteFromAReadBeforeAnotherRunsEditIsStale(t *testing.T) {
	r := newRig(t, nil)
	r.file("f", "one\ntwo\n")
	a := r.submit(engine.RunRequest{Prompt: script(`[
		{"tool":"read","in":{"path":"f"}},
		{"tool":"AskUserQuestion","in":{"questions":[{"question":"Go?","header":"Go","options":[{"label":"y","description":"x"},{"label":"n","description":"y"}]}]}},
		{"tool":"write","in":{"path":"f","content":"mine\n"}},
		{"tool":"write","in":{"path":"new","content":"fresh\n"}},
		{"tool":"read","in":{"path":"f"}},
		{"tool":"edit","in":{"path":"f","old_text":"one","new_text":"1"}},
		{"text":"done"}]`)})
	r.until(a.ID, has(event.RunWaitingForUser))
	b := r.submit(engine.RunRequest{Prompt: script(`[{"tool":"read","in":{"path":"f"}},{"tool":"edit","in":{"path":"f","old_text":"two","new_text":"TWO"}},{"text":"done"}]`)})
	r.finish(b.ID)
	if _, err := r.engine.Answer(bg, r.me, a.ID, map[string][]string{"Go?": {"y"}}); err != nil {
		t.Fatal(err)
	}
	all := r.finish(a.ID)
	var codes []string
	for _, e := range all {
		if e.Type != event.ToolCallCompleted {
			continue
		}
		var p event.ToolCallCompletedPayload
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatal(err)
		}
		if p.Tool != "AskUserQuestion" {
			codes = append(codes, p.Tool+":"+p.Error)
		}
	}
	if got := strings.Join(codes, " "); got != "read: write:stale write: read: edit:" {
		t.Errorf("%s\n%s", got, dump(all))
	}
	if r.read("f") != "1\nTWO\n" || r.read("new") != "fresh\n" {
		t.Errorf("f %q, new %q", r.read("f"), r.read("new"))
	}
	if got, err := r.engine.Run(bg, r.me, a.ID); err != nil || got.Status != store.StatusCompleted {
		t.Errorf("%+v, %v", got.Status, err)
	}
}
