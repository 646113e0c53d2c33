package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// responsesRequest is a request on the OpenAI Responses wire, as far as a script and the wire's own rules need it.
type responsesRequest struct {
	Model        string          `json:"model"`
	Stream       bool            `json:"stream"`
	Store        *bool           `json:"store"`
	Include      []string        `json:"include"`
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Tools        []struct {
		Name string `json:"name"`
	} `json:"tools"`
	roles []string
}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Content   json.RawMessage `json:"content"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`
	Summary   []struct {
		Text string `json:"text"`
	} `json:"summary"`
}

// ofModel tells of an item that the model wrote.
func (it *responsesItem) ofModel() bool {
	switch it.Type {
	case "", "message":
		return it.Role == "assistant"
	}
	return !strings.HasSuffix(it.Type, "_output")
}

// responses answers one call of the OpenAI Responses wire.
func (h *Handler) responses(w http.ResponseWriter, r *http.Request) {
	h.served.Add(1)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		writeError(w, status, "invalid_request_error", "the body cannot be read: "+err.Error())
		return
	}
	var req responsesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "the body is not a Responses request: "+err.Error())
		return
	}
	talk, err := req.conversation()
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	k := h.player.pick(talk, string(req.ToolChoice) == `"none"`)
	h.record(r, len(body), req.summary(), k)
	w.Header().Set("X-Request-Id", k.requestID())
	if k.step.Status != 0 {
		if k.step.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(k.step.RetryAfter))
		}
		code, message := k.step.failure()
		writeError(w, k.step.Status, code, message)
		return
	}
	wait := sleep(r.Context())
	if wait(k.step.before()) != nil {
		return // the client is gone
	}
	a := &responsesAnswer{w: w, req: &req, picked: k, wait: wait}
	if k.step.Raw != "" {
		a.header()
		_, _ = w.Write([]byte(k.step.Raw)) // a client that went away is no fault
		return
	}
	a.play()
}

