package harness_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/harness-go/harness/harness"
)

func streamPartVectors(t testing.TB) (vectors []struct {
	Case       string          `json:"case"`
	Input      json.RawMessage `json:"input"`
	StreamPart struct {
		OK    bool            `json:"ok"`
		Value json.RawMessage `json:"value"`
	} `json:"streamPart"`
}) {
	load(t, "testdata/schemas/stream-parts.json", &vectors)
	return vectors
}

func TestStreamPartsAreAcceptedAndNormalisedAsRecorded(t *testing.T) {
	vectors := streamPartVectors(t)
	if len(vectors) != 57 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Case, func(t *testing.T) {
			p, err := harness.DecodeStreamPart(v.Input)
			if (err == nil) != v.StreamPart.OK {
				t.Fatalf("decoded %#v, %v", p, err)
			}
			if err != nil {
				return
			}
			out, err := harness.EncodeStreamPart(p)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if json.Unmarshal(out, &got) != nil || json.Unmarshal(v.StreamPart.Value, &want) != nil {
				t.Fatalf("not JSON: %s", out)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-recorded +got:\n%s", d)
			}
		})
	}
}

func TestInvalidPartsAreNotEncoded(t *testing.T) {
	for _, p := range []harness.StreamPart{
		nil,
		harness.ToolResult{ToolCallID: "c", ToolName: "x", Result: json.RawMessage("{")},
		harness.FileChange{Event: "rename", Path: "a"},
		harness.FinishStep{},
		harness.ToolCall{ToolCallID: "c", ToolName: "x", Input: "{}", StepToolCallCount: -1},
	} {
		if out, err := harness.EncodeStreamPart(p); err == nil {
			t.Errorf("%#v encodes to %s", p, out)
		}
	}
}

// A part that decodes encodes to what decodes to the same part, and no input makes the codec panic.
func FuzzStreamPartRoundTrip(f *testing.F) {
	for _, v := range streamPartVectors(f) {
		f.Add([]byte(v.Input))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := harness.DecodeStreamPart(data)
		if err != nil {
			return
		}
		out, err := harness.EncodeStreamPart(p)
		if err != nil {
			t.Fatalf("%s: decodes to %#v, which does not encode: %v", data, p, err)
		}
		again, err := harness.DecodeStreamPart(out)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := harness.EncodeStreamPart(again)
		if err != nil || string(twice) != string(out) {
			t.Fatalf("%s, then %s (%v)", out, twice, err)
		}
	})
}
