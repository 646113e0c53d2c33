package engine

import "fmt"

// ErrorKind is the class of a refused request.
type ErrorKind int

// The classes of refused requests.
const (
	KindInvalid   ErrorKind = iota // 400
	KindForbidden                  // 403
	KindNotFound                   // 404, also for what belongs to another tenant
	KindConflict                   // 409
	KindNotBuilt                   // 501
	KindBusy                       // 503
)

// Error is a refused request. Code is stable, for programs; Field is the JSON path of the field at fault, where one
// is; Message says how to mend it. Details go to the client as they are.
type Error struct {
	Kind    ErrorKind
	Code    string
	Field   string
	Message string
	Details any
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

func invalid(field, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Code: "invalid_request", Field: field, Message: fmt.Sprintf(format, args...)}
}

func notBuilt(field, format string, args ...any) *Error {
	return &Error{Kind: KindNotBuilt, Code: "not_built", Field: field, Message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *Error {
	return &Error{Kind: KindNotFound, Code: "not_found", Message: fmt.Sprintf(format, args...)}
}

func conflict(code, format string, args ...any) *Error {
	return &Error{Kind: KindConflict, Code: code, Message: fmt.Sprintf(format, args...)}
}
