package native

import (
	"context"
	"fmt"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

// gauge is the size of the next request, in tokens. Its base is what the provider counted for the newest answer, or
// what a compaction left over; what was added since is estimated.
type gauge struct {
	tokens   int64
	reported bool // the base is a provider's count
	whole    bool // system prompt and tools are in it
}

func (g *gauge) add(it *Item) {
	switch {
	case it.Kind == KindAnswer && counted(it):
		*g = gauge{tokens: count(it.Usage.InputTokens.Total) + count(it.Usage.OutputTokens.Total), reported: true, whole: true}
	case it.Kind == KindCompaction:
		*g = gauge{tokens: it.Compaction.TokensAfter, whole: true}
	default:
		g.tokens += itemSize(it)
	}
}

// counted reports whether the provider said how large an answer and its prompt are.
func counted(it *Item) bool {
	return it.Usage != nil && it.Usage.InputTokens.Total != nil && it.Usage.OutputTokens.Total != nil
}

// gaugeOf reads no more of the items than it needs.
func gaugeOf(items []Item) gauge {
	from := len(items)
	for from > 0 {
		from--
		if it := &items[from]; it.Kind == KindCompaction || it.Kind == KindAnswer && counted(it) {
			break
		}
	}
	var g gauge
	for i := from; i < len(items); i++ {
		g.add(&items[i])
	}
	return g
}

// ContextOf tells how full the context of a stored session is. window is the model's context window in tokens, 0 when
// it is not known. Before the first count of a provider and the first compaction, system prompt and tools are not in
// the estimate: a transcript does not hold them.
func ContextOf(items []Item, window int64) tool.ContextStatus {
	return statusOf(items, gaugeOf(items), 0, window)
}

func statusOf(items []Item, g gauge, prefix, window int64) tool.ContextStatus {
	st := tool.ContextStatus{Messages: visible(items), Tokens: g.tokens, Estimated: !g.reported, Window: window}
	if !g.whole {
		st.Tokens += prefix
	}
	if window > 0 {
		st.Pressure = float64(st.Tokens) / float64(window)
	}
	for i := range items {
		if items[i].Kind == KindCompaction {
			st.Compactions++
		}
	}
	return st
}

// visible counts the messages that the model would read.
func visible(items []Item) int {
	from, n := 0, 0
	if c := lastCompaction(items); c >= 0 {
		if from = items[c].Compaction.From; from > 0 {
			n++
		}
	}
	for i := from; i < len(items); i++ {
		n += messagesOf(&items[i])
	}
	return n
}

// messagesOf is how many messages an item becomes: an answer with calls brings the message of their results along.
func messagesOf(it *Item) int {
	switch {
	case it.Message == nil:
		return 0
	case it.Kind == KindAnswer && len(it.Message.ToolCalls()) > 0:
		return 2
	}
	return 1
}

// lastCompaction is the index of the newest compaction, -1 when there is none.
func lastCompaction(items []Item) int {
	for i := len(items) - 1; i >= 0; i-- {
		if items[i].Kind == KindCompaction {
			return i
		}
	}
	return -1
}

// warnAt are the parts of the window at which a growing context is reported.
var warnAt = []float64{0.7, 0.85}

func levelOf(tokens, window int64) int {
	level := 0
	for _, part := range warnAt {
		if window > 0 && float64(tokens) >= part*float64(window) {
			level++
		}
	}
	return level
}

func contextUse(st tool.ContextStatus) event.ContextUse {
	return event.ContextUse{Messages: st.Messages, Tokens: st.Tokens, Estimated: st.Estimated, Window: st.Window, Pressure: st.Pressure}
}

func snapshot(st tool.ContextStatus) event.ContextWindowSnapshotPayload {
	return event.ContextWindowSnapshotPayload{ContextUse: contextUse(st), Compactions: st.Compactions}
}

// pressure are the facts of a context that has just grown beyond a threshold.
func (t *turn) pressure() []event.Payload {
	window := t.targets[t.target].ContextWindow
	level := levelOf(t.s.size(), window)
	before := t.s.level
	t.s.level = level
	if level <= before {
		return nil
	}
	st := t.s.Status()
	return []event.Payload{event.ContextWindowWarningPayload{ContextUse: contextUse(st), Threshold: warnAt[level-1]}, snapshot(st)}
}

// measure keeps the size of what each request begins with.
func (t *turn) measure() {
	prefix := prefixSize(t.systemPrompt(), t.tools())
	t.s.itemsMu.Lock()
	defer t.s.itemsMu.Unlock()
	t.s.prefix = prefix
}

// gaugeStep keeps what the context's state is to be told by until the next step.
func (t *turn) gaugeStep() {
	t.s.itemsMu.Lock()
	t.s.window = t.targets[t.target].ContextWindow
	whole := t.s.gauge.whole
	t.s.itemsMu.Unlock()
	if !whole {
		t.measure()
	}
}

// size is what the next request is taken to hold, in tokens.
func (s *session) size() int64 {
	s.itemsMu.Lock()
	defer s.itemsMu.Unlock()
	if s.gauge.whole {
		return s.gauge.tokens
	}
	return s.gauge.tokens + s.prefix
}

func (s *session) prefixSize() int64 {
	s.itemsMu.Lock()
	defer s.itemsMu.Unlock()
	return s.prefix
}

// Status implements tool.Context.
func (s *session) Status() tool.ContextStatus {
	s.itemsMu.Lock()
	items, g, prefix, window := s.items[:len(s.items):len(s.items)], s.gauge, s.prefix, s.window
	s.itemsMu.Unlock()
	return statusOf(items, g, prefix, window)
}

// RequestCompaction implements tool.Context.
func (s *session) RequestCompaction(ctx context.Context, mode tool.CompactMode, keepLast int) error {
	r := CompactRequest{Mode: mode, KeepLast: keepLast}
	if err := r.check(); err != nil {
		return err
	}
	return s.append(context.WithoutCancel(ctx), Item{Kind: KindCompact, Compact: &r})
}

func (r CompactRequest) check() error {
	switch r.Mode {
	case "", tool.CompactStrip, tool.CompactSummarize, tool.CompactHybrid:
	default:
		return fmt.Errorf("mode %q is not one of %s, %s, %s", r.Mode, tool.CompactStrip, tool.CompactSummarize, tool.CompactHybrid)
	}
	if r.KeepLast != 0 && r.KeepLast < 2 {
		return fmt.Errorf("keep_last is %d: at least 2 messages stay", r.KeepLast)
	}
	return nil
}
