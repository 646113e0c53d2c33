package scripted

import (
	"errors"
	"net/http"
	"strings"
)

// answer writes one scripted answer on the Chat Completions wire.
type answer struct {
	w      http.ResponseWriter
	req    *chatRequest
	picked picked
	wait   waiter
}

type chunkJSON struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int          `json:"created"`
	Model   string       `json:"model"`
	Choices []choiceJSON `json:"choices"`
	Usage   *usageJSON   `json:"usage,omitempty"`
}

type choiceJSON struct {
	Index        int          `json:"index"`
	Delta        *messageJSON `json:"delta,omitempty"`
	Message      *messageJSON `json:"message,omitempty"`
	FinishReason *string      `json:"finish_reason"`
}

type messageJSON struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	Reasoning string     `json:"reasoning_content,omitempty"`
	ToolCalls []callJSON `json:"tool_calls,omitempty"`
}

type callJSON struct {
	Index    int    `json:"index"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type usageJSON struct {
	Prompt     int64        `json:"prompt_tokens"`
	Completion int64        `json:"completion_tokens"`
	Total      int64        `json:"total_tokens"`
	Details    *detailsJSON `json:"prompt_tokens_details,omitempty"`
}

type detailsJSON struct {
	Cached int64 `json:"cached_tokens"`
}

func (u *usage) json() *usageJSON {
	if u == nil {
		return nil
	}
	j := &usageJSON{Prompt: u.in, Completion: u.out, Total: u.in + u.out}
	if u.cached > 0 {
		j.Details = &detailsJSON{Cached: u.cached}
	}
	return j
}

func (a *answer) envelope(object string) chunkJSON {
	return chunkJSON{ID: a.picked.responseID(), Object: object, Created: 1, Model: a.req.Model, Choices: []choiceJSON{}}
}

// raw sends the script's bytes with the content type that the client expects.
func (a *answer) raw() {
	a.w.Header().Set("Content-Type", a.contentType())
	_, _ = a.w.Write([]byte(a.picked.step.Raw)) // a client that went away is no fault
}

func (a *answer) contentType() string {
	if a.req.Stream {
		return "text/event-stream"
	}
	return "application/json"
}

// stream sends one event for each frame.
func (a *answer) stream() {
	a.w.Header().Set("Content-Type", a.contentType())
	a.w.Header().Set("Cache-Control", "no-cache")
	empty := ""
	if a.delta(&messageJSON{Role: "assistant", Content: &empty}, nil) != nil {
		return
	}
	// Events wait in the server's buffer while nothing else waits for them, so that a long answer is not a system
	// call for each word.
	wait := a.wait.after(func() { a.flush() })
	err := a.picked.play(wait, a.frame)
	switch {
	case errors.Is(err, errDropped):
		a.flush()
		panic(http.ErrAbortHandler) // how net/http breaks a connection
	case err != nil:
		return // the client is gone
	}
	_, _ = a.w.Write([]byte("data: [DONE]\n\n"))
}

func (a *answer) flush() {
	if f, ok := a.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (a *answer) frame(f frame) error {
	switch f.kind {
	case frameThink:
		return a.delta(&messageJSON{Reasoning: f.text}, nil)
	case frameText:
		return a.delta(&messageJSON{Content: &f.text}, nil)
	case frameCall:
		c := callJSON{Index: f.index, ID: f.id, Type: "function"}
		c.Function.Name = f.name
		return a.delta(&messageJSON{ToolCalls: []callJSON{c}}, nil)
	case frameArgs:
		c := callJSON{Index: f.index}
		c.Function.Arguments = f.text
		return a.delta(&messageJSON{ToolCalls: []callJSON{c}}, nil)
	}
	if err := a.delta(&messageJSON{}, &f.finish); err != nil {
		return err
	}
	if f.usage == nil || !a.req.StreamOptions.IncludeUsage {
		return nil
	}
	last := a.envelope("chat.completion.chunk")
	last.Usage = f.usage.json()
	return a.event(last)
}

func (a *answer) delta(m *messageJSON, finish *string) error {
	c := a.envelope("chat.completion.chunk")
	c.Choices = append(c.Choices, choiceJSON{Delta: m, FinishReason: finish})
	return a.event(c)
}

func (a *answer) event(v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	line := make([]byte, 0, len(b)+8)
	line = append(append(append(line, "data: "...), b...), "\n\n"...)
	_, err = a.w.Write(line)
	return err
}

// object sends the whole answer as one JSON object.
func (a *answer) object() {
	var text, think strings.Builder
	var calls []callJSON
	var args []*strings.Builder
	var last frame
	err := a.picked.play(a.wait, func(f frame) error {
		switch f.kind {
		case frameThink:
			think.WriteString(f.text)
		case frameText:
			text.WriteString(f.text)
		case frameCall:
			c := callJSON{Index: f.index, ID: f.id, Type: "function"}
			c.Function.Name = f.name
			calls, args = append(calls, c), append(args, new(strings.Builder))
		case frameArgs:
			args[f.index].WriteString(f.text)
		case frameFinish:
			last = f
		}
		return nil
	})
	switch {
	case errors.Is(err, errDropped):
		panic(http.ErrAbortHandler) // how net/http breaks a connection
	case err != nil:
		return // the client is gone
	}
	for i := range calls {
		calls[i].Function.Arguments = args[i].String()
	}
	content := text.String()
	m := messageJSON{Role: "assistant", Content: &content, Reasoning: think.String(), ToolCalls: calls}
	c := a.envelope("chat.completion")
	c.Choices = append(c.Choices, choiceJSON{Message: &m, FinishReason: &last.finish})
	c.Usage = last.usage.json()
	writeJSON(a.w, http.StatusOK, c)
}
