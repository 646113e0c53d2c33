package harness

import "github.com/harness-go/harness/ai"

// sink is where the consumer's parts go. A nil sink means that nobody reads them; then they are not made at all.
type sink interface {
	part(p ai.StreamPart)
	// last takes one of the few parts that end the stream. It does not wait for the consumer.
	last(p ai.StreamPart)
}

type streamSink struct{ w *ai.StreamWriter }

func (s streamSink) part(p ai.StreamPart) { s.w.Send(p) }
func (s streamSink) last(p ai.StreamPart) { s.w.SendLast(p) }

type funcSink func(ai.StreamPart)

func (f funcSink) part(p ai.StreamPart) { f(p) }
func (f funcSink) last(p ai.StreamPart) { f(p) }

func sinkOf(f func(ai.StreamPart)) sink {
	if f == nil {
		return nil
	}
	return funcSink(f)
}
