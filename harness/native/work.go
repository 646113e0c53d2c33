package native

import (
	"github.com/harness-go/harness/ai"
)

// phase is what the loop does next. It follows from the transcript alone.
type phase int

// The phases of a turn.
const (
	phaseModel phase = iota // call the model
	phaseCalls              // bring the last answer's calls to their results
	phaseDone               // the last answer had no calls
)

// work is the next thing to do. answer is the one that phaseCalls and phaseDone are about.
type work struct {
	phase  phase
	step   int
	answer answer
}

// answer is the last answer of a turn with the results that its calls have so far.
type answer struct {
	item    Item
	results map[string]Item
	steered bool // a message came after it
}

func (a answer) calls() []ai.ToolCallPart {
	if a.item.Message == nil {
		return nil
	}
	return a.item.Message.ToolCalls()
}

// open lists the calls without a result, in order.
func (a answer) open() []ai.ToolCallPart {
	var out []ai.ToolCallPart
	for _, c := range a.calls() {
		if _, ok := a.results[c.ToolCallID]; !ok {
			out = append(out, c)
		}
	}
	return out
}

// turnItems are the items of the current turn: from the last prompt on.
func turnItems(items []Item) []Item {
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].Kind == KindPrompt {
			return items[i:]
		}
	}
	return items
}

// sinceAnswer are the items of the current turn that follow its newest answer, and where they begin.
func sinceAnswer(items []Item) (tail []Item, at int) {
	for at = len(items); at > 0; at-- {
		if k := items[at-1].Kind; k == KindAnswer || k == KindPrompt {
			break
		}
	}
	return items[at:], at
}

// lastAnswer finds the newest answer of the current turn.
func lastAnswer(items []Item) (answer, bool) {
	tail, at := sinceAnswer(items)
	if at == 0 || items[at-1].Kind != KindAnswer {
		return answer{}, false
	}
	a := answer{item: items[at-1], results: resultsAfter(tail)}
	for i := range tail {
		a.steered = a.steered || tail[i].Kind == KindSteer && tail[i].Message != nil
	}
	return a, true
}

// resultsAfter are the results, by call, of the answer that the items follow.
func resultsAfter(items []Item) map[string]Item {
	found := map[string]Item{}
	for _, it := range items {
		switch it.Kind {
		case KindAnswer, KindPrompt:
			return found
		case KindResult:
			found[it.CallID] = it
		}
	}
	return found
}

func nextWork(items []Item) work {
	a, ok := lastAnswer(items)
	switch {
	case !ok:
		return work{phase: phaseModel, step: 1}
	case len(a.open()) > 0:
		return work{phase: phaseCalls, step: a.item.Step, answer: a}
	case len(a.calls()) > 0 || a.steered || paused(a.item.Finish):
		return work{phase: phaseModel, step: a.item.Step + 1, answer: a}
	}
	return work{phase: phaseDone, step: a.item.Step, answer: a}
}

// attemptInterrupted marks an attempt that was given up with its turn, by a suspension or a cancellation. It does not
// count against its provider.
const attemptInterrupted = "interrupted"

// attemptEmpty marks an attempt whose answer held nothing.
const attemptEmpty = "empty"

// tries is what a step's model call has seen so far.
type tries struct {
	made int  // attempts on all providers
	open bool // the last one is neither answered nor failed: its process died
	// Of the last attempt's provider: how often the call reached it, and how many of its answers were empty.
	provider, model string
	reached, empty  int
}

// attempts counts the model calls of the step that is not answered yet, or those of its compaction that is not done.
func attempts(items []Item, step int, purpose string) tries {
	var t tries
	tail, _ := sinceAnswer(items)
	for i := range tail {
		it := &tail[i]
		if it.Kind == KindCompaction && purpose != "" {
			t = tries{}
		}
		if it.Kind != KindAttempt || it.Step != step || it.Purpose != purpose {
			continue
		}
		t.open = it.Error == ""
		switch it.Error {
		case "":
			if it.Provider != t.provider || it.Model != t.model {
				t.provider, t.model, t.reached, t.empty = it.Provider, it.Model, 0, 0
			}
			t.made = it.Attempt
			t.reached++
		case attemptInterrupted:
			t.reached--
		case attemptEmpty:
			t.empty++
		}
	}
	return t
}

// begun reports whether something of the step is on record, and with it the facts that open it.
func begun(items []Item, step int) bool {
	tail, _ := sinceAnswer(items)
	for i := range tail {
		if it := &tail[i]; it.Step == step && (it.Kind == KindAttempt || it.Kind == KindCompaction) {
			return true
		}
	}
	return false
}

// paused tells of an answer that the provider cut off to be asked again with the same messages, and with this answer
// behind them.
func paused(f *ai.FinishReason) bool { return f != nil && f.Raw == "pause_turn" }

// maxPauses is how often in a row an answer may be paused.
const maxPauses = 16

// pauses counts the paused answers at the end of the turn.
func pauses(items []Item) (n int) {
	for i := len(items) - 1; i >= 0 && items[i].Kind != KindPrompt; i-- {
		if items[i].Kind == KindAnswer {
			if !paused(items[i].Finish) {
				break
			}
			n++
		}
	}
	return n
}

// lastAttempt finds the turn's newest model call that fits.
func lastAttempt(items []Item, fits func(*Item) bool) (Item, bool) {
	for i := len(items) - 1; i >= 0 && items[i].Kind != KindPrompt; i-- {
		if it := &items[i]; it.Kind == KindAttempt && it.Purpose == "" && it.Error == "" && fits(it) {
			return *it, true
		}
	}
	return Item{}, false
}

// servedBy is the provider and model of the turn's last model call, empty when there was none.
func servedBy(items []Item) (provider, model string) {
	it, _ := lastAttempt(items, func(*Item) bool { return true })
	return it.Provider, it.Model
}

// stepBegan is the working time at which the step's first model call was made, in milliseconds.
func stepBegan(items []Item, step int) int64 {
	it, _ := lastAttempt(items, func(it *Item) bool { return it.Step == step && it.Attempt == 1 })
	return it.ActiveMS
}

// tally is what the items of a session add up to. All but the fields up to lastOutput begin anew with each turn.
type tally struct {
	messages   int
	request    *CompactRequest // a compaction that was asked for and not done yet; the newest, where there are several
	lastOutput int64           // tokens of the newest answer, 0 when not known

	usage      ai.Usage
	cost       float64 // in dollars
	lastCost   float64 // of the newest answer
	unreported bool    // a provider left out what an answer consumed
	activeMS   int64   // working time
}

func (t *tally) add(items ...Item) {
	for i := range items {
		it := &items[i]
		switch {
		case it.Kind == KindPrompt:
			*t = tally{messages: t.messages, request: t.request, lastOutput: t.lastOutput}
		case it.Compact != nil:
			t.request = it.Compact
		case it.Kind == KindCompaction && it.Compaction.Cause == causeRequested:
			t.request = nil
		}
		if it.Message != nil {
			t.messages++
		}
		if it.Usage != nil {
			t.usage = t.usage.Add(*it.Usage)
		}
		t.cost += it.CostUSD
		t.activeMS = max(t.activeMS, it.ActiveMS)
		switch it.Kind {
		case KindAnswer:
			t.lastCost, t.lastOutput = it.CostUSD, count(usageOf(*it).OutputTokens.Total)
			t.unreported = t.unreported || !usageOf(*it).Known()
		case KindCompaction:
			t.unreported = t.unreported || it.Usage != nil && !it.Usage.Known()
		}
	}
}
