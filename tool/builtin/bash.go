package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

//go:embed bash.md
var bashDescription string

const bashSchema = `{
  "type": "object",
  "properties": {
    "command": {"type": "string", "minLength": 1},
    "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 3600, "description": "Default 30. In the background there is none unless set."},
    "working_dir": {"type": "string", "description": "Default: the workspace."},
    "run_in_background": {"type": "boolean", "description": "Return a shell_id at once; see job_output."},
    "description": {"type": "string", "description": "What the command does, in a few words, for people."}
  },
  "required": ["command"],
  "additionalProperties": false
}`

const (
	defaultTimeout = 30 * time.Second
	// bashGrace is short, because a call must end soon after its time is up.
	bashGrace = 500 * time.Millisecond
	// maxCommand stays below what Linux takes as one argument (128 KiB).
	maxCommand = 120 << 10
	// maxShownCommand is how much of it a result repeats: the model wrote it and has it.
	maxShownCommand = 4 << 10
	// drainWait is how long output may still come after the process tree has ended.
	drainWait = 2 * time.Second
)

// bashWrapper makes both streams one, so that the lines stand in the order in which they were written. The command
// is an argument of its own: nothing in it can end the wrapper, which is run by sh because that starts faster.
const bashWrapper = `exec bash -c "$1" 2>&1`

type bashArgs struct {
	Command         string  `json:"command"`
	TimeoutSeconds  integer `json:"timeout_seconds"`
	WorkingDir      string  `json:"working_dir"`
	RunInBackground bool    `json:"run_in_background"`
	Description     string  `json:"description"`
}

type bashResult struct {
	Command    string `json:"command"`
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"`
	TimedOut   bool   `json:"timed_out"`
	Output     string `json:"output"`
	WorkingDir string `json:"working_dir"`
	Truncated  bool   `json:"truncated,omitempty"`
	MaxBytes   int    `json:"max_bytes,omitempty"`
	Strategy   string `json:"truncation_strategy,omitempty"`
	TotalBytes int64  `json:"total_bytes,omitempty"`
	Artifact   string `json:"artifact,omitempty"`
	Binary     bool   `json:"binary,omitempty"`
	Invalid    bool   `json:"invalid_utf8,omitempty"`
}

type startedResult struct {
	ShellID    string `json:"shell_id"`
	Started    bool   `json:"started"`
	WorkingDir string `json:"working_dir"`
}

func bashTool() *tool.Tool {
	return define(tool.Definition{
		Name: "bash", Description: bashDescription, Schema: json.RawMessage(bashSchema),
		Kind: tool.KindBash, Tags: []string{"shell", "command"},
	}, runBash)
}

func runBash(ctx context.Context, env tool.Env, args bashArgs) (tool.Result, error) {
	execer, ok := env.Sandbox.(sandbox.Execer)
	if !ok {
		return tool.Failure(tool.CodeUnavailable, "bash is not available: this session's sandbox runs no commands"), nil
	}
	switch {
	case strings.ContainsRune(args.Command, 0):
		return tool.Failure(tool.CodeInvalidArguments, "argument command contains a NUL character"), nil
	case len(args.Command) > maxCommand:
		return tool.Failure(tool.CodeTooLarge, "argument command has %d bytes, more than %d: write it to a file and run that", len(args.Command), maxCommand), nil
	}
	dir, err := workingDir(ctx, env, args.WorkingDir)
	if err != nil {
		return outcome(err)
	}
	opts := sandbox.ExecOptions{Argv: []string{"sh", "-c", bashWrapper, "sh", args.Command}, Dir: dir, Grace: bashGrace}
	if args.RunInBackground {
		return startJob(ctx, env, execer, opts, args)
	}
	timeout := defaultTimeout
	if args.TimeoutSeconds > 0 {
		timeout = time.Duration(args.TimeoutSeconds) * time.Second
	}
	c := newCollector(ctx, env)
	exit, timedOut, err := foreground(ctx, execer, opts, timeout, [2]io.Writer{c.stream(streamStdout), c.stream(streamStderr)})
	if err != nil {
		c.discard()
		return outcome(startError(ctx, err))
	}
	out := c.finish()
	r := bashResult{Command: args.Command, ExitCode: exit.ExitCode, Signal: exit.Signal, TimedOut: timedOut, WorkingDir: shownDir(dir)}
	if timedOut {
		r.ExitCode, r.Signal = -1, ""
	}
	res, err := bashOutcome(c, r, out)
	if err != nil {
		return tool.Result{}, err
	}
	switch {
	case timedOut:
		res.Error = tool.CodeTimeout
	case exit.ExitCode != 0:
		res.Error = tool.CodeExitStatus
	}
	return res, nil
}

// bashOutcome encodes the result and keeps it below the hard bound, which escapes of control characters can pass.
func bashOutcome(c *collector, r bashResult, out collected) (tool.Result, error) {
	r.Command = clip(r.Command, maxShownCommand)
	for limit := outputCap; ; limit /= 2 {
		r.Output, r.Truncated, r.Binary, r.Invalid, r.Artifact = out.text, out.truncated, out.binary, out.invalid, out.artifact
		if r.Truncated || r.Binary {
			r.TotalBytes = out.total
		}
		if r.Truncated {
			r.MaxBytes, r.Strategy = limit, "head_tail"
		}
		res, err := tool.JSONResult(r)
		if err != nil {
			return tool.Result{}, err
		}
		res.Truncated, res.Artifact = r.Truncated, r.Artifact
		if len(res.Output) <= outputHard || limit <= 2*markerRoom {
			return res, nil
		}
		out = c.shorter(out, limit/2)
	}
}

