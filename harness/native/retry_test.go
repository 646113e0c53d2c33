package native_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/scripted"
)

func status(code int, after time.Duration) error {
	return &model.Error{Kind: model.KindOfStatus(code), Status: code, Provider: "main", Message: fmt.Sprint("status ", code), RetryAfter: after}
}

// bubble runs a test under a fake clock, without a sandbox.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestAFailedCallIsMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		r := newRig(t, func(r *rig) { r.set.Retry = model.Retry{} },
			failing(status(429, 20*time.Second)), failing(status(503, 0)), failing(status(503, 0)), say("hello"))
		r.wantText(r.prompt("hi"), "hello")
		r.wantCalls(4)
		if waited := time.Since(start); waited < 20*time.Second || waited > 23*time.Second {
			t.Errorf("it waited %s", waited)
		}
		d := of[event.LLMAttemptDiscardedPayload](r.journal)
		if len(d) != 3 || d[0].Reason != "rate_limit" || d[0].Status != 429 || d[0].RetryInMS != 20_000 || d[1].Reason != "overloaded" || d[2].Attempt != 3 {
			t.Errorf("llm.attempt.discarded %+v", d)
		}
		var attempts []int
		for _, p := range of[event.LLMTurnRequestedPayload](r.journal) {
			attempts = append(attempts, p.Attempt)
		}
		if !slices.Equal(attempts, []int{1, 2, 3, 4}) {
			t.Errorf("attempts %v", attempts)
		}
	})
}

func TestAScriptedServerFailsTwiceAndAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, err := scripted.New(scripted.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, func(r *rig) {
			r.set.Resolve = func(string) ([]native.Target, error) { return []native.Target{r.target("main", m)}, nil }
		})
		r.wantText(r.prompt(`@@[{"status":429,"times":2,"retryAfter":7,"text":"hello"}]@@`), "hello")
	})
}

func TestAProviderIsReachedFiveTimesAndThenTheFallback(t *testing.T) {
	bubble(t, func(t *testing.T) {
		other := &play{steps: []step{failing(status(500, 0)), say("from the other"), say("again")}}
		r := newRig(t, func(r *rig) {
			r.set.Resolve = func(string) ([]native.Target, error) {
				return []native.Target{r.target("main", r.model), r.target("other", other)}, nil
			}
		}, slices.Repeat([]step{failing(status(500, 0))}, 10)...)
		r.wantText(r.prompt("hi"), "from the other")
		r.wantCalls(model.MaxAttempts)
		if other.calls() != 2 {
			t.Errorf("the fallback was called %d times", other.calls())
		}
		var to []string
		for _, p := range of[event.ProviderResolvedPayload](r.journal) {
			to = append(to, p.Provider+"/"+p.Model)
		}
		if !slices.Equal(to, []string{"main/main-1", "other/other-1"}) {
			t.Errorf("provider.resolved %v", to)
		}
		if d := of[event.LLMAttemptDiscardedPayload](r.journal); len(d) != 6 {
			t.Errorf("%d attempts discarded", len(d))
		}
		if c := of[event.LLMTurnCompletedPayload](r.journal); len(c) != 1 || c[0].Provider != "other" {
			t.Errorf("llm.turn.completed %+v", c)
		}
	})
}

func TestWhenAllProvidersFailTheTurnFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		other := &play{steps: []step{failing(status(401, 0))}}
		r := newRig(t, func(r *rig) {
			r.set.Resolve = func(string) ([]native.Target, error) {
				return []native.Target{r.target("main", r.model), r.target("other", other)}, nil
			}
		}, slices.Repeat([]step{failing(status(529, 0))}, 10)...)
		_, err := r.try(r.ctx, "hi")
		r.wantTurnError(err, event.ReasonProvider)
		r.wantCalls(model.MaxAttempts)
		if other.calls() != 1 || !strings.Contains(err.Error(), "401") {
			t.Errorf("the fallback was called %d times; %v", other.calls(), err)
		}
	})
}

