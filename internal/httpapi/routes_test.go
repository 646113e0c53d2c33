package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

func TestARunIsCreatedReadAndListed(t *testing.T) {
	s, f := open(t)
	w := ask(s, "POST", "/v1/runs", `{"prompt":"hello","permissions":{"approval":"all"},"metadata":{"k":"v"}}`)
	got := decodeBody[api.RunAccepted](t, w, http.StatusAccepted)
	if got.Status != "queued" || got.ConversationID != got.RunID || w.Header().Get("Location") != "/v1/runs/"+got.RunID {
		t.Fatalf("answer %+v, Location %q", got, w.Header().Get("Location"))
	}
	r := decodeBody[api.Run](t, ask(s, "GET", "/v1/runs/"+got.RunID, ""), 200)
	if r.Permissions.Approval != "all" || r.Metadata["k"] != "v" || r.LastSeq != 1 || r.Harness != "native" || r.TenantID != "default" {
		t.Fatalf("run %+v", r)
	}
	id := f.ask(got.RunID, "bash")
	if r := decodeBody[api.Run](t, ask(s, "GET", "/v1/runs/"+got.RunID, ""), 200); len(r.PendingApprovals) != 1 || r.PendingApprovals[0] != id {
		t.Fatalf("pending approvals %v", r.PendingApprovals)
	}
}

func TestListsComeInPagesAndRefuseGarbledOrForeignCursors(t *testing.T) {
	s, _ := open(t)
	for i := range 25 {
		body := `{"prompt":"p"}`
		if i%5 == 0 {
			body = `{"prompt":"p","conversation_id":"c1"}`
		}
		decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", body), 202)
	}
	seen, cursor := map[string]bool{}, ""
	for pages := 0; ; pages++ {
		l := decodeBody[api.RunList](t, ask(s, "GET", "/v1/runs?limit=10&cursor="+cursor, ""), 200)
		for _, r := range l.Runs {
			if seen[r.ID] {
				t.Fatalf("%s came twice", r.ID)
			}
			seen[r.ID] = true
		}
		if cursor == "" {
			cursor = l.NextCursor
			for name, bad := range map[string]string{
				"garbled":        "limit=10&cursor=x" + cursor,
				"cut":            "limit=10&cursor=" + cursor[:len(cursor)-2],
				"store's own":    "limit=10&cursor=run_0003",
				"another filter": "conversation_id=c1&cursor=" + cursor,
				"very long":      "cursor=" + strings.Repeat("A", 5000),
			} {
				if p := problem(t, ask(s, "GET", "/v1/runs?"+bad, "")); p.Code != api.CodeInvalidCursor || p.Field != "cursor" {
					t.Errorf("%s: %+v", name, p)
				}
			}
			if p := problem(t, ask(s, "GET", "/v1/approvals?cursor="+cursor, "")); p.Code != api.CodeInvalidCursor {
				t.Errorf("another list: %+v", p)
			}
		}
		if cursor = l.NextCursor; cursor == "" {
			break
		}
		if pages > 3 {
			t.Fatal("pages do not end")
		}
	}
	if len(seen) != 25 {
		t.Fatalf("%d runs in pages, want 25", len(seen))
	}
	if l := decodeBody[api.RunList](t, ask(s, "GET", "/v1/runs?conversation_id=c1", ""), 200); len(l.Runs) != 5 {
		t.Fatalf("%d runs of c1, want 5", len(l.Runs))
	}
	for _, q := range []string{"limit=0", "limit=201", "limit=x", "status=done", "state=queued"} {
		p := problem(t, ask(s, "GET", "/v1/runs?"+q, ""))
		if name, _, _ := strings.Cut(q, "="); p.Status != 400 || p.Field != name {
			t.Errorf("%s: %+v", q, p)
		}
	}
}

