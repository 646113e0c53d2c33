package native

import (
	"context"
	"fmt"
	"sync"

	"github.com/harness-go/harness/event"
)

// Amount is what model calls use up. As a limit, a zero field is unbounded.
type Amount struct {
	Steps   int
	Tokens  int64
	CostUSD float64
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Steps + b.Steps, a.Tokens + b.Tokens, a.CostUSD + b.CostUSD}
}

func (a Amount) minus(b Amount) Amount {
	return Amount{a.Steps - b.Steps, a.Tokens - b.Tokens, a.CostUSD - b.CostUSD}
}

// rounding is the tolerance of limits in money: sums of prices are not exact.
const rounding = 1 + 1e-9

// over names the first limit that a goes beyond, as a reason of package event; empty when there is none.
func (a Amount) over(limit Amount) string {
	switch {
	case limit.CostUSD > 0 && a.CostUSD > limit.CostUSD*rounding:
		return event.ReasonMaxCost
	case limit.Tokens > 0 && a.Tokens > limit.Tokens:
		return event.ReasonMaxTokens
	case limit.Steps > 0 && a.Steps > limit.Steps:
		return event.ReasonMaxSteps
	}
	return ""
}

// Pool is the budget that the sessions of a tree share. A model call reserves what it may cost before it is made, so
// that two calls at once cannot both spend what is left. It is safe for concurrent use.
type Pool struct {
	limit Amount

	mu       sync.Mutex
	used     Amount
	reserved Amount
	changed  chan struct{} // closed when a reservation ends
}

// NewPool makes a pool of which used is gone already, as after a restart.
func NewPool(limit, used Amount) *Pool {
	return &Pool{limit: limit, used: used, changed: make(chan struct{})}
}

// Limit is what the pool was made with.
func (p *Pool) Limit() Amount { return p.limit }

// Used is what was used so far, without what is reserved.
func (p *Pool) Used() Amount {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Reservation holds a part of a pool until Settle.
type Reservation struct {
	// Granted is between what the call needs at least and what it can make use of.
	Granted Amount
	pool    *Pool
	once    sync.Once
}

// Settle gives the reservation back and counts what was really used. Only the first call counts.
func (r *Reservation) Settle(used Amount) {
	r.once.Do(func() {
		p := r.pool
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reserved = p.reserved.minus(r.Granted)
		p.used = p.used.plus(used)
		close(p.changed)
		p.changed = make(chan struct{})
	})
}

// Reserve sets aside as much as is free between least and most. Where only the reservations of others stand in the
// way it waits for them, as they may use less. What cannot be had at all is a *TurnError with the limit's reason; the
// end of ctx is its cause.
func (p *Pool) Reserve(ctx context.Context, least, most Amount) (*Reservation, error) {
	for {
		p.mu.Lock()
		if reason := p.used.plus(least).over(p.limit); reason != "" {
			err := p.refuse(reason, least)
			p.mu.Unlock()
			return nil, err
		}
		taken := p.used.plus(p.reserved)
		if taken.plus(least).over(p.limit) == "" {
			r := &Reservation{Granted: p.limit.between(taken, least, most), pool: p}
			p.reserved = p.reserved.plus(r.Granted)
			p.mu.Unlock()
			return r, nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// between is as much of most as the limit a leaves beside what is taken, and never less than least.
func (a Amount) between(taken, least, most Amount) Amount {
	if a.Steps > 0 {
		most.Steps = min(most.Steps, a.Steps-taken.Steps)
	}
	if a.Tokens > 0 {
		most.Tokens = min(most.Tokens, a.Tokens-taken.Tokens)
	}
	if a.CostUSD > 0 {
		most.CostUSD = min(most.CostUSD, a.CostUSD-taken.CostUSD)
	}
	return Amount{max(least.Steps, most.Steps), max(least.Tokens, most.Tokens), max(least.CostUSD, most.CostUSD)}
}

func (p *Pool) refuse(reason string, least Amount) error {
	e := &TurnError{Reason: reason}
	switch reason {
	case event.ReasonMaxCost:
		e.Message = fmt.Sprintf("the next model call could exceed the limit of %.4f USD of all runs of this tree (%.4f used, %.4f needed)", p.limit.CostUSD, p.used.CostUSD, least.CostUSD)
	case event.ReasonMaxTokens:
		e.Message = fmt.Sprintf("the next model call could exceed the limit of %d tokens of all runs of this tree (%d used, %d needed)", p.limit.Tokens, p.used.Tokens, least.Tokens)
	default:
		e.Message = fmt.Sprintf("all runs of this tree used their %d steps without an end", p.limit.Steps)
	}
	return e
}
