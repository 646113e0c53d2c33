package builtin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/harness-go/harness/sandbox"
	"github.com/harness-go/harness/tool"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %06d of the file\n", i+1)
	}
	return b.String()
}

func TestReadGivesContentVersionAndLines(t *testing.T) {
	s := newSession(t, false)
	for _, tc := range []struct {
		content string
		lines   int64
	}{{"", 0}, {"a", 1}, {"a\n", 1}, {"a\nb", 2}, {"\n\n", 2}, {"\ufeffa\r\nb\r\n", 2}} {
		s.write("f", tc.content)
		res := s.call("read", args{"path": "f"})
		r := decoded[readResult](t, res)
		if r.Content != tc.content || r.TotalLines != tc.lines || r.Truncated || r.NextCursor != 0 || r.NextOffset != 0 {
			t.Errorf("%q: %+v", tc.content, r)
		}
		version := sandbox.Version([]byte(tc.content))
		if v, _ := s.env.Versions.Seen("f"); r.Version != version || v != version || res.Seen["f"] != version {
			t.Errorf("%q: versions %q, %q, %q", tc.content, r.Version, v, res.Seen["f"])
		}
	}
}

func TestReadTakesItsAlias(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "x")
	if r := decoded[readResult](t, s.call("read", args{"file_path": s.path("f")})); r.Path != "f" || r.Content != "x" {
		t.Errorf("%+v", r)
	}
}

// Fault 78: offset and limit count over the whole file, before the byte bound.
func TestLinesBehindTheFirstPageAreReadExactly(t *testing.T) {
	s := newSession(t, false)
	s.write("f", numbered(50_000)) // 1.2 MB
	r := decoded[readResult](t, s.call("read", args{"path": "f", "offset": 40_000, "limit": 3}))
	if want := "line 040000 of the file\nline 040001 of the file\nline 040002 of the file\n"; r.Content != want {
		t.Errorf("content = %q", r.Content)
	}
	if r.NextOffset != 40_003 || r.TotalLines != 50_000 || r.Truncated {
		t.Errorf("%+v", r)
	}
	last := decoded[readResult](t, s.call("read", args{"path": "f", "offset": 50_000, "limit": 10}))
	if last.Content != "line 050000 of the file\n" || last.NextCursor != 0 || last.Truncated {
		t.Errorf("%+v", last)
	}
	past := decoded[readResult](t, s.call("read", args{"path": "f", "offset": 50_001}))
	if past.Content != "" || !strings.Contains(past.Note, "past the end") {
		t.Errorf("%+v", past)
	}
}

func TestAPageEndsAfterAWholeLineAndSaysWhereToGoOn(t *testing.T) {
	s := newSession(t, false)
	text := numbered(2000)
	s.write("f", text)
	var b strings.Builder
	a := args{"path": "f"}
	for {
		r := decoded[readResult](t, s.call("read", a))
		if !strings.HasSuffix(r.Content, "\n") || len(r.Content) > defaultPage {
			t.Fatalf("a page of %d bytes that ends with %q", len(r.Content), r.Content[len(r.Content)-5:])
		}
		b.WriteString(r.Content)
		if r.NextOffset == 0 {
			break
		}
		if !r.Truncated {
			t.Error("a cut page does not say so")
		}
		a["offset"] = r.NextOffset
	}
	if b.String() != text {
		t.Error("the pages are not the file")
	}
}

// fi-07: one line of 300 KB with a 3-byte rune across the bound.
func TestPagesOfOneHugeLineConcatenateToTheFile(t *testing.T) {
	s := newSession(t, false)
	text := `{"k":"` + strings.Repeat("x", defaultPage-7) + "€" + strings.Repeat("y€", 75_000) + `"}`
	s.write("min.json", text)
	first := decoded[readResult](t, s.call("read", args{"path": "min.json"}))
	if len(first.Content) < defaultPage-3 || !first.Truncated || first.NextCursor == 0 || first.NextOffset != 0 || first.Note == "" {
		t.Errorf("first page: %d bytes, %+v", len(first.Content), first.NextCursor)
	}
	for _, size := range []int{defaultPage, 1000, 1 << 20} {
		if got, pages := s.readAll("min.json", size); got != text {
			t.Errorf("%d pages of %d are not the file", pages, size)
		}
	}
}

func TestPagesOfEverySizeConcatenateToTheFile(t *testing.T) {
	s := newSession(t, false)
	text := "a\n€uro 日本語 😀😀\r\n\n" + strings.Repeat("é", 20) + "\nend"
	s.write("f", text)
	for size := 1; size <= len(text)+1; size++ {
		if got, _ := s.readAll("f", size); got != text {
			t.Errorf("pages of %d: %q", size, got)
		}
	}
}

