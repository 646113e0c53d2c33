package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/harness-go/harness/agent"
	"github.com/harness-go/harness/ai"
	"github.com/harness-go/harness/harness"
	"github.com/harness-go/harness/harness/harnesstest"
)

// manyDeltas writes far more parts than a stream holds.
func manyDeltas(t *harnesstest.Turn) error {
	t.Emit(harness.TextStart{ID: "1"})
	for range 5000 {
		t.Emit(harness.TextDelta{ID: "1", Delta: "x"})
	}
	t.Emit(harness.TextEnd{ID: "1"})
	end(t)
	return nil
}

func (b *bench) stream(ctx context.Context) *ai.StreamTextResult {
	b.t.Helper()
	o := b.opts()
	o.Prompt = "go"
	r, err := b.agent.Stream(ctx, agent.AgentStreamOptions{AgentGenerateOptions: o})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func TestAConsumerThatStopsReadingStopsNothing(t *testing.T) {
	t.Run("wait", func(t *testing.T) {
		b := newBench(t, manyDeltas, nil)
		if res, err := b.stream(b.ctx).Wait(); err != nil || len(res.Text) != 5000 {
			t.Errorf("%v", err)
		}
	})
	t.Run("break", func(t *testing.T) {
		b := newBench(t, manyDeltas, nil)
		r := b.stream(b.ctx)
		for range r.TextStream() {
			break
		}
		<-r.Done()
		if res, err := r.Result(); err != nil || len(res.Text) != 5000 {
			t.Errorf("%v", err)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		b := newBench(t, manyDeltas, nil)
		ctx, cancel := context.WithCancel(b.ctx)
		r := b.stream(ctx)
		if p, ok := r.Next(); !ok || p.PartType() != "start" {
			t.Fatal("no start")
		}
		cancel()
		<-r.Done()
		if _, err := r.Result(); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		last := ""
		for p := range r.FullStream() {
			last = p.PartType()
		}
		if last != "abort" {
			t.Errorf("the last part is %s", last)
		}
	})
	t.Run("destroy", func(t *testing.T) {
		b := newBench(t, manyDeltas, nil)
		r := b.stream(b.ctx)
		if err := b.s.Destroy(b.ctx); err != nil {
			t.Error(err)
		}
		<-r.Done()
	})
}

func TestAReaderGetsEveryPartInOrder(t *testing.T) {
	b := newBench(t, func(t *harnesstest.Turn) error {
		t.Emit(harness.TextStart{ID: "1"})
		for i := range 2000 {
			t.Emit(harness.TextDelta{ID: "1", Delta: fmt.Sprint(i, ",")})
		}
		t.Emit(harness.TextEnd{ID: "1"})
		end(t)
		return nil
	}, nil)
	r := b.stream(b.ctx)
	var text strings.Builder
	for d := range r.TextStream() {
		text.WriteString(d)
	}
	res, err := r.Wait()
	if err != nil || text.String() != res.Text {
		t.Errorf("%v; read %d bytes, result %d", err, text.Len(), len(res.Text))
	}
}
