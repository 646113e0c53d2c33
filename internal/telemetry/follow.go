package telemetry

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/activity"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

var _ activity.Sink = (*Telemetry)(nil)

// Segment implements activity.Sink: it begins the span of the segment.
func (t *Telemetry) Segment(s engine.SegmentStart) activity.Follower {
	f := &follower{t: t, usage: ai.Usage{}}
	parent := parentOf(s.Plan.Trace.Parent)
	ctx := withRoot(trace.ContextWithRemoteSpanContext(context.Background(), parent), root{s.Run.ID, s.First()})
	attrs := []attribute.KeyValue{
		keyOperation.String(operationAgent), keyAgentName.String(s.Plan.Harness), keyConversation.String(s.Run.ConversationID),
		keyRun.String(s.Run.ID), keySegment.Int64(s.Run.Epoch), keyTenant.String(s.Run.TenantID), keyHarness.String(s.Plan.Harness),
	}
	for _, kv := range []attribute.KeyValue{
		keyAgentID.String(s.Plan.AgentID), keyRequestModel.String(s.Plan.Model), keyProvider.String(providerName(s.Plan.ProviderName)),
	} {
		if kv.Value.AsString() != "" {
			attrs = append(attrs, kv)
		}
	}
	if t.content && s.First() {
		attrs = append(attrs, keyInputMessages.String(messages("user", s.Run.Prompt)))
	}
	var links []trace.Link
	if !s.First() {
		links = append(links, link(firstSegment(s.Run.ID, s.Plan.Trace.Parent), "first_segment"))
	}
	if s.Run.PreviousRunID != "" {
		links = append(links, link(firstSegment(s.Run.PreviousRunID, s.Plan.Trace.Previous), "previous_run"))
	}
	_, f.span = t.tracer.Start(ctx, operationAgent+" "+s.Plan.Harness, trace.WithTimestamp(s.At), trace.WithAttributes(attrs...), trace.WithLinks(links...))
	f.ctx = trace.ContextWithSpan(context.Background(), f.span)
	return f
}

func link(to trace.SpanContext, why string) trace.Link {
	return trace.Link{SpanContext: to, Attributes: []attribute.KeyValue{keyLinkReason.String(why)}}
}

// follower makes the spans of one segment.
type follower struct {
	t     *Telemetry
	ctx   context.Context // with the segment's span
	span  trace.Span
	usage ai.Usage
}

// RunStarted implements activity.Follower.
func (f *follower) RunStarted(event.RunStartedPayload) {}

// Asked implements activity.Follower.
func (f *follower) Asked(event.ToolApprovalRequiredPayload) {}

// ModelCall implements activity.Follower.
func (f *follower) ModelCall(c activity.ModelCall) {
	f.usage = f.usage.Add(c.Usage)
	base := []attribute.KeyValue{keyOperation.String(operationChat), keyProvider.String(providerName(c.Provider)), keyRequestModel.String(c.Model)}
	if c.Served != "" {
		base = append(base, keyResponseModel.String(c.Served))
	}
	failed := !c.Late && c.Outcome != activity.OutcomeOK
	f.measure(c, base, failed)
	if c.Late || !f.span.IsRecording() {
		return
	}
	attrs := append(base, keyStep.Int(c.Step), keyAttempt.Int(c.Attempt))
	attrs = usageAttributes(attrs, c.Usage)
	if c.CostUSD > 0 {
		attrs = append(attrs, keyCost.Float64(c.CostUSD))
	}
	if c.Purpose != "" {
		attrs = append(attrs, keyPurpose.String(c.Purpose))
	}
	if c.FinishReason != "" {
		attrs = append(attrs, keyFinishReasons.StringSlice([]string{finishReason(c.FinishReason)}))
	}
	if c.TTFT > 0 {
		attrs = append(attrs, keyFirstChunk.Float64(c.TTFT.Seconds()))
	}
	if c.Status != 0 {
		attrs = append(attrs, keyStatusCode.Int(c.Status))
	}
	if f.t.content && c.Text != "" {
		attrs = append(attrs, keyOutputMessages.String(messages("assistant", c.Text)))
	}
	failure := ""
	if failed {
		failure = c.Outcome
	}
	f.child(operationChat+" "+c.Model, trace.SpanKindClient, c.Start, c.End, attrs, failure)
}

