package native

import (
	"slices"

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

// lastAnswer finds the newest answer of the current turn.
func lastAnswer(items []Item) (answer, bool) {
	cur := turnItems(items)
	for i := len(cur) - 1; i >= 0; i-- {
		if cur[i].Kind != KindAnswer {
			continue
		}
		steered := slices.ContainsFunc(cur[i+1:], func(it Item) bool { return it.Kind == KindSteer })
		return answer{item: cur[i], results: resultsAfter(cur[i+1:]), steered: steered}, true
	}
	return answer{}, false
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
	case len(a.calls()) > 0 || a.steered:
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

// attempts counts the model calls of the step.
func attempts(items []Item, step int) tries {
	var t tries
	for _, it := range turnItems(items) {
		if it.Kind != KindAttempt || it.Step != step {
			continue
		}
		switch it.Error {
		case "":
			if it.Provider != t.provider || it.Model != t.model {
				t.provider, t.model, t.reached, t.empty = it.Provider, it.Model, 0, 0
			}
			t.made, t.open = it.Attempt, true
			t.reached++
		case attemptInterrupted:
			t.open = false
			t.reached--
		case attemptEmpty:
			t.open = false
			t.empty++
		default:
			t.open = false
		}
	}
	return t
}

// servedBy is the provider and model of the turn's last model call, empty when there was none.
func servedBy(items []Item) (provider, model string) {
	cur := turnItems(items)
	for i := len(cur) - 1; i >= 0; i-- {
		if cur[i].Kind == KindAttempt && cur[i].Error == "" {
			return cur[i].Provider, cur[i].Model
		}
	}
	return "", ""
}

// stepBegan is the working time at which the step's first model call was made, in milliseconds.
func stepBegan(items []Item, step int) int64 {
	for _, it := range turnItems(items) {
		if it.Kind == KindAttempt && it.Step == step {
			return it.ActiveMS
		}
	}
	return 0
}

// turnUsage sums the usage of the current turn.
func turnUsage(items []Item) ai.Usage {
	var u ai.Usage
	for _, it := range turnItems(items) {
		if it.Usage != nil {
			u = u.Add(*it.Usage)
		}
	}
	return u
}

// turnCost sums the money of the current turn and returns that of its last answer.
func turnCost(items []Item) (total, last float64) {
	for _, it := range turnItems(items) {
		total += it.CostUSD
		if it.Kind == KindAnswer {
			last = it.CostUSD
		}
	}
	return total, last
}

// unreported tells whether a provider left out what an answer of the current turn consumed.
func unreported(items []Item) bool {
	for _, it := range turnItems(items) {
		if it.Kind == KindAnswer && (it.Usage == nil || !it.Usage.Known()) {
			return true
		}
	}
	return false
}

// activeTime is the working time that the current turn has recorded, in milliseconds.
func activeTime(items []Item) int64 {
	var ms int64
	for _, it := range turnItems(items) {
		ms = max(ms, it.ActiveMS)
	}
	return ms
}

// messages counts the messages of a session so far.
func messages(items []Item) int {
	n := 0
	for _, it := range items {
		if it.Message != nil {
			n++
		}
	}
	return n
}
