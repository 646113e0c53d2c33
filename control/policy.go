package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/harness-go/harness/tool"
)

// Policy is what a session may do. Lists name tools as the model does.
type Policy struct {
	// Declared is default-deny: a tool that is not in it is refused. Nil: no list (plain runs).
	Declared []string
	// NamedAgent: Declared is a named agent's list, in which the always-available tools count only where listed.
	NamedAgent bool
	// Allowed narrows further; nil or empty allows all. The always-available tools pass.
	Allowed []string
	// Denied takes tools away, the always-available ones too.
	Denied []string
	// Active reports whether a deferred tool was activated. Nil: no deferred tool may be called.
	Active func(name string) bool

	Hooks []Hook
	Rules []Rule

	// RequiresApproval names tools whose every call asks.
	RequiresApproval []string
	// Approval asks by the tool's kind.
	Approval tool.ApprovalPolicy
	// Mode is the permission mode of the harness.
	Mode tool.PermissionMode
	// Unattended: nobody can answer, so an ask is a deny.
	Unattended bool

	// ApprovalDeadline and QuestionDeadline are how long a person has; zero means the defaults.
	ApprovalDeadline time.Duration
	QuestionDeadline time.Duration
	// HookTimeout bounds each hook; zero means 60 s.
	HookTimeout time.Duration
}

// Hook sees a call before it is made. A hook that fails refuses the call.
type Hook interface {
	// Name identifies the hook in refusals.
	Name() string
	Decide(ctx context.Context, c Call) (Verdict, error)
}

// Rule judges the final arguments. It cannot rewrite them.
type Rule interface {
	Name() string
	Decide(ctx context.Context, c Call) (Verdict, error)
}

func (p Policy) validate() error {
	switch p.Approval {
	case "", tool.ApprovalPolicyNone, tool.ApprovalPolicyDestructive, tool.ApprovalPolicyAll:
	default:
		return fmt.Errorf("control: approval policy %q is not one of none, destructive, all", p.Approval)
	}
	if p.Mode != "" && !p.Mode.Valid() {
		return fmt.Errorf("control: permission mode %q is not one of allow-reads, allow-edits, allow-all", p.Mode)
	}
	return nil
}

func (p Policy) approvalDeadline() time.Duration {
	if p.ApprovalDeadline > 0 {
		return p.ApprovalDeadline
	}
	return DefaultApprovalDeadline
}

func (p Policy) questionDeadline() time.Duration {
	if p.QuestionDeadline > 0 {
		return p.QuestionDeadline
	}
	return DefaultQuestionDeadline
}

// stage is one step of the evaluation. It may change c.Arguments (hooks only).
type stage struct {
	name   Stage
	decide func(ctx context.Context, c *Call) Verdict
}

// stages lists the evaluation in its order. The order is the contract: lists before hooks, hooks before rules, rules
// on the final arguments, approvals last.
func (p Policy) stages() []stage {
	s := []stage{{StageDeclared, p.declared}}
	for _, h := range p.Hooks {
		s = append(s, stage{StageHook, p.hook(h)})
	}
	for _, r := range p.Rules {
		s = append(s, stage{StageRule, p.rule(r)})
	}
	return append(s, stage{StageApproval, p.approval}, stage{StageMode, p.mode})
}

func (p Policy) declared(_ context.Context, c *Call) Verdict {
	always := tool.AlwaysAvailableTools[c.Tool]
	switch {
	case slices.Contains(p.Denied, c.Tool):
		return Verdict{Outcome: Deny, Reason: c.Tool + " is among the tools denied to this run"}
	case p.Declared != nil && !slices.Contains(p.Declared, c.Tool) && (p.NamedAgent || !always):
		return Verdict{Outcome: Deny, Reason: c.Tool + " is not among the tools this agent declares"}
	case len(p.Allowed) > 0 && !slices.Contains(p.Allowed, c.Tool) && !always:
		return Verdict{Outcome: Deny, Reason: c.Tool + " is not among the tools allowed to this run"}
	case c.Deferred && (p.Active == nil || !p.Active(c.Tool)):
		return Verdict{Outcome: Deny, Reason: c.Tool + " is not active: activate it with find_tool first"}
	}
	return Verdict{}
}

func (p Policy) hook(h Hook) func(context.Context, *Call) Verdict {
	return func(ctx context.Context, c *Call) Verdict {
		v, err := p.ask(ctx, h, *c)
		if err != nil {
			return Verdict{Outcome: Deny, Reason: fmt.Sprintf("hook %s failed: %v; the call was not made", h.Name(), err)}
		}
		if v.Arguments != nil {
			if err := checkRewrite(*c, v.Arguments); err != nil {
				return Verdict{Outcome: Deny, Reason: fmt.Sprintf("hook %s failed: its arguments do not fit the tool: %v; the call was not made", h.Name(), err)}
			}
			c.Arguments = slices.Clone(v.Arguments)
		}
		return v
	}
}

func (p Policy) rule(r Rule) func(context.Context, *Call) Verdict {
	return func(ctx context.Context, c *Call) Verdict {
		v, err := p.ask(ctx, r, *c)
		if err != nil {
			return Verdict{Outcome: Deny, Reason: fmt.Sprintf("rule %s failed: %v; the call was not made", r.Name(), err)}
		}
		v.Arguments = nil
		return v
	}
}

// ask bounds one hook or rule in time and turns a panic into an error.
func (p Policy) ask(ctx context.Context, h interface {
	Decide(context.Context, Call) (Verdict, error)
}, c Call) (v Verdict, err error) {
	limit := p.HookTimeout
	if limit <= 0 {
		limit = 60 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			v, err = Verdict{}, fmt.Errorf("panic: %v", r)
		}
	}()
	v, err = h.Decide(ctx, c)
	if err == nil {
		if _, ok := strictness[v.Outcome]; !ok && v.Outcome != "" {
			return Verdict{}, fmt.Errorf("unknown decision %q", v.Outcome)
		}
		if ctx.Err() != nil {
			return Verdict{}, fmt.Errorf("no answer within %s", limit)
		}
	}
	return v, err
}

func checkRewrite(c Call, args json.RawMessage) error {
	if c.Check == nil {
		return fmt.Errorf("%s cannot carry changed arguments", c.Tool)
	}
	return c.Check(args)
}

func (p Policy) approval(_ context.Context, c *Call) Verdict {
	switch {
	case c.Kind == tool.KindAsk:
		return Verdict{} // a question is not an approval, and asks a person anyway
	case slices.Contains(p.RequiresApproval, c.Tool):
		return Verdict{Outcome: Ask, Reason: c.Tool + " requires approval for every call"}
	case c.Ask != "":
		return Verdict{Outcome: Ask, Reason: c.Ask}
	case p.Approval == tool.ApprovalPolicyAll:
		return Verdict{Outcome: Ask, Reason: "the run's approval policy is all"}
	case p.Approval == tool.ApprovalPolicyDestructive && c.Kind.Mutating():
		return Verdict{Outcome: Ask, Reason: fmt.Sprintf("the run's approval policy is destructive, and %s is of kind %s", c.Tool, c.Kind)}
	}
	return Verdict{}
}

func (p Policy) mode(_ context.Context, c *Call) Verdict {
	if p.Mode.Asks(c.Kind) {
		return Verdict{Outcome: Ask, Reason: fmt.Sprintf("permission mode %s asks for calls of kind %s", p.Mode, c.Kind)}
	}
	return Verdict{}
}
