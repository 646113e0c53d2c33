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
	Model      string            `json:"model"`
	Stream     bool              `json:"stream"`
	MaxTokens  int               `json:"max_tokens"`
	System     json.RawMessage   `json:"system"`
	Messages   []messagesMessage `json:"messages"`
	ToolChoice struct {
		Type string `json:"type"`
	} `json:"tool_choice"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

type messagesMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// blocks reads a message's content: a text, or a list.
func (m messagesMessage) blocks() ([]messagesBlock, error) {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return []messagesBlock{{Type: "text", Text: s}}, nil
	}
	var list []messagesBlock
	err := json.Unmarshal(m.Content, &list)
	return list, err
}

// messages answers one call of the Anthropic Messages wire.
func (h *Handler) messages(w http.ResponseWriter, r *http.Request) {
	h.served.Add(1)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		messagesError(w, status, "the body cannot be read: "+err.Error())
		return
	}
	var req messagesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		messagesError(w, http.StatusBadRequest, "the body is not a Messages request: "+err.Error())
		return
	}
	talk, err := req.conversation()
	if err != nil {
		messagesError(w, http.StatusBadRequest, err.Error())
		return
	}
	k := h.player.pick(talk, req.ToolChoice.Type == "none")
	h.record(r, len(body), req.summary(), k)
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
	a := &messagesAnswer{w: w, req: &req, picked: k, wait: wait, open: -1}
	if k.step.Raw != "" {
		a.header()
		_, _ = w.Write([]byte(k.step.Raw)) // a client that went away is no fault
		return
	}
	a.play()
}

// conversation splits the turns, which the wire merges, and holds the request to the rules that the service has: roles
// and results in their places, no empty texts, reasoning as it was given.
func (q *messagesRequest) conversation() ([]turn, error) {
	if q.MaxTokens <= 0 {
		return nil, errors.New("max_tokens: a positive number is required")
	}
	if len(q.Messages) == 0 || q.Messages[0].Role != "user" {
		return nil, errors.New("messages: the first message must be the user's")
	}
	var list []turn
	if t := contentText(q.System); t != "" {
		list = append(list, turn{by: bySystem, text: t})
	}
	var open []string // calls that the next message must answer
	for i, m := range q.Messages {
		blocks, err := m.blocks()
		if err != nil || len(blocks) == 0 {
			return nil, fmt.Errorf("messages.%d.content: a text or a list of blocks is required", i)
		}
		switch m.Role {
		case "assistant":
			if len(open) > 0 {
				return nil, fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %s", i, strings.Join(open, ", "))
			}
			var said strings.Builder
			for n, b := range blocks {
				switch b.Type {
				case "text":
					if strings.TrimSpace(b.Text) == "" {
						return nil, fmt.Errorf("messages.%d.content.%d: text content blocks must be non-empty", i, n)
					}
					said.WriteString(b.Text)
				case "thinking":
					if b.Signature != signatureOf(b.Thinking) {
						return nil, fmt.Errorf("messages.%d.content.%d: invalid signature in thinking block", i, n)
					}
				case "tool_use":
					open = append(open, b.ID)
				}
			}
			list = append(list, turn{by: byModel, text: said.String()})
		case "user":
			for n, b := range blocks {
				switch b.Type {
				case "tool_result":
					if n >= len(open) || open[n] != b.ToolUseID {
						return nil, fmt.Errorf("messages.%d.content.%d: unexpected tool_use_id %s in tool_result blocks", i, n, b.ToolUseID)
					}
					list = append(list, turn{by: byTool, text: contentText(b.Content), results: 1})
				case "text":
					if strings.TrimSpace(b.Text) == "" {
						return nil, fmt.Errorf("messages.%d.content.%d: text content blocks must be non-empty", i, n)
					}
					list = append(list, turn{by: byUser, text: b.Text})
				}
				if b.Type != "tool_result" && n < len(open) {
					return nil, fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %s", i, strings.Join(open[n:], ", "))
				}
			}
			if len(blocks) < len(open) {
				return nil, fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %s", i, strings.Join(open[len(blocks):], ", "))
			}
			open = nil
		default:
			return nil, fmt.Errorf("messages.%d.role: user or assistant is required", i)
		}
	}
	return list, nil
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
	writeJSON(w, status, obj{"type": "error", "error": obj{"type": kind, "message": message}})
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
