package model

import (
	"net/http"
	"strings"
)

// KindOfStatus maps an HTTP status to the kind of error that it stands for. A status below 400 that is not an answer
// (a redirect that was not followed) is ErrProtocol.
func KindOfStatus(status int) ErrorKind {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrAuth
	case http.StatusTooManyRequests:
		return ErrRateLimit
	case http.StatusServiceUnavailable, 529:
		return ErrOverloaded
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return ErrServer
	}
	switch {
	case status >= 500:
		return ErrServer
	case status >= 400:
		return ErrInvalidRequest
	}
	return ErrProtocol
}

// contextWords are the ways in which servers say that a prompt is too long, in lower case.
var contextWords = []string{
	"context_length_exceeded", "exceed_context_size", "model_context_window_exceeded",
	"maximum context length", "context length exceeded", "exceeds the context length", "exceeds the context window",
	"exceed context window", "context window exceeded", "exceeds the available context size",
	"prompt is too long", "input is too long", "input token count", "reduce the length of the messages",
	"exceeds the model's maximum context", "longer than the model's context length",
}

// SaysContextLength reports whether an error's code or message tells that the prompt is too long for the model.
func SaysContextLength(code, message string) bool {
	s := strings.ToLower(code + " " + message)
	for _, w := range contextWords {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}
