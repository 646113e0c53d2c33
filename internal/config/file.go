package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a file of settings, in bytes.
const maxFile = 256 << 10

// entry is one setting of a file: its parsed value and the place it stands at.
type entry struct {
	value  any
	source string
}

// document is a read file: its entries by key and the providers that it lists.
type document struct {
	entries   map[string]entry
	providers []providerEntry
}

// readFile reads at most maxFile bytes of a regular file. A file that is not there gives nil and no error.
func readFile(open func() (fs.File, error), name string) ([]byte, error) {
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Source: name, Message: "cannot be read: " + cause(err)}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, &Error{Source: name, Message: "cannot be read: " + cause(err)}
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{Source: name, Message: "is not a regular file"}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, &Error{Source: name, Message: "cannot be read: " + cause(err)}
	}
	if len(data) > maxFile {
		return nil, &Error{Source: name, Message: fmt.Sprintf("is larger than %d KiB", maxFile>>10)}
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// openPlain opens without waiting for a writer, so that a FIFO in the place of a file cannot hold the start.
func openPlain(name string) func() (fs.File, error) {
	return func() (fs.File, error) { return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) }
}

func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// parseFile checks a file of settings. Relative paths in it begin at its folder. allowed says which keys may stand in
// it; nil means all of them, with providers.
func parseFile(name string, data []byte, allowed func(setting) bool) (document, error) {
	doc := document{entries: map[string]entry{}}
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		return doc, syntaxError(name, err)
	}
	w := walker{name: name, lines: strings.Split(string(data), "\n"), allowed: allowed, doc: &doc}
	if len(f.Docs) > 1 {
		return doc, &Error{Source: name, Message: "holds more than one YAML document"}
	}
	for _, d := range f.Docs {
		if d.Body == nil {
			continue
		}
		if err := w.mapping("", d.Body); err != nil {
			return doc, err
		}
	}
	return doc, nil
}

// syntaxError tells the place and the fault without the text of the file.
func syntaxError(name string, err error) error {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil {
		return &Error{Source: name, Message: "is not valid YAML"}
	}
	pos := y.GetToken().Position
	return &Error{Source: fmt.Sprintf("%s:%d:%d", name, pos.Line, pos.Column), Message: "is not valid YAML: " + y.GetMessage()}
}

type walker struct {
	name    string
	lines   []string
	allowed func(setting) bool
	doc     *document
}

// at is an error at a node. The excerpt ends at the colon: a value can be a key that was pasted into the wrong place.
func (w *walker) at(n ast.Node, key, format string, args ...any) error {
	pos := n.GetToken().Position
	e := &Error{
		Source: fmt.Sprintf("%s:%d:%d", w.name, pos.Line, pos.Column),
		Key:    key, Message: fmt.Sprintf(format, args...),
	}
	if pos.Line >= 1 && pos.Line <= len(w.lines) {
		line := w.lines[pos.Line-1]
		if i := strings.IndexByte(line, ':'); i >= 0 {
			e.Excerpt = fmt.Sprintf("%d | %s …", pos.Line, line[:i+1])
		}
	}
	return e
}

func pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	case *ast.NullNode:
		return nil, true
	}
	return nil, false
}

// plain refuses what a file of settings has no need of and what makes a short file large: anchors, aliases, merges
// and tags.
func (w *walker) plain(n ast.Node) error {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return w.at(n, "", "anchors, aliases, merges and tags are not allowed here")
	}
	return nil
}

func (w *walker) mapping(prefix string, n ast.Node) error {
	if err := w.plain(n); err != nil {
		return err
	}
	values, ok := pairs(n)
	if !ok {
		return w.at(n, strings.TrimSuffix(prefix, "."), "must be a mapping of names to values")
	}
	seen := map[string]bool{}
	for _, p := range values {
		if err := w.plain(p.Key); err != nil {
			return err
		}
		name := p.Key.GetToken().Value
		key := prefix + name
		if seen[name] {
			return w.at(p.Key, key, "stands twice")
		}
		seen[name] = true
		if err := w.pair(key, p); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) pair(key string, p *ast.MappingValueNode) error {
	switch {
	case group(key):
		return w.mapping(key+".", p.Value)
	case key == "providers":
		if w.allowed != nil {
			return w.at(p.Key, key, "may not be set by a workspace; it belongs in the user's harness.yaml")
		}
		return w.providers(p.Value)
	}
	s, ok := settingByKey(key)
	if !ok {
		return w.at(p.Key, key, "unknown key%s", suggestion(key, keys()))
	}
	if w.allowed != nil && !w.allowed(s) {
		return w.at(p.Key, key, "may not be set by a workspace; it belongs in the user's harness.yaml")
	}
	v, err := w.value(p.Value)
	if err != nil {
		return err
	}
	if v, err = s.accept(v); err != nil {
		return w.at(p.Key, key, "%s", err)
	}
	if s.kind == path {
		v = absolute(filepath.Dir(w.name), v.(string))
	}
	w.doc.entries[key] = entry{value: v, source: fmt.Sprintf("%s:%d", w.name, p.Key.GetToken().Position.Line)}
	return nil
}

// value turns a scalar or a list of scalars into Go values.
func (w *walker) value(n ast.Node) (any, error) {
	if err := w.plain(n); err != nil {
		return nil, err
	}
	if seq, ok := n.(*ast.SequenceNode); ok {
		items := make([]any, 0, len(seq.Values))
		for _, item := range seq.Values {
			v, err := w.value(item)
			if err != nil {
				return nil, err
			}
			items = append(items, v)
		}
		return items, nil
	}
	var v any
	if err := yaml.NodeToValue(n, &v); err != nil {
		return nil, w.at(n, "", "cannot be read")
	}
	return v, nil
}

func keys() []string {
	out := []string{"providers"}
	for _, s := range settings {
		out = append(out, s.key)
		if g, _, ok := strings.Cut(s.key, "."); ok && !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// group reports whether settings stand below the key.
func group(key string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}

// suggestion names the known word that a misspelt one is closest to.
func suggestion(word string, known []string) string {
	best, distance := "", len(word)/2+1
	for _, k := range known {
		if d := editDistance(word, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := prev
			if a[i] != b[j] {
				next = 1 + min(prev, row[j], row[j+1])
			}
			prev, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
