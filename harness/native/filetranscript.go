package native

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// FileTranscript keeps each session as a JSON Lines file in Dir, synced at each Append. A line is an item, or an
// array of those that came together. A last line that a crash cut short is dropped. It is safe for concurrent use in
// one process; two processes must not work on one session.
type FileTranscript struct {
	Dir string
	mu  sync.Mutex
}

func (f *FileTranscript) path(session string) string {
	sum := sha256.Sum256([]byte(session)) // a session id is any text
	return filepath.Join(f.Dir, hex.EncodeToString(sum[:16])+".jsonl")
}

// Load implements Transcript.
func (f *FileTranscript) Load(_ context.Context, session string) ([]Item, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := os.ReadFile(f.path(session))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("native: transcript of session %s: %w", session, err)
	}
	items, err := decodeLines(data)
	if err != nil {
		return nil, fmt.Errorf("native: transcript of session %s: %w", session, err)
	}
	return items, nil
}

// decodeLines reads whole lines; what follows the last line feed is not one.
func decodeLines(data []byte) ([]Item, error) {
	var rows []json.RawMessage
	var lines []int // of the rows
	for n := 1; ; n++ {
		line, rest, ok := bytes.Cut(data, []byte{'\n'})
		if !ok {
			break
		}
		data = rest
		entries := []json.RawMessage{line}
		if len(line) > 0 && line[0] == '[' {
			entries = nil
			if err := json.Unmarshal(line, &entries); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		for _, e := range entries {
			rows, lines = append(rows, e), append(lines, n)
		}
	}
	items, err := DecodeItems(rows)
	var bad *rowError
	if errors.As(err, &bad) {
		return nil, fmt.Errorf("line %d: %w", lines[bad.row], bad.err)
	}
	return items, err
}

// encodeLine writes items as one line: a crash leaves all of them or none.
func encodeLine(items []Item) ([]byte, error) {
	var line []byte
	for i, it := range items {
		b, err := it.JSON()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, b...)
	}
	if len(items) > 1 {
		line = append(append([]byte{'['}, line...), ']')
	}
	return append(line, '\n'), nil
}

// Append implements Transcript.
func (f *FileTranscript) Append(_ context.Context, session string, items ...Item) error {
	if len(items) == 0 {
		return nil
	}
	line, err := encodeLine(items)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.write(f.path(session), line); err != nil {
		return fmt.Errorf("native: transcript of session %s: %w", session, err)
	}
	return nil
}

func (f *FileTranscript) write(path string, line []byte) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	end, err := wholeLines(file)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(line, end); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if end == 0 {
		return syncDir(f.Dir) // a new file lasts only with its name
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// wholeLines cuts an unfinished last line off and returns where the next line begins.
func wholeLines(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := st.Size()
	var b [4096]byte
	for at := size; at > 0; {
		n := min(at, int64(len(b)))
		if _, err := f.ReadAt(b[:n], at-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
			end := at - n + int64(i) + 1
			if end == size {
				return end, nil
			}
			return end, f.Truncate(end)
		}
		at -= n
	}
	if size == 0 {
		return 0, nil
	}
	return 0, f.Truncate(0)
}
