package engine_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/tool"
)

func picture(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// promptFiles are the files of the conversation's prompts as the transcript has them.
func (r *rig) promptFiles(conversation string) []ai.FilePart {
	r.t.Helper()
	items, err := r.store.Transcript(bg, engine.DefaultTenant, conversation, 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var files []ai.FilePart
	for _, row := range items {
		it, err := native.DecodeItem(row.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		if it.Kind != native.KindPrompt {
			continue
		}
		for _, p := range it.Message.Content {
			if f, ok := p.(ai.FilePart); ok {
				files = append(files, f)
			}
		}
	}
	return files
}

// artifacts counts the files that the node keeps.
func (r *rig) artifacts() int {
	r.t.Helper()
	n := 0
	err := filepath.WalkDir(filepath.Join(r.dir, "artifacts"), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func TestAttachmentsReachTheModelAsTheyWereAtTheRequest(t *testing.T) {
	r := newRig(t, nil)
	img := picture(t)
	r.file("notes.md", "# Notes\n")
	r.file("shot.png", string(img))
	run := r.submit(engine.RunRequest{
		Prompt: script(`[{"text":"seen"}]`),
		Attachments: []engine.Attachment{
			{Path: "shot.png"}, {Path: "notes.md", MediaType: "text/markdown"},
			{Data: base64.StdEncoding.EncodeToString([]byte("%PDF-1.4\n")), Filename: "a.pdf"},
		},
	})
	r.file("notes.md", "something else")
	all := r.finish(run.ID)
	if p := payload[event.RunStartedPayload](t, all, event.RunStarted); len(p.Attachments) != 3 || p.Attachments[1] != (event.Attached{MediaType: "text/markdown", Filename: "notes.md", Size: 8}) {
		t.Errorf("%+v", p.Attachments)
	}
	want := []ai.FilePart{
		{MediaType: "image/png", Data: img, Filename: "shot.png"},
		{MediaType: "text/markdown", Data: []byte("# Notes\n"), Filename: "notes.md"},
		{MediaType: "application/pdf", Data: []byte("%PDF-1.4\n"), Filename: "a.pdf"},
	}
	same := func(a, b ai.FilePart) bool {
		return a.MediaType == b.MediaType && a.Filename == b.Filename && bytes.Equal(a.Data, b.Data)
	}
	if got := r.promptFiles(run.ConversationID); !slices.EqualFunc(got, want, same) {
		t.Errorf("%+v", got)
	}
	next, err := r.engine.Continue(bg, r.me, run.ID, engine.ContinueRequest{Prompt: script(`[{"text":"again"}]`), Attachments: []engine.Attachment{{Path: "notes.md"}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	all = r.finish(next.ID)
	if p := payload[event.RunCompletedPayload](t, all, event.RunCompleted); p.Output != "again" {
		t.Errorf("%+v", p)
	}
	got := r.promptFiles(run.ConversationID)
	if len(got) != 4 || string(got[3].Data) != "something else" || got[3].MediaType != "text/plain" {
		t.Errorf("%+v", got)
	}
}

func TestARunThatWaitedHasItsAttachmentsAfterARestart(t *testing.T) {
	r := newRig(t, nil)
	first := r.submit(engine.RunRequest{ConversationID: "c", Permissions: asking(tool.ApprovalPolicyAll), Prompt: script(`[{"tool":"bash","in":{"command":"true"}},{"text":"done"}]`)})
	r.until(first.ID, has(event.RunWaitingForApproval))
	second := r.submit(engine.RunRequest{ConversationID: "c", Prompt: script(`[{"text":"seen"}]`), Attachments: []engine.Attachment{{Data: base64.StdEncoding.EncodeToString([]byte("kept"))}}})
	r.close()
	r.open()
	if _, err := r.engine.Cancel(bg, r.me, first.ID); err != nil {
		t.Fatal(err)
	}
	r.finish(second.ID)
	if got := r.promptFiles("c"); len(got) != 1 || string(got[0].Data) != "kept" {
		t.Errorf("%+v", got)
	}
}

func TestAttachmentsThatCannotBeUsedAreRefusedByTheirField(t *testing.T) {
	r := newRig(t, nil)
	r.file("ok.txt", "x")
	r.file("empty", "")
	r.file("bin", "\x00\x01\x02")
	r.file("big", strings.Repeat("x", engine.MaxAttachmentBytes/2+1))
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(outside, filepath.Join(r.workspace, "link")), syscall.Mkfifo(filepath.Join(r.workspace, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	data := base64.StdEncoding.EncodeToString
	for name, tt := range map[string]struct {
		list  []engine.Attachment
		field string
	}{
		"neither":        {[]engine.Attachment{{Filename: "x"}}, "attachments[0]"},
		"both":           {[]engine.Attachment{{Path: "ok.txt", Data: data([]byte("x"))}}, "attachments[0]"},
		"not base64":     {[]engine.Attachment{{Path: "ok.txt"}, {Data: "!"}}, "attachments[1].data"},
		"absolute":       {[]engine.Attachment{{Path: outside}}, "attachments[0].path"},
		"upwards":        {[]engine.Attachment{{Path: "../x"}}, "attachments[0].path"},
		"link outside":   {[]engine.Attachment{{Path: "link"}}, "attachments[0].path"},
		"pipe":           {[]engine.Attachment{{Path: "pipe"}}, "attachments[0].path"},
		"folder":         {[]engine.Attachment{{Path: "."}}, "attachments[0].path"},
		"missing":        {[]engine.Attachment{{Path: "none"}}, "attachments[0].path"},
		"empty":          {[]engine.Attachment{{Path: "empty"}}, "attachments[0]"},
		"binary":         {[]engine.Attachment{{Path: "bin"}}, "attachments[0]"},
		"another type":   {[]engine.Attachment{{Data: data(picture(t)), MediaType: "image/jpeg"}}, "attachments[0].media_type"},
		"text as image":  {[]engine.Attachment{{Path: "ok.txt", MediaType: "image/png"}}, "attachments[0].media_type"},
		"name":           {[]engine.Attachment{{Path: "ok.txt", Filename: "../x"}}, "attachments[0].filename"},
		"too large":      {[]engine.Attachment{{Path: "big"}, {Path: "big"}}, "attachments[1].path"},
		"too large data": {[]engine.Attachment{{Path: "big"}, {Data: data(make([]byte, engine.MaxAttachmentBytes/2))}}, "attachments[1].data"},
		"too many":       {make([]engine.Attachment, engine.MaxAttachments+1), "attachments"},
	} {
		_, _, err := r.engine.Submit(bg, r.me, engine.RunRequest{Prompt: "x", Attachments: tt.list}, "")
		var e *engine.Error
		if !errors.As(err, &e) || e.Kind != engine.KindInvalid || e.Field != tt.field {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(fmt.Sprint(err), filepath.Dir(outside)) && name != "absolute" {
			t.Errorf("%s: the refusal tells of a place outside: %v", name, err)
		}
	}
	if n := r.artifacts(); n != 0 {
		t.Errorf("%d files were kept", n)
	}
}

func TestARepeatedRequestKeepsItsAttachmentsOnce(t *testing.T) {
	r := newRig(t, nil)
	r.file("a.txt", "x")
	req := engine.RunRequest{Prompt: script(`[{"text":"seen"}]`), ConversationID: "c", Attachments: []engine.Attachment{{Path: "a.txt"}}}
	for i := range 3 {
		run, existed, err := r.engine.Submit(bg, r.me, req, "key")
		if err != nil || existed != (i > 0) {
			t.Fatal(existed, err)
		}
		r.finish(run.ID)
	}
	req.Prompt = "another"
	if _, _, err := r.engine.Submit(bg, r.me, req, "key"); err == nil {
		t.Fatal("the key was used with another request")
	}
	if n := r.artifacts(); n != 1 {
		t.Errorf("%d files are kept", n)
	}
	if err := r.engine.DeleteConversation(bg, r.me, "c"); err != nil {
		t.Fatal(err)
	}
	if n := r.artifacts(); n != 0 {
		t.Errorf("%d files outlive their conversation", n)
	}
}
