package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxRequest bounds a request's body.
const maxRequest = 128 << 20

// ServerOptions configures the model server.
type ServerOptions struct {
	Options
	// Log takes one JSON line for each request: method, path, headers with the keys redacted, roles and names, the
	// step played. nil: no log.
	Log io.Writer
	// Out takes the line "listening on http://…" of Serve. nil: no line.
	Out io.Writer
}

// Handler speaks four wires. Chat Completions: POST …/chat/completions, GET …/models; OpenAI Responses: POST …/responses;
// Anthropic Messages: POST …/messages and …/messages/count_tokens; Gemini: POST …/models/{m}:streamGenerateContent,
// :generateContent and :countTokens, GET …/v1beta/models. GET /stats is the number of calls served. Only the end of a
// path counts, so that any base URL works.
type Handler struct {
	player *player
	served atomic.Int64
	logMu  sync.Mutex
	log    io.Writer
}

// NewHandler returns the handler.
func NewHandler(o ServerOptions) (*Handler, error) {
	p, err := newPlayer(o.Options)
	if err != nil {
		return nil, err
	}
	return &Handler{player: p, log: o.Log}, nil
}

// Served is the number of model calls answered so far, failed ones included.
func (h *Handler) Served() int64 { return h.served.Load() }

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	geminiModel, geminiMethod, isGemini := geminiPath(path)
	switch {
	case isGemini:
		if allowed(w, r, http.MethodPost) {
			h.gemini(w, r, geminiModel, geminiMethod)
		}
	case strings.HasSuffix(path, "/v1beta/models"):
		if allowed(w, r, http.MethodGet) {
			h.geminiModels(w)
		}
	case strings.HasSuffix(path, "/messages"):
		if allowed(w, r, http.MethodPost) {
			h.messages(w, r)
		}
	case strings.HasSuffix(path, "/messages/count_tokens"):
		if allowed(w, r, http.MethodPost) {
			h.countMessages(w, r)
		}
	case strings.HasSuffix(path, "/responses"):
		if allowed(w, r, http.MethodPost) {
			h.responses(w, r)
		}
	case strings.HasSuffix(path, "/chat/completions"):
		if allowed(w, r, http.MethodPost) {
			h.chat(w, r)
		}
	case strings.HasSuffix(path, "/models"):
		if allowed(w, r, http.MethodGet) {
			writeJSON(w, http.StatusOK, obj{"object": "list", "data": []obj{
				{"id": "scripted", "object": "model", "created": 0, "owned_by": Provider},
			}})
		}
	case path == "/stats":
		if allowed(w, r, http.MethodGet) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = fmt.Fprintln(w, h.Served()) // a client that went away is no fault
		}
	default:
		writeError(w, http.StatusNotFound, "not_found_error", "no such path; model calls go to /v1/chat/completions")
	}
}

func allowed(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || (method == http.MethodGet && r.Method == http.MethodHead) {
		return true
	}
	w.Header().Set("Allow", method)
	writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "use "+method)
	return false
}

type chatRequest struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	Messages      []chatMessage `json:"messages"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Tools      []toolName      `json:"tools"`
}

type toolName struct {
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

func (h *Handler) chat(w http.ResponseWriter, r *http.Request) {
	h.served.Add(1)
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		writeError(w, http.StatusUnsupportedMediaType, "invalid_request_error", "send the body without Content-Encoding")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		writeError(w, status, "invalid_request_error", "the body cannot be read: "+err.Error())
		return
	}
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "the body is not a chat request: "+err.Error())
		return
	}
	k := h.player.pick(req.conversation(), string(req.ToolChoice) == `"none"`)
	h.record(r, len(body), &req, k)
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
	a := &answer{w: w, req: &req, picked: k, wait: wait}
	switch {
	case k.step.Raw != "":
		a.raw()
	case req.Stream:
		a.stream()
	default:
		a.object()
	}
}

func (q *chatRequest) conversation() []turn {
	list := make([]turn, 0, len(q.Messages))
	for _, m := range q.Messages {
		t := turn{text: contentText(m.Content)}
		switch m.Role {
		case "user":
			t.by = byUser
		case "assistant":
			t.by = byModel
		case "tool":
			t.by, t.results = byTool, 1
		default:
			t.by = bySystem
		}
		list = append(list, t)
	}
	return list
}

// contentText is a string as it is, or the texts of a list with a line feed behind each.
func contentText(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '[' {
		_ = json.Unmarshal(raw, &s) // anything else holds no script
		return s
	}
	var parts []struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Text != nil {
			b.WriteString(*p.Text + "\n")
		}
	}
	return b.String()
}

type obj = map[string]any

func writeError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, obj{"error": obj{"type": code, "code": code, "message": message}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := encode(v)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that went away is no fault
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// record writes one line about a request. Contents stay out of it, except for the step, which is what one looks for.
func (h *Handler) record(r *http.Request, size int, req *chatRequest, k picked) {
	if h.log == nil {
		return
	}
	headers := obj{}
	for name, v := range r.Header {
		switch name {
		case "Authorization", "Proxy-Authorization", "Cookie", "Api-Key", "X-Api-Key", "X-Goog-Api-Key":
			headers[name] = "[redacted]"
		default:
			headers[name] = clip(strings.Join(v, ", "), 200)
		}
	}
	roles, tools := []string{}, []string{}
	for _, m := range req.Messages {
		roles = append(roles, clip(m.Role, 20))
	}
	for _, t := range req.Tools {
		tools = append(tools, clip(t.Function.Name, 100))
	}
	step, err := encode(k.step)
	if err != nil {
		step = []byte(`"unreadable"`)
	}
	line, err := encode(obj{
		"time": time.Now().UTC().Format(time.RFC3339Nano), "method": r.Method, "path": clip(r.URL.Path, 200), "bytes": size,
		"headers": headers, "model": clip(req.Model, 100), "stream": req.Stream, "roles": roles, "tools": tools,
		"anchored": k.anchored, "step": clip(string(step), 2000), "request_id": k.requestID(),
	})
	if err != nil {
		return
	}
	h.logMu.Lock()
	defer h.logMu.Unlock()
	_, _ = h.log.Write(append(line, '\n')) // a full disk must not fail the test that is being run
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:cutAt(s, n)] + "…"
}
