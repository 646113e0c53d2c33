package daemon

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/harness-go/harness/internal/activity"
	"github.com/harness-go/harness/internal/buildinfo"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/internal/httpapi"
	"github.com/harness-go/harness/internal/metrics"
	"github.com/harness-go/harness/internal/telemetry"
	"github.com/harness-go/harness/internal/telemetry/otlp"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/store/sqlite"
	"github.com/harness-go/harness/tool"
)

// flushTime bounds how long the end of a node waits for the collector of telemetry.
const flushTime = time.Second

// watching are the parts of a node that look on.
type watching struct {
	metrics *metrics.Metrics
	traces  *telemetry.Telemetry // nil: nothing is exported
}

// watch makes the metrics. open is asked once the store is there.
func (n *Node) watch(open store.OpenCounter) {
	build := buildinfo.Read()
	build.Version = n.o.Version
	n.watching.metrics = metrics.New(metrics.Options{
		Build: build, Open: open, Streams: func() int64 { return n.http.Streams() }, Logger: n.log,
	})
}

// export starts telemetry where the configuration wants it.
func (n *Node) export(ctx context.Context) (err error) {
	c := n.o.Config.Telemetry
	if !c.Enabled {
		return nil
	}
	o := telemetry.Options{Version: n.o.Version, Content: c.Content}
	var terr, merr error
	if !c.Traces.Off {
		o.Traces, terr = otlp.NewTraces(delivery(c.Traces, n.log))
	}
	if !c.Metrics.Off {
		o.Metrics, merr = otlp.NewMetrics(delivery(c.Metrics, n.log))
	}
	if err := errors.Join(terr, merr); err != nil {
		return &config.Error{Source: "telemetry", Message: err.Error()}
	}
	n.watching.traces, err = telemetry.New(ctx, o)
	return err
}

func delivery(c config.OTLP, log *slog.Logger) otlp.Config {
	return otlp.Config{
		URL: c.URL, Headers: c.Headers, Timeout: c.Timeout, Gzip: c.Gzip, CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, Logger: log,
	}
}

// flush sends what telemetry has left, for flushTime at most. A collector that does not answer is no fault of the node.
func (w *watching) flush(ctx context.Context, log *slog.Logger) {
	if w.traces == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if err := w.traces.Shutdown(ctx); err != nil {
		log.Warn("telemetry: not everything was exported before the end", "error", err)
	}
}

// storeOptions are the store's, with what looks on. The metrics are made while it opens: it commits nothing before.
func (n *Node) storeOptions() sqlite.Options {
	return sqlite.Options{
		Dir: n.o.Config.StateDir, FaultPoint: n.o.StoreFault, Committed: func(c sqlite.Commit) { n.watching.metrics.Committed(c) },
	}
}

// serveMetrics puts what looks on into the API.
func (n *Node) serveMetrics(o *httpapi.Options) {
	o.Metrics, o.Answered = n.watching.metrics.Handler(), n.watching.metrics.Answered
}

// observers look on at the engine.
func (n *Node) observers(tools []tool.Definition) []engine.Observer {
	sinks := []activity.Sink{n.watching.metrics}
	if t := n.watching.traces; t != nil {
		sinks = append(sinks, t)
	}
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	n.watching.metrics.KnowTools(names)
	return []engine.Observer{activity.New(sinks...)}
}
