package harness

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestWorkDirIsStrippedAsRecorded(t *testing.T) {
	var rec struct {
		WorkDir string `json:"workDir"`
		Vectors []struct {
			Input         string `json:"input"`
			ToolCallInput string `json:"toolCallInput"`
			ToolResult    string `json:"toolResult"`
		} `json:"vectors"`
		ToolInputDeltas []string `json:"toolInputDeltas"`
	}
	b, err := os.ReadFile("testdata/telemetry/strip-workdir.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(b), "<ROOT>", "/tmp/root")), &rec); err != nil {
		t.Fatal(err)
	}
	s := newStripper(rec.WorkDir)
	inJSON := stripper{dir: string(s.jsonDir), jsonDir: s.jsonDir}
	for _, v := range rec.Vectors {
		input, _ := plainJSON(map[string]string{"command": v.Input})
		var call struct {
			Command string `json:"command"`
		}
		if err := json.Unmarshal([]byte(inJSON.text(string(input))), &call); err != nil || call.Command != v.ToolCallInput {
			t.Errorf("input %q: %q, %v, recorded %q", v.Input, call.Command, err, v.ToolCallInput)
		}
		result, _ := plainJSON(map[string]any{"o": []string{v.Input}, "n": json.Number("12345678901234567890")})
		var out struct {
			O []string    `json:"o"`
			N json.Number `json:"n"`
		}
		if err := json.Unmarshal(s.json(result), &out); err != nil || out.O[0] != v.ToolResult || out.N != "12345678901234567890" {
			t.Errorf("result %q: %+v, %v, recorded %q", v.Input, out, err, v.ToolResult)
		}
	}
	// The recorded input came in pieces of three characters.
	d := deltaStripper{stripper: inJSON}
	var got []string
	text := `{"command":"cat ` + rec.WorkDir + `/q.txt"}`
	for i := 0; i < len(text); i += 3 {
		if out := d.add(text[i:min(i+3, len(text))]); out != "" {
			got = append(got, out)
		}
	}
	if out := d.flush(); out != "" {
		got = append(got, out)
	}
	if strings.Join(got, "") != strings.Join(rec.ToolInputDeltas, "") {
		t.Errorf("deltas %q, recorded %q", got, rec.ToolInputDeltas)
	}
}

// Whatever the pieces, a text that is stripped as it comes is the text stripped as a whole.
func FuzzDeltasStripLikeTheWhole(f *testing.F) {
	f.Add("cat /w/d/a.txt /w/d", uint8(3))
	f.Add("/w/d/w/d=/w/d", uint8(1))
	f.Add("x /w/w/d/b", uint8(2))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		n := int(size)%7 + 1
		s := newStripper("/w/d")
		d := deltaStripper{stripper: s}
		var b strings.Builder
		for i := 0; i < len(text); i += n {
			b.WriteString(d.add(text[i:min(i+n, len(text))]))
		}
		b.WriteString(d.flush())
		if want := s.text(text); b.String() != want {
			t.Errorf("%q in pieces of %d: %q, want %q", text, n, b.String(), want)
		}
	})
}
