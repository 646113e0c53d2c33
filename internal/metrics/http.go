package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/harness-go/harness/store/sqlite"
)

type httpMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newHTTPMetrics() httpMetrics {
	return httpMetrics{
		requests: counters("http_requests_total", "Requests by route and status; requests of no route have the route none.", "method", "route", "status"),
		duration: histograms("http_request_duration_seconds", "Duration of requests, without event streams.",
			[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30}, "method", "route"),
	}
}

func (h *httpMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{h.requests, h.duration}
}

// Answered counts one answer of the HTTP server. route is the pattern of the route without the method, empty where
// there was none; stream tells of an event stream, whose duration says nothing.
func (m *Metrics) Answered(method, route string, status int, took time.Duration, stream bool) {
	if route == "" {
		method, route = "none", "none"
	}
	m.http.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	if !stream {
		m.http.duration.WithLabelValues(method, route).Observe(took.Seconds())
	}
}

type storeMetrics struct {
	took   prometheus.Histogram
	writes prometheus.Histogram
	events prometheus.Counter
}

func newStoreMetrics() storeMetrics {
	return storeMetrics{
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "store_commit_duration_seconds", Help: "Duration of group commits of the store.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1},
		}),
		writes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "store_commit_writes", Help: "Writes that shared a group commit.",
			Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
		}),
		events: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "store_events_total", Help: "Events that were committed."}),
	}
}

func (s *storeMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{s.took, s.writes, s.events}
}

// Committed counts one group commit.
func (m *Metrics) Committed(c sqlite.Commit) {
	m.store.took.Observe(c.Took.Seconds())
	m.store.writes.Observe(float64(c.Writes))
	m.store.events.Add(float64(c.Events))
	for status, n := range c.Ended {
		m.runs.approvals.WithLabelValues(string(status)).Add(float64(n))
	}
}
