package scripted

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxCacheMarks is how many cache marks the service takes in one request, and minThinking the smallest budget.
const (
	maxCacheMarks = 4
	minThinking   = 1024
)

// messagesBlock is a block of a message, of a result or of the system prompt.
type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"` // of redacted thinking
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
	Cache json.RawMessage `json:"cache_control"`
}

// blocksOf reads a content: a text, or a list. Nothing is an empty list.
func blocksOf(content json.RawMessage) ([]messagesBlock, error) {
	var s string
	if json.Unmarshal(content, &s) == nil {
		if s == "" {
			return nil, nil
		}
		return []messagesBlock{{Type: "text", Text: s}}, nil
	}
	var list []messagesBlock
	err := json.Unmarshal(content, &list)
	return list, err
}

// check holds the request to the rules that the service has. Neighbouring messages of one role are one turn there.
func (q *messagesRequest) check() error {
	if len(q.Messages) == 0 || q.Messages[0].Role != "user" {
		return errors.New("messages: the first message must be the user's")
	}
	if q.Model == "" {
		return errors.New("model: a model is required")
	}
	system, err := blocksOf(q.System)
	if len(q.System) > 0 && err != nil {
		return errors.New("system: a text or a list of blocks is required")
	}
	for i := range system {
		if err := system[i].checkText(); err != nil {
			return fmt.Errorf("system.%d: %w", i, err)
		}
	}
	marks := countMarks(system)
	for i := range q.Messages {
		m := &q.Messages[i]
		where := fmt.Sprintf("messages.%d", i)
		if m.Role != "user" && m.Role != "assistant" {
			return fmt.Errorf("%s.role: user or assistant is required", where)
		}
		if m.blocks, err = blocksOf(m.Content); err != nil || len(m.blocks) == 0 {
			return fmt.Errorf("%s.content: a text or a list of blocks is required", where)
		}
		marks += countMarks(m.blocks)
		for n := range m.blocks {
			if err := m.blocks[n].check(m.Role); err != nil {
				return fmt.Errorf("%s.content.%d: %w", where, n, err)
			}
		}
	}
	turns := q.turns()
	if err := checkTurns(turns); err != nil {
		return err
	}
	for _, t := range q.Tools {
		if len(t.Cache) > 0 {
			marks++
		}
	}
	if marks > maxCacheMarks {
		return fmt.Errorf("a maximum of %d blocks with cache_control may be provided, found %d", maxCacheMarks, marks)
	}
	if err := q.checkTools(); err != nil {
		return err
	}
	return q.checkThinking(turns)
}

func countMarks(blocks []messagesBlock) (n int) {
	for i := range blocks {
		if len(blocks[i].Cache) > 0 {
			n++
		}
	}
	return n
}

func (b *messagesBlock) checkText() error {
	if b.Type != "text" {
		return fmt.Errorf("a block of type %q cannot stand here", b.Type)
	}
	if strings.TrimSpace(b.Text) == "" {
		return errors.New("text content blocks must be non-empty")
	}
	return nil
}

// ownBlocks are of the service's own tools and stores. Nothing here looks into them.
var ownBlocks = map[string][]string{"user": {"search_result", "container_upload"}, "assistant": {"mcp_tool_use", "container_upload", "compaction"}}

func (b *messagesBlock) check(role string) error {
	switch {
	case b.Type == "text":
		return b.checkText()
	case role == "user" && (b.Type == "image" || b.Type == "document"):
		return b.checkFile()
	case role == "user" && b.Type == "tool_result":
		return b.checkResult()
	case role == "assistant" && b.Type == "thinking":
		if b.Signature != signatureOf(b.Thinking) {
			return errors.New("invalid signature in thinking block")
		}
		return nil
	case role == "assistant" && b.Type == "redacted_thinking":
		if b.Data == "" {
			return errors.New("data: a text is required")
		}
		return nil
	case role == "assistant" && (b.Type == "tool_use" || b.Type == "server_tool_use"):
		return b.checkCall()
	case role == "assistant" && strings.HasSuffix(b.Type, "_tool_result"), slices.Contains(ownBlocks[role], b.Type):
		return nil
	}
	return fmt.Errorf("a block of type %q cannot stand in a message of the %s", b.Type, role)
}

func (b *messagesBlock) checkCall() error {
	switch {
	case b.ID == "" || !isWord(b.ID):
		return errors.New("id: letters, digits, _ and - are required")
	case b.Name == "":
		return errors.New("name: a tool's name is required")
	case len(b.Input) == 0 || b.Input[0] != '{':
		return errors.New("input: an object is required")
	}
	return nil
}

func (b *messagesBlock) checkFile() error {
	s := b.Source
	switch {
	case s != nil && (s.Type == "url" || s.Type == "file"):
		return nil // somewhere else
	case s != nil && b.Type == "document" && (s.Type == "text" || s.Type == "content"):
		return nil
	case s == nil || s.Type != "base64":
		return errors.New("source: a source is required, such as base64")
	case b.Type == "image" && !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, s.MediaType):
		return fmt.Errorf("source.media_type: %q is not that of an image that can be read", s.MediaType)
	case b.Type == "document" && s.MediaType != "application/pdf":
		return fmt.Errorf("source.media_type: %q is not that of a document", s.MediaType)
	}
	if data, err := base64.StdEncoding.DecodeString(s.Data); err != nil || len(data) == 0 {
		return errors.New("source.data: base64 of a file is required")
	}
	return nil
}

