package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/control"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

var ctx = context.Background()

type fixture struct {
	gate   *control.Gate
	ledger *control.Memory
	facts  []event.Type
	now    time.Time
}

func newFixture(t *testing.T, p control.Policy) *fixture {
	t.Helper()
	f := &fixture{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	f.ledger = &control.Memory{Emit: func(x event.Fact) { f.facts = append(f.facts, x.Type()) }}
	g, err := control.NewGate(control.Config{Policy: p, Ledger: f.ledger, Now: func() time.Time { return f.now }})
	if err != nil {
		t.Fatal(err)
	}
	f.gate = g
	return f
}

func (f *fixture) decide(t *testing.T, c control.Call) control.Decision {
	t.Helper()
	d, err := f.gate.Decide(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func call(id, name string, kind tool.Kind) control.Call {
	return control.Call{ID: id, Harness: "native", Tool: name, Kind: kind, Arguments: json.RawMessage(`{"path":"f"}`), Cwd: "/w",
		Check: func(json.RawMessage) error { return nil }}
}

type hook struct {
	name string
	fn   func(control.Call) (control.Verdict, error)
}

func (h hook) Name() string { return h.name }
func (h hook) Decide(_ context.Context, c control.Call) (control.Verdict, error) {
	return h.fn(c)
}

func TestJoinOnlyRaises(t *testing.T) {
	order := []control.Outcome{control.Allow, control.Ask, control.Deny}
	for i, a := range order {
		for j, b := range order {
			if got, want := control.Join(a, b), order[max(i, j)]; got != want {
				t.Errorf("Join(%s, %s) = %s, want %s", a, b, got, want)
			}
		}
	}
	if control.Join(control.Allow, "maybe") != control.Deny {
		t.Error("an unknown outcome must count as deny")
	}
}

func TestListsDecideAtTheCall(t *testing.T) {
	active := func(n string) bool { return n == "activated" }
	deferred := func(name string) control.Call {
		c := call("c", name, tool.KindReadonly)
		c.Deferred = true
		return c
	}
	for _, tc := range []struct {
		name   string
		policy control.Policy
		call   control.Call
		want   control.Outcome
		reason string
	}{
		{"no lists allow", control.Policy{}, call("c", "bash", tool.KindBash), control.Allow, ""},
		{"allowed_tools refuses what it does not list", control.Policy{Allowed: []string{"read"}}, call("c", "bash", tool.KindBash), control.Deny, "bash is not among the tools allowed to this run"},
		{"always-available tools pass allowed_tools", control.Policy{Allowed: []string{"read"}}, call("c", "find_tool", tool.KindReadonly), control.Allow, ""},
		{"denied_tools takes always-available tools away", control.Policy{Denied: []string{"find_tool"}}, call("c", "find_tool", tool.KindReadonly), control.Deny, "denied to this run"},
		{"declared list has the exact words", control.Policy{Declared: []string{"Read"}, NamedAgent: true}, call("c", "WebFetch", tool.KindNetwork), control.Deny, "WebFetch is not among the tools this agent declares"},
		{"a named agent must list the question tool", control.Policy{Declared: []string{"Read"}, NamedAgent: true}, call("c", "AskUserQuestion", tool.KindAsk), control.Deny, "AskUserQuestion is not among the tools this agent declares"},
		{"an empty declared list allows nothing", control.Policy{Declared: []string{}}, call("c", "bash", tool.KindBash), control.Deny, "declares"},
		{"a deferred tool needs activation", control.Policy{Active: active}, deferred("web_fetch"), control.Deny, "activate it with find_tool"},
		{"an activated tool runs", control.Policy{Active: active}, deferred("activated"), control.Allow, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, tc.policy)
			d := f.decide(t, tc.call)
			if d.Outcome != tc.want || !strings.Contains(d.Reason, tc.reason) {
				t.Fatalf("got %s %q", d.Outcome, d.Reason)
			}
			if d.Outcome == control.Deny && (len(f.facts) != 1 || f.facts[0] != event.ToolCallBlocked) {
				t.Errorf("a refusal must be one tool.call.blocked, got %v", f.facts)
			}
			if (d.Permit != nil) != (d.Outcome == control.Allow) {
				t.Error("only an allow carries a permit")
			}
		})
	}
}

func TestApprovalPolicyAsksByDeclaredKind(t *testing.T) {
	kinds := []tool.Kind{tool.KindReadonly, tool.KindEdit, tool.KindBash, tool.KindNetwork, tool.KindAgent, tool.KindOther, tool.KindAsk, "new-kind"}
	asks := map[tool.ApprovalPolicy]string{
		tool.ApprovalPolicyNone:        "        ",
		tool.ApprovalPolicyDestructive: " XXXXX X",
		tool.ApprovalPolicyAll:         "XXXXXX X",
	}
	for policy, row := range asks {
		for i, k := range kinds {
			f := newFixture(t, control.Policy{Approval: policy})
			if got := f.decide(t, call("c", "x", k)).Outcome == control.Ask; got != (row[i] == 'X') {
				t.Errorf("policy %s, kind %s: asks = %v", policy, k, got)
			}
		}
	}
}

func TestHooksAreChainedAndFailClosed(t *testing.T) {
	rewrite := hook{"rewrite", func(control.Call) (control.Verdict, error) {
		return control.Verdict{Arguments: json.RawMessage(`{"path":"safe"}`)}, nil
	}}
	var seen string
	look := hook{"look", func(c control.Call) (control.Verdict, error) {
		seen = string(c.Arguments)
		return control.Verdict{}, nil
	}}
	f := newFixture(t, control.Policy{Hooks: []control.Hook{rewrite, look}})
	d := f.decide(t, call("c", "read", tool.KindReadonly))
	if seen != `{"path":"safe"}` || string(d.Arguments) != seen || string(d.Permit.Arguments()) != seen {
		t.Fatalf("the rewrite did not reach the next hook and the permit: %s, %s", seen, d.Arguments)
	}

	noCheck := call("c2", "read", tool.KindReadonly)
	noCheck.Check = nil
	badRewrite := call("c3", "read", tool.KindReadonly)
	badRewrite.Check = func(json.RawMessage) error { return errors.New("path is required") }
	for name, tc := range map[string]struct {
		hook hook
		call control.Call
		want string
	}{
		"error":           {hook{"h", func(control.Call) (control.Verdict, error) { return control.Verdict{}, errors.New("boom") }}, call("c", "read", tool.KindReadonly), "hook h failed: boom; the call was not made"},
		"panic":           {hook{"h", func(control.Call) (control.Verdict, error) { panic("oh") }}, call("c", "read", tool.KindReadonly), "hook h failed: panic: oh"},
		"unknown outcome": {hook{"h", func(control.Call) (control.Verdict, error) { return control.Verdict{Outcome: "sure"}, nil }}, call("c", "read", tool.KindReadonly), "unknown decision"},
		"no carrier":      {rewrite, noCheck, "cannot carry changed arguments"},
		"bad rewrite":     {rewrite, badRewrite, "path is required"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, control.Policy{Hooks: []control.Hook{tc.hook}}).decide(t, tc.call)
			if d.Outcome != control.Deny || d.Stage != control.StageHook || !strings.Contains(d.Reason, tc.want) {
				t.Errorf("got %s at %s: %s", d.Outcome, d.Stage, d.Reason)
			}
		})
	}
}

