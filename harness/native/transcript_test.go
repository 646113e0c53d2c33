package native_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
)

const rawItem = `{"b":"<think>&amp;</think>","z":1.0,"a":"\u003c é` + "\u2028" + `","n":12345678901234567890}`

// rawAnswer holds items as a provider sent them.
func rawAnswer() step { return rawAnswerOf("c1") }

func rawAnswerOf(callID string) step {
	raw := func() *ai.RawItem { return &ai.RawItem{Wire: "w", Model: "m", JSON: json.RawMessage(rawItem)} }
	return parts(
		model.Part{Kind: model.PartContent, Content: ai.ReasoningPart{Text: "a < b", Raw: raw()}},
		model.Part{Kind: model.PartContent, Content: ai.TextPart{Text: "a < b && c", Raw: raw()}},
		model.Part{Kind: model.PartContent, Content: ai.ToolCallPart{ToolCallID: callID, ToolName: "glob", Input: `{"pattern":"<&>"}`, Raw: raw()}},
		finish(ai.FinishToolCalls, usage(1, 1)))
}

// What a provider sent goes back to it byte for byte, from a file too, and so does everything else that it reads.
func TestRawItemsSurviveAFile(t *testing.T) {
	seen := map[string][]ai.Message{}
	for name, change := range map[string]func(*rig){"memory": func(*rig) {}, "file": withFile} {
		r := newRig(t, change, rawAnswer(), say("done"), say("more"))
		r.wantText(r.prompt("hi <&>"), "done")
		s, err := r.session.Stop(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		r.elsewhere(s)
		r.wantText(r.prompt("next"), "more")
		seen[name] = r.model.request(2).Messages
		n := 0
		for _, p := range seen[name][1].Content {
			var raw *ai.RawItem
			switch v := p.(type) {
			case ai.ReasoningPart:
				raw = v.Raw
			case ai.TextPart:
				raw = v.Raw
			case ai.ToolCallPart:
				raw = v.Raw
			}
			if raw == nil || string(raw.JSON) != rawItem {
				t.Errorf("%s: %T came back with %+v", name, p, raw)
			}
			n++
		}
		if n != 3 {
			t.Errorf("%s: %d parts", name, n)
		}
	}
	if a, b := jsonOf(t, seen["memory"]), jsonOf(t, seen["file"]); a != b {
		t.Errorf("the model reads\n%s\nfrom memory and\n%s\nfrom a file", a, b)
	}
}

func itemOf(text string) native.Item {
	m := ai.UserMessage(text)
	return native.Item{Kind: native.KindPrompt, Message: &m}
}

func textsOf(t *testing.T, tr native.Transcript) []string {
	t.Helper()
	var out []string
	for _, it := range itemsOf(t, tr) {
		out = append(out, it.Message.Text())
	}
	return out
}

// fileOf is the only file of a transcript.
func fileOf(t *testing.T, dir string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(list) != 1 {
		t.Fatalf("files %v, %v", list, err)
	}
	return list[0]
}

// Wherever a crash cuts the last line, the items before it are there, those of the cut line are gone together, and
// the file goes on.
func TestAFileTranscriptSurvivesACutLastLine(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	tr := &native.FileTranscript{Dir: dir}
	if err := tr.Append(ctx, "s", itemOf("one")); err != nil {
		t.Fatal(err)
	}
	path := fileOf(t, dir)
	before, _ := os.ReadFile(path)
	if err := tr.Append(ctx, "s", itemOf("two"), itemOf(strings.Repeat("three ", 2000))); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(before); cut < len(whole); cut += 1 + (len(whole)-len(before))/50 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := textsOf(t, tr); !slices.Equal(got, []string{"one"}) {
			t.Fatalf("cut at %d: %q", cut, got)
		}
		if err := tr.Append(ctx, "s", itemOf("four")); err != nil {
			t.Fatal(err)
		}
		if got := textsOf(t, tr); !slices.Equal(got, []string{"one", "four"}) {
			t.Fatalf("cut at %d, then: %q", cut, got)
		}
	}
	if err := os.WriteFile(path, whole[:3], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tr.Append(ctx, "s", itemOf("first")); err != nil || !slices.Equal(textsOf(t, tr), []string{"first"}) {
		t.Errorf("%v, %q", err, textsOf(t, tr))
	}
}

// A whole line that cannot be read is no crash but damage, and is not passed over.
func TestADamagedFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	tr := &native.FileTranscript{Dir: dir}
	if err := tr.Append(context.Background(), "s", itemOf("one")); err != nil {
		t.Fatal(err)
	}
	path := fileOf(t, dir)
	data, _ := os.ReadFile(path)
	for name, bad := range map[string]string{"not JSON": "{\n", "no kind": "{}\n", "an array of it": "[{}]\n", "half an array": "[1\n", "empty": "\n"} {
		if err := os.WriteFile(path, append(bytes.Clone(data), bad...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Load(context.Background(), "s"); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSessionsOfATranscriptStayApart(t *testing.T) {
	ctx := context.Background()
	for name, tr := range map[string]native.Transcript{"memory": &native.MemoryTranscript{}, "file": &native.FileTranscript{Dir: t.TempDir()}} {
		for _, id := range []string{"a", "b", "../../etc/passwd", "a\x00b", strings.Repeat("x", 5000)} {
			if err := tr.Append(ctx, id, itemOf(id)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		items, err := tr.Load(ctx, "../../etc/passwd")
		if err != nil || len(items) != 1 || items[0].Message.Text() != "../../etc/passwd" {
			t.Errorf("%s: %+v, %v", name, items, err)
		}
		if items, err := tr.Load(ctx, "unknown"); err != nil || len(items) != 0 {
			t.Errorf("%s: %+v, %v", name, items, err)
		}
	}
}

func TestAMemoryTranscriptIsSafeForConcurrentUse(t *testing.T) {
	tr := &native.MemoryTranscript{}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 50 {
				_ = tr.Append(context.Background(), fmt.Sprint(n%2), itemOf(fmt.Sprint(i)))
				items, _ := tr.Load(context.Background(), fmt.Sprint(n%2))
				for j := range items {
					items[j].Error = "mine"
				}
			}
		})
	}
	wg.Wait()
	items, _ := tr.Load(context.Background(), "0")
	if len(items) != 200 || slices.ContainsFunc(items, func(it native.Item) bool { return it.Error != "" }) {
		t.Errorf("%d items, or some of them changed", len(items))
	}
}

// State is worth something only with the transcript that it was taken from.
func TestStateOfAnotherTranscriptIsRefused(t *testing.T) {
	setup := func(t *testing.T) (*rig, *harness.ResumeSessionState) {
		r := newRig(t, nil, say("one"), say("two"), say("three"))
		r.wantText(r.prompt("hi"), "one")
		s, err := r.session.Stop(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		return r, s
	}
	swap := func(t *testing.T, r *rig, change func([]native.Item) []native.Item) {
		items := change(itemsOf(t, r.set.Transcript))
		r.set.Transcript = &native.MemoryTranscript{}
		if err := r.set.Transcript.Append(r.ctx, "s", items...); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func([]native.Item) []native.Item
		says   string
	}{
		"a shorter one": {func(l []native.Item) []native.Item { return l[:1] }, "has 1 items"},
		"none":          {func([]native.Item) []native.Item { return nil }, "has 0 items"},
		"a changed one": {func(l []native.Item) []native.Item { l[0] = itemOf("something else"); return l }, "not the one"},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := setup(t)
			swap(t, r, c.change)
			r.elsewhere(s)
			if _, err := r.try(r.ctx, "more"); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
			r.wantCalls(1)
		})
	}
	t.Run("a longer one is gone on with", func(t *testing.T) {
		r, s := setup(t)
		r.elsewhere(s)
		r.wantText(r.prompt("more"), "two")
		r.elsewhere(s)
		r.wantText(r.prompt("more"), "three")
	})
	t.Run("another session's", func(t *testing.T) {
		r, s := setup(t)
		s.Data = json.RawMessage(strings.Replace(string(s.Data), `"s"`, `"t"`, 1))
		r.elsewhere(s)
		if _, err := r.try(r.ctx, "more"); err == nil || !strings.Contains(err.Error(), "belongs to session t") {
			t.Errorf("error %v", err)
		}
	})
	for name, data := range map[string]string{"none": ``, "null": `null`, "no session": `{"head":1,"digest":"x"}`, "a negative head": `{"session":"s","head":-1,"digest":"x"}`, "no object": `[1]`} {
		t.Run("data: "+name, func(t *testing.T) {
			h, err := native.New(native.Settings{Resolve: func(string) ([]native.Target, error) { return nil, nil }})
			if err != nil {
				t.Fatal(err)
			}
			if err := h.ValidateLifecycleStateData(json.RawMessage(data)); err == nil {
				t.Error("it is taken")
			}
		})
	}
}

// Whatever a file holds, it is read or refused, and what was read is written as it was.
func FuzzTranscriptLines(f *testing.F) {
	good, err := itemOf("<hi>").JSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(string(good) + "\n"))
	f.Add([]byte("[" + string(good) + "," + string(good) + "]\n{"))
	f.Add([]byte(`{"kind":"answer","message":{"role":"assistant","content":[{"type":"text","text":"a","raw":{"wire":"w","json":{"a": 1}}}]}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := native.DecodeLines(data)
		if err != nil || len(items) == 0 {
			return
		}
		line, err := native.EncodeLine(items)
		if err != nil {
			t.Fatal(err)
		}
		again, err := native.DecodeLines(line)
		if err != nil || len(again) != len(items) {
			t.Fatalf("%d items became %d, %v", len(items), len(again), err)
		}
		for i := range items {
			a, err1 := items[i].JSON()
			b, err2 := again[i].JSON()
			if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
				t.Fatalf("item %d: %s became %s", i, a, b)
			}
		}
	})
}
