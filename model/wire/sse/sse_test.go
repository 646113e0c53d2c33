package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll renders the events of a stream, one by line, and how it ended.
func readAll(r *Reader) (string, error) {
	var b strings.Builder
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
		fmt.Fprintf(&b, "%s|%q", e.Name, e.Data)
		if e.Cut {
			b.WriteString("|cut")
		}
		b.WriteByte('\n')
	}
}

func TestReaderFollowsTheEventStreamFormat(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"one event":                 {"data: a\n\n", "|\"a\"\n"},
		"no blank after the colon":  {"data:a\n\n", "|\"a\"\n"},
		"only one blank is dropped": {"data:  a\n\n", "|\" a\"\n"},
		"lines are joined":          {"data: a\ndata: b\ndata\n\n", "|\"a\\nb\\n\"\n"},
		"names":                     {"event: error\ndata: a\n\ndata: b\n\n", "error|\"a\"\n|\"b\"\n"},
		"a name without data ends":  {"event: ping\n\ndata: b\n\n", "|\"b\"\n"},
		"comments and other fields": {": hi\nid: 7\nretry: 5\nnonsense\ndata: a\n:\n\n", "|\"a\"\n"},
		"CRLF":                      {"data: a\r\ndata: b\r\n\r\n", "|\"a\\nb\"\n"},
		"CR alone":                  {"data: a\rdata: b\r\rdata: c\r\r", "|\"a\\nb\"\n|\"c\"\n"},
		"mixed line ends":           {"data: a\r\ndata: b\r\n\ndata: c\n\r\n", "|\"a\\nb\"\n|\"c\"\n"},
		"byte order mark":           {"\ufeffdata: a\n\n", "|\"a\"\n"},
		"empty data":                {"data:\n\n", "|\"\"\n"},
		"cut in the event":          {"data: a\n\ndata: b\n", "|\"a\"\n|\"b\"|cut\n"},
		"cut in the line":           {"data: a\n\ndata: b", "|\"a\"\n|\"b\"|cut\n"},
		"cut in another field":      {"data: a\n\neven", "|\"a\"\n"},
		"nothing":                   {"", ""},
		"blank lines":               {"\n\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, src := range map[string]io.Reader{
				"whole":    strings.NewReader(c.in),
				"bytewise": iotest.OneByteReader(strings.NewReader(c.in)),
				"data+EOF": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				if got, err := readAll(NewReader(src, 0)); got != c.want || err != nil {
					t.Errorf("%s: %q, %v; want %q", kind, got, err, c.want)
				}
			}
		})
	}
}

func TestAnEventIsGivenBeforeTheStreamGoesOn(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		pr, pw := io.Pipe()
		r := NewReader(pr, 0)
		go func() { _, _ = io.WriteString(pw, "data: a"+end) }()
		if e, err := r.Next(); err != nil || string(e.Data) != "a" {
			t.Errorf("end %q: %q, %v", end, e.Data, err)
		}
		_ = pw.Close()
	}
}

func TestLongLinesHaveNoFixedCap(t *testing.T) {
	long := strings.Repeat("x", 40<<20)
	e, err := NewReader(strings.NewReader("data: "+long+"\n\n"), 0).Next()
	if err != nil || len(e.Data) != len(long) {
		t.Fatalf("%d bytes, %v", len(e.Data), err)
	}
}

func TestTheBoundIsAnErrorAndNotACut(t *testing.T) {
	for name, in := range map[string]string{
		"line":           "data: " + strings.Repeat("x", 2000) + "\n\n",
		"line of no end": strings.Repeat("x", 5000),
		"event":          strings.Repeat("data: 0123456789\n", 200) + "\n",
		"comment":        ": " + strings.Repeat("x", 2000) + "\ndata: a\n\n",
	} {
		r := NewReader(strings.NewReader(in), 1000)
		for range 2 {
			if _, err := r.Next(); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v, want ErrTooLarge", name, err)
			}
		}
	}
}

func TestABrokenSourceEndsTheReading(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 0)
	got, err := readAll(r)
	if got != "|\"a\"\n" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := NewReader(stuck{}, 0).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a source without progress: %v", err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// FuzzReader holds that the events do not depend on how the bytes arrive, and agree with a plain reading of the
// format.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "event: x\r\ndata: a\r\rdata\n\n", "\ufeffdata: a", ":\n\r\n\rdata:", "data: a\r", "\r\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := readAll(NewReader(bytes.NewReader(in), 0))
		if err != nil {
			t.Fatal(err)
		}
		slow, err := readAll(NewReader(iotest.OneByteReader(bytes.NewReader(in)), 0))
		if err != nil || slow != whole {
			t.Fatalf("bytewise %q (%v), whole %q", slow, err, whole)
		}
		if plain := plainly(string(in)); plain != whole {
			t.Fatalf("read %q, the format says %q", whole, plain)
		}
	})
}

// plainly is the format's text turned into code without a thought of speed.
func plainly(s string) string {
	s = strings.TrimPrefix(s, "\ufeff")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(s, "\n")
	var b strings.Builder
	var name string
	var data []string
	for i, l := range lines {
		if l == "" && i < len(lines)-1 {
			if data != nil {
				fmt.Fprintf(&b, "%s|%q\n", name, strings.Join(data, "\n"))
			}
			name, data = "", nil
			continue
		}
		field, value, _ := strings.Cut(l, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "event":
			name = value
		}
	}
	if data != nil {
		fmt.Fprintf(&b, "%s|%q|cut\n", name, strings.Join(data, "\n"))
	}
	return b.String()
}

func BenchmarkReader(b *testing.B) {
	in := []byte(strings.Repeat(`data: {"id":"x","choices":[{"index":0,"delta":{"content":"word "}}]}`+"\n\n", 10_000))
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(in), 0)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
