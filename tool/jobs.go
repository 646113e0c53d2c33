package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/sandbox"
)

// JobLimits bound a JobTable. Zero fields take the defaults.
type JobLimits struct {
	Running     int // jobs that run at the same time; 16
	Kept        int // ended jobs that can still be read; 64
	BufferBytes int // output kept of each job, the newest; 1 MiB
}

// JobTable is the Jobs of one session. Its ids, "job_1" and so on, mean nothing in another table. It owns the
// processes that it was given: each of them is read, waited for and, when its command ends, cleared of what it left
// running; KillAll ends them all. Safe for concurrent use.
type JobTable struct {
	limits JobLimits
	onEnd  func(event.JobCompletedPayload)

	mu     sync.Mutex
	next   int
	order  []*job // oldest first
	closed bool
	wg     sync.WaitGroup
}

var (
	_ Jobs = (*JobTable)(nil)
	_ Job  = (*job)(nil)
)

// Errors of JobTable.Start.
var (
	ErrTooManyJobs = errors.New("too many background jobs are running")
	ErrJobsClosed  = errors.New("the session has ended: no more background jobs")
)

// NewJobs makes a table. onEnd, which may be nil, is called once for each job after it has ended, from the job's own
// goroutine and before the job's Done is closed; it must not wait for the table.
func NewJobs(limits JobLimits, onEnd func(event.JobCompletedPayload)) *JobTable {
	if limits.Running <= 0 {
		limits.Running = 16
	}
	if limits.Kept <= 0 {
		limits.Kept = 64
	}
	if limits.BufferBytes <= 0 {
		limits.BufferBytes = 1 << 20
	}
	return &JobTable{limits: limits, onEnd: onEnd}
}

// Start takes over a process. After an error the process still belongs to the caller.
func (t *JobTable) Start(_ context.Context, callID, command string, p sandbox.Process) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return "", ErrJobsClosed
	}
	running := 0
	for _, j := range t.order {
		if _, r, _ := j.Status(); r {
			running++
		}
	}
	if running >= t.limits.Running {
		return "", fmt.Errorf("%w: %d of %d", ErrTooManyJobs, running, t.limits.Running)
	}
	t.next++
	j := &job{
		id: "job_" + strconv.Itoa(t.next), callID: callID, command: command, proc: p,
		limit: t.limits.BufferBytes, running: true, changed: make(chan struct{}), done: make(chan struct{}),
	}
	t.order = append(t.order, j)
	t.prune()
	t.wg.Go(func() { j.run(t.onEnd) })
	return j.id, nil
}

// prune forgets the oldest ended jobs beyond the bound.
func (t *JobTable) prune() {
	ended := 0
	for _, j := range t.order {
		if _, running, _ := j.Status(); !running {
			ended++
		}
	}
	kept := t.order[:0]
	for _, j := range t.order {
		if _, running, _ := j.Status(); !running && ended > t.limits.Kept {
			ended--
			continue
		}
		kept = append(kept, j)
	}
	clear(t.order[len(kept):])
	t.order = kept
}

// Get finds a job.
func (t *JobTable) Get(id string) (Job, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.order {
		if j.id == id {
			return j, true
		}
	}
	return nil, false
}

// List lists the jobs, oldest first.
func (t *JobTable) List() []Job {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Job, len(t.order))
	for i, j := range t.order {
		list[i] = j
	}
	return list
}

// KillAll ends every job and refuses further ones. It returns when all have ended and reported, or with the context's
// cause.
func (t *JobTable) KillAll(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	return t.Interrupt(ctx)
}

// Interrupt ends every job as KillAll does, and takes further ones. What the ended jobs wrote can still be read.
func (t *JobTable) Interrupt(ctx context.Context) error {
	t.mu.Lock()
	jobs := append([]*job(nil), t.order...)
	t.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var kills sync.WaitGroup
		for _, j := range jobs {
			kills.Go(func() { _ = j.Kill() })
		}
		kills.Wait()
		t.wg.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end background jobs: %w", context.Cause(ctx))
	}
}

// drainWait is how long the pipes of an ended job may stay open, for instance held by a process that left the tree.
const drainWait = 2 * time.Second

type job struct {
	id, callID, command string
	proc                sandbox.Process
	limit               int
	done                chan struct{}

	mu      sync.Mutex
	buf     []byte // the newest output; its first byte has the offset base
	base    int64
	cursor  int64
	changed chan struct{}
	exit    sandbox.ExitStatus
	running bool
	ended   bool // the command has ended; what follows is cleaning up
	killed  bool
}

func (j *job) run(onEnd func(event.JobCompletedPayload)) {
	var readers sync.WaitGroup
	for _, r := range []io.ReadCloser{j.proc.Stdout(), j.proc.Stderr()} {
		if r != nil {
			readers.Go(func() { _, _ = io.Copy(j, r) })
		}
	}
	exit, err := j.proc.Wait()
	j.mu.Lock()
	j.ended = true
	j.killed = j.killed || err != nil // ended from outside: by its context or the session
	j.mu.Unlock()
	// A job is over when its command is: what the command left running would belong to nobody.
	_ = j.proc.Kill()
	drained := make(chan struct{})
	go func() { readers.Wait(); close(drained) }()
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
	for _, r := range []io.ReadCloser{j.proc.Stdout(), j.proc.Stderr()} {
		if r != nil {
			_ = r.Close()
		}
	}
	<-drained

	j.mu.Lock()
	j.exit, j.running = exit, false
	payload := event.JobCompletedPayload{JobID: j.id, CallID: j.callID, ExitCode: exit.ExitCode, Status: "exited"}
	if j.killed {
		payload.Status = "killed"
	}
	j.mu.Unlock()
	if onEnd != nil {
		onEnd(payload)
	}
	j.mu.Lock()
	close(j.changed)
	j.changed = nil
	j.mu.Unlock()
	close(j.done)
}

// Write keeps the newest output.
func (j *job) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = append(j.buf, p...)
	// Cutting only at twice the bound makes the copies cost a constant for each byte.
	if len(j.buf) >= 2*j.limit {
		cut := len(j.buf) - j.limit
		j.base += int64(cut)
		j.buf = append(j.buf[:0], j.buf[cut:]...)
	}
	if j.changed != nil && len(p) > 0 {
		close(j.changed)
		j.changed = make(chan struct{})
	}
	return len(p), nil
}

func (j *job) ID() string            { return j.id }
func (j *job) Command() string       { return j.command }
func (j *job) Done() <-chan struct{} { return j.done }

func (j *job) Read(from int64) (data []byte, at, next int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next = j.base + int64(len(j.buf))
	at = min(max(from, j.base), next)
	return append([]byte(nil), j.buf[at-j.base:]...), at, next
}

func (j *job) Changed() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.changed == nil {
		return j.done
	}
	return j.changed
}

func (j *job) Cursor() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cursor
}

func (j *job) SetCursor(offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cursor = offset
}

func (j *job) Status() (exit sandbox.ExitStatus, running, killed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.exit, j.running, j.killed
}

// Kill ends the job's whole process tree and returns when the job has ended. A job that ended by itself stays as it
// is.
func (j *job) Kill() error {
	j.mu.Lock()
	if !j.running {
		j.mu.Unlock()
		return nil
	}
	j.killed = j.killed || !j.ended
	j.mu.Unlock()
	if err := j.proc.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", j.id, err)
	}
	<-j.done
	return nil
}
