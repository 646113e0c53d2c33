package native_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness"
)

// inFolder makes the files, with a file for each path, and works in a subfolder of the rig's.
func inFolder(t *testing.T, sub string, files map[string]string) func(*rig) {
	return func(r *rig) {
		for name, content := range files {
			path := filepath.Join(r.dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.agents.SandboxConfig.InPlaceRoot = filepath.Join(r.dir, sub)
	}
}

// wantInOrder checks that the text holds all, in this order, and returns it.
func wantInOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	at := 0
	for _, p := range parts {
		i := strings.Index(text[at:], p)
		if i < 0 {
			t.Fatalf("%q is not there, or not behind the others, in\n%s", p, text)
		}
		at += i + len(p)
	}
}

// The files of the folder and of its parents up to the repository's root are part of the system prompt, the nearest
// last.
func TestInstructionFilesAreRead(t *testing.T) {
	r := newRig(t, inFolder(t, "repo/a/b", map[string]string{
		"AGENTS.md":            "outside of the repository",
		"repo/.git/HEAD":       "ref: refs/heads/main",
		"repo/AGENTS.md":       "from the root",
		"repo/a/CLAUDE.md":     "from a, for another",
		"repo/a/b/AGENTS.md":   "from b",
		"repo/a/b/CLAUDE.md":   "@AGENTS.md\n",
		"repo/a/b/c/AGENTS.md": "from below",
	}), say("done"))
	r.wantText(r.prompt("hi"), "done")
	system := r.model.request(0).System
	wantInOrder(t, system, "# Instructions of this project", "from the root", "from a, for another", "## AGENTS.md\nfrom b")
	for _, not := range []string{"outside", "from below", "@AGENTS.md"} {
		if strings.Contains(system, not) {
			t.Errorf("%q is in the prompt", not)
		}
	}
	p := of[event.PromptResolvedPayload](r.journal)
	if len(p) != 1 || len(p[0].Files) != 4 {
		t.Fatalf("prompt.resolved %+v", p)
	}
	if f := p[0].Files; f[2].Path != "AGENTS.md" || f[2].Bytes != 6 || f[3].Skipped == "" {
		t.Errorf("files %+v", f)
	}
}

func TestInstructionFilesCanBeLeftOut(t *testing.T) {
	r := newRig(t, func(r *rig) {
		inFolder(t, "", map[string]string{"AGENTS.md": "from here"})(r)
		r.set.NoInstructionFiles = true
	}, say("done"))
	r.wantText(r.prompt("hi"), "done")
	if strings.Contains(r.model.request(0).System, "from here") || len(of[event.PromptResolvedPayload](r.journal)) != 0 {
		t.Error("the file was read")
	}
}

// A link can lead out of the workspace, so none is followed; what else is no regular file is not read either.
func TestOnlyRegularInstructionFilesAreRead(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("TOP SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, confined := range map[string]bool{"confined": true, "free": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				inFolder(t, "", map[string]string{"CLAUDE.md/x": ""})(r)
				r.agents.SandboxConfig.ConfineFiles = confined
				if err := os.Symlink(secret, filepath.Join(r.dir, "AGENTS.md")); err != nil {
					t.Fatal(err)
				}
			}, say("done"))
			r.wantText(r.prompt("hi"), "done")
			if strings.Contains(r.model.request(0).System, "SECRET") {
				t.Error("the link was followed")
			}
			p := of[event.PromptResolvedPayload](r.journal)
			if len(p) != 1 || len(p[0].Files) != 2 || p[0].Files[0].Skipped == "" || p[0].Files[1].Skipped == "" {
				t.Errorf("prompt.resolved %+v", p)
			}
		})
	}
}