func TestLongTextsAreCutInListsAndWholeByID(t *testing.T) {
	s, _ := open(t)
	long := strings.Repeat("ä", 3000)
	id := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"`+long+`"}`), 202).RunID
	l := decodeBody[api.RunList](t, ask(s, "GET", "/v1/runs", ""), 200)
	if r := l.Runs[0]; len(r.Prompt) > maxListText+4 || len(r.Truncated) != 1 || r.Truncated[0] != "prompt" {
		t.Fatalf("prompt has %d bytes, truncated %v", len(r.Prompt), r.Truncated)
	}
	if r := decodeBody[api.Run](t, ask(s, "GET", "/v1/runs/"+id, ""), 200); r.Prompt != long || r.Truncated != nil {
		t.Fatal("the run by its id is not whole")
	}
}

func TestARepeatedIdempotencyKeyReturnsTheFirstRun(t *testing.T) {
	s, _ := open(t)
	one := ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Idempotency-Key", "k1")
	two := ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Idempotency-Key", "k1")
	if a, b := decodeBody[api.RunAccepted](t, one, 202), decodeBody[api.RunAccepted](t, two, 202); a.RunID != b.RunID {
		t.Fatalf("%s and %s", a.RunID, b.RunID)
	}
	if one.Header().Get("Idempotency-Replayed") != "" || two.Header().Get("Idempotency-Replayed") != "true" {
		t.Fatal("Idempotency-Replayed does not tell the two apart")
	}
	if p := problem(t, ask(s, "POST", "/v1/runs", `{"prompt":"b"}`, "Idempotency-Key", "k1")); p.Code != api.CodeIdempotency || p.Status != 409 {
		t.Fatalf("%+v", p)
	}
	for _, bad := range []string{"", " ", "a b", "ä", strings.Repeat("k", 256), "a\tb"} {
		if p := problem(t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`, "Idempotency-Key", bad)); p.Field != "Idempotency-Key" || p.Status != 400 {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

func TestApproveAndDenyAnswerTheOnlyPendingCall(t *testing.T) {
	s, f := open(t)
	id := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`), 202).RunID
	if p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/approve", "")); p.Code != api.CodeNoPendingApproval {
		t.Fatalf("none pending: %+v", p)
	}
	for i, c := range []struct{ verb, body, status string }{
		{"approve", "", "approved"}, {"approve", "{}", "approved"}, {"deny", `{"reason":"no"}`, "denied"}, {"deny", "", "denied"},
	} {
		ap := f.ask(id, "bash")
		got := decodeBody[api.RunDecided](t, ask(s, "POST", "/v1/runs/"+id+"/"+c.verb, c.body), 200)
		if got.ApprovalID != ap || got.Status != c.status {
			t.Errorf("%d: %+v", i, got)
		}
	}
	a, b := f.ask(id, "bash"), f.ask(id, "write")
	p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/approve", "{}"))
	if p.Code != api.CodeSeveralPending || !strings.Contains(fmt.Sprint(p.Details), a) || !strings.Contains(fmt.Sprint(p.Details), b) {
		t.Fatalf("several pending: %+v", p)
	}
	if p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/approve", `{"call_id":"x"}`)); p.Code != api.CodeUnknownField || p.Field != "call_id" {
		t.Fatalf("unknown field: %+v", p)
	}
	if p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/deny", `{"reason":"`+strings.Repeat("x", 4097)+`"}`)); p.Field != "reason" {
		t.Fatalf("long reason: %+v", p)
	}
}

func TestAnApprovalIsAnsweredByItsID(t *testing.T) {
	s, f := open(t)
	run := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`), 202).RunID
	id := f.ask(run, "bash")
	l := decodeBody[api.ApprovalList](t, ask(s, "GET", "/v1/approvals?status=pending&run_id="+run, ""), 200)
	if len(l.Approvals) != 1 || l.Approvals[0].Digest == "" || l.Approvals[0].Arguments == "" {
		t.Fatalf("%+v", l)
	}
	path := "/v1/approvals/" + id
	a := decodeBody[event.Approval](t, ask(s, "POST", path, `{"decision":"approve","scope":"session","reason":"fine"}`), 200)
	if a.Status != event.ApprovalApproved || a.Scope != event.ScopeSession || a.DecidedBy != "key:local" {
		t.Fatalf("%+v", a)
	}
	decodeBody[event.Approval](t, ask(s, "POST", path, `{"decision":"approve"}`), 200) // the same answer again
	p := problem(t, ask(s, "POST", path, `{"decision":"deny"}`))
	if details, _ := json.Marshal(p.Details); p.Code != api.CodeApprovalConflict || !strings.Contains(string(details), `"status":"approved"`) {
		t.Fatalf("contrary answer: %+v", p)
	}
	for body, field := range map[string]string{
		`{}`: "decision", `{"decision":"yes"}`: "decision", `{"decision":"approve","scope":"always"}`: "scope", `{"decision":"approve","approve":true}`: "approve",
	} {
		if p := problem(t, ask(s, "POST", path, body)); p.Status != 400 || p.Field != field {
			t.Errorf("%s: %+v", body, p)
		}
	}
	if l := decodeBody[api.ApprovalList](t, ask(s, "GET", "/v1/approvals?status=pending", ""), 200); l.Approvals == nil || len(l.Approvals) != 0 {
		t.Fatalf("pending after the answer: %+v", l)
	}
}

