package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/harness-go/harness/ai"
)

var errUnclosedStep = errors.New("HarnessAgent: received terminal finish with unclosed step content. Harness adapters must emit `finish-step` before `finish`.")

// turnParts is what the driver knows from the parts so far. driver.mu guards it.
type turnParts struct {
	closed     bool // no part counts any more
	sentStart  bool
	calledBack bool // OnStart
	suspending bool

	modelID  string
	warnings []ai.CallWarning
	callID   string

	stepOpen  bool
	stepCalls int // calls of the step so far
	stepCount int // calls of the step, 0 when the adapter does not say
	steps     []ai.StepResult
	content   []ai.StepContent // of the step; nil where a run is not closed
	runs      []textRun
	results   []ai.StepContent // held back to the end of the step
	deltas    map[string]*deltaStripper

	// swallow: the next finish-step was reported already, when the turn paused.
	swallow bool
	// resumed: the step began before the turn was continued; its calls are not all announced again.
	resumed bool

	approvals []PendingToolApproval // in order
	waiting   []PendingToolResult   // calls that wait for the caller's result, in order
	submitted bool                  // the continuation's decisions were given to the adapter
	unsettled int                   // decided calls of the continuation without a result
	unasked   int                   // calls of the runtime in this step that were neither asked about nor have a result
	decided   bool                  // the continuation brought a decision
	pausing   bool
	// settleTimer ends the wait for the results of decided calls, settleLate tells that it did.
	settleTimer *time.Timer
	settleLate  bool

	stopNext bool // StopWhen: stop unless the next part is finish
	cut      bool // stopped there

	finished *Finish
	failure  *TurnError
}

// textRun collects one text or reasoning of the step.
type textRun struct {
	id        string
	reasoning bool
	slot      int // in content
	buf       []byte
}

// emit takes the adapter's next part.
func (d *driver) emit(p StreamPart) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.cut || d.failure != nil || d.finished != nil || d.ctx.Err() != nil {
		return
	}
	if d.stopNext {
		d.stopNext = false
		if _, ends := p.(Finish); !ends {
			d.cut = true
			d.signalStop()
			return
		}
	}
	switch v := p.(type) {
	case TextDelta:
		d.delta(v.ID, v.Delta, false)
		if d.out != nil {
			d.send(ai.TextDeltaPart{ID: v.ID, Text: v.Delta, ProviderMetadata: ai.ProviderMetadata(v.HarnessMetadata)})
		}
	case ReasoningDelta:
		d.delta(v.ID, v.Delta, true)
		if d.out != nil {
			d.send(ai.ReasoningDeltaPart{ID: v.ID, Text: v.Delta, ProviderMetadata: ai.ProviderMetadata(v.HarnessMetadata)})
		}
	case StreamStart:
		d.modelID = v.ModelID
		for _, w := range v.Warnings {
			d.warnings = append(d.warnings, ai.CallWarning{Type: string(w.Type), Setting: w.Setting, Tool: w.Tool, Details: w.Details, Message: w.Message})
		}
	case TextStart:
		d.openRun(v.ID, false)
		d.send(ai.TextStartPart{ID: v.ID, ProviderMetadata: ai.ProviderMetadata(v.HarnessMetadata)})
	case TextEnd:
		d.closeRun(v.ID, false)
		d.send(ai.TextEndPart{ID: v.ID, ProviderMetadata: ai.ProviderMetadata(v.HarnessMetadata)})
	case ReasoningStart:
		d.openRun(v.ID, true)
		d.send(ai.ReasoningStartPart{ID: v.ID, ProviderMetadata: ai.ProviderMetadata(v.HarnessMetadata)})
	case ReasoningEnd:
		d.closeRun(v.ID, true)
		d.send(ai.ReasoningEndPart{ID: v.ID, ProviderMetadata: ai.ProviderMetadata(v.HarnessMetadata)})
	case ToolInputStart, ToolInputDelta, ToolInputEnd:
		d.toolInput(p)
	case ToolCall:
		d.toolCall(v)
	case ToolApprovalRequest:
		d.approvalRequest(v)
	case ToolResult:
		d.toolResult(v)
	case FinishStep:
		d.finishStep(v)
	case Finish:
		if d.stepOpen || len(d.results) > 0 {
			d.failLocked(errUnclosedStep)
			return
		}
		d.finished = &v
	case FileChange:
		in := fileChangeInput{v.Event, d.strip.text(v.Path)}
		d.synthetic("fileChange", "harness-file-change-", in, in)
	case Compaction:
		d.synthetic("compaction", "harness-compaction-", struct{}{}, compactionOutput{v.Trigger, v.Summary, v.TokensBefore, v.TokensAfter})
	case ErrorPart:
		d.failWith(&TurnError{Value: rawOrNull(v.Error)})
	case Raw:
		d.send(ai.RawPart{RawValue: v.RawValue})
	default:
		d.failLocked(fmt.Errorf("harness '%s' emitted a part of the unknown type %T", d.a.HarnessID(), p))
	}
}

