package model

import (
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
)

const perMillion = 1e-6

// Cost prices one call's usage in US dollars. A model without prices costs 0 with CostUnpricedModel; a usage that
// lacks the input or the output count gives what is known with CostProviderUnreported, a lower bound. Budgets and
// reports use this one function.
func Cost(i Info, u ai.Usage) (usd float64, status event.CostStatus) {
	if !i.Priced {
		return 0, event.CostUnpricedModel
	}
	status = event.CostAvailable
	read, write := tokens(u.InputTokens.CacheRead), tokens(u.InputTokens.CacheWrite)
	var plain int64
	switch {
	case u.InputTokens.NoCache != nil:
		plain = tokens(u.InputTokens.NoCache)
	case u.InputTokens.Total != nil:
		plain = max(0, tokens(u.InputTokens.Total)-read-write)
	default:
		status = event.CostProviderUnreported
	}
	if u.OutputTokens.Total == nil {
		status = event.CostProviderUnreported
	}
	usd = float64(plain)*i.CostPer1MIn +
		float64(read)*i.CostCacheRead +
		float64(write)*i.CostCacheWrite +
		float64(tokens(u.OutputTokens.Total))*i.CostPer1MOut
	return usd * perMillion, status
}

func tokens(n *int64) int64 {
	if n == nil || *n < 0 {
		return 0
	}
	return *n
}
