package daemon

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"slices"

	"github.com/harness-go/harness/harness/native"
	"github.com/harness-go/harness/internal/config"
	"github.com/harness-go/harness/model"
	"github.com/harness-go/harness/model/tape"
)

// taped puts the recording, or the replay, of the configuration before every provider's transport.
func taped(c *config.Config) error {
	mode, dir, key := tape.ModeRecord, c.ModelRecord, "model_record"
	if dir == "" {
		mode, dir, key = tape.ModeReplay, c.ModelReplay, "model_replay"
	}
	if dir == "" {
		return nil
	}
	t, err := tape.New(mode, dir)
	if err != nil {
		return &config.Error{Source: cmp.Or(c.Origins[key], key), Key: key, Message: err.Error()}
	}
	c.Providers = slices.Clone(c.Providers)
	for i := range c.Providers {
		inner := c.Providers[i].Wrap
		c.Providers[i].Wrap = func(next http.RoundTripper) http.RoundTripper {
			if inner != nil { // nearer to the network, so that what it adds is not recorded
				next = inner(next)
			}
			return t.Wrap(next)
		}
	}
	return nil
}

// scoped gives the targets of one segment a replay of their own, so that runs do not take each other's answers.
func scoped(targets []native.Target, scope context.Context) []native.Target {
	for i := range targets {
		targets[i].Model = scopedModel{targets[i].Model, scope}
	}
	return targets
}

type scopedModel struct {
	model.Model
	scope context.Context
}

func (m scopedModel) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
	return m.Model.Stream(scopedContext{ctx, m.scope}, req)
}

// scopedContext ends with a call and has the values of a scope too.
type scopedContext struct {
	context.Context
	scope context.Context
}

func (c scopedContext) Value(key any) any {
	if v := c.scope.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
