package scripted

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// messagesRequest is a request on the Anthropic Messages wire, as far as a script and the wire's own rules need it.
type messagesRequest struct {
	Model       string            `json:"model"`
	Stream      bool              `json:"stream"`
	MaxTokens   int               `json:"max_tokens"`
	Temperature *float64          `json:"temperature"`
	System      json.RawMessage   `json:"system"`
	Messages    []messagesMessage `json:"messages"`
	ToolChoice  struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
	Thinking struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	} `json:"thinking"`
	Tools []struct {
		Type   string `json:"type"` // of the service's own
		Name   string `json:"name"`
		Schema struct {
			Type string `json:"type"`
		} `json:"input_schema"`
		Cache json.RawMessage `json:"cache_control"`
	} `json:"tools"`
}

type messagesMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`

	blocks []messagesBlock // read by check
}

// messages answers one call of the Anthropic Messages wire.
func (h *Handler) messages(w http.ResponseWriter, r *http.Request) {
	h.served.Add(1)
	req, size, ok := readMessages(w, r)
	if !ok {
		return
	}
	if req.MaxTokens <= 0 {
		messagesError(w, http.StatusBadRequest, "max_tokens: a positive number is required")
		return
	}
	if err := req.check(); err != nil {
		messagesError(w, http.StatusBadRequest, err.Error())
		return
	}
	talk := req.conversation()
	k := h.player.pick(talk, req.ToolChoice.Type == "none")
	h.record(r, size, req.summary(), k)
	w.Header().Set("Request-Id", k.requestID())
	if k.step.Status != 0 {
		if k.step.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(k.step.RetryAfter))
		}
		_, message := k.step.failure()
		messagesError(w, k.step.Status, message)
		return
	}
	wait := sleep(r.Context())
	if wait(k.step.before()) != nil {
		return // the client is gone
	}
	a := &messagesAnswer{w: w, req: req, picked: k, wait: wait, open: -1}
	if k.step.Raw != "" {
		a.header()
		_, _ = w.Write([]byte(k.step.Raw)) // a client that went away is no fault
		return
	}
	a.play()
}

// countMessages answers how long a prompt is.
func (h *Handler) countMessages(w http.ResponseWriter, r *http.Request) {
	req, _, ok := readMessages(w, r)
	if !ok {
		return
	}
	if err := req.check(); err != nil {
		messagesError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, obj{"input_tokens": countedTokens})
}

// readMessages reads a request's body, or says what is wrong with it.
func readMessages(w http.ResponseWriter, r *http.Request) (req *messagesRequest, size int, ok bool) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		messagesError(w, http.StatusUnsupportedMediaType, "send the body without Content-Encoding")
		return nil, 0, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		messagesError(w, status, "the body cannot be read: "+err.Error())
		return nil, 0, false
	}
	req = &messagesRequest{}
	if err := json.Unmarshal(body, req); err != nil {
		messagesError(w, http.StatusBadRequest, "the body is not a Messages request: "+err.Error())
		return nil, 0, false
	}
	return req, len(body), true
}

// conversation is what a script needs of a request that was checked. Each text and each result of the user's is a turn:
// clients merge them.
func (q *messagesRequest) conversation() []turn {
	var list []turn
	if t := contentText(q.System); t != "" {
		list = append(list, turn{by: bySystem, text: t})
	}
	for _, m := range q.Messages {
		var said strings.Builder
		for i := range m.blocks {
			switch b := &m.blocks[i]; {
			case b.Type == "tool_result":
				list = append(list, turn{by: byTool, text: contentText(b.Content), results: 1})
			case b.Type != "text":
			case m.Role == "user":
				list = append(list, turn{by: byUser, text: b.Text})
			default:
				said.WriteString(b.Text)
			}
		}
		if m.Role == "assistant" {
			list = append(list, turn{by: byModel, text: said.String()})
		}
	}
	return list
}

// signatureOf stands for the service's signature of its reasoning: it tells whether the text came back unchanged.
func signatureOf(thinking string) string {
	sum := sha256.Sum256([]byte("signed " + thinking))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// summary is the request in the form that the log takes.
func (q *messagesRequest) summary() *chatRequest {
	s := &chatRequest{Model: q.Model, Stream: q.Stream}
	for _, m := range q.Messages {
		s.Messages = append(s.Messages, chatMessage{Role: m.Role})
	}
	s.Tools = make([]toolName, len(q.Tools))
	for i, t := range q.Tools {
		s.Tools[i].Function.Name = t.Name
	}
	return s
}

// messagesError writes an error as the service does.
func messagesError(w http.ResponseWriter, status int, message string) {
	kind, _ := Step{Status: status}.failure()
	if status == http.StatusRequestEntityTooLarge {
		kind = "request_too_large"
	}
	e := obj{"type": "error", "error": obj{"type": kind, "message": message}}
	if id := w.Header().Get("Request-Id"); id != "" {
		e["request_id"] = id
	}
	writeJSON(w, status, e)
}

// messagesAnswer writes one scripted answer on the Anthropic Messages wire, as events or as one object.
type messagesAnswer struct {
	w      http.ResponseWriter
	req    *messagesRequest
	picked picked
	wait   waiter

	blocks int // begun
	open   int // the kind of the open block, -1 for none
	think  strings.Builder
	whole  []obj // of the object
	args   strings.Builder
}

func (a *messagesAnswer) header() {
	a.w.Header().Set("Cache-Control", "no-cache")
	a.w.Header().Set("Content-Type", "application/json")
	if a.req.Stream {
		a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
}

func (a *messagesAnswer) usage(out int64) obj {
	u := a.picked.finish().usage
	if u == nil {
		return nil
	}
	o := obj{"input_tokens": u.in - u.cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": u.cached, "output_tokens": u.out}
	if out > 0 {
		o["output_tokens"] = out
	}
	return o
}

func (a *messagesAnswer) message() obj {
	m := obj{
		"id": fmt.Sprintf("msg_%016x", a.picked.id), "type": "message", "role": "assistant", "model": a.req.Model,
		"content": []obj{}, "stop_reason": nil, "stop_sequence": nil,
	}
	if u := a.usage(1); u != nil {
		m["usage"] = u
	}
	return m
}

func (a *messagesAnswer) play() {
	a.header()
	wait := a.wait
	if a.req.Stream {
		wait = wait.after(a.flush)
		if a.event("message_start", obj{"message": a.message()}) != nil || a.event("ping", obj{}) != nil {
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

func (a *messagesAnswer) flush() {
	if f, ok := a.w.(http.Flusher); ok && a.req.Stream {
		f.Flush()
	}
}

func (a *messagesAnswer) frame(f frame) error {
	switch f.kind {
	case frameThink:
		a.think.WriteString(f.text)
		return a.piece(f, obj{"type": "thinking", "thinking": "", "signature": ""}, obj{"type": "thinking_delta", "thinking": f.text})
	case frameText:
		return a.piece(f, obj{"type": "text", "text": ""}, obj{"type": "text_delta", "text": f.text})
	case frameCall:
		if err := a.closeBlock(); err != nil {
			return err
		}
		return a.begin(f.kind, obj{"type": "tool_use", "id": f.id, "name": f.name, "input": obj{}})
	case frameArgs:
		if !a.req.Stream {
			a.args.WriteString(f.text)
			return nil
		}
		return a.event("content_block_delta", obj{"index": a.blocks - 1, "delta": obj{"type": "input_json_delta", "partial_json": f.text}})
	}
	if err := a.closeBlock(); err != nil {
		return err
	}
	return a.finish(messagesStop(f.finish))
}

// piece begins a block where the piece is of another kind than the open one, and sends it.
func (a *messagesAnswer) piece(f frame, start, delta obj) error {
	if a.open != int(f.kind) {
		if err := a.closeBlock(); err != nil {
			return err
		}
		if err := a.begin(f.kind, start); err != nil {
			return err
		}
	}
	if !a.req.Stream {
		b := a.whole[len(a.whole)-1]
		name := b["type"].(string) // the member that holds the text has the block's name
		b[name] = b[name].(string) + f.text
		return nil
	}
	return a.event("content_block_delta", obj{"index": a.blocks - 1, "delta": delta})
}

func (a *messagesAnswer) begin(kind frameKind, start obj) error {
	a.open = int(kind)
	a.blocks++
	if !a.req.Stream {
		a.whole = append(a.whole, start)
		return nil
	}
	return a.event("content_block_start", obj{"index": a.blocks - 1, "content_block": start})
}

func (a *messagesAnswer) closeBlock() error {
	kind := a.open
	a.open = -1
	if kind < 0 {
		return nil
	}
	if !a.req.Stream {
		b := a.whole[len(a.whole)-1]
		switch frameKind(kind) {
		case frameThink:
			b["signature"] = signatureOf(a.think.String())
		case frameCall:
			if s := a.args.String(); json.Valid([]byte(s)) {
				b["input"] = json.RawMessage(s)
			}
			a.args.Reset()
		}
		return nil
	}
	if frameKind(kind) == frameThink {
		d := obj{"type": "signature_delta", "signature": signatureOf(a.think.String())}
		if err := a.event("content_block_delta", obj{"index": a.blocks - 1, "delta": d}); err != nil {
			return err
		}
	}
	return a.event("content_block_stop", obj{"index": a.blocks - 1})
}

func (a *messagesAnswer) finish(stop string) error {
	if !a.req.Stream {
		m := a.message()
		m["content"], m["stop_reason"] = a.whole, stop
		if u := a.usage(0); u != nil {
			m["usage"] = u
		}
		if a.whole == nil {
			m["content"] = []obj{}
		}
		b, err := encode(m)
		if err != nil {
			return err
		}
		_, err = a.w.Write(b)
		return err
	}
	e := obj{"delta": obj{"stop_reason": stop, "stop_sequence": nil}}
	if u := a.usage(0); u != nil {
		e["usage"] = u
	}
	if err := a.event("message_delta", e); err != nil {
		return err
	}
	return a.event("message_stop", obj{})
}

func (a *messagesAnswer) event(name string, e obj) error {
	e["type"] = name
	b, err := encode(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.w, "event: %s\ndata: %s\n\n", name, b)
	return err
}

// messagesStop is the wire's word for a finish reason of the script. The wire's own words stay as they are.
func messagesStop(word string) string {
	switch word {
	case "stop":
		return "end_turn"
	case "tool_calls":
		return "tool_use"
	case "length":
		return "max_tokens"
	case "content_filter":
		return "refusal"
	}
	return word
}
