package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/tool"
)

// documents are the two forms of the API's description.
type documents struct{ json, yaml []byte }

// documentRoutes serves the description. It is made on first use, so that a start does not pay for it.
func (s *Server) documentRoutes() {
	s.document = sync.OnceValues(s.describe)
	for _, f := range []struct {
		path, mediaType string
		of              func(documents) []byte
	}{
		{"/openapi.json", "application/openapi+json", func(d documents) []byte { return d.json }},
		{"/openapi.yaml", "application/openapi+yaml", func(d documents) []byte { return d.yaml }},
	} {
		s.mux.HandleFunc("GET "+f.path, func(w http.ResponseWriter, r *http.Request) {
			d, err := s.document()
			if err != nil {
				writeProblem(w, s.problemOf(r.Context(), err))
				return
			}
			w.Header().Set("Content-Type", f.mediaType)
			_, _ = w.Write(f.of(d))
		})
	}
}

// OpenAPI is the description of the API, OpenAPI 3.1 in indented JSON.
func (s *Server) OpenAPI() ([]byte, error) {
	d, err := s.document()
	return d.json, err
}

func (s *Server) describe() (documents, error) {
	doc := s.api.OpenAPI()
	mend(doc.Components.Schemas)
	raw, err := json.Marshal(doc)
	if err != nil {
		return documents{}, fmt.Errorf("describe the API: %w", err)
	}
	var d documents
	var buf bytes.Buffer
	if err := json.Indent(&buf, raw, "", "  "); err != nil {
		return documents{}, fmt.Errorf("describe the API: %w", err)
	}
	d.json = append(buf.Bytes(), '\n')
	if d.yaml, err = doc.YAML(); err != nil {
		return documents{}, fmt.Errorf("describe the API: %w", err)
	}
	return d, nil
}

// requestTypes are closed: a member that they do not have is refused. All others may grow.
var requestTypes = []string{
	"RunRequest", "ContinueRequest", "SteerRequest", "AnswerRequest", "DecisionRequest", "ReasonRequest", "Empty", "PermissionConfig",
	"ForkRequest", "CleanUpRequest", "KeyRequest", "KeyRotation",
}

// mend says in the schemas what Go's types and tags cannot.
func mend(schemas huma.Registry) {
	all := schemas.Map()
	for _, unused := range []string{"ErrorModel", "ErrorDetail"} {
		delete(all, unused)
	}
	for name, sc := range all {
		if !slices.Contains(requestTypes, name) {
			sc.AdditionalProperties = nil
		}
		for _, p := range sc.Properties {
			if p.Type == huma.TypeArray {
				p.Nullable = false // lists are absent or lists
			}
		}
	}
	for _, p := range all["AnswerRequest"].Properties {
		p.AdditionalProperties = &huma.Schema{OneOf: []*huma.Schema{
			{Type: huma.TypeString}, {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}},
		}}
	}
	perm := all["PermissionConfig"]
	perm.Required = nil // an axis that is left out, or empty, has its default
	perm.Properties["sandbox"].Enum = []any{"", tool.SandboxScopeUnrestricted, tool.SandboxScopeLocal, tool.SandboxScopeWorkspace}
	perm.Properties["approval"].Enum = []any{"", tool.ApprovalPolicyNone, tool.ApprovalPolicyDestructive, tool.ApprovalPolicyAll}
	perm.Properties["network"].Enum = []any{"", tool.NetworkPolicyAllow, tool.NetworkPolicyHosts, tool.NetworkPolicyDeny}
	for _, info := range api.Codes() {
		all["Problem"].Properties["code"].Enum = append(all["Problem"].Properties["code"].Enum, info.Code)
	}
}
