// Package permit holds the leave to run one tool call.
//
// It is internal so that nothing outside the module can make one: package control makes permits, package tool runs
// calls with them, and a tool cannot be run without. That is what makes the gate the only way.
package permit

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
)

// ErrSpent: the permit was used before, or was not made by a gate.
var ErrSpent = errors.New("permit: not valid for another call")

// Outcome is what End records.
type Outcome struct {
	Output      string
	Error       string
	Truncated   bool
	Artifact    string
	Diff        string
	Details     json.RawMessage
	Interrupted bool
}

// Permit is a single-use leave for one call. The zero value permits nothing.
type Permit struct {
	callID    string
	tool      string
	arguments json.RawMessage
	begin     func(context.Context) error
	end       func(context.Context, Outcome) error
	state     atomic.Int32 // 0 fresh, 1 begun, 2 ended
}

// New makes a permit. begin must commit the start record before it returns (or, for calls without side effects, put
// it in order before the result); end commits the result.
func New(callID, tool string, arguments json.RawMessage, begin func(context.Context) error, end func(context.Context, Outcome) error) *Permit {
	return &Permit{callID: callID, tool: tool, arguments: arguments, begin: begin, end: end}
}

// CallID is the call that the permit is for.
func (p *Permit) CallID() string { return p.callID }

// Tool is the name of the tool that may be run.
func (p *Permit) Tool() string { return p.tool }

// Arguments are the final arguments, after hooks.
func (p *Permit) Arguments() json.RawMessage { return p.arguments }

// Begin consumes the permit and commits the start record. After an error the call must not be made.
func (p *Permit) Begin(ctx context.Context) error {
	if p == nil || p.begin == nil || !p.state.CompareAndSwap(0, 1) {
		return ErrSpent
	}
	return p.begin(ctx)
}

// End commits the result. It is refused without a Begin.
func (p *Permit) End(ctx context.Context, o Outcome) error {
	if p == nil || p.end == nil || !p.state.CompareAndSwap(1, 2) {
		return ErrSpent
	}
	return p.end(ctx, o)
}
