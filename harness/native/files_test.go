package native_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/tool"
)

func picture(t testing.TB) ai.FilePart {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	return ai.FilePart{MediaType: "image/png", Data: b.Bytes(), Filename: "p.png"}
}

func giving(files ...ai.FilePart) tool.Func {
	return func(context.Context, tool.Env, json.RawMessage) (tool.Result, error) {
		return tool.Result{Output: "see", Files: files}, nil
	}
}

// outputOf is the result of a call in a request.
func outputOf(t *testing.T, req model.Request, callID string) ai.ToolResultOutput {
	t.Helper()
	for _, m := range req.Messages {
		for _, p := range m.Content {
			if r, ok := p.(ai.ToolResultContent); ok && r.ToolCallID == callID {
				return r.Output
			}
		}
	}
	t.Fatalf("there is no result of %s", callID)
	return ai.ToolResultOutput{}
}

// A tool's images go to the model, in later processes too.
func TestFilesOfAToolGoToTheModel(t *testing.T) {
	img := picture(t)
	big := ai.FilePart{MediaType: "image/png", Data: make([]byte, 9<<20), Filename: "big.png"}
	r := newRig(t, func(r *rig) {
		withFile(r)
		withTools(r, testTool(t, "look", tool.KindReadonly, nil, giving(img, big)))
	}, call(use{"c1", "look", `{}`}), say("one"), say("two"))
	r.wantText(r.prompt("hi"), "one")
	s, err := r.session.Stop(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.elsewhere(s)
	r.wantText(r.prompt("more"), "two")
	for n := 1; n < 3; n++ {
		out := outputOf(t, r.model.request(n), "c1")
		if out.Type != ai.OutputContent || !strings.Contains(string(out.Value), base64.StdEncoding.EncodeToString(img.Data)) || !strings.Contains(string(out.Value), "big.png is left out") {
			t.Errorf("request %d has %.300s", n, out.Value)
		}
	}
}

// One damaged file must not lock its session: the model reads a note in its place, and the log says so.
func TestADamagedImageIsReplacedByANote(t *testing.T) {
	img := picture(t)
	for name, bad := range map[string]ai.FilePart{
		"no image":   {MediaType: "image/png", Data: []byte("<html>"), Filename: "p.png"},
		"empty":      {MediaType: "image/png", Filename: "p.png"},
		"other type": {MediaType: "image/jpeg", Data: img.Data, Filename: "p.png"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { withTools(r, testTool(t, "look", tool.KindReadonly, nil, giving(bad, img))) },
				call(use{"c1", "look", `{}`}), say("one"), say("two"))
			o := r.options()
			o.Messages = []ai.Message{{Role: ai.RoleUser, Content: []ai.Part{ai.TextPart{Text: "see"}, bad}}}
			if _, err := r.agent.Generate(r.ctx, o); err != nil {
				t.Fatal(err)
			}
			r.wantText(r.prompt("more"), "two")
			for n := range r.model.calls() {
				for _, p := range r.model.request(n).Messages[0].Content {
					if _, ok := p.(ai.FilePart); ok {
						t.Errorf("request %d has the damaged file", n)
					}
				}
			}
			out := outputOf(t, r.model.request(1), "c1")
			if !strings.Contains(string(out.Value), "p.png is left out") || strings.Count(string(out.Value), `"type":"file"`) != 1 {
				t.Errorf("the result is %s", out.Value)
			}
			if w := of[event.PromptWarningPayload](r.journal); len(w) != 2 || w[0].Code != "file_left_out" || !strings.Contains(w[0].Message, "p.png") {
				t.Errorf("prompt.warning %+v", w)
			}
		})
	}
}

// Content that is no base64 any more does not keep the transcript from being read.
func TestADamagedFileInTheTranscriptDoesNotLockTheSession(t *testing.T) {
	img := picture(t)
	r := newRig(t, func(r *rig) {
		withFile(r)
		withTools(r, testTool(t, "look", tool.KindReadonly, nil, giving(img)))
	}, call(use{"c1", "look", `{}`}), say("one"), say("two"))
	o := r.options()
	o.Messages = []ai.Message{{Role: ai.RoleUser, Content: []ai.Part{ai.TextPart{Text: "see"}, img}}}
	if _, err := r.agent.Generate(r.ctx, o); err != nil {
		t.Fatal(err)
	}
	path := fileOf(t, r.set.Transcript.(*native.FileTranscript).Dir)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content := base64.StdEncoding.EncodeToString(img.Data)
	if n := bytes.Count(b, []byte(content)); n != 2 {
		t.Fatalf("the content is there %d times", n)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte(content), []byte("ü"+content[2:])), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := r.session.Stop(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.Data = continuation(t, r.set.Transcript).Data // the digest is that of the damaged transcript
	r.elsewhere(s)
	r.wantText(r.prompt("more"), "two")
	text := jsonOf(t, r.model.request(2).Messages)
	if strings.Count(text, "p.png is left out") != 2 || strings.Contains(text, `"type":"file"`) {
		t.Errorf("the model reads %s", text)
	}
	if w := of[event.PromptWarningPayload](r.journal); len(w) != 2 {
		t.Errorf("prompt.warning %+v", w)
	}
}

// An answer that the provider paused is followed by another call with the same messages, and it behind them.
func TestAPausedAnswerIsContinued(t *testing.T) {
	pausing := func(text string) step {
		return parts(append(textParts(text), model.Part{Kind: model.PartFinish, Finish: ai.FinishReason{Unified: ai.FinishOther, Raw: "pause_turn"}, Usage: usage(10, 1)})...)
	}
	r := newRig(t, nil, pausing("searching"), pausing(""), say("found"))
	r.wantText(r.prompt("hi"), "found")
	last := r.model.request(2).Messages
	if len(last) != 3 || last[1].Text() != "searching" || last[2].Role != ai.RoleAssistant {
		t.Errorf("the model reads %+v", last)
	}
	var endless []step
	for range 40 {
		endless = append(endless, pausing("again"))
	}
	r = newRig(t, nil, endless...)
	_, err := r.try(r.ctx, "hi")
	r.wantTurnError(err, event.ReasonProvider)
	r.wantCalls(17)
}