func TestAnErrorThatIsNotTransientFailsAtOnce(t *testing.T) {
	for name, err := range map[string]error{
		"authentication": status(401, 0), "invalid request": status(400, 0),
		"context length": &model.Error{Kind: model.ErrContextLength}, "protocol": &model.Error{Kind: model.ErrProtocol},
		"not of a model": errors.New("broken"), "a wait beyond bounds": status(429, time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start := time.Now()
				r := newRig(t, nil, failing(err), say("never"))
				_, got := r.try(r.ctx, "hi")
				reason := event.ReasonProvider
				if name == "context length" {
					reason = event.ReasonContextLength
				}
				if te := r.wantTurnError(got, reason); !errors.Is(te, err) {
					t.Errorf("the cause is %v", te.Err)
				}
				r.wantCalls(1)
				if time.Since(start) > 0 {
					t.Errorf("it waited %s", time.Since(start))
				}
			})
		})
	}
}

// Deltas of an attempt that broke are retracted, and its calls are not made.
func TestABrokenStreamIsRetractedAndMadeAgain(t *testing.T) {
	broken := &model.Error{Kind: model.ErrIncomplete, Cause: io.ErrUnexpectedEOF}
	r := newRig(t, nil,
		then(broken, append(textParts("half an ans"), callParts(use{"c1", "write", `{"path":"a","content":"x"}`})...)...),
		parts(append(textParts("no finish"), callParts(use{"c1", "write", `{"path":"a","content":"x"}`})...)...),
		parts(append(textParts("an error"), finish(ai.FinishError, usage(3, 3)))...),
		say("whole"))
	res := r.prompt("hi")
	r.wantText(res, "whole")
	if n := len(res.Steps); n != 4 || res.Steps[0].FinishReason.Unified != ai.FinishError || res.Steps[0].ProviderMetadata["native"]["discarded"] != true {
		t.Errorf("steps %+v", res.Steps)
	}
	if r.has("a") {
		t.Error("a call of a broken answer was made")
	}
	var order []string
	for _, f := range r.journal.all() {
		switch p := f.Payload.(type) {
		case event.LLMTurnRequestedPayload:
			order = append(order, fmt.Sprint("requested ", p.Attempt))
		case event.AssistantMessageDeltaPayload:
			order = append(order, "delta "+p.Content)
		case event.LLMAttemptDiscardedPayload:
			order = append(order, fmt.Sprint("discarded ", p.Attempt, " ", p.Reason))
		case event.AssistantMessagePayload:
			order = append(order, "message "+p.Content)
		}
	}
	want := []string{"requested 1", "delta half an ans", "discarded 1 incomplete", "requested 2", "delta no finish", "discarded 2 incomplete",
		"requested 3", "delta an error", "discarded 3 server", "requested 4", "delta whole", "message whole"}
	if !slices.Equal(order, want) {
		t.Errorf("facts %q, want %q", order, want)
	}
	for _, m := range r.model.request(3).Messages {
		if m.Role == ai.RoleAssistant {
			t.Errorf("the model reads %+v of a broken answer", m)
		}
	}
}

