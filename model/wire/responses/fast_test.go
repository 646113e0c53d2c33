package responses

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// agree fails where the quick way takes an event of which the general decoder makes something else.
func agree(t *testing.T, data string) (taken bool) {
	t.Helper()
	quick, ok := flatDelta([]byte(data))
	if !ok {
		return false
	}
	var e eventJSON
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatalf("%s: taken, but it cannot be read: %v", data, err)
	}
	plain := delta{kind: deltaKindOf(string(e.Type)), output: e.OutputIndex, summary: e.SummaryIndex, text: string(e.Delta)}
	if quick != plain || e.OutputIndex > maxItems {
		t.Fatalf("%s: %+v, the general decoder says %+v", data, quick, plain)
	}
	return true
}

func TestTheQuickWayIsNotToldFromTheGeneralOne(t *testing.T) {
	for _, kind := range []string{"output_text", "refusal", "reasoning_summary_text", "reasoning_text", "function_call_arguments"} {
		for _, text := range []string{`a`, ``, `b \"quoted\"`, `\u00e4 \ud83d\ude42`, `\ud83d`, "\xff", "\u2028", `{`, `\n\t`} {
			if !agree(t, fmt.Sprintf(`{"type":"response.%s.delta","sequence_number":7,"item_id":"x_1","output_index":3,"summary_index":1,"delta":"%s","logprobs":[],"obfuscation":"ab"}`, kind, text)) {
				t.Errorf("%s %q goes the long way", kind, text)
			}
		}
	}
	const textType = `"type":"response.output_text.delta"`
	for data, want := range map[string]bool{
		`{` + textType + `}`:                                      true,
		`{ "delta" : "a" , ` + textType + ` }`:                    true,
		`{"delta":"a","delta":"b",` + textType + `}`:              true,
		`{` + textType + `,"delta":"a","x":null,"y":true,"z":{}}`: true,
		`{` + textType + `,"delta":"a","Delta":"b"}`:              false,
		`{` + textType + `,"delta":7}`:                            false,
		`{` + textType + `,"delta":null}`:                         false,
		`{` + textType + `,"delta":"\x"}`:                         false,
		`{` + textType + `,"delta":"a` + "\t" + `"}`:              false,
		`{` + textType + `,"delta":"a"`:                           false,
		`{` + textType + `,"delta":"a"}}`:                         false,
		`{` + textType + `,"delta":"a",}`:                         false,
		`{` + textType + `,"x":{"delta":"no"},"delta":"a"}`:       false,
		`{` + textType + `,"output_index":65537}`:                 false,
		`{` + textType + `,"output_index":-1}`:                    false,
		`{` + textType + `,"output_index":1.5}`:                   false,
		`{` + textType + `,"output_index":01}`:                    false,
		`{` + textType + `,"item":{"type":"message"}}`:            false,
		`{"type":"response.output_text.done","delta":"a"}`:        false,
		`{"type":"response.output_text.delta\u0000","delta":"a"}`: false,
		`{"delta":"a"}`: false,
		`{}`:            false,
	} {
		if got := agree(t, data); got != want {
			t.Errorf("%s: taken %v", data, got)
		}
	}
}

func FuzzFlatDelta(f *testing.F) {
	f.Add(`{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"a\u00e4","logprobs":[],"obfuscation":"x"}`)
	f.Add(`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":"}`)
	f.Add(`{"type":"response.reasoning_summary_text.delta","summary_index":2,"output_index":1,"delta":"a","x":null}`)
	f.Fuzz(func(t *testing.T, data string) { agree(t, strings.TrimSpace(data)) })
}