func TestRulesSeeTheFinalArgumentsAndNothingLowersADecision(t *testing.T) {
	rewrite := hook{"rewrite", func(control.Call) (control.Verdict, error) {
		return control.Verdict{Outcome: control.Allow, Arguments: json.RawMessage(`{"path":"/etc/shadow"}`)}, nil
	}}
	rule := hook{"no-etc", func(c control.Call) (control.Verdict, error) {
		if strings.Contains(string(c.Arguments), "/etc/") {
			return control.Verdict{Outcome: control.Deny, Reason: "not /etc"}, nil
		}
		return control.Verdict{Outcome: control.Allow}, nil
	}}
	f := newFixture(t, control.Policy{Hooks: []control.Hook{rewrite}, Rules: []control.Rule{rule}, Approval: tool.ApprovalPolicyAll})
	if d := f.decide(t, call("c", "read", tool.KindReadonly)); d.Outcome != control.Deny || d.Stage != control.StageRule {
		t.Fatalf("got %s at %s", d.Outcome, d.Stage)
	}
}

func TestAHookThatNeverAnswersIsRefused(t *testing.T) {
	slow := waiting{}
	f := newFixture(t, control.Policy{Hooks: []control.Hook{slow}, HookTimeout: time.Millisecond})
	if d := f.decide(t, call("c", "read", tool.KindReadonly)); d.Outcome != control.Deny || !strings.Contains(d.Reason, "hook waiting failed") {
		t.Fatalf("got %s: %s", d.Outcome, d.Reason)
	}
}

