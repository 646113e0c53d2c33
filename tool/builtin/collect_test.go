package builtin

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/harness-go/harness/tool"
)

// memoryArtifacts keeps artifacts without a disk.
type memoryArtifacts map[string]*bytes.Buffer

type memoryArtifact struct {
	*bytes.Buffer
	all memoryArtifacts
}

func (m memoryArtifacts) Create(context.Context, string) (tool.ArtifactWriter, error) {
	return memoryArtifact{new(bytes.Buffer), m}, nil
}

func (a memoryArtifact) Commit() (string, error) {
	a.all["art"] = a.Buffer
	return "art", nil
}

func (a memoryArtifact) Discard() {}

func (m memoryArtifacts) Open(_ context.Context, id string) (tool.ArtifactReader, error) {
	b, ok := m[id]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return struct {
		*bytes.Reader
		io.Closer
	}{bytes.NewReader(b.Bytes()), io.NopCloser(nil)}, nil
}

// Whatever comes in whatever pieces on either stream: the text is valid and bounded, the live output is the text
// where nothing is cut, and nothing is lost on the way.
func FuzzCollector(f *testing.F) {
	f.Add([]byte("plain\n"), uint16(3), uint16(1))
	f.Add([]byte("a\xf0b\xff\n"), uint16(1), uint16(1))
	f.Add([]byte("€😀語"), uint16(2), uint16(4000))
	f.Add([]byte("\n"), uint16(100), uint16(10_000))
	f.Add([]byte("\x1b\x01"), uint16(7), uint16(9000))
	f.Fuzz(func(t *testing.T, unit []byte, piece, times uint16) {
		if len(unit) == 0 || piece == 0 || len(unit)*int(times) > 1<<18 {
			return
		}
		data := bytes.Repeat(unit, int(times))
		artifacts := memoryArtifacts{}
		var live strings.Builder
		c := newCollector(t.Context(), tool.Env{Artifacts: artifacts, Output: func(_ int, s string) {
			if !utf8.ValidString(s) {
				t.Errorf("a live piece is not valid: %q", s)
			}
			live.WriteString(s)
		}})
		for chunk := range chunks(data, int(piece)) {
			_, _ = c.stream(streamStdout).Write(chunk)
		}
		out := c.finish()
		res, err := bashOutcome(c, bashResult{}, out)
		if err != nil || len(res.Output) > outputHard {
			t.Fatalf("%d bytes, %v", len(res.Output), err)
		}
		want, invalid := decode(data)
		switch {
		case bytes.IndexByte(data, 0) >= 0:
			if !out.binary {
				t.Fatal("binary output was not seen")
			}
		case out.truncated:
			if len(out.text) > outputCap || !utf8.ValidString(out.text) {
				t.Fatalf("%d bytes", len(out.text))
			}
			if !strings.ContainsRune(want, utf8.RuneError) && strings.ContainsRune(out.text, utf8.RuneError) {
				t.Fatal("a rune was split")
			}
		default:
			if out.text != want {
				t.Fatalf("text = %q, want %q", out.text, want)
			}
			if live.String() != want && live.Len() < liveCap && c.chunks < liveChunks {
				t.Fatalf("live = %q, want %q", live.String(), want)
			}
		}
		if out.total != int64(len(data)) || !out.binary && out.invalid != invalid {
			t.Fatalf("total %d, invalid %v", out.total, out.invalid)
		}
		if out.artifact != "" {
			if kept := artifacts[out.artifact].Bytes(); !bytes.Equal(kept, data) {
				t.Fatal("the artifact differs")
			}
		}
	})
}

func chunks(data []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			k := min(n, len(data))
			if !yield(bytes.Clone(data[:k])) {
				return
			}
			data = data[k:]
		}
	}
}

func TestStreamsThatAlternateInsideRunesStayWhole(t *testing.T) {
	c := newCollector(t.Context(), tool.Env{})
	out, errs := c.stream(streamStdout), c.stream(streamStderr)
	for _, w := range []struct {
		w io.Writer
		s string
	}{{out, "\xe2\x82"}, {errs, "\xf0\x9f"}, {out, "\xac"}, {errs, "\x98\x80"}, {out, "\xe2"}, {errs, "x"}} {
		_, _ = io.WriteString(w.w, w.s)
	}
	if got := c.finish(); got.text != "€😀x\ufffd" || !got.invalid {
		t.Errorf("%+v", got)
	}
}

func FuzzRuneCuts(f *testing.F) {
	f.Add([]byte("a€😀"), 2)
	f.Add([]byte("\xf0\x9f\x98"), 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if n < 0 || n > len(b) {
			return
		}
		before, after := runeBefore(b, n), runeAfter(b, n)
		if before > n || after < n || n-before >= utf8.UTFMax || after-n >= utf8.UTFMax || after > len(b) {
			t.Fatalf("%d: %d, %d", n, before, after)
		}
		whole, _ := decode(b)
		for _, cut := range []int{before, after, completeLen(b)} {
			head, _ := decode(b[:cut])
			tail, _ := decode(b[cut:])
			if head+tail != whole {
				t.Fatalf("cut at %d of %q gives %q and %q", cut, b, head, tail)
			}
		}
	})
}

func BenchmarkCollectorFlood(b *testing.B) {
	chunk := []byte(strings.Repeat("x", 31<<10) + "\n")
	c := newCollector(b.Context(), tool.Env{})
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		_, _ = c.stream(streamStdout).Write(chunk)
	}
}
