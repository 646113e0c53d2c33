package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Step is one scripted answer. The package comment describes its members.
type Step struct {
	Text       string          `json:"text,omitempty"`
	Think      string          `json:"think,omitempty"`
	Tool       string          `json:"tool,omitempty"`
	In         json.RawMessage `json:"in,omitempty"`
	Args       *string         `json:"args,omitempty"`
	Tools      []Step          `json:"tools,omitempty"`
	NS         string          `json:"ns,omitempty"`     // for the Responses wire, which groups tools
	Custom     bool            `json:"custom,omitempty"` // likewise: a call that takes a text
	Slow       int             `json:"slow,omitempty"`
	Hang       int             `json:"hang,omitempty"`
	Status     int             `json:"status,omitempty"`
	Times      int             `json:"times,omitempty"`
	RetryAfter int             `json:"retryAfter,omitempty"`
	Raw        string          `json:"raw,omitempty"`
	Drop       bool            `json:"drop,omitempty"`
	Finish     string          `json:"finish,omitempty"`
	InTok      int             `json:"inTok,omitempty"`
	OutTok     int             `json:"outTok,omitempty"`
	CachedTok  int             `json:"cachedTok,omitempty"`
	NoUsage    bool            `json:"noUsage,omitempty"`

	repeat int // the text is this many pieces, each Text; 0: split into words
	delay  int // milliseconds before the answer
}

// The bounds of a script. A larger number is a script error.
const (
	maxTokens  = 1_000_000
	maxCalls   = 1000
	maxWaitMS  = 3_600_000
	maxTurnSeq = 1_000_000
)

// defaultSub is played for $$sub$$ when Options.Sub is empty.
const defaultSub = `[{"tool":"Bash","in":{"command":"echo sub > sub.txt","description":"w"}},{"text":"sub done"}]`

// calls lists the step's tool calls.
func (s Step) calls() []Step {
	if s.Tool != "" {
		return []Step{s}
	}
	return s.Tools
}

// arguments is the text of a call's arguments, never empty unless the script says so.
func (s Step) arguments() string {
	switch {
	case s.Args != nil:
		return *s.Args
	case len(s.In) == 0:
		return "{}"
	}
	return string(s.In)
}

// input is what a custom call takes: a text as it is, or the arguments.
func (s Step) input() string {
	var text string
	if s.Args == nil && json.Unmarshal(s.In, &text) == nil {
		return text
	}
	return s.arguments()
}

func (s Step) check() error {
	switch {
	case s.Status != 0 && (s.Status < 400 || s.Status > 599):
		return fmt.Errorf("status %d is not an HTTP error", s.Status)
	case s.Slow < 0 || s.Slow > maxWaitMS:
		return fmt.Errorf("slow %d is not between 0 and %d", s.Slow, maxWaitMS)
	case s.Hang < 0 || s.Hang > maxWaitMS/1000:
		return fmt.Errorf("hang %d is not between 0 and %d", s.Hang, maxWaitMS/1000)
	case s.Times < 0 || s.RetryAfter < 0 || s.InTok < 0 || s.OutTok < 0 || s.CachedTok < 0:
		return errors.New("a negative number")
	case len(s.calls()) > maxCalls:
		return fmt.Errorf("more than %d calls", maxCalls)
	}
	return nil
}

// script is a script of either form.
type script struct {
	steps []Step    // the JSON form
	line  *loadLine // the SCRIPT: form
}

// findScript returns the script of a user message. ok is false when it holds none.
func findScript(text, sub string) (s script, ok bool, err error) {
	if open := strings.LastIndex(text, "@@["); open >= 0 {
		end := strings.Index(text[open:], "]@@")
		if end < 0 {
			return s, false, nil
		}
		s.steps, err = parseSteps(text[open+2 : open+end+1])
		return s, true, err
	}
	if strings.Contains(text, "$$sub$$") {
		s.steps, err = parseSteps(sub)
		return s, true, err
	}
	if _, after, found := strings.Cut(text, "SCRIPT:"); found {
		line, _, _ := strings.Cut(after, "\n")
		s.line, err = parseLine(line)
		return s, true, err
	}
	return s, false, nil
}

func parseSteps(text string) ([]Step, error) {
	var steps []Step
	if err := json.Unmarshal([]byte(text), &steps); err != nil {
		return nil, err
	}
	for i, s := range steps {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return steps, nil
}

// loadLine is the content of a SCRIPT: line.
type loadLine struct {
	seq, par turns
	text     string
	tokens   int
	delay    int
}

type turns struct {
	n          int
	tool, args string
}

func parseLine(line string) (*loadLine, error) {
	l := &loadLine{text: "ok", tokens: 1}
	for _, field := range strings.Fields(line) {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			continue
		}
		var err error
		switch key {
		case "text":
			l.text = value
		case "delay":
			l.delay, err = number(value, maxWaitMS)
		case "tokens":
			l.tokens, err = number(value, maxTokens)
		case "seq":
			l.seq, err = parseTurns(value, maxTurnSeq)
		case "par":
			l.par, err = parseTurns(value, maxCalls)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return l, nil
}

func parseTurns(s string, limit int) (turns, error) {
	parts := strings.SplitN(s, ":", 3)
	if len(parts) < 2 {
		return turns{}, errors.New("write N:tool or N:tool:arguments")
	}
	n, err := number(parts[0], limit)
	if err != nil {
		return turns{}, err
	}
	t := turns{n: n, tool: parts[1], args: "{}"}
	if len(parts) == 3 {
		t.args = strings.ReplaceAll(parts[2], "␠", " ")
	}
	return t, nil
}

func number(s string, limit int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("%q is not a number between 0 and %d", s, limit)
	}
	return n, nil
}

// step is the turn to play after so many tool results.
func (l *loadLine) step(results int) Step {
	s := Step{InTok: 100, OutTok: 20, delay: l.delay}
	call := func(t turns) Step { return Step{Tool: t.tool, Args: &t.args} }
	switch {
	case results < l.par.n:
		for range l.par.n {
			s.Tools = append(s.Tools, call(l.par))
		}
	case results-l.par.n < l.seq.n:
		s.Tools = []Step{call(l.seq)}
	default:
		s.Text, s.repeat = l.text, l.tokens
	}
	return s
}
