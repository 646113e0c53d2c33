package api

import (
	"fmt"
	"net/http"
	"strings"
)

// ProblemType is the media type of problems.
const ProblemType = "application/problem+json"

// Problem is the one shape of every answer that is not a success (RFC 9457).
type Problem struct {
	Type     string       `json:"type" doc:"urn:harness:problem: and the code"`
	Title    string       `json:"title" doc:"what the code means, in a few words"`
	Status   int          `json:"status" doc:"the HTTP status"`
	Detail   string       `json:"detail" doc:"what went wrong this time and how to mend it"`
	Code     Code         `json:"code" doc:"stable, for programs"`
	Field    string       `json:"field,omitempty" doc:"JSON path of the field at fault, or the name of the query parameter or header"`
	Errors   []FieldError `json:"errors,omitempty" doc:"every fault, where there are several"`
	Required string       `json:"required,omitempty" doc:"the scope that the key lacks"`
	Instance string       `json:"instance,omitempty" doc:"this occurrence, as the server's log names it"`
	Details  any          `json:"details,omitempty" doc:"the record that stands in the way"`
}

// FieldError is the fault of one field.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// NewProblem makes a problem of a code. A code that is not in the list gives an internal error.
func NewProblem(code Code, format string, args ...any) *Problem {
	info, ok := code.Info()
	if !ok {
		info = CodeInfo{Code: code, Status: http.StatusInternalServerError, Title: "Internal error"}
	}
	return &Problem{
		Type: "urn:harness:problem:" + string(code), Title: info.Title, Status: info.Status, Code: code,
		Detail: fmt.Sprintf(format, args...),
	}
}

// At sets the field at fault and returns the problem.
func (p *Problem) At(field string) *Problem {
	p.Field = field
	return p
}

func (p *Problem) Error() string {
	detail := p.Detail
	if p.Field != "" && !strings.Contains(detail, p.Field) {
		detail = p.Field + ": " + detail
	}
	return fmt.Sprintf("%s (%d %s)", detail, p.Status, p.Code)
}

// GetStatus is the HTTP status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type of the answer, whatever was negotiated.
func (p *Problem) ContentType(string) string { return ProblemType }
