package skill

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of front matter: bytes, tokens, which bound its depth too, and bytes of one text.
const (
	maxFront  = 16 << 10
	maxTokens = 4096
	maxText   = 1024
)

// document is a SKILL.md that was read.
type document struct {
	name, description, argumentHint, version string
	body                                     string
	source                                   string
	// unavailable says what the skill needs and does not get.
	unavailable string
}

// parse reads a SKILL.md.
func parse(data []byte) (document, error) {
	if !utf8.Valid(data) {
		return document{}, fmt.Errorf("%s is not valid UTF-8", fileName)
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return document{}, fmt.Errorf("%s contains a NUL character", fileName)
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	front, body, err := cut(text)
	if err != nil {
		return document{}, err
	}
	values, err := readFront(front)
	if err != nil {
		return document{}, fmt.Errorf("front matter: %w", err)
	}
	d := document{body: strings.Trim(body, "\n")}
	for _, f := range []struct {
		key      string
		to       *string
		required bool
	}{
		{"name", &d.name, true}, {"description", &d.description, true},
		{"argument-hint", &d.argumentHint, false}, {"version", &d.version, false},
	} {
		if *f.to, err = values.text(f.key); err != nil {
			return document{}, fmt.Errorf("front matter: %w", err)
		}
		if f.required && *f.to == "" {
			return document{}, fmt.Errorf("front matter: %s is missing", f.key)
		}
		if len(*f.to) > maxText {
			return document{}, fmt.Errorf("front matter: %s has %d bytes, more than %d", f.key, len(*f.to), maxText)
		}
	}
	if err := checkName(d.name); err != nil {
		return document{}, fmt.Errorf("front matter: name %.70q: %w", d.name, err)
	}
	if d.unavailable, err = values.unbuilt(); err != nil {
		return document{}, fmt.Errorf("front matter: %w", err)
	}
	if d.unavailable == "" && runsCommands().MatchString(d.body) {
		d.unavailable = "it has commands that run while it is loaded (!`…`), and such skills are not run"
	}
	return d, nil
}

// runsCommands finds a command that is to be replaced by its output: !`cmd`, or a block that begins with ```!.
var runsCommands = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("!`|(?m)^[ \t]*```+[ \t]*!") })

// cut divides the front matter from the body.
func cut(text string) (front, body string, err error) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", "", errors.New("it does not begin with front matter: a line of ---, name and description, a line of ---")
	}
	for at := 0; at <= len(rest); {
		line, _, more := strings.Cut(rest[at:], "\n")
		if strings.TrimRight(line, " \t") == "---" {
			if at > maxFront {
				break
			}
			return rest[:at], rest[min(len(rest), at+len(line)+1):], nil
		}
		if !more {
			return "", "", errors.New("its front matter has no end: a line of ---")
		}
		at += len(line) + 1
	}
	return "", "", fmt.Errorf("its front matter has more than %d bytes", maxFront)
}

// front are the values of the keys at the top of front matter.
type front map[string]ast.Node

// readFront reads a YAML mapping. Whoever wrote a repository wrote it, so what could cost much is refused before it is
// parsed: aliases, which can stand for any amount of text, and many tokens.
func readFront(text string) (values front, err error) {
	// The parser has had crashes on odd input; a broken skill must not be more than that.
	defer func() {
		if r := recover(); r != nil {
			values, err = nil, errors.New("it cannot be read as YAML")
		}
	}()
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("it has more than %d tokens", maxTokens)
	}
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType:
			return nil, fmt.Errorf("line %d: anchors, aliases and tags are not taken", t.Position.Line)
		}
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, errors.New(strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	values = make(front)
	for _, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.NullNode, *ast.CommentGroupNode:
		case *ast.MappingNode:
			for _, v := range body.Values {
				if err := values.add(v); err != nil {
					return nil, err
				}
			}
		case *ast.MappingValueNode:
			if err := values.add(body); err != nil {
				return nil, err
			}
		default:
			return nil, errors.New("it is not a mapping of keys to values")
		}
	}
	return values, nil
}

func (f front) add(v *ast.MappingValueNode) error {
	key := v.Key.GetToken().Value
	if _, twice := f[key]; twice {
		return fmt.Errorf("%s is there twice", key)
	}
	f[key] = v.Value
	return nil
}

// text is the string of a key, empty where the key is not there. A version may be a number.
func (f front) text(key string) (string, error) {
	switch v := f[key].(type) {
	case nil, *ast.NullNode:
		return "", nil
	case *ast.StringNode:
		return strings.TrimSpace(v.Value), nil
	case *ast.LiteralNode:
		return strings.TrimSpace(v.Value.Value), nil
	case *ast.IntegerNode, *ast.FloatNode:
		if key == "version" {
			return v.GetToken().Value, nil
		}
	}
	return "", fmt.Errorf("%s must be text", key)
}

// unbuilt names what the skill asks for and this project does not do. Keys that only describe are passed over.
func (f front) unbuilt() (string, error) {
	context, err := f.text("context")
	if err != nil {
		return "", err
	}
	switch context {
	case "", "conversation", "inline":
	case "fork":
		return "context: fork (an agent of its own) is not available", nil
	default:
		return "", fmt.Errorf("context is %.40q; it can be conversation or fork", context)
	}
	for _, key := range []string{"allowed-tools", "disallowed-tools"} {
		if f.has(key) {
			return key + " (a filter of tools while the skill runs) is not available", nil
		}
	}
	for _, key := range []string{"hooks", "agent", "model"} {
		if f.has(key) {
			return key + " is not available", nil
		}
	}
	if v, ok := f["disable-model-invocation"].(*ast.BoolNode); ok && v.Value {
		return "disable-model-invocation is set: only a person may start it", nil
	} else if !ok && f.has("disable-model-invocation") {
		return "", errors.New("disable-model-invocation must be true or false")
	}
	return "", nil
}

func (f front) has(key string) bool {
	v, ok := f[key]
	if !ok || v == nil {
		return false
	}
	_, null := v.(*ast.NullNode)
	return !null
}
