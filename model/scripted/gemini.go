package scripted

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// geminiRequest is what a script needs of a request on the Gemini wire.
type geminiRequest struct {
	Contents          []geminiContent `json:"contents"`
	SystemInstruction geminiContent   `json:"systemInstruction"`
	ToolConfig        struct {
		FunctionCallingConfig struct {
			Mode string `json:"mode"`
		} `json:"functionCallingConfig"`
	} `json:"toolConfig"`
	Tools []struct {
		FunctionDeclarations []struct {
			Name string `json:"name"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
}

type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text             *string `json:"text"`
		FunctionResponse *struct {
			Response json.RawMessage `json:"response"`
		} `json:"functionResponse"`
	} `json:"parts"`
}

// geminiPath splits …/models/{model}:{method}. ok is false for paths of other wires.
func geminiPath(path string) (model, method string, ok bool) {
	i := strings.LastIndexByte(path, ':')
	if i < 0 {
		return "", "", false
	}
	switch method = path[i+1:]; method {
	case "generateContent", "streamGenerateContent", "countTokens":
		_, model, _ = strings.Cut(path[:i], "/models/")
		return model, method, true
	}
	return "", "", false
}

// gemini answers one call of the Gemini wire. The answer is streamed as events, whatever alt says.
func (h *Handler) gemini(w http.ResponseWriter, r *http.Request, model, method string) {
	if method != "countTokens" {
		h.served.Add(1)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		geminiError(w, http.StatusUnsupportedMediaType, "send the body without Content-Encoding", 0)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		geminiError(w, status, "the body cannot be read: "+err.Error(), 0)
		return
	}
	var req geminiRequest
	if err := json.Unmarshal(body, &req); err != nil {
		geminiError(w, http.StatusBadRequest, "the body is not a Gemini request: "+err.Error(), 0)
		return
	}
	if method == "countTokens" {
		writeJSON(w, http.StatusOK, obj{"totalTokens": countedTokens})
		return
	}
	k := h.player.pick(req.conversation(), req.ToolConfig.FunctionCallingConfig.Mode == "NONE")
	stream := method == "streamGenerateContent"
	h.record(r, len(body), req.summary(model, stream), k)
	w.Header().Set("X-Request-Id", k.requestID())
	if k.step.Status != 0 {
		if k.step.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(k.step.RetryAfter))
		}
		_, message := k.step.failure()
		geminiError(w, k.step.Status, message, k.step.RetryAfter)
		return
	}
	wait := sleep(r.Context())
	if wait(k.step.before()) != nil {
		return // the client is gone
	}
	a := &geminiAnswer{w: w, model: model, stream: stream, picked: k, wait: wait}
	if k.step.Raw != "" {
		a.header()
		_, _ = w.Write([]byte(k.step.Raw)) // a client that went away is no fault
		return
	}
	a.play()
}

// countedTokens is the answer of every count: no client may depend on it.
const countedTokens = 42

// conversation splits the turns, which the wire merges: each text of a user is a message, each response a result.
func (q *geminiRequest) conversation() []turn {
	var list []turn
	for _, p := range q.SystemInstruction.Parts {
		if p.Text != nil {
			list = append(list, turn{by: bySystem, text: *p.Text})
		}
	}
	for _, c := range q.Contents {
		if c.Role == "model" {
			var said strings.Builder
			for _, p := range c.Parts {
				if p.Text != nil {
					said.WriteString(*p.Text)
				}
			}
			list = append(list, turn{by: byModel, text: said.String()})
			continue
		}
		for _, p := range c.Parts {
			switch {
			case p.FunctionResponse != nil:
				list = append(list, turn{by: byTool, text: string(p.FunctionResponse.Response), results: 1})
			case p.Text != nil:
				list = append(list, turn{by: byUser, text: *p.Text})
			}
		}
	}
	return list
}

// summary is the request in the form that the log takes.
func (q *geminiRequest) summary(model string, stream bool) *chatRequest {
	s := &chatRequest{Model: model, Stream: stream}
	for _, c := range q.Contents {
		s.Messages = append(s.Messages, chatMessage{Role: c.Role})
	}
	for _, t := range q.Tools {
		for _, f := range t.FunctionDeclarations {
			s.Tools = append(s.Tools, struct {
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			}{Function: struct {
				Name string `json:"name"`
			}{f.Name}})
		}
	}
	return s
}

// geminiError writes an error as Google's services do.
func geminiError(w http.ResponseWriter, status int, message string, retryAfter int) {
	e := obj{"code": status, "message": message, "status": geminiStatus(status)}
	if retryAfter > 0 {
		e["details"] = []obj{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": strconv.Itoa(retryAfter) + "s"}}
	}
	writeJSON(w, status, obj{"error": e})
}

func geminiStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable, 529:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status >= 500 {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// geminiAnswer writes one scripted answer on the Gemini wire, as events or as one object.
type geminiAnswer struct {
	w      http.ResponseWriter
	model  string
	stream bool
	picked picked
	wait   waiter

	parts []obj // of the object
	call  frame // the call whose arguments are being gathered
	args  strings.Builder
	open  bool
	out   int64 // tokens reported so far
}

func (a *geminiAnswer) header() {
	a.w.Header().Set("Cache-Control", "no-cache")
	if a.stream {
		a.w.Header().Set("Content-Type", "text/event-stream")
	} else {
		a.w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	}
}

func (a *geminiAnswer) play() {
	a.header()
	wait := a.wait
	if a.stream {
		wait = wait.after(a.flush)
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

func (a *geminiAnswer) flush() {
	if f, ok := a.w.(http.Flusher); ok && a.stream {
		f.Flush()
	}
}

// frame sends what is whole: calls have no pieces on this wire.
func (a *geminiAnswer) frame(f frame) error {
	if f.kind == frameArgs {
		a.args.WriteString(f.text)
		return nil
	}
	if err := a.endCall(); err != nil {
		return err
	}
	switch f.kind {
	case frameThink:
		return a.part(obj{"text": f.text, "thought": true})
	case frameText:
		return a.part(obj{"text": f.text})
	case frameCall:
		a.call, a.open = f, true
		return nil
	}
	return a.finish(f)
}

// endCall sends the call that was gathered. The first one of an answer is signed, as the service does. Arguments that
// are no object are sent as their text: the wire has no other place for what a model wrote wrongly.
func (a *geminiAnswer) endCall() error {
	if !a.open {
		return nil
	}
	call := obj{"id": a.call.id, "name": a.call.name}
	switch s := a.args.String(); {
	case s == "":
	case strings.HasPrefix(s, "{") && json.Valid([]byte(s)):
		call["args"] = json.RawMessage(s)
	default:
		call["args"] = s
	}
	p := obj{"functionCall": call}
	if a.call.index == 0 {
		p["thoughtSignature"] = base64.StdEncoding.EncodeToString([]byte("signature of " + a.call.id))
	}
	a.open = false
	a.args.Reset()
	return a.part(p)
}

func (a *geminiAnswer) part(p obj) error {
	if !a.stream {
		a.parts = append(a.parts, p)
		return nil
	}
	return a.event(obj{"index": 0, "content": obj{"role": "model", "parts": []obj{p}}}, false)
}

func (a *geminiAnswer) finish(f frame) error {
	c := obj{"index": 0, "finishReason": geminiFinish(f.finish)}
	if len(a.parts) > 0 {
		c["content"] = obj{"role": "model", "parts": a.parts}
	}
	return a.event(c, true)
}

// event sends one candidate. Its usage is cumulative: the counts so far, and at the end those of the script.
func (a *geminiAnswer) event(candidate obj, last bool) error {
	e := obj{
		"candidates": []obj{candidate}, "modelVersion": a.model, "responseId": fmt.Sprintf("gemini-%016x", a.picked.id),
	}
	if u := a.picked.finish().usage; u != nil {
		if a.out = min(a.out+1, u.out); last {
			a.out = u.out
		}
		m := obj{"promptTokenCount": u.in, "candidatesTokenCount": a.out, "totalTokenCount": u.in + a.out}
		if u.cached > 0 {
			m["cachedContentTokenCount"] = u.cached
		}
		e["usageMetadata"] = m
	}
	b, err := encode(e)
	if err != nil {
		return err
	}
	if a.stream {
		b = append(append([]byte("data: "), b...), "\r\n\r\n"...)
	}
	_, err = a.w.Write(b)
	return err
}

// geminiFinish is the wire's word for a finish reason of the script. The wire's own words stay as they are.
func geminiFinish(word string) string {
	switch word {
	case "stop", "tool_calls":
		return "STOP"
	case "length":
		return "MAX_TOKENS"
	case "content_filter":
		return "SAFETY"
	}
	return word
}

func (h *Handler) geminiModels(w http.ResponseWriter) {
	writeJSON(w, http.StatusOK, obj{"models": []obj{{
		"name": "models/scripted", "displayName": "scripted", "inputTokenLimit": 1_000_000, "outputTokenLimit": 65_536,
		"supportedGenerationMethods": []string{"generateContent", "countTokens"},
	}}})
}
