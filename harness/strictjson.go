package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// strictJSON decodes one JSON value. Its errors name the place and never the value, which may be secret.
func strictJSON(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err := dec.Decode(v)
	if err == nil {
		if _, tail := dec.Token(); tail != io.EOF {
			return errors.New("not valid JSON: more than one value")
		}
		return nil
	}
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Errorf("%s has the wrong type", wrong.Field)
	case errors.As(err, &wrong):
		return errors.New("the value has the wrong type")
	case errors.As(err, &syntax):
		return fmt.Errorf("not valid JSON at byte %d", syntax.Offset)
	}
	return errors.New("not valid JSON: it ends too early")
}

// refuseNulls refuses a null anywhere in data. encoding/json takes it for an absent member.
func refuseNulls(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	for {
		t, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.New("not valid JSON")
		}
		if t == nil {
			return fmt.Errorf("null at byte %d: leave the member out instead", dec.InputOffset())
		}
	}
}