func TestAnEmptyAnswerIsAskedForAgainTwice(t *testing.T) {
	empty := parts(finish(ai.FinishStop, usage(7, 0)))
	thought := parts(model.Part{Kind: model.PartReasoningDelta, Text: "hm"}, model.Part{Kind: model.PartContent, Content: ai.ReasoningPart{Text: "hm"}}, finish(ai.FinishStop, usage(7, 1)))
	t.Run("then it answers", func(t *testing.T) {
		r := newRig(t, nil, empty, thought, say("hello"))
		r.wantText(r.prompt("hi"), "hello")
		e := of[event.LLMEmptyResponseRetryPayload](r.journal)
		if len(e) != 2 || e[0].Retry != 1 || e[1].Retry != 2 || e[0].MaxRetries != 2 {
			t.Errorf("llm.empty_response.retry %+v", e)
		}
		// What the empty answers consumed was consumed.
		u := of[event.UsageDeltaPayload](r.journal)
		if len(u) != 3 || u[2].CumulativeUsage.PromptTokensTotal != 24 {
			t.Errorf("usage.delta %+v", u)
		}
	})
	t.Run("then the turn fails", func(t *testing.T) {
		r := newRig(t, nil, empty, empty, empty, say("never"))
		_, err := r.try(r.ctx, "hi")
		r.wantTurnError(err, event.ReasonProvider)
		r.wantCalls(3)
		if e := of[event.LLMEmptyResponseRetryPayload](r.journal); len(e) != 2 {
			t.Errorf("%d retries", len(e))
		}
	})
	t.Run("then the fallback", func(t *testing.T) {
		other := &play{steps: []step{empty, say("hello")}}
		r := newRig(t, func(r *rig) {
			r.set.Resolve = func(string) ([]native.Target, error) {
				return []native.Target{r.target("main", r.model), r.target("other", other)}, nil
			}
		}, empty, empty, empty)
		r.wantText(r.prompt("hi"), "hello")
	})
	t.Run("never beyond the bound of a provider", func(t *testing.T) {
		r := newRig(t, nil, failing(status(500, 0)), failing(status(500, 0)), failing(status(500, 0)), failing(status(500, 0)), empty, say("never"))
		_, err := r.try(r.ctx, "hi")
		r.wantTurnError(err, event.ReasonProvider)
		r.wantCalls(5)
	})
}

func TestTheEndOfTheContextEndsABackoff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, nil, failing(status(429, 90*time.Second)), say("next"))
		ctx, cancel := context.WithCancelCause(r.ctx)
		stop := errors.New("stop")
		end := r.background(ctx, "hi")
		synctest.Wait()
		start := time.Now()
		cancel(stop)
		if _, err := end(); !errors.Is(err, stop) {
			t.Errorf("error %v", err)
		}
		if time.Since(start) > 0 {
			t.Errorf("it took %s", time.Since(start))
		}
		r.wantText(r.prompt("more"), "next")
	})
}

func TestASuspensionEndsABackoffAndACall(t *testing.T) {
	t.Run("backoff", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			r := newRig(t, nil, failing(status(429, 90*time.Second)), say("hello"))
			end := r.background(r.ctx, "hi")
			synctest.Wait()
			start := time.Now()
			state := r.suspend()
			if _, err := end(); err != nil || time.Since(start) > 0 {
				t.Fatalf("%v after %s", err, time.Since(start))
			}
			r.elsewhere(state)
			r.wantText(r.goOn(nil, nil), "hello")
			if p := of[event.LLMTurnRequestedPayload](r.journal); len(p) != 2 || p[1].Attempt != 2 {
				t.Errorf("requests %+v", p)
			}
		})
	})
	t.Run("call", func(t *testing.T) {
		waiting := make(chan struct{}, 1)
		r := newRig(t, nil, hang(waiting, textParts("hal")...), say("hello"))
		for range 7 { // suspensions do not count against the provider
			r.model.steps = slices.Insert(r.model.steps, 0, r.model.steps[0])
		}
		end := r.background(r.ctx, "hi")
		for range 8 {
			receive(t, waiting)
			state := r.suspend()
			if _, err := end(); err != nil {
				t.Fatal(err)
			}
			r.elsewhere(state)
			end = r.continueInBackground()
		}
		res, err := end()
		if err != nil {
			t.Fatal(err)
		}
		r.wantText(res, "hello")
		d := of[event.LLMAttemptDiscardedPayload](r.journal)
		if len(d) != 8 || d[7].Attempt != 8 || d[7].Reason != "interrupted" {
			t.Errorf("llm.attempt.discarded %+v", d)
		}
	})
}

func (r *rig) continueInBackground() func() (*ai.GenerateTextResult, error) {
	o := r.options()
	type end struct {
		res *ai.GenerateTextResult
		err error
	}
	done := make(chan end, 1)
	s := r.agent
	go func() {
		res, err := s.ContinueGenerate(r.ctx, o, nil, nil)
		done <- end{res, err}
	}()
	return func() (*ai.GenerateTextResult, error) {
		e := receive(r.t, done)
		return e.res, e.err
	}
}

