package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
)

// ItemKind tells what a transcript item records.
type ItemKind string

// The kinds of transcript items. A turn begins with a prompt; each model call leaves an attempt and, when it ended
// well, an answer; each call of the answer leaves a result. Started and decision are kept where the adapter gates by
// itself; with a gate of the host they are the host's to keep.
const (
	KindPrompt    ItemKind = "prompt"
	KindSteer     ItemKind = "steer"
	KindAttempt   ItemKind = "attempt"
	KindAnswer    ItemKind = "answer"
	KindDecision  ItemKind = "decision"
	KindStarted   ItemKind = "started"
	KindResult    ItemKind = "result"
	KindTodos     ItemKind = "todos"
	KindActivated ItemKind = "activated"
	// KindInstructions holds the instruction files of the workspace, as they were when the session began.
	KindInstructions ItemKind = "instructions"
	// KindCompact asks for a compaction, KindCompaction is one.
	KindCompact    ItemKind = "compact"
	KindCompaction ItemKind = "compaction"
)

// Item is one entry of a session's transcript. Which fields are set depends on Kind.
type Item struct {
	Kind ItemKind `json:"kind"`
	// Step is the step of the turn, from 1; 0 for prompts.
	Step int `json:"step,omitempty"`
	// ActiveMS is the working time of the turn up to here.
	ActiveMS int64 `json:"active_ms,omitempty"`
	// Message is the prompt, the steering message or the answer, with each part's raw form.
	Message *ai.Message `json:"message,omitempty"`
	// Attempt counts the model calls of the step, from 1. An attempt has one item when it is made, and a second one
	// with Error when it failed.
	Attempt int `json:"attempt,omitempty"`
	// Purpose is event.PurposeSummary for the model calls of a compaction, which count for themselves.
	Purpose string `json:"purpose,omitempty"`
	// Provider and Model served the attempt or the answer.
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	// Of an answer, of a failed attempt that was paid for, and of a compaction with a summary.
	Usage   *ai.Usage `json:"usage,omitempty"`
	CostUSD float64   `json:"cost_usd,omitempty"`
	// Of an answer.
	Finish    *ai.FinishReason `json:"finish,omitempty"`
	Truncated []string         `json:"truncated,omitempty"` // calls whose arguments were cut
	// Of a call.
	CallID    string            `json:"call_id,omitempty"`
	Tool      string            `json:"tool,omitempty"`
	Arguments string            `json:"arguments,omitempty"` // with which it was started
	Approval  *event.Approval   `json:"approval,omitempty"`  // as it was decided
	Output    string            `json:"output,omitempty"`
	Error     string            `json:"error,omitempty"`    // of a result, or why an attempt failed
	Artifact  string            `json:"artifact,omitempty"` // id of the full output
	Files     []ai.FilePart     `json:"files,omitempty"`    // for the model, beside Output
	Seen      map[string]string `json:"seen,omitempty"`

	Todos []event.Todo `json:"todos,omitempty"`
	// Compact is a request for a compaction, of KindCompact or of a steer item.
	Compact   *CompactRequest `json:"compact,omitempty"`
	Activated []string        `json:"activated,omitempty"`

	Compaction   *CompactionRecord `json:"compaction,omitempty"`
	Instructions []InstructionFile `json:"instructions,omitempty"`

	// encoded is the item's JSON, between its making and its place in the transcript's digest.
	encoded json.RawMessage
}

// JSON is the item on one line, with raw parts byte for byte. An item that a Transcript is given has it ready. A
// Transcript that stores the bytes gives them back through DecodeItem.
func (it Item) JSON() (json.RawMessage, error) {
	if it.encoded != nil {
		return it.encoded, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(it); err != nil {
		return nil, fmt.Errorf("native: transcript item: %w", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// DecodeItem reads what JSON gave. It keeps data, over which the transcript's digest goes.
func DecodeItem(data json.RawMessage) (Item, error) {
	var it Item
	if err := json.Unmarshal(data, &it); err != nil {
		fixed := mended(data)
		it = Item{}
		if fixed == nil || json.Unmarshal(fixed, &it) != nil {
			return Item{}, err
		}
	}
	if it.Kind == "" {
		return Item{}, fmt.Errorf("an item has no kind")
	}
	it.encoded = data
	return it, nil
}

// Transcript keeps the items of sessions. The items of one Append are kept together or not at all. A journal-backed
// implementation may hold them back until the next fact or checkpoint, so that both are one commit.
type Transcript interface {
	// Load returns a session's items in order; an unknown session has none.
	Load(ctx context.Context, session string) ([]Item, error)
	// Append must not keep the slice.
	Append(ctx context.Context, session string, items ...Item) error
}

// MemoryTranscript keeps transcripts in memory. The zero value is ready. It is safe for concurrent use.
type MemoryTranscript struct {
	mu    sync.Mutex
	items map[string][]Item
}

// Load implements Transcript.
func (m *MemoryTranscript) Load(_ context.Context, session string) ([]Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Item(nil), m.items[session]...), nil
}

// Append implements Transcript.
func (m *MemoryTranscript) Append(_ context.Context, session string, items ...Item) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.items == nil {
		m.items = map[string][]Item{}
	}
	list := m.items[session]
	for _, it := range items {
		it.encoded = nil
		list = append(list, it)
	}
	m.items[session] = list
	return nil
}

// DecodeItems reads many items at once, on all processors: a long history is read anew when a turn is continued.
// The error names the row, from 0.
func DecodeItems(rows []json.RawMessage) ([]Item, error) {
	const share = 256 // rows that are worth a goroutine
	items := make([]Item, len(rows))
	workers := min(runtime.GOMAXPROCS(0), (len(rows)+share-1)/share)
	errs := make([]error, workers)
	var next atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for {
				from := int(next.Add(share)) - share
				if from >= len(rows) {
					return
				}
				for i := from; i < min(from+share, len(rows)); i++ {
					var err error
					if items[i], err = DecodeItem(rows[i]); err != nil {
						errs[w] = &rowError{i, err}
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return items, nil
}

// rowError is a row that is no item.
type rowError struct {
	row int
	err error
}

func (e *rowError) Error() string { return fmt.Sprintf("item %d: %s", e.row, e.err) }
func (e *rowError) Unwrap() error { return e.err }
