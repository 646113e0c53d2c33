package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/tool"
)

// listening is a node as clients meet it: over TCP, without keys.
func listening(t *testing.T, c config.Config) *curl {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	addr, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() { done <- Serve(ctx, Options{Config: c}, func(a net.Addr) { addr <- a }) }()
	cl := &curl{t: t}
	t.Cleanup(func() {
		cl.http.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-addr:
		cl.base = "http://" + a.String()
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	return cl
}

type curl struct {
	t    *testing.T
	base string
	http http.Client
}

// do sends a body as curl does, an empty one without a content type, and reads the answer into out.
func (c *curl) do(method, path, body string, out any) int {
	c.t.Helper()
	req, err := http.NewRequest(method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body == "" {
		req.Body = http.NoBody
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			c.t.Fatalf("%s %s: %d: %v: %s", method, path, res.StatusCode, err, data)
		}
	}
	return res.StatusCode
}

// start starts a run that must be accepted.
func (c *curl) start(body string) string {
	c.t.Helper()
	var raw json.RawMessage
	var run api.RunAccepted
	code := c.do(http.MethodPost, "/v1/runs", body, &raw)
	if err := json.Unmarshal(raw, &run); err != nil || code != http.StatusAccepted {
		c.t.Fatalf("%d, %v: %s", code, err, raw)
	}
	return run.RunID
}

// follow reads the stream of a run until an event that is asked for has come or the stream ends.
func (c *curl) follow(runID string, until event.Type) []event.Event {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/v1/runs/"+runID+"/events", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var all []event.Event
	for dec := newLines(res.Body); ; {
		line, err := dec()
		if err != nil {
			if until != "" {
				c.t.Fatalf("%s did not come: %v: %v", until, err, all)
			}
			return all
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e event.Event
		if err := json.Unmarshal(data, &e); err != nil {
			c.t.Fatal(err)
		}
		if all = append(all, e); e.Type == until {
			return all
		}
	}
}

// resultError is what the model read of why the conversation's only call failed.
func (c *curl) resultError(conversation string) string {
	c.t.Helper()
	var list api.MessageList
	c.do(http.MethodGet, "/v1/conversations/"+conversation+"/messages", "", &list)
	for _, m := range list.Messages {
		for _, call := range m.ToolCalls {
			return call.Result.Error
		}
	}
	c.t.Fatalf("no call in %+v", list)
	return ""
}

// newLines reads lines of any length.
func newLines(r io.Reader) func() ([]byte, error) {
	var buf []byte
	chunk := make([]byte, 32<<10)
	return func() ([]byte, error) {
		for {
			if line, rest, ok := bytes.Cut(buf, []byte("\n")); ok {
				buf = rest
				return line, nil
			}
			n, err := r.Read(chunk)
			if buf = append(buf, chunk[:n]...); n == 0 && err != nil {
				return nil, err
			}
		}
	}
}

// decoded is the payload of the first event of a type.
func decoded[P any](t *testing.T, all []event.Event, typ event.Type) P {
	t.Helper()
	var p P
	i := slices.IndexFunc(all, func(e event.Event) bool { return e.Type == typ })
	if i < 0 {
		t.Fatalf("no %s in %v", typ, all)
	}
	if err := json.Unmarshal(all[i].Payload, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

const smoke = "HARNESS_AUTH_DISABLED=true"

// The documented way to try it: the fake provider, no key.
func TestASmokeTestNeedsNoKey(t *testing.T) {
	c := listening(t, settings(t, smoke))
	id := c.start(`{"prompt": "Summarize the README file"}`)
	all := c.follow(id, "")
	if last := all[len(all)-1]; last.Type != event.RunCompleted {
		t.Fatalf("ended with %s: %s", last.Type, last.Payload)
	}
	var run api.Run
	c.do(http.MethodGet, "/v1/runs/"+id, "", &run)
	if run.Permissions.Sandbox != "unrestricted" || run.Permissions.Approval != "none" || run.Permissions.Network != "allow" {
		t.Errorf("without permissions a run has %+v", run.Permissions)
	}
}

// The hardened request in both documented spellings names what this node lacks, and is never run looser.
func TestAHardenedRequestIsRefusedByTheNameOfWhatIsMissing(t *testing.T) {
	c := listening(t, settings(t, smoke))
	for name, tools := range map[string]string{
		"as a body": `["read", "edit", "apply_patch", "bash", "git_status", "working_memory"]`,
		"with curl": `["read", "edit", "apply_patch", "bash", "working_memory"]`,
	} {
		t.Run(name, func(t *testing.T) {
			var p api.Problem
			code := c.do(http.MethodPost, "/v1/runs", `{
				"prompt": "Refactor internal/server/http.go to extract the route table",
				"model": "gpt-4.1",
				"allowed_tools": `+tools+`,
				"permissions": {"sandbox": "workspace", "approval": "destructive"}
			}`, &p)
			if code != http.StatusNotImplemented || p.Code != api.CodeNotBuilt || p.Field != "permissions.sandbox" ||
				p.Detail != "permissions.sandbox: workspace is not available on this node" {
				t.Errorf("%d: %+v", code, p)
			}
		})
	}
	var list api.RunList
	if c.do(http.MethodGet, "/v1/runs", "", &list); len(list.Runs) != 0 {
		t.Errorf("a refused request left %+v", list.Runs)
	}
}

func TestPermissionsAreRefusedByTheirField(t *testing.T) {
	c := listening(t, settings(t, smoke))
	for name, tt := range map[string]struct {
		body, field string
		code        int
	}{
		"at the top level":               {`"sandbox": "workspace"`, "sandbox", http.StatusBadRequest},
		"approval at the top":            {`"approval": "all"`, "approval", http.StatusBadRequest},
		"local":                          {`"permissions": {"sandbox": "local"}`, "permissions.sandbox", http.StatusNotImplemented},
		"workspace, no network":          {`"permissions": {"sandbox": "workspace", "network": "deny"}`, "permissions.sandbox", http.StatusNotImplemented},
		"a network that nobody can hold": {`"permissions": {"network": "deny"}`, "permissions.network", http.StatusBadRequest},
		"an unknown scope":               {`"permissions": {"sandbox": "jail"}`, "permissions.sandbox", http.StatusBadRequest},
		"an unknown policy":              {`"permissions": {"approval": "some"}`, "permissions.approval", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			var p api.Problem
			code := c.do(http.MethodPost, "/v1/runs", `{"prompt": "hello", `+tt.body+`}`, &p)
			if code != tt.code || p.Field != tt.field {
				t.Errorf("%d: %+v", code, p)
			}
			if strings.Contains(name, "top") && !strings.Contains(p.Detail, "permissions."+tt.field) {
				t.Errorf("%q does not say where the field belongs", p.Detail)
			}
		})
	}
}

// The documented flow: the event of an ask, then curl -X POST without a body.
func TestAnAskIsAnsweredByAPostWithoutABody(t *testing.T) {
	for _, tt := range []struct {
		verb     string
		decision event.Type
		runs     bool
	}{
		{"approve", event.ToolApprovalGranted, true},
		{"deny", event.ToolApprovalDenied, false},
	} {
		t.Run(tt.verb, func(t *testing.T) {
			cfg := settings(t, smoke)
			c := listening(t, cfg)
			id := c.start(`{"prompt": "build anew @@[{\"tool\":\"bash\",\"in\":{\"command\":\"echo cleared > build.log\"}},{\"text\":\"done\"}]@@",
				"permissions": {"approval": "destructive"}}`)
			all := c.follow(id, event.RunWaitingForApproval)
			ask := decoded[map[string]any](t, all, event.ToolApprovalRequired)
			if ask["tool"] != "bash" || ask["call_id"] == "" || ask["arguments"] != `{"command":"echo cleared > build.log"}` {
				t.Errorf("the ask: %v", ask)
			}
			deadline, err := time.Parse(time.RFC3339, ask["deadline_at"].(string))
			if err != nil || !deadline.After(time.Now()) {
				t.Errorf("deadline_at %v, %v", ask["deadline_at"], err)
			}
			var run api.Run
			for c.do(http.MethodGet, "/v1/runs/"+id, "", &run); run.Status != "waiting_for_approval"; {
				c.do(http.MethodGet, "/v1/runs/"+id, "", &run)
			}
			var answer map[string]any
			if code := c.do(http.MethodPost, "/v1/runs/"+id+"/"+tt.verb, "", &answer); code != http.StatusOK || answer["approval_id"] == "" {
				t.Fatalf("%d: %v", code, answer)
			}
			all = c.follow(id, "")
			if last := all[len(all)-1]; last.Type != event.RunCompleted {
				t.Fatalf("ended with %s: %s", last.Type, last.Payload)
			}
			if by := decoded[map[string]any](t, all, tt.decision); by["call_id"] != ask["call_id"] {
				t.Errorf("%v decides another call than %v", by, ask)
			}
			started := slices.ContainsFunc(all, func(e event.Event) bool { return e.Type == event.ToolCallStarted })
			if started != tt.runs {
				t.Errorf("the call was started: %v", started)
			}
			if got := c.resultError(run.ConversationID); (got == tool.CodePermissionDenied) == tt.runs {
				t.Errorf("the model read the error %q of its call", got)
			}
			if code := c.do(http.MethodPost, "/v1/runs/"+id+"/"+tt.verb, "", nil); code != http.StatusConflict {
				t.Errorf("an answer with nothing pending: %d", code)
			}
		})
	}
}

// The model sees the tools of allowed_tools and the three that always pass.
func TestTheModelSeesTheAllowedToolsOnly(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	n, repo := storyNode(t, wires[0], func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			var req struct {
				Tools []struct {
					Function struct{ Name string }
				}
			}
			if err := json.Unmarshal(data, &req); err != nil {
				t.Error(err)
			}
			mu.Lock()
			seen = nil
			for _, tl := range req.Tools {
				seen = append(seen, tl.Function.Name)
			}
			mu.Unlock()
			r.Body = io.NopCloser(bytes.NewReader(data))
			h.ServeHTTP(w, r)
		})
	})
	known := map[string]bool{}
	for _, d := range n.engine.Tools() {
		known[d.Name] = d.Tier == tool.TierCore
	}
	for name, tt := range map[string]struct {
		allowed []string
		blocked bool
	}{
		"a list": {[]string{"read", "bash", "working_memory"}, true},
		"none":   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			all := storyOf(t, n, map[string]any{
				"prompt": `go @@[{"tool":"write","in":{"path":"new.txt","content":"x"}},{"text":"done"}]@@`, "workspace": repo, "allowed_tools": tt.allowed,
			})
			var want []string
			for name, core := range known {
				if core && (len(tt.allowed) == 0 || slices.Contains(tt.allowed, name) || tool.AlwaysAvailableTools[name]) {
					want = append(want, name)
				}
			}
			mu.Lock()
			got := slices.Sorted(slices.Values(seen))
			mu.Unlock()
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("the model saw %v, not %v", got, want)
			}
			if blocked := slices.ContainsFunc(all, func(e event.Event) bool { return e.Type == event.ToolCallBlocked }); blocked != tt.blocked {
				t.Errorf("a call that is not in the list was refused: %v", blocked)
			}
		})
	}
}

