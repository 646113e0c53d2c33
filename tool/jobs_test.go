package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeProcess ends when told to.
type fakeProcess struct {
	outR, errR *io.PipeReader
	outW, errW *io.PipeWriter
	once       sync.Once
	done       chan struct{}
	status     sandbox.ExitStatus
	kills      int
	mu         sync.Mutex
}

func newFakeProcess() *fakeProcess {
	p := &fakeProcess{done: make(chan struct{})}
	p.outR, p.outW = io.Pipe()
	p.errR, p.errW = io.Pipe()
	return p
}

func (p *fakeProcess) end(st sandbox.ExitStatus) {
	p.once.Do(func() {
		p.status = st
		_ = p.outW.Close()
		_ = p.errW.Close()
		close(p.done)
	})
}

func (p *fakeProcess) PID() int              { return 1 }
func (p *fakeProcess) Stdout() io.ReadCloser { return p.outR }
func (p *fakeProcess) Stderr() io.ReadCloser { return p.errR }
func (p *fakeProcess) Stdin() io.WriteCloser { return nil }
func (p *fakeProcess) Wait() (sandbox.ExitStatus, error) {
	<-p.done
	return p.status, nil
}

func (p *fakeProcess) Kill() error {
	p.mu.Lock()
	p.kills++
	p.mu.Unlock()
	p.end(sandbox.ExitStatus{ExitCode: 143, Signal: "SIGTERM"})
	return nil
}

func startJob(t *testing.T, table *JobTable, p sandbox.Process) Job {
	t.Helper()
	id, err := table.Start(t.Context(), "call-"+fmt.Sprint(len(table.List())), "sleep 1", p)
	if err != nil {
		t.Fatal(err)
	}
	j, ok := table.Get(id)
	if !ok {
		t.Fatalf("no job %s", id)
	}
	return j
}

func TestAJobsOutputAndEndAreReported(t *testing.T) {
	var got []event.JobCompletedPayload
	table := NewJobs(JobLimits{}, func(p event.JobCompletedPayload) { got = append(got, p) })
	p := newFakeProcess()
	j := startJob(t, table, p)
	changed := j.Changed()
	_, _ = io.WriteString(p.outW, "hello ")
	<-changed
	_, _ = io.WriteString(p.errW, "world")
	p.end(sandbox.ExitStatus{ExitCode: 3})
	<-j.Done()
	if data, at, next := j.Read(0); string(data) != "hello world" || at != 0 || next != 11 {
		t.Errorf("read %q at %d, next %d", data, at, next)
	}
	if data, _, _ := j.Read(6); string(data) != "world" {
		t.Errorf("read %q", data)
	}
	exit, running, killed := j.Status()
	if exit.ExitCode != 3 || running || killed {
		t.Errorf("status = %v %v %v", exit, running, killed)
	}
	want := event.JobCompletedPayload{JobID: "job_1", CallID: "call-0", ExitCode: 3, Status: "exited"}
	if len(got) != 1 || got[0] != want {
		t.Errorf("reported %+v", got)
	}
	if err := j.Kill(); err != nil {
		t.Errorf("killing an ended job: %v", err)
	}
	<-j.Changed() // closed at the end, so that nobody waits for more
}

// Fault 17.
func TestJobIdsMeanNothingInAnotherTable(t *testing.T) {
	a, b := NewJobs(JobLimits{}, nil), NewJobs(JobLimits{}, nil)
	j := startJob(t, a, newFakeProcess())
	if _, ok := b.Get(j.ID()); ok {
		t.Error("found in another table")
	}
	if err := a.KillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAJobKeepsABoundedTailOfItsOutput(t *testing.T) {
	table := NewJobs(JobLimits{BufferBytes: 100}, nil)
	p := newFakeProcess()
	j := startJob(t, table, p)
	var all strings.Builder
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		all.WriteString(line)
		_, _ = io.WriteString(p.outW, line)
	}
	p.end(sandbox.ExitStatus{})
	<-j.Done()
	data, at, next := j.Read(0)
	if int(next) != all.Len() || len(data) < 100 || len(data) >= 200 || string(data) != all.String()[at:] {
		t.Errorf("kept %d bytes at %d of %d", len(data), at, next)
	}
	if data, at, _ := j.Read(next + 50); len(data) != 0 || at != next {
		t.Errorf("past the end: %q at %d", data, at)
	}
}

// Fault 16, pr-07: no job outlives its owner.
func TestKillAllEndsEveryJobAndRefusesMore(t *testing.T) {
	var mu sync.Mutex
	status := map[string]string{}
	table := NewJobs(JobLimits{}, func(p event.JobCompletedPayload) {
		mu.Lock()
		defer mu.Unlock()
		status[p.JobID] = p.Status
	})
	done := newFakeProcess()
	first := startJob(t, table, done)
	done.end(sandbox.ExitStatus{})
	<-first.Done()
	for range 3 {
		startJob(t, table, newFakeProcess())
	}
	if err := table.KillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(status) != 4 || status["job_1"] != "exited" || status["job_2"] != "killed" || status["job_4"] != "killed" {
		t.Errorf("status = %v", status)
	}
	if _, err := table.Start(t.Context(), "c", "x", newFakeProcess()); !errors.Is(err, ErrJobsClosed) {
		t.Errorf("start after the end: %v", err)
	}
}

func TestTooManyJobsAreRefusedAndEndedOnesForgotten(t *testing.T) {
	table := NewJobs(JobLimits{Running: 2, Kept: 1}, nil)
	var procs []*fakeProcess
	for range 2 {
		p := newFakeProcess()
		procs = append(procs, p)
		startJob(t, table, p)
	}
	if _, err := table.Start(t.Context(), "c", "x", newFakeProcess()); !errors.Is(err, ErrTooManyJobs) {
		t.Errorf("a third job: %v", err)
	}
	for _, j := range table.List() {
		_ = j.Kill()
	}
	startJob(t, table, newFakeProcess())
	if _, ok := table.Get("job_1"); ok || len(table.List()) != 2 {
		t.Errorf("jobs = %d", len(table.List()))
	}
	if err := table.KillAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if procs[0].kills == 0 {
		t.Error("what a job left running was not ended")
	}
}

// stuckProcess does not end until it is released, whatever Kill does.
type stuckProcess struct{ *fakeProcess }

func (stuckProcess) Kill() error { return nil }

func TestKillAllStopsWaitingWithItsContext(t *testing.T) {
	table := NewJobs(JobLimits{}, nil)
	p := stuckProcess{newFakeProcess()}
	j := startJob(t, table, p)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no more time")
	cancel(cause)
	if err := table.KillAll(ctx); !errors.Is(err, cause) {
		t.Errorf("error = %v", err)
	}
	p.end(sandbox.ExitStatus{})
	<-j.Done()
}
