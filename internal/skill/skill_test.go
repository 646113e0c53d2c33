package skill

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// world is a workspace and a user's folder.
type world struct {
	t         *testing.T
	workspace string
	user      string
	*Finder
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, workspace: t.TempDir(), user: t.TempDir()}
	f, err := New(Options{Workspace: w.workspace, UserDir: w.user})
	if err != nil {
		t.Fatal(err)
	}
	w.Finder = f
	return w
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// add writes a skill into the workspace.
func (w *world) add(folder, name, more, body string) {
	w.t.Helper()
	write(w.t, filepath.Join(w.workspace, folder, name, "SKILL.md"), "---\nname: "+name+"\ndescription: from "+folder+"\n"+more+"---\n"+body)
}

func (w *world) list() map[string]string {
	w.t.Helper()
	list, err := w.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	out := make(map[string]string)
	last := ""
	for _, s := range list {
		if s.Name <= last {
			w.t.Errorf("%s stands after %s", s.Name, last)
		}
		last = s.Name
		out[s.Name] = s.Description + "|" + s.Unavailable
	}
	return out
}

func (w *world) load(name, arguments string) string {
	w.t.Helper()
	text, err := w.Load(w.t.Context(), name, arguments)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func TestTheNearestSkillWins(t *testing.T) {
	w := newWorld(t)
	w.add(".claude/skills", "all", "", "claude")
	w.add(".agents/skills", "all", "", "agents")
	w.add(".agents/skills", "two", "", "agents")
	w.add(".claude/skills", "two", "", "claude")
	w.add(".claude/skills", "one", "", "claude")
	for _, name := range []string{"all", "mine"} {
		write(t, filepath.Join(w.user, name, "SKILL.md"), "---\nname: "+name+"\ndescription: the user's\n---\nuser\n")
	}
	write(t, filepath.Join(w.workspace, ".agents/skills/README.md"), "no skill")
	write(t, filepath.Join(w.workspace, ".agents/skills/empty/notes.md"), "no skill")
	want := map[string]string{"all": "from .agents/skills|", "two": "from .agents/skills|", "one": "from .claude/skills|", "mine": "the user's|"}
	got := w.list()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for name, text := range map[string]string{"all": "agents", "two": "agents", "one": "claude", "mine": "user"} {
		if got := w.load(name, ""); got != text {
			t.Errorf("%s: %q", name, got)
		}
	}
	w.add(".harness/skills", "all", "", "nearest")
	if got := w.load("all", ""); got != "nearest" {
		t.Errorf("what is on disk is not read anew: %q", got)
	}
	for _, name := range []string{"none", "", "../all", "all/..", ".", "a b", strings.Repeat("n", 65)} {
		if _, err := w.Load(t.Context(), name, ""); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWithoutFoldersThereAreNoSkills(t *testing.T) {
	for _, o := range []Options{{}, {Workspace: t.TempDir()}, {Workspace: "/no/such/folder", UserDir: "/no/such/folder"}} {
		f, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := f.List(t.Context()); len(list) != 0 || err != nil {
			t.Errorf("%+v: %v, %v", o, list, err)
		}
	}
	for _, o := range []Options{{Workspace: "rel"}, {UserDir: "rel"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestPlaceholdersAreFilledOnce(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.workspace, ".harness/skills/s")
	for _, tc := range []struct{ body, arguments, want string }{
		{"all: $ARGUMENTS.", "a b", "all: a b."},
		{"$1-$2-$3", `one "two words" `, "one-two words-"},
		{"$1", "$2 x", "$2"},
		{"$ARGUMENTS", "$WORKSPACE", "$WORKSPACE"},
		{"$10 $0 $ $$1 $ARGUMENTS_2 ${1}", "x", "$10 $0 $ $x $ARGUMENTS_2 ${1}"},
		{"in $WORKSPACE, see $SKILL_DIR/x.md", "", "in " + w.workspace + ", see " + dir + "/x.md"},
		{"nothing", "a", "nothing\n\nARGUMENTS: a"},
		{"nothing", "", "nothing"},
		{"$1|$2|$3", `it's 'a b' "c`, `it's|a b|"c`},
	} {
		w.add(".harness/skills", "s", "", tc.body)
		if got := w.load("s", tc.arguments); got != tc.want {
			t.Errorf("%q with %q: %q, want %q", tc.body, tc.arguments, got, tc.want)
		}
	}
}

func TestWhatIsNotBuiltIsRefusedByName(t *testing.T) {
	w := newWorld(t)
	for more, word := range map[string]string{
		"allowed-tools: Bash(git *)\n":     "allowed-tools",
		"allowed-tools: [read]\n":          "allowed-tools",
		"allowed-tools:\n  - read\n":       "allowed-tools",
		"allowed-tools: []\n":              "allowed-tools",
		"disallowed-tools: bash\n":         "disallowed-tools",
		"context: fork\n":                  "context: fork",
		"hooks:\n  PreToolUse: []\n":       "hooks",
		"agent: Explore\n":                 "agent",
		"model: opus\n":                    "model",
		"disable-model-invocation: true\n": "only a person",
	} {
		w.add(".harness/skills", "s", more, "body")
		w.refused(more, word)
	}
	for _, body := range []string{"Now: !`git status`", "x\n```!\ngit status\n```\n", "  ``` !ls\n```"} {
		w.add(".harness/skills", "s", "", body)
		w.refused(body, "commands that run while it is loaded")
	}
	for _, more := range []string{
		"context: conversation\n", "context: inline\n", "context:\n", "license: MIT\nmetadata:\n  author: x\n  tags: [a, b]\n", "version: 1.2\n", "version: 2\n",
		"disable-model-invocation: false\n", "allowed-tools:\n", "argument-hint: '[file]'\n", "unknown-key: 1\n",
	} {
		w.add(".harness/skills", "s", more, "Hello! `code` and !important\n")
		if got := w.list()["s"]; got != "from .harness/skills|" {
			t.Errorf("%q: %s", more, got)
		}
	}
}

// refused checks that the skill s is listed with the reason and cannot be loaded.
func (w *world) refused(what, word string) {
	w.t.Helper()
	if got := w.list()["s"]; !strings.Contains(got, word) {
		w.t.Errorf("%q is listed as %q", what, got)
	}
	_, err := w.Load(w.t.Context(), "s", "")
	if err == nil || !strings.Contains(err.Error(), word) || errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("%q: %v", what, err)
	}
}

func TestABrokenSkillSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	for text, word := range map[string]string{
		"no front matter":                                                           "does not begin with front matter",
		"---\nname: s\n":                                                            "no end",
		"---\nname: other\ndescription: d\n---\n":                                   `its name is "other"`,
		"---\nname: s\n---\n":                                                       "description is missing",
		"---\ndescription: d\n---\n":                                                "name is missing",
		"---\nname: 7\ndescription: d\n---\n":                                       "name must be text",
		"---\nname: s\ndescription: [a]\n---\n":                                     "description must be text",
		"---\nname: s\ndescription: true\n---\n":                                    "description must be text",
		"---\nname: s\ndescription: d\ncontext: planet\n---":                        "context",
		"---\nname: s\ndescription: d\ndisable-model-invocation: maybe\n---":        "true or false",
		"---\n- a\n---\n":                                                           "not a mapping",
		"---\nname: s\ndescription: &a d\nx: *a\n---\n":                             "aliases",
		"---\nname: s\nname: s\ndescription: d\n---\n":                              "name",
		"---\nname: [\n---\n":                                                       "front matter",
		"---\nname: s\ndescription: " + strings.Repeat("d", 1025) + "\n---\n":       "more than 1024",
		"---\nname: s\ndescription: d\n" + strings.Repeat("# x\n", 5000) + "---\n":  "more than 16384",
		"---\nname: s\ndescription: d\nx: " + strings.Repeat("[", 5000) + "\n---\n": "tokens",
		"---\nname: s\ndescription: \xff\n---\n":                                    "UTF-8",
		"---\nname: s\ndescription: d\n---\n\x00":                                   "NUL",
		strings.Repeat("x", MaxFile+1):                                              "more than 65536 bytes",
	} {
		write(t, filepath.Join(w.workspace, ".harness/skills/s/SKILL.md"), text)
		w.refused(clip(text), word)
	}
}

func clip(s string) string { return s[:min(len(s), 80)] }

func TestCRLFAndAByteOrderMarkAreRead(t *testing.T) {
	w := newWorld(t)
	write(t, filepath.Join(w.workspace, ".harness/skills/s/SKILL.md"), "\ufeff---\r\nname: s\r\ndescription: >\r\n  two\r\n  lines\r\n---\r\na\r\nb\r\n")
	if got := w.list()["s"]; got != "two lines|" {
		t.Errorf("%q", got)
	}
	if got := w.load("s", ""); got != "a\nb" {
		t.Errorf("%q", got)
	}
}

func TestLinksThatLeadOutAreRefused(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "s/SKILL.md"), "---\nname: s\ndescription: d\n---\ns3cret")
	write(t, filepath.Join(outside, "SKILL.md"), "---\nname: file\ndescription: d\n---\ns3cret")
	skills := filepath.Join(w.workspace, ".harness/skills")
	w.add(".harness/skills", "good", "", "body")
	for link, target := range map[string]string{
		"s": filepath.Join(outside, "s"), "inside": "good", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(skills, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(skills, "file"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "SKILL.md"), filepath.Join(skills, "file/SKILL.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(skills, "fifo"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(skills, "fifo/SKILL.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := w.list()
	for name, word := range map[string]string{"s": "links that lead out", "file": "links that lead out", "loop": "cannot be opened", "fifo": "not a regular file", "inside": `its name is "good"`} {
		if !strings.Contains(list[name], word) {
			t.Errorf("%s: %q", name, list[name])
		}
		if text, err := w.Load(t.Context(), name, ""); err == nil || strings.Contains(err.Error()+text, "s3cret") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	// A folder of skills that is a link out is refused as a whole, not read.
	if err := os.RemoveAll(filepath.Join(w.workspace, ".harness")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(w.workspace, ".harness")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(outside, "skills/s/SKILL.md"), "---\nname: s\ndescription: d\n---\ns3cret")
	if list, err := w.List(t.Context()); err == nil {
		t.Errorf("%v", list)
	}
	if text, err := w.Load(t.Context(), "s", ""); err == nil {
		t.Errorf("%q", text)
	}
}

func TestFoldersHaveBounds(t *testing.T) {
	w := newWorld(t)
	for i := range MaxSkills + 1 {
		if err := os.MkdirAll(filepath.Join(w.user, "s"+strings.Repeat("x", i%50)+string(rune('a'+i/50))), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.List(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 256") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := w.Load(ctx, "s", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// FuzzParse: no SKILL.md makes the parser panic, and what it takes is whole.
func FuzzParse(f *testing.F) {
	f.Add([]byte("---\nname: s\ndescription: d\nargument-hint: '[x]'\nversion: 1.2\nmetadata:\n  a: [1, {b: c}]\n---\n# Body\n$1 $ARGUMENTS !`x`\n"))
	f.Add([]byte("---\r\nname: |\r\n  s\r\ndescription: >-\r\n  d\r\nallowed-tools:\r\n- a\r\n---\r\n"))
	f.Add([]byte("---\nname: s\ndescription: \"\\u00e9\"\ncontext: fork\n...\n---\nx"))
	f.Add([]byte("---\n? a\n: b\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := parse(data)
		if err != nil {
			return
		}
		if checkName(d.name) != nil || d.description == "" || len(d.description) > maxText {
			t.Fatalf("%+v", d)
		}
		if d.unavailable == "" && strings.Contains(d.body, "!`") {
			t.Fatalf("commands are passed over: %q", d.body)
		}
	})
}

// FuzzFill: what arguments say is put in as it is, and never read as a placeholder.
func FuzzFill(f *testing.F) {
	f.Add("a $1 b $ARGUMENTS $WORKSPACE $SKILL_DIR", "x 'y z'")
	f.Fuzz(func(t *testing.T, body, arguments string) {
		marked := fill(body, values{arguments: arguments, workspace: "<w>", dir: "<d>"})
		if !strings.Contains(body, "$") && marked != body && !strings.HasSuffix(marked, arguments) {
			t.Fatalf("%q became %q", body, marked)
		}
		if got := fill("$ARGUMENTS", values{arguments: arguments}); got != arguments {
			t.Fatalf("%q became %q", arguments, got)
		}
		for _, w := range split(arguments) {
			if len(w) > len(arguments) {
				t.Fatalf("%q", w)
			}
		}
	})
}
