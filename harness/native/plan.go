package native

import (
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

// defaultKeepLast is how many of the newest messages a compaction leaves as they are.
const defaultKeepLast = 4

func keptLast(n int) int {
	if n == 0 {
		n = defaultKeepLast
	}
	return max(n, 2)
}

// cutBefore is the first item of the newest messages that are to stay. An answer stays or goes with the results of
// its calls.
func cutBefore(items []Item, keepLast int) int {
	kept, cut := 0, len(items)
	for i := len(items) - 1; i >= 0 && kept < keepLast; i-- {
		if n := messagesOf(&items[i]); n > 0 {
			kept += n
			cut = i
		}
	}
	return cut
}

// recordOf is the newest compaction's record, an empty one when there is none.
func recordOf(items []Item) CompactionRecord {
	if c := lastCompaction(items); c >= 0 {
		return *items[c].Compaction
	}
	return CompactionRecord{}
}

// ways are what a compaction could do: cut outputs out, or drop messages. They do nothing where there is nothing to
// take away.
func ways(items []Item, keepLast int) (strip, drop CompactionRecord) {
	now, cut := recordOf(items), cutBefore(items, keepLast)
	strip = CompactionRecord{Mode: tool.CompactStrip, From: now.From, StripBefore: max(now.StripBefore, cut), Summary: now.Summary}
	drop = CompactionRecord{Mode: tool.CompactSummarize, From: max(now.From, cut), StripBefore: now.StripBefore}
	owner := -1 // the answer whose results come next
	for i := now.From; i < len(items); i++ {
		it := &items[i]
		if it.Kind == KindAnswer {
			owner = i
		}
		if i < cut {
			drop.MessagesRemoved += messagesOf(it)
		}
		if owner < cut && owner >= now.StripBefore && strippable(it) {
			strip.OutputsStripped++
		}
	}
	return strip, drop
}

func (c *CompactionRecord) idle() bool { return c.MessagesRemoved == 0 && c.OutputsStripped == 0 }

// sizeWith is the estimate of all messages that a record leaves, of those that the items hold.
func sizeWith(items []Item, c *CompactionRecord) int64 {
	n := int64(0)
	if c.From > 0 {
		n += messageSize(c.message(items))
	}
	owner := -1 // of results; those of a dropped answer are dropped with it
	for i := c.From; i < len(items); i++ {
		it := &items[i]
		if it.Kind == KindAnswer {
			owner = i
		}
		if it.Kind != KindResult || owner >= 0 {
			n += sizeIn(it, owner < c.StripBefore)
		}
	}
	return n
}

func sizeIn(it *Item, strip bool) int64 {
	if strip && strippable(it) {
		return callTokens + textTokens(strippedNote(it))
	}
	return itemSize(it)
}

// worth is the part of a context that a compaction must free to be made, and to be made again.
const worth = 0.1

// helped reports whether the turn's last automatic compaction freed enough, by the provider's count where it gave
// one. Without any there is nothing that speaks against one.
func helped(items []Item) bool {
	turn := turnItems(items)
	c := lastCompaction(turn)
	if c < 0 || turn[c].Compaction.Cause == causeRequested {
		return true
	}
	rec := turn[c].Compaction
	after := rec.TokensAfter
	for i := c + 1; i < len(turn); i++ {
		if it := &turn[i]; it.Kind == KindAnswer && counted(it) {
			after = count(it.Usage.InputTokens.Total)
			break
		}
	}
	return float64(after) <= (1-worth)*float64(rec.TokensBefore)
}

// tooLong counts the attempts at the step's model call that the provider refused for the prompt's length, and tells
// whether the history was made shorter since.
func tooLong(items []Item, step int) (times int, compacted bool) {
	tail, _ := sinceAnswer(items)
	for i := range tail {
		switch it := &tail[i]; {
		case it.Kind == KindAttempt && it.Step == step && it.Purpose == "" && it.Error == causeLength:
			times, compacted = times+1, false
		case it.Kind == KindCompaction:
			compacted = true
		}
	}
	return times, compacted
}

// usable is how much of a window a prompt may fill: an answer needs room too.
func usable(tg Target) int64 {
	reserve := tg.ContextWindow / 5
	if tg.MaxOutputTokens > 0 {
		reserve = min(reserve, int64(tg.MaxOutputTokens))
	}
	return tg.ContextWindow - reserve
}

// compacted is what a record did, for its event.
func (c *CompactionRecord) done(requested tool.CompactMode, keepLast int) event.Compacted {
	return event.Compacted{
		Mode: string(c.Mode), RequestedMode: string(requested), KeepLast: keepLast, MessagesRemoved: c.MessagesRemoved,
		OutputsStripped: c.OutputsStripped, TokensBefore: c.TokensBefore, TokensAfter: c.TokensAfter, SummaryError: c.SummaryError,
	}
}
