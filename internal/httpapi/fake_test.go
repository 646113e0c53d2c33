package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/api"
	"github.com/harness-go/harness/internal/apikey"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// fakeRuns is an engine with runs in memory. Nothing executes them; tests append to their logs.
type fakeRuns struct {
	mu        sync.Mutex
	runs      map[string]*store.Run
	keys      map[string]string // idempotency key → run
	logs      map[string][]event.Event
	watches   map[string]map[chan struct{}]bool
	approvals map[string]*event.Approval
	answers   []string
	messages  map[string][]engine.Message // by conversation
	n         int

	afterEvents  func(runID string) // called without the lock, between a read and its return
	submit       func() error
	failMessages func(after int64) error
}

func newFake() *fakeRuns {
	return &fakeRuns{
		runs: map[string]*store.Run{}, keys: map[string]string{}, logs: map[string][]event.Event{},
		watches: map[string]map[chan struct{}]bool{}, approvals: map[string]*event.Approval{},
	}
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func refuse(kind engine.ErrorKind, code, format string, args ...any) error {
	return &engine.Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (f *fakeRuns) find(p engine.Principal, id string) (*store.Run, error) {
	r, ok := f.runs[id]
	if !ok || r.TenantID != p.TenantID {
		return nil, refuse(engine.KindNotFound, "not_found", "run %s does not exist", id)
	}
	return r, nil
}

func (f *fakeRuns) Submit(_ context.Context, p engine.Principal, req engine.RunRequest, key string) (store.Run, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.submit != nil {
		if err := f.submit(); err != nil {
			return store.Run{}, false, err
		}
	}
	if id, ok := f.keys[key]; ok && key != "" {
		if f.runs[id].Prompt != req.Prompt {
			return store.Run{}, false, refuse(engine.KindConflict, "idempotency_mismatch", "this Idempotency-Key was used with another request")
		}
		return *f.runs[id], true, nil
	}
	f.n++
	plan := engine.Plan{
		Harness: "native", Model: req.Model, Workspace: "/w", Metadata: req.Metadata, ApprovalDeadline: "72h0m0s",
		Permissions: event.Permissions{Sandbox: "unrestricted", Network: "allow", Approval: "none"},
	}
	if req.Permissions != nil {
		plan.Permissions.Approval = string(req.Permissions.Normalize().Approval)
	}
	body, err := json.Marshal(plan)
	if err != nil {
		return store.Run{}, false, err
	}
	id := fmt.Sprintf("run_%04d", f.n)
	r := &store.Run{
		ID: id, TenantID: p.TenantID, ConversationID: cmp.Or(req.ConversationID, id), Status: store.StatusQueued,
		Prompt: req.Prompt, Request: body, CreatedBy: p.Identity(), CreatedAt: epoch, UpdatedAt: epoch,
		Cost: event.CostTotals{CostStatus: event.CostPending},
	}
	f.runs[id], f.keys[key] = r, id
	f.append(id, event.RunQueued)
	return *r, false, nil
}

// emit appends events of the types to a run's log.
func (f *fakeRuns) emit(id string, types ...event.Type) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.append(id, types...)
}

func (f *fakeRuns) append(id string, types ...event.Type) {
	for _, t := range types {
		r := f.runs[id]
		r.Head++
		f.logs[id] = append(f.logs[id], event.Event{
			RunID: id, Seq: r.Head, Type: t, Timestamp: epoch.Add(time.Duration(r.Head) * time.Millisecond),
			Payload: json.RawMessage(fmt.Sprintf(`{"schema_version":"1","conversation_id":"%s","step":1,"content":"%d"}`, id, r.Head)),
		})
		if t.Terminal() {
			r.Status = store.Status(strings.TrimPrefix(string(t), "run."))
		}
	}
	for ch := range f.watches[id] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (f *fakeRuns) Continue(ctx context.Context, p engine.Principal, id string, req engine.ContinueRequest, key string) (store.Run, error) {
	f.mu.Lock()
	prev, err := f.find(p, id)
	f.mu.Unlock()
	if err != nil {
		return store.Run{}, err
	}
	r, _, err := f.Submit(ctx, p, engine.RunRequest{Prompt: req.Prompt, ConversationID: prev.ConversationID}, key)
	return r, err
}

func (f *fakeRuns) Cancel(_ context.Context, p engine.Principal, id string) (store.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(p, id)
	if err != nil {
		return store.Run{}, err
	}
	return *r, nil
}

func (f *fakeRuns) Summary(ctx context.Context, p engine.Principal, id string) (engine.Summary, error) {
	r, err := f.Run(ctx, p, id)
	return engine.Summary{
		Run: r, CallsTotal: 2, ModelCalls: 2,
		Calls: []engine.ToolUse{{Tool: "read", Step: 1, CallID: "c1", Done: true, DurationMS: 3}, {Tool: "bash", Step: 1, CallID: "c2", Done: true, Error: "timeout"}},
	}, err
}

func (f *fakeRuns) Context(ctx context.Context, p engine.Principal, id string) (tool.ContextStatus, error) {
	_, err := f.Run(ctx, p, id)
	return tool.ContextStatus{Messages: 3, Tokens: 500, Window: 1000, Pressure: 0.5}, err
}

func (f *fakeRuns) Compact(ctx context.Context, p engine.Principal, id string, _ native.CompactRequest) error {
	return f.Steer(ctx, p, id, "")
}

func (f *fakeRuns) CompactConversation(ctx context.Context, p engine.Principal, id string, _ native.CompactRequest) error {
	return f.Steer(ctx, p, id, "")
}

func (f *fakeRuns) Todos(ctx context.Context, p engine.Principal, id string) ([]event.Todo, error) {
	_, err := f.Run(ctx, p, id)
	return []event.Todo{{ID: "1", Text: "look", Status: "pending"}}, err
}

func (f *fakeRuns) SetTodos(ctx context.Context, p engine.Principal, id string, list []event.Todo) ([]event.Todo, error) {
	return list, f.Steer(ctx, p, id, "")
}

func (f *fakeRuns) Steer(_ context.Context, p engine.Principal, id, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(p, id)
	if err == nil && r.Status.Terminal() {
		err = refuse(engine.KindConflict, "run_not_active", "run %s has ended", id)
	}
	return err
}

func (f *fakeRuns) Run(_ context.Context, p engine.Principal, id string) (store.Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(p, id)
	if err != nil {
		return store.Run{}, err
	}
	return *r, nil
}

func (f *fakeRuns) Runs(_ context.Context, p engine.Principal, o store.ListOptions) ([]store.Run, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []store.Run
	for _, r := range f.runs {
		if r.TenantID == p.TenantID && (o.Status == "" || string(r.Status) == o.Status) &&
			(o.ConversationID == "" || r.ConversationID == o.ConversationID) && (o.Cursor == "" || r.ID < o.Cursor) {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b store.Run) int { return strings.Compare(b.ID, a.ID) })
	next := ""
	if limit := cmp.Or(o.Limit, 50); len(list) > limit {
		list = list[:limit]
		next = list[limit-1].ID
	}
	return list, next, nil
}

func (f *fakeRuns) Plan(r store.Run) (engine.Plan, error) {
	var p engine.Plan
	return p, json.Unmarshal(r.Request, &p)
}

func (f *fakeRuns) Events(_ context.Context, p engine.Principal, id string, after int64, limit int) ([]event.Event, error) {
	if f.afterEvents != nil {
		defer f.afterEvents(id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(p, id); err != nil {
		return nil, err
	}
	log := f.logs[id]
	if after >= int64(len(log)) {
		return nil, nil
	}
	log = log[after:]
	return slices.Clone(log[:min(len(log), limit)]), nil
}

func (f *fakeRuns) Watch(_ context.Context, p engine.Principal, id string) (<-chan struct{}, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(p, id); err != nil {
		return nil, nil, err
	}
	ch := make(chan struct{}, 1)
	if f.watches[id] == nil {
		f.watches[id] = map[chan struct{}]bool{}
	}
	f.watches[id][ch] = true
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watches[id], ch)
	}, nil
}

func (f *fakeRuns) watching(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watches[id])
}

func (f *fakeRuns) ask(runID, tool string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	id := fmt.Sprintf("ap_%04d", f.n)
	r := f.runs[runID]
	r.Status = store.StatusWaitingForApproval
	f.approvals[id] = &event.Approval{
		ID: id, RunID: runID, TenantID: r.TenantID, CallID: "call_1", Harness: "native", Tool: tool, Kind: "bash",
		Arguments: `{"command":"ls"}`, Cwd: "/w", Digest: "d", Why: "approval policy all", Status: event.ApprovalPending,
		Scope: event.ScopeOnce, RequestedAt: epoch, ExpiresAt: epoch.Add(72 * time.Hour),
	}
	return id
}

func (f *fakeRuns) Decide(_ context.Context, p engine.Principal, id string, d engine.Decision) (event.Approval, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.approvals[id]
	if !ok || a.TenantID != p.TenantID {
		return event.Approval{}, refuse(engine.KindNotFound, "not_found", "approval %s does not exist", id)
	}
	want := event.ApprovalDenied
	if d.Approve {
		want = event.ApprovalApproved
	}
	if a.Status == event.ApprovalPending {
		a.Status, a.Reason, a.Scope, a.DecidedBy = want, d.Reason, d.Scope, p.Identity()
		at := epoch
		a.DecidedAt = &at
	}
	if a.Status != want {
		return *a, &engine.Error{Kind: engine.KindConflict, Code: "approval_conflict", Message: "approval " + id + " is already " + string(a.Status), Details: *a}
	}
	return *a, nil
}

func (f *fakeRuns) DecideOnly(ctx context.Context, p engine.Principal, runID string, d engine.Decision) (event.Approval, error) {
	f.mu.Lock()
	_, err := f.find(p, runID)
	var pending []string
	for _, a := range f.approvals {
		if a.RunID == runID && a.Status == event.ApprovalPending {
			pending = append(pending, a.ID)
		}
	}
	f.mu.Unlock()
	switch {
	case err != nil:
		return event.Approval{}, err
	case len(pending) == 0:
		return event.Approval{}, refuse(engine.KindConflict, "no_pending_approval", "no approval of run %s is pending", runID)
	case len(pending) > 1:
		slices.Sort(pending)
		return event.Approval{}, &engine.Error{Kind: engine.KindConflict, Code: "several_pending_approvals", Message: "answer each by its id", Details: pending}
	}
	return f.Decide(ctx, p, pending[0], d)
}

func (f *fakeRuns) Approval(_ context.Context, p engine.Principal, id string) (event.Approval, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.approvals[id]
	if !ok || a.TenantID != p.TenantID {
		return event.Approval{}, refuse(engine.KindNotFound, "not_found", "approval %s does not exist", id)
	}
	return *a, nil
}

func (f *fakeRuns) Approvals(_ context.Context, p engine.Principal, o store.ListOptions) ([]event.Approval, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []event.Approval
	for _, a := range f.approvals {
		if a.TenantID == p.TenantID && (o.RunID == "" || a.RunID == o.RunID) && (o.Status == "" || string(a.Status) == o.Status) {
			list = append(list, *a)
		}
	}
	slices.SortFunc(list, func(a, b event.Approval) int { return strings.Compare(b.ID, a.ID) })
	return list, "", nil
}

func (f *fakeRuns) PendingQuestion(_ context.Context, p engine.Principal, id string) (event.PendingQuestion, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, err := f.find(p, id)
	if err == nil && r.Status != store.StatusWaitingForUser {
		err = refuse(engine.KindConflict, "no_pending_input", "run %s waits for no answer", id)
	}
	if err != nil {
		return event.PendingQuestion{}, err
	}
	return event.PendingQuestion{
		ID: "qu_1", RunID: id, TenantID: r.TenantID, CallID: "call_q", Tool: "AskUserQuestion", Status: event.QuestionPending,
		Questions: []event.Question{{Question: "Which?", Header: "Choice", Options: []event.QuestionOption{{Label: "a, b"}, {Label: "c"}}, MultiSelect: true}},
		AskedAt:   epoch, DeadlineAt: epoch.Add(24 * time.Hour),
	}, nil
}

func (f *fakeRuns) Answer(ctx context.Context, p engine.Principal, id string, answers map[string][]string) (event.PendingQuestion, error) {
	q, err := f.PendingQuestion(ctx, p, id)
	if err != nil {
		return q, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers = answers["Which?"]
	return q, nil
}

func (f *fakeRuns) Tools() []tool.Definition {
	return []tool.Definition{{
		Name: "read", Description: "Reads a file.", Schema: json.RawMessage(`{"type":"object"}`),
		Tier: tool.TierCore, Kind: tool.KindReadonly, Parallel: true,
	}}
}

// memoryKeys keeps keys by hash.
type memoryKeys struct {
	mu   sync.Mutex
	keys map[[32]byte]store.Key
	err  error
}

func (m *memoryKeys) KeyByHash(_ context.Context, h [32]byte) (store.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return store.Key{}, m.err
	}
	k, ok := m.keys[h]
	if !ok {
		return store.Key{}, store.ErrNotFound
	}
	return k, nil
}

// add makes a key.
func (m *memoryKeys) add(t testing.TB, tenant string, scopes ...string) string {
	t.Helper()
	plain, k, err := apikey.New(tenant, "test", scopes, 0)
	if err != nil {
		t.Fatal(err)
	}
	m.put(k)
	return plain
}

func (m *memoryKeys) put(k store.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = map[[32]byte]store.Key{}
	}
	m.keys[k.Hash] = k
}