type waiting struct{}

func (waiting) Name() string { return "waiting" }
func (waiting) Decide(ctx context.Context, _ control.Call) (control.Verdict, error) {
	<-ctx.Done()
	return control.Verdict{Outcome: control.Allow}, nil
}

func TestAnAskIsOneRecordHoweverOftenItIsBrought(t *testing.T) {
	f := newFixture(t, control.Policy{Approval: tool.ApprovalPolicyAll})
	c := call("c", "bash", tool.KindBash)
	first := f.decide(t, c)
	again := f.decide(t, c)
	if first.Outcome != control.Ask || first.ApprovalID == "" || first.ApprovalID != again.ApprovalID {
		t.Fatalf("first %+v, again %+v", first, again)
	}
	if want := f.now.Add(control.DefaultApprovalDeadline); !first.DeadlineAt.Equal(want) {
		t.Errorf("deadline %s, want %s", first.DeadlineAt, want)
	}
	if len(f.facts) != 1 {
		t.Errorf("facts %v", f.facts)
	}
}

func TestAnApprovedCallRunsOnceWithTheApprovedArguments(t *testing.T) {
	f := newFixture(t, control.Policy{Approval: tool.ApprovalPolicyAll})
	c := call("c", "bash", tool.KindBash)
	ask := f.decide(t, c)
	if err := f.ledger.Resolve(ask.ApprovalID, true, "", "", "ana"); err != nil {
		t.Fatal(err)
	}
	d := f.decide(t, c)
	if d.Outcome != control.Allow {
		t.Fatalf("got %s: %s", d.Outcome, d.Reason)
	}
	other := f.decide(t, c) // a second permit of the same approval
	if err := d.Permit.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Permit.Begin(ctx); err == nil {
		t.Error("a permit was used twice")
	}
	var conflict *event.ConflictError
	if err := other.Permit.Begin(ctx); !errors.As(err, &conflict) {
		t.Errorf("an approval was spent twice: %v", err)
	}
	if _, err := f.gate.Decide(ctx, c); err == nil {
		t.Error("a started call was decided again")
	}
}

func TestADeniedOrExpiredCallIsNotMade(t *testing.T) {
	f := newFixture(t, control.Policy{Approval: tool.ApprovalPolicyAll})
	c := call("c", "bash", tool.KindBash)
	ask := f.decide(t, c)
	if err := f.ledger.Resolve(ask.ApprovalID, false, "", "not on Friday", "ana"); err != nil {
		t.Fatal(err)
	}
	d := f.decide(t, c)
	if d.Outcome != control.Deny || d.Stage != control.StagePerson || !strings.Contains(d.Reason, "not on Friday") {
		t.Fatalf("got %s at %s: %s", d.Outcome, d.Stage, d.Reason)
	}
	var conflict *event.ConflictError
	if err := f.ledger.Resolve(ask.ApprovalID, true, "", "", "bob"); !errors.As(err, &conflict) {
		t.Errorf("a contrary answer was taken: %v", err)
	}
	if err := f.ledger.Resolve(ask.ApprovalID, false, "", "", "bob"); err != nil {
		t.Errorf("the same answer again must be no error: %v", err)
	}
}

func TestACallThatThePolicyNowDeniesIsNotMadeThoughApproved(t *testing.T) {
	deny := false
	rule := hook{"r", func(control.Call) (control.Verdict, error) {
		if deny {
			return control.Verdict{Outcome: control.Deny, Reason: "new rule"}, nil
		}
		return control.Verdict{}, nil
	}}
	f := newFixture(t, control.Policy{Approval: tool.ApprovalPolicyAll, Rules: []control.Rule{rule}})
	c := call("c", "bash", tool.KindBash)
	ask := f.decide(t, c)
	_ = f.ledger.Resolve(ask.ApprovalID, true, "", "", "ana")
	d := f.decide(t, c)
	deny = true
	var refused *control.RefusedError
	if err := d.Permit.Begin(ctx); !errors.As(err, &refused) || refused.Decision.Reason != "new rule" {
		t.Fatalf("Begin: %v", err)
	}
}

func TestACallThatChangedAfterItsApprovalIsRefused(t *testing.T) {
	f := newFixture(t, control.Policy{Approval: tool.ApprovalPolicyAll})
	c := call("c", "bash", tool.KindBash)
	ask := f.decide(t, c)
	_ = f.ledger.Resolve(ask.ApprovalID, true, "", "", "ana")
	c.Cwd = "/elsewhere"
	if d := f.decide(t, c); d.Outcome != control.Deny || d.Reason != "the call changed after it was approved" {
		t.Fatalf("got %s: %s", d.Outcome, d.Reason)
	}
}

