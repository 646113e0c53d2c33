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

// lastAnswer finds the newest answer of the current turn.
func lastAnswer(items []Item) (answer, bool) {
	cur := turnItems(items)
	a := answer{results: map[string]Item{}}
	for i := len(cur) - 1; i >= 0; i-- {
		switch it := cur[i]; it.Kind {
		case KindResult:
			a.results[it.CallID] = it
		case KindSteer:
			a.steered = true
		case KindAnswer:
			a.item = it
			return a, true
		}
	}
	return answer{}, false
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

// attempts tells how many model calls the step has seen, and whether the last one is still open: requested, and
// neither answered nor discarded.
func attempts(items []Item, step int) (n int, open bool) {
	cur := turnItems(items)
	for i := len(cur) - 1; i >= 0; i-- {
		it := cur[i]
		if it.Kind == KindAnswer {
			break
		}
		if it.Kind == KindAttempt && it.Step == step {
			if it.Attempt > n {
				n, open = it.Attempt, it.Error == ""
			}
		}
	}
	return n, open
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

// turnCost sums the money of the current turn and returns that of its last call.
func turnCost(items []Item) (total, last float64) {
	for _, it := range turnItems(items) {
		if it.Kind == KindAnswer {
			total += it.CostUSD
			last = it.CostUSD
		}
	}
	return total, last
}

// activeTime is the working time that the current turn has recorded, in milliseconds.
func activeTime(items []Item) int64 {
	var ms int64
	for _, it := range turnItems(items) {
		ms = max(ms, it.ActiveMS)
	}
	return ms
}

// history is the whole session as a model reads it: each answer is followed by the results of its calls in the
// answer's order, and a call that was left without a result gets one that says so.
func history(items []Item) []ai.Message {
	msgs := make([]ai.Message, 0, len(items))
	for i, it := range items {
		switch it.Kind {
		case KindPrompt, KindSteer:
			msgs = append(msgs, *it.Message)
		case KindAnswer:
			msgs = append(msgs, *it.Message)
			if calls := it.Message.ToolCalls(); len(calls) > 0 {
				msgs = append(msgs, resultMessage(calls, items[i+1:]))
			}
		}
	}
	return msgs
}

func resultMessage(calls []ai.ToolCallPart, after []Item) ai.Message {
	found := make(map[string]Item, len(calls))
	for _, it := range after {
		if it.Kind == KindAnswer {
			break
		}
		if it.Kind == KindResult {
			found[it.CallID] = it
		}
	}
	m := ai.Message{Role: ai.RoleTool}
	for _, c := range calls {
		out := ai.ErrorTextResult("the call was not made: the run ended before it")
		if it, ok := found[c.ToolCallID]; ok {
			out = ai.TextResult(it.Output)
			if it.Error != "" {
				out = ai.ErrorTextResult(it.Output)
			}
		}
		m.Content = append(m.Content, ai.ToolResultContent{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Output: out})
	}
	return m
}