func (m *memoryKeys) get(plain string) store.Key {
	h, _ := apikey.Parse(plain)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[h]
}

// open makes a server without authentication over a fake engine.
func open(t testing.TB) (*Server, *fakeRuns) {
	t.Helper()
	f := newFake()
	s, err := New(Options{Runs: f, AuthDisabled: true})
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

// locked makes a server with keys.
func locked(t testing.TB) (*Server, *fakeRuns, *memoryKeys) {
	t.Helper()
	f, keys := newFake(), &memoryKeys{}
	s, err := New(Options{Runs: f, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return s, f, keys
}

// ask sends a request to the handler. header is pairs of name and value.
func ask(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost:8080"
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// problem checks that an answer is a whole problem with a code of the list, and returns it.
func problem(t testing.TB, w *httptest.ResponseRecorder) api.Problem {
	t.Helper()
	return problemIn(t, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
}

func problemIn(t testing.TB, status int, mediaType string, body []byte) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(body, &p); err != nil || mediaType != api.ProblemType {
		t.Fatalf("%d %q is not a problem (%s): %v", status, body, mediaType, err)
	}
	info, ok := p.Code.Info()
	if !ok || p.Status != status || info.Status != status || p.Title != info.Title || p.Detail == "" ||
		p.Type != "urn:harness:problem:"+string(p.Code) {
		t.Fatalf("problem of a %d = %+v", status, p)
	}
	return p
}

func decodeBody[T any](t testing.TB, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var v T
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return v
}

var errDisk = errors.New("disk I/O error at /secret/path")

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
