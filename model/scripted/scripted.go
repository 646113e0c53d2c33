package scripted

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/chat"
)

// Provider is the name of the scripted provider.
const Provider = "fake"

// Model plays scripts in the process. It serves every model name and is safe for concurrent use.
type Model struct {
	player *player
	idle   time.Duration
}

var _ model.Model = (*Model)(nil)

// New returns the scripted model.
func New(o Options) (*Model, error) {
	p, err := newPlayer(o)
	if err != nil {
		return nil, err
	}
	if o.IdleTimeout < 0 {
		return nil, errors.New("scripted: Options.IdleTimeout is negative")
	}
	return &Model{player: p, idle: o.IdleTimeout}, nil
}

// FromProvider is the model.Factory of the fake provider. It takes no address and no key.
func FromProvider(p model.ProviderConfig) (model.Model, error) {
	if p.BaseURL != "" || !p.APIKey.IsZero() {
		return nil, errors.New("the fake provider takes neither base_url nor api_key; use openai-compat for a model server")
	}
	return New(Options{IdleTimeout: p.IdleTimeout})
}

// Stream plays one step. See model.Model.
func (m *Model) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		err := m.stream(ctx, req, func(p model.Part) error {
			if !yield(p, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(model.Part{}, err)
		}
	}
}

// errStopped ends a stream whose reader left the loop. It never leaves the package.
var errStopped = errors.New("stopped")

func (m *Model) stream(ctx context.Context, req model.Request, emit func(model.Part) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k := m.player.pick(conversationOf(req), req.ToolChoice == model.ToolChoiceNone)
	if k.step.Status != 0 {
		return k.statusError()
	}
	wait := m.wait(ctx, k)
	if err := wait(k.step.before()); err != nil {
		return err
	}
	if k.step.Raw != "" {
		return k.playRaw(req.Model, emit)
	}
	g := gather{emit: emit, picked: k, served: req.Model}
	err := k.play(wait, g.frame)
	if errors.Is(err, errDropped) {
		return k.fail(model.ErrIncomplete, "the connection broke before the end of the answer", io.ErrUnexpectedEOF)
	}
	return err
}

// wait sleeps as the server would; where that takes longer than the idle timeout, the call fails as a client would.
func (m *Model) wait(ctx context.Context, k picked) waiter {
	return func(d time.Duration) error {
		if m.idle <= 0 || d < m.idle {
			return model.Sleep(ctx, d)
		}
		if err := model.Sleep(ctx, m.idle); err != nil {
			return err
		}
		return k.fail(model.ErrIdle, "nothing came from the server for "+m.idle.String(), nil)
	}
}

func (k picked) fail(kind model.ErrorKind, message string, cause error) *model.Error {
	return &model.Error{Kind: kind, Provider: Provider, Message: message, RequestID: k.requestID(), Cause: cause}
}

func (k picked) statusError() *model.Error {
	code, message := k.step.failure()
	e := k.fail(model.KindOfStatus(k.step.Status), message, nil)
	e.Status, e.Code = k.step.Status, code
	e.RetryAfter = time.Duration(k.step.RetryAfter) * time.Second
	return e
}

// playRaw decodes scripted bytes as the client of a server would.
func (k picked) playRaw(requested string, emit func(model.Part) error) error {
	for p, err := range chat.Decode(strings.NewReader(k.step.Raw), Provider, requested) {
		if err != nil {
			if e, ok := model.AsError(err); ok {
				e.RequestID = k.requestID()
			}
			return err
		}
		if err := emit(p); err != nil {
			return err
		}
	}
	return nil
}

// gather turns frames into parts and holds the whole items until the finish.
type gather struct {
	emit        func(model.Part) error
	picked      picked
	served      string
	think, text strings.Builder
	calls       []*gathered
}

type gathered struct {
	id, name string
	args     strings.Builder
}

func (g *gather) frame(f frame) error {
	switch f.kind {
	case frameThink:
		g.think.WriteString(f.text)
		return g.emit(model.Part{Kind: model.PartReasoningDelta, Text: f.text})
	case frameText:
		g.text.WriteString(f.text)
		return g.emit(model.Part{Kind: model.PartTextDelta, Text: f.text})
	case frameCall:
		g.calls = append(g.calls, &gathered{id: f.id, name: f.name})
	case frameArgs:
		g.calls[f.index].args.WriteString(f.text)
	case frameFinish:
		return g.finish(f)
	}
	return g.emit(model.Part{Kind: model.PartToolCallDelta, Index: f.index, ID: f.id, Name: f.name, Text: f.text})
}

func (g *gather) finish(f frame) error {
	var items []model.Part
	if g.think.Len() > 0 {
		items = append(items, model.Part{Kind: model.PartContent, Content: ai.ReasoningPart{Text: g.think.String()}})
	}
	if g.text.Len() > 0 {
		items = append(items, model.Part{Kind: model.PartContent, Content: ai.TextPart{Text: g.text.String()}})
	}
	finish := chat.FinishReason(f.finish, len(g.calls) > 0)
	cut := chat.Cuts(finish.Unified)
	for i, c := range g.calls {
		input := c.args.String()
		if strings.TrimSpace(input) == "" {
			input = "{}"
		}
		items = append(items, model.Part{
			Kind: model.PartContent, Index: i, ID: c.id, Name: c.name, Truncated: cut,
			Content: ai.ToolCallPart{ToolCallID: c.id, ToolName: c.name, Input: input},
		})
	}
	for _, p := range items {
		if err := g.emit(p); err != nil {
			return err
		}
	}
	return g.emit(model.Part{
		Kind: model.PartFinish, Finish: finish, Usage: f.usage.asUsage(), ResponseID: g.picked.responseID(), ServedModel: g.served,
	})
}

// asUsage keeps a missing usage unknown.
func (u *usage) asUsage() ai.Usage {
	if u == nil {
		return ai.Usage{}
	}
	out := ai.Usage{
		InputTokens:  ai.InputTokens{Total: ai.Tokens(u.in)},
		OutputTokens: ai.OutputTokens{Total: ai.Tokens(u.out)},
	}
	if u.cached > 0 {
		out.InputTokens.CacheRead = ai.Tokens(u.cached)
		out.InputTokens.NoCache = ai.Tokens(max(0, u.in-u.cached))
	}
	return out
}
