// Package modeltest is the suite that every model.Model passes. The model under test must answer by the script
// grammar of package scripted, either because it is the scripted model or because it talks to its server; so the suite
// needs no other way to say what an answer should be.
package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
)

// Config is what a case wants of the model under test. Zero values mean the model's own defaults.
type Config struct {
	IdleTimeout time.Duration
}

// Answer is one whole answer, gathered.
type Answer struct {
	Parts     []model.Part
	Deltas    string            // the text deltas, joined
	Reasoning string            // the reasoning deltas, joined
	Args      map[int]string    // the argument deltas of each call, joined
	Content   []ai.Part         // the whole items
	Calls     []ai.ToolCallPart // those of them that are calls
	Truncated bool              // any item was marked so
	Finish    model.Part        // zero when none came
	Err       error
}

// Text joins the whole text items.
func (a Answer) Text() string { return ai.Message{Content: a.Content}.Text() }

// Collect ranges over a stream to its end.
func Collect(ctx context.Context, m model.Model, req model.Request) Answer {
	a := Answer{Args: map[int]string{}}
	for p, err := range m.Stream(ctx, req) {
		if err != nil {
			a.Err = err
			break
		}
		a.Parts = append(a.Parts, p)
		switch p.Kind {
		case model.PartTextDelta:
			a.Deltas += p.Text
		case model.PartReasoningDelta:
			a.Reasoning += p.Text
		case model.PartToolCallDelta:
			a.Args[p.Index] += p.Text
		case model.PartContent:
			a.Content = append(a.Content, p.Content)
			a.Truncated = a.Truncated || p.Truncated
			if c, ok := p.Content.(ai.ToolCallPart); ok {
				a.Calls = append(a.Calls, c)
			}
		case model.PartFinish:
			a.Finish = p
		}
	}
	return a
}

// Ask is a request with one user message.
func Ask(prompt string) model.Request {
	return model.Request{Model: "scripted", Messages: []ai.Message{ai.UserMessage(prompt)}}
}

// Run runs the suite. newModel makes the model under test for one case.
func Run(t *testing.T, newModel func(testing.TB, Config) model.Model) {
	s := suite{newModel}
	t.Run("Text", s.text)
	t.Run("Reasoning", s.reasoning)
	t.Run("OneCall", s.oneCall)
	t.Run("ParallelCalls", s.parallelCalls)
	t.Run("SplitArguments", s.splitArguments)
	t.Run("MalformedArguments", s.malformedArguments)
	t.Run("EmptyArguments", s.emptyArguments)
	t.Run("CutCallMustNotRun", s.cutCall)
	t.Run("EmptyAnswer", s.emptyAnswer)
	t.Run("UnicodeAndMarkup", s.unicode)
	t.Run("NextStepAfterResults", s.nextStep)
	t.Run("StatusErrors", s.statusErrors)
	t.Run("FailsOnlySoManyTimes", s.times)
	t.Run("CancelWhileHanging", s.cancelHanging)
	t.Run("CancelInTheStream", s.cancelStreaming)
	t.Run("CancelledBefore", s.cancelledBefore)
	t.Run("Idle", s.idle)
	t.Run("DropIsIncomplete", s.drop)
	t.Run("Usage", s.usage)
	t.Run("UnknownUsageIsNotZero", s.unknownUsage)
	t.Run("EarlyBreak", s.earlyBreak)
	t.Run("AtOnce", s.atOnce)
}

type suite struct {
	newModel func(testing.TB, Config) model.Model
}

func (s suite) ask(t *testing.T, prompt string) Answer {
	t.Helper()
	return Collect(t.Context(), s.newModel(t, Config{}), Ask(prompt))
}

// whole checks what holds for every answer that ended well: one finish, as the last part, and deltas that add up to
// the items.
func whole(t *testing.T, a Answer) {
	t.Helper()
	if a.Err != nil {
		t.Fatalf("the stream failed: %v", a.Err)
	}
	for i, p := range a.Parts {
		if last := i == len(a.Parts)-1; (p.Kind == model.PartFinish) != last {
			t.Fatalf("part %d of %d has kind %d", i, len(a.Parts), p.Kind)
		}
	}
	if len(a.Parts) == 0 || a.Finish.Finish.Unified == "" {
		t.Fatal("the answer has no finish reason")
	}
	if a.Text() != a.Deltas {
		t.Errorf("text items %q, deltas %q", a.Text(), a.Deltas)
	}
	for i, c := range a.Calls {
		if c.ToolCallID == "" || c.ToolName == "" {
			t.Errorf("call %d lacks its id or name: %+v", i, c)
		}
		if c.Input != a.Args[i] && c.Input != "{}" {
			t.Errorf("call %d has input %q, its deltas are %q", i, c.Input, a.Args[i])
		}
	}
}

