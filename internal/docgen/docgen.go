// Package docgen writes the reference pages that are derived from code: docs/events.md from the doc comments of the
// event payloads, docs/configuration.md from the list of settings.
//
// It owns the form of those pages. The facts stay where they are declared; a test fails when a page no longer follows
// them. Run `go test ./internal/docgen -update` to write the pages anew.
package docgen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/harness-go/harness/internal/config"
)

// kind is one kind of event.
type kind struct{ name, constant string }

// source is what the event package's files say.
type source struct {
	kinds   []kind
	payload map[string]string // constant → struct
	structs map[string]*ast.StructType
	docs    map[string]string   // struct → doc comment
	texts   map[string][]string // string type → its values, in order
}

// Events returns docs/events.md for the event package in dir.
func Events(dir string) ([]byte, error) {
	src, err := read(dir)
	if err != nil {
		return nil, err
	}
	if len(src.kinds) == 0 {
		return nil, errors.New("docgen: no event kinds in " + dir)
	}
	var b strings.Builder
	b.WriteString(`<!-- Generated from the doc comments of package event; go test ./internal/docgen -update writes it anew. -->

# Events

Every run has one log of events, numbered by ` + "`seq`" + ` from 1 without gaps. An event is committed before anybody sees it and never changes. ` +
		"`GET /v1/runs/{id}/events`" + ` replays the log and follows it; ` + "`harness run --json`" + ` prints it, one event a line.

` + "```json\n" + `{"id":"run_…:7","run_id":"run_…","seq":7,"type":"tool.call.started","timestamp":"2026-01-02T15:04:05.678Z","payload":{…}}
` + "```" + `

Each payload begins with ` + "`schema_version`, `conversation_id` and `step`" + ` (0 outside of steps); the tables list what follows. ` +
		"`run.completed`, `run.failed` and `run.cancelled`" + ` end a log. Readers should pass over kinds and members that they do not know.

| kind | when |
| --- | --- |
`)
	for _, k := range src.kinds {
		doc, err := src.docOf(k)
		if err != nil {
			return nil, err
		}
		first, _, _ := strings.Cut(doc, ". ")
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", k.name, anchor(k.name), strings.TrimSuffix(first, "."))
	}
	used := map[string]bool{}
	for _, k := range src.kinds {
		doc, err := src.docOf(k)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", k.name, doc)
		src.table(&b, src.structs[src.payload[k.constant]], used)
	}
	b.WriteString("\n## Types\n")
	for done := map[string]bool{}; ; {
		var todo []string
		for name := range used {
			if !done[name] {
				todo = append(todo, name)
			}
		}
		if len(todo) == 0 {
			break
		}
		slices.Sort(todo)
		name := todo[0]
		done[name] = true
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", name, sentence(name, src.docs[name]))
		if values := src.texts[name]; len(values) > 0 {
			fmt.Fprintf(&b, "\nOne of `%s`.\n", strings.Join(values, "`, `"))
		}
		if s := src.structs[name]; s != nil {
			src.table(&b, s, used)
		}
	}
	return []byte(b.String()), nil
}

func read(dir string) (*source, error) {
	s := &source{payload: map[string]string{}, structs: map[string]*ast.StructType{}, docs: map[string]string{}, texts: map[string][]string{}}
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("docgen: %w", err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				s.decl(d)
			case *ast.FuncDecl:
				s.method(d)
			}
		}
	}
	return s, nil
}

func (s *source) decl(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc
			if doc == nil {
				doc = d.Doc
			}
			s.docs[spec.Name.Name] = strings.Join(strings.Fields(doc.Text()), " ")
			if st, ok := spec.Type.(*ast.StructType); ok {
				s.structs[spec.Name.Name] = st
			}
		case *ast.ValueSpec:
			typ, ok := spec.Type.(*ast.Ident)
			if !ok || d.Tok != token.CONST {
				continue
			}
			for i, v := range spec.Values {
				lit, ok := v.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					continue
				}
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					continue
				}
				if typ.Name == "Type" {
					s.kinds = append(s.kinds, kind{text, spec.Names[i].Name})
				} else {
					s.texts[typ.Name] = append(s.texts[typ.Name], text)
				}
			}
		}
	}
}

