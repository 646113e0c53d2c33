package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/tool"
)

func TestAnInterruptDuringTheAnswerLeavesAUsableSession(t *testing.T) {
	waiting := make(chan struct{}, 1)
	r := newRig(t, nil, hang(waiting, textParts("half")...), say("next"))
	ctx, cancel := context.WithCancelCause(r.ctx)
	end := r.background(ctx, "hi")
	receive(t, waiting)
	cancel(errStop)
	if _, err := end(); !errors.Is(err, errStop) {
		t.Errorf("error %v", err)
	}
	if d := of[event.LLMAttemptDiscardedPayload](r.journal); len(d) != 1 || d[0].Reason != "interrupted" {
		t.Errorf("llm.attempt.discarded %+v", d)
	}
	r.wantText(r.prompt("more"), "next")
	var said []string
	for _, m := range r.model.request(1).Messages {
		said = append(said, string(m.Role)+" "+m.Text())
	}
	if strings.Join(said, ", ") != "user hi, user more" {
		t.Errorf("the model reads %q", said)
	}
}

// alive tells whether a process runs. One that has ended and that nobody has collected yet does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) || runtime.GOOS != "linux"
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// The whole process tree of an interrupted command is gone when the turn has ended, the record says that its outcome
// is unknown, and the model reads that in the next turn.
func TestAnInterruptEndsACommandWithItsTree(t *testing.T) {
	r := newRig(t, nil, call(use{"c1", "bash", `{"command":"sleep 1000 & echo $! > pid; sleep 1000; echo late > late","timeout_seconds":600}`}, use{"c2", "write", `{"path":"b","content":"b"}`}), say("next"))
	ctx, cancel := context.WithCancelCause(r.ctx)
	end := r.background(ctx, "hi")
	eventually(t, "the command runs", func() bool { return strings.HasSuffix(r.read("pid"), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(r.read("pid")))
	if err != nil {
		t.Fatal(err)
	}
	cancel(errStop)
	if _, err := end(); !errors.Is(err, errStop) {
		t.Errorf("error %v", err)
	}
	if alive(pid) {
		t.Errorf("process %d is left", pid)
	}
	if r.has("late") || r.has("b") {
		t.Error("the turn went on")
	}
	c := of[event.ToolCallCompletedPayload](r.journal)
	if len(c) != 1 || !c[0].Interrupted || !strings.Contains(c[0].Output, "interrupted: outcome unknown") {
		t.Errorf("tool.call.completed %+v", c)
	}
	r.wantText(r.prompt("more"), "next")
	ids, out := r.model.results(1)
	if len(ids) != 2 || !strings.Contains(out["c1"], "interrupted: outcome unknown") || !strings.Contains(out["c2"], "no result") {
		t.Errorf("the model reads %q", out)
	}
}

// A turn that ends in the middle of a step leaves a history in which every call has a result.
func TestAfterACancelledTurnEveryCallHasAResult(t *testing.T) {
	waiting := make(chan struct{}, 1)
	body := func(ctx context.Context, _ tool.Env, _ json.RawMessage) (tool.Result, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		return tool.Result{}, context.Cause(ctx)
	}
	r := newRig(t, func(r *rig) {
		withTools(r, testTool(t, "stuck", tool.KindReadonly, func(d *tool.Definition) { d.Parallel = true }, body))
	}, call(use{"c1", "glob", `{"pattern":"*"}`}, use{"c2", "stuck", `{}`}, use{"c3", "write", `{"path":"a","content":"a"}`}), say("next"))
	ctx, cancel := context.WithCancelCause(r.ctx)
	end := r.background(ctx, "hi")
	receive(t, waiting)
	eventually(t, "the free call has its result", func() bool { return len(of[event.ToolCallCompletedPayload](r.journal)) == 1 })
	cancel(errStop)
	if _, err := end(); !errors.Is(err, errStop) {
		t.Errorf("error %v", err)
	}
	r.wantText(r.prompt("more"), "next")
	msgs := r.model.request(1).Messages
	if msgs[1].Role != ai.RoleAssistant || msgs[2].Role != ai.RoleTool || len(msgs[2].Content) != 3 || msgs[3].Text() != "more" {
		t.Fatalf("the model reads %+v", msgs)
	}
	for i, p := range msgs[2].Content {
		res := p.(ai.ToolResultContent)
		if res.ToolCallID != msgs[1].ToolCalls()[i].ToolCallID || (i > 0) != res.Output.IsError() || res.Output.Text() == "" {
			t.Errorf("result %d is %+v", i, res)
		}
	}
	if r.has("a") {
		t.Error("a call was made after the turn's end")
	}
}

// The end of a session ends its turn.
func TestDestroyEndsTheTurn(t *testing.T) {
	waiting := make(chan struct{}, 1)
	r := newRig(t, nil, hang(waiting))
	end := r.background(r.ctx, "hi")
	receive(t, waiting)
	if err := r.session.Destroy(r.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := end(); err == nil {
		t.Error("the turn ended well")
	}
	if _, err := r.try(r.ctx, "more"); err == nil {
		t.Error("a session that has ended takes turns")
	}
}

// Jobs run across the steps of a turn and end with the session or the suspension.
func TestBackgroundJobs(t *testing.T) {
	start := use{"c1", "bash", `{"command":"echo $$ > pid; echo started; exec sleep 1000","run_in_background":true}`}
	pidOf := func(t *testing.T, r *rig) int {
		eventually(t, "the job runs", func() bool { return strings.HasSuffix(r.read("pid"), "\n") })
		pid, err := strconv.Atoi(strings.TrimSpace(r.read("pid")))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Run("read and killed by the model", func(t *testing.T) {
		r := newRig(t, nil, call(start),
			call(use{"c2", "job_output", `{"shell_id":"job_1","wait":60}`}),
			call(use{"c3", "job_kill", `{"shell_id":"job_1"}`}), say("done"))
		r.wantText(r.prompt("hi"), "done")
		_, out := r.model.results(3)
		if !strings.Contains(out["c1"], "job_1") || !strings.Contains(out["c2"], "started") {
			t.Errorf("the model reads %q", out)
		}
		if pid := pidOf(t, r); alive(pid) {
			t.Errorf("process %d is left", pid)
		}
		if j := of[event.JobCompletedPayload](r.journal); len(j) != 1 || j[0].CallID != "c1" || j[0].Status != "killed" {
			t.Errorf("job.completed %+v", j)
		}
	})
	t.Run("ended by a suspension", func(t *testing.T) {
		waiting := make(chan struct{}, 1)
		r := newRig(t, nil, call(start), hang(waiting), say("done"))
		end := r.background(r.ctx, "hi")
		receive(t, waiting)
		pid := pidOf(t, r)
		state := r.suspend()
		if _, err := end(); err != nil {
			t.Fatal(err)
		}
		if alive(pid) || len(of[event.JobCompletedPayload](r.journal)) != 1 {
			t.Errorf("process %d is left, or its end not reported", pid)
		}
		r.elsewhere(state)
		r.wantText(r.goOn(nil, nil), "done")
	})
	for name, end := range map[string]func(*rig){
		"ended by a stop":    func(r *rig) { _, _ = r.session.Stop(r.ctx) },
		"ended by a destroy": func(r *rig) { _ = r.session.Destroy(r.ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, call(start), say("done"))
			r.wantText(r.prompt("hi"), "done")
			pid := pidOf(t, r)
			if !alive(pid) {
				t.Error("the job ended with the turn")
			}
			end(r)
			if alive(pid) {
				t.Errorf("process %d is left", pid)
			}
			if j := of[event.JobCompletedPayload](r.journal); len(j) != 1 || j[0].Status != "killed" {
				t.Errorf("job.completed %+v", j)
			}
		})
	}
}

// Host tools, with and without approval, stand beside built-in ones in one step.
func TestHostToolsBesideBuiltInOnes(t *testing.T) {
	for _, gate := range []bool{false, true} {
		for name, move := range moves {
			t.Run(name+" gate "+strconv.FormatBool(gate), func(t *testing.T) {
				var runs []string
				run := func(_ context.Context, in json.RawMessage, o ai.ToolExecutionOptions) (any, error) {
					runs = append(runs, o.ToolCallID)
					return map[string]string{"ran": o.ToolCallID, "html": "<b>"}, nil
				}
				r := newRig(t, func(r *rig) {
					withFile(r)
					r.agents.UserTools = map[string]ai.Tool{"free": {Execute: run}, "asked": {Execute: run}}
					r.agents.ToolApproval = harness.AgentToolApprovalConfiguration{"asked": {Type: harness.ToolApprovalUserApproval}}
					if gate {
						r.agents.Gate = newGate(t, r.journal)
					}
				}, call(use{"c1", "asked", `{"a":1}`}, use{"c2", "write", `{"path":"b","content":"b"}`}, use{"c3", "free", `{}`}), say("done"))
				r.prompt("hi")
				asked, _ := r.session.Pending()
				if len(asked) != 1 || asked[0].ToolCallID != "c1" || !r.has("b") || len(runs) != 1 || runs[0] != "c3" {
					t.Fatalf("pending %+v, b written %v, runs %v", asked, r.has("b"), runs)
				}
				move(r)
				r.wantText(r.goOn(r.approve(asked[0].ApprovalID, true), nil), "done")
				if len(runs) != 2 || runs[1] != "c1" {
					t.Errorf("runs %v", runs)
				}
				ids, out := r.model.results(1)
				if strings.Join(ids, " ") != "c1 c2 c3" || out["c3"] != `{"html":"<b>","ran":"c3"}` {
					t.Errorf("the model reads %v %q", ids, out)
				}
			})
		}
	}
}
