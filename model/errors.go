package model

import (
	"errors"
	"fmt"
	"time"
)

// ErrorKind is what went wrong with a model call, in the words a caller branches on.
type ErrorKind string

// The kinds of failed calls.
const (
	ErrAuth           ErrorKind = "authentication"  // 401, 403
	ErrInvalidRequest ErrorKind = "invalid_request" // 400, 404, 413, 422
	ErrContextLength  ErrorKind = "context_length"  // the prompt is too long
	ErrRateLimit      ErrorKind = "rate_limit"      // 429
	ErrOverloaded     ErrorKind = "overloaded"      // 503, 529
	ErrServer         ErrorKind = "server"          // other 5xx, 408, 409
	ErrIncomplete     ErrorKind = "incomplete"      // the stream ended or broke before its end
	ErrIdle           ErrorKind = "idle_timeout"    // nothing came for the idle timeout
	ErrConnection     ErrorKind = "connection"      // the request did not get through
	ErrProtocol       ErrorKind = "protocol"        // the answer cannot be understood
)

// Error is a failed model call. It holds no header and no key. Message is the provider's own text, cut to a bound.
type Error struct {
	Kind       ErrorKind
	Provider   string
	Status     int // HTTP status, 0 when there was none
	Code       string
	Message    string
	RequestID  string
	RetryAfter time.Duration // 0: not said
	Cause      error
}

func (e *Error) Error() string {
	s := "model call failed (" + string(e.Kind)
	if e.Status != 0 {
		s += fmt.Sprintf(", HTTP %d", e.Status)
	}
	s += ")"
	if e.Provider != "" {
		s = e.Provider + ": " + s
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.RequestID != "" {
		s += " [request " + e.RequestID + "]"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Cause }

// Retryable reports whether the same call may succeed when it is made again.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case ErrRateLimit, ErrOverloaded, ErrServer, ErrIncomplete, ErrIdle, ErrConnection:
		return true
	}
	return false
}

// AsError finds the *Error in a chain.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
