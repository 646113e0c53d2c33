package engine_test

import (
	"context"
	"testing"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/internal/engine"
)

// waitEnd follows a run to its end without keeping its events.
func (r *rig) waitEnd(b *testing.B, id string) {
	ch, stop := r.store.Watch(id)
	defer stop()
	after := int64(0)
	for {
		page, err := r.store.Events(context.Background(), id, after, 0)
		if err != nil {
			b.Fatal(err)
		}
		if n := len(page); n > 0 {
			after = page[n-1].Seq
			if t := page[n-1].Type; t.Terminal() {
				if t != event.RunCompleted {
					b.Fatalf("run ended with %s", t)
				}
				return
			}
			continue
		}
		<-ch
	}
}

func BenchmarkRunWithoutTools(b *testing.B) {
	r := newRig(b, nil)
	req := engine.RunRequest{Prompt: script(`[{"text":"ok"}]`)}
	b.ReportAllocs()
	for b.Loop() {
		r.waitEnd(b, r.submit(req).ID)
	}
}

func BenchmarkRunOfTenReads(b *testing.B) {
	r := newRig(b, nil)
	r.file("f.txt", "content\n")
	steps := ""
	for range 10 {
		steps += `{"tool":"read","in":{"path":"f.txt"}},`
	}
	req := engine.RunRequest{Prompt: script(`[` + steps + `{"text":"ok"}]`)}
	b.ReportAllocs()
	for b.Loop() {
		r.waitEnd(b, r.submit(req).ID)
	}
}

func BenchmarkRunsAt64Clients(b *testing.B) {
	r := newRig(b, nil)
	req := engine.RunRequest{Prompt: script(`[{"text":"ok"}]`)}
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.waitEnd(b, r.submit(req).ID)
		}
	})
}
