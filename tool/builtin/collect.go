package builtin

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/harness-go/harness/tool"
)

// Bounds of a command's output.
const (
	outputCap    = 16 << 10  // bytes of text that the model reads
	outputHard   = 64 << 10  // bytes of the encoded result, escapes included
	outputLines  = 2000      // lines that the model reads
	markerRoom   = 512       // of outputCap, for the line that tells what is missing
	liveCap      = 256 << 10 // bytes of live output
	liveChunks   = 4096      // pieces of live output
	streamStdout = 0
	streamStderr = 1
)

// collector takes a command's output as it comes, from both streams, and keeps it within bounds: the first and last
// bytes in memory, everything as an artifact once it is too large to be shown whole. Bytes become text at one place,
// and only between runes: an unfinished rune at the end of a piece waits, for each stream, until the rest comes.
type collector struct {
	ctx    context.Context
	env    tool.Env
	callID string

	mu       sync.Mutex
	pending  [2][]byte
	first    []byte // up to outputCap bytes
	last     []byte // the newest bytes, at least outputCap of them; used when first is full
	total    int64
	hash     versionHash
	nul      bool
	invalid  bool
	writer   tool.ArtifactWriter
	artErr   error
	kept     string // where the whole output is, for people and models
	live     int
	chunks   int
	liveDone bool
}

func newCollector(ctx context.Context, env tool.Env) *collector {
	return &collector{ctx: context.WithoutCancel(ctx), env: env, callID: env.CallID, hash: newVersionHash()}
}

// stream is the io.Writer of one stream.
func (c *collector) stream(n int) collectorStream { return collectorStream{c, n} }

type collectorStream struct {
	c *collector
	n int
}

func (s collectorStream) Write(p []byte) (int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	b := p
	if rest := s.c.pending[s.n]; len(rest) > 0 {
		b = append(rest, p...)
	}
	n := completeLen(b)
	s.c.take(s.n, b[:n])
	s.c.pending[s.n] = append([]byte(nil), b[n:]...) // p belongs to the caller
	return len(p), nil
}

// take adds bytes that end between runes.
func (c *collector) take(stream int, b []byte) {
	if len(b) == 0 {
		return
	}
	c.total += int64(len(b))
	_, _ = c.hash.Write(b)
	c.nul = c.nul || bytes.IndexByte(b, 0) >= 0
	text, invalid := decode(b)
	c.invalid = c.invalid || invalid
	c.show(stream, text)

	if c.total > outputCap && c.writer == nil && c.artErr == nil {
		c.spill()
	}
	if c.writer != nil {
		_, _ = c.writer.Write(b)
	}
	n := min(len(b), outputCap-len(c.first))
	c.first = append(c.first, b[:n]...)
	c.last = append(c.last, b[n:]...)
	if len(c.last) > 4*outputCap {
		c.last = append(c.last[:0], c.last[len(c.last)-outputCap:]...)
	}
}

// spill starts the artifact with what came so far.
func (c *collector) spill() {
	if c.env.Artifacts == nil {
		return
	}
	if c.writer, c.artErr = c.env.Artifacts.Create(c.ctx, c.callID); c.artErr == nil {
		_, _ = c.writer.Write(c.first)
	}
}

// show sends live output, up to its bound.
func (c *collector) show(stream int, text string) {
	switch {
	case c.env.Output == nil || c.liveDone:
	case c.nul:
		c.liveDone = true
		c.env.Output(streamStdout, "\n[binary output: not shown]\n")
	case c.live+len(text) > liveCap || c.chunks >= liveChunks:
		c.liveDone = true
		c.env.Output(streamStdout, "\n[live output ends here; the result shows the last part]\n")
	default:
		c.live += len(text)
		c.chunks++
		c.env.Output(stream, text)
	}
}

// collected is a command's whole output as the model reads it.
type collected struct {
	text      string
	total     int64
	truncated bool
	binary    bool
	invalid   bool
	artifact  string
}

// finish ends the output. No Write may follow.
func (c *collector) finish() collected {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range c.pending {
		c.take(i, b)
		c.pending[i] = nil
	}
	out := collected{total: c.total, invalid: c.invalid && !c.nul, binary: c.nul}
	out.truncated = !c.nul && (c.total > outputCap || bytes.Count(c.first, []byte{'\n'}) > outputLines)
	if (out.truncated || out.binary || out.invalid) && c.writer == nil && c.artErr == nil {
		c.spill()
	}
	if out.truncated || out.binary || out.invalid {
		c.kept = c.keep(&out)
	}
	switch {
	case out.binary:
		out.text = fmt.Sprintf("[binary output: %d bytes, sha256 %s; %s]", c.total, c.hash.sha256(), c.kept)
	case out.truncated:
		out.text = c.headTail(outputCap)
	default:
		out.text, _ = decode(c.first)
	}
	return out
}

// shorter is the output again, within another bound; for results whose escapes made them too long.
func (c *collector) shorter(out collected, limit int) collected {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == "" {
		c.spill()
		c.kept = c.keep(&out)
	}
	out.truncated = true
	out.text = c.headTail(limit)
	return out
}

// keep commits the artifact and says where it is.
func (c *collector) keep(out *collected) string {
	if c.writer == nil {
		if c.artErr != nil {
			return "the rest could not be kept"
		}
		return "the rest was not kept; write the output to a file to see all of it"
	}
	id, err := c.writer.Commit()
	c.writer = nil
	if err != nil {
		c.artErr = err
		return "the rest could not be kept"
	}
	out.artifact = id
	size := c.total
	if r, err := c.env.Artifacts.Open(c.ctx, id); err == nil {
		size = r.Size()
		_ = r.Close()
	}
	return keptAs(id, size, c.total)
}

func keptAs(id string, size, total int64) string {
	if size < total {
		return fmt.Sprintf("the first %d bytes are kept: read path %s%s", size, artifactPrefix, id)
	}
	return fmt.Sprintf("the full output is kept: read path %s%s", artifactPrefix, id)
}

// discard drops the artifact of a call that has no result.
func (c *collector) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writer != nil {
		c.writer.Discard()
		c.writer = nil
	}
}

// headTail is the beginning and the end of the output with a line between them that tells what is missing. It has at
// most limit bytes and outputLines lines.
func (c *collector) headTail(limit int) string {
	room := int(min(int64(limit-markerRoom), c.total)) // so that the two parts never overlap
	first, last := c.first, c.last
	if len(last) < outputCap { // the end reaches back into first
		last = append(append([]byte(nil), first...), last...)
	}
	h := first[:runeBefore(first, min(len(first), room/2))]
	t := last[runeAfter(last, max(0, len(last)-room/2)):]
	head, _ := decode(h)
	tail, _ := decode(t)
	head = head[:runeBefore([]byte(head), min(len(head), room/2))] // U+FFFD is longer than what it stands for
	tail = tail[runeAfter([]byte(tail), max(0, len(tail)-room/2)):]
	head = head[:firstLines(head, outputLines/2)]
	tail = tail[lastLines(tail, outputLines/2):]
	return head + fmt.Sprintf("\n[… cut: %d bytes in all, the beginning and the end are shown; %s …]\n", c.total, c.kept) + tail
}