func TestAnswersAreStringsOrListsAndKeepTheirCommas(t *testing.T) {
	s, f := open(t)
	id := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`), 202).RunID
	if p := problem(t, ask(s, "GET", "/v1/runs/"+id+"/input", "")); p.Code != api.CodeNoPendingInput {
		t.Fatalf("%+v", p)
	}
	f.runs[id].Status = store.StatusWaitingForUser
	if q := decodeBody[event.PendingQuestion](t, ask(s, "GET", "/v1/runs/"+id+"/input", ""), 200); q.CallID != "call_q" {
		t.Fatalf("%+v", q)
	}
	for body, want := range map[string]string{
		`{"answers":{"Which?":"free, text"}}`: `["free, text"]`,
		`{"answers":{"Which?":["a, b","c"]}}`: `["a, b","c"]`,
	} {
		decodeBody[api.Accepted](t, ask(s, "POST", "/v1/runs/"+id+"/input", body), 202)
		if got, _ := json.Marshal(f.answers); string(got) != want {
			t.Errorf("%s gave %s", body, got)
		}
	}
	for _, body := range []string{`{}`, `{"answers":{}}`, `{"answers":{"Which?":1}}`, `{"answers":{"Which?":null}}`, `{"answers":["a"]}`, `{"answers":{"Which?":"a","Which?":"b"}}`} {
		if p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/input", body)); p.Status != 400 {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

func TestCancelSteerContinueAndTools(t *testing.T) {
	s, f := open(t)
	id := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`), 202).RunID
	if c := decodeBody[api.RunCancelled](t, ask(s, "POST", "/v1/runs/"+id+"/cancel", ""), 200); c.Status != "cancelling" {
		t.Fatalf("%+v", c)
	}
	decodeBody[api.Accepted](t, ask(s, "POST", "/v1/runs/"+id+"/steer", `{"prompt":"also"}`), 202)
	if p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/steer", `{"prompt":" "}`)); p.Field != "prompt" {
		t.Fatalf("%+v", p)
	}
	f.emit(id, event.RunCancelled)
	if c := decodeBody[api.RunCancelled](t, ask(s, "POST", "/v1/runs/"+id+"/cancel", "{}"), 200); c.Status != "cancelled" {
		t.Fatalf("%+v", c)
	}
	if p := problem(t, ask(s, "POST", "/v1/runs/"+id+"/steer", `{"prompt":"also"}`)); p.Code != api.CodeRunNotActive {
		t.Fatalf("%+v", p)
	}
	if c := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs/"+id+"/continue", `{"prompt":"b"}`), 202); c.ConversationID != id || c.RunID == id {
		t.Fatalf("%+v", c)
	}
	if l := decodeBody[api.ToolList](t, ask(s, "GET", "/v1/tools", ""), 200); len(l.Tools) != 1 || l.Tools[0].Mutating || l.Tools[0].Tier != "core" {
		t.Fatalf("%+v", l)
	}
}

