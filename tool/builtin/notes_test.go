package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/harness-go/harness/tool"
)

func TestNotesAreKeptByKeyAndScope(t *testing.T) {
	s := newSession(t, false)
	s.env.Memory = new(tool.MapMemory)
	if res := s.call("working_memory", args{"action": "list"}); res.Output != `{"scope":"run","keys":[]}` {
		t.Errorf("%s", res.Output)
	}
	for _, a := range []args{
		{"action": "set", "key": "b", "value": "run <b>"},
		{"action": "set", "key": "a", "value": ""},
		{"action": "set", "key": "b", "value": "agent", "scope": "agent"},
	} {
		decoded[noteResult](t, s.call("working_memory", a))
	}
	for want, a := range map[string]args{
		`{"key":"b","scope":"run","value":"run <b>"}`: {"action": "get", "key": "b"},
		`{"key":"a","scope":"run","value":""}`:        {"action": "get", "key": "a", "scope": "run"},
		`{"key":"b","scope":"agent","value":"agent"}`: {"action": "get", "key": "b", "scope": "agent"},
		`{"scope":"run","keys":["a","b"]}`:            {"action": "list"},
		`{"scope":"conversation","keys":[]}`:          {"action": "list", "scope": "conversation"},
	} {
		if res := s.call("working_memory", a); res.Output != want || res.Error != "" {
			t.Errorf("%v: %s, want %s", a, res.Output, want)
		}
	}
	decoded[noteResult](t, s.call("working_memory", args{"action": "delete", "key": "b"}))
	refused(t, s.call("working_memory", args{"action": "get", "key": "b"}), tool.CodeNotFound, `scope run has no note "b"`)
	refused(t, s.call("working_memory", args{"action": "delete", "key": "b"}), tool.CodeNotFound)
	for word, a := range map[string]args{
		"key is missing":   {"action": "set", "value": "x"},
		"value is missing": {"action": "set", "key": "x"},
		"NUL":              {"action": "get", "key": "a\x00"},
		"scope":            {"action": "get", "key": "a", "scope": "planet"},
		"action":           {"action": "burn", "key": "a"},
	} {
		refused(t, s.call("working_memory", a), tool.CodeInvalidArguments, word)
	}
	refused(t, s.call("working_memory", args{"action": "set", "key": strings.Repeat("é", 200), "value": ""}), tool.CodeTooLarge, "400 bytes")
	refused(t, s.call("working_memory", args{"action": "set", "key": "k", "value": strings.Repeat("v", tool.MaxMemoryValueBytes+1)}), tool.CodeTooLarge, "65537 bytes")
}

// noScope is a memory without the scope agent, whose store can fail.
type noScope struct {
	tool.MapMemory
	err error
}

func (m *noScope) Set(ctx context.Context, scope tool.MemoryScope, key, value string) error {
	if scope == tool.MemoryAgent {
		return fmt.Errorf("scope agent: %w", tool.ErrNoMemoryScope)
	}
	return m.err
}

func TestAScopeThatIsNotThereIsUnavailable(t *testing.T) {
	s := newSession(t, false)
	s.env.Memory = &noScope{err: errors.New("the most keys are kept")}
	refused(t, s.call("working_memory", args{"action": "set", "key": "k", "value": "", "scope": "agent"}), tool.CodeUnavailable, "scope", "use scope run")
	refused(t, s.call("working_memory", args{"action": "set", "key": "k", "value": ""}), tool.CodeFailed, "the most keys")
}

// Approval policies ask about what outlives a run and about skills, and not about a run's own notes.
func TestTheKindOfACallTellsWhatItChanges(t *testing.T) {
	for _, tc := range []struct {
		tool string
		args args
		asks bool
	}{
		{"working_memory", args{"action": "set", "key": "k", "value": "v"}, false},
		{"working_memory", args{"action": "set", "key": "k", "value": "v", "scope": "run"}, false},
		{"working_memory", args{"action": "set", "key": "k", "value": "v", "scope": "conversation"}, true},
		{"working_memory", args{"action": "delete", "key": "k", "scope": "agent"}, true},
		{"working_memory", args{"action": "get", "key": "k", "scope": "agent"}, false},
		{"working_memory", args{"action": "list", "scope": "agent"}, false},
		{"todos", args{"action": "set"}, false},
		{"compact_history", args{"mode": "strip"}, false},
		{"context_status", args{}, false},
		{"skill", args{"command": " "}, false},
		{"skill", args{"command": "deploy now"}, true},
		{"apply_patch", args{"patch": ""}, true},
		{"git_status", args{}, false},
	} {
		raw, err := json.Marshal(tc.args)
		if err != nil {
			t.Fatal(err)
		}
		if kind := lookup(t, tc.tool).KindOf(raw); tool.ApprovalPolicyDestructive.Asks(kind) != tc.asks {
			t.Errorf("%s %s: kind %s", tc.tool, raw, kind)
		}
	}
}

