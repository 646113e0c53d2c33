package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/harness-go/harness/event"
)

var anyPayload = []byte(strings.Repeat("x", feedBytes))

func someEvents(runID string, from, n int, size int) []event.Event {
	list := make([]event.Event, n)
	for i := range list {
		list[i] = event.Event{RunID: runID, Seq: int64(from + i), Payload: anyPayload[:size]}
	}
	return list
}

func TestFeedExistsOnlyWhileWatched(t *testing.T) {
	var f feeds
	f.publish("r", someEvents("r", 1, 1, 10))
	_, stop := f.watch("r")
	_, stop2 := f.watch("r")
	if _, ok := f.read("r", 0, 10); ok {
		t.Error("an empty feed answered")
	}
	f.publish("r", someEvents("r", 2, 3, 10))
	if _, ok := f.read("r", 0, 10); ok {
		t.Error("the feed answered for an event that it never saw")
	}
	if got, ok := f.read("r", 1, 2); !ok || len(got) != 2 || got[0].Seq != 2 {
		t.Errorf("read %+v, %v", got, ok)
	}
	if got, ok := f.read("r", 4, 2); !ok || len(got) != 0 {
		t.Errorf("at the end: %+v, %v", got, ok)
	}
	stop()
	stop()
	if _, ok := f.read("r", 1, 2); !ok {
		t.Error("the feed ended with a watcher left")
	}
	stop2()
	if len(f.runs) != 0 || f.bytes != 0 || f.lru.Len() != 0 {
		t.Errorf("left: %d runs, %d bytes, %d in the list", len(f.runs), f.bytes, f.lru.Len())
	}
}

func TestFeedWithAGapStartsAnew(t *testing.T) {
	var f feeds
	_, stop := f.watch("r")
	defer stop()
	f.publish("r", someEvents("r", 1, 2, 10))
	f.publish("r", someEvents("r", 5, 2, 10))
	if _, ok := f.read("r", 1, 10); ok {
		t.Error("a gap was served")
	}
	if got, ok := f.read("r", 4, 10); !ok || len(got) != 2 {
		t.Errorf("read %+v, %v", got, ok)
	}
}

// The feeds keep to their bounds, and what they answer is always what was published.
func TestFeedsAreBoundedAndExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var f feeds
		head := map[string]int{}
		for i := range 12 {
			f.watch(fmt.Sprint("r", i))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(rt *rapid.T) {
				id := fmt.Sprint("r", rapid.IntRange(0, 11).Draw(rt, "run"))
				n := rapid.IntRange(1, 20).Draw(rt, "events")
				f.publish(id, someEvents(id, head[id]+1, n, rapid.SampledFrom([]int{10, 1000, 100_000, feedBytes}).Draw(rt, "size")))
				head[id] += n
			},
			"read": func(rt *rapid.T) {
				id := fmt.Sprint("r", rapid.IntRange(0, 11).Draw(rt, "run"))
				after := rapid.IntRange(0, head[id]).Draw(rt, "after")
				got, ok := f.read(id, int64(after), 5)
				if !ok {
					return
				}
				if want := min(5, head[id]-after); len(got) != want {
					rt.Fatalf("after %d of %d: %d events, want %d", after, head[id], len(got), want)
				}
				for i, e := range got {
					if e.RunID != id || e.Seq != int64(after+i+1) {
						rt.Fatalf("after %d: event %d is %s", after, i, e.ID())
					}
				}
			},
			"": func(rt *rapid.T) {
				sum := 0
				for _, fd := range f.runs {
					n := 0
					for _, e := range fd.events {
						n += len(e.Payload) + eventOverhead
					}
					if n != fd.bytes || n > runBytes+eventOverhead {
						rt.Fatalf("a feed holds %d bytes and counts %d", n, fd.bytes)
					}
					sum += n
				}
				if sum != f.bytes || sum > feedBytes {
					rt.Fatalf("the feeds hold %d bytes and count %d", sum, f.bytes)
				}
			},
		})
	})
}
