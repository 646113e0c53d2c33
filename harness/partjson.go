package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/harness-go/harness/ai"
)

// EncodeStreamPart writes a part with its "type". It fails for a part that DecodeStreamPart would refuse.
func EncodeStreamPart(p StreamPart) ([]byte, error) {
	if p == nil {
		return nil, errors.New("stream part: nil")
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("stream part %s: %w", p.PartType(), err)
	}
	body := bytes.TrimRight(buf.Bytes(), "\n")
	out := append(make([]byte, 0, len(body)+32), `{"type":"`...)
	out = append(out, p.PartType()...)
	out = append(out, '"')
	if len(body) > 2 {
		out = append(out, ',')
	}
	out = append(out, body[1:]...)
	if _, err := DecodeStreamPart(out); err != nil {
		return nil, err
	}
	return out, nil
}

// DecodeStreamPart reads and checks one part. Unknown members are dropped; a missing required member, a null and a
// value of the wrong type are errors that name the member.
func DecodeStreamPart(data []byte) (StreamPart, error) {
	var m map[string]json.RawMessage
	if err := strictJSON(data, &m); err != nil {
		return nil, fmt.Errorf("stream part: %w", err)
	}
	if m == nil {
		return nil, errors.New("stream part: must be an object")
	}
	r := partReader{members: m}
	kind := r.str("type")
	if r.err != nil {
		return nil, fmt.Errorf("stream part: %w", r.err)
	}
	p := r.part(kind)
	if r.err != nil {
		return nil, fmt.Errorf("stream part %s: %w", kind, r.err)
	}
	return p, nil
}

