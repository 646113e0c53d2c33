package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/permit"
	"github.com/harness-go/harness/tool"
)

// Default deadlines: approvals wait days, questions a day.
const (
	DefaultApprovalDeadline = 72 * time.Hour
	DefaultQuestionDeadline = 24 * time.Hour
)

// Config makes a Gate. The zero value of Policy allows every call that needs no activation.
type Config struct {
	Policy Policy
	// Ledger is required.
	Ledger Ledger
	// Now is the clock, time.Now when nil. NewID makes ids from a prefix; random when nil.
	Now   func() time.Time
	NewID func(prefix string) string
}

// Gate decides calls. It is safe for concurrent use by the calls of one session.
type Gate struct {
	policy Policy
	ledger Ledger
	now    func() time.Time
	newID  func(string) string
	stages []stage
}

// NewGate checks the policy and returns the gate.
func NewGate(c Config) (*Gate, error) {
	if c.Ledger == nil {
		return nil, errors.New("control: a gate needs a ledger")
	}
	if err := c.Policy.validate(); err != nil {
		return nil, err
	}
	g := &Gate{policy: c.Policy, ledger: c.Ledger, now: c.Now, newID: c.NewID}
	if g.now == nil {
		g.now = time.Now
	}
	if g.newID == nil {
		g.newID = randomID
	}
	g.stages = g.policy.stages()
	return g, nil
}

// Decide takes a call through the stages. A call that was decided before keeps its decision: a pending ask is the
// same ask, an approved one gives the permit, a refused one stays refused. The error is an infrastructure failure
// (the ledger cannot be written): the call must not be made and the turn must end.
func (g *Gate) Decide(ctx context.Context, c Call) (Decision, error) {
	rec, err := g.ledger.Recall(ctx, c.ID)
	if err != nil {
		return Decision{}, fmt.Errorf("gate: recall call %s: %w", c.ID, err)
	}
	switch {
	case rec.Started:
		return Decision{}, fmt.Errorf("gate: call %s was already started", c.ID)
	case rec.Blocked != nil:
		return Decision{Outcome: Deny, Stage: Stage(rec.Blocked.Stage), Reason: rec.Blocked.Reason, Arguments: c.Arguments}, nil
	case rec.Approval != nil:
		return g.decided(ctx, c, *rec.Approval)
	}

	d := g.evaluate(ctx, &c)
	d.Arguments = c.Arguments
	d.Digest = Digest(c.Tool, c.Arguments, c.Cwd)
	if d.Outcome == Ask && g.policy.Unattended {
		d.Outcome, d.Reason = Deny, "nobody can be asked in this run: "+d.Reason
	}
	if d.Outcome == Ask {
		id, ok, err := g.ledger.Granted(ctx, d.Digest)
		if err != nil {
			return Decision{}, fmt.Errorf("gate: look up grants: %w", err)
		}
		if ok {
			d.Outcome, d.Stage, d.Reason = Allow, StagePerson, "granted for this session by "+id
		}
	}
	switch d.Outcome {
	case Allow:
		d.Permit = g.permit(c, d.Digest, "")
	case Ask:
		if err := g.request(ctx, c, &d); err != nil {
			return Decision{}, err
		}
	default:
		return g.refuse(ctx, c, d)
	}
	return d, nil
}

// evaluate joins the stages; c.Arguments become the final arguments. A deny ends it.
func (g *Gate) evaluate(ctx context.Context, c *Call) Decision {
	out := Decision{Outcome: Allow}
	for _, s := range g.stages {
		v := s.decide(ctx, c)
		if v.Outcome == "" {
			continue
		}
		if j := Join(out.Outcome, v.Outcome); j != out.Outcome {
			out.Outcome, out.Stage, out.Reason = j, s.name, v.Reason
		}
		if out.Outcome == Deny {
			break
		}
	}
	return out
}

