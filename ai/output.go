package ai

import (
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

// Output is a specification of what a turn's final text must be.
type Output interface {
	// ResponseFormat is what the model is asked for.
	ResponseFormat() OutputFormat
	// Parse turns the final text into the value.
	Parse(text string) (any, error)
}

// OutputFormat is the response format of an Output. Schema, Name and Description belong to JSON.
type OutputFormat struct {
	JSON        bool
	Schema      json.RawMessage
	Name        string
	Description string
}

// OutputParseError: the final text is not what the output specification asks for. The text itself is in Text and not
// in the message.
type OutputParseError struct {
	Text  string
	Cause error
}

func (e *OutputParseError) Error() string {
	return fmt.Sprintf("the final text does not fit the output specification: %v", e.Cause)
}

func (e *OutputParseError) Unwrap() error { return e.Cause }

// TextOutput takes the final text as it is.
func TextOutput() Output { return textOutput{} }

type textOutput struct{}

func (textOutput) ResponseFormat() OutputFormat   { return OutputFormat{} }
func (textOutput) Parse(text string) (any, error) { return text, nil }

// ObjectOutputOptions describe an object. Schema is a JSON Schema; Name and Description help the model.
type ObjectOutputOptions struct {
	Schema      json.RawMessage
	Name        string
	Description string
}

// ObjectOutput asks for JSON that fits the schema. The parsed value is what encoding/json makes of it.
func ObjectOutput(o ObjectOutputOptions) (Output, error) {
	if len(o.Schema) == 0 {
		return nil, fmt.Errorf("ai: object output: Schema is required; use JSONOutput for any JSON")
	}
	check, err := SchemaCheck(o.Schema)
	if err != nil {
		return nil, fmt.Errorf("ai: object output: %w", err)
	}
	return jsonOutput{format: OutputFormat{JSON: true, Schema: o.Schema, Name: o.Name, Description: o.Description}, check: check}, nil
}

// JSONOutputOptions help the model.
type JSONOutputOptions struct {
	Name        string
	Description string
}

// JSONOutput asks for JSON of any shape.
func JSONOutput(o JSONOutputOptions) Output {
	return jsonOutput{format: OutputFormat{JSON: true, Name: o.Name, Description: o.Description}}
}

type jsonOutput struct {
	format OutputFormat
	check  func(json.RawMessage) error
}

func (o jsonOutput) ResponseFormat() OutputFormat { return o.format }

func (o jsonOutput) Parse(text string) (any, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, &OutputParseError{Text: text, Cause: err}
	}
	if o.check != nil {
		if err := o.check(json.RawMessage(text)); err != nil {
			return nil, &OutputParseError{Text: text, Cause: err}
		}
	}
	return v, nil
}

// SchemaCheck reads a JSON Schema and returns a function that checks JSON against it.
func SchemaCheck(schema json.RawMessage) (func(json.RawMessage) error, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return func(data json.RawMessage) error {
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		return resolved.Validate(v)
	}, nil
}