func finish(t *testing.T, a Answer, want ai.FinishReasonKind) {
	t.Helper()
	if got := a.Finish.Finish.Unified; got != want {
		t.Errorf("finish reason %q, want %q", got, want)
	}
}

func fails(t *testing.T, a Answer, want model.ErrorKind) *model.Error {
	t.Helper()
	e, ok := model.AsError(a.Err)
	if !ok {
		t.Fatalf("error %v, want one of kind %s", a.Err, want)
	}
	if e.Kind != want {
		t.Fatalf("error of kind %s (%v), want %s", e.Kind, e, want)
	}
	if a.Finish.Kind != 0 || len(a.Content) > 0 {
		t.Errorf("a failed answer gave whole items or a finish: %+v", a.Parts)
	}
	return e
}

func (s suite) text(t *testing.T) {
	a := s.ask(t, `@@[{"text":"hello there, reader"}]@@`)
	whole(t, a)
	finish(t, a, ai.FinishStop)
	if a.Text() != "hello there, reader" {
		t.Errorf("text %q", a.Text())
	}
	if n := len(a.Parts); n < 4 {
		t.Errorf("%d parts: the text was not streamed", n)
	}
	if a.Finish.ResponseID == "" || a.Finish.ServedModel != "scripted" {
		t.Errorf("response id %q, served model %q", a.Finish.ResponseID, a.Finish.ServedModel)
	}
}

func (s suite) reasoning(t *testing.T) {
	a := s.ask(t, `@@[{"think":"let me see","text":"done so"}]@@`)
	whole(t, a)
	if a.Text() != "done so" {
		t.Errorf("text %q", a.Text())
	}
	if a.Reasoning == "" && len(a.Content) == 1 {
		t.Skip("this wire carries no reasoning")
	}
	r, ok := a.Content[0].(ai.ReasoningPart)
	if !ok || r.Text != "let me see" || a.Reasoning != "let me see" {
		t.Errorf("reasoning %+v, deltas %q", a.Content[0], a.Reasoning)
	}
}

func (s suite) oneCall(t *testing.T) {
	a := s.ask(t, `@@[{"text":"I look","tool":"read","in":{"path":"a.txt"}}]@@`)
	whole(t, a)
	finish(t, a, ai.FinishToolCalls)
	if len(a.Calls) != 1 || a.Calls[0].ToolName != "read" || a.Calls[0].Input != `{"path":"a.txt"}` {
		t.Errorf("calls %+v", a.Calls)
	}
	if len(a.Content) != 2 || a.Text() != "I look" {
		t.Errorf("items %+v, want the text and then the call", a.Content)
	}
}

func (s suite) parallelCalls(t *testing.T) {
	a := s.ask(t, `@@[{"tools":[{"tool":"read","in":{"n":1}},{"tool":"grep","in":{"n":2}},{"tool":"read","in":{"n":3}}]}]@@`)
	whole(t, a)
	finish(t, a, ai.FinishToolCalls)
	var got []string
	ids := map[string]bool{}
	for _, c := range a.Calls {
		got = append(got, c.ToolName+c.Input)
		ids[c.ToolCallID] = true
	}
	if want := `read{"n":1} grep{"n":2} read{"n":3}`; strings.Join(got, " ") != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	if len(ids) != 3 {
		t.Errorf("%d different ids for 3 calls", len(ids))
	}
}

func (s suite) splitArguments(t *testing.T) {
	long := strings.Repeat("äöü 0123456789 ", 200)
	in, _ := json.Marshal(map[string]string{"content": long})
	a := s.ask(t, `@@[{"tool":"write","in":`+string(in)+`}]@@`)
	whole(t, a)
	deltas := 0
	for _, p := range a.Parts {
		if p.Kind == model.PartToolCallDelta {
			deltas++
			if p.Name != "write" || p.ID == "" {
				t.Fatalf("delta %d lacks the call's id or name: %+v", deltas, p)
			}
		}
	}
	if deltas < 2 {
		t.Errorf("%d deltas: the arguments were not streamed", deltas)
	}
	var got struct{ Content string }
	if len(a.Calls) != 1 || json.Unmarshal([]byte(a.Calls[0].Input), &got) != nil || got.Content != long {
		t.Errorf("arguments came out changed: %v", a.Calls)
	}
}

