package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
)

// recorded is a model whose answer follows from how many answers the transcript holds, whichever process asks. It
// summarises when it may call no tool.
type recorded struct {
	t       testing.TB
	tr      native.Transcript
	answers []step

	requests []model.Request
	// broken lets a call of the kind fail in the middle, as often as it says.
	broken map[string]int
}

func (m *recorded) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		paired(m.t, req)
		m.requests = append(m.requests, req)
		kind, s := "summary", say("A summary of what was done.")
		if req.ToolChoice != model.ToolChoiceNone {
			items, err := m.tr.Load(ctx, "s")
			if err != nil {
				m.t.Error(err)
			}
			n := 0
			for _, it := range items {
				if it.Kind == native.KindAnswer {
					n++
				}
			}
			kind, s = "answer", m.answers[n]
		}
		if m.broken[kind] > 0 {
			m.broken[kind]--
			yield(model.Part{}, status(529, 0))
			return
		}
		_ = s(ctx, func(p model.Part) bool { return yield(p, nil) })
	}
}

func compactingRig(t *testing.T, tr native.Transcript, answers []step) (*rig, *recorded) {
	m := &recorded{t: t, tr: tr, answers: answers}
	r := newRig(t, func(r *rig) {
		tight(r)
		r.set.Transcript = tr
		r.set.Compaction.Mode = tool.CompactSummarize
		r.set.Resolve = func(string) ([]native.Target, error) {
			tg := r.target("main", r.model)
			tg.Model, tg.ContextWindow = m, window
			return []native.Target{tg}, nil
		}
	})
	return r, m
}

// Wherever a process dies around a compaction, another goes on to the same end: one compaction, a summarising call
// that was cut off is made again, and the model reads the same in the end.
func TestACompactionSurvivesACrashAnywhere(t *testing.T) {
	answers := append(bigs(3, 0), using(window*7/10, use{"b8", "big", `{}`}), using(0, use{"b9", "glob", `{"pattern":"x"}`}), using(0))
	whole := &native.MemoryTranscript{}
	r, m := compactingRig(t, whole, answers)
	r.wantText(r.prompt("the task"), "done")
	items := itemsOf(t, whole)
	want := m.requests[len(m.requests)-1].Messages
	summaries := 0
	for n := 1; n < len(items); n++ {
		tr := copyTranscript(t, whole, n)
		r, m := compactingRig(t, tr, answers)
		r.elsewhere(continuation(t, tr))
		r.wantText(r.goOn(nil, nil), "done")
		compactions := 0
		for _, it := range itemsOf(t, tr) {
			if it.Kind == native.KindCompaction {
				compactions++
			}
		}
		if compactions != 1 {
			t.Errorf("killed after item %d: %d compactions", n, compactions)
		}
		if n == len(items)-1 { // the last answer is on record
			continue
		}
		if len(m.requests) > 0 && !reflect.DeepEqual(m.requests[len(m.requests)-1].Messages, want) {
			t.Errorf("killed after item %d: the model reads %s, want %s", n, jsonOf(t, m.requests[len(m.requests)-1].Messages), jsonOf(t, want))
		}
		// What was begun twice is said once.
		if s := of[event.AutoCompactStartedPayload](r.journal); items[n-1].Purpose == event.PurposeSummary {
			summaries++
			d := of[event.LLMAttemptDiscardedPayload](r.journal)
			if len(s) != 0 || len(d) != 1 || d[0].Purpose != event.PurposeSummary || d[0].Reason != "interrupted" {
				t.Errorf("killed in the summarising call: %+v, %+v", s, d)
			}
		}
	}
	if summaries != 1 {
		t.Errorf("the summarising call was cut off %d times", summaries)
	}
}

// The faults of a process's own points leave the transcript whole too: a compaction is there or not.
func TestTheFaultPointsOfACompactionAreReached(t *testing.T) {
	r, m := compactingRig(t, &native.MemoryTranscript{}, append(bigs(3, 0), using(window*7/10, use{"b8", "big", `{}`}), using(0)))
	m.broken = map[string]int{"summary": 2, "answer": 1}
	var points []string
	r.set.Fault = func(p string) { points = append(points, p) }
	r.open(harness.CreateSessionOptions{})
	r.wantText(r.prompt("the task"), "done")
	for _, p := range []string{"compact.before", "summary.before", "summary.after", "compact.after"} {
		if !slices.Contains(points, p) {
			t.Errorf("%s is not reached", p)
		}
	}
	// The summarising call and the answer have attempts of their own.
	var made []string
	for _, p := range of[event.LLMTurnRequestedPayload](r.journal) {
		made = append(made, fmt.Sprint(p.Purpose, p.Attempt))
	}
	if want := []string{"1", "2", "1", "1", "1", "summary1", "summary2", "summary3", "1"}; !slices.Equal(made, want) {
		t.Errorf("attempts %q, want %q", made, want)
	}
}