func TestACursorInsideARuneStartsAtTheRune(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "😀b")
	for cursor := range 4 {
		if r := decoded[readResult](t, s.call("read", args{"path": "f", "cursor": cursor})); r.Content != "😀b" {
			t.Errorf("cursor %d: %q", cursor, r.Content)
		}
	}
	if r := decoded[readResult](t, s.call("read", args{"path": "f", "cursor": 4})); r.Content != "b" {
		t.Errorf("cursor 4: %q", r.Content)
	}
}

func TestBinaryFilesAreDescribedAndNotShown(t *testing.T) {
	s := newSession(t, false)
	for _, tc := range []struct{ name, content, media, note string }{
		{"nul", "text\x00more", "application/octet-stream", "no content is shown"},
		{"noise", strings.Repeat("\xff\xfe\x80abc", 100), "", "no content"},
		{"i.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/png", "an image"},
		{"late", strings.Repeat("x", sniffLen+10) + "\x00", "text/plain; charset=utf-8", "no content"},
	} {
		s.write(tc.name, tc.content)
		res := s.call("read", args{"path": tc.name})
		r := decoded[binaryResult](t, res)
		sum := sha256.Sum256([]byte(tc.content))
		if !r.Binary || r.Size != int64(len(tc.content)) || r.SHA256 != hex.EncodeToString(sum[:]) || !strings.Contains(r.Note, tc.note) {
			t.Errorf("%s: %s", tc.name, res.Output)
		}
		if tc.media != "" && r.MediaType != tc.media {
			t.Errorf("%s: media type %s", tc.name, r.MediaType)
		}
		if strings.Contains(res.Output, `"content"`) {
			t.Errorf("%s: content is shown", tc.name)
		}
	}
}

func TestALittleInvalidUTF8IsStillText(t *testing.T) {
	s := newSession(t, false)
	s.write("latin", "caf\xe9 au lait, and much more text\n")
	if r := decoded[readResult](t, s.call("read", args{"path": "latin"})); r.Content != "caf\ufffd au lait, and much more text\n" || !r.InvalidUTF8 {
		t.Errorf("%+v", r)
	}
}

// fi-13 for the file tools: every way out has one answer each.
func TestPathsThatLeadOutAreRefused(t *testing.T) {
	s := newSession(t, true)
	s.write("a/in.txt", "inside")
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"escape": "/", "abs": secret, "stay": "a", "loop": "loop"} {
		if err := os.Symlink(target, s.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(s.path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, code string }{
		{"escape/tmp/evil", tool.CodePermissionDenied},
		{"escape/etc/hostname", tool.CodePermissionDenied},
		{"abs", tool.CodePermissionDenied},
		{"a/../../x", tool.CodePermissionDenied},
		{"../x", tool.CodePermissionDenied},
		{secret, tool.CodePermissionDenied},
		{"/etc/hostname", tool.CodePermissionDenied},
		{"loop", tool.CodePermissionDenied},
		{"//server/share", tool.CodeInvalidArguments},
		{"a\x00b", tool.CodeInvalidArguments},
		{strings.Repeat("n", 300), tool.CodeInvalidArguments},
		{strings.Repeat("n/", 3000), tool.CodeInvalidArguments},
		{"a", tool.CodeInvalidArguments}, // a directory
		{"fifo", tool.CodeInvalidArguments},
	} {
		for name, a := range map[string]args{
			"read":  {"path": tc.path},
			"write": {"path": tc.path, "content": "evil"},
			"edit":  {"path": tc.path, "old_text": "s3cret", "new_text": "evil"},
		} {
			res := s.call(name, a)
			refused(t, res, tc.code, "argument path")
			if strings.Contains(res.Output, "s3cret") {
				t.Errorf("%s %q told the content", name, tc.path)
			}
		}
	}
	for _, name := range []string{"ls", "glob", "grep"} {
		refused(t, s.call(name, args{"path": "escape/etc", "pattern": "x"}.only(name)), tool.CodePermissionDenied, "argument path")
	}
	refused(t, s.call("glob", args{"pattern": "/etc/*"}), tool.CodePermissionDenied)
	refused(t, s.call("glob", args{"pattern": "../*"}), tool.CodePermissionDenied)
	if b, err := os.ReadFile(secret); err != nil || string(b) != "s3cret" {
		t.Errorf("the secret changed: %q, %v", b, err)
	}
	if _, err := os.Stat("/tmp/evil"); err == nil {
		t.Error("/tmp/evil exists")
	}
	// A link that stays inside works.
	if r := decoded[readResult](t, s.call("read", args{"path": "stay/in.txt"})); r.Content != "inside" {
		t.Errorf("%+v", r)
	}
	decoded[writeResult](t, s.call("write", args{"path": "stay/new.txt", "content": "x"}))
	if s.content("a/new.txt") != "x" {
		t.Error("the link inside was not followed")
	}
}

// only drops the argument that ls does not have.
func (a args) only(name string) args {
	if name == "ls" {
		delete(a, "pattern")
	}
	return a
}

// fi-13: the workspace itself may be a link.
func TestTheWorkspaceMayBeALink(t *testing.T) {
	real, link := t.TempDir(), t.TempDir()+"/ws"
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	s := sessionIn(t, link, true)
	decoded[writeResult](t, s.call("write", args{"path": "d/f", "content": "x"}))
	if r := decoded[readResult](t, s.call("read", args{"path": link + "/d/f"})); r.Content != "x" || r.Path != "d/f" {
		t.Errorf("%+v", r)
	}
}

func TestAMissingFileIsNotFound(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "x")
	refused(t, s.call("read", args{"path": "nope"}), tool.CodeNotFound, "argument path", "nope", "ls or glob")
	refused(t, s.call("read", args{"path": "f/g"}), tool.CodeInvalidArguments, "a file, not a directory")
	refused(t, s.call("read", args{"path": "artifact:art_" + strings.Repeat("a", 26)}), tool.CodeNotFound, "artifact")
	refused(t, s.call("read", args{"path": "artifact:../../etc/passwd"}), tool.CodeNotFound, "artifact")
}

