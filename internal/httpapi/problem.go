package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// problemOf turns an error of the engine into what the client reads. An error that is not a refusal becomes an
// internal error: its text goes to the log under the instance that the client sees.
func (s *Server) problemOf(ctx context.Context, err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return refusal(e)
	}
	if c, ok := errors.AsType[*event.ConflictError](err); ok {
		return api.NewProblem(api.CodeConflict, "%s", c.Error())
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return api.NewProblem(api.CodeNotFound, "not found")
	case errors.Is(err, store.ErrIdempotencyMismatch):
		return api.NewProblem(api.CodeIdempotency, "%s", store.ErrIdempotencyMismatch).At("Idempotency-Key")
	case errors.Is(err, store.ErrClosed):
		return api.NewProblem(api.CodeBusy, "the server is shutting down")
	case errors.Is(err, context.DeadlineExceeded):
		return api.NewProblem(api.CodeTimeout, "the request took longer than %s", s.limits.Handler)
	}
	return s.internal(ctx, "request failed", slog.String("error", err.Error()))
}

// internal logs a failure and gives the problem that names the log entry.
func (s *Server) internal(ctx context.Context, msg string, attrs ...slog.Attr) *api.Problem {
	p := api.NewProblem(api.CodeInternal, "the server failed; its log has the cause under the instance")
	p.Instance = "urn:harness:failure:" + strings.ToLower(rand.Text())
	s.log.LogAttrs(ctx, slog.LevelError, msg, append(attrs, slog.String("instance", p.Instance))...)
	return p
}

var kindCodes = map[engine.ErrorKind]api.Code{
	engine.KindInvalid:   api.CodeInvalidRequest,
	engine.KindForbidden: api.CodeForbidden,
	engine.KindNotFound:  api.CodeNotFound,
	engine.KindConflict:  api.CodeConflict,
	engine.KindNotBuilt:  api.CodeNotBuilt,
	engine.KindBusy:      api.CodeBusy,
}

// refusal is the problem of a refused request. The code decides the status; a code that is not in the list is
// replaced by the one of its kind, so that clients see listed codes only.
func refusal(e *engine.Error) *api.Problem {
	code := api.Code(e.Code)
	if _, ok := code.Info(); !ok {
		if code, ok = kindCodes[e.Kind]; !ok {
			code = api.CodeInternal
		}
	}
	detail := e.Message
	if e.Field != "" {
		detail = e.Field + ": " + e.Message
	}
	p := api.NewProblem(code, "%s", detail).At(e.Field)
	p.Details = e.Details
	if m, ok := e.Details.(map[string]any); ok && code == api.CodeInsufficientScope {
		p.Required, _ = m["required"].(string)
		p.Details = nil
	}
	return p
}

// writeProblem answers with a problem outside of huma's way.
func writeProblem(w http.ResponseWriter, p *api.Problem) {
	h := w.Header()
	h.Set("Content-Type", api.ProblemType)
	h.Del("Content-Length")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="harness"`)
	}
	body, err := json.Marshal(p)
	if err != nil { // details that cannot be encoded: the rest is worth sending
		q := *p
		q.Details = nil
		body, _ = json.Marshal(&q)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// fromHuma turns an error that huma made, about parameters, into a problem.
func fromHuma(e *huma.ErrorModel) *api.Problem {
	if e.Status >= 500 {
		return api.NewProblem(api.CodeInternal, "the server failed")
	}
	code := api.CodeInvalidRequest
	var faults []api.FieldError
	for _, d := range e.Errors {
		if d == nil {
			continue
		}
		field := d.Location
		for _, in := range []string{"query.", "path.", "header."} {
			field = strings.TrimPrefix(field, in)
		}
		if len(faults) == 0 && d.Message == "unknown query parameter" {
			code = api.CodeUnknownField
		}
		if len(faults) < maxFaults {
			faults = append(faults, api.FieldError{Field: field, Message: d.Message})
		}
	}
	if len(faults) == 0 {
		return api.NewProblem(code, "%s", e.Detail)
	}
	p := api.NewProblem(code, "%s: %s", faults[0].Field, faults[0].Message).At(faults[0].Field)
	p.Errors = faults
	return p
}