// send gives a part to the consumer.
func (d *driver) send(p ai.StreamPart) {
	if d.out == nil {
		return
	}
	d.sendStart()
	d.out.part(p)
}

func (d *driver) sendLast(p ai.StreamPart) {
	if d.out == nil {
		return
	}
	d.sendStart()
	d.out.last(p)
}

func (d *driver) sendStart() {
	if !d.sentStart {
		d.sentStart = true
		d.out.part(ai.StartPart{})
	}
}

// ensureStep opens the step that the next content belongs to.
func (d *driver) ensureStep() {
	if d.stepOpen {
		return
	}
	d.stepOpen = true
	if d.callID == "" {
		d.callID = generateID()
	}
	d.onStepStart()
	if d.out != nil {
		d.send(ai.StartStepPart{})
	}
}

func (d *driver) openRun(id string, reasoning bool) *textRun {
	d.ensureStep()
	d.runs = append(d.runs, textRun{id: id, reasoning: reasoning, slot: len(d.content)})
	d.content = append(d.content, nil)
	return &d.runs[len(d.runs)-1]
}

func (d *driver) findRun(id string, reasoning bool) int {
	for i := len(d.runs) - 1; i >= 0; i-- {
		if d.runs[i].id == id && d.runs[i].reasoning == reasoning {
			return i
		}
	}
	return -1
}

func (d *driver) delta(id, delta string, reasoning bool) {
	var run *textRun
	if i := d.findRun(id, reasoning); i >= 0 {
		run = &d.runs[i]
	} else {
		run = d.openRun(id, reasoning)
	}
	run.buf = append(run.buf, delta...)
}

// closeRun puts a finished text in its place in the content.
func (d *driver) closeRun(id string, reasoning bool) {
	i := d.findRun(id, reasoning)
	if i < 0 {
		return
	}
	r := d.runs[i]
	if reasoning {
		d.content[r.slot] = ai.ReasoningPart{Text: string(r.buf)}
	} else {
		d.content[r.slot] = ai.TextPart{Text: string(r.buf)}
	}
	d.runs = append(d.runs[:i], d.runs[i+1:]...)
}

type fileChangeInput struct {
	Event string `json:"event"`
	Path  string `json:"path"`
}

type compactionOutput struct {
	Trigger      string `json:"trigger"`
	Summary      string `json:"summary"`
	TokensBefore *int64 `json:"tokensBefore,omitempty"`
	TokensAfter  *int64 `json:"tokensAfter,omitempty"`
}

// synthetic shows something that a runtime did by itself as a call with its result.
func (d *driver) synthetic(name, idPrefix string, input, output any) {
	d.ensureStep()
	in, _ := plainJSON(input) // plain structs always marshal
	out, _ := plainJSON(output)
	id := idPrefix + generateID()
	call := ai.ToolCall{ToolCallID: id, ToolName: name, Input: in, Dynamic: true, ProviderExecuted: true}
	result := ai.ToolResult{ToolCallID: id, ToolName: name, Input: in, Output: out, Dynamic: true, ProviderExecuted: true}
	d.content = append(d.content, call, result)
	d.send(call)
	d.send(result)
}

// toolInput shows a call's input as it is written. That of a call which is known from before is not shown again.
func (d *driver) toolInput(p StreamPart) {
	switch v := p.(type) {
	case ToolInputStart:
		if d.calls.byID[v.ID] != nil {
			return
		}
		d.ensureStep()
		if d.out == nil {
			return
		}
		if d.deltas == nil {
			d.deltas = map[string]*deltaStripper{}
		}
		d.deltas[v.ID] = &deltaStripper{stripper: d.stripJSON}
		d.send(ai.ToolInputStartPart{ID: v.ID, ToolName: v.ToolName, ProviderMetadata: ai.ProviderMetadata(v.ProviderMetadata),
			ProviderExecuted: isTrue(v.ProviderExecuted), Dynamic: isTrue(v.Dynamic), Title: v.Title})
	case ToolInputDelta:
		s := d.deltas[v.ID]
		if s == nil {
			return
		}
		if t := s.add(v.Delta); t != "" {
			d.send(ai.ToolInputDeltaPart{ID: v.ID, Delta: t, ProviderMetadata: ai.ProviderMetadata(v.ProviderMetadata)})
		}
	case ToolInputEnd:
		s := d.deltas[v.ID]
		if s == nil {
			return
		}
		delete(d.deltas, v.ID)
		if t := s.flush(); t != "" {
			d.send(ai.ToolInputDeltaPart{ID: v.ID, Delta: t})
		}
		d.send(ai.ToolInputEndPart{ID: v.ID, ProviderMetadata: ai.ProviderMetadata(v.ProviderMetadata)})
	}
}

