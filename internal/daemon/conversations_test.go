package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apikey"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// client asks a served node with a key.
type client struct {
	t    *testing.T
	base string
	key  string
}

func (c client) ask(method, path, body string) (int, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// served serves a started node and returns clients of two tenants.
func served(t *testing.T, n *Node) (a, b client) {
	t.Helper()
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Serve(t.Context(), l) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	clients := make([]client, 2)
	for i, tenant := range []string{"a", "b"} {
		secret, k, err := apikey.New(tenant, "test", []string{engine.ScopeAdmin}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.store.PutKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		clients[i] = client{t, "http://" + l.Addr().String(), secret}
	}
	return clients[0], clients[1]
}

func (c client) run(n *Node, body string) string {
	c.t.Helper()
	code, answer := c.ask("POST", "/v1/runs", body)
	var acc api.RunAccepted
	if err := json.Unmarshal([]byte(answer), &acc); err != nil || code != 202 {
		c.t.Fatalf("%d %s", code, answer)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		switch r, err := n.store.GetRun(c.t.Context(), acc.RunID); {
		case err != nil:
			c.t.Fatal(err)
		case r.Status == store.StatusCompleted:
			return acc.RunID
		case r.Status.Terminal() || time.Now().After(deadline):
			c.t.Fatalf("run %s is %s: %s", r.ID, r.Status, r.Error)
		}
	}
}

// Every route about conversations, with the key of the conversation's tenant and with that of another one, on a whole
// node. Both tenants have a conversation of the same id.
func TestAnotherTenantsConversationIsNotThere(t *testing.T) {
	n := open(t, settings(t))
	a, b := served(t, n)
	run := a.run(n, `{"conversation_id":"talk","prompt":"a platypus @@[{\"text\":\"ok\"}]@@"}`)
	a.run(n, `{"conversation_id":"gone","prompt":"a wombat @@[{\"text\":\"ok\"}]@@"}`)
	foreign := b.run(n, `{"conversation_id":"theirs","prompt":"an okapi @@[{\"text\":\"ok\"}]@@"}`)
	if err := n.engine.FlushSearch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, body string
		mine               int
	}{
		{"GET", "/v1/conversations/talk", "", 200},
		{"GET", "/v1/conversations/talk/runs", "", 200},
		{"GET", "/v1/conversations/talk/messages", "", 200},
		{"GET", "/v1/conversations/talk/export", "", 200},
		{"GET", "/v1/conversations/talk/export?include=events", "", 200},
		{"POST", "/v1/conversations/talk/fork", "", 201},
		{"POST", "/v1/conversations/talk/fork", `{"run_id":"` + run + `"}`, 201},
		{"POST", "/v1/conversations/talk/fork", `{"message":1}`, 201},
		{"DELETE", "/v1/conversations/talk", "", 204},
	} {
		if code, answer := b.ask(c.method, c.path, c.body); code != 404 || !strings.Contains(answer, `"not_found"`) {
			t.Errorf("%s %s for another tenant: %d %s", c.method, c.path, code, answer)
		}
		if code, answer := a.ask(c.method, c.path, c.body); code != c.mine {
			t.Errorf("%s %s for its own tenant: %d %s", c.method, c.path, code, answer)
		}
	}
	for _, path := range []string{"/v1/conversations", "/v1/conversations/search?q=wombat+platypus", "/v1/conversations/search?q=wombat"} {
		if code, answer := b.ask("GET", path, ""); code != 200 || strings.Contains(answer, "gone") || strings.Contains(answer, "talk") {
			t.Errorf("%s for another tenant: %d %s", path, code, answer)
		}
	}
	if code, answer := a.ask("GET", "/v1/conversations/search?q=wombat", ""); code != 200 || !strings.Contains(answer, `"gone"`) {
		t.Errorf("search: %d %s", code, answer)
	}
	if code, _ := a.ask("POST", "/v1/conversations/theirs/fork", `{"run_id":"`+foreign+`"}`); code != 404 {
		t.Errorf("a fork of another tenant's conversation: %d", code)
	}
	if code, answer := b.ask("POST", "/v1/conversations/cleanup", `{"max_age_days":1}`); code != 200 || !strings.Contains(answer, `"deleted":0`) {
		t.Errorf("cleanup: %d %s", code, answer)
	}
	if code, _ := a.ask("GET", "/v1/runs/"+run, ""); code != 404 {
		t.Errorf("a run of a deleted conversation: %d", code)
	}
	if code, _ := a.ask("GET", "/v1/runs/"+run+"/events", ""); code != 404 {
		t.Errorf("the events of a deleted run: %d", code)
	}
}

func TestALongConversationIsReadSearchedAndExportedOverHTTP(t *testing.T) {
	n := open(t, settings(t))
	a, _ := served(t, n)
	const runs = 60
	for i := range runs {
		a.run(n, fmt.Sprintf(`{"conversation_id":"talk","prompt":"question %d @@[{\"text\":\"needle %d %s\"}]@@"}`, i, i, strings.Repeat("hay ", 500)))
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, answer := a.ask("GET", "/v1/conversations/search?q=question+59", ""); strings.Contains(answer, `"message_id"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the last question is not found")
		}
	}
	var list api.MessageList
	seen := 0
	for cursor := ""; ; {
		list = api.MessageList{}
		code, answer := a.ask("GET", "/v1/conversations/talk/messages?limit=7&cursor="+cursor, "")
		if err := json.Unmarshal([]byte(answer), &list); err != nil || code != 200 {
			t.Fatalf("%d %s", code, answer)
		}
		for _, m := range list.Messages {
			if want := []string{"user", "assistant"}[seen%2]; m.Role != want {
				t.Fatalf("message %d is of %s", seen, m.Role)
			}
			seen++
		}
		if cursor = list.NextCursor; cursor == "" {
			break
		}
	}
	if seen != 2*runs {
		t.Errorf("%d messages", seen)
	}
	_, export := a.ask("GET", "/v1/conversations/talk/export", "")
	lines := 0
	for sc := bufio.NewScanner(strings.NewReader(export)); sc.Scan(); lines++ {
		if !json.Valid(sc.Bytes()) {
			t.Fatalf("line %d: %s", lines, sc.Bytes())
		}
	}
	if lines != 2*runs+2 || !strings.HasSuffix(export, fmt.Sprintf("{\"type\":\"end\",\"lines\":%d}\n", 2*runs+1)) {
		t.Errorf("%d lines", lines)
	}
}
