package daemon

import (
	"github.com/harness-go/harness/internal/activity"
	"github.com/harness-go/harness/internal/buildinfo"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/internal/httpapi"
	"github.com/harness-go/harness/internal/metrics"
	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/store/sqlite"
	"github.com/harness-go/harness/tool"
)

// watching are the parts of a node that look on.
type watching struct {
	metrics *metrics.Metrics
}

// watch makes them. open is asked once the store is there.
func (n *Node) watch(open store.OpenCounter) {
	build := buildinfo.Read()
	build.Version = n.o.Version
	n.watching.metrics = metrics.New(metrics.Options{
		Build: build, Open: open, Streams: func() int64 { return n.http.Streams() }, Logger: n.log,
	})
}

// storeOptions are the store's, with what looks on.
func (n *Node) storeOptions() sqlite.Options {
	return sqlite.Options{Dir: n.o.Config.StateDir, FaultPoint: n.o.StoreFault, Committed: n.watching.metrics.Committed}
}

// serveMetrics puts what looks on into the API.
func (n *Node) serveMetrics(o *httpapi.Options) {
	o.Metrics, o.Answered = n.watching.metrics.Handler(), n.watching.metrics.Answered
}

// observers look on at the engine.
func (n *Node) observers(tools []tool.Definition) []engine.Observer {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		names = append(names, t.Name)
	}
	n.watching.metrics.KnowTools(names)
	return []engine.Observer{activity.New(n.watching.metrics)}
}
