package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/store"
)

// The roles of messages.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleNote      = "note"
)

// Message is an entry of a conversation as people and programs read it. Its id is its place in the transcript.
type Message struct {
	ID    int64     `json:"id" doc:"grows within the conversation, with gaps"`
	Role  string    `json:"role" enum:"user,assistant,note" doc:"note: something that happened to the conversation, such as a compaction"`
	RunID string    `json:"run_id"`
	Step  int       `json:"step,omitempty"`
	Time  time.Time `json:"time"`
	Text  string    `json:"text"`
	// Reasoning is the readable part of what the model thought.
	Reasoning string     `json:"reasoning,omitempty"`
	Steering  bool       `json:"steering,omitempty" doc:"it was sent to the run while it was at work"`
	Provider  string     `json:"provider,omitempty"`
	Model     string     `json:"model,omitempty"`
	Files     []File     `json:"files,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// File is a file or an image of a message, without its bytes.
type File struct {
	MediaType string `json:"media_type"`
	Name      string `json:"name,omitempty"`
	Size      int    `json:"size"`
}

// ToolCall is a call of an answer. Without a result the run ended before the call did.
type ToolCall struct {
	ID        string      `json:"id"`
	Tool      string      `json:"tool"`
	Arguments string      `json:"arguments" doc:"the JSON text as the model wrote it"`
	Result    *ToolResult `json:"result,omitempty"`
}

// ToolResult is what the model read of a call.
type ToolResult struct {
	Output   string    `json:"output"`
	Error    string    `json:"error,omitempty" doc:"why it failed"`
	Artifact string    `json:"artifact,omitempty" doc:"id of the whole output, where it was cut"`
	Files    []File    `json:"files,omitempty"`
	Time     time.Time `json:"time"`
}

// reading makes messages of transcript items. A message is done when the next one begins: its calls have their results
// by then. Records of control are no messages.
type reading struct {
	done []Message
	size int // of the texts in done
	open *Message
}

// take reads the next item. Results of a message before the first one that was taken are left out.
func (r *reading) take(it store.TranscriptItem) {
	item, err := native.DecodeItem(it.Data)
	if err != nil {
		r.begin(Message{ID: it.Idx, Role: RoleNote, RunID: it.RunID, Time: it.At, Text: fmt.Sprintf("entry %d of the transcript cannot be read", it.Idx)})
		return
	}
	m := Message{ID: it.Idx, RunID: it.RunID, Step: item.Step, Time: it.At}
	switch item.Kind {
	case native.KindPrompt, native.KindSteer:
		if item.Message == nil {
			return
		}
		m.Role, m.Steering = RoleUser, item.Kind == native.KindSteer
		m.read(item.Message)
	case native.KindAnswer:
		m.Role, m.Provider, m.Model = RoleAssistant, item.Provider, item.Model
		m.read(item.Message)
	case native.KindCompaction:
		m.Role, m.Text = RoleNote, compactionNote(item.Compaction)
	case native.KindResult:
		r.result(item, it.At)
		return
	default:
		return
	}
	r.begin(m)
}

func (r *reading) begin(m Message) {
	r.end()
	r.open = &m
}

// end closes the open message.
func (r *reading) end() {
	if r.open == nil {
		return
	}
	r.size += r.open.bytes()
	r.done = append(r.done, *r.open)
	r.open = nil
}

func (r *reading) result(item native.Item, at time.Time) {
	if r.open == nil {
		return
	}
	for i := range r.open.ToolCalls {
		if c := &r.open.ToolCalls[i]; c.ID == item.CallID {
			c.Result = &ToolResult{Output: item.Output, Error: item.Error, Artifact: item.Artifact, Time: at}
			for _, f := range item.Files {
				c.Result.Files = append(c.Result.Files, fileOf(f))
			}
		}
	}
}

// read takes over the parts of a message.
func (m *Message) read(msg *ai.Message) {
	if msg == nil {
		return
	}
	var reasoning []string
	for _, p := range msg.Content {
		switch p := p.(type) {
		case ai.TextPart:
			m.Text += p.Text
		case ai.ReasoningPart:
			if p.Text != "" {
				reasoning = append(reasoning, p.Text)
			}
		case ai.FilePart:
			m.Files = append(m.Files, fileOf(p))
		case ai.ToolCallPart:
			m.ToolCalls = append(m.ToolCalls, ToolCall{ID: p.ToolCallID, Tool: p.ToolName, Arguments: p.Input})
		}
	}
	m.Reasoning = strings.Join(reasoning, "\n\n")
}

func fileOf(f ai.FilePart) File {
	return File{MediaType: f.MediaType, Name: f.Filename, Size: len(f.Data)}
}

func (m *Message) bytes() int {
	n := len(m.Text) + len(m.Reasoning)
	for _, c := range m.ToolCalls {
		if n += len(c.Arguments); c.Result != nil {
			n += len(c.Result.Output)
		}
	}
	return n
}

func compactionNote(c *native.CompactionRecord) string {
	if c == nil {
		return "the context was compacted"
	}
	var did []string
	if c.MessagesRemoved > 0 {
		did = append(did, fmt.Sprintf("%d messages are no longer sent to the model", c.MessagesRemoved))
	}
	if c.OutputsStripped > 0 {
		did = append(did, fmt.Sprintf("%d outputs are left out", c.OutputsStripped))
	}
	note := "the context was compacted"
	if len(did) > 0 {
		note += ": " + strings.Join(did, ", ")
	}
	if c.Summary != "" {
		note += ".\n\n" + c.Summary
	}
	return note
}

// transcriptKind is the kind that the store counts an item under. A command that was sent to a run leaves an item like
// a message, and is none.
func transcriptKind(it native.Item) string {
	if it.Kind == native.KindSteer && it.Message == nil {
		return "command"
	}
	return string(it.Kind)
}

// Bounds of what the search index gets of one call.
const (
	indexedArguments = 1 << 10
	indexedOutput    = 2 << 10
)

// searchText is what can be found of a transcript item.
func searchText(it store.FeedItem) (store.SearchText, bool) {
	item, err := native.DecodeItem(it.Data)
	if err != nil {
		return store.SearchText{}, false
	}
	t := store.SearchText{Cursor: it.Cursor}
	switch item.Kind {
	case native.KindPrompt, native.KindSteer, native.KindAnswer:
		if item.Message == nil {
			return t, false
		}
		t.Role, t.Body = RoleUser, item.Message.Text()
		if item.Kind == native.KindAnswer {
			t.Role = RoleAssistant
		}
		var calls []string
		for _, c := range item.Message.ToolCalls() {
			calls = append(calls, c.ToolName+" "+head(c.Input, indexedArguments))
		}
		t.Tool = strings.Join(calls, "\n")
	case native.KindResult:
		t.Role, t.Tool = "tool", head(item.Output, indexedOutput)
	}
	return t, t.Body != "" || t.Tool != ""
}

func head(s string, n int) string { return s[:min(len(s), n)] }
