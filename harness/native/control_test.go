package native_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
)

// ofControl counts the records of a session that no model reads: decisions, starts, attempts.
func ofControl(items []native.Item) (n int) {
	for _, it := range items {
		switch it.Kind {
		case native.KindDecision, native.KindStarted, native.KindAttempt, native.KindTodos, native.KindActivated:
			n++
		}
	}
	return n
}

// What a session records for itself never becomes a message: after an approval and a restart the model is sent calls
// of the tools that it knows and nothing else, the same from memory and from a file.
func TestRecordsOfControlNeverReachTheModel(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*rig){"memory": func(*rig) {}, "file": withFile} {
		r := newRig(t, func(r *rig) { change(r); r.agents.PermissionMode = harness.PermissionModeAllowReads },
			call(use{"c1", "write", `{"path":"log","content":"line\n"}`}, use{"c2", "todos", `{"action":"set","todos":[{"id":"1","text":"one","status":"pending"}]}`}), say("one"), say("two"))
		r.prompt("hi")
		r.elsewhere(r.suspend())
		r.goOn(r.approve(r.ask("c1"), true), nil)
		for id := r.ask("c2"); r.session.TurnState() != harness.TurnStateIdle; id = r.ask("c2") {
			r.elsewhere(r.suspend())
			r.goOn(r.approve(id, true), nil)
		}
		s, err := r.session.Stop(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.elsewhere(s)
		r.wantText(r.prompt("more"), "two")
		if n := ofControl(itemsOf(t, r.set.Transcript)); n < 5 {
			t.Fatalf("only %d records of control", n)
		}
		last := r.model.request(2)
		paired(t, last)
		known := toolNames(last)
		for _, m := range last.Messages {
			for _, c := range m.ToolCalls() {
				if !slices.Contains(known, c.ToolName) {
					t.Errorf("%s: a call of %q", name, c.ToolName)
				}
			}
		}
		if len(last.Messages) != 5 || r.read("log") != "line\n" {
			t.Errorf("%s: %d messages, log %q", name, len(last.Messages), r.read("log"))
		}
		seen[name] = strings.ReplaceAll(jsonOf(t, last), r.dir, "DIR")
	}
	if seen["memory"] != seen["file"] {
		t.Errorf("the request is\n%s\nfrom memory and\n%s\nfrom a file", seen["memory"], seen["file"])
	}
}
