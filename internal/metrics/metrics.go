// Package metrics counts what a node does, for Prometheus.
//
// It owns the names of the metrics and the bounds of their labels. It counts from committed facts (package activity),
// from the store's commits and from the HTTP server's answers; open runs and pending approvals it asks of the store when
// it is scraped. docs/observability.md lists what it exports.
//
// Invariants: no label has more than a fixed number of values, whatever names clients and models make up; nothing of a
// prompt, an argument or an output becomes a label.
package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/harness-go/harness/internal/buildinfo"
	"github.com/harness-go/harness/store"
)

// Options make Metrics. All are optional.
type Options struct {
	Build buildinfo.Info
	// Open counts open runs and approvals. Nil: these gauges are missing.
	Open store.OpenCounter
	// Streams is how many event streams are followed.
	Streams func() int64
	// Tools are the names of the tools that runs can use.
	Tools  []string
	Logger *slog.Logger
}

// Metrics is one node's registry. It is safe for concurrent use.
type Metrics struct {
	o        Options
	registry *prometheus.Registry
	runs     runMetrics
	calls    callMetrics
	http     httpMetrics
	store    storeMetrics
}

const namespace = "harness"

// New makes the registry.
func New(o Options) *Metrics {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{o: o, registry: prometheus.NewRegistry()}
	m.runs, m.calls, m.http, m.store = newRunMetrics(), newCallMetrics(o.Tools), newHTTPMetrics(), newStoreMetrics()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "The build that runs; always 1.",
		ConstLabels: prometheus.Labels{"version": o.Build.Version, "commit": o.Build.Commit, "go": o.Build.Go},
	})
	info.Set(1)
	m.registry.MustRegister(info, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	m.registry.MustRegister(m.runs.all()...)
	m.registry.MustRegister(m.calls.all()...)
	m.registry.MustRegister(m.http.all()...)
	m.registry.MustRegister(m.store.all()...)
	if o.Open != nil {
		m.registry.MustRegister(newOpenCollector(o.Open, o.Logger))
	}
	if o.Streams != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Name: "event_streams", Help: "Event streams that are followed now.",
		}, func() float64 { return float64(o.Streams()) }))
	}
	return m
}

// scrapeTime bounds one scrape.
const scrapeTime = 5 * time.Second

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: logged{m.o.Logger}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: scrapeTime,
	})
}

type logged struct{ log *slog.Logger }

func (l logged) Println(v ...any) { l.log.Warn("metrics not complete", "error", v) }

// openCollector asks the store how much is open. Scrapes that come close together share an answer.
type openCollector struct {
	open      store.OpenCounter
	log       *slog.Logger
	runs      *prometheus.Desc
	approvals *prometheus.Desc
}

func newOpenCollector(open store.OpenCounter, log *slog.Logger) *openCollector {
	return &openCollector{
		open: open, log: log,
		runs:      prometheus.NewDesc(namespace+"_runs_open", "Runs that have not ended, by status.", []string{"status"}, nil),
		approvals: prometheus.NewDesc(namespace+"_approvals_pending", "Approvals that wait for an answer.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *openCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.runs; ch <- c.approvals }

var openStatuses = []store.Status{store.StatusQueued, store.StatusRunning, store.StatusWaitingForApproval, store.StatusWaitingForUser}

// Collect implements prometheus.Collector.
func (c *openCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	o, err := c.open.CountOpen(ctx)
	if err != nil {
		c.log.Warn("metrics: open runs not counted", "error", err)
		ch <- prometheus.NewInvalidMetric(c.runs, err)
		return
	}
	for _, s := range openStatuses {
		ch <- prometheus.MustNewConstMetric(c.runs, prometheus.GaugeValue, float64(o.Runs[s]), string(s))
	}
	ch <- prometheus.MustNewConstMetric(c.approvals, prometheus.GaugeValue, float64(o.Approvals))
}
