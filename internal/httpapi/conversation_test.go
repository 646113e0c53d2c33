package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
)

// talked makes a server with ended runs and messages in the conversation talk.
func talked(t *testing.T, runs, messages int) (*Server, *fakeRuns) {
	t.Helper()
	s, f := open(t)
	for i := range runs {
		r := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", fmt.Sprintf(`{"prompt":"prompt %d","conversation_id":"talk"}`, i)), 202)
		f.emit(r.RunID, event.RunStarted, event.RunCompleted)
	}
	f.say("talk", messages)
	return s, f
}

func TestConversationRoutesAnswerAsTheyDid(t *testing.T) {
	s, _ := talked(t, 1, 2)
	var out bytes.Buffer
	for _, c := range []routeCase{
		{"GET", "/v1/conversations", ""},
		{"GET", "/v1/conversations/talk", ""},
		{"GET", "/v1/conversations/talk/messages", ""},
		{"GET", "/v1/conversations/search?q=prompt", ""},
		{"POST", "/v1/conversations/talk/fork", ""},
		{"POST", "/v1/conversations/talk/fork", `{"run_id":"run_0001"}`},
		{"POST", "/v1/conversations/cleanup", `{"max_age_days":30}`},
		{"POST", "/v1/conversations/cleanup", `{}`},
		{"POST", "/v1/conversations/cleanup", `{"max_age_days":1,"tenant_id":"x"}`},
		{"GET", "/v1/conversations/search", ""},
		{"GET", "/v1/conversations/search?q=a&limit=101", ""},
		{"GET", "/v1/conversations/talk/export?include=all", ""},
		{"GET", "/v1/conversations/talk/messages?cursor=x", ""},
		{"GET", "/v1/conversations/none", ""},
		{"GET", "/v1/conversations/talk/rewind-points", ""},
	} {
		w := ask(s, c.method, c.path, c.body)
		fmt.Fprintf(&out, "%s %s %s\n%d %s\n", c.method, c.path, c.body, w.Code, w.Header().Get("Location"))
		if err := json.Indent(&out, w.Body.Bytes(), "", "  "); err != nil {
			t.Fatalf("%s %s: %s", c.method, c.path, w.Body)
		}
		out.WriteString("\n")
	}
	golden(t, "conversations.golden", out.Bytes())
	if a, b := ask(s, "GET", "/v1/conversations", ""), ask(s, "GET", "/v1/conversations/", ""); !bytes.Equal(a.Body.Bytes(), b.Body.Bytes()) || b.Code != 200 {
		t.Errorf("with a slash at the end: %d %s", b.Code, b.Body)
	}
	if w := ask(s, "DELETE", "/v1/conversations/talk", ""); w.Code != 204 || w.Body.Len() != 0 {
		t.Errorf("delete: %d %s", w.Code, w.Body)
	}
}

func TestAnActiveConversationIsNotDeletedAndItsRunsAreNamed(t *testing.T) {
	s, _ := open(t)
	decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`), 202)
	p := problem(t, ask(s, "DELETE", "/v1/conversations/run_0001", ""))
	if p.Code != api.CodeConversationActive || fmt.Sprint(p.Details) != "map[runs:[run_0001]]" {
		t.Errorf("problem %+v", p)
	}
}

func TestConversationRoutesNeedTheirScopes(t *testing.T) {
	s, f, keys := locked(t)
	reader, writer := keys.add(t, "a", engine.ScopeRunsRead), keys.add(t, "a", engine.ScopeRunsWrite, engine.ScopeRunsUnrestricted)
	deciding, root := keys.add(t, "a", engine.ScopeApprovals), keys.add(t, "a", engine.ScopeAdmin)
	r := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a","conversation_id":"talk"}`, "Authorization", "Bearer "+writer), 202)
	f.emit(r.RunID, event.RunCompleted)
	for _, c := range []struct {
		routeCase
		scope string
	}{
		{routeCase{"GET", "/v1/conversations", ""}, engine.ScopeRunsRead},
		{routeCase{"GET", "/v1/conversations/talk", ""}, engine.ScopeRunsRead},
		{routeCase{"GET", "/v1/conversations/talk/runs", ""}, engine.ScopeRunsRead},
		{routeCase{"GET", "/v1/conversations/talk/messages", ""}, engine.ScopeRunsRead},
		{routeCase{"GET", "/v1/conversations/talk/export", ""}, engine.ScopeRunsRead},
		{routeCase{"GET", "/v1/conversations/search?q=a", ""}, engine.ScopeRunsRead},
		{routeCase{"POST", "/v1/conversations/talk/fork", ""}, engine.ScopeRunsWrite},
		{routeCase{"DELETE", "/v1/conversations/talk", ""}, engine.ScopeRunsWrite},
		{routeCase{"POST", "/v1/conversations/cleanup", `{"max_age_days":1}`}, engine.ScopeAdmin},
	} {
		for key, allowed := range map[string]bool{
			"": false, deciding: false, reader: c.scope == engine.ScopeRunsRead, writer: c.scope != engine.ScopeAdmin, root: true,
		} {
			var header []string
			if key != "" {
				header = []string{"Authorization", "Bearer " + key}
			}
			w := ask(s, c.method, c.path, c.body, header...)
			if allowed != (w.Code < 300) || (!allowed && w.Code != 401 && w.Code != 403) {
				t.Errorf("%s %s with a key that may (%v): %d %s", c.method, c.path, allowed, w.Code, w.Body)
			}
		}
	}
}