func (s suite) malformedArguments(t *testing.T) {
	a := s.ask(t, `@@[{"tool":"read","args":"{\"path\": \"a"}]@@`)
	whole(t, a)
	finish(t, a, ai.FinishToolCalls)
	if len(a.Calls) != 1 || a.Calls[0].Input != `{"path": "a` {
		t.Errorf("calls %+v, want the text as the model wrote it", a.Calls)
	}
}

func (s suite) emptyArguments(t *testing.T) {
	a := s.ask(t, `@@[{"tool":"todos","args":""}]@@`)
	whole(t, a)
	if len(a.Calls) != 1 || a.Calls[0].Input != "{}" {
		t.Errorf("calls %+v, want empty arguments as {}", a.Calls)
	}
}

func (s suite) cutCall(t *testing.T) {
	a := s.ask(t, `@@[{"tool":"write","args":"{\"content\":\"abc","finish":"length"}]@@`)
	whole(t, a)
	finish(t, a, ai.FinishLength)
	if len(a.Calls) != 1 || !a.Truncated || a.Calls[0].Input != `{"content":"abc` {
		t.Errorf("calls %+v, truncated %v", a.Calls, a.Truncated)
	}
}

func (s suite) emptyAnswer(t *testing.T) {
	a := s.ask(t, `@@[{}]@@`)
	whole(t, a)
	finish(t, a, ai.FinishStop)
	if len(a.Content) != 0 || len(a.Parts) != 1 {
		t.Errorf("parts %+v, want the finish alone", a.Parts)
	}
}

func (s suite) unicode(t *testing.T) {
	const text = "<b>ä & 🙂</b> \u2028 \"q\" \\ \t end"
	step, _ := json.Marshal([]map[string]string{{"text": text}})
	a := s.ask(t, "@@"+string(step)+"@@")
	whole(t, a)
	if a.Text() != text {
		t.Errorf("text %q, want %q", a.Text(), text)
	}
}

func (s suite) nextStep(t *testing.T) {
	m := s.newModel(t, Config{})
	req := Ask(`@@[{"tools":[{"tool":"read","in":{"n":1}},{"tool":"read","in":{"n":2}}]},{"text":"both read"}]@@`)
	first := Collect(t.Context(), m, req)
	whole(t, first)
	results := ai.Message{Role: ai.RoleTool}
	for _, c := range first.Calls {
		results.Content = append(results.Content, ai.ToolResultContent{
			ToolCallID: c.ToolCallID, ToolName: c.ToolName, Output: ai.TextResult("content"),
		})
	}
	req.Messages = append(req.Messages, ai.Message{Role: ai.RoleAssistant, Content: first.Content}, results)
	second := Collect(t.Context(), m, req)
	whole(t, second)
	if second.Text() != "both read" {
		t.Errorf("the second step said %q", second.Text())
	}
	if second.Finish.ResponseID == first.Finish.ResponseID {
		t.Errorf("two answers share the id %q", second.Finish.ResponseID)
	}
}

func (s suite) statusErrors(t *testing.T) {
	for _, c := range []struct {
		step   string
		kind   model.ErrorKind
		status int
		wait   time.Duration
		retry  bool
	}{
		{`{"status":400}`, model.ErrInvalidRequest, 400, 0, false},
		{`{"status":401}`, model.ErrAuth, 401, 0, false},
		{`{"status":429,"retryAfter":7}`, model.ErrRateLimit, 429, 7 * time.Second, true},
		{`{"status":500}`, model.ErrServer, 500, 0, true},
		{`{"status":529}`, model.ErrOverloaded, 529, 0, true},
	} {
		a := s.ask(t, "@@["+c.step+"]@@")
		e := fails(t, a, c.kind)
		if e.Status != c.status || e.RetryAfter != c.wait || e.Retryable() != c.retry {
			t.Errorf("%s: status %d, wait %s, retryable %v", c.step, e.Status, e.RetryAfter, e.Retryable())
		}
		if e.Message == "" || e.RequestID == "" || e.Provider == "" {
			t.Errorf("%s: the error lacks its message, request id or provider: %+v", c.step, e)
		}
	}
}