func TestASessionGrantCoversOnlyTheEqualCall(t *testing.T) {
	f := newFixture(t, control.Policy{Approval: tool.ApprovalPolicyAll})
	ask := f.decide(t, call("c1", "bash", tool.KindBash))
	_ = f.ledger.Resolve(ask.ApprovalID, true, event.ScopeSession, "", "ana")
	if d := f.decide(t, call("c2", "bash", tool.KindBash)); d.Outcome != control.Allow {
		t.Errorf("the equal call: %s", d.Outcome)
	}
	changed := call("c3", "bash", tool.KindBash)
	changed.Arguments = json.RawMessage(`{"path":"g"}`)
	if d := f.decide(t, changed); d.Outcome != control.Ask {
		t.Errorf("another call: %s", d.Outcome)
	}
}

func TestUnattendedRunsDenyInsteadOfAsking(t *testing.T) {
	f := newFixture(t, control.Policy{Approval: tool.ApprovalPolicyAll, Unattended: true})
	if d := f.decide(t, call("c", "bash", tool.KindBash)); d.Outcome != control.Deny {
		t.Fatalf("got %s", d.Outcome)
	}
}

func TestACallThatDiedWhileRunningIsNeverRunAgainUnlessReadonly(t *testing.T) {
	f := newFixture(t, control.Policy{})
	write := call("w", "write", tool.KindEdit)
	if err := f.decide(t, write).Permit.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	rec, _ := f.gate.Recall(ctx, "w")
	p, o, err := f.gate.Settle(ctx, write, rec)
	if err != nil || p != nil || o == nil || !o.Interrupted || !strings.Contains(o.Output, control.InterruptedText) {
		t.Fatalf("permit %v, outcome %+v, %v", p, o, err)
	}
	read := call("r", "read", tool.KindReadonly)
	if err := f.decide(t, read).Permit.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	rec, _ = f.gate.Recall(ctx, "r")
	p, o, err = f.gate.Settle(ctx, read, rec)
	if err != nil || p == nil || o != nil {
		t.Fatalf("permit %v, outcome %+v, %v", p, o, err)
	}
	before := len(f.facts)
	if err := p.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.End(ctx, control.CallOutcome{Output: "x"}); err != nil {
		t.Fatal(err)
	}
	if got := f.facts[before:]; len(got) != 1 || got[0] != event.ToolCallCompleted {
		t.Errorf("a repeated read must add its result alone, got %v", got)
	}
}

func TestDigestBindsToolArgumentsAndFolder(t *testing.T) {
	base := control.Digest("bash", json.RawMessage(`{"a":1,"b":"<x>"}`), "/w")
	if got := control.Digest("bash", json.RawMessage(`{ "b":"<x>", "a":1 }`), "/w"); got != base {
		t.Error("order and blanks must not count")
	}
	for name, other := range map[string]string{
		"tool":      control.Digest("read", json.RawMessage(`{"a":1,"b":"<x>"}`), "/w"),
		"arguments": control.Digest("bash", json.RawMessage(`{"a":2,"b":"<x>"}`), "/w"),
		"number":    control.Digest("bash", json.RawMessage(`{"a":1.0,"b":"<x>"}`), "/w"),
		"folder":    control.Digest("bash", json.RawMessage(`{"a":1,"b":"<x>"}`), "/v"),
		"invalid":   control.Digest("bash", json.RawMessage(`{"a":1`), "/w"),
	} {
		if other == base {
			t.Errorf("%s does not count", name)
		}
	}
}

func FuzzDigest(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":null}]}`))
	f.Add([]byte(`nonsense`))
	f.Fuzz(func(t *testing.T, args []byte) {
		d := control.Digest("t", args, "/w")
		if d != control.Digest("t", args, "/w") || len(d) != len("sha256:")+64 {
			t.Fatal(d)
		}
	})
}

func BenchmarkDecideAllow(b *testing.B) {
	g, _ := control.NewGate(control.Config{Ledger: &control.Memory{}})
	c := call("c", "read", tool.KindReadonly)
	for b.Loop() {
		if _, err := g.Decide(ctx, c); err != nil {
			b.Fatal(err)
		}
	}
}