type fakeContext struct {
	mode tool.CompactMode
	keep int
	err  error
}

func (c *fakeContext) Status() tool.ContextStatus {
	return tool.ContextStatus{Messages: 3, Tokens: 50, Window: 100, Pressure: 0.5, Compactions: 1}
}

func (c *fakeContext) RequestCompaction(_ context.Context, mode tool.CompactMode, keep int) error {
	c.mode, c.keep = mode, keep
	return c.err
}

func TestTheContextIsToldAndMadeShorter(t *testing.T) {
	s := newSession(t, false)
	c := &fakeContext{}
	s.env.Context = c
	if res := s.call("context_status", nil); res.Output != `{"message_count":3,"estimated_tokens":50,"estimated":false,"context_window":100,"context_pressure":0.5,"compactions":1}` {
		t.Errorf("%s", res.Output)
	}
	for _, tc := range []struct {
		args args
		mode tool.CompactMode
		keep int
	}{
		{args{"mode": "strip"}, tool.CompactStrip, 4},
		{args{"mode": "summarize", "keep_last": 2}, tool.CompactSummarize, 2},
		{args{"mode": "hybrid", "keep_last": 10}, tool.CompactHybrid, 10},
	} {
		r := decoded[compactHistoryResult](t, s.call("compact_history", tc.args))
		if c.mode != tc.mode || c.keep != tc.keep || !r.Requested || r.KeepLast != tc.keep {
			t.Errorf("%v: %+v, asked for %s, %d", tc.args, r, c.mode, c.keep)
		}
	}
	for word, a := range map[string]args{"mode": {}, "keep_last": {"mode": "strip", "keep_last": 1}, "one of": {"mode": "burn"}} {
		res := s.call("compact_history", a)
		if res.Error != tool.CodeInvalidArguments {
			t.Errorf("%s: %s", word, res.Output)
		}
	}
	c.err = errors.New("nothing to cut")
	refused(t, s.call("compact_history", args{"mode": "strip"}), tool.CodeFailed, "nothing to cut")
}

type fakeSkills struct {
	list []tool.Skill
	err  error
}

func (f *fakeSkills) List(context.Context) ([]tool.Skill, error) { return f.list, f.err }

func (f *fakeSkills) Load(_ context.Context, name, arguments string) (string, error) {
	for _, s := range f.list {
		switch {
		case s.Name != name:
		case s.Unavailable != "":
			return "", errors.New(s.Unavailable)
		default:
			return "do " + arguments, nil
		}
	}
	return "", fs.ErrNotExist
}

func TestSkillsAreListedAndLoaded(t *testing.T) {
	s := newSession(t, false)
	s.env.Skills = &fakeSkills{list: []tool.Skill{
		{Name: "deploy", Description: "ship it", ArgumentHint: "[env]", Source: "/w/.harness/skills/deploy/SKILL.md"},
		{Name: "forked", Description: "x", Source: "/w/y", Unavailable: "context: fork is not available"},
	}}
	r := decoded[skillsResult](t, s.call("skill", args{"command": " "}))
	if len(r.Skills) != 2 || r.Skills[0] != (listedSkill{"deploy", "ship it", "[env]", "/w/.harness/skills/deploy/SKILL.md", ""}) || r.Skills[1].Unavailable == "" {
		t.Errorf("%+v", r)
	}
	for command, want := range map[string]string{
		"deploy":                    "do ",
		"/deploy  to  prod ":        "do to  prod",
		"deploy\nlines\nof it":      "do lines\nof it",
		"deploy " + `"two words" x`: `do "two words" x`,
	} {
		if r := decoded[skillResult](t, s.call("skill", args{"command": command})); r.Skill != "deploy" || r.Instructions != want {
			t.Errorf("%q: %+v", command, r)
		}
	}
	refused(t, s.call("skill", args{"command": "forked"}), tool.CodeUnavailable, "context: fork")
	refused(t, s.call("skill", args{"command": "nope"}), tool.CodeNotFound, `"nope"`, "there are deploy")
	s.env.Skills = &fakeSkills{}
	if r := decoded[skillsResult](t, s.call("skill", args{"command": ""})); len(r.Skills) != 0 || r.Note == "" {
		t.Errorf("%+v", r)
	}
	s.env.Skills = &fakeSkills{err: errors.New("too many skills")}
	refused(t, s.call("skill", args{"command": ""}), tool.CodeFailed, "too many skills")
	many := &fakeSkills{}
	for i := range maxListed + 3 {
		many.list = append(many.list, tool.Skill{Name: fmt.Sprint("s", i), Description: strings.Repeat("é", 1000)})
	}
	s.env.Skills = many
	res := s.call("skill", args{"command": ""})
	if r := decoded[skillsResult](t, res); len(r.Skills) != maxListed || r.More != 3 || len(res.Output) > outputHard {
		t.Errorf("%d skills, %d more, %d bytes", len(r.Skills), r.More, len(res.Output))
	}
}
