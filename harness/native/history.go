package native

import (
	"fmt"
	"unicode/utf8"

	"github.com/harness-go/harness/ai"
)

// history is the session as a model reads it: each answer is followed by the results of its calls in the answer's
// order, and a call that was left without a result gets one that says so. Attempts, decisions and other records of
// control are no part of it. A compaction makes it anew: what its record drops is replaced by the record, and what it
// strips by a note.
//
// Otherwise it grows with the transcript. The model is called only when every call of the turn has a result, so a
// message that was made once does not change before the next compaction.
type history struct {
	msgs []ai.Message
	at   int // items that are in msgs
	// damaged names files that the model cannot be given, since the last look.
	damaged []string
}

// upTo takes the items in and returns the messages. The slice is the caller's to read; later calls do not change it.
func (h *history) upTo(items []Item) []ai.Message {
	if c := lastCompaction(items[h.at:]); c >= 0 {
		c += h.at
		h.msgs = h.compacted(items[:c], items[c].Compaction)
		h.at = c + 1
	}
	for ; h.at < len(items); h.at++ {
		h.msgs = h.add(h.msgs, items, h.at, false)
	}
	return h.msgs[:len(h.msgs):len(h.msgs)]
}

// compacted are the messages that a record leaves of the items before it.
func (h *history) compacted(items []Item, c *CompactionRecord) []ai.Message {
	var msgs []ai.Message
	if c.From > 0 {
		msgs = append(msgs, h.whole(c.message(items)))
	}
	for i := c.From; i < len(items); i++ {
		msgs = h.add(msgs, items, i, i < c.StripBefore)
	}
	return msgs
}

// add appends what the i-th item is for a model.
func (h *history) add(msgs []ai.Message, items []Item, i int, strip bool) []ai.Message {
	it := &items[i]
	if it.Message == nil {
		return msgs
	}
	msgs = append(msgs, h.whole(*it.Message))
	if it.Kind != KindAnswer {
		return msgs
	}
	if calls := it.Message.ToolCalls(); len(calls) > 0 {
		msgs = append(msgs, h.results(calls, items[i+1:], strip))
	}
	return msgs
}

// whole is a message with a note in the place of each file that a provider would refuse.
func (h *history) whole(m ai.Message) ai.Message {
	copied := false
	for i, p := range m.Content {
		f, ok := p.(ai.FilePart)
		if !ok || damage(f) == "" {
			continue
		}
		if !copied {
			m.Content, copied = append([]ai.Part(nil), m.Content...), true
		}
		m.Content[i] = h.usable(f)
	}
	return m
}

// noResult is what the model reads about a call of a turn that ended before its result was recorded.
const noResult = "no result: the run ended before this call had one. If it was started, its outcome is unknown: check what it did before you repeat it."

func (h *history) results(calls []ai.ToolCallPart, after []Item, strip bool) ai.Message {
	found := resultsAfter(after)
	m := ai.Message{Role: ai.RoleTool, Content: make([]ai.Part, 0, len(calls))}
	for _, c := range calls {
		out := ai.ErrorTextResult(noResult)
		if it, ok := found[c.ToolCallID]; ok {
			out = h.output(&it, strip)
		}
		m.Content = append(m.Content, ai.ToolResultContent{ToolCallID: c.ToolCallID, ToolName: c.ToolName, Output: out})
	}
	return m
}

func (h *history) output(it *Item, strip bool) ai.ToolResultOutput {
	text, files := it.Output, it.Files
	if strip && strippable(it) {
		text, files = strippedNote(it), nil
	}
	if it.Error != "" {
		return ai.ErrorTextResult(text) // the wires have no room for files in a failure
	}
	if len(files) == 0 {
		return ai.TextResult(text)
	}
	var whole []ai.FilePart
	for _, f := range files {
		if p, ok := h.usable(f).(ai.FilePart); ok {
			whole = append(whole, p)
			continue
		}
		text += "\n[" + h.damaged[len(h.damaged)-1] + "]"
	}
	return ai.ContentResult(text, whole...)
}

// stripAbove is the size of an output, in characters, that is worth a note in its place.
const stripAbove = 400

func strippable(it *Item) bool {
	return it.Kind == KindResult && (len(it.Output) > stripAbove || len(it.Files) > 0)
}

// strippedNote stands in the place of an output that was cut out.
func strippedNote(it *Item) string {
	note := fmt.Sprintf("[output of %s removed to save context: %d characters", it.Tool, utf8.RuneCountInString(it.Output))
	if n := len(it.Files); n > 0 {
		note += fmt.Sprintf(" and %d files", n)
	}
	if it.Error != "" {
		note += "; it was a failure (" + it.Error + ")"
	}
	if it.Artifact != "" {
		note += "; the full output can be read as artifact:" + it.Artifact
	}
	return note + ". Call the tool again if you need it.]"
}
