package model

import (
	"context"
	"math/rand/v2"
	"time"
)

// MaxAttempts is how often one call may reach one provider, the first time included. No policy goes beyond it.
const MaxAttempts = 5

// Retry decides whether and when a failed call is made again on the same provider. It keeps no state: the loop that
// makes the calls counts them. The zero value is the default policy.
type Retry struct {
	// Attempts is the number of calls, the first included; 0 and anything above MaxAttempts mean MaxAttempts.
	Attempts int
	// Base is the wait before the second attempt; each later one doubles it. 0 means 500 ms.
	Base time.Duration
	// Max bounds the computed wait. 0 means 30 s.
	Max time.Duration
	// MaxRetryAfter is the longest wait that a provider may ask for. A longer one gives up at once, so that a
	// fallback is tried instead of holding the run. 0 means 2 minutes.
	MaxRetryAfter time.Duration
	// Jitter gives a number in [0, 1). nil means a random one.
	Jitter func() float64
}

// Verdict is the answer of Retry.Next. Reason says in a few words why there is no further attempt.
type Verdict struct {
	Again  bool
	Wait   time.Duration
	Reason string
}

// Next judges the error of the given attempt (1 is the first). A provider's retry-after is honoured in full; without
// one the wait is between half of the exponential step and the whole of it.
func (r Retry) Next(err error, attempt int) Verdict {
	e, ok := AsError(err)
	switch {
	case !ok:
		return Verdict{Reason: "the error is not one of a model call"}
	case !e.Retryable():
		return Verdict{Reason: "the error is not transient"}
	case attempt >= r.attempts():
		return Verdict{Reason: "no attempts are left"}
	case e.RetryAfter > or(r.MaxRetryAfter, 2*time.Minute):
		return Verdict{Reason: "the provider asks for a longer wait than allowed"}
	}
	return Verdict{Again: true, Wait: max(e.RetryAfter, r.step(attempt))}
}

func (r Retry) attempts() int {
	if r.Attempts <= 0 || r.Attempts > MaxAttempts {
		return MaxAttempts
	}
	return r.Attempts
}

func (r Retry) step(attempt int) time.Duration {
	limit := or(r.Max, 30*time.Second)
	d := or(r.Base, 500*time.Millisecond)
	for i := 1; i < attempt && d < limit; i++ {
		d *= 2
	}
	d = min(d, limit)
	jitter := r.Jitter
	if jitter == nil {
		jitter = rand.Float64
	}
	return d/2 + time.Duration(jitter()*float64(d/2))
}

func or(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Sleep waits for d or until ctx ends; then it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
