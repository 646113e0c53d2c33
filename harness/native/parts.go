package native

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
)

// partWriter sends a turn's stream parts in order. Tool calls of one step report from several goroutines.
type partWriter struct {
	emit func(harness.StreamPart)

	mu     sync.Mutex
	block  string // id of the open text or reasoning block
	isText bool
	next   int
	shown  bool // something of the step's answer was sent
	// answered: the parts of an answer without calls were sent.
	answered bool
	closed   bool
}

func (w *partWriter) send(p harness.StreamPart) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendLocked(p)
}

func (w *partWriter) sendLocked(p harness.StreamPart) {
	if w.emit != nil && !w.closed {
		w.emit(p)
	}
}

func (w *partWriter) close() {
	w.closeBlocks()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
}

func (w *partWriter) text(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open(true)
	w.sendLocked(harness.TextDelta{ID: w.block, Delta: s})
}

func (w *partWriter) reasoning(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open(false)
	w.sendLocked(harness.ReasoningDelta{ID: w.block, Delta: s})
}

func (w *partWriter) open(text bool) {
	if w.block != "" && w.isText == text {
		return
	}
	w.closeLocked()
	w.shown = true
	w.next++
	w.block, w.isText = strconv.Itoa(w.next), text
	if text {
		w.sendLocked(harness.TextStart{ID: w.block})
	} else {
		w.sendLocked(harness.ReasoningStart{ID: w.block})
	}
}

func (w *partWriter) closeBlocks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeLocked()
}

func (w *partWriter) closeLocked() {
	switch {
	case w.block == "":
		return
	case w.isText:
		w.sendLocked(harness.TextEnd{ID: w.block})
	default:
		w.sendLocked(harness.ReasoningEnd{ID: w.block})
	}
	w.block = ""
}

func (w *partWriter) result(callID, toolName, output string, failed bool) {
	raw := json.RawMessage(output)
	if !json.Valid(raw) {
		raw, _ = json.Marshal(output) // a string always marshals
	}
	p := harness.ToolResult{ToolCallID: callID, ToolName: toolName, Result: raw}
	if failed {
		p.IsError = &failed
	}
	w.send(p)
}

func (w *partWriter) finishStep(reason ai.FinishReason, u ai.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sendLocked(harness.FinishStep{FinishReason: reason, Usage: u})
	w.shown, w.answered = false, reason.Unified != ai.FinishToolCalls
}

// discard ends the step of an attempt that does not count. What was sent of it cannot be taken back, so it becomes a
// step of its own that failed, and the next attempt begins a new one.
func (w *partWriter) discard(u ai.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeLocked()
	if !w.shown {
		return
	}
	w.shown = false
	w.sendLocked(harness.FinishStep{
		FinishReason: ai.FinishReason{Unified: ai.FinishError, Raw: "discarded"}, Usage: u,
		HarnessMetadata: harness.Metadata{HarnessID: {"discarded": true}},
	})
}

// done ends the turn. A continuation that found the last answer already on record sends its text first.
func (w *partWriter) done(a answer, total ai.Usage) {
	reason := ai.FinishReason{Unified: ai.FinishStop}
	if a.item.Finish != nil {
		reason = *a.item.Finish
	}
	w.mu.Lock()
	sent := w.answered
	w.mu.Unlock()
	if !sent {
		if a.item.Message != nil {
			if s := a.item.Message.Text(); s != "" {
				w.text(s)
				w.closeBlocks()
			}
		}
		w.send(harness.FinishStep{FinishReason: reason, Usage: usageOf(a.item)})
	}
	w.send(harness.Finish{FinishReason: reason, TotalUsage: total})
}