// After any sequence of turns, failures, cancellations and compactions, each call in a request has exactly one result
// and each result its call, the newest messages are as they were, and a new process sends the same.
func TestEveryCallHasItsResultAfterAnySequenceOfTurnsAndCompactions(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			tr := &native.MemoryTranscript{}
			w := &wild{t: t, rnd: rnd, items: func() []native.Item { return itemsOf(t, tr) }}
			r := newRig(t, func(r *rig) {
				tight(r)
				r.set.Transcript = tr
				r.set.Compaction = native.Compaction{Auto: rnd.IntN(2) == 0, Threshold: 0.3 + rnd.Float64()/2, KeepLast: 2 + rnd.IntN(4),
					Mode: []tool.CompactMode{"", tool.CompactStrip, tool.CompactSummarize}[rnd.IntN(3)]}
				r.set.Resolve = func(string) ([]native.Target, error) {
					tg := r.target("main", r.model)
					tg.Model, tg.ContextWindow = w, window
					return []native.Target{tg}, nil
				}
				r.set.Inbox = func(context.Context) ([]native.Message, error) {
					switch rnd.IntN(12) {
					case 0:
						return []native.Message{{Text: "and mind this"}}, nil
					case 1:
						return []native.Message{{Compact: &native.CompactRequest{Mode: tool.CompactHybrid, KeepLast: 2}}}, nil
					}
					return nil, nil
				}
			})
			for turn := range 6 {
				ctx, cancel := context.WithCancelCause(r.ctx)
				w.cancel = func() { cancel(errStop) }
				_, err := r.try(ctx, fmt.Sprint("task ", turn))
				cancel(nil)
				var te *native.TurnError
				if err != nil && !errors.Is(err, errStop) && !errors.As(err, &te) {
					t.Fatal(err)
				}
				if rnd.IntN(3) == 0 {
					if err := r.session.Compact(r.ctx, ""); err != nil {
						t.Fatal(err)
					}
				}
				if rnd.IntN(2) == 0 {
					s, err := r.session.Stop(r.ctx)
					if err != nil {
						t.Fatal(err)
					}
					r.elsewhere(s)
				}
			}
		})
	}
}

// wild is a model that does anything that a model may do.
type wild struct {
	t      testing.TB
	rnd    *rand.Rand
	cancel func()
	calls  int
	last   []ai.Message // of the newest request that was no summary
	made   int          // compactions before it
	items  func() []native.Item
}

func (w *wild) Stream(_ context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		paired(w.t, req)
		if req.Messages[0].Role != ai.RoleUser {
			w.t.Errorf("the first message is the %s's", req.Messages[0].Role)
		}
		if req.ToolChoice == model.ToolChoiceNone {
			switch w.rnd.IntN(4) {
			case 0:
				yield(model.Part{}, status(401, 0))
			default:
				_ = say("In short.")(context.Background(), func(p model.Part) bool { return yield(p, nil) })
			}
			return
		}
		made := native.ContextOf(w.items(), 0).Compactions
		if n := len(w.last); n > 0 && made == w.made && (len(req.Messages) < n || !reflect.DeepEqual(req.Messages[:n], w.last)) {
			w.t.Error("messages changed, and not by a compaction")
		}
		w.last, w.made = req.Messages, made
		switch w.rnd.IntN(20) {
		case 0:
			yield(model.Part{}, &model.Error{Kind: model.ErrContextLength})
			return
		case 1:
			yield(model.Part{}, status(401, 0))
			return
		case 2:
			w.cancel()
		}
		var uses []use
		for range w.rnd.IntN(4) {
			w.calls++
			name := []string{"big", "glob", "shrink", "todos", "nothing"}[w.rnd.IntN(5)]
			in := map[string]string{"big": `{}`, "glob": `{"pattern":"*"}`, "shrink": `{"mode":"strip"}`, "todos": `{"action":"get"}`, "nothing": `{`}[name]
			uses = append(uses, use{fmt.Sprint("w", w.calls), name, in})
		}
		tokens := int64(0)
		if w.rnd.IntN(2) == 0 {
			b, _ := json.Marshal(req.Messages)
			tokens = 2500 + int64(len(b))/4
		}
		_ = using(tokens, uses...)(context.Background(), func(p model.Part) bool { return yield(p, nil) })
	}
}
