package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/harness-go/harness/model"
)

// ErrIncomplete ends an answer that stopped without a finish reason.
var ErrIncomplete = errors.New("the answer ended without a finish reason")

type protocolError struct{ text string }

func (e *protocolError) Error() string { return e.text }

// Protocolf is the error of an answer that cannot be understood.
func Protocolf(format string, args ...any) error {
	return &protocolError{fmt.Sprintf(format, args...)}
}

// APIError is an error object of a server, in any of the shapes that occur.
type APIError struct {
	Message string
	Type    string
	Code    string
	// Reason and RetryAfter come from the details that Google's services send. RetryAfter is 0 where none is said.
	Reason     string
	RetryAfter time.Duration
}

func (e *APIError) Error() string { return e.Message }

func (e *APIError) name() string {
	if e.Code != "" {
		return e.Code
	}
	return e.Type
}

// status is the HTTP status that the code stands for, 0 when it is none.
func (e *APIError) status() int {
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n <= 599 {
		return n
	}
	return 0
}

// kind judges an error that came inside an answer, where no HTTP status tells. What is not recognised counts as a
// fault of the server: the request itself was accepted.
func (e *APIError) kind() model.ErrorKind {
	if model.SaysContextLength(e.name(), e.Message) {
		return model.ErrContextLength
	}
	if e.badKey() {
		return model.ErrAuth
	}
	if s := e.status(); s != 0 {
		return model.KindOfStatus(s)
	}
	name := strings.ToLower(e.Code + " " + e.Type)
	for _, k := range []struct {
		words []string
		kind  model.ErrorKind
	}{
		{[]string{"rate_limit", "too_many_requests", "insufficient_quota", "resource_exhausted"}, model.ErrRateLimit},
		{[]string{"overloaded", "unavailable"}, model.ErrOverloaded},
		{[]string{"authentication", "permission", "invalid_api_key", "unauthorized"}, model.ErrAuth},
		{[]string{"invalid_request", "invalid_argument", "not_found", "badrequest", "bad_request"}, model.ErrInvalidRequest},
	} {
		for _, w := range k.words {
			if strings.Contains(name, w) {
				return k.kind
			}
		}
	}
	return model.ErrServer
}

// ParseErrorBody reads {"error": {…}}, {"error": "…"}, the flat form, {"detail": …} and an array of one of these. It
// returns nil for anything else.
func ParseErrorBody(body []byte) *APIError {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil || len(list) == 0 {
			return nil
		}
		body = list[0]
	}
	var w struct {
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &w) != nil {
		return nil
	}
	if e := ParseError(w.Error); e != nil {
		return e
	}
	if e := ParseError(body); e != nil && e.Message != "" {
		return e
	}
	if len(w.Detail) > 0 {
		var s string
		if json.Unmarshal(w.Detail, &s) != nil {
			s = string(w.Detail)
		}
		return &APIError{Message: s}
	}
	return nil
}

// ParseError reads one error value: an object with message, type and code of any scalar kind, or a string.
func ParseError(raw json.RawMessage) *APIError {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			s = string(raw)
		}
		return &APIError{Message: s}
	}
	var w struct {
		Message, Type, Code, Status Loose
		Details                     json.RawMessage
	}
	if json.Unmarshal(raw, &w) != nil {
		return nil
	}
	e := &APIError{Message: string(w.Message), Type: string(w.Type), Code: string(w.Code)}
	if e.Type == "" {
		e.Type = string(w.Status)
	}
	e.readDetails(w.Details)
	return e
}

// plainText makes something readable of an error body that is not JSON.
func plainText(body []byte) string {
	s := strings.TrimSpace(string(body))
	if strings.HasPrefix(s, "<") {
		return "the server answered with an HTML page; check the base URL"
	}
	return s
}

// IsProtocol reports whether an error came from Protocolf.
func IsProtocol(err error) bool {
	var p *protocolError
	return errors.As(err, &p)
}
