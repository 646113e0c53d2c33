package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/harness-go/harness/internal/api"
)

const (
	maxDepth  = 64 // of nested objects and lists in a body
	maxFaults = 16 // listed in one problem
)

// decodeStrict reads one JSON object into v, a pointer to a struct. It refuses what encoding/json lets pass: members
// that v does not have, in exactly that spelling; members that are there twice, at any depth; text that is not UTF-8.
func decodeStrict(data []byte, v any) *api.Problem {
	if !utf8.Valid(data) {
		return api.NewProblem(api.CodeInvalidJSON, "the body is not valid UTF-8")
	}
	w := strictWalk{dec: json.NewDecoder(bytes.NewReader(data)), root: reflect.TypeOf(v).Elem()}
	w.dec.UseNumber()
	if err := w.document(); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return api.NewProblem(api.CodeInvalidJSON, "the body is not valid JSON: %s", err)
	}
	if len(w.faults) > 0 {
		p := api.NewProblem(w.code, "%s: %s", w.faults[0].Field, w.faults[0].Message).At(w.faults[0].Field)
		p.Errors = w.faults
		return p
	}
	if err := json.Unmarshal(data, v); err != nil {
		return typeProblem(err)
	}
	return nil
}

// strictWalk reads the tokens of a document beside the Go type that it is for.
type strictWalk struct {
	dec    *json.Decoder
	root   reflect.Type
	code   api.Code
	faults []api.FieldError
}

func (w *strictWalk) fault(code api.Code, field, format string, args ...any) {
	if len(w.faults) == 0 {
		w.code = code
	}
	if len(w.faults) < maxFaults {
		w.faults = append(w.faults, api.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

func (w *strictWalk) document() error {
	tok, err := w.dec.Token()
	if err != nil {
		return err
	}
	if tok != json.Delim('{') {
		return errors.New("it must be an object")
	}
	if err := w.object(w.root, "", 1); err != nil {
		return err
	}
	if _, err := w.dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the object")
	}
	return nil
}

func (w *strictWalk) value(t reflect.Type, path string, depth int) error {
	tok, err := w.dec.Token()
	if err != nil {
		return err
	}
	switch tok {
	case json.Delim('{'):
		return w.object(opaqueIfCustom(t), path, depth+1)
	case json.Delim('['):
		return w.list(opaqueIfCustom(t), path, depth+1)
	}
	return nil
}

// object walks the members of an object. t is the type that it is for; nil where any member may be.
func (w *strictWalk) object(t reflect.Type, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	var fields map[string]reflect.Type
	var elem reflect.Type
	switch {
	case t != nil && t.Kind() == reflect.Struct:
		fields = fieldsOf(t)
	case t != nil && t.Kind() == reflect.Map:
		elem = t.Elem()
	}
	seen := make(map[string]bool, 8)
	for w.dec.More() {
		tok, err := w.dec.Token()
		if err != nil {
			return err
		}
		name, _ := tok.(string)
		at := join(path, name)
		if seen[name] {
			w.fault(api.CodeDuplicateField, at, "is there twice")
		}
		seen[name] = true
		member := elem
		if fields != nil {
			var known bool
			if member, known = fields[name]; !known {
				w.fault(api.CodeUnknownField, at, "%s", unknownHint(w.root, path, name, fields))
			}
		}
		if err := w.value(member, at, depth); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *strictWalk) list(t reflect.Type, path string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	var elem reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		elem = t.Elem()
	}
	for i := 0; w.dec.More(); i++ {
		if err := w.value(elem, path+"["+strconv.Itoa(i)+"]", depth); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

func join(path, name string) string {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// unknownHint says where a misplaced member belongs, or which members there are.
func unknownHint(root reflect.Type, path, name string, fields map[string]reflect.Type) string {
	if path == "" {
		for _, outer := range slices.Sorted(mapKeys(fieldsOf(root))) {
			if t := opaqueIfCustom(fieldsOf(root)[outer]); t != nil && t.Kind() == reflect.Struct {
				if _, ok := fieldsOf(t)[name]; ok {
					return "unknown field; it belongs in " + outer + "." + name
				}
			}
		}
	}
	if len(fields) == 0 {
		return "unknown field; none is taken here"
	}
	return "unknown field; there are " + strings.Join(slices.Sorted(mapKeys(fields)), ", ")
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// opaqueIfCustom strips pointers, and gives nil for types that read their own JSON.
func opaqueIfCustom(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Implements(unmarshalerType) || reflect.PointerTo(t).Implements(unmarshalerType) {
		return nil
	}
	return t
}

var fieldCache sync.Map // reflect.Type → map[string]reflect.Type

// fieldsOf maps the JSON names of a struct's members to their types.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if m, ok := fieldCache.Load(t); ok {
		return m.(map[string]reflect.Type)
	}
	m := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		m[name] = f.Type
	}
	fieldCache.Store(t, m)
	return m
}

// typeProblem turns an error of json.Unmarshal into words that do not name Go types.
func typeProblem(err error) *api.Problem {
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := te.Field
		if field == "" {
			field = "body"
		}
		return api.NewProblem(api.CodeInvalidRequest, "%s: must be %s, not %s", field, jsonKind(te.Type), te.Value).At(field)
	}
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		return api.NewProblem(api.CodeInvalidJSON, "the body is not valid JSON: %s", se)
	}
	return api.NewProblem(api.CodeInvalidRequest, "the body cannot be used: %s", err)
}

func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number that fits"
	case reflect.Float32, reflect.Float64:
		return "a number that fits"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an object"
}
