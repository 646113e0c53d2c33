package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/tool"
)

// newID makes a random (version 4) UUID behind a prefix.
func newID(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return prefix + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Submit accepts a run. With an idempotency key the same request again returns the first run and existed true; the
// key with another request is a conflict.
func (e *Engine) Submit(ctx context.Context, p Principal, req RunRequest, idempotencyKey string) (run store.Run, existed bool, err error) {
	if req.TenantID != "" && req.TenantID != p.TenantID {
		return store.Run{}, false, invalid("tenant_id", "must be the key's own tenant")
	}
	plan, err := e.plan(p, req)
	if err != nil {
		return store.Run{}, false, err
	}
	digest, err := requestDigest(req)
	if err != nil {
		return store.Run{}, false, err
	}
	files, err := attachments(plan.Workspace, req.Attachments)
	if err != nil {
		return store.Run{}, false, err
	}
	return e.create(ctx, p, draft{prompt: req.Prompt, files: files, conversation: req.ConversationID, plan: plan, key: idempotencyKey, digest: digest})
}

// Continue starts a further run in the conversation of an ended run, with that run's settings.
func (e *Engine) Continue(ctx context.Context, p Principal, runID string, req ContinueRequest, idempotencyKey string) (store.Run, error) {
	prev, err := e.Run(ctx, p, runID)
	if err != nil {
		return store.Run{}, err
	}
	if !prev.Status.Terminal() {
		return store.Run{}, conflict("run_not_finished", "run %s is %s: only an ended run can be continued; use steer for an active one", prev.ID, prev.Status)
	}
	old, err := e.Plan(prev)
	if err != nil {
		return store.Run{}, err
	}
	full := RunRequest{
		Prompt: req.Prompt, Model: old.Model, ProviderName: old.ProviderName, FallbackProviders: old.FallbackProviders,
		ReasoningEffort: old.ReasoningEffort, SystemPrompt: old.SystemPrompt, ConversationID: prev.ConversationID, AgentID: old.AgentID,
		Harness: old.Harness, Workspace: old.Workspace, AllowedTools: old.AllowedTools, DeniedTools: old.DeniedTools,
		Permissions: req.Permissions, MaxSteps: old.MaxSteps, MaxCostUSD: old.MaxCostUSD, MaxTokensTotal: old.MaxTokensTotal,
		TimeoutSeconds: old.TimeoutSeconds, ApprovalDeadline: old.ApprovalDeadline, OutputSchema: old.OutputSchema, Metadata: old.Metadata,
	}
	if req.AllowedTools != nil {
		full.AllowedTools = req.AllowedTools
	}
	if full.Permissions == nil {
		full.Permissions = permissionsOf(old)
	}
	full.Traceparent = req.Traceparent
	plan, err := e.plan(p, full)
	if err != nil {
		return store.Run{}, err
	}
	plan.Trace.Previous = old.Trace.Parent
	if req.Compact != nil {
		if plan.Harness != native.HarnessID {
			return store.Run{}, notBuilt("compact", "compaction is not available for the harness %s", plan.Harness)
		}
		if err := checkCompact("compact.", *req.Compact); err != nil {
			return store.Run{}, err
		}
		plan.Compact = req.Compact
	}
	digest, err := requestDigest(struct {
		Run string
		ContinueRequest
	}{runID, req})
	if err != nil {
		return store.Run{}, err
	}
	files, err := attachments(plan.Workspace, req.Attachments)
	if err != nil {
		return store.Run{}, err
	}
	run, _, err := e.create(ctx, p, draft{prompt: req.Prompt, files: files, conversation: prev.ConversationID, previous: prev.ID, plan: plan, key: idempotencyKey, digest: digest})
	return run, err
}

// draft is a run that is about to be created.
type draft struct {
	prompt                 string
	files                  []ai.FilePart
	conversation, previous string
	plan                   Plan
	key, digest            string
}

func (e *Engine) create(ctx context.Context, p Principal, d draft) (store.Run, bool, error) {
	id := newID("run_")
	if d.conversation == "" {
		d.conversation = id
	}
	c, err := e.bear(ctx, p, id, d)
	switch {
	case errors.Is(err, store.ErrIdempotencyMismatch):
		return store.Run{}, false, conflict("idempotency_mismatch", "this Idempotency-Key was used with another request")
	case err != nil:
		return store.Run{}, false, err
	}
	if c.Leased {
		e.created.Store(c.Run.ID, c.Run)
		e.tenants.put(c.Run.ID, c.Run.TenantID)
		e.dispatch(store.Wake{RunID: c.Run.ID, Epoch: c.Run.Epoch})
	}
	return c.Run, c.Existed, nil
}

// bear stores a run with its attachments.
func (e *Engine) bear(ctx context.Context, p Principal, id string, d draft) (store.Created, error) {
	e.births.RLock()
	defer e.births.RUnlock()
	kept, err := e.attach(ctx, p.TenantID, d.conversation, d.files)
	if err != nil {
		return store.Created{}, err
	}
	d.plan.Attachments = kept
	body, err := json.Marshal(d.plan)
	if err != nil {
		return store.Created{}, fmt.Errorf("engine: encode plan: %w", err)
	}
	c, err := e.o.Store.CreateRun(ctx, store.NewRun{
		ID: id, TenantID: p.TenantID, ConversationID: d.conversation, PreviousRunID: d.previous, AgentID: d.plan.AgentID, Prompt: d.prompt, Request: body,
		CreatedBy: p.Identity(), IdempotencyKey: d.key, BodyDigest: d.digest, Lease: true,
	})
	if err != nil && ctx.Err() == nil || c.Existed {
		e.forget(p.TenantID, d.conversation, kept)
	}
	return c, err
}

func requestDigest(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("engine: digest of request: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Run returns a run of the principal's tenant.
func (e *Engine) Run(ctx context.Context, p Principal, id string) (store.Run, error) {
	r, err := e.o.Store.GetRun(ctx, id)
	if errors.Is(err, store.ErrNotFound) || (err == nil && r.TenantID != p.TenantID) {
		return store.Run{}, notFound("run %s does not exist", id)
	}
	return r, err
}

// Runs lists runs of the principal's tenant, newest first.
func (e *Engine) Runs(ctx context.Context, p Principal, o store.ListOptions) ([]store.Run, string, error) {
	o.TenantID = p.TenantID
	return e.o.Store.ListRuns(ctx, o)
}

// own checks that a run exists and is the tenant's. A run's tenant never changes, so the answer is kept.
func (e *Engine) own(ctx context.Context, p Principal, runID string) error {
	if t, ok := e.tenants.get(runID); ok && t == p.TenantID {
		return nil
	}
	r, err := e.Run(ctx, p, runID)
	if err == nil {
		e.tenants.put(r.ID, r.TenantID)
	}
	return err
}

// Events reads a page of a run's log.
func (e *Engine) Events(ctx context.Context, p Principal, runID string, after int64, limit int) ([]event.Event, error) {
	if err := e.own(ctx, p, runID); err != nil {
		return nil, err
	}
	return e.o.Store.Events(ctx, runID, after, limit)
}

// Watch tells of new events of a run.
func (e *Engine) Watch(ctx context.Context, p Principal, runID string) (<-chan struct{}, func(), error) {
	if err := e.own(ctx, p, runID); err != nil {
		return nil, nil, err
	}
	ch, stop := e.o.Store.Watch(runID)
	return ch, stop, nil
}

// errCancelled is the cause of a segment that a person cancelled.
type errCancelled struct{ by string }

func (e errCancelled) Error() string { return "the run was cancelled by " + e.by }

// Cancel asks a run to end. It is idempotent; a terminal run is returned as it is.
func (e *Engine) Cancel(ctx context.Context, p Principal, runID string) (store.Run, error) {
	r, w, err := e.o.Store.RequestCancel(ctx, p.TenantID, runID, p.Identity())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Run{}, notFound("run %s does not exist", runID)
	case err != nil:
		return store.Run{}, err
	}
	// A segment that has not begun must read the flag; one that has is reached through its context.
	e.created.Delete(runID)
	if w.RunID != "" {
		e.dispatch(w)
	} else if !r.Status.Terminal() {
		e.o.Dispatcher.Cancel(runID, errCancelled{p.Identity()})
	}
	return r, nil
}

// Decision answers an approval.
type Decision struct {
	Approve bool
	Reason  string
	Scope   event.ApprovalScope // once when empty
}

// Decide answers an approval by its id. The same answer again returns it; a contrary or late one is a conflict whose
// Details are the approval.
func (e *Engine) Decide(ctx context.Context, p Principal, approvalID string, d Decision) (event.Approval, error) {
	switch d.Scope {
	case "":
		d.Scope = event.ScopeOnce
	case event.ScopeOnce, event.ScopeSession:
	default:
		return event.Approval{}, invalid("scope", "%q is neither once nor session", d.Scope)
	}
	if len(d.Reason) > 4096 {
		return event.Approval{}, invalid("reason", "has more than 4096 bytes")
	}
	a, w, err := e.o.Store.Decide(ctx, store.Decision{
		ApprovalID: approvalID, TenantID: p.TenantID, Approve: d.Approve, Scope: d.Scope, Reason: d.Reason, DecidedBy: p.Identity(),
	})
	var c *event.ConflictError
	switch {
	case errors.Is(err, store.ErrNotFound):
		return event.Approval{}, notFound("approval %s does not exist", approvalID)
	case errors.As(err, &c):
		return a, &Error{Kind: KindConflict, Code: "approval_conflict", Message: c.Error(), Details: a}
	case err != nil:
		return event.Approval{}, err
	}
	e.dispatch(w)
	return a, nil
}

// DecideOnly answers the only pending approval of a run.
func (e *Engine) DecideOnly(ctx context.Context, p Principal, runID string, d Decision) (event.Approval, error) {
	if _, err := e.Run(ctx, p, runID); err != nil {
		return event.Approval{}, err
	}
	list, err := e.o.Store.RunApprovals(ctx, runID)
	if err != nil {
		return event.Approval{}, err
	}
	var pending []event.Approval
	for _, a := range list {
		if a.Status == event.ApprovalPending {
			pending = append(pending, a)
		}
	}
	switch len(pending) {
	case 0:
		return event.Approval{}, conflict("no_pending_approval", "run %s has no pending approval", runID)
	case 1:
		return e.Decide(ctx, p, pending[0].ID, d)
	}
	return event.Approval{}, &Error{
		Kind: KindConflict, Code: "several_pending_approvals", Details: pending,
		Message: fmt.Sprintf("run %s has %d pending approvals: answer each by POST /v1/approvals/{id}", runID, len(pending)),
	}
}

// Approval returns an approval of the principal's tenant.
func (e *Engine) Approval(ctx context.Context, p Principal, id string) (event.Approval, error) {
	a, err := e.o.Store.GetApproval(ctx, id)
	if errors.Is(err, store.ErrNotFound) || (err == nil && a.TenantID != p.TenantID) {
		return event.Approval{}, notFound("approval %s does not exist", id)
	}
	return a, err
}

// Approvals lists approvals of the principal's tenant, newest first.
func (e *Engine) Approvals(ctx context.Context, p Principal, o store.ListOptions) ([]event.Approval, string, error) {
	o.TenantID = p.TenantID
	return e.o.Store.ListApprovals(ctx, o)
}

// PendingQuestion returns the oldest unanswered question of a run.
func (e *Engine) PendingQuestion(ctx context.Context, p Principal, runID string) (event.PendingQuestion, error) {
	if _, err := e.Run(ctx, p, runID); err != nil {
		return event.PendingQuestion{}, err
	}
	list, err := e.o.Store.RunQuestions(ctx, runID)
	if err != nil {
		return event.PendingQuestion{}, err
	}
	for _, q := range list {
		if q.Status == event.QuestionPending {
			return q, nil
		}
	}
	return event.PendingQuestion{}, conflict("no_pending_input", "run %s asks nothing", runID)
}

// Answer answers the oldest unanswered question of a run. Every question must be answered by at least one value:
// option labels, or free text.
func (e *Engine) Answer(ctx context.Context, p Principal, runID string, answers map[string][]string) (event.PendingQuestion, error) {
	q, err := e.PendingQuestion(ctx, p, runID)
	if err != nil {
		return event.PendingQuestion{}, err
	}
	if err := checkAnswers(q, answers); err != nil {
		return event.PendingQuestion{}, err
	}
	q, w, err := e.o.Store.AnswerQuestion(ctx, store.Answer{QuestionID: q.ID, TenantID: p.TenantID, Answers: answers, AnsweredBy: p.Identity()})
	var c *event.ConflictError
	switch {
	case errors.As(err, &c):
		return q, conflict("no_pending_input", "%s", c)
	case err != nil:
		return event.PendingQuestion{}, err
	}
	e.dispatch(w)
	return q, nil
}

func checkAnswers(q event.PendingQuestion, answers map[string][]string) error {
	known := map[string]event.Question{}
	for _, x := range q.Questions {
		known[x.Question] = x
		v := answers[x.Question]
		switch {
		case len(v) == 0:
			return invalid("answers", "the question %q has no answer", x.Question)
		case len(v) > 1 && !x.MultiSelect:
			return invalid("answers", "the question %q takes one answer", x.Question)
		}
		for _, s := range v {
			if s == "" || len(s) > 16<<10 {
				return invalid("answers", "an answer to %q is empty or longer than 16 KiB", x.Question)
			}
		}
	}
	for k := range answers {
		if _, ok := known[k]; !ok {
			return invalid("answers", "%q is not one of the questions", k)
		}
	}
	return nil
}

func permissionsOf(p Plan) *tool.PermissionConfig {
	return &tool.PermissionConfig{
		Sandbox: tool.SandboxScope(p.Permissions.Sandbox), Network: tool.NetworkPolicy(p.Permissions.Network),
		AllowedHosts: p.Permissions.AllowedHosts, Approval: tool.ApprovalPolicy(p.Permissions.Approval),
	}
}