func TestEngineErrorsKeepTheirMeaningAndInternalOnesTheirSecret(t *testing.T) {
	s, f := open(t)
	for name, c := range map[string]struct {
		err    error
		status int
		code   api.Code
	}{
		"invalid":        {refuse(engine.KindInvalid, "invalid_request", "no"), 400, api.CodeInvalidRequest},
		"not built":      {&engine.Error{Kind: engine.KindNotBuilt, Code: "not_built", Field: "permissions.sandbox", Message: "workspace is not available on this node"}, 501, api.CodeNotBuilt},
		"forbidden":      {&engine.Error{Kind: engine.KindForbidden, Code: "insufficient_scope", Message: "no", Details: map[string]any{"required": "runs:unrestricted"}}, 403, api.CodeInsufficientScope},
		"buffer":         {refuse(engine.KindConflict, "steering_buffer_full", "no"), 429, api.CodeSteeringBufferFull},
		"busy":           {refuse(engine.KindBusy, "busy", "no"), 503, api.CodeBusy},
		"unlisted":       {refuse(engine.KindConflict, "something_else", "no"), 409, api.CodeConflict},
		"conflict":       {fmt.Errorf("x: %w", &event.ConflictError{What: "approval ap_1", Status: "denied"}), 409, api.CodeConflict},
		"store closed":   {fmt.Errorf("x: %w", store.ErrClosed), 503, api.CodeBusy},
		"store mismatch": {store.ErrIdempotencyMismatch, 409, api.CodeIdempotency},
		"store missing":  {store.ErrNotFound, 404, api.CodeNotFound},
		"internal":       {errDisk, 500, api.CodeInternal},
	} {
		f.submit = func() error { return c.err }
		p := problem(t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`))
		if p.Status != c.status || p.Code != c.code || strings.Contains(p.Detail, "secret") {
			t.Errorf("%s: %+v", name, p)
		}
		if (p.Code == api.CodeInternal) != (p.Instance != "") {
			t.Errorf("%s: instance %q", name, p.Instance)
		}
	}
	f.submit = func() error {
		return &engine.Error{Kind: engine.KindForbidden, Code: "insufficient_scope", Field: "permissions.sandbox", Message: "no", Details: map[string]any{"required": "runs:unrestricted"}}
	}
	if p := problem(t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`)); p.Required != "runs:unrestricted" || p.Details != nil {
		t.Errorf("%+v", p)
	}
}