// method notes which payload an EventType method belongs to.
func (s *source) method(d *ast.FuncDecl) {
	if d.Name.Name != "EventType" || d.Recv == nil || len(d.Body.List) != 1 {
		return
	}
	recv, ok := d.Recv.List[0].Type.(*ast.Ident)
	ret, isReturn := d.Body.List[0].(*ast.ReturnStmt)
	if !ok || !isReturn || len(ret.Results) != 1 {
		return
	}
	if id, ok := ret.Results[0].(*ast.Ident); ok {
		s.payload[id.Name] = recv.Name
	}
}

func (s *source) docOf(k kind) (string, error) {
	name := s.payload[k.constant]
	if s.structs[name] == nil {
		return "", fmt.Errorf("docgen: event %s has no payload struct", k.name)
	}
	doc := sentence(name, s.docs[name])
	if doc == "" {
		return "", fmt.Errorf("docgen: %s has no doc comment", name)
	}
	return doc, nil
}

// sentence makes a doc comment stand without the name that it begins with.
func sentence(name, doc string) string {
	for _, prefix := range []string{name + ": ", name + " is ", name + " are ", name + " tells "} {
		if rest, ok := strings.CutPrefix(doc, prefix); ok {
			if prefix == name+" tells " {
				rest = "tells " + rest
			}
			if word, _, _ := strings.Cut(rest, " "); strings.Contains(word, "_") {
				return rest // a name of code
			}
			r, n := utf8.DecodeRuneInString(rest)
			return string(unicode.ToUpper(r)) + rest[n:]
		}
	}
	return doc
}

func (s *source) table(b *strings.Builder, st *ast.StructType, used map[string]bool) {
	if len(st.Fields.List) == 0 {
		return
	}
	b.WriteString("\n| member | type | |\n| --- | --- | --- |\n")
	s.rows(b, st, used)
}

// rows writes a struct's members, those of embedded structs in their place.
func (s *source) rows(b *strings.Builder, st *ast.StructType, used map[string]bool) {
	for _, f := range st.Fields.List {
		if id, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && s.structs[id.Name] != nil {
			s.rows(b, s.structs[id.Name], used)
			continue
		}
		tag := ""
		if f.Tag != nil {
			raw, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(raw).Get("json")
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" || name == "-" {
			continue
		}
		note := strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
		if strings.Contains(options, "omit") {
			if note != "" {
				note = "; " + note
			}
			note = "optional" + note
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, s.typeName(f.Type, used), strings.ReplaceAll(note, "|", "\\|"))
	}
}

// typeName is the JSON type of a Go type, with a link where the page describes it.
func (s *source) typeName(e ast.Expr, used map[string]bool) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return s.typeName(t.X, used)
	case *ast.ArrayType:
		return "list of " + s.typeName(t.Elt, used)
	case *ast.MapType:
		return "object of " + s.typeName(t.Value, used)
	case *ast.SelectorExpr:
		switch t.Sel.Name {
		case "Time":
			return "time"
		case "RawMessage":
			return "any JSON"
		}
		return t.Sel.Name
	case *ast.Ident:
		switch t.Name {
		case "string":
			return "string"
		case "bool":
			return "boolean"
		case "float64":
			return "number"
		case "int", "int64":
			return "integer"
		}
		used[t.Name] = true
		return "[" + t.Name + "](#" + anchor(t.Name) + ")"
	}
	return "any JSON"
}

// anchor is the fragment that Markdown viewers give a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_', r == '-':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
}

