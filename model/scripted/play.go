package scripted

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/harness-go/harness/model"
)

// Options configures the scripted model in both of its forms. The zero value works.
type Options struct {
	// Sub are the steps, as a JSON array, that a user message with $$sub$$ plays. Empty: one Bash call, then a text.
	Sub string
	// IdleTimeout fails a call of the in-process model that waits longer, as a client of the server would. 0: never.
	IdleTimeout time.Duration
}

// maxCounters bounds the prompts whose failures are counted.
const maxCounters = 65536

// player plays steps for both forms. Its only state are the counts of times.
type player struct {
	sub    string
	mu     sync.Mutex
	failed map[[sha256.Size]byte]int
}

func newPlayer(o Options) (*player, error) {
	sub := o.Sub
	if sub == "" {
		sub = defaultSub
	}
	if _, err := parseSteps(sub); err != nil {
		return nil, fmt.Errorf("scripted: Options.Sub: %w", err)
	}
	return &player{sub: sub, failed: map[[sha256.Size]byte]int{}}, nil
}

// pick chooses the step and settles whether it fails this time: the step's Status is 0 when it does not.
func (p *player) pick(conversation []turn, noTools bool) picked {
	k := pick(conversation, p.sub, noTools)
	if k.step.Status == 0 || k.step.Times == 0 {
		return k
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := sha256.Sum256([]byte(k.key))
	n, seen := p.failed[key]
	switch {
	case n >= k.step.Times:
		k.step.Status = 0
	case !seen && len(p.failed) >= maxCounters:
		k.step = Step{Text: fmt.Sprintf("script error: more than %d prompts use times", maxCounters)}
	default:
		p.failed[key] = n + 1
	}
	return k
}

type frameKind byte

const (
	frameThink frameKind = iota + 1
	frameText
	frameCall // a call begins: index, id and name
	frameArgs // a piece of its arguments
	frameFinish
)

// frame is one streamed event of an answer, before it has the form of a wire.
type frame struct {
	kind     frameKind
	text     string
	index    int
	id, name string
	ns       string // of a call
	custom   bool   // the call takes a text
	finish   string
	usage    *usage
}

type usage struct{ in, out, cached int64 }

// argsPiece is the size of the pieces in which arguments are streamed.
const argsPiece = 64

// errDropped says that the script breaks the connection here.
var errDropped = errors.New("scripted: the script breaks the connection")

// play sends the frames of an answer to emit and waits through wait where the script says so. An error of either ends
// it and is returned.
func (k picked) play(wait waiter, emit func(frame) error) error {
	s := k.step
	send := func(f frame) error {
		if err := emit(f); err != nil {
			return err
		}
		if s.Slow > 0 {
			return wait(time.Duration(s.Slow) * time.Millisecond)
		}
		return nil
	}
	if s.Think != "" {
		if err := send(frame{kind: frameThink, text: s.Think}); err != nil {
			return err
		}
	}
	if err := k.text(send); err != nil {
		return err
	}
	if s.Drop {
		return errDropped
	}
	for i, c := range s.calls() {
		id := fmt.Sprintf("call_%016x_%d", k.id, i)
		if err := send(frame{kind: frameCall, index: i, id: id, name: c.Tool, ns: c.NS, custom: c.Custom}); err != nil {
			return err
		}
		args := c.arguments()
		if c.Custom {
			args = c.input()
		}
		for args != "" {
			piece := args[:cutAt(args, argsPiece)]
			args = args[len(piece):]
			if err := send(frame{kind: frameArgs, index: i, id: id, name: c.Tool, text: piece}); err != nil {
				return err
			}
		}
	}
	return emit(k.finish())
}

func (k picked) text(send func(frame) error) error {
	s := k.step
	if s.Text == "" {
		return nil
	}
	if s.repeat > 0 {
		for range s.repeat {
			if err := send(frame{kind: frameText, text: s.Text}); err != nil {
				return err
			}
		}
		return nil
	}
	for word := range strings.SplitAfterSeq(s.Text, " ") {
		if word == "" {
			continue
		}
		if err := send(frame{kind: frameText, text: word}); err != nil {
			return err
		}
	}
	return nil
}

func (k picked) finish() frame {
	s := k.step
	f := frame{kind: frameFinish, finish: s.Finish}
	if f.finish == "" {
		f.finish = "stop"
		if len(s.calls()) > 0 {
			f.finish = "tool_calls"
		}
	}
	if !s.NoUsage {
		f.usage = &usage{in: 100, out: 10, cached: int64(s.CachedTok)}
		if s.InTok > 0 {
			f.usage.in = int64(s.InTok)
		}
		if s.OutTok > 0 {
			f.usage.out = int64(s.OutTok)
		}
	}
	return f
}

// cutAt is the largest cut of s up to n bytes that splits no character.
func cutAt(s string, n int) int {
	if len(s) <= n {
		return len(s)
	}
	for n > 1 && s[n]&0xC0 == 0x80 {
		n--
	}
	return n
}

// before is the wait in front of the answer.
func (s Step) before() time.Duration {
	return time.Duration(s.Hang)*time.Second + time.Duration(s.delay)*time.Millisecond
}

// waiter waits for a duration or fails early.
type waiter func(time.Duration) error

// sleep waits under the context.
func sleep(ctx context.Context) waiter {
	return func(d time.Duration) error { return model.Sleep(ctx, d) }
}

// after does something before each wait.
func (w waiter) after(f func()) waiter {
	return func(d time.Duration) error {
		f()
		return w(d)
	}
}

func (k picked) requestID() string  { return fmt.Sprintf("req_%016x", k.id) }
func (k picked) responseID() string { return fmt.Sprintf("chatcmpl-%016x", k.id) }

// failure is the error that a failing step stands for, in the words that both forms use.
func (s Step) failure() (code, message string) {
	switch model.KindOfStatus(s.Status) {
	case model.ErrAuth:
		code = "authentication_error"
	case model.ErrRateLimit:
		code = "rate_limit_error"
	case model.ErrOverloaded:
		code = "overloaded_error"
	case model.ErrInvalidRequest:
		code = "invalid_request_error"
	default:
		code = "api_error"
	}
	return code, fmt.Sprintf("scripted %d", s.Status)
}