// copyTranscript is what a killed process leaves: the first n items.
func copyTranscript(t *testing.T, tr native.Transcript, n int) *native.MemoryTranscript {
	t.Helper()
	items, err := tr.Load(context.Background(), "s")
	if err != nil {
		t.Fatal(err)
	}
	out := &native.MemoryTranscript{}
	if err := out.Append(context.Background(), "s", items[:n]...); err != nil {
		t.Fatal(err)
	}
	return out
}

func itemsOf(t *testing.T, tr native.Transcript) []native.Item {
	t.Helper()
	items, err := tr.Load(context.Background(), "s")
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// A call whose process dies each time reaches its provider five times, not without end. A turn that had moved on to
// its fallback goes on there.
func TestTheBoundOfAProviderHoldsOverCrashes(t *testing.T) {
	attempt := func(n int, provider, failed string) native.Item {
		return native.Item{Kind: native.KindAttempt, Step: 1, Attempt: n, Provider: provider, Model: provider + "-1", Error: failed}
	}
	prompt := ai.UserMessage("hi")
	five := []native.Item{{Kind: native.KindPrompt, Message: &prompt}}
	for n := range model.MaxAttempts {
		five = append(five, attempt(n+1, "main", ""))
	}
	open := func(t *testing.T, items []native.Item, other *play) *rig {
		r := newRig(t, func(r *rig) {
			r.set.Resolve = func(string) ([]native.Target, error) {
				targets := []native.Target{r.target("main", r.model)}
				if other != nil {
					targets = append(targets, r.target("other", other))
				}
				return targets, nil
			}
			if err := r.set.Transcript.Append(r.ctx, "s", items...); err != nil {
				t.Fatal(err)
			}
		}, say("from main"))
		r.elsewhere(continuation(t, r.set.Transcript))
		return r
	}
	t.Run("without a fallback", func(t *testing.T) {
		r := open(t, five, nil)
		_, err := r.agent.ContinueGenerate(r.ctx, r.options(), nil, nil)
		r.wantTurnError(err, event.ReasonProvider)
		r.wantCalls(0)
	})
	t.Run("with a fallback", func(t *testing.T) {
		r := open(t, five, &play{steps: []step{say("from other")}})
		r.wantText(r.goOn(nil, nil), "from other")
		r.wantCalls(0)
	})
	t.Run("on the fallback", func(t *testing.T) {
		items := []native.Item{{Kind: native.KindPrompt, Message: &prompt}, attempt(1, "main", ""), attempt(1, "main", "authentication"), attempt(2, "other", "")}
		r := open(t, items, &play{steps: []step{say("from other")}})
		r.wantText(r.goOn(nil, nil), "from other")
		r.wantCalls(0)
		if p := of[event.ProviderResolvedPayload](r.journal); len(p) != 0 {
			t.Errorf("provider.resolved again: %+v", p)
		}
		if d := of[event.LLMAttemptDiscardedPayload](r.journal); len(d) != 1 || d[0].Attempt != 2 || d[0].Reason != "interrupted" {
			t.Errorf("llm.attempt.discarded %+v", d)
		}
	})
	t.Run("four times", func(t *testing.T) {
		r := open(t, five[:5], nil)
		r.wantText(r.goOn(nil, nil), "from main")
		if p := of[event.LLMTurnRequestedPayload](r.journal); len(p) != 1 || p[0].Attempt != 5 {
			t.Errorf("requests %+v", p)
		}
	})
}

// continuation makes the state that a turn with this transcript is continued from.
func continuation(t *testing.T, tr native.Transcript, pending ...harness.PendingToolApproval) *harness.ContinueTurnState {
	t.Helper()
	h, err := native.New(native.Settings{Transcript: tr, Resolve: func(string) ([]native.Target, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	s, err := h.DoStart(ctx, harness.StartOptions{SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	resume, err := s.DoStop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	state, err := harness.NewContinueTurnState(native.HarnessID, resume.Data)
	if err != nil {
		t.Fatal(err)
	}
	state.PendingToolApprovals = pending
	return state
}
