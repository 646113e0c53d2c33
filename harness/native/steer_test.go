package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/tool"
)

func (r *rig) steer(text string) {
	r.t.Helper()
	if err := r.agent.ExperimentalSteer(r.ctx, r.session, text); err != nil {
		r.t.Fatal(err)
	}
}

// gated waits in the middle of an answer until it is let go.
func gated(waiting chan<- struct{}, goOn <-chan struct{}, s step) step {
	return func(ctx context.Context, yield func(modelPart) bool) error {
		waiting <- struct{}{}
		<-goOn
		return s(ctx, yield)
	}
}

func TestSteeringReachesTheNextModelCall(t *testing.T) {
	waiting, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, nil,
		gated(waiting, goOn, call(use{"c1", "glob", `{"pattern":"*"}`})),
		gated(waiting, goOn, say("almost done")), // the end of the turn, but for the message
		say("done"))
	end := r.background(r.ctx, "hi")
	<-waiting
	r.steer("while it streams")
	goOn <- struct{}{}
	<-waiting
	r.steer("at the end")
	goOn <- struct{}{}
	res, err := end()
	if err != nil {
		t.Fatal(err)
	}
	r.wantText(res, "done")
	for n, want := range [][]string{{"hi"}, {"hi", "while it streams"}, {"hi", "while it streams", "at the end"}} {
		if got := userMessages(r.model.request(n)); !slices.Equal(got, want) {
			t.Errorf("request %d holds %q, want %q", n, got, want)
		}
	}
	// A result follows its call, whatever came between.
	var roles []ai.Role
	for _, m := range r.model.request(1).Messages {
		roles = append(roles, m.Role)
	}
	if want := []ai.Role{ai.RoleUser, ai.RoleAssistant, ai.RoleTool, ai.RoleUser}; !slices.Equal(roles, want) {
		t.Errorf("roles %v, want %v", roles, want)
	}
	if s := of[event.SteeringReceivedPayload](r.journal); len(s) != 2 || s[1].Message != "at the end" {
		t.Errorf("steering.received %+v", s)
	}
	if err := r.agent.ExperimentalSteer(r.ctx, r.session, "too late"); err == nil {
		t.Error("a turn that has ended takes messages")
	}
}

// A turn that waits for a person takes messages, and they are kept over the suspension.
func TestSteeringAWaitingTurn(t *testing.T) {
	p := &play{steps: []step{call(use{"c1", "change", `{}`}), say("done")}}
	_, s := bare(t, p, nil, testTool(t, "change", tool.KindEdit, nil, ok("changed")))
	asks := make(chan string, 2)
	opts := harness.TurnOptions{Emit: func(p harness.StreamPart) {
		if a, ok := p.(harness.ToolApprovalRequest); ok {
			asks <- a.ApprovalID
		}
	}}
	ctl, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi"), TurnOptions: opts})
	if err != nil {
		t.Fatal(err)
	}
	id := receive(t, asks)
	if err := ctl.(harness.UserMessageSubmitter).SubmitUserMessage(t.Context(), "hurry"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DoSuspendTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := ctl.(harness.UserMessageSubmitter).SubmitUserMessage(t.Context(), "lost?"); err == nil {
		t.Error("a suspended turn takes messages")
	}
	ctl, err = s.DoContinueTurn(t.Context(), harness.ContinueTurnOptions{TurnOptions: opts})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctl.(harness.ToolApprovalSubmitter).SubmitToolApproval(t.Context(), harness.ToolApprovalSubmission{ApprovalID: id, Approved: true}); err != nil {
		t.Fatal(err)
	}
	<-ctl.Done()
	if ctl.Err() != nil {
		t.Fatal(ctl.Err())
	}
	if got := userMessages(p.request(1)); !slices.Equal(got, []string{"hi", "hurry"}) {
		t.Errorf("the model reads %q", got)
	}
}

// No message that was taken is lost: it reaches the model, or it was refused.
func TestNoSteeringIsLostAtTheEnd(t *testing.T) {
	for range 200 {
		p := &play{steps: []step{say("one"), say("two"), say("three")}}
		_, s := bare(t, p, nil)
		ctl, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi")})
		if err != nil {
			t.Fatal(err)
		}
		taken := ctl.(harness.UserMessageSubmitter).SubmitUserMessage(t.Context(), "more") == nil
		<-ctl.Done()
		last := userMessages(p.request(p.calls() - 1))
		if taken != slices.Contains(last, "more") {
			t.Fatalf("taken %v, and the model's last request has %q", taken, last)
		}
	}
}

// What the host submitted before a suspension, and the loop had not used, is not lost either.
func TestNoSubmittedResultIsLostInASuspension(t *testing.T) {
	for range 100 {
		p := &play{steps: []step{call(use{"c1", "mine", `{}`}), say("done")}}
		_, s := bare(t, p, nil)
		announced := make(chan struct{}, 2)
		opts := harness.TurnOptions{Tools: []harness.ToolSpec{{Name: "mine"}}, Emit: func(p harness.StreamPart) {
			if _, ok := p.(harness.ToolCall); ok {
				announced <- struct{}{}
			}
		}}
		ctl, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi"), TurnOptions: opts})
		if err != nil {
			t.Fatal(err)
		}
		receive(t, announced)
		suspended := make(chan error, 1)
		go func() {
			_, err := s.DoSuspendTurn(context.Background())
			suspended <- err
		}()
		taken := ctl.SubmitToolResult(t.Context(), harness.ToolResultSubmission{ToolCallID: "c1", Output: json.RawMessage(`"mine"`)}) == nil
		if err := receive(t, suspended); err != nil {
			t.Fatal(err)
		}
		if p.calls() == 2 {
			continue // the turn ended before it could be suspended
		}
		if ctl, err = s.DoContinueTurn(t.Context(), harness.ContinueTurnOptions{TurnOptions: opts}); err != nil {
			t.Fatal(err)
		}
		if !taken {
			if err := ctl.SubmitToolResult(t.Context(), harness.ToolResultSubmission{ToolCallID: "c1", Output: "mine"}); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-ctl.Done():
		case <-t.Context().Done():
		}
		if _, out := p.results(p.calls() - 1); ctl.Err() != nil || out["c1"] != "mine" {
			t.Fatalf("%v; the model reads %q", ctl.Err(), out)
		}
	}
}

var errStop = errors.New("stop")