func TestTheAlwaysAvailableToolsAreTheThree(t *testing.T) {
	want := map[string]bool{"AskUserQuestion": true, "find_tool": true, "skill": true}
	if !maps.Equal(tool.AlwaysAvailableTools, want) {
		t.Errorf("%v", tool.AlwaysAvailableTools)
	}
	if tool.TierCore != "core" || tool.TierDeferred != "deferred" {
		t.Errorf("tiers %q, %q", tool.TierCore, tool.TierDeferred)
	}
	if d := tool.DefaultPermissionConfig(); d.Sandbox != "unrestricted" || d.Approval != "none" {
		t.Errorf("default %+v", d)
	}
}

// The documented core tools are there in the first request of every run. The cron tools come with schedules.
func TestTheDocumentedCoreToolsAreListed(t *testing.T) {
	c := listening(t, settings(t, smoke))
	var list api.ToolList
	c.do(http.MethodGet, "/v1/tools", "", &list)
	tiers := map[string]string{}
	for _, tl := range list.Tools {
		tiers[tl.Name] = string(tl.Tier)
	}
	for _, name := range []string{
		"read", "write", "edit", "apply_patch", "bash", "job_output", "job_kill", "AskUserQuestion", "working_memory",
		"context_status", "compact_history", "todos", "skill", "find_tool",
	} {
		if tiers[name] != "core" {
			t.Errorf("%s has the tier %q", name, tiers[name])
		}
	}
}
