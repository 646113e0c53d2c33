package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/harness-go/harness/internal/permit"
	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden is how a definition stands in testdata/core_tools.json.
type golden struct {
	Name        string          `json:"name"`
	Kind        tool.Kind       `json:"kind"`
	Tier        tool.Tier       `json:"tier"`
	Parallel    bool            `json:"parallel"`
	Tags        []string        `json:"tags"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

func TestTheCoreToolsAreThoseOfTheGoldenFile(t *testing.T) {
	var list []golden
	for _, tl := range Core() {
		d := tl.Definition()
		list = append(list, golden{d.Name, d.Kind, d.Tier, d.Parallel, d.Tags, d.Description, d.Schema})
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(list); err != nil {
		t.Fatal(err)
	}
	const file = "testdata/core_tools.json"
	if *update {
		if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("the tools differ from %s; look at the change and run the test with -update", file)
	}
}

// wire is the tools as a model request carries them.
func wire(t testing.TB) []byte {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	var list []function
	for _, tl := range Core() {
		d := tl.Definition()
		list = append(list, function{d.Name, d.Description, d.Schema})
	}
	b, err := json.Marshal(list) // compacts the schemas
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheCoreToolsTakeLittleOfTheContext(t *testing.T) {
	const bound = 13 << 10
	if n := len(wire(t)); n > bound {
		t.Errorf("%d bytes of tool JSON, more than %d", n, bound)
	} else {
		t.Logf("%d bytes of tool JSON", n)
	}
}

// Faults 23, 24: the kind is declared for each tool, and nothing else decides.
func TestEveryCoreToolHasItsKind(t *testing.T) {
	want := map[string]struct {
		kind     tool.Kind
		parallel bool
	}{
		"read": {tool.KindReadonly, true}, "glob": {tool.KindReadonly, true}, "grep": {tool.KindReadonly, true},
		"ls": {tool.KindReadonly, true}, "job_output": {tool.KindReadonly, true},
		"write": {tool.KindEdit, false}, "edit": {tool.KindEdit, false}, "apply_patch": {tool.KindEdit, false},
		"bash": {tool.KindBash, false}, "job_kill": {tool.KindBash, false},
		"git_status": {tool.KindReadonly, true}, "git_diff": {tool.KindReadonly, true}, "context_status": {tool.KindReadonly, true},
		"working_memory": {tool.KindReadonly, false}, "compact_history": {tool.KindReadonly, false}, "skill": {tool.KindOther, false},
		"todos": {tool.KindReadonly, false}, "find_tool": {tool.KindReadonly, false},
		"AskUserQuestion": {tool.KindAsk, false},
	}
	c, err := tool.NewCatalog(Core()...)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Core()) != len(want) || len(c.Deferred()) != 0 {
		t.Errorf("%d core, %d deferred tools", len(c.Core()), len(c.Deferred()))
	}
	for _, tl := range c.All() {
		d := tl.Definition()
		w, ok := want[d.Name]
		if !ok {
			t.Errorf("%s has no kind in this test", d.Name)
		}
		if d.Kind != w.kind || d.Parallel != w.parallel {
			t.Errorf("%s: %s, parallel %v", d.Name, d.Kind, d.Parallel)
		}
		if d.Description == "" {
			t.Errorf("%s has no description", d.Name)
		}
	}
}

func TestEverySchemaRefusesArgumentsThatItDoesNotName(t *testing.T) {
	s := newSession(t, false)
	for _, tl := range Core() {
		refused(t, s.call(tl.Definition().Name, args{"no_such_argument": 1}), tool.CodeInvalidArguments, "no_such_argument")
	}
}

// Fault 79: one code, the argument named, and no text of a decoder.
func TestAWrongTypeNamesTheArgument(t *testing.T) {
	s := newSession(t, false)
	for _, tc := range []struct {
		tool string
		args args
		word string
	}{
		{"read", args{"path": 1}, "path"},
		{"read", args{"path": "x", "limit": "ten"}, "limit"},
		{"read", args{"path": "x", "offset": 0}, "offset"},
		{"read", args{"path": "x", "max_bytes": 2 << 20}, "max_bytes"},
		{"read", args{"path": "x", "limit": 1.5}, "limit"},
		{"read", args{}, "path"},
		{"read", args{"path": "a", "file_path": "b"}, "path"},
		{"read", args{"path": "a", "offset": 1, "cursor": 1}, "cursor"},
		{"write", args{"content": "x"}, "path"},
		{"write", args{"path": "x"}, "content"},
		{"write", args{"path": "x", "content": "a", "text": "b"}, "content"},
		{"write", args{"path": "x", "content": "a", "append": "yes"}, "append"},
		{"edit", args{"path": "x", "old_text": "a"}, "new_text"},
		{"bash", args{"command": "true", "timeout_seconds": 0}, "timeout_seconds"},
		{"bash", args{"command": "true", "timeout_seconds": 3601}, "timeout_seconds"},
		{"bash", args{"command": ""}, "command"},
		{"bash", args{"command": "a\x00b"}, "command"},
		{"job_output", args{}, "shell_id"},
		{"grep", args{"pattern": "("}, "pattern"},
		{"glob", args{"pattern": "[a"}, "pattern"},
		{"todos", args{"action": "burn"}, "action"},
		{"todos", args{"action": "set", "todos": []args{{"text": 1}}}, "text"},
		{"AskUserQuestion", args{"questions": []args{}}, "questions"},
		{"find_tool", args{"query": ""}, "query"},
		{"read", args{"path": "x", "cursor": 1e300}, "read"},
	} {
		res := s.call(tc.tool, tc.args)
		refused(t, res, tool.CodeInvalidArguments, tc.word)
	}
}

func TestNumbersAreWholeInAnyNotation(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "1\n2\n3\n")
	p := permit.New("c", "read", json.RawMessage(`{"path":"f","offset":2.0,"limit":1e0}`),
		func(context.Context) error { return nil }, func(context.Context, permit.Outcome) error { return nil })
	res, err := tool.Execute(t.Context(), lookup(t, "read"), p, s.env)
	if err != nil || !strings.Contains(res.Output, `"content":"2\n"`) {
		t.Errorf("%v: %s", err, res.Output)
	}
}

// bareSession has the basic surface only.
type bareSession struct{ sandbox.Session }

func TestAToolWithoutWhatItNeedsSaysThatItIsUnavailable(t *testing.T) {
	s := newSession(t, false)
	s.env = tool.Env{Sandbox: bareSession{}}
	for name, a := range map[string]args{
		"read": {"path": "x"}, "write": {"path": "x", "content": ""}, "edit": {"path": "x", "old_text": "a", "new_text": "b"},
		"apply_patch": {"path": "x", "find": "a", "replace": "b"},
		"bash":        {"command": "true"}, "job_output": {"shell_id": "job_1"}, "job_kill": {"shell_id": "job_1"},
		"glob": {"pattern": "*"}, "grep": {"pattern": "x"}, "ls": {}, "git_status": {}, "git_diff": {}, "todos": {"action": "get"},
		"working_memory": {"action": "list"}, "context_status": {}, "compact_history": {"mode": "strip"}, "skill": {"command": ""}, "find_tool": {"query": "web"},
		"AskUserQuestion": {"questions": []args{{"question": "?", "header": "h", "options": []args{
			{"label": "a", "description": ""}, {"label": "b", "description": ""},
		}}}},
	} {
		refused(t, s.call(name, a), tool.CodeUnavailable)
	}
	refused(t, s.call("read", args{"path": "artifact:art_x"}), tool.CodeUnavailable)
	full := newSession(t, false)
	full.env.Jobs = nil
	refused(t, full.call("bash", args{"command": "true", "run_in_background": true}), tool.CodeUnavailable, "run_in_background")
}

func TestAnEndedSandboxIsForTheHarness(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "x")
	if err := s.env.Sandbox.(sandbox.NetworkSession).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]args{
		"read": {"path": "f"}, "write": {"path": "f", "content": "y"}, "edit": {"path": "f", "old_text": "x", "new_text": "y"},
		"bash": {"command": "true"}, "glob": {"pattern": "*"}, "grep": {"pattern": "x"}, "ls": {},
		"apply_patch": {"path": "f", "find": "x", "replace": "y"}, "git_status": {}, "git_diff": {},
	} {
		res, err := s.try(t.Context(), name, a)
		// Execute commits the error of a body as a failure where the context still lives.
		if err == nil && res.Error != tool.CodeFailed {
			t.Errorf("%s: %q", name, res.Output)
		}
	}
}

func BenchmarkCatalogueJSON(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(float64(len(wire(b))), "bytes")
	}
}
