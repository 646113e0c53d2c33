package httpapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

func TestBodiesAreReadStrictly(t *testing.T) {
	deep := `{"prompt":"p","attachments":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`
	for name, c := range map[string]struct {
		body, field string
		code        api.Code
		detail      string // part of it
	}{
		"misplaced sandbox":       {`{"prompt":"x","sandbox":"workspace"}`, "sandbox", api.CodeUnknownField, "permissions.sandbox"},
		"misplaced approval":      {`{"approval":"all","prompt":"x"}`, "approval", api.CodeUnknownField, "permissions.approval"},
		"misplaced network":       {`{"prompt":"x","network":"deny"}`, "network", api.CodeUnknownField, "permissions.network"},
		"misplaced hosts":         {`{"prompt":"x","allowed_hosts":["a"]}`, "allowed_hosts", api.CodeUnknownField, "permissions.allowed_hosts"},
		"fork_depth":              {`{"prompt":"x","fork_depth":3}`, "fork_depth", api.CodeUnknownField, "fork_depth"},
		"plan_mode":               {`{"prompt":"x","plan_mode":true}`, "plan_mode", api.CodeUnknownField, "plan_mode"},
		"workspace_type":          {`{"prompt":"x","workspace_type":"vm"}`, "workspace_type", api.CodeUnknownField, "workspace_type"},
		"dynamic_rules":           {`{"prompt":"x","dynamic_rules":[]}`, "dynamic_rules", api.CodeUnknownField, "dynamic_rules"},
		"unknown below":           {`{"prompt":"x","permissions":{"sandbox":"local","mode":"x"}}`, "permissions.mode", api.CodeUnknownField, "allowed_hosts, approval, network, sandbox"},
		"other spelling":          {`{"Prompt":"x"}`, "Prompt", api.CodeUnknownField, "prompt"},
		"twice":                   {`{"prompt":"x","prompt":"y"}`, "prompt", api.CodeDuplicateField, "twice"},
		"twice below":             {`{"prompt":"x","permissions":{"sandbox":"local","sandbox":"workspace"}}`, "permissions.sandbox", api.CodeDuplicateField, "twice"},
		"twice in free JSON":      {`{"prompt":"x","output_schema":{"a":[{"b":1,"b":2}]}}`, "output_schema.a[0].b", api.CodeDuplicateField, "twice"},
		"twice in a map":          {`{"prompt":"x","metadata":{"a":"1","a":"2"}}`, "metadata.a", api.CodeDuplicateField, "twice"},
		"escaped spelling twice":  {`{"prompt":"x","pr\u006fmpt":"y"}`, "prompt", api.CodeDuplicateField, "twice"},
		"wrong type":              {`{"prompt":1}`, "prompt", api.CodeInvalidRequest, "must be a string, not number"},
		"wrong type below":        {`{"prompt":"x","permissions":{"sandbox":1}}`, "permissions.sandbox", api.CodeInvalidRequest, "must be a string"},
		"fraction":                {`{"prompt":"x","max_steps":1.5}`, "max_steps", api.CodeInvalidRequest, "whole number"},
		"too large":               {`{"prompt":"x","max_steps":1e30}`, "max_steps", api.CodeInvalidRequest, "whole number"},
		"object for a list":       {`{"prompt":"x","allowed_tools":{}}`, "allowed_tools", api.CodeInvalidRequest, "a list"},
		"list for the permission": {`{"prompt":"x","permissions":[]}`, "permissions", api.CodeInvalidRequest, "an object"},
		"list":                    {`[]`, "", api.CodeInvalidJSON, "object"},
		"null":                    {`null`, "", api.CodeInvalidJSON, "object"},
		"cut":                     {`{"prompt":"x"`, "", api.CodeInvalidJSON, "early"},
		"two":                     {`{"prompt":"x"}{}`, "", api.CodeInvalidJSON, "after"},
		"not UTF-8":               {"{\"prompt\":\"\xff\"}", "", api.CodeInvalidJSON, "UTF-8"},
		"too deep":                {deep, "", api.CodeInvalidJSON, "deeper"},
		"comment":                 {`{/**/"prompt":"x"}`, "", api.CodeInvalidJSON, "JSON"},
	} {
		var r engine.RunRequest
		p := decodeStrict([]byte(c.body), &r)
		if p == nil || p.Code != c.code || p.Field != c.field || !strings.Contains(p.Detail, c.detail) || p.Status != 400 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	var r engine.RunRequest
	p := decodeStrict([]byte(`{"a":1,"b":2,"prompt":"x","c":{"d":1,"d":2}}`), &r)
	if p == nil || len(p.Errors) != 4 || p.Field != "a" || p.Errors[3].Field != "c.d" {
		t.Errorf("all faults at once: %+v", p)
	}
	if p := decodeStrict([]byte(` {"prompt":"x","permissions":{"sandbox":"","approval":"all"},"metadata":{"any":"thing"},"mcp_servers":[{"x":{"y":[1,null]}}]} `), &r); p != nil {
		t.Errorf("a good request: %+v", p)
	}
	if r.Permissions == nil || r.Permissions.Approval != "all" || r.Metadata["any"] != "thing" {
		t.Errorf("decoded %+v", r)
	}
}

func FuzzStrictBodiesAreRefusedOrUnderstoodWhole(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"prompt":"x"}`, `{"prompt":"x","permissions":{"sandbox":"local","allowed_hosts":["a"]}}`,
		`{"metadata":{"a":"b"},"output_schema":{"x":[1,{"y":null}]}}`, `{"prompt":"x","prompt":"y"}`, `[[]]`, `{"a":`, "{\"\xff\":1}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r engine.RunRequest
		if p := decodeStrict(data, &r); p != nil {
			if info, ok := p.Code.Info(); !ok || info.Status != 400 || p.Detail == "" {
				t.Fatalf("problem %+v", p)
			}
			return
		}
		// What was accepted has only known members: they all come back.
		var in, out map[string]any
		if err := json.Unmarshal(data, &in); err != nil {
			t.Fatalf("accepted %q, which is no JSON object: %v", data, err)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &out); err != nil {
			t.Fatal(err)
		}
		known := fieldsOf(reflect.TypeFor[engine.RunRequest]())
		for k := range in {
			if _, ok := known[k]; !ok {
				t.Fatalf("accepted the member %q", k)
			}
		}
	})
}

func FuzzACursorOpensOnlyForItsList(f *testing.F) {
	f.Add("runs", "run_1", "x")
	f.Add("approvals\x00t", "", "AAAA")
	f.Fuzz(func(t *testing.T, list, next, garbage string) {
		if len(next) < 512 {
			sealed := sealCursor(list, next)
			if got, p := openCursor(list, sealed); p != nil || got != next {
				t.Fatalf("openCursor(sealCursor(%q)) = %q, %v", next, got, p)
			}
			if next != "" {
				if _, p := openCursor(list+"x", sealed); p == nil {
					t.Fatal("opened for another list")
				}
			}
		}
		if got, p := openCursor(list, garbage); p == nil && sealCursor(list, got) != garbage {
			t.Fatalf("%q opened as %q", garbage, got)
		}
	})
}

func BenchmarkStrictDecode(b *testing.B) {
	body := []byte(`{"prompt":"SCRIPT: text=ok","permissions":{"sandbox":"workspace","approval":"all"},"allowed_tools":["read","write"],"metadata":{"a":"b"}}`)
	b.ReportAllocs()
	for b.Loop() {
		var r engine.RunRequest
		if p := decodeStrict(body, &r); p != nil {
			b.Fatal(p)
		}
	}
}