func TestAReadEndsWithItsContext(t *testing.T) {
	s := newSession(t, false)
	s.write("f", "x")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("run cancelled")
	cancel(cause)
	if _, err := s.try(ctx, "read", args{"path": "f"}); !errors.Is(err, cause) {
		t.Errorf("error = %v", err)
	}
}

// endless gives n bytes without holding them.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := int(min(e.n, int64(len(p))))
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.n -= int64(n)
	return n, nil
}

func TestAFileTooLargeToHashIsStillPaged(t *testing.T) {
	if testing.Short() {
		t.Skip("hashes 256 MiB")
	}
	src := &endless{n: 100 * sandbox.MaxFileSize}
	p, err := readPage(t.Context(), src, pageRequest{maxBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.content) != 100 || p.nextCursor != 100 || p.version != "" || p.scanned || p.eof {
		t.Errorf("%d bytes, next %d, version %q", len(p.content), p.nextCursor, p.version)
	}
	if read := 100*sandbox.MaxFileSize - src.n; read > sandbox.MaxFileSize+1<<20 {
		t.Errorf("read %d bytes", read)
	}
}

// The pages of any text concatenate to it, whatever the sizes of pages and reads.
func FuzzReadPage(f *testing.F) {
	f.Add([]byte("a\n€b\r\n😀"), uint8(3), uint8(2))
	f.Add([]byte("\xff\xf0\x9f"), uint8(1), uint8(1))
	f.Add([]byte(strings.Repeat("é\n", 50)), uint8(7), uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, size, lines uint8) {
		if size == 0 {
			size = 1
		}
		var got []byte
		req := pageRequest{maxBytes: int(size)}
		for range len(data) + 2 {
			p, err := readPage(t.Context(), iotest.HalfReader(bytes.NewReader(data)), req)
			if err != nil {
				t.Fatal(err)
			}
			if p.version != sandbox.Version(data) || p.size != int64(len(data)) {
				t.Fatalf("version %s, size %d", p.version, p.size)
			}
			got = append(got, p.content...)
			if p.nextCursor == 0 {
				break
			}
			if p.nextCursor <= req.cursor {
				t.Fatalf("the cursor does not move: %d", p.nextCursor)
			}
			req.cursor = p.nextCursor
		}
		if !bytes.Equal(got, data) {
			t.Fatalf("pages = %q, file = %q", got, data)
		}
		// Reading by lines gives those lines.
		if lines > 0 {
			all := bytes.SplitAfter(data, []byte{'\n'})
			p, err := readPage(t.Context(), bytes.NewReader(data), pageRequest{line: int64(lines), lines: 2, maxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			var want []byte
			for i := int(lines) - 1; i < min(int(lines)+1, len(all)); i++ {
				want = append(want, all[i]...)
			}
			if !bytes.Equal(p.content, want) {
				t.Fatalf("lines %d: %q, want %q", lines, p.content, want)
			}
		}
	})
}

func BenchmarkReadSmallFile(b *testing.B) {
	s := newSession(b, false)
	s.write("f", numbered(100))
	for b.Loop() {
		if res := s.call("read", args{"path": "f"}); res.Error != "" {
			b.Fatal(res.Output)
		}
	}
}
