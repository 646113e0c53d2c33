package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
)

// Options configure a Stream.
type Options struct {
	// Out gets the assistant's text, Info everything else. They may be the same terminal.
	Out, Info io.Writer
	// Live: Out is a terminal, so text is shown as it comes. Otherwise whole messages are written, so that Out never
	// holds text of an attempt that was discarded.
	Live bool
	// Status: Info is a terminal, so the call that runs is shown until it ends.
	Status bool
	Style  Style
	// Quiet leaves out everything but the assistant's text and the end.
	Quiet bool
}

// Stream shows the events of one run in their order. It is used by one goroutine.
type Stream struct {
	o       Options
	calls   map[string]string // running calls: id → summary
	midLine bool              // the terminal's cursor stands after assistant text
	status  bool              // a transient line is shown
	deltas  bool              // the current message came as deltas
	started bool
}

// NewStream returns a stream.
func NewStream(o Options) *Stream { return &Stream{o: o, calls: map[string]string{}} }

// clear takes the transient line away and ends an open line of text.
func (s *Stream) clear() {
	if s.status {
		fmt.Fprint(s.o.Info, "\r\x1b[K")
		s.status = false
	}
	if s.midLine {
		fmt.Fprintln(s.o.Out)
		s.midLine = false
	}
}

// Line writes a line of information.
func (s *Stream) Line(format string, args ...any) {
	s.clear()
	fmt.Fprintf(s.o.Info, format+"\n", args...)
}

// Block lets f write to the information side, beginning on a fresh line.
func (s *Stream) Block(f func(w io.Writer)) {
	s.clear()
	f(s.o.Info)
}

func (s *Stream) transient(text string) {
	if !s.o.Status || s.o.Quiet || s.midLine {
		return
	}
	if s.status {
		fmt.Fprint(s.o.Info, "\r\x1b[K")
	}
	fmt.Fprint(s.o.Info, s.o.Style.Dim("… "+text))
	s.status = true
}

func (s *Stream) info(format string, args ...any) {
	if !s.o.Quiet {
		s.Line(format, args...)
	}
}

// Event shows one event. Kinds that people need not see are passed over.
func (s *Stream) Event(ev event.Event) error {
	p, err := event.Decode(ev.Type, ev.Payload)
	if err != nil {
		return nil //nolint:nilerr // a kind of a newer server: nothing to show
	}
	st := s.o.Style
	switch p := p.(type) {
	case *event.RunStartedPayload:
		s.begin(ev.RunID, p)
	case *event.RunRecoveredPayload:
		s.info("%s", st.Yellow(fmt.Sprintf("the run goes on after its worker was lost (attempt %d)", p.Attempts)))
	case *event.ConversationContinuedPayload:
		s.info("%s", st.Dim(fmt.Sprintf("continues a conversation of %d messages", p.PriorMessageCount)))
	case *event.AssistantMessageDeltaPayload:
		s.delta(p.Content)
	case *event.AssistantMessagePayload:
		s.message(p.Content)
	case *event.LLMTurnRequestedPayload:
		s.transient("thinking")
	case *event.LLMAttemptDiscardedPayload:
		s.deltas = false
		text := "a model call does not count: " + Line(p.Reason, 300)
		if p.RetryInMS > 0 {
			text += "; made again in " + Duration(p.RetryInMS)
		}
		s.info("%s", st.Yellow("↻ "+text))
	case *event.LLMEmptyResponseRetryPayload:
		s.info("%s", st.Yellow(fmt.Sprintf("↻ the model answered nothing; asking again (%d of %d)", p.Retry, p.MaxRetries)))
	case *event.ToolCallStartedPayload:
		s.calls[p.CallID] = Call(p.Tool, p.Arguments)
		s.transient(s.calls[p.CallID])
	case *event.ToolCallCompletedPayload:
		s.completed(p)
	case *event.ToolCallBlockedPayload:
		s.info("%s %s %s", st.Red("⊘"), Line(p.Tool, 60), st.Red("refused: "+Line(p.Reason, 300)))
	case *event.ToolApprovalRequiredPayload:
		s.calls[p.CallID] = Call(p.Tool, p.Arguments)
		s.info("%s %s %s", st.Yellow("⏸"), s.calls[p.CallID], st.Yellow("needs approval "+Line(p.ApprovalID, 60)))
	case *event.ToolApprovalGrantedPayload:
		s.info("%s %s%s", st.Green("✓"), "approved "+Line(p.ApprovalID, 60), by(p.DecidedBy))
	case *event.ToolApprovalDeniedPayload:
		text := Line(p.Status, 20) + " " + Line(p.ApprovalID, 60)
		if p.Reason != "" {
			text += ": " + Line(p.Reason, 300)
		}
		s.info("%s %s%s", st.Red("✗"), text, by(p.DecidedBy))
	case *event.RunResumedPayload:
		if p.TimedOut {
			s.info("%s", st.Yellow("nobody answered the question in time; the run goes on"))
		} else {
			s.info("%s%s%s", "the question was answered", by(p.AnsweredBy), answers(p.Answers))
		}
	case *event.ToolActivatedPayload:
		s.info("%s", st.Dim("+ tools: "+Line(strings.Join(p.Tools, ", "), 200)))
	case *event.SteeringReceivedPayload:
		s.info("%s %s", st.Blue("▸"), Line(p.Message, 300))
	case *event.TodosUpdatedPayload:
		s.todos(p.Todos)
	case *event.PromptWarningPayload:
		s.info("%s", st.Yellow("! "+Line(p.Message, 500)))
	case *event.RunCostLimitReachedPayload:
		s.info("%s", st.Yellow(fmt.Sprintf("the budget of $%.4f is used up ($%.4f)", p.MaxCostUSD, p.CumulativeCostUSD)))
	case *event.JobCompletedPayload:
		s.info("%s", st.Dim(fmt.Sprintf("background job %s %s with code %d", Line(p.JobID, 60), Line(p.Status, 20), p.ExitCode)))
	}
	return nil
}

