package native

import "github.com/harness-go/harness/ai"

// history is the whole session as a model reads it: each answer is followed by the results of its calls in the
// answer's order, and a call that was left without a result gets one that says so. Attempts, decisions and other
// records of control are no part of it.
//
// It grows with the transcript. The model is called only when every call of the turn has a result, so a message that
// was made once does not change.
type history struct {
	msgs []ai.Message
	at   int // items that are in msgs
}

// upTo takes the items in and returns the messages. The slice is the caller's to read; later calls do not change it.
func (h *history) upTo(items []Item) []ai.Message {
	for ; h.at < len(items); h.at++ {
		switch it := items[h.at]; it.Kind {
		case KindPrompt, KindSteer:
			if it.Message != nil {
				h.msgs = append(h.msgs, *it.Message)
			}
		case KindAnswer:
			h.msgs = append(h.msgs, *it.Message)
			if calls := it.Message.ToolCalls(); len(calls) > 0 {
				h.msgs = append(h.msgs, resultMessage(calls, items[h.at+1:]))
			}
		}
	}
	return h.msgs[:len(h.msgs):len(h.msgs)]
}

// noResult is what the model reads about a call of a turn that ended before its result was recorded.
const noResult = "no result: the run ended before this call had one. If it was started, its outcome is unknown: check what it did before you repeat it."

func resultMessage(calls []ai.ToolCallPart, after []Item) ai.Message {
	found := resultsAfter(after)
	m := ai.Message{Role: ai.RoleTool, Content: make([]ai.Part, 0, len(calls))}
	for _, c := range calls {
		out := ai.ErrorTextResult(noResult)
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
