package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func testTool(t *testing.T, name string, tier Tier, desc string, tags ...string) *Tool {
	t.Helper()
	tl, err := New(Definition{
		Name: name, Description: desc, Schema: json.RawMessage(`{"type":"object"}`), Tier: tier, Kind: KindReadonly, Tags: tags,
	}, func(context.Context, Env, json.RawMessage) (Result, error) { return Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func names[T any](list []T, name func(T) string) string {
	var out []string
	for _, v := range list {
		out = append(out, name(v))
	}
	return strings.Join(out, " ")
}

func toolName(t *Tool) string     { return t.def.Name }
func defName(d Definition) string { return d.Name }

func TestCatalogKeepsTheOrderOfRegistration(t *testing.T) {
	c, err := NewCatalog(testTool(t, "zz", TierCore, ""), testTool(t, "d1", TierDeferred, ""), testTool(t, "aa", TierCore, ""), testTool(t, "d0", TierDeferred, ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		what string
		got  []*Tool
		want string
	}{
		{"all", c.All(), "zz d1 aa d0"}, {"core", c.Core(), "zz aa"}, {"deferred", c.Deferred(), "d1 d0"},
	} {
		if got := names(tc.got, toolName); got != tc.want {
			t.Errorf("%s = %q, want %q", tc.what, got, tc.want)
		}
	}
	if _, ok := c.Lookup("d1"); !ok {
		t.Error("d1 not found")
	}
	if _, ok := c.Lookup("nope"); ok {
		t.Error("found a tool that is not there")
	}
}

func TestCatalogRefusesTwoToolsOfOneName(t *testing.T) {
	if _, err := NewCatalog(testTool(t, "x", TierCore, ""), testTool(t, "x", TierDeferred, "")); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("error = %v", err)
	}
	if _, err := NewCatalog(nil); err == nil {
		t.Error("a nil tool was accepted")
	}
}

func TestUserToolsWinOverBuiltInOnesInTheirPlace(t *testing.T) {
	c, _ := NewCatalog(testTool(t, "a", TierCore, "built in"), testTool(t, "b", TierCore, "built in"))
	m, err := c.With(testTool(t, "new", TierCore, "user"), testTool(t, "a", TierCore, "user"))
	if err != nil {
		t.Fatal(err)
	}
	if got := names(m.All(), toolName); got != "a b new" {
		t.Errorf("order = %q", got)
	}
	if a, _ := m.Lookup("a"); a.def.Description != "user" {
		t.Error("the built-in tool won")
	}
	if a, _ := c.Lookup("a"); a.def.Description != "built in" {
		t.Error("the old catalogue changed")
	}
}

// Fault 23: a tool cannot be made without an explicit kind and tier.
func TestAToolWithoutKindOrTierCannotBeMade(t *testing.T) {
	body := func(context.Context, Env, json.RawMessage) (Result, error) { return Result{}, nil }
	for _, d := range []Definition{
		{Name: "x", Tier: TierCore, Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "x", Kind: KindReadonly, Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "x", Kind: "harmless", Tier: TierCore, Schema: json.RawMessage(`{"type":"object"}`)},
		{Name: "x", Kind: KindEdit, Tier: TierCore, Parallel: true, Schema: json.RawMessage(`{"type":"object"}`)},
	} {
		if _, err := New(d, body); err == nil {
			t.Errorf("accepted %+v", d)
		}
	}
}

func TestSearchScoresNameTagAndDescription(t *testing.T) {
	c, err := NewCatalog(
		testTool(t, "git_log", TierDeferred, "history of commits"), // git in name: 5
		testTool(t, "blame", TierDeferred, "who wrote it", "git"),  // tag: 8
		testTool(t, "git", TierDeferred, "anything"),               // name: 10
		testTool(t, "forge", TierDeferred, "talks to git servers"), // description: 1
		testTool(t, "hub", TierDeferred, "", "github"),             // in tag: 3
		testTool(t, "git_core", TierCore, "git git"),               // core is never found
		testTool(t, "web", TierDeferred, "pages"),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ query, want string }{
		{"git", "git blame git_log hub forge"},
		{"GIT", "git blame git_log hub forge"},
		{"git history", "git blame git_log hub forge"}, // git_log: 6
		{"commits, history!", "git_log"},
		{"it is a ui", ""}, // no word of three letters
		{"", ""},
		{"nothing like that", ""},
	} {
		if got := names(c.Search(tc.query), defName); got != tc.want {
			t.Errorf("Search(%q) = %q, want %q", tc.query, got, tc.want)
		}
	}
}

// Fault 80.
func TestSearchGivesTheSameTenEveryTime(t *testing.T) {
	var tools []*Tool
	for i := range 25 {
		tools = append(tools, testTool(t, fmt.Sprintf("tool_%02d", i), TierDeferred, "web page"))
	}
	c, err := NewCatalog(tools...)
	if err != nil {
		t.Fatal(err)
	}
	want := names(tools[:MaxSearchHits], toolName)
	for range 100 {
		if got := names(c.Search("web page"), defName); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestActivationBelongsToOneRunAndEndsWithIt(t *testing.T) {
	var a ActivationTracker
	a.Activate("r1", "x", "y")
	a.Activate("r1", "x", "z")
	if got := strings.Join(a.Names("r1"), " "); got != "x y z" {
		t.Errorf("names = %q", got)
	}
	if a.IsActive("r2", "x") || !a.IsActive("r1", "x") {
		t.Error("activation leaked to another run or was lost")
	}
	a.Cleanup("r1")
	if a.IsActive("r1", "x") || len(a.Names("r1")) != 0 {
		t.Error("activation outlived its run")
	}
}

func TestActivationIsSafeForConcurrentUse(t *testing.T) {
	var a ActivationTracker
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			run := fmt.Sprint("r", i%4)
			a.Activate(run, fmt.Sprint("t", i))
			a.IsActive(run, "t0")
			a.Names(run)
			if i%5 == 0 {
				a.Cleanup(run)
			}
		})
	}
	wg.Wait()
}

func TestActivatorNeitherFindsNorActivatesWhatTheRunMayNotUse(t *testing.T) {
	c, _ := NewCatalog(testTool(t, "web_fetch", TierDeferred, ""), testTool(t, "web_search", TierDeferred, ""), testTool(t, "read", TierCore, ""))
	var tracker ActivationTracker
	denied := errors.New("not in allowed_tools")
	act := NewActivator(c, &tracker, "r1", func(n string) error {
		if n == "web_fetch" {
			return denied
		}
		return nil
	})
	if got := names(act.Find("web"), defName); got != "web_search" {
		t.Errorf("found %q", got)
	}
	if err := act.Activate("web_search", "web_fetch"); !errors.Is(err, denied) {
		t.Errorf("error = %v", err)
	}
	if tracker.IsActive("r1", "web_search") {
		t.Error("a refused activation was half done")
	}
	for _, n := range []string{"read", "nope"} {
		if err := act.Activate(n); !errors.Is(err, ErrNotDeferred) {
			t.Errorf("Activate(%s) = %v", n, err)
		}
	}
	if err := act.Activate("web_search"); err != nil || !slices.Equal(tracker.Names("r1"), []string{"web_search"}) {
		t.Errorf("activate: %v, %v", err, tracker.Names("r1"))
	}
	if d, ok := act.Lookup("read"); !ok || d.Name != "read" {
		t.Error("lookup failed")
	}
}

func TestACallsKindGoesByItsArgumentsWhereTheToolSaysSo(t *testing.T) {
	body := func(context.Context, Env, json.RawMessage) (Result, error) { return Result{}, nil }
	def := Definition{Name: "x", Schema: json.RawMessage(`{"type":"object"}`), Tier: TierCore, Kind: KindReadonly}
	plain, err := New(def, body)
	if err != nil {
		t.Fatal(err)
	}
	def.CallKind = func(args json.RawMessage) Kind {
		if strings.Contains(string(args), "write") {
			return KindEdit
		}
		return "nonsense"
	}
	differs, err := New(def, body)
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]Kind{`{"a":"write"}`: KindEdit, `{}`: KindReadonly} {
		if plain.KindOf(json.RawMessage(args)) != KindReadonly || differs.KindOf(json.RawMessage(args)) != want {
			t.Errorf("%s: %s", args, differs.KindOf(json.RawMessage(args)))
		}
	}
}

func TestTheThreeAlwaysAvailableTools(t *testing.T) {
	if len(AlwaysAvailableTools) != 3 || !AlwaysAvailableTools["AskUserQuestion"] || !AlwaysAvailableTools["find_tool"] || !AlwaysAvailableTools["skill"] {
		t.Errorf("AlwaysAvailableTools = %v", AlwaysAvailableTools)
	}
}