func TestAConversationsRunsMessagesAndHitsComeInPages(t *testing.T) {
	s, _ := talked(t, 250, 123)
	for _, limit := range []int{49, 200} {
		for path, want := range map[string]int{"/v1/conversations/talk/runs?": 250, "/v1/conversations/talk/messages?": 123, "/v1/conversations/search?q=prompt&": 250} {
			seen := map[string]bool{}
			for cursor, pages := "", 0; ; pages++ {
				if strings.Contains(path, "search") {
					limit = min(limit, 100)
				}
				w := ask(s, "GET", fmt.Sprintf("%slimit=%d&cursor=%s", path, limit, cursor), "")
				page := decodeBody[struct {
					Runs       []api.Run
					Messages   []engine.Message
					Hits       []api.SearchHit
					NextCursor string `json:"next_cursor"`
				}](t, w, 200)
				for _, r := range page.Runs {
					seen[r.ID] = true
				}
				for _, m := range page.Messages {
					seen[fmt.Sprint(m.ID)] = true
				}
				for _, h := range page.Hits {
					seen[h.RunID] = true
				}
				if n := len(page.Runs) + len(page.Messages) + len(page.Hits); n > limit {
					t.Fatalf("%s: a page of %d", path, n)
				}
				if cursor = page.NextCursor; cursor == "" {
					break
				}
				if pages > want {
					t.Fatalf("%s: no end", path)
				}
				other := map[bool]string{true: "/v1/conversations/talk/runs?", false: "/v1/conversations/talk/messages?"}[strings.Contains(path, "messages")]
				if p := problem(t, ask(s, "GET", other+"cursor="+cursor, "")); p.Code != api.CodeInvalidCursor {
					t.Fatalf("%s takes the cursor of %s: %+v", other, path, p)
				}
			}
			if len(seen) != want {
				t.Errorf("%s limit %d: %d of %d", path, limit, len(seen), want)
			}
		}
	}
}

// exported reads an export line by line.
func exported(t *testing.T, r io.Reader) []api.ExportLine {
	t.Helper()
	var lines []api.ExportLine
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var l api.ExportLine
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			t.Fatalf("%s: %v", sc.Bytes(), err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestAnExportIsAFileOfLinesThatTellsWhenItIsWhole(t *testing.T) {
	s, f := talked(t, 3, 250)
	w := ask(s, "GET", "/v1/conversations/talk/export", "")
	if h := w.Header(); w.Code != 200 || h.Get("Content-Type") != "application/x-ndjson" ||
		h.Get("Content-Disposition") != `attachment; filename="conversation-talk.ndjson"` {
		t.Errorf("%d %v", w.Code, h)
	}
	lines := exported(t, w.Body)
	if len(lines) != 252 {
		t.Fatalf("%d lines", len(lines))
	}
	first, last := lines[0], lines[251]
	if first.Type != "conversation" || first.Format != api.ExportFormat || first.Version != 1 || first.ExportedAt == nil || first.Conversation.ID != "talk" {
		t.Errorf("first line %+v", first)
	}
	if last.Type != "end" || last.Lines != 251 {
		t.Errorf("last line %+v", last)
	}
	for i, l := range lines[1:251] {
		if l.Type != "message" || l.Message.ID != int64(i+1) {
			t.Fatalf("line %d is %+v", i+1, l)
		}
	}

	lines = exported(t, ask(s, "GET", "/v1/conversations/talk/export?include=events", "").Body)
	var ids []string
	for _, l := range lines[1 : len(lines)-1] {
		ids = append(ids, l.Event.ID())
	}
	want := ""
	for _, run := range []string{"run_0001", "run_0002", "run_0003"} {
		for seq := 1; seq <= 3; seq++ {
			want += fmt.Sprintf("%s:%d ", run, seq)
		}
	}
	if got := strings.Join(ids, " ") + " "; got != want || lines[len(lines)-1].Type != "end" {
		t.Errorf("events %s, want %s", got, want)
	}

	// An id is no path and no header.
	decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a","conversation_id":"a\"/..%\r\nb"}`), 202)
	w = ask(s, "GET", "/v1/conversations/a%22%2F..%25%0D%0Ab/export", "")
	if got := w.Header().Get("Content-Disposition"); w.Code != 200 || got != `attachment; filename="conversation-a_______b.ndjson"` {
		t.Errorf("%d %q", w.Code, got)
	}

	// What breaks off must not look whole.
	f.failMessages = func(after int64) error {
		if after >= 600 {
			return errDisk
		}
		return nil
	}
	f.say("talk", 1000)
	url := serve(t, s)
	res, err := http.Get(url + "/v1/conversations/talk/export")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(string(body), `"end"`) || strings.Contains(string(body), "secret") {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}