// toolResult takes a result. It is shown at the end of the step.
func (d *driver) toolResult(p ToolResult) {
	c := d.calls.byID[p.ToolCallID]
	final := !isTrue(p.Preliminary)
	if final {
		d.resolve(p.ToolCallID)
	}
	if c != nil {
		if final {
			d.asked(c)
		}
		if final && c.unsettled {
			c.unsettled = false
			d.unsettled--
		}
		if c.dropEcho {
			d.maybePause()
			return
		}
	}
	failed := isTrue(p.IsError)
	if c != nil && c.host && c.completed != nil {
		failed = isTrue(c.completed.IsError)
	}
	value := d.strip.json(rawOrNull(p.Result))
	if failed {
		d.results = append(d.results, ai.ToolError{ToolCallID: p.ToolCallID, ToolName: p.ToolName, Error: value, Dynamic: isTrue(p.Dynamic),
			ProviderExecuted: c == nil || !c.host, ProviderMetadata: ai.ProviderMetadata(p.ProviderMetadata)})
	} else {
		d.results = append(d.results, ai.ToolResult{ToolCallID: p.ToolCallID, ToolName: p.ToolName, Output: value, Dynamic: isTrue(p.Dynamic),
			Preliminary: !final, ProviderMetadata: ai.ProviderMetadata(p.ProviderMetadata)})
	}
	d.maybePause()
}

// resolve forgets that a call waits.
func (d *driver) resolve(callID string) {
	for i, a := range d.approvals {
		if a.ToolCallID == callID {
			d.approvals = append(d.approvals[:i:i], d.approvals[i+1:]...)
			break
		}
	}
	for i, w := range d.waiting {
		if w.ToolCallID == callID {
			d.waiting = append(d.waiting[:i:i], d.waiting[i+1:]...)
			break
		}
	}
}

// flushResults shows the results that were held back.
func (d *driver) flushResults() {
	for _, r := range d.results {
		d.ensureStep()
		d.content = append(d.content, r)
		if d.out != nil {
			d.send(r.(ai.StreamPart))
		}
	}
	d.results = d.results[:0]
}

func (d *driver) finishStep(p FinishStep) {
	d.flushResults()
	if d.swallow {
		// The step was reported when the turn paused. What came since then belongs to the next report.
		d.swallow, d.stepOpen = false, false
	} else {
		d.ensureStep()
		d.endStep(p)
		d.checkStopWhen()
	}
	d.stepCalls, d.stepCount, d.resumed = 0, 0, false
	d.stopSettlingLocked()
	if d.unsettled > 0 || d.unasked > 0 {
		d.unsettled, d.unasked = 0, 0
		for _, c := range d.calls.order {
			c.unsettled, c.unasked = false, false
		}
	}
}

// endStep closes the open step.
func (d *driver) endStep(p FinishStep) {
	for len(d.runs) > 0 {
		d.closeRun(d.runs[0].id, d.runs[0].reasoning)
	}
	meta := ai.ProviderMetadata(p.HarnessMetadata)
	step := ai.StepResult{
		StepNumber: len(d.steps), Model: d.model(), Content: d.content, FinishReason: p.FinishReason, Usage: p.Usage, ProviderMetadata: meta,
		Response: ai.ResponseMetadata{ID: fmt.Sprintf("%s-%d", d.callID, len(d.steps)), Timestamp: d.a.now(), ModelID: d.model().ModelID},
	}
	d.steps = append(d.steps, step)
	d.content, d.stepOpen = nil, false
	d.onStepEnd(step)
	if d.out != nil {
		d.send(ai.FinishStepPart{FinishReason: p.FinishReason, Usage: p.Usage, Response: step.Response, ProviderMetadata: meta})
	}
}

func (d *driver) checkStopWhen() {
	for _, stop := range d.a.set.StopWhen {
		if stop(ai.StopConditionOptions{Steps: d.steps}) {
			d.stopNext = true
			return
		}
	}
}

func (d *driver) model() ai.ModelInfo {
	id := d.modelID
	if id == "" {
		id = d.cfg.model
	}
	return ai.ModelInfo{Provider: "harness:" + d.a.HarnessID(), ModelID: id}
}

func (d *driver) sumUsage() ai.Usage {
	var u ai.Usage
	for _, s := range d.steps {
		u = u.Add(s.Usage)
	}
	return u
}

func (d *driver) result(reason ai.FinishReason, total ai.Usage) *ai.GenerateTextResult {
	r := &ai.GenerateTextResult{Steps: d.steps, FinishReason: reason, TotalUsage: total}
	if len(d.a.warnings)+len(d.warnings) > 0 {
		r.Warnings = append(append(r.Warnings, d.a.warnings...), d.warnings...)
	}
	if n := len(d.steps); n > 0 {
		last := d.steps[n-1]
		r.Text, r.Usage, r.Response, r.ProviderMetadata = last.Text(), last.Usage, last.Response, last.ProviderMetadata
	}
	return r
}

func isTrue(b *bool) bool { return b != nil && *b }

// jsonText is JSON text of a value that is JSON, or a JSON string of one that is not.
func jsonText(input string) json.RawMessage {
	if json.Valid([]byte(input)) {
		return json.RawMessage(input)
	}
	b, _ := plainJSON(input) // a string always marshals
	return b
}
