package builtin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/harness-go/harness/tool"
)

func (s *session) background(command string) string {
	s.t.Helper()
	r := decoded[startedResult](s.t, s.call("bash", args{"command": command, "run_in_background": true}))
	if !r.Started || r.ShellID == "" {
		s.t.Fatalf("%+v", r)
	}
	return r.ShellID
}

func TestABackgroundJobIsFollowedToItsEnd(t *testing.T) {
	s := newSession(t, false)
	id := s.background("echo ready; while [ ! -e go ]; do sleep 0.05; done; echo done >&2; exit 4")
	r := decoded[jobResult](t, s.call("job_output", args{"shell_id": id, "wait": 60}))
	if r.Output != "ready\n" || r.Status != "running" || r.ExitCode != nil {
		t.Errorf("%+v", r)
	}
	if r := decoded[jobResult](t, s.call("job_output", args{"shell_id": id, "wait": 0})); r.Output != "" || r.Status != "running" {
		t.Errorf("nothing new: %+v", r)
	}
	s.write("go", "")
	var text strings.Builder
	for r.Status == "running" {
		r = decoded[jobResult](t, s.call("job_output", args{"shell_id": id, "wait": 60}))
		text.WriteString(r.Output)
	}
	if text.String() != "done\n" || r.Status != "exited" || *r.ExitCode != 4 {
		t.Errorf("%q, %+v", text.String(), r)
	}
	if r := decoded[jobResult](t, s.call("job_output", args{"shell_id": id, "cursor": 0})); r.Output != "ready\ndone\n" {
		t.Errorf("from the start: %+v", r)
	}
}

// Fault 17.
func TestAnotherSessionsJobIsNotFound(t *testing.T) {
	a, b := newSession(t, false), newSession(t, false)
	id := a.background("sleep 300")
	refused(t, b.call("job_output", args{"shell_id": id}), tool.CodeNotFound, "shell_id")
	refused(t, b.call("job_kill", args{"shell_id": id}), tool.CodeNotFound, "shell_id")
}

func TestJobKillEndsTheTree(t *testing.T) {
	s := newSession(t, false)
	id := s.background("echo pid $$; (echo child $BASHPID; sleep 300) & wait")
	var text string
	for !strings.Contains(text, "child") || !strings.Contains(text, "pid") {
		text += decoded[jobResult](t, s.call("job_output", args{"shell_id": id, "wait": 60})).Output
	}
	if r := decoded[jobResult](t, s.call("job_kill", args{"shell_id": id})); r.Status != "killed" || r.ExitCode == nil {
		t.Errorf("%+v", r)
	}
	gone(t, pidIn(t, text, "pid"))
	gone(t, pidIn(t, text, "child"))
	if r := decoded[jobResult](t, s.call("job_kill", args{"shell_id": id})); r.Status != "killed" {
		t.Errorf("a second kill: %+v", r)
	}
}

func TestAJobOutlivesItsCallButNotItsTimeout(t *testing.T) {
	s := newSession(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	res, err := s.try(ctx, "bash", args{"command": "sleep 300", "run_in_background": true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	kept, _ := s.jobs.Get(decoded[startedResult](t, res).ShellID)
	res = s.call("bash", args{"command": "sleep 300", "run_in_background": true, "timeout_seconds": 1})
	timed, _ := s.jobs.Get(decoded[startedResult](t, res).ShellID)
	<-timed.Done()
	if _, _, killed := timed.Status(); !killed {
		t.Error("the job with a timeout was not killed")
	}
	if _, running, _ := kept.Status(); !running {
		t.Error("the job ended with the call that started it")
	}
}

func TestAFullJobTableIsAConflictAndLeavesNoProcess(t *testing.T) {
	s := newSession(t, false)
	jobs := tool.NewJobs(tool.JobLimits{Running: 1}, nil)
	s.env.Jobs = jobs
	s.background("sleep 300")
	refused(t, s.call("bash", args{"command": "sleep 300", "run_in_background": true}), tool.CodeConflict, "job_kill")
	if err := jobs.KillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWaitingForAJobEndsWithTheContext(t *testing.T) {
	s := newSession(t, false)
	id := s.background("sleep 300")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("run cancelled")
	go cancel(cause)
	if _, err := s.try(ctx, "job_output", args{"shell_id": id, "wait": 300}); !errors.Is(err, cause) {
		t.Errorf("error = %v", err)
	}
}

// The newest output comes first, the skipped part is readable, and no page splits a rune.
func TestMuchJobOutputIsPaged(t *testing.T) {
	s := newSession(t, false)
	text := strings.Repeat("語", 20_000)
	s.write("cjk", text)
	id := s.background("cat cjk")
	job, _ := s.jobs.Get(id)
	<-job.Done()
	newest := decoded[jobResult](t, s.call("job_output", args{"shell_id": id}))
	if len(newest.Output) > defaultPage || int(newest.Skipped)+len(newest.Output) != len(text) || newest.Invalid {
		t.Errorf("%d bytes, %d skipped, %v", len(newest.Output), newest.Skipped, newest.Invalid)
	}
	var b strings.Builder
	for a := (args{"shell_id": id, "cursor": 0}); ; {
		r := decoded[jobResult](t, s.call("job_output", a))
		if r.Invalid || !utf8.ValidString(r.Output) || len(r.Output) > defaultPage {
			t.Fatal("a bad page")
		}
		b.WriteString(r.Output)
		if !r.More {
			break
		}
		a["cursor"] = r.NextCursor
	}
	if b.String() != text {
		t.Error("the pages are not the output")
	}
}

func TestLostJobOutputIsCounted(t *testing.T) {
	s := newSession(t, false)
	jobs := tool.NewJobs(tool.JobLimits{BufferBytes: 100}, nil)
	s.env.Jobs = jobs
	s.write("cjk", strings.Repeat("語", 1000))
	id := s.background("cat cjk")
	job, _ := jobs.Get(id)
	<-job.Done()
	r := decoded[jobResult](t, s.call("job_output", args{"shell_id": id}))
	if r.Lost == 0 || r.Invalid || r.NextCursor != 3000 || strings.Trim(r.Output, "語") != "" {
		t.Errorf("%+v", r)
	}
}