// decided continues a call whose ask is on record. The arguments that were approved are the ones that run.
func (g *Gate) decided(ctx context.Context, c Call, a event.Approval) (Decision, error) {
	d := Decision{Stage: StagePerson, Digest: a.Digest, ApprovalID: a.ID, DeadlineAt: a.ExpiresAt, Arguments: json.RawMessage(a.Arguments)}
	switch a.Status {
	case event.ApprovalPending:
		d.Outcome, d.Reason = Ask, a.Why
		return d, nil
	case event.ApprovalApproved:
		c.Arguments = json.RawMessage(a.Arguments)
		if refused := g.recheck(ctx, c, a.Digest); refused.Outcome == Deny {
			return g.refuse(ctx, c, refused)
		}
		d.Outcome, d.Reason = Allow, a.Reason
		d.Permit = g.permit(c, a.Digest, a.ID)
		return d, nil
	case event.ApprovalDenied:
		d.Reason = "the call was denied by a person"
		if a.Reason != "" {
			d.Reason += ": " + a.Reason
		}
	case event.ApprovalExpired:
		d.Reason = "nobody approved the call before its deadline, " + a.ExpiresAt.UTC().Format(time.RFC3339)
	default:
		d.Reason = "the approval " + a.ID + " is " + string(a.Status)
	}
	d.Outcome = Deny
	return g.refuse(ctx, c, d)
}

// recheck is stage 6: the digest and the policy in force are looked at again right before the call.
func (g *Gate) recheck(ctx context.Context, c Call, digest string) Decision {
	before := string(c.Arguments)
	d := g.evaluate(ctx, &c)
	if d.Outcome == Deny {
		return d
	}
	if string(c.Arguments) != before || Digest(c.Tool, c.Arguments, c.Cwd) != digest {
		return Decision{Outcome: Deny, Stage: StageExecution, Reason: "the call changed after it was approved"}
	}
	return d
}

func (g *Gate) request(ctx context.Context, c Call, d *Decision) error {
	now := g.now()
	a := event.Approval{
		ID: g.newID("ap_"), CallID: c.ID, Harness: c.Harness, Tool: c.Tool, Kind: string(c.Kind),
		Arguments: string(c.Arguments), Cwd: c.Cwd, Digest: d.Digest, Why: d.Reason,
		Status: event.ApprovalPending, Scope: event.ScopeOnce,
		RequestedAt: now, ExpiresAt: now.Add(g.policy.approvalDeadline()),
	}
	if err := g.ledger.Request(ctx, c.Step, a); err != nil {
		return fmt.Errorf("gate: request approval of call %s: %w", c.ID, err)
	}
	d.ApprovalID, d.DeadlineAt = a.ID, a.ExpiresAt
	return nil
}

func (g *Gate) refuse(ctx context.Context, c Call, d Decision) (Decision, error) {
	b := event.ToolCallBlockedPayload{CallID: c.ID, Tool: c.Tool, Stage: string(d.Stage), Reason: d.Reason}
	if err := g.ledger.Block(ctx, c.Step, b); err != nil {
		return Decision{}, fmt.Errorf("gate: record refusal of call %s: %w", c.ID, err)
	}
	d.Permit = nil
	return d, nil
}

// permit makes the leave for a call. Begin looks at digest and policy again, so that nothing that changed between
// the decision and the run slips through.
func (g *Gate) permit(c Call, digest, approvalID string) *Permit {
	var started time.Time
	begin := func(ctx context.Context) error {
		if approvalID != "" {
			if d := g.recheck(ctx, c, digest); d.Outcome == Deny {
				if _, err := g.refuse(ctx, c, d); err != nil {
					return err
				}
				return &RefusedError{Decision: d}
			}
		}
		started = g.now()
		return g.ledger.Begin(ctx, Start{
			Step: c.Step, CallID: c.ID, Tool: c.Tool, Kind: string(c.Kind), Arguments: string(c.Arguments),
			Digest: digest, ApprovalID: approvalID, Durable: c.Kind.Mutating() || approvalID != "",
		})
	}
	end := func(ctx context.Context, o permit.Outcome) error {
		return g.ledger.End(ctx, End{Step: c.Step, CallID: c.ID, Tool: c.Tool, Outcome: o, DurationMS: g.now().Sub(started).Milliseconds()})
	}
	return permit.New(c.ID, c.Tool, c.Arguments, begin, end)
}