// conversation reads the items; neighbouring ones of the model are one turn. It holds them to the rules that the
// service has: each call has its output behind it, of its own kind, and reasoning comes back as it was given, with the
// item that it led to. A service that was told to store nothing knows reasoning by its encrypted form alone.
func (q *responsesRequest) conversation() ([]turn, error) {
	var list []turn
	if q.Instructions != "" {
		list = append(list, turn{by: bySystem, text: q.Instructions})
	}
	var s string
	if json.Unmarshal(q.Input, &s) == nil {
		q.roles = []string{"user"}
		return append(list, turn{by: byUser, text: s}), nil
	}
	var items []responsesItem
	if err := json.Unmarshal(q.Input, &items); err != nil {
		return nil, errors.New("input: a text or a list of items is required")
	}
	open := map[string]string{} // the kind of output that a call waits for
	said := func(text string) {
		if n := len(list); n > 0 && list[n-1].by == byModel {
			list[n-1].text += text
			return
		}
		list = append(list, turn{by: byModel, text: text})
	}
	for i, it := range items {
		q.roles = append(q.roles, it.Role+it.Type)
		switch {
		case it.Type == "function_call_output" || it.Type == "custom_tool_call_output":
			if open[it.CallID] != it.Type {
				return nil, fmt.Errorf("input[%d]: no tool call found for function call output with call_id %s", i, it.CallID)
			}
			delete(open, it.CallID)
			list = append(list, turn{by: byTool, text: contentText(it.Output), results: 1})
		case it.Type == "function_call" || it.Type == "custom_tool_call":
			if it.CallID == "" || open[it.CallID] != "" {
				return nil, fmt.Errorf("input[%d].call_id: %q is no id of its own", i, it.CallID)
			}
			open[it.CallID] = it.Type + "_output"
			said("")
		case it.Type == "reasoning":
			var text strings.Builder
			for _, p := range it.Summary {
				text.WriteString(p.Text)
			}
			if it.Encrypted == "" && q.Store != nil && !*q.Store {
				return nil, fmt.Errorf("input[%d]: item with id %q not found; items are not persisted when store is set to false", i, it.ID)
			}
			if it.Encrypted != "" && it.Encrypted != signatureOf(text.String()) {
				return nil, fmt.Errorf("input[%d]: the encrypted content of item %s could not be verified", i, it.ID)
			}
			if i+1 == len(items) || !items[i+1].ofModel() {
				return nil, fmt.Errorf("input[%d]: item %s of type reasoning was provided without its required following item", i, it.ID)
			}
			said("")
		case it.Role == "assistant":
			said(contentText(it.Content))
		case it.Role == "user":
			list = append(list, turn{by: byUser, text: strings.TrimSuffix(contentText(it.Content), "\n")})
		case it.Role == "system" || it.Role == "developer":
			list = append(list, turn{by: bySystem, text: contentText(it.Content)})
		case it.Type == "" || it.Type == "message":
			return nil, fmt.Errorf("input[%d].role: %q is not a role", i, it.Role)
		default:
			said("")
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("no tool output found for function call %s", slices.Min(slices.Collect(maps.Keys(open))))
	}
	return list, nil
}

// summary is the request in the form that the log takes.
func (q *responsesRequest) summary() *chatRequest {
	s := &chatRequest{Model: q.Model, Stream: q.Stream, Tools: make([]toolName, len(q.Tools))}
	for _, r := range q.roles {
		s.Messages = append(s.Messages, chatMessage{Role: r})
	}
	for i, t := range q.Tools {
		s.Tools[i].Function.Name = t.Name
	}
	return s
}

// responsesAnswer writes one scripted answer on the Responses wire, as events or as one object.
type responsesAnswer struct {
	w      http.ResponseWriter
	req    *responsesRequest
	picked picked
	wait   waiter

	seq   int
	items []obj // finished
	kind  frameKind
	text  strings.Builder // of the open item
	call  frame
}

func (a *responsesAnswer) header() {
	a.w.Header().Set("Cache-Control", "no-cache")
	a.w.Header().Set("Content-Type", "application/json")
	if a.req.Stream {
		a.w.Header().Set("Content-Type", "text/event-stream")
	}
}

func (a *responsesAnswer) response(status string) obj {
	items := a.items
	if items == nil {
		items = []obj{}
	}
	return obj{
		"id": fmt.Sprintf("resp_%016x", a.picked.id), "object": "response", "created_at": 1, "model": a.req.Model, "status": status,
		"output": items, "error": nil, "incomplete_details": nil, "usage": nil, "store": a.req.Store == nil || *a.req.Store,
	}
}

func (a *responsesAnswer) play() {
	a.header()
	wait := a.wait
	if a.req.Stream {
		wait = wait.after(a.flush)
		if a.event("response.created", obj{"response": a.response("in_progress")}) != nil {
			return
		}
	}
	err := a.picked.play(wait, a.frame)
	switch {
	case errors.Is(err, errDropped):
		a.flush()
		panic(http.ErrAbortHandler) // how net/http breaks a connection
	case err != nil:
		return // the client is gone
	}
}

func (a *responsesAnswer) flush() {
	if f, ok := a.w.(http.Flusher); ok && a.req.Stream {
		f.Flush()
	}
}

func (a *responsesAnswer) frame(f frame) error {
	switch f.kind {
	case frameThink:
		return a.piece(f, "response.reasoning_summary_text.delta", obj{"summary_index": 0})
	case frameText:
		return a.piece(f, "response.output_text.delta", obj{"content_index": 0, "logprobs": []obj{}})
	case frameCall:
		if err := a.closeItem(""); err != nil {
			return err
		}
		a.call = f
		return a.begin(frameCall)
	case frameArgs:
		a.text.WriteString(f.text)
		if a.call.custom {
			return a.delta("response.custom_tool_call_input.delta", f.text, obj{})
		}
		return a.delta("response.function_call_arguments.delta", f.text, obj{})
	}
	status, reason := responsesStatus(f.finish)
	last := "completed"
	if reason != "" {
		last = "incomplete"
	}
	if err := a.closeItem(last); err != nil {
		return err
	}
	r := a.response(status)
	if reason != "" {
		r["incomplete_details"] = obj{"reason": reason}
	}
	if u := f.usage; u != nil {
		r["usage"] = obj{
			"input_tokens": u.in, "input_tokens_details": obj{"cached_tokens": u.cached}, "output_tokens": u.out,
			"output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": u.in + u.out,
		}
	}
	if !a.req.Stream {
		b, err := encode(r)
		if err != nil {
			return err
		}
		_, err = a.w.Write(b)
		return err
	}
	return a.event("response."+status, obj{"response": r})
}

// responsesStatus is the wire's word for a finish reason of the script, and the reason where an answer is incomplete.
func responsesStatus(word string) (status, reason string) {
	switch word {
	case "stop", "tool_calls":
		return "completed", ""
	case "length":
		return "incomplete", "max_output_tokens"
	}
	return "incomplete", word
}

// piece begins an item where the piece is of another kind than the open one, and sends it.
func (a *responsesAnswer) piece(f frame, name string, more obj) error {
	if a.kind != f.kind {
		if err := a.closeItem(""); err != nil {
			return err
		}
		if err := a.begin(f.kind); err != nil {
			return err
		}
	}
	a.text.WriteString(f.text)
	return a.delta(name, f.text, more)
}

func (a *responsesAnswer) delta(name, text string, more obj) error {
	if !a.req.Stream {
		return nil
	}
	more["delta"], more["output_index"], more["item_id"] = text, len(a.items), a.itemID()
	return a.event(name, more)
}

func (a *responsesAnswer) itemID() string {
	prefix := map[frameKind]string{frameThink: "rs", frameText: "msg", frameCall: "fc"}[a.kind]
	if a.kind == frameCall && a.call.custom {
		prefix = "ctc"
	}
	return fmt.Sprintf("%s_%016x_%d", prefix, a.picked.id, len(a.items))
}

func (a *responsesAnswer) begin(kind frameKind) error {
	a.kind = kind
	a.text.Reset()
	if !a.req.Stream {
		return nil
	}
	return a.event("response.output_item.added", obj{"output_index": len(a.items), "item": a.item("in_progress", true)})
}

// item is the open item. Reasoning is encrypted where the request asks for it, at its beginning otherwise than at its
// end.
func (a *responsesAnswer) item(status string, begins bool) obj {
	text := a.text.String()
	switch a.kind {
	case frameThink:
		it := obj{"id": a.itemID(), "type": "reasoning", "summary": []obj{}}
		encrypted := "at the beginning"
		if !begins {
			it["summary"], encrypted = []obj{{"type": "summary_text", "text": text}}, signatureOf(text)
		}
		if slices.Contains(a.req.Include, "reasoning.encrypted_content") {
			it["encrypted_content"] = encrypted
		}
		return it
	case frameText:
		it := obj{"id": a.itemID(), "type": "message", "role": "assistant", "status": status, "content": []obj{}}
		if !begins {
			it["content"] = []obj{{"type": "output_text", "text": text, "annotations": []obj{}}}
		}
		return it
	}
	it := obj{"id": a.itemID(), "type": "function_call", "status": status, "call_id": a.call.id, "name": a.call.name, "arguments": text}
	if a.call.custom {
		delete(it, "arguments")
		it["type"], it["input"] = "custom_tool_call", text
	}
	if a.call.ns != "" {
		it["namespace"] = a.call.ns
	}
	return it
}

func (a *responsesAnswer) closeItem(status string) error {
	if a.kind == 0 {
		return nil
	}
	if status == "" {
		status = "completed"
	}
	it := a.item(status, false)
	n := len(a.items)
	a.items, a.kind = append(a.items, it), 0
	if !a.req.Stream {
		return nil
	}
	return a.event("response.output_item.done", obj{"output_index": n, "item": it})
}

func (a *responsesAnswer) event(name string, e obj) error {
	e["type"], e["sequence_number"] = name, a.seq
	a.seq++
	b, err := encode(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.w, "event: %s\ndata: %s\n\n", name, b)
	return err
}
