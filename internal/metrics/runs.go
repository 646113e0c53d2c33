package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/activity"
	"github.com/harness-go/harness/internal/engine"
)

// Bounds of labels, beside the values that are known from the start.
const (
	maxHarnesses = 20
	maxProviders = 40
	maxModels    = 200
	maxTools     = 200
	maxOutcomes  = 30
)

type runMetrics struct {
	harnesses *names
	reasons   *names
	active    *prometheus.GaugeVec
	started   *prometheus.CounterVec
	finished  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	approvals *prometheus.CounterVec
	asked     prometheus.Counter
}

func newRunMetrics() runMetrics {
	return runMetrics{
		harnesses: newNames(maxHarnesses, "native"),
		reasons: newNames(0, event.ReasonMaxSteps, event.ReasonMaxCost, event.ReasonMaxTokens, event.ReasonTimeout, event.ReasonProvider,
			event.ReasonContextLength, event.ReasonHarness, event.ReasonRecoveryExhausted, event.ReasonInternal),
		active:   gauges("segments_active", "Segments of runs that execute on this node.", "harness"),
		started:  counters("runs_started_total", "Runs whose execution began on this node.", "harness"),
		finished: counters("runs_finished_total", "Runs that ended on this node. reason is that of a failed run.", "harness", "status", "reason"),
		duration: histograms("run_duration_seconds", "From the acceptance of a run to its end, with its waits.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400, 604800}, "harness", "status"),
		asked:     prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "approvals_requested_total", Help: "Calls that were put before a person."}),
		approvals: counters("approvals_decided_total", "Approvals that ended, by how: approved, denied, expired or withdrawn.", "status"),
	}
}

func (r *runMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{r.active, r.started, r.finished, r.duration, r.asked, r.approvals}
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

var _ activity.Sink = (*Metrics)(nil)

// Segment implements activity.Sink.
func (m *Metrics) Segment(s engine.SegmentStart) activity.Follower {
	f := &follower{m: m, harness: m.runs.harnesses.of(s.Plan.Harness), accepted: s.Run.CreatedAt}
	m.runs.active.WithLabelValues(f.harness).Inc()
	return f
}

// follower counts the activity of one segment.
type follower struct {
	m        *Metrics
	harness  string
	accepted time.Time
}

func (f *follower) RunStarted(event.RunStartedPayload) {
	f.m.runs.started.WithLabelValues(f.harness).Inc()
}

func (f *follower) Asked(event.ToolApprovalRequiredPayload) { f.m.runs.asked.Inc() }

func (f *follower) Ended(e activity.End) {
	r := &f.m.runs
	r.active.WithLabelValues(f.harness).Dec()
	if !e.Status.Terminal() {
		return
	}
	reason := ""
	if e.Reason != "" {
		reason = r.reasons.only(e.Reason)
	}
	r.finished.WithLabelValues(f.harness, string(e.Status), reason).Inc()
	r.duration.WithLabelValues(f.harness, string(e.Status)).Observe(max(0, e.At.Sub(f.accepted).Seconds()))
}