// In a confined sandbox the files of the workspace are read, and nothing beyond its root.
func TestInstructionFilesEndAtTheSandbox(t *testing.T) {
	r := newRig(t, func(r *rig) {
		inFolder(t, "repo/a", map[string]string{"repo/.git/HEAD": "", "repo/AGENTS.md": "beyond", "repo/a/AGENTS.md": "within"})(r)
		r.agents.SandboxConfig.ConfineFiles = true
	}, say("done"))
	r.wantText(r.prompt("hi"), "done")
	if s := r.model.request(0).System; !strings.Contains(s, "within") || strings.Contains(s, "beyond") {
		t.Errorf("the prompt is\n%s", s)
	}
}

// Each file and all together are bounded, the nearest first, and what was cut is said.
func TestInstructionFilesAreBounded(t *testing.T) {
	r := newRig(t, inFolder(t, "a/b", map[string]string{
		".git/HEAD": "", "AGENTS.md": "far" + strings.Repeat("x", 100),
		"a/AGENTS.md": strings.Repeat("é", 40_000), "a/b/AGENTS.md": strings.Repeat("n", 33_000), "a/b/CLAUDE.md": "  \n",
	}), say("done"))
	r.wantText(r.prompt("hi"), "done")
	s := r.model.request(0).System
	if len(s) > 70_000 || strings.Contains(s, "far") || strings.Count(s, "[cut here: only the first 32768 bytes are shown]") != 2 || strings.Contains(s, "\uFFFD") {
		t.Errorf("the prompt has %d bytes", len(s))
	}
	f := of[event.PromptResolvedPayload](r.journal)[0].Files
	if len(f) != 4 || f[0].Skipped == "" || !f[1].Cut || !f[2].Cut || f[2].Bytes != 32<<10 || f[3].Skipped != "it is empty" {
		t.Errorf("files %+v", f)
	}
}

// A session reads the files once: whatever becomes of them, every request of it begins with the same bytes, in another
// process and from a file too.
func TestEveryRequestBeginsLikeTheOneBefore(t *testing.T) {
	for name, change := range map[string]func(*rig){"memory": func(*rig) {}, "file": withFile} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				change(r)
				inFolder(t, "", map[string]string{"AGENTS.md": "as it was <&> é"})(r)
			}, call(use{"c1", "write", `{"path":"AGENTS.md","content":"changed"}`}), rawAnswerOf("c2"), say("one"), call(use{"c3", "glob", `{"pattern":"*"}`}), say("two"))
			r.wantText(r.prompt("first"), "one")
			s, err := r.session.Stop(r.ctx)
			if err != nil {
				t.Fatal(err)
			}
			r.elsewhere(s)
			r.wantText(r.prompt("second"), "two")
			if r.read("AGENTS.md") != "changed" {
				t.Fatal("the file was not changed")
			}
			for n := 1; n < r.model.calls(); n++ {
				before, now := r.model.request(n-1), r.model.request(n)
				if now.System != before.System || !strings.Contains(now.System, "as it was <&> é") || jsonOf(t, now.Tools) != jsonOf(t, before.Tools) {
					t.Errorf("request %d has another system prompt or other tools", n)
				}
				if a, b := jsonOf(t, before.Messages), jsonOf(t, now.Messages[:len(before.Messages)]); a != b {
					t.Errorf("request %d begins with\n%s\nand not with\n%s", n, b, a)
				}
			}
			if p := of[event.PromptResolvedPayload](r.journal); len(p) != 1 {
				t.Errorf("prompt.resolved %+v", p)
			}
		})
	}
}

// A provider without files by descriptor has no instruction files, and a workspace without any costs no event.
func TestASandboxWithoutFilesHasNoInstructions(t *testing.T) {
	_, s := bare(t, &play{steps: []step{say("done")}}, nil)
	end, err := s.DoPromptTurn(t.Context(), harness.PromptTurnOptions{Prompt: harness.TextPrompt("hi")})
	if err != nil {
		t.Fatal(err)
	}
	receive(t, end.Done())
	if end.Err() != nil {
		t.Error(end.Err())
	}
	r := newRig(t, nil, say("done"))
	r.wantText(r.prompt("hi"), "done")
	if len(of[event.PromptResolvedPayload](r.journal)) != 0 {
		t.Error("prompt.resolved without a file")
	}
}