func (r *partReader) part(kind string) StreamPart {
	switch kind {
	case "stream-start":
		return StreamStart{Warnings: r.warnings(), ModelID: r.optStr("modelId")}
	case "text-start":
		return TextStart{ID: r.str("id"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "text-delta":
		return TextDelta{ID: r.str("id"), Delta: r.str("delta"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "text-end":
		return TextEnd{ID: r.str("id"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "reasoning-start":
		return ReasoningStart{ID: r.str("id"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "reasoning-delta":
		return ReasoningDelta{ID: r.str("id"), Delta: r.str("delta"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "reasoning-end":
		return ReasoningEnd{ID: r.str("id"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "tool-input-start":
		return ToolInputStart{ID: r.str("id"), ToolName: r.str("toolName"), ProviderMetadata: r.metadata("providerMetadata"),
			ProviderExecuted: r.optBool("providerExecuted"), Dynamic: r.optBool("dynamic"), Title: r.optStr("title")}
	case "tool-input-delta":
		return ToolInputDelta{ID: r.str("id"), Delta: r.str("delta"), ProviderMetadata: r.metadata("providerMetadata")}
	case "tool-input-end":
		return ToolInputEnd{ID: r.str("id"), ProviderMetadata: r.metadata("providerMetadata")}
	case "tool-call":
		return ToolCall{ToolCallID: r.str("toolCallId"), ToolName: r.str("toolName"), Input: r.str("input"),
			ProviderExecuted: r.optBool("providerExecuted"), Dynamic: r.optBool("dynamic"), ProviderMetadata: r.metadata("providerMetadata"),
			NativeName: r.optStr("nativeName"), StepToolCallCount: r.count("stepToolCallCount")}
	case "tool-approval-request":
		return ToolApprovalRequest{ApprovalID: r.str("approvalId"), ToolCallID: r.str("toolCallId"), ProviderMetadata: r.metadata("providerMetadata")}
	case "tool-result":
		return ToolResult{ToolCallID: r.str("toolCallId"), ToolName: r.str("toolName"), Result: r.value("result"),
			IsError: r.optBool("isError"), Preliminary: r.optBool("preliminary"), Dynamic: r.optBool("dynamic"), ProviderMetadata: r.metadata("providerMetadata")}
	case "finish-step":
		return FinishStep{FinishReason: r.finishReason(), Usage: r.usage("usage"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "finish":
		return Finish{FinishReason: r.finishReason(), TotalUsage: r.usage("totalUsage"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "file-change":
		return FileChange{Event: r.oneOf("event", "create", "modify", "delete"), Path: r.str("path"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "compaction":
		return Compaction{Trigger: r.oneOf("trigger", "manual", "auto"), Summary: r.str("summary"),
			TokensBefore: r.optInt("tokensBefore"), TokensAfter: r.optInt("tokensAfter"), HarnessMetadata: r.metadata("harnessMetadata")}
	case "error":
		return ErrorPart{Error: r.value("error")}
	case "raw":
		return Raw{RawValue: r.value("rawValue")}
	}
	r.fail("type", "is not one of the part types")
	return nil
}

// partReader takes members out of an object. The first fault stays in err.
type partReader struct {
	members map[string]json.RawMessage
	err     error
}

func (r *partReader) fail(member, what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s %s", member, what)
	}
}

// get decodes a member into v and reports whether it is there.
func (r *partReader) get(member string, v any, what string) bool {
	raw, ok := r.members[member]
	if !ok {
		return false
	}
	if string(raw) == "null" || strictJSON(raw, v) != nil {
		r.fail(member, "must be "+what)
		return false
	}
	return true
}

func (r *partReader) str(member string) string {
	var s string
	if !r.get(member, &s, "a string") {
		r.fail(member, "is required")
	}
	return s
}

func (r *partReader) optStr(member string) string {
	var s string
	r.get(member, &s, "a string")
	return s
}

func (r *partReader) optBool(member string) *bool {
	var b bool
	if !r.get(member, &b, "a boolean") {
		return nil
	}
	return &b
}

func (r *partReader) optInt(member string) *int64 {
	var n json.Number
	if !r.number(member, &n) {
		return nil
	}
	if i, err := n.Int64(); err == nil {
		return &i
	}
	f, err := n.Float64()
	if err != nil || f != float64(int64(f)) {
		r.fail(member, "must be a whole number")
		return nil
	}
	i := int64(f)
	return &i
}

// number reads a member that is a JSON number; json.Number alone would take a string too.
func (r *partReader) number(member string, n *json.Number) bool {
	if raw := r.members[member]; len(raw) > 0 && raw[0] == '"' {
		r.fail(member, "must be a number")
		return false
	}
	return r.get(member, n, "a number")
}

func (r *partReader) count(member string) int {
	i := r.optInt(member)
	if i == nil {
		return 0
	}
	if *i <= 0 || *i > 1<<31-1 {
		r.fail(member, "must be a whole number above 0")
		return 0
	}
	return int(*i)
}

func (r *partReader) value(member string) json.RawMessage {
	v, ok := r.members[member]
	if !ok {
		r.fail(member, "is required")
	}
	return v
}

func (r *partReader) oneOf(member string, values ...string) string {
	s := r.str(member)
	for _, v := range values {
		if s == v {
			return s
		}
	}
	r.fail(member, fmt.Sprintf("must be one of %q", values))
	return s
}

func (r *partReader) metadata(member string) Metadata {
	var outer map[string]json.RawMessage
	if !r.get(member, &outer, "an object") {
		return nil
	}
	m := make(Metadata, len(outer))
	inner := partReader{members: outer}
	for k := range outer {
		var v map[string]any
		if !inner.get(k, &v, "an object") {
			r.fail(member+"."+k, "must be an object")
			return nil
		}
		m[k] = v
	}
	return m
}

func (r *partReader) object(member string) *partReader {
	var m map[string]json.RawMessage
	if !r.get(member, &m, "an object") {
		r.fail(member, "is required")
	}
	return &partReader{members: m}
}

// take moves a fault of a nested object up.
func (r *partReader) take(member string, inner *partReader) {
	if inner.err != nil && r.err == nil {
		r.err = fmt.Errorf("%s.%w", member, inner.err)
	}
}

func (r *partReader) finishReason() ai.FinishReason {
	o := r.object("finishReason")
	reason := ai.FinishReason{Unified: ai.FinishReasonKind(o.oneOf("unified", "stop", "length", "content-filter", "tool-calls", "error", "other")), Raw: o.optStr("raw")}
	r.take("finishReason", o)
	return reason
}

func (r *partReader) usage(member string) ai.Usage {
	o := r.object(member)
	in, out := o.object("inputTokens"), o.object("outputTokens")
	u := ai.Usage{
		InputTokens:  ai.InputTokens{Total: in.optInt("total"), NoCache: in.optInt("noCache"), CacheRead: in.optInt("cacheRead"), CacheWrite: in.optInt("cacheWrite")},
		OutputTokens: ai.OutputTokens{Total: out.optInt("total"), Text: out.optInt("text"), Reasoning: out.optInt("reasoning")},
		Raw:          o.members["raw"],
	}
	o.take("inputTokens", in)
	o.take("outputTokens", out)
	r.take(member, o)
	return u
}

func (r *partReader) warnings() []CallWarning {
	var list []json.RawMessage
	if !r.get("warnings", &list, "an array") {
		return nil
	}
	out := []CallWarning{}
	for i, raw := range list {
		at := fmt.Sprintf("warnings[%d]", i)
		var m map[string]json.RawMessage
		if strictJSON(raw, &m) != nil || m == nil {
			r.fail(at, "must be an object")
			return nil
		}
		o := &partReader{members: m}
		w := CallWarning{Type: CallWarningType(o.str("type"))}
		switch w.Type {
		case CallWarningUnsupportedSetting:
			w.Setting, w.Details = o.str("setting"), o.optStr("details")
		case CallWarningUnsupportedTool:
			w.Tool, w.Details = o.str("tool"), o.optStr("details")
		case CallWarningOther:
			w.Message = o.str("message")
		default:
			o.fail("type", "must be one of unsupported-setting, unsupported-tool, other")
		}
		r.take(at, o)
		out = append(out, w)
	}
	return out
}
