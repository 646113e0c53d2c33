package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

// operation declares one route.
type operation struct {
	method, path, id string
	summary, doc     string
	status           int      // of success; 200 by default
	scopes           []string // any of them is enough; none: any key will do
	open             bool     // no key at all
	bodyOptional     bool
	maxBody          int64                     // in bytes; MaxBody by default
	responses        map[string]*huma.Response // where the answer is not JSON
}

func (o operation) huma(errors *huma.Response) huma.Operation {
	op := huma.Operation{
		Method: o.method, Path: o.path, OperationID: o.id, Summary: o.summary, Description: o.doc,
		DefaultStatus: o.status, Responses: map[string]*huma.Response{"default": errors},
	}
	for status, r := range o.responses {
		op.Responses[status] = r
	}
	if !o.open {
		op.Security = []map[string][]string{{"key": {}}}
	}
	if len(o.scopes) > 0 {
		op.Extensions = map[string]any{"x-scopes": o.scopes}
	}
	return op
}

// none is the body type of routes without a body.
type none struct{}

// handle registers a route. I holds the parameters; B is the body, none where there is none.
//
// A write goes on when its client has gone: its context ends by the handler's time limit only.
func handle[I, B, O any](s *Server, o operation, h func(ctx context.Context, p engine.Principal, in *I, body *B) (*O, error)) {
	hasBody := reflect.TypeFor[B]() != reflect.TypeFor[none]()
	writes := o.method != http.MethodGet
	op := o.huma(s.problemResponse())
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		var p engine.Principal
		c := callOf(ctx)
		if c != nil {
			p = c.principal
		}
		if !o.open {
			if c == nil {
				return nil, errors.New("request without authentication")
			}
			if refused := permit(p, o.scopes); refused != nil {
				return nil, refused
			}
		}
		var body B
		if writes {
			data, refused := readBody(c.w, c.r, hasBody && !o.bodyOptional, cmp.Or(o.maxBody, MaxBody))
			if refused != nil {
				return nil, refused
			}
			if len(data) > 0 {
				if refused := decodeStrict(data, &body); refused != nil {
					return nil, refused
				}
			}
			ctx = context.WithoutCancel(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, s.limits.Handler)
		defer cancel()
		out, err := h(ctx, p, in, &body)
		if err != nil {
			return nil, s.problemOf(ctx, err)
		}
		return out, nil
	})
	if hasBody {
		item := s.api.OpenAPI().Paths[o.path]
		rb := &huma.RequestBody{
			Required: !o.bodyOptional,
			Content: map[string]*huma.MediaType{
				"application/json": {Schema: s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[B](), true, "")},
			},
		}
		switch o.method {
		case http.MethodPost:
			item.Post.RequestBody = rb
		case http.MethodPut:
			item.Put.RequestBody = rb
		}
	}
}

// problemResponse documents every answer that is not a success.
func (s *Server) problemResponse() *huma.Response {
	return &huma.Response{
		Description: "A problem (RFC 9457). Its code says what went wrong.",
		Content: map[string]*huma.MediaType{
			api.ProblemType: {Schema: s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, "")},
		},
	}
}

// jsonOnly answers JSON whatever was asked for, and gives parameter faults the status of our problems.
type jsonOnly struct{ humaContext }

type humaContext = huma.Context

func (c jsonOnly) Header(name string) string {
	if http.CanonicalHeaderKey(name) == "Accept" {
		return ""
	}
	return c.humaContext.Header(name)
}

func (c jsonOnly) SetStatus(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	c.humaContext.SetStatus(status)
}

// Unwrap lets the adapter reach its own context.
func (c jsonOnly) Unwrap() huma.Context { return c.humaContext }

func (s *Server) newAPI(version string) huma.API {
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Harness run API", Version: version,
				Description: "Durable runs of agents: start them, follow their events, answer their approvals and questions.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"key": {Type: "http", Scheme: "bearer", Description: "An API key. Keys in URLs are not accepted."},
				},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers: []huma.Transformer{func(_ huma.Context, _ string, v any) (any, error) {
			if e, ok := v.(*huma.ErrorModel); ok {
				return fromHuma(e), nil
			}
			return v, nil
		}},
	}
	a := humago.New(s.mux, cfg)
	a.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) { next(jsonOnly{ctx}) })
	return a
}

// route finds the handler of a request. What the mux itself would answer in plain text becomes a problem.
func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	clean := path.Clean(r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") && clean != "/" {
		clean += "/"
	}
	if clean != r.URL.Path { // the mux would redirect
		return api.NewProblem(api.CodeNotFound, "there is no such path; did you mean %q?", clean)
	}
	h, pattern := s.mux.Handler(r)
	if pattern == "" {
		var rec refusedRoute
		h.ServeHTTP(&rec, r)
		if allow := rec.Header().Get("Allow"); rec.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", allow)
			return api.NewProblem(api.CodeMethodNotAllowed, "this path takes %s, not %s", allow, shortMethod(r.Method))
		}
		return api.NewProblem(api.CodeNotFound, "there is no such path; /openapi.json lists them")
	}
	if a, ok := w.(*answer); ok {
		a.pattern = pattern
	}
	s.mux.ServeHTTP(w, r)
	return nil
}

func shortMethod(m string) string {
	if len(m) > 16 {
		return m[:16] + "…"
	}
	return m
}

// refusedRoute takes the mux's own answer.
type refusedRoute struct {
	header http.Header
	status int
}

func (r *refusedRoute) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}
func (r *refusedRoute) WriteHeader(status int)      { r.status = status }
func (r *refusedRoute) Write(b []byte) (int, error) { return len(b), nil }