func (b *messagesBlock) checkResult() error {
	var inside []messagesBlock
	if len(b.Content) > 0 {
		var err error
		if inside, err = blocksOf(b.Content); err != nil {
			return errors.New("content: a text or a list of blocks is required")
		}
	}
	for i := range inside {
		c := &inside[i]
		var err error
		switch c.Type {
		case "image", "document":
			err = c.checkFile()
		case "search_result", "tool_reference":
		default:
			err = c.checkText()
		}
		if err == nil && b.IsError && c.Type != "text" {
			err = errors.New("all content must be text if is_error is true")
		}
		if err != nil {
			return fmt.Errorf("content.%d: %w", i, err)
		}
	}
	if b.IsError && len(inside) == 0 {
		return errors.New("content cannot be empty if is_error is true")
	}
	return nil
}

func (b *messagesBlock) reasoning() bool {
	return b.Type == "thinking" || b.Type == "redacted_thinking"
}

// spoken is a turn: neighbouring messages of one role, of which at is the first.
type spoken struct {
	at     int
	model  bool
	blocks []messagesBlock
}

// answersCalls tells of a turn that goes on with one of the model.
func (s *spoken) answersCalls() bool { return !s.model && s.blocks[0].Type == "tool_result" }

func (q *messagesRequest) turns() (list []spoken) {
	for i, m := range q.Messages {
		model := m.Role == "assistant"
		if n := len(list); n > 0 && list[n-1].model == model {
			list[n-1].blocks = slices.Concat(list[n-1].blocks, m.blocks)
			continue
		}
		list = append(list, spoken{i, model, m.blocks})
	}
	return list
}

// checkTurns holds calls and results to their places: the results of a turn stand first in the next one, each once.
func checkTurns(turns []spoken) error {
	ids := map[string]bool{}
	var open []string
	for i := range turns {
		t := &turns[i]
		where := fmt.Sprintf("messages.%d", t.at)
		if !t.model {
			if err := checkResults(t.blocks, open); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
			open = nil
			continue
		}
		for n := range t.blocks {
			if b := &t.blocks[n]; b.Type == "tool_use" {
				if ids[b.ID] {
					return fmt.Errorf("%s: tool_use ids must be unique, %s is not", where, b.ID)
				}
				ids[b.ID] = true
				open = append(open, b.ID)
			}
		}
		last := &t.blocks[len(t.blocks)-1]
		if last.reasoning() {
			return fmt.Errorf("%s: the final block in an assistant message cannot be thinking", where)
		}
		if i < len(turns)-1 {
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("%s: %w", where, unanswered(open))
		}
		if last.Type == "text" && strings.TrimSpace(last.Text[len(last.Text)-1:]) == "" {
			return fmt.Errorf("%s: final assistant content cannot end with trailing whitespace", where)
		}
	}
	return nil
}

func checkResults(blocks []messagesBlock, open []string) error {
	open = slices.Clone(open)
	said := false
	for n := range blocks {
		b := &blocks[n]
		if b.Type != "tool_result" {
			said = true
			if len(open) > 0 {
				return unanswered(open)
			}
			continue
		}
		at := slices.Index(open, b.ToolUseID)
		if at < 0 || said {
			return fmt.Errorf("unexpected tool_use_id %s in tool_result blocks", b.ToolUseID)
		}
		open = slices.Delete(open, at, at+1)
	}
	if len(open) > 0 {
		return unanswered(open)
	}
	return nil
}

func unanswered(open []string) error {
	return fmt.Errorf("tool_use ids were found without tool_result blocks immediately after: %s", strings.Join(open, ", "))
}

func (q *messagesRequest) checkTools() error {
	names := map[string]bool{}
	for i, t := range q.Tools {
		switch {
		case t.Name == "" || len(t.Name) > 128 || !isWord(t.Name):
			return fmt.Errorf("tools.%d.name: up to 128 letters, digits, _ and - are required", i)
		case names[t.Name]:
			return fmt.Errorf("tools: tool names must be unique, %s is not", t.Name)
		case t.Type == "" && t.Schema.Type != "object":
			return fmt.Errorf("tools.%d.input_schema.type: object is required", i)
		}
		names[t.Name] = true
	}
	switch c := q.ToolChoice.Type; c {
	case "", "auto", "none":
	case "any", "tool":
		if len(names) == 0 {
			return fmt.Errorf("tool_choice: %s may only be specified while providing tools", c)
		}
		if q.thinks() {
			return errors.New("thinking may not be enabled when tool_choice forces tool use")
		}
	default:
		return fmt.Errorf("tool_choice.type: %q is not known", c)
	}
	return nil
}

func (q *messagesRequest) thinks() bool {
	return q.Thinking.Type == "enabled" || q.Thinking.Type == "adaptive"
}

func (q *messagesRequest) checkThinking(turns []spoken) error {
	switch t := q.Thinking; t.Type {
	case "", "disabled", "adaptive":
	case "enabled":
		if t.Budget < minThinking {
			return fmt.Errorf("thinking.budget_tokens: %d is below %d", t.Budget, minThinking)
		}
		if q.MaxTokens > 0 && t.Budget >= q.MaxTokens {
			return errors.New("max_tokens must be greater than thinking.budget_tokens")
		}
		at := len(turns) - 1
		for at > 0 && turns[at].answersCalls() && turns[max(at-2, 0)].answersCalls() {
			at -= 2
		}
		if at > 0 && turns[at].answersCalls() && !turns[at-1].blocks[0].reasoning() {
			return fmt.Errorf("messages.%d.content.0.type: expected thinking or redacted_thinking, but found %s", turns[at-1].at, turns[at-1].blocks[0].Type)
		}
	default:
		return fmt.Errorf("thinking.type: %q is not known", t.Type)
	}
	if q.thinks() && q.Temperature != nil && *q.Temperature != 1 {
		return errors.New("temperature may only be set to 1 when thinking is enabled")
	}
	return nil
}

// isWord tells of the characters that the service takes in names and ids.
func isWord(s string) bool {
	for _, r := range s {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return true
}