// answers lists the answers to the questions of one call, in the order of the questions' texts.
func answers(m map[string][]string) string {
	var all []string
	for _, q := range slices.Sorted(maps.Keys(m)) {
		all = append(all, strings.Join(m[q], ", "))
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + Line(strings.Join(all, "; "), 300)
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + Line(who, 80)
}

func (s *Stream) begin(runID string, p *event.RunStartedPayload) {
	if s.started {
		return
	}
	s.started = true
	parts := []string{"run " + Line(runID, 80)}
	if p.Model != "" {
		parts = append(parts, Line(p.Model, 80))
	}
	parts = append(parts, Line(p.Workspace, 200))
	s.info("%s", s.o.Style.Dim(strings.Join(parts, " · ")))
	for _, n := range p.Notes {
		s.info("%s", s.o.Style.Dim("note: "+Line(n, 500)))
	}
}

func (s *Stream) delta(text string) {
	if !s.o.Live || text == "" {
		return
	}
	if !s.midLine {
		s.clear()
	}
	s.deltas = true
	fmt.Fprint(s.o.Out, Text(text))
	s.midLine = !strings.HasSuffix(text, "\n")
}

// message ends a message: what came as deltas is not written twice.
func (s *Stream) message(text string) {
	if s.deltas {
		s.deltas = false
		s.clear()
		return
	}
	if text == "" {
		return
	}
	s.clear()
	fmt.Fprintln(s.o.Out, strings.TrimSuffix(Text(text), "\n"))
}

func (s *Stream) completed(p *event.ToolCallCompletedPayload) {
	st := s.o.Style
	summary, ok := s.calls[p.CallID]
	if !ok {
		summary = Line(p.Tool, 60)
	}
	delete(s.calls, p.CallID)
	text, bad := outcome(p)
	mark := st.Green("●")
	if bad {
		mark, text = st.Red("●"), st.Red(text)
	}
	parts := []string{Duration(p.DurationMS)}
	if text != "" {
		parts = append([]string{text}, parts...)
	}
	var lines []string
	if p.Diff != "" {
		var added, removed int
		added, removed, lines = Diff(p.Diff, st)
		parts = append(parts, fmt.Sprintf("+%d −%d", added, removed))
	}
	if p.Truncated {
		parts = append(parts, "output cut")
	}
	s.info("%s %s %s", mark, summary, st.Dim("("+strings.Join(parts, ", ")+")"))
	for _, l := range lines {
		s.info("    %s", l)
	}
	for _, rest := range s.calls {
		s.transient(rest)
		break
	}
}

func (s *Stream) todos(list []event.Todo) {
	for _, t := range list {
		mark := map[string]string{"completed": "☑", "in_progress": "▶", "cancelled": "☒"}[t.Status]
		if mark == "" {
			mark = "☐"
		}
		s.info("  %s %s", mark, Line(t.Text, 200))
	}
}

// End shows how the run stands, with its steps, tokens and money.
func (s *Stream) End(r api.Run) {
	st := s.o.Style
	var head string
	switch r.Status {
	case "completed":
		head = st.Green("✓ completed")
	case "failed":
		head = st.Red("✗ failed: " + Line(r.Error, 1000))
		if r.Reason != "" {
			head += st.Dim(" (" + Line(r.Reason, 60) + ")")
		}
	case "cancelled":
		head = st.Yellow("✗ cancelled")
	case "waiting_for_approval":
		head = st.Yellow("⏸ waits for approval")
	case "waiting_for_user":
		head = st.Yellow("⏸ waits for an answer")
	default:
		head = Line(r.Status, 40)
	}
	steps := fmt.Sprintf("%d steps", r.Steps)
	if r.Steps == 1 {
		steps = "1 step"
	}
	s.Line("%s · %s · %s", head, steps, Usage(r.UsageTotals, r.CostTotals))
}
