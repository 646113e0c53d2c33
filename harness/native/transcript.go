package native

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/event"
)

// ItemKind tells what a transcript item records.
type ItemKind string

// The kinds of transcript items. A turn begins with a prompt; each model call leaves an attempt and, when it ended
// well, an answer; each call of the answer leaves a result.
const (
	KindPrompt    ItemKind = "prompt"
	KindSteer     ItemKind = "steer"
	KindAttempt   ItemKind = "attempt"
	KindAnswer    ItemKind = "answer"
	KindResult    ItemKind = "result"
	KindTodos     ItemKind = "todos"
	KindActivated ItemKind = "activated"
)

// Item is one entry of a session's transcript. Which fields are set depends on Kind.
type Item struct {
	Kind ItemKind `json:"kind"`
	// Step is the step of the turn, from 1; 0 for prompts.
	Step int `json:"step,omitempty"`
	// Message is the prompt, the steering message or the answer, with each part's raw form.
	Message *ai.Message `json:"message,omitempty"`
	// Attempt counts the model calls of the step, from 1.
	Attempt int `json:"attempt,omitempty"`
	// Of an answer.
	Finish    *ai.FinishReason `json:"finish,omitempty"`
	Usage     *ai.Usage        `json:"usage,omitempty"`
	CostUSD   float64          `json:"cost_usd,omitempty"`
	Provider  string           `json:"provider,omitempty"`
	Model     string           `json:"model,omitempty"`
	ActiveMS  int64            `json:"active_ms,omitempty"` // working time of the turn up to here
	Truncated []string         `json:"truncated,omitempty"` // calls whose arguments were cut
	// Of a result.
	CallID string            `json:"call_id,omitempty"`
	Tool   string            `json:"tool,omitempty"`
	Output string            `json:"output,omitempty"`
	Error  string            `json:"error,omitempty"`
	Seen   map[string]string `json:"seen,omitempty"`

	Todos     []event.Todo `json:"todos,omitempty"`
	Activated []string     `json:"activated,omitempty"`
}

// Transcript keeps the items of sessions. The items of one Append are kept together or not at all. A journal-backed
// implementation may hold them back until the next fact or checkpoint, so that both are one commit.
type Transcript interface {
	// Load returns a session's items in order; an unknown session has none.
	Load(ctx context.Context, session string) ([]Item, error)
	Append(ctx context.Context, session string, items ...Item) error
}

// MemoryTranscript keeps transcripts in memory. The zero value is ready.
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
	m.items[session] = append(m.items[session], items...)
	return nil
}

// FileTranscript keeps each session as a JSON Lines file in Dir, synced at each Append. A last line that a crash cut
// short is dropped.
type FileTranscript struct {
	Dir string
	mu  sync.Mutex
}

func (f *FileTranscript) path(session string) string {
	sum := sha256.Sum256([]byte(session)) // a session id is any text
	return filepath.Join(f.Dir, hex.EncodeToString(sum[:16])+".jsonl")
}

// Load implements Transcript.
func (f *FileTranscript) Load(_ context.Context, session string) ([]Item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := os.ReadFile(f.path(session))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("native: transcript of session %s: %w", session, err)
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	var items []Item
	for r := bufio.NewReader(bytes.NewReader(data)); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return items, nil
		}
		var it Item
		if err := json.Unmarshal(line, &it); err != nil {
			return nil, fmt.Errorf("native: transcript of session %s, line %d: %w", session, len(items)+1, err)
		}
		items = append(items, it)
	}
}

// Append implements Transcript.
func (f *FileTranscript) Append(_ context.Context, session string, items ...Item) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("native: transcript: %w", err)
	}
	file, err := os.OpenFile(f.path(session), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("native: transcript: %w", err)
	}
	defer func() { _ = file.Close() }()
	end, err := wholeLines(file)
	if err != nil {
		return fmt.Errorf("native: transcript: %w", err)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, it := range items {
		if err := enc.Encode(it); err != nil {
			return fmt.Errorf("native: transcript: %w", err)
		}
	}
	if _, err := file.WriteAt(buf.Bytes(), end); err != nil {
		return fmt.Errorf("native: transcript: %w", err)
	}
	return file.Sync()
}

// wholeLines cuts an unfinished last line off and returns where the next line begins.
func wholeLines(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end := st.Size()
	var b [4096]byte
	for at := end; at > 0; {
		n := min(at, int64(len(b)))
		if _, err := f.ReadAt(b[:n], at-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
			end = at - n + int64(i) + 1
			return end, f.Truncate(end)
		}
		at -= n
	}
	return 0, f.Truncate(0)
}

// head is the lifecycle data of the adapter: where the transcript stood, and a digest over all items up to there.
type head struct {
	Session string `json:"session"`
	Head    int    `json:"head"`
	Digest  string `json:"digest"`
}

// chain is the running digest of a transcript.
type chain struct {
	n   int
	sum [sha256.Size]byte
}

func (c *chain) add(items ...Item) error {
	for _, it := range items {
		b, err := json.Marshal(it)
		if err != nil {
			return fmt.Errorf("native: transcript item: %w", err)
		}
		h := sha256.New()
		h.Write(c.sum[:])
		h.Write(b)
		h.Sum(c.sum[:0])
		c.n++
	}
	return nil
}

func (c *chain) head(session string) head {
	return head{Session: session, Head: c.n, Digest: hex.EncodeToString(c.sum[:8])}
}

// verify checks that the items begin with those that the state was taken from.
func (h head) verify(session string, items []Item) error {
	if h.Session != session {
		return fmt.Errorf("lifecycle state belongs to session %s, not %s", h.Session, session)
	}
	if h.Head > len(items) {
		return fmt.Errorf("transcript of session %s has %d items, the lifecycle state knows %d", session, len(items), h.Head)
	}
	var c chain
	if err := c.add(items[:h.Head]...); err != nil {
		return err
	}
	if c.head(session) != h {
		return fmt.Errorf("transcript of session %s is not the one that the lifecycle state was taken from", session)
	}
	return nil
}
