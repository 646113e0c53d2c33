package api

import (
	"time"

	"github.com/harness-go/harness/event"
)

// RunExportFormat and RunExportVersion are those of exported runs. The version grows with a change that a reader of an
// older one cannot pass over.
const (
	RunExportFormat  = "harness.run"
	RunExportVersion = 1
)

// RunExportLine is one line of an exported run. The first is of type run, the last of type end; a file without it was
// cut. Lines between are of type event, in the order of the log.
type RunExportLine struct {
	Type       string       `json:"type" enum:"run,event,end"`
	Format     string       `json:"format,omitempty"`
	Version    int          `json:"version,omitempty"`
	ExportedAt *time.Time   `json:"exported_at,omitempty"`
	Run        *Run         `json:"run,omitempty"`
	Event      *event.Event `json:"event,omitempty"`
	Lines      int          `json:"lines,omitempty" doc:"of the line of type end: the lines before it"`
}
