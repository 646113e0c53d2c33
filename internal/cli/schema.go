package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/config"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

func (a *app) schemaCommand() *cobra.Command {
	cmd := group("schema", "Print schemas of what the program reads and writes")
	cmd.AddCommand(
		&cobra.Command{
			Use: "config", Short: "JSON Schema of harness.yaml", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return a.print(configSchema()) },
		},
		&cobra.Command{
			Use: "events", Short: "JSON Schema of events", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				s, err := eventSchema()
				if err != nil {
					return err
				}
				return a.print(s)
			},
		},
		&cobra.Command{
			Use: "openapi", Short: "OpenAPI description of the HTTP API", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.with(cmd.Context(), toRead, func(l *link) error {
					d, err := l.OpenAPI(cmd.Context())
					if err != nil {
						return err
					}
					return a.print(d)
				})
			},
		},
	)
	return cmd
}

func object() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
}

func configSchema() *jsonschema.Schema {
	types := map[string]*jsonschema.Schema{
		"true or false": {Type: "boolean"}, "number": {Type: "integer"}, "US dollars": {Type: "number"},
		"list": {Type: "array", Items: &jsonschema.Schema{Type: "string"}},
	}
	root := object()
	root.Schema, root.Title = dialect, "harness.yaml"
	for _, s := range config.Settings() {
		if s.Key == "database_url" {
			continue // refused until it is built
		}
		t := &jsonschema.Schema{Type: "string"}
		if known := types[s.Type]; known != nil {
			c := *known
			t = &c
		}
		t.Description = s.Help
		in, name := root, s.Key
		if group, rest, ok := strings.Cut(s.Key, "."); ok {
			if root.Properties[group] == nil {
				root.Properties[group] = object()
			}
			in, name = root.Properties[group], rest
		}
		in.Properties[name] = t
	}
	p := object()
	p.Required = []string{"name"}
	for _, m := range config.ProviderMembers() {
		t := &jsonschema.Schema{Type: "string"}
		switch m {
		case "models":
			t = &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}}
		case "prompt_cache_key":
			t = &jsonschema.Schema{Type: "boolean"}
		}
		p.Properties[m] = t
	}
	root.Properties["providers"] = &jsonschema.Schema{Type: "array", Items: p}
	return root
}

// eventSchema describes an event, with one definition for the payload of each kind.
func eventSchema() (*jsonschema.Schema, error) {
	root := &jsonschema.Schema{
		Schema: dialect, Title: "event", Type: "object",
		Required: []string{"id", "run_id", "seq", "type", "timestamp", "payload"},
		Properties: map[string]*jsonschema.Schema{
			"id": {Type: "string"}, "run_id": {Type: "string"}, "seq": {Type: "integer"}, "type": {Type: "string"},
			"timestamp": {Type: "string", Format: "date-time"}, "payload": {Type: "object"},
		},
		Defs: map[string]*jsonschema.Schema{},
	}
	kinds := event.Types()
	slices.Sort(kinds)
	for _, k := range kinds {
		p, err := event.Decode(k, []byte("{}"))
		if err != nil {
			return nil, err
		}
		s, err := jsonschema.ForType(reflect.TypeOf(p).Elem(), &jsonschema.ForOptions{})
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", k, err)
		}
		// Every payload has these beside its own members, and readers pass over members that they do not know.
		s.AdditionalProperties = nil
		s.Properties["schema_version"] = &jsonschema.Schema{Type: "string"}
		s.Properties["conversation_id"] = &jsonschema.Schema{Type: "string"}
		s.Properties["step"] = &jsonschema.Schema{Type: "integer"}
		root.Defs[string(k)] = s
		root.AllOf = append(root.AllOf, &jsonschema.Schema{
			If:   &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"type": {Const: jsonschema.Ptr[any](string(k))}}},
			Then: &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"payload": {Ref: "#/$defs/" + string(k)}}},
		})
	}
	return root, nil
}
