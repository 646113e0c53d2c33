package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/harness-go/harness/internal/activity"
)

type callMetrics struct {
	providers, models, tools, outcomes *names

	model     *prometheus.CounterVec
	modelTime *prometheus.HistogramVec
	ttft      *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	cost      *prometheus.CounterVec
	tool      *prometheus.CounterVec
	toolTime  *prometheus.HistogramVec
}

var modelBuckets = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320}

func newCallMetrics(tools []string) callMetrics {
	return callMetrics{
		providers: newNames(maxProviders), models: newNames(maxModels), tools: newNames(maxTools, tools...),
		outcomes: newNames(maxOutcomes, activity.OutcomeOK, activity.OutcomeError, activity.OutcomeInterrupted, activity.OutcomeBlocked),
		model:    counters("model_calls_total", "Attempts at models. outcome is ok, or the kind of the failure.", "provider", "model", "outcome"),
		modelTime: histograms("model_call_duration_seconds", "Duration of attempts at models; outcome is ok or error.", modelBuckets,
			"provider", "model", "outcome"),
		ttft:     histograms("model_time_to_first_token_seconds", "From the request to the first piece of the answer.", modelBuckets, "provider", "model"),
		tokens:   counters("model_tokens_total", "Tokens that providers reported. input holds cache_read and cache_write, output holds reasoning.", "provider", "model", "kind"),
		cost:     counters("model_cost_usd_total", "Money by the price list, in US dollars; models without a price add nothing.", "provider", "model"),
		tool:     counters("tool_calls_total", "Tool calls: ok, error, blocked by the gate, or interrupted.", "tool", "outcome"),
		toolTime: histograms("tool_call_duration_seconds", "Duration of tool calls.", []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800}, "tool"),
	}
}

func (c *callMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{c.model, c.modelTime, c.ttft, c.tokens, c.cost, c.tool, c.toolTime}
}

func (f *follower) ModelCall(call activity.ModelCall) {
	if call.Open {
		return // its next owner tells how it ended
	}
	c := &f.m.calls
	provider, model := c.providers.of(call.Provider), c.models.of(call.Model)
	if !call.Late {
		c.model.WithLabelValues(provider, model, c.outcomes.of(call.Outcome)).Inc()
		if !call.Start.IsZero() {
			outcome := activity.OutcomeOK
			if call.Outcome != outcome {
				outcome = activity.OutcomeError
			}
			c.modelTime.WithLabelValues(provider, model, outcome).Observe(max(0, call.End.Sub(call.Start).Seconds()))
		}
		if call.Outcome == activity.OutcomeOK {
			c.ttft.WithLabelValues(provider, model).Observe(call.TTFT.Seconds())
		}
	}
	for _, t := range []struct {
		kind string
		n    *int64
	}{
		{"input", call.Usage.InputTokens.Total}, {"cache_read", call.Usage.InputTokens.CacheRead}, {"cache_write", call.Usage.InputTokens.CacheWrite},
		{"output", call.Usage.OutputTokens.Total}, {"reasoning", call.Usage.OutputTokens.Reasoning},
	} {
		if t.n != nil && *t.n > 0 {
			c.tokens.WithLabelValues(provider, model, t.kind).Add(float64(*t.n))
		}
	}
	if call.CostUSD > 0 {
		c.cost.WithLabelValues(provider, model).Add(call.CostUSD)
	}
}

func (f *follower) ToolCall(call activity.ToolCall) {
	if call.Open {
		return
	}
	c := &f.m.calls
	if call.Outcome == activity.OutcomeBlocked { // a model can make names up
		c.tool.WithLabelValues(c.tools.only(call.Tool), call.Outcome).Inc()
		return
	}
	tool := c.tools.of(call.Tool)
	c.tool.WithLabelValues(tool, call.Outcome).Inc()
	if !call.Start.IsZero() {
		c.toolTime.WithLabelValues(tool).Observe(max(0, call.End.Sub(call.Start).Seconds()))
	}
}

// KnowTools makes the names labels of their own, whatever others take places.
func (m *Metrics) KnowTools(list []string) {
	for _, name := range list {
		m.calls.tools.of(name)
	}
}