// Configuration returns docs/configuration.md.
func Configuration() []byte {
	var b strings.Builder
	b.WriteString(`<!-- Generated from the list of settings in internal/config; go test ./internal/docgen -update writes it anew. -->

# Configuration

A setting comes from the strongest source that has it, weakest first:

1. built-in defaults;
2. ` + "`harness.yaml`" + ` in the user's configuration folder (` + "`$XDG_CONFIG_HOME/harness`, `~/.config/harness`" + `), or the file that ` + "`--config` or `HARNESS_CONFIG`" + ` names;
3. ` + "`.harness/harness.yaml`" + ` of the workspace: only the settings marked below, and only after ` + "`harness trust`" + ` took its exact content; otherwise it is ignored and reported;
4. environment variables (an empty one counts as not set);
5. flags of ` + "`harnessd`" + `.

A value that cannot be used stops the start and names itself, also when a stronger source would have won.

| key | variable | flag | type | workspace | |
| --- | --- | --- | --- | --- | --- |
`)
	for _, s := range config.Settings() {
		flag, workspace := "", ""
		if s.Flag != "" {
			flag = "`--" + s.Flag + "`"
		}
		if s.Workspace {
			workspace = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s |\n", s.Key, s.Env, flag, s.Type, workspace, s.Help)
	}
	b.WriteString(`
` + "`harness config explain`" + ` shows each setting with its value, its source and the values that lost; ` + "`harness config validate`" + ` checks them all.

Keys with a dot are nested in the file:

` + "```yaml" + `
model: my-model
floor:
  approval: destructive
providers:
  - name: local
    base_url: http://127.0.0.1:11434/v1
    models: [my-model]
  - name: work
    base_url: https://models.example.com/v1
    api_key_env: WORK_API_KEY
` + "```" + `

## Providers

| member of ` + "`providers`" + ` | |
| --- | --- |
| ` + "`name`" + ` | how requests name it |
| ` + "`type`" + ` | the wire: ` + "`openai-compat`" + ` (Chat Completions; where ` + "`base_url`" + ` is set and nothing else is known), ` + "`openai`" + ` or ` + "`openai-responses`" + `, ` + "`anthropic`" + `, ` + "`google`" + ` |
| ` + "`base_url`" + ` | address before the wire's own path (` + "`/chat/completions`" + `, ` + "`/responses`" + `, ` + "`/v1/messages`" + `, ` + "`/models/…`" + `); the catalogue's where it is empty |
| ` + "`api_key_env`" + ` | variable with the key |
| ` + "`api_key_file`" + ` | or a file with it, one line |
| ` + "`models`" + ` | models that it serves; empty: any that is asked of it |
| ` + "`max_tokens_field`" + ` | the wire's name of the output limit, where it differs |
| ` + "`prompt_cache_key`" + ` | send the session's id as the cache key |
| ` + "`thinking`" + ` | how ` + "`anthropic`" + ` models take a reasoning effort: ` + "`adaptive`" + ` (the default: they choose within it) or ` + "`budget`" + ` (a number of tokens for each word, for older models). An effort that is a number is a budget in any case |
| ` + "`idle_timeout`" + ` | end a stream that says nothing for so long |
| ` + "`proxy`" + ` | the proxy that it is reached through; ` + "`direct`" + `: none, whatever the node's ` + "`proxy`" + ` says |
| ` + "`headers`" + ` | sent with each request, a mapping of names to values; ` + "`env:NAME`" + ` is the value of a variable, which must be set. Headers that the wire manages, credentials among them, are refused |

Proxies come from these settings alone: ` + "`HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`" + ` do not count, so that an environment cannot lead prompts and keys elsewhere. The node's proxy leaves out this machine itself.

A key is never written into a file of settings. Without a file, these variables each give a provider:

| provider | variable |
| --- | --- |
`)
	for _, p := range config.EnvironmentProviders() {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", p[0], p[1])
	}
	b.WriteString("\n`ANTHROPIC_BASE_URL` and `GEMINI_BASE_URL` point these providers at another server of the same wire, with or without a key.\n" +
		"`OPENAI_BASE_URL` points the provider `openai` at a server that speaks Chat Completions; without it the provider is OpenAI's own service over the Responses wire.\n" +
		"`HARNESS_PROVIDER=fake` serves every model name from scripts in the prompt and needs no key.\n")
	b.WriteString("\n## Telemetry\n\nWith `telemetry.enabled` these standard variables say where and how it goes; of those with a signal's name (`OTEL_EXPORTER_OTLP_TRACES_…`, " +
		"`OTEL_EXPORTER_OTLP_METRICS_…`) the signal's own wins: `OTEL_EXPORTER_OTLP_ENDPOINT`, `_PROTOCOL` (`http/protobuf` only), `_HEADERS`, `_TIMEOUT`, " +
		"`_COMPRESSION`, `_CERTIFICATE`, `_CLIENT_CERTIFICATE`, `_CLIENT_KEY`; `OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` (`otlp` or `none`); " +
		"`OTEL_SDK_DISABLED`; and those of the SDK: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_…`, `OTEL_METRIC_EXPORT_INTERVAL`. " +
		"[observability.md](observability.md) says what is exported.\n")
	return []byte(b.String())
}

// Pages maps the path of each generated page, below the module's root, to its maker.
func Pages(root string) map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"docs/events.md":        func() ([]byte, error) { return Events(filepath.Join(root, "event")) },
		"docs/configuration.md": func() ([]byte, error) { return Configuration(), nil },
	}
}

// Write writes all pages.
func Write(root string) error {
	for name, make := range Pages(root) {
		data, err := make()
		if err != nil {
			return err
		}
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, fs.FileMode(0o644)); err != nil {
			return err
		}
	}
	return nil
}