// measure counts the tokens and the duration.
func (f *follower) measure(c activity.ModelCall, base []attribute.KeyValue, failed bool) {
	if c.Open {
		return
	}
	for _, k := range []struct {
		kind string
		n    *int64
	}{{"input", c.Usage.InputTokens.Total}, {"output", c.Usage.OutputTokens.Total}} {
		if k.n != nil {
			attrs := append(base[:len(base):len(base)], keyTokenType.String(k.kind))
			f.t.tokens.Record(f.ctx, *k.n, metric.WithAttributes(attrs...))
		}
	}
	if c.Late || c.Start.IsZero() {
		return
	}
	attrs := base[:len(base):len(base)]
	if failed {
		attrs = append(attrs, keyErrorType.String(c.Outcome))
	}
	f.t.duration.Record(f.ctx, max(0, c.End.Sub(c.Start).Seconds()), metric.WithAttributes(attrs...))
}

// ToolCall implements activity.Follower.
func (f *follower) ToolCall(c activity.ToolCall) {
	if !f.span.IsRecording() {
		return
	}
	decision := "allow"
	switch {
	case c.Outcome == activity.OutcomeBlocked:
		decision = "deny"
	case c.ApprovalID != "":
		decision = "approved"
	}
	attrs := []attribute.KeyValue{
		keyOperation.String(operationTool), keyToolName.String(c.Tool), keyToolType.String("function"), keyToolCallID.String(c.ID),
		keyDecision.String(decision), keyStep.Int(c.Step),
	}
	if c.Kind != "" {
		attrs = append(attrs, keyToolKind.String(c.Kind))
	}
	if c.ApprovalID != "" {
		attrs = append(attrs, keyApproval.String(c.ApprovalID))
	}
	if f.t.content {
		if c.Arguments != "" {
			attrs = append(attrs, keyToolArguments.String(c.Arguments))
		}
		if c.Output != "" {
			attrs = append(attrs, keyToolResult.String(c.Output))
		}
	}
	failure := ""
	switch c.Outcome {
	case activity.OutcomeOK:
	case activity.OutcomeBlocked:
		failure = "blocked_by_" + c.Error
	case activity.OutcomeError:
		failure = c.Error
	default:
		failure = c.Outcome
	}
	f.child(operationTool+" "+c.Tool, trace.SpanKindInternal, c.Start, c.End, attrs, failure)
}

// child makes a span that has ended.
func (f *follower) child(name string, kind trace.SpanKind, start, end time.Time, attrs []attribute.KeyValue, failure string) {
	if start.IsZero() { // it began in an earlier segment
		start = end
	}
	if failure != "" {
		attrs = append(attrs, keyErrorType.String(failure))
	}
	_, s := f.t.tracer.Start(f.ctx, name, trace.WithTimestamp(start), trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	if failure != "" {
		s.SetStatus(codes.Error, "")
	}
	s.End(trace.WithTimestamp(end))
}

// Ended implements activity.Follower.
func (f *follower) Ended(e activity.End) {
	if f.span.IsRecording() {
		f.span.SetAttributes(usageAttributes([]attribute.KeyValue{keyStatus.String(string(e.Status))}, f.usage)...)
		if f.t.content && e.Output != "" {
			f.span.SetAttributes(keyOutputMessages.String(messages("assistant", e.Output)))
		}
		if e.Status == store.StatusFailed {
			reason := e.Reason
			if reason == "" {
				reason = string(e.Status)
			}
			f.span.SetAttributes(keyErrorType.String(reason))
			f.span.SetStatus(codes.Error, "")
		}
	}
	f.span.End(trace.WithTimestamp(e.At))
}

func usageAttributes(attrs []attribute.KeyValue, u ai.Usage) []attribute.KeyValue {
	attrs = count(u.InputTokens.Total, keyInputTokens, attrs)
	attrs = count(u.OutputTokens.Total, keyOutputTokens, attrs)
	attrs = count(u.InputTokens.CacheRead, keyCacheRead, attrs)
	attrs = count(u.InputTokens.CacheWrite, keyCacheCreation, attrs)
	return count(u.OutputTokens.Reasoning, keyReasoning, attrs)
}

// messages is a list with one message, in the JSON of the conventions. The text is cut so that the JSON stays whole
// within the bound of an attribute.
func messages(role, text string) string {
	for limit := maxContent; ; limit /= 2 {
		shown := text
		if len(text) > limit {
			shown = strings.ToValidUTF8(text[:limit], "") + "… [cut, " + strconv.Itoa(len(text)) + " bytes]"
		}
		raw, err := json.Marshal([]any{map[string]any{"role": role, "parts": []any{map[string]string{"type": "text", "content": shown}}}})
		if err != nil {
			return ""
		}
		if len(raw) <= maxContent {
			return string(raw)
		}
	}
}
