package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/cli/render"
)

// prompt is something that a person is asked at the terminal. line takes what was typed; done means that the prompt
// is through.
type prompt interface {
	show(f *follow)
	line(ctx context.Context, f *follow, text string) (done bool, err error)
}

// next asks the next thing, if there is one.
func (f *follow) next(ctx context.Context) error {
	for len(f.pending) > 0 {
		a, err := f.link.Approval(ctx, f.pending[0])
		if err != nil {
			return err
		}
		if a.Status == event.ApprovalPending {
			f.begin(&approvalPrompt{approval: a})
			return nil
		}
		f.pending = f.pending[1:]
	}
	if !f.question {
		return nil
	}
	f.question = false
	q, err := f.link.PendingQuestion(ctx, f.runID)
	switch {
	case conflict(err):
		return nil // the log of an earlier time, or answered elsewhere
	case err != nil:
		return err
	case len(q.Questions) == 0:
		return nil
	}
	f.begin(&questionPrompt{questions: q.Questions, answers: map[string][]string{}})
	return nil
}

func (f *follow) begin(p prompt) {
	f.app.input().fresh()
	f.prompt = p
	p.show(f)
}

// answered takes a line for the current prompt. The end of the input leaves what is pending.
func (f *follow) answered(ctx context.Context, text string, ok bool) error {
	if !ok {
		return errDetach
	}
	p := f.prompt
	done, err := p.line(ctx, f, strings.TrimSpace(text))
	if err != nil {
		return err
	}
	if done && f.prompt == p {
		f.prompt = nil
	}
	return nil
}

func (f *follow) say(text string) {
	f.block(func(w io.Writer) { fmt.Fprint(w, text) })
}

// approvalPrompt asks about one call.
type approvalPrompt struct {
	approval event.Approval
	reason   bool // the next line is the reason of a denial
}

const approvalKeys = "[a]pprove   approve for the [s]ession   [d]eny   [w]ait, leave it pending > "

func (p *approvalPrompt) show(f *follow) {
	f.block(func(w io.Writer) { render.Approval(w, p.approval, f.app.now(), f.app.style()) })
	f.say(approvalKeys)
}

func (p *approvalPrompt) line(ctx context.Context, f *follow, text string) (bool, error) {
	if p.reason {
		return true, p.decide(ctx, f, api.DecisionRequest{Decision: api.DecisionDeny, Reason: text})
	}
	switch strings.ToLower(text) {
	case "a", "approve":
		return true, p.decide(ctx, f, api.DecisionRequest{Decision: api.DecisionApprove})
	case "s", "session":
		return true, p.decide(ctx, f, api.DecisionRequest{Decision: api.DecisionApprove, Scope: string(event.ScopeSession)})
	case "d", "deny":
		p.reason = true
		f.say("reason, for the model to read (empty: none) > ")
		return false, nil
	case "w", "wait":
		return false, errDetach
	}
	f.say(approvalKeys)
	return false, nil
}

func (p *approvalPrompt) decide(ctx context.Context, f *follow, d api.DecisionRequest) error {
	// From here on the approval is answered: its event is not news.
	f.prompt = nil
	f.settled(p.approval.ID)
	_, err := f.link.Decide(ctx, p.approval.ID, d)
	if conflict(err) {
		f.info("%s", message(err))
		return nil
	}
	return err
}

// questionPrompt asks the questions of one call, one after the other.
type questionPrompt struct {
	questions []event.Question
	at        int
	answers   map[string][]string
}

func (p *questionPrompt) show(f *follow) {
	q := p.questions[p.at]
	f.block(func(w io.Writer) { render.Question(w, q, f.app.style()) })
	p.keys(f)
}

func (p *questionPrompt) keys(f *follow) {
	if p.questions[p.at].MultiSelect {
		f.say("numbers, separated by commas, or your own words; /wait leaves it pending > ")
		return
	}
	f.say("a number, or your own words; /wait leaves it pending > ")
}

func (p *questionPrompt) line(ctx context.Context, f *follow, text string) (bool, error) {
	if text == "/wait" {
		return false, errDetach
	}
	q := p.questions[p.at]
	answer, err := choose(q, text)
	if err != nil {
		f.info("%s", err)
		p.keys(f)
		return false, nil
	}
	p.answers[q.Question] = answer
	if p.at++; p.at < len(p.questions) {
		p.show(f)
		return false, nil
	}
	f.prompt = nil
	if err := f.link.Answer(ctx, f.runID, p.answers); err != nil {
		if conflict(err) {
			f.info("%s", message(err))
			return true, nil
		}
		return true, err
	}
	return true, nil
}

// choose turns what was typed into an answer: option numbers give their labels, anything else is taken as it is.
func choose(q event.Question, text string) ([]string, error) {
	if text == "" {
		return nil, errors.New("an answer is needed")
	}
	parts := []string{text}
	if q.MultiSelect {
		parts = strings.Split(text, ",")
	}
	var out []string
	for _, part := range parts {
		part = strings.TrimSpace(part)
		n, err := strconv.Atoi(part)
		if err != nil || len(q.Options) == 0 {
			if part != "" {
				out = append(out, part)
			}
			continue
		}
		if n < 1 || n > len(q.Options) {
			return nil, fmt.Errorf("there is no option %d", n)
		}
		out = append(out, q.Options[n-1].Label)
	}
	if len(out) == 0 {
		return nil, errors.New("an answer is needed")
	}
	return out, nil
}