// RefusedError: the call was refused at its start, after it had been allowed.
type RefusedError struct{ Decision Decision }

func (e *RefusedError) Error() string { return e.Decision.Reason }

// Recall returns what is recorded of a call.
func (g *Gate) Recall(ctx context.Context, callID string) (Record, error) {
	return g.ledger.Recall(ctx, callID)
}

// InterruptedText is what the model reads about a call whose process ended before its outcome was recorded.
const InterruptedText = "interrupted: outcome unknown"

// Settle is for a call that was started and has no result on record, because its process died. A call without side
// effects may run again: the permit that comes back records only its result. Any other is recorded as interrupted,
// with outcome unknown, and must not run again.
func (g *Gate) Settle(ctx context.Context, c Call, rec Record) (*Permit, *CallOutcome, error) {
	c.Arguments = json.RawMessage(rec.Arguments)
	end := func(ctx context.Context, o permit.Outcome) error {
		return g.ledger.End(ctx, End{Step: c.Step, CallID: c.ID, Tool: c.Tool, Outcome: o})
	}
	if !c.Kind.Mutating() {
		return permit.New(c.ID, c.Tool, c.Arguments, func(context.Context) error { return nil }, end), nil, nil
	}
	res := tool.Failure(tool.CodeInterrupted, "%s. The call was started with the arguments %s and its process ended before a result was recorded. Check what it did before you repeat it.", InterruptedText, rec.Arguments)
	o := CallOutcome{Output: res.Output, Error: res.Error, Interrupted: true}
	if err := end(ctx, o); err != nil {
		return nil, nil, fmt.Errorf("gate: record interrupted call %s: %w", c.ID, err)
	}
	return nil, &o, nil
}

// Question records a question to a person.
func (g *Gate) Question(ctx context.Context, step int, callID, toolName string, questions []event.Question) (event.PendingQuestion, error) {
	now := g.now()
	q, err := g.ledger.Question(ctx, step, event.PendingQuestion{
		ID: g.newID("qu_"), CallID: callID, Tool: toolName, Questions: slices.Clone(questions),
		Status: event.QuestionPending, AskedAt: now, DeadlineAt: now.Add(g.policy.questionDeadline()),
	})
	if err != nil {
		return event.PendingQuestion{}, fmt.Errorf("gate: record question %s: %w", callID, err)
	}
	return q, nil
}

// Resolver is implemented by ledgers whose approvals are answered through the library.
type Resolver interface {
	Resolve(approvalID string, approve bool, scope event.ApprovalScope, reason, by string) error
}

// Resolve takes a decision that a caller submitted to a session. A ledger that is a Resolver records it. For any other
// (the daemon's) the record is the only truth: a submission that says something else than the record is refused, so
// that nobody approves a call by submitting.
func (g *Gate) Resolve(ctx context.Context, callID, approvalID string, approved bool, reason string) error {
	if r, ok := g.ledger.(Resolver); ok {
		return r.Resolve(approvalID, approved, "", reason, "")
	}
	rec, err := g.ledger.Recall(ctx, callID)
	if err != nil {
		return fmt.Errorf("gate: recall call %s: %w", callID, err)
	}
	if rec.Approval == nil || rec.Approval.ID != approvalID {
		return fmt.Errorf("gate: call %s has no approval %s", callID, approvalID)
	}
	granted := rec.Approval.Status == event.ApprovalApproved || rec.Approval.Status == event.ApprovalConsumed
	if !rec.Approval.Status.Decided() || granted != approved {
		return &event.ConflictError{What: "approval " + approvalID, Status: string(rec.Approval.Status)}
	}
	return nil
}
