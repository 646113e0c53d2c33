package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
	"github.com/harness-go/harness/store"
)

// dying is a store under an owner that dies before the end of its run is committed.
type dying struct {
	store.Store
	dead *atomic.Bool
	died chan struct{}
}

func (d dying) Finish(ctx context.Context, b store.Batch) (store.Wake, error) {
	if d.dead.CompareAndSwap(false, true) {
		close(d.died)
		return store.Wake{}, errors.New("the process died")
	}
	return d.Store.Finish(ctx, b)
}

func TestWhatLeadsToTheEndOfARunIsToldOnce(t *testing.T) {
	d := dying{dead: new(atomic.Bool), died: make(chan struct{})}
	r := newRig(t, func(o *engine.Options) {
		d.Store = o.Store
		o.Store = d
	})
	run := r.submit(engine.RunRequest{MaxSteps: 2, Prompt: script(`[{"tool":"ls","in":{}},{"tool":"ls","in":{}},{"text":"too late"}]`)})
	<-d.died
	r.close()
	r.open()
	all := r.finish(run.ID)
	if p := payload[event.RunFailedPayload](t, all, event.RunFailed); p.Reason != event.ReasonMaxSteps {
		t.Errorf("%+v", p)
	}
	if n := count(all, event.RunStepCompleted); n != 2 || count(all, event.RunRecovered) != 1 {
		t.Errorf("%d ends of two steps\n%s", n, dump(all))
	}
}
