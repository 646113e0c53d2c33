package harness_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
)

func TestQuestionsAreParsedAsRecorded(t *testing.T) {
	var vectors map[string]struct {
		Input  json.RawMessage `json:"input"`
		Result struct {
			OK    bool            `json:"ok"`
			Value json.RawMessage `json:"value"`
		} `json:"result"`
	}
	load(t, "testdata/schemas/questions.json", &vectors)
	if len(vectors) != 19 {
		t.Fatalf("%d vectors", len(vectors))
	}
	input, err := ai.SchemaCheck(harness.QuestionsToolInputJSONSchema())
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range vectors {
		t.Run(name, func(t *testing.T) {
			var got any
			var err error
			if strings.HasPrefix(name, "input") {
				got, err = harness.ParseQuestionsToolInput(v.Input)
				if schemaErr := input(v.Input); (schemaErr == nil) != v.Result.OK {
					t.Errorf("the schema says %v", schemaErr)
				}
			} else {
				got, err = harness.ParseQuestionsToolOutput(v.Input)
			}
			if (err == nil) != v.Result.OK {
				t.Fatalf("parsed %+v, %v", got, err)
			}
			if err != nil {
				return
			}
			// The empty list of options is the same as none, as far as a reader can tell.
			var w any
			_ = json.Unmarshal(v.Result.Value, &w)
			wb, _ := json.Marshal(w)
			want := strings.ReplaceAll(string(wb), `"options":[],`, "")
			compareJSON(t, "value", []byte(want), rawJSON(got))
		})
	}
}

func TestCommonToolsHaveTheRecordedSchemas(t *testing.T) {
	var rec struct {
		Names []harness.BuiltinToolName `json:"names"`
		Tools map[harness.BuiltinToolName]struct {
			Description  string          `json:"description"`
			InputSchema  json.RawMessage `json:"inputSchema"`
			OutputSchema json.RawMessage `json:"outputSchema"`
		} `json:"tools"`
	}
	load(t, "testdata/schemas/builtin-tools.json", &rec)
	tools := harness.StandardBuiltinTools()
	for i, n := range rec.Names {
		if harness.BuiltinToolNames[i] != n {
			t.Errorf("name %d is %s, recorded %s", i, harness.BuiltinToolNames[i], n)
		}
		if tools[n].Description != rec.Tools[n].Description {
			t.Errorf("%s: %q, recorded %q", n, tools[n].Description, rec.Tools[n].Description)
		}
		compareJSON(t, string(n)+" input", rec.Tools[n].InputSchema, tools[n].InputSchema)
		compareJSON(t, string(n)+" output", rec.Tools[n].OutputSchema, tools[n].OutputSchema)
	}
	if len(tools) != len(rec.Names) {
		t.Errorf("%d tools", len(tools))
	}
}

func TestCommonToolMustDeclareTheStandardInput(t *testing.T) {
	_, err := harness.CommonTool(harness.BuiltinToolBash, harness.CommonToolOptions{InputSchema: objectSchema("cmd", "string")})
	if err == nil || !strings.Contains(err.Error(), `"command"`) {
		t.Errorf("bash without command: %v", err)
	}
	if _, err := harness.CommonTool("fly", harness.CommonToolOptions{}); err == nil {
		t.Error("an unknown common tool was accepted")
	}
	got, err := harness.CommonTool(harness.BuiltinToolBash, harness.CommonToolOptions{NativeName: "Bash", InputSchema: objectSchema("command", "string")})
	if err != nil || got.NativeName != "Bash" || got.ToolUseKind != harness.BuiltinToolUseKindBash || got.CommonName != harness.BuiltinToolBash {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzQuestions(f *testing.F) {
	f.Add([]byte(`{"allowPartialAnswers":true,"questions":[{"id":"a","question":"q","allowFreeForm":{"secret":true}}]}`))
	f.Add([]byte(`{"action":"answered","answers":{"a":{"optionIds":["x"],"freeform":"f"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if in, err := harness.ParseQuestionsToolInput(data); err == nil {
			if _, err := harness.ParseQuestionsToolInput(rawJSON(in)); err != nil {
				t.Errorf("%s: %v", rawJSON(in), err)
			}
		}
		if out, err := harness.ParseQuestionsToolOutput(data); err == nil {
			if _, err := harness.ParseQuestionsToolOutput(rawJSON(out)); err != nil {
				t.Errorf("%s: %v", rawJSON(out), err)
			}
		}
	})
}
