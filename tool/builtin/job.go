package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/harness-go/harness/tool"
)

//go:embed job_output.md
var jobOutputDescription string

//go:embed job_kill.md
var jobKillDescription string

const jobOutputSchema = `{
  "type": "object",
  "properties": {
    "shell_id": {"type": "string"},
    "wait": {"type": "integer", "minimum": 0, "maximum": 300, "description": "Seconds to wait for new output or the end, default 5."},
    "cursor": {"type": "integer", "minimum": 0, "description": "First byte; default: where the last call stopped."}
  },
  "required": ["shell_id"],
  "additionalProperties": false
}`

const jobKillSchema = `{
  "type": "object",
  "properties": {"shell_id": {"type": "string"}},
  "required": ["shell_id"],
  "additionalProperties": false
}`

const defaultJobWait = 5 * time.Second

type jobOutputArgs struct {
	ShellID string   `json:"shell_id"`
	Wait    *integer `json:"wait"`
	Cursor  *integer `json:"cursor"`
}

type jobResult struct {
	ShellID    string `json:"shell_id"`
	Command    string `json:"command"`
	Status     string `json:"status"` // running | exited | killed
	ExitCode   *int   `json:"exit_code,omitempty"`
	Output     string `json:"output"`
	NextCursor int64  `json:"next_cursor"`
	// Skipped are the bytes before output that nobody has read and that are still kept; Lost are no longer kept.
	Skipped int64 `json:"skipped_bytes,omitempty"`
	Lost    int64 `json:"lost_bytes,omitempty"`
	More    bool  `json:"more,omitempty"`
	Invalid bool  `json:"invalid_utf8,omitempty"`
}

func jobOutputTool() *tool.Tool {
	return define(tool.Definition{
		Name: "job_output", Description: jobOutputDescription, Schema: json.RawMessage(jobOutputSchema),
		Kind: tool.KindReadonly, Parallel: true, Tags: []string{"background", "shell"},
	}, runJobOutput)
}

func jobKillTool() *tool.Tool {
	return define(tool.Definition{
		Name: "job_kill", Description: jobKillDescription, Schema: json.RawMessage(jobKillSchema),
		Kind: tool.KindBash, Tags: []string{"background", "shell"},
	}, runJobKill)
}

func runJobOutput(ctx context.Context, env tool.Env, args jobOutputArgs) (tool.Result, error) {
	job, err := findJob(env, args.ShellID)
	if err != nil {
		return outcome(err)
	}
	wait := defaultJobWait
	if args.Wait != nil {
		wait = time.Duration(*args.Wait) * time.Second
	}
	from, explicit := job.Cursor(), args.Cursor != nil
	if explicit {
		from = int64(*args.Cursor)
	}
	if err := awaitOutput(ctx, job, from, wait); err != nil {
		return tool.Result{}, err
	}
	r := jobPage(job, from, explicit)
	job.SetCursor(max(job.Cursor(), r.NextCursor))
	res, err := tool.JSONResult(r)
	res.Truncated = r.Skipped > 0 || r.Lost > 0 || r.More
	return res, err
}

// awaitOutput returns when there is output after from, when the job has ended, or after the wait.
func awaitOutput(ctx context.Context, job tool.Job, from int64, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed := job.Changed() // before looking, so that nothing is missed between
		_, running, _ := job.Status()
		if _, _, next := job.Read(from); next > from || !running {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// jobPage is what follows from. A reader that names no place gets the newest output, since that is what tells how the
// job is doing; one that names a place gets what follows it.
func jobPage(job tool.Job, from int64, explicit bool) jobResult {
	exit, running, killed := job.Status()
	data, at, _ := job.Read(from)
	r := jobResult{ShellID: job.ID(), Command: clip(job.Command(), 1024), Status: "running", Lost: max(0, at-from)}
	if !running {
		code := exit.ExitCode
		r.Status, r.ExitCode = "exited", &code
		if killed {
			r.Status = "killed"
		}
	}
	if r.Lost > 0 {
		rest := leadingRest(data)
		data, at = data[rest:], at+int64(rest)
	}
	switch {
	case len(data) > defaultPage && explicit:
		data, r.More = data[:runeBefore(data, defaultPage)], true
	case len(data) > defaultPage:
		cut := runeAfter(data, len(data)-defaultPage)
		r.Skipped = int64(cut)
		data, at = data[cut:], at+int64(cut)
	}
	if running && !r.More { // the rest of the last rune is still to come
		data = data[:completeLen(data)]
	}
	r.NextCursor = at + int64(len(data))
	r.Output, r.Invalid = decode(data)
	return r
}

// leadingRest is the length of a rune's rest at the start of b, whose beginning is no longer there.
func leadingRest(b []byte) int {
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.RuneStart(b[n]) {
		n++
	}
	return n
}

func runJobKill(ctx context.Context, env tool.Env, args jobOutputArgs) (tool.Result, error) {
	job, err := findJob(env, args.ShellID)
	if err != nil {
		return outcome(err)
	}
	if err := job.Kill(); err != nil {
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return tool.Failure(tool.CodeFailed, "%s: some of its processes did not end: %s", args.ShellID, reason(err)), nil
	}
	r := jobPage(job, job.Cursor(), false)
	job.SetCursor(max(job.Cursor(), r.NextCursor))
	return tool.JSONResult(r)
}

func findJob(env tool.Env, id string) (tool.Job, error) {
	if env.Jobs == nil {
		return nil, fail(tool.CodeUnavailable, "this session keeps no background jobs")
	}
	job, ok := env.Jobs.Get(id)
	if !ok {
		return nil, fail(tool.CodeNotFound, "argument shell_id: there is no job %s in this session; use the shell_id that bash gave", quote(clip(id, 64)))
	}
	return job, nil
}
