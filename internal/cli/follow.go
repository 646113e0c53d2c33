package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/cli/render"
)

// follow shows one run until it ends or waits for people, and lets the person at the terminal answer.
type follow struct {
	app   *app
	link  *link
	runID string
	after int64
	// owner: Ctrl-C cancels the run. A command that only watches just stops.
	owner      bool
	ask        bool // ask at the terminal
	approveAll bool
	quiet      bool
	flags      map[string]string // for a new connection

	stream    *render.Stream
	cancelled bool
	pending   []string // approvals to ask about, in order
	question  bool     // the run asked something
	prompt    prompt   // what the person is asked now, nil when nothing
	relinks   int
	// look is when to look again whether the run has begun to wait, zero for not at all.
	look time.Duration
}

// item is what the reader of events brings.
type item struct {
	ev  event.Event
	err error
	end bool
}

// errDetach ends the following and leaves the run as it is.
var errDetach = errors.New("left")

// run follows the run and returns how the program ends.
func (f *follow) run(ctx context.Context) error {
	a := f.app
	if !a.json {
		f.stream = render.NewStream(render.Options{
			Out: a.out, Info: a.err, Live: a.outTerminal, Status: a.errTerminal, Style: a.style(), Quiet: f.quiet,
		})
	}
	f.ask = a.inTerminal && !a.json && !f.quiet
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	items := f.read(ctx)
	interrupts := a.interrupts.take()
	for {
		var answers <-chan string
		var look <-chan time.Time
		if f.look > 0 {
			look = time.After(f.look)
		}
		if f.prompt != nil {
			answers = a.input().next()
		}
		select {
		case it := <-items:
			switch {
			case it.err != nil:
				next, err := f.relink(ctx, it.err)
				if err != nil {
					return err
				}
				items = next
				continue
			case it.end:
				return f.finish(ctx)
			}
			f.after, f.look = it.ev.Seq, 0
			if done, err := f.event(ctx, it.ev); done || err != nil {
				return err
			}
		case <-look:
			if done, err := f.waiting(ctx); done || err != nil {
				return err
			}
		case line, ok := <-answers:
			if err := f.answered(ctx, line, ok); err != nil {
				return f.left(ctx, err)
			}
		case <-interrupts:
			if err := f.interrupted(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if f.prompt == nil && f.ask {
			if err := f.next(ctx); err != nil {
				return f.left(ctx, err)
			}
		}
	}
}

// read brings the events of the run from where the reader stands.
func (f *follow) read(ctx context.Context) <-chan item {
	ch := make(chan item)
	l, after := f.link, f.after
	send := func(it item) bool {
		select {
		case ch <- it:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		for ev, err := range l.Events(ctx, f.runID, after) {
			if !send(item{ev: ev, err: err}) || err != nil {
				return
			}
		}
		send(item{end: true})
	}()
	return ch
}

// relink goes on when the process at the other end of the socket ended: another one, or this one, takes over.
func (f *follow) relink(ctx context.Context, cause error) (<-chan item, error) {
	if f.link.remote || f.link.node != nil || ctx.Err() != nil || f.relinks >= 20 {
		return nil, cause
	}
	if p, ok := errors.AsType[*api.Problem](cause); ok && p.Code != api.CodeBusy {
		return nil, cause
	}
	f.relinks++
	l, err := f.app.connect(ctx, toExecute, f.flags)
	if err != nil {
		return nil, err
	}
	f.link = l
	if l.node != nil {
		f.info("the process that ran this ended; it goes on here")
	}
	return f.read(ctx), nil
}

// info tells something that is not an event.
func (f *follow) info(format string, args ...any) {
	if f.stream == nil {
		f.app.infof(format, args...)
		return
	}
	f.stream.Line(format, args...)
}

func (f *follow) block(show func(w io.Writer)) {
	if f.stream == nil {
		show(f.app.err)
		return
	}
	f.stream.Block(show)
}

// event handles one event; done means that the program ends with err.
func (f *follow) event(ctx context.Context, ev event.Event) (done bool, err error) {
	if f.stream == nil {
		if err := f.app.print(ev); err != nil {
			return true, err
		}
	} else if err := f.stream.Event(ev); err != nil {
		return true, err
	}
	p, err := event.Decode(ev.Type, ev.Payload)
	if err != nil {
		return false, nil //nolint:nilerr // a kind of a newer server
	}
	switch p := p.(type) {
	case *event.ToolApprovalRequiredPayload:
		f.pending = append(f.pending, p.ApprovalID)
		if f.approveAll {
			return false, f.approve(ctx)
		}
	case *event.ToolApprovalGrantedPayload:
		f.settled(p.ApprovalID)
	case *event.ToolApprovalDeniedPayload:
		f.settled(p.ApprovalID)
	case *event.RunWaitingForUserPayload:
		f.question = true
	case *event.RunResumedPayload:
		f.question = false
		if _, ok := f.prompt.(*questionPrompt); ok {
			f.prompt = nil
		}
	}
	if (ev.Type == event.RunWaitingForApproval || ev.Type == event.RunWaitingForUser) && !f.ask {
		return f.waiting(ctx)
	}
	return false, nil
}

// settled forgets an approval that was answered, here or elsewhere.
func (f *follow) settled(id string) {
	for i, p := range f.pending {
		if p == id {
			f.pending = append(f.pending[:i:i], f.pending[i+1:]...)
			break
		}
	}
	if p, ok := f.prompt.(*approvalPrompt); ok && p.approval.ID == id {
		f.prompt = nil
		f.info("it was answered elsewhere")
	}
}

// approve answers everything with yes, as --approve-all says.
func (f *follow) approve(ctx context.Context) error {
	for len(f.pending) > 0 {
		id := f.pending[0]
		f.pending = f.pending[1:]
		a, err := f.link.Approval(ctx, id)
		if err != nil {
			return err
		}
		if a.Status != event.ApprovalPending {
			continue // the log of an earlier time
		}
		if _, err := f.link.Decide(ctx, id, api.DecisionRequest{Decision: api.DecisionApprove, Reason: "--approve-all"}); err != nil && !conflict(err) {
			return err
		}
		f.info("%s was approved by --approve-all", id)
	}
	return nil
}

func conflict(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && p.Status == 409
}

// waiting ends the program when the run waits and there is nobody to ask. The event of a wait may be one of an earlier
// time, and it comes a little before the run is at rest: then it looks again, unless more events come.
func (f *follow) waiting(ctx context.Context) (bool, error) {
	r, err := f.link.GetRun(ctx, f.runID)
	switch {
	case err != nil:
		return true, err
	case r.LastSeq != f.after:
		f.look = 0
		return false, nil
	case r.Status == "waiting_for_approval" || r.Status == "waiting_for_user":
		return true, f.stopWaiting(ctx, r)
	}
	f.look = min(max(2*f.look, 10*time.Millisecond), time.Second)
	return false, nil
}

// stopWaiting tells what the run waits for and how to answer, and ends with ExitWaiting.
func (f *follow) stopWaiting(ctx context.Context, r api.Run) error {
	if f.app.json {
		if err := f.app.print(r); err != nil {
			return err
		}
		return exit(ExitWaiting)
	}
	if err := f.pendingCards(ctx, r); err != nil {
		return err
	}
	f.stream.End(r)
	f.how(r)
	return exit(ExitWaiting)
}

func (f *follow) pendingCards(ctx context.Context, r api.Run) error {
	for _, id := range r.PendingApprovals {
		ap, err := f.link.Approval(ctx, id)
		if err != nil {
			return err
		}
		f.block(func(w io.Writer) { render.Approval(w, ap, f.app.now(), f.app.style()) })
	}
	if r.Status == "waiting_for_user" {
		q, err := f.link.PendingQuestion(ctx, r.ID)
		if err != nil && !conflict(err) {
			return err
		}
		for _, one := range q.Questions {
			f.block(func(w io.Writer) { render.Question(w, one, f.app.style()) })
		}
	}
	return nil
}

// how tells the commands that answer.
func (f *follow) how(r api.Run) {
	for _, id := range r.PendingApprovals {
		f.info("decide with:  harness approvals approve %s   or   harness approvals deny %s --reason TEXT", id, id)
	}
	if r.Status == "waiting_for_user" {
		f.info("answer with:  harness questions answer %s ANSWER…", r.ID)
	}
	f.info("follow with:  harness runs watch %s", r.ID)
}

// finish tells the end of the run.
func (f *follow) finish(ctx context.Context) error {
	r, err := f.link.GetRun(ctx, f.runID)
	if err != nil {
		return err
	}
	if f.app.json {
		if err := f.app.print(r); err != nil {
			return err
		}
	} else {
		f.stream.End(r)
	}
	return exit(runCode(r.Status))
}

// runCode is the exit code for a run that stands like this.
func runCode(status string) int {
	switch status {
	case "completed":
		return ExitOK
	case "cancelled":
		return ExitCancelled
	case "waiting_for_approval", "waiting_for_user":
		return ExitWaiting
	}
	return ExitFailed
}

// interrupted is Ctrl-C: the first one cancels the run, the second one leaves it alone.
func (f *follow) interrupted(ctx context.Context) error {
	switch {
	case !f.owner:
		f.info("stopped watching; the run is as it was")
		return exit(ExitInterrupted)
	case f.cancelled:
		f.leave()
		return exit(ExitCancelled)
	}
	f.cancelled, f.prompt, f.ask = true, nil, false
	f.info("cancelling the run; press Ctrl-C again to leave it")
	if _, err := f.link.Cancel(ctx, f.runID); err != nil {
		return err
	}
	return nil
}

func (f *follow) leave() {
	if f.link.node != nil {
		f.info("left the run; it goes on with:  harness runs watch %s", f.runID)
		return
	}
	f.info("left the run; it goes on. Follow it with:  harness runs watch %s", f.runID)
}

// left turns errDetach into the exit of a run that waits.
func (f *follow) left(ctx context.Context, err error) error {
	if !errors.Is(err, errDetach) {
		return err
	}
	r, gerr := f.settle(ctx)
	if gerr != nil {
		return gerr
	}
	f.stream.End(r)
	f.how(r)
	return exit(ExitWaiting)
}

// settle gives a run whose last event says that it waits a moment to come to rest. One that does something else is
// returned as it is.
func (f *follow) settle(ctx context.Context) (api.Run, error) {
	for wait := 5 * time.Millisecond; ; wait *= 2 {
		r, err := f.link.GetRun(ctx, f.runID)
		if err != nil || r.Status != "running" || r.LastSeq != f.after || wait > time.Second {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}