func TestTheInsideOfARun(t *testing.T) {
	s, f := open(t)
	id := decodeBody[api.RunAccepted](t, ask(s, "POST", "/v1/runs", `{"prompt":"a"}`), 202).RunID
	if p := problem(t, ask(s, "GET", "/v1/runs/"+id+"/summary", "")); p.Code != api.CodeRunNotFinished {
		t.Errorf("%+v", p)
	}
	decodeBody[api.RunSummary](t, ask(s, "GET", "/v1/runs/"+id+"/summary?partial=true", ""), 200)
	if c := decodeBody[api.RunContext](t, ask(s, "GET", "/v1/runs/"+id+"/context", ""), 200); c.RunID != id || c.Pressure != 0.5 || c.Window != 1000 {
		t.Errorf("%+v", c)
	}
	decodeBody[api.Accepted](t, ask(s, "POST", "/v1/runs/"+id+"/compact", ""), 202)
	decodeBody[api.Accepted](t, ask(s, "POST", "/v1/runs/"+id+"/compact", `{"mode":"strip","keep_last":2}`), 202)
	if l := decodeBody[api.TodoList](t, ask(s, "GET", "/v1/runs/"+id+"/todos", ""), 200); len(l.Todos) != 1 {
		t.Errorf("%+v", l)
	}
	if l := decodeBody[api.TodoList](t, ask(s, "PUT", "/v1/runs/"+id+"/todos", `{"todos":[{"text":"b"}]}`), 200); len(l.Todos) != 1 || l.Todos[0].Text != "b" {
		t.Errorf("%+v", l)
	}
	if p := problem(t, ask(s, "PUT", "/v1/runs/"+id+"/todos", `{}`)); p.Field != "todos" {
		t.Errorf("%+v", p)
	}
	f.emit(id, event.RunCompleted)
	sum := decodeBody[api.RunSummary](t, ask(s, "GET", "/v1/runs/"+id+"/summary", ""), 200)
	if sum.ToolCallsTotal != 2 || sum.ToolCalls[0].Status != "completed" || sum.ToolCalls[1].Status != "failed" {
		t.Errorf("%+v", sum)
	}
}

// fakeModels knows two providers.
type fakeModels struct{ keys map[string]string }

func (f fakeModels) Models() []api.Model {
	list := []api.Model{{ID: "big", Provider: "one", Priced: true, InputCostPerMTok: 3}}
	for i := range 5 {
		list = append(list, api.Model{ID: fmt.Sprint("m", i), Provider: "two"})
	}
	return list
}

func (f fakeModels) Providers() []api.Provider {
	return []api.Provider{{Name: "one", Configured: f.keys["one"] != "", ModelCount: 1}, {Name: "two", ModelCount: 5}}
}

func (f fakeModels) SetKey(provider, key string) error {
	if provider != "one" {
		return api.NewProblem(api.CodeNotFound, "provider %q is not configured", provider)
	}
	f.keys[provider] = key
	return nil
}

func (f fakeModels) RemoveKey(provider string) error { return f.SetKey(provider, "") }

func TestModelsAndProviders(t *testing.T) {
	s, err := New(Options{Runs: newFake(), AuthDisabled: true, Models: fakeModels{map[string]string{}}})
	if err != nil {
		t.Fatal(err)
	}
	if l := decodeBody[api.ModelList](t, ask(s, "GET", "/v1/models", ""), 200); len(l.Models) != 6 || !l.Models[0].Priced || l.NextCursor != "" {
		t.Fatalf("%+v", l)
	}
	var ids []string
	for cursor := ""; ; {
		l := decodeBody[api.ModelList](t, ask(s, "GET", "/v1/models?provider=two&limit=2&cursor="+cursor, ""), 200)
		for _, m := range l.Models {
			ids = append(ids, m.ID)
		}
		if cursor = l.NextCursor; cursor == "" {
			break
		}
	}
	if strings.Join(ids, " ") != "m0 m1 m2 m3 m4" {
		t.Errorf("pages hold %v", ids)
	}
	if w := ask(s, "PUT", "/v1/providers/one/key", `{"key":"sk-secret"}`); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := ask(s, "GET", "/v1/providers", "")
	if l := decodeBody[api.ProviderList](t, w, 200); len(l.Providers) != 2 || !l.Providers[0].Configured || strings.Contains(w.Body.String(), "sk-secret") {
		t.Errorf("%+v", l)
	}
	if w := ask(s, "DELETE", "/v1/providers/one/key", ""); w.Code != http.StatusNoContent {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if p := problem(t, ask(s, "PUT", "/v1/providers/none/key", `{"key":"k"}`)); p.Code != api.CodeNotFound {
		t.Errorf("%+v", p)
	}
	if p := problem(t, ask(s, "PUT", "/v1/providers/one/key", `{"key":""}`)); p.Field != "key" {
		t.Errorf("%+v", p)
	}
}