// foreground runs a command to its end or its time; out takes its two streams. Whichever it is, no process of it is left: what the command put
// in the background by itself ends with it (run_in_background is for what should stay).
func foreground(ctx context.Context, execer sandbox.Execer, opts sandbox.ExecOptions, timeout time.Duration, out [2]io.Writer) (exit sandbox.ExitStatus, timedOut bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := execer.Exec(ctx, opts)
	if err != nil {
		return exit, false, err
	}
	var readers sync.WaitGroup
	pipes := [2]io.ReadCloser{streamStdout: p.Stdout(), streamStderr: p.Stderr()}
	for n, r := range pipes {
		if r != nil {
			readers.Go(func() { _, _ = io.Copy(out[n], r) })
		}
	}
	waited := make(chan error, 1)
	go func() {
		var werr error
		exit, werr = p.Wait()
		waited <- werr
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var werr error
	select {
	case werr = <-waited:
		_ = p.Kill()
	case <-timer.C:
		timedOut = true
		_ = p.Kill()
		werr = <-waited
	case <-ctx.Done():
		_ = p.Kill()
		werr = <-waited
	}
	drain(&readers, pipes[:])
	switch {
	case ctx.Err() != nil:
		return exit, false, context.Cause(ctx)
	case errors.Is(werr, sandbox.ErrEnded):
		return exit, false, werr
	}
	return exit, timedOut, nil
}

// drain waits for the readers and closes the pipes, also when somebody outside of the process tree holds them open.
func drain(readers *sync.WaitGroup, pipes []io.ReadCloser) {
	done := make(chan struct{})
	go func() { readers.Wait(); close(done) }()
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	for _, r := range pipes {
		if r != nil {
			_ = r.Close()
		}
	}
	<-done
}

// startJob hands the process to the session's jobs. It lives beyond the call, so the call's end does not end it; the
// owner of the jobs does.
func startJob(ctx context.Context, env tool.Env, execer sandbox.Execer, opts sandbox.ExecOptions, args bashArgs) (tool.Result, error) {
	if env.Jobs == nil {
		return tool.Failure(tool.CodeUnavailable, "argument run_in_background: this session keeps no background jobs; run the command without it"), nil
	}
	jobCtx, cancel := jobContext(ctx, time.Duration(args.TimeoutSeconds)*time.Second)
	p, err := execer.Exec(jobCtx, opts)
	if err != nil {
		cancel()
		return outcome(startError(ctx, err))
	}
	id, err := env.Jobs.Start(ctx, env.CallID, args.Command, p)
	if err != nil {
		_ = p.Kill()
		for _, r := range []io.ReadCloser{p.Stdout(), p.Stderr()} {
			if r != nil {
				_ = r.Close()
			}
		}
		_, _ = p.Wait()
		cancel()
		if errors.Is(err, tool.ErrTooManyJobs) {
			return tool.Failure(tool.CodeConflict, "argument run_in_background: %s; end one with job_kill", err), nil
		}
		return outcome(startError(ctx, err))
	}
	job, ok := env.Jobs.Get(id)
	if !ok { // nobody could see or end it
		cancel()
		return tool.Result{}, fmt.Errorf("job %s is unknown right after its start", id)
	}
	go func() { <-job.Done(); cancel() }()
	return tool.JSONResult(startedResult{ShellID: id, Started: true, WorkingDir: shownDir(opts.Dir)})
}

// jobContext is the context of a job: it does not end with the call, only after the timeout if there is one.
func jobContext(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if timeout > 0 {
		return context.WithTimeout(ctx, timeout)
	}
	return context.WithCancel(ctx)
}

// startError says why a command did not start.
func startError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, sandbox.ErrEnded):
		return err
	case errors.Is(err, exec.ErrNotFound):
		return fail(tool.CodeUnavailable, "there is no shell where commands run: sh and bash must be installed")
	case errors.Is(err, sandbox.ErrOutside):
		return fail(tool.CodePermissionDenied, "argument working_dir leads out of the workspace; use a directory inside it")
	}
	return fail(tool.CodeFailed, "the command did not start: %s", reason(err))
}

// workingDir is the directory for the command; empty is the sandbox's own default.
func workingDir(ctx context.Context, env tool.Env, arg string) (string, error) {
	if arg == "" {
		return env.Dir, nil
	}
	if err := checkPath("working_dir", arg); err != nil {
		return "", err
	}
	if files, ok := env.Sandbox.(sandbox.Files); ok {
		info, err := files.Stat(ctx, arg)
		if err != nil {
			return "", fileError(ctx, "working_dir", arg, err)
		}
		if !info.IsDir() {
			return "", fail(tool.CodeInvalidArguments, "argument working_dir: %s is not a directory", arg)
		}
	}
	if env.Dir != "" && !path.IsAbs(arg) {
		arg = path.Join(env.Dir, arg)
	}
	return arg, nil
}

func shownDir(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}
