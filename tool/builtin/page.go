package builtin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/harness-go/harness/sandbox"
)

// pageRequest asks for a page that begins at a line (from 1) or at a byte, has at most lines lines (0: no bound) and
// at most maxBytes bytes.
type pageRequest struct {
	line     int64
	cursor   int64
	lines    int64
	maxBytes int
}

// page is a part of a file. nextCursor and nextLine say where it goes on; nextCursor is 0 at the end of the file and
// nextLine is 0 there and where the page ends inside a line. truncated: the byte bound cut off what was asked for.
type page struct {
	content    []byte
	truncated  bool
	nextCursor int64
	nextLine   int64

	head       []byte // the first bytes of the file
	binary     bool
	eof        bool // the file was read to its end
	scanned    bool // and it was small enough to hash, so that the fields below size are known
	size       int64
	version    string
	sha256     string
	totalLines int64
}

// sniffLen is how much of a file's beginning decides whether it is text.
const sniffLen = 8 << 10

// readPage reads the file once from its start: lines are counted, and the version is found, over the whole file,
// and no more than the page is held. Of a file larger than sandbox.MaxFileSize it reads no further than needed.
func readPage(ctx context.Context, r io.Reader, req pageRequest) (page, error) {
	var (
		p     page
		hash  = newVersionHash()
		buf   = make([]byte, 64<<10)
		lines int64 // newlines before pos
		pos   int64
		last  byte
		c     = pageCollector{req: req, line: 1}
	)
	for {
		if ctx.Err() != nil {
			return page{}, context.Cause(ctx)
		}
		n, err := r.Read(buf)
		chunk := buf[:n]
		if n > 0 {
			if len(p.head) < sniffLen {
				p.head = append(p.head, chunk[:min(n, sniffLen-len(p.head))]...)
			}
			c.add(chunk, pos, lines)
			if pos < sandbox.MaxFileSize {
				_, _ = hash.Write(chunk)
			}
			lines += int64(bytes.Count(chunk, []byte{'\n'}))
			pos += int64(n)
			last = chunk[n-1]
		}
		if errors.Is(err, io.EOF) {
			p.eof, p.scanned = true, pos <= sandbox.MaxFileSize
			break
		}
		if err != nil {
			return page{}, err
		}
		if pos > sandbox.MaxFileSize && c.full() {
			break
		}
	}
	p.size = pos
	if p.scanned {
		p.version, p.sha256, p.totalLines = hash.version(), hash.sha256(), lines
		if pos > 0 && last != '\n' {
			p.totalLines++
		}
	}
	c.finish(&p)
	p.binary = looksBinary(p.head) || bytes.IndexByte(p.content, 0) >= 0
	return p, nil
}

// pageCollector picks the bytes of the page out of the stream.
type pageCollector struct {
	req     pageRequest
	started bool
	from    int64 // offset of got[0]
	line    int64 // line number of got[0]
	got     []byte
}

// back is how many bytes before a cursor are kept, to find the start of a rune that the cursor is inside of.
const back = 3

// want is enough to see a whole rune before the page and one at its end.
func (c *pageCollector) want() int { return c.req.maxBytes + back + utf8.UTFMax }

func (c *pageCollector) full() bool { return c.started && len(c.got) >= c.want() }

// add takes a chunk at offset pos, with that many newlines before it.
func (c *pageCollector) add(chunk []byte, pos, newlines int64) {
	if !c.started {
		skip, ok := c.skip(chunk, pos, newlines)
		if !ok {
			return
		}
		c.started, c.from = true, pos+int64(skip)
		c.line = newlines + 1 + int64(bytes.Count(chunk[:skip], []byte{'\n'}))
		chunk = chunk[skip:]
	}
	c.got = append(c.got, chunk[:min(len(chunk), c.want()-len(c.got))]...)
}

// skip finds where in the chunk the page begins.
func (c *pageCollector) skip(chunk []byte, pos, newlines int64) (int, bool) {
	if c.req.line <= 1 {
		start := max(0, c.req.cursor-back)
		return int(max(0, start-pos)), start < pos+int64(len(chunk))
	}
	at := 0
	for line := newlines + 1; line < c.req.line; line++ {
		i := bytes.IndexByte(chunk[at:], '\n')
		if i < 0 {
			return 0, false
		}
		at += i + 1
	}
	return at, true
}

// finish cuts what was collected: at the asked number of lines, and at the byte bound after the last whole line or,
// inside of a line, between runes.
func (c *pageCollector) finish(p *page) {
	body := c.got
	if c.req.line <= 1 {
		skip := min(int(c.req.cursor-c.from), len(body))
		skip = runeBefore(body, skip)
		c.line += int64(bytes.Count(body[:skip], []byte{'\n'}))
		c.from += int64(skip)
		body = body[skip:]
	}
	cut := len(body)
	if c.req.lines > 0 {
		cut = nthLine(body, c.req.lines)
	}
	if cut > c.req.maxBytes {
		p.truncated = true
		cut = c.req.maxBytes
		if i := bytes.LastIndexByte(body[:cut], '\n'); i >= 0 {
			cut = i + 1
		} else if cut = runeBefore(body, cut); cut == 0 {
			cut = runeAfter(body, 1) // a page smaller than a rune still has to get on
		}
	}
	p.content = body[:cut]
	end := c.from + int64(cut)
	if cut == 0 || p.eof && end >= p.size {
		p.truncated = false
		return
	}
	p.nextCursor = end
	if p.content[cut-1] == '\n' {
		p.nextLine = c.line + int64(bytes.Count(p.content, []byte{'\n'}))
	}
}

// nthLine is the length of the first n lines of b.
func nthLine(b []byte, n int64) int {
	at := 0
	for range n {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return len(b)
		}
		at += i + 1
	}
	return at
}