func (s suite) times(t *testing.T) {
	m := s.newModel(t, Config{})
	req := Ask(`@@[{"status":503,"times":2,"text":"at last"}]@@`)
	for range 2 {
		fails(t, Collect(t.Context(), m, req), model.ErrOverloaded)
	}
	a := Collect(t.Context(), m, req)
	whole(t, a)
	if a.Text() != "at last" {
		t.Errorf("text %q", a.Text())
	}
}

func (s suite) cancelHanging(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	a := Collect(ctx, s.newModel(t, Config{}), Ask(`@@[{"hang":600,"text":"never"}]@@`))
	if !errors.Is(a.Err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", a.Err)
	}
}

func (s suite) cancelStreaming(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	deltas := 0
	for p, err := range s.newModel(t, Config{}).Stream(ctx, Ask(`@@[{"text":"one two three four five","slow":300000}]@@`)) {
		if last = err; err == nil && p.Kind == model.PartTextDelta {
			deltas++
		}
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("error %v after %d deltas, want the context's", last, deltas)
	}
}

func (s suite) cancelledBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := Collect(ctx, s.newModel(t, Config{}), Ask("hi")); !errors.Is(a.Err, context.Canceled) {
		t.Errorf("error %v, want the context's", a.Err)
	}
}

func (s suite) idle(t *testing.T) {
	m := s.newModel(t, Config{IdleTimeout: 30 * time.Millisecond})
	a := Collect(t.Context(), m, Ask(`@@[{"text":"one two three","slow":300000}]@@`))
	if e := fails(t, a, model.ErrIdle); !e.Retryable() {
		t.Error("an idle timeout is not retryable")
	}
}

func (s suite) drop(t *testing.T) {
	a := s.ask(t, `@@[{"text":"only half","drop":true}]@@`)
	if e := fails(t, a, model.ErrIncomplete); !e.Retryable() {
		t.Error("a dropped connection is not retryable")
	}
	if a.Deltas != "only half" {
		t.Errorf("deltas %q came before the drop", a.Deltas)
	}
}

func (s suite) usage(t *testing.T) {
	a := s.ask(t, `@@[{"text":"x","inTok":2613,"cachedTok":2560,"outTok":7}]@@`)
	whole(t, a)
	in, out := a.Finish.Usage.InputTokens, a.Finish.Usage.OutputTokens
	if in.Total == nil || *in.Total != 2613 || in.CacheRead == nil || *in.CacheRead != 2560 || in.NoCache == nil || *in.NoCache != 53 {
		t.Errorf("input tokens %+v", in)
	}
	if out.Total == nil || *out.Total != 7 {
		t.Errorf("output tokens %+v", out)
	}
}

func (s suite) unknownUsage(t *testing.T) {
	a := s.ask(t, `@@[{"text":"x","noUsage":true}]@@`)
	whole(t, a)
	if a.Finish.Usage.Known() {
		t.Errorf("usage %+v, want unknown", a.Finish.Usage)
	}
}

func (s suite) earlyBreak(t *testing.T) {
	m := s.newModel(t, Config{})
	for range 3 {
		for p, err := range m.Stream(t.Context(), Ask(`@@[{"text":"one two three four","slow":20}]@@`)) {
			if err != nil {
				t.Fatalf("the stream failed: %v", err)
			}
			if p.Kind != model.PartTextDelta {
				t.Fatalf("the first part has kind %d", p.Kind)
			}
			break
		}
	}
	if a := Collect(t.Context(), m, Ask(`@@[{"text":"still here"}]@@`)); a.Err != nil || a.Text() != "still here" {
		t.Errorf("after early breaks: %q, %v", a.Text(), a.Err)
	}
}

func (s suite) atOnce(t *testing.T) {
	m := s.newModel(t, Config{})
	const n = 50
	results := make(chan Answer, n)
	for i := range n {
		go func() {
			text, _ := json.Marshal([]map[string]string{{"text": "mine is " + strings.Repeat("i", i+1)}})
			results <- Collect(t.Context(), m, Ask("@@"+string(text)+"@@"))
		}()
	}
	seen := map[string]bool{}
	for range n {
		a := <-results
		whole(t, a)
		seen[a.Text()] = true
	}
	if len(seen) != n {
		t.Errorf("%d conversations got %d different answers", n, len(seen))
	}
}
