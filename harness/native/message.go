package native

import (
	"fmt"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/tool"
)

// Message is something that was left for a session while it worked or waited. Exactly one field is set. Each message
// leaves one item of KindSteer in the transcript, so a host that keeps messages knows by it that this one arrived.
type Message struct {
	// Text goes to the model before its next call.
	Text string
	// Todos replace the todo list.
	Todos *[]event.Todo
	// Compact asks for a compaction before the next model call.
	Compact *CompactRequest
}

// CompactRequest asks for a compaction.
type CompactRequest struct {
	// Mode is tool.CompactHybrid when empty.
	Mode tool.CompactMode `json:"mode,omitempty"`
	// KeepLast is how many of the newest messages stay as they are, at least 2; 0 is the setting's.
	KeepLast int `json:"keep_last,omitempty"`
	// Instructions tell the summarising model what matters. They are no instructions of the run.
	Instructions string `json:"instructions,omitempty"`
}

// Compaction says when and how a history that grows beyond the model's context window is made shorter. Requests of
// the model and of people are answered also without Auto.
type Compaction struct {
	// Auto compacts when the next request is taken to fill Threshold of the window, and when a provider says that
	// the prompt is too long.
	Auto bool
	// Threshold is a part of the window, 0.8 when zero.
	Threshold float64
	// Mode is tool.CompactHybrid when empty.
	Mode tool.CompactMode
	// KeepLast is how many of the newest messages stay as they are, 4 when zero, at least 2.
	KeepLast int
}

func (c Compaction) check() error {
	if c.Threshold < 0 || c.Threshold > 1 {
		return fmt.Errorf("native: Compaction.Threshold is %v: it is a part of the window, from 0 to 1", c.Threshold)
	}
	if err := (CompactRequest{Mode: c.Mode, KeepLast: c.KeepLast}).check(); err != nil {
		return fmt.Errorf("native: Compaction: %w", err)
	}
	return nil
}
