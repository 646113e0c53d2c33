package chat

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/wire/sse"
)

// Decode reads the body of an answer, as a server sent it, from src: a recorded stream or a scripted one. provider
// names the service in errors, requested is the model that was asked for. It does not close src and has no idle
// timeout.
func Decode(src io.Reader, provider, requested string) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		c := &Client{cfg: Config{
			Provider: provider, MaxEvent: sse.DefaultMaxEvent, MaxAnswer: DefaultMaxAnswer, IdleTimeout: DefaultIdleTimeout,
		}}
		x := newExchange(context.Background(), c.cfg)
		defer x.close()
		d := newDecoder(requested, func(p model.Part) error {
			if !yield(p, nil) {
				return errStopped
			}
			return nil
		})
		if err := c.read(io.LimitReader(src, c.cfg.MaxAnswer), d); err != nil && !errors.Is(err, errStopped) {
			yield(model.Part{}, c.answerError(x, err, ""))
		}
	}
}
