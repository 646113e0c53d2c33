package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// agree fails where the quick way takes an event of which the general decoder makes something else.
func agree(t *testing.T, data string) (taken bool) {
	t.Helper()
	quick, ok := plainPiece([]byte(data))
	if !ok {
		return false
	}
	var e eventJSON
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatalf("%s: taken, but it cannot be read: %v", data, err)
	}
	if plain := e.piece(); quick != plain || e.Type != "content_block_delta" || e.Error != nil {
		t.Fatalf("%s: %+v, the general decoder says %+v", data, quick, plain)
	}
	return true
}

func TestTheQuickWayIsNotToldFromTheGeneralOne(t *testing.T) {
	for kind, member := range map[string]string{"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json", "signature_delta": "signature"} {
		for _, text := range []string{`a`, ``, `b \"quoted\"`, `\u00e4 \ud83d\ude42`, `\ud83d`, "\xff", "\u2028", `{`, `\n\t`, `\\`} {
			for _, form := range []string{
				`{"type":"content_block_delta","index":12,"delta":{"type":"%s","%s":"%s"}}`,
				`{ "type": "content_block_delta", "index": 0, "delta": {"type": "%s", "%s": "%s"} }  `,
			} {
				if !agree(t, fmt.Sprintf(form, kind, member, text)) {
					t.Errorf("%s %q goes the long way", kind, text)
				}
			}
		}
	}
	const head = `{"type":"content_block_delta","index":`
	for _, data := range []string{
		head + `0,"delta":{"type":"text_delta","text":"a"},"error":{}}`,
		head + `0,"delta":{"type":"text_delta","text":"a","text":"b"}}`,
		head + `0,"delta":{"type":"text_delta","thinking":"a"}}`,
		head + `0,"delta":{"type":"text_delta","text":7}}`,
		head + `0,"delta":{"type":"text_delta","text":"\x"}}`,
		head + `0,"delta":{"type":"text_delta","text":"a` + "\t" + `"}}`,
		head + `0,"delta":{"type":"text_delta","text":"a"}`,
		head + `0,"delta":{"type":"text_delta","text":"a"}}}`,
		head + `0,"delta":{"type":"citations_delta","citation":{}}}`,
		head + `01,"delta":{"type":"text_delta","text":"a"}}`,
		head + `-1,"delta":{"type":"text_delta","text":"a"}}`,
		head + `1.5,"delta":{"type":"text_delta","text":"a"}}`,
		head + `12345678901,"delta":{"type":"text_delta","text":"a"}}`,
		`{"type":"content_block_start","index":0,"delta":{"type":"text_delta","text":"a"}}`,
		`{}`, `{`,
	} {
		if agree(t, data) {
			t.Errorf("%s is taken", data)
		}
	}
}

func FuzzPlainPiece(f *testing.F) {
	f.Add(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\u00e4"}}`)
	f.Add(`{"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":"} }`)
	f.Fuzz(func(t *testing.T, data string) { agree(t, strings.TrimSpace(data)) })
}
