package event

import (
	"bytes"
	"encoding/json"
)

// marshal is json.Marshal without HTML escaping: log lines stay readable, and text keeps its size.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}
