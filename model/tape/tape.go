// Package tape records the model traffic of runs in files, and answers from them later without a network.
//
// It stands between a wire's client and its HTTP transport (model.ProviderConfig.Wrap). It owns the files, what makes
// two requests equal, and the error of a request that was never recorded. It knows no wire's bodies beyond their being
// JSON, makes no retries, and starts no goroutine.
//
// Each exchange is one file, which is complete or absent, named by its number and the digest of its request:
// 000012-5f1c….json. Request headers, cookies and keys are never written; where a body repeats a key of its request, the
// key is blotted out. An answer that broke off is recorded as cut and breaks off in the same place when it is replayed.
//
// Two requests are equal when the paths of their URLs are, and their bodies are the same JSON. Neither the order of
// members counts, nor who asks (prompt_cache_key, metadata, user, safety_identifier), nor what is to be told beside the
// answer (include), nor the random part of call ids that a client made up. Equal requests get their answers in the recorded order.
//
// Invariants: a replay never reaches the network. What was not recorded, or was asked for once more than it was
// recorded, is a *MissError inside a model.Error of kind invalid_request, which nobody retries.
package tape

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// Mode says what a Tape does.
type Mode string

// The two modes.
const (
	ModeRecord Mode = "record"
	ModeReplay Mode = "replay"
)

// The bounds of a recording. What is larger fails the call that it belongs to.
const (
	maxRequest  = 64 << 20
	maxResponse = 64 << 20
	maxFile     = 300 << 20 // both, escaped
	maxFiles    = 1_000_000
)

// Tape records into a directory, or replays from one. Several calls, runs and processes may use one directory at once.
type Tape struct {
	mode Mode
	dir  string

	mu     sync.Mutex
	next   int   // the number of the next recording
	failed error // a recording that could not be written

	recorded map[string][]string // digest → files in their order
	shared   scope
}

// New opens a tape. Recording creates the directory; replaying needs one with recordings in it.
func New(mode Mode, dir string) (*Tape, error) {
	if dir == "" {
		return nil, errors.New("tape: no directory is named")
	}
	t := &Tape{mode: mode, dir: dir, next: 1, recorded: map[string][]string{}}
	switch mode {
	case ModeRecord:
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("tape: %w", err)
		}
	case ModeReplay:
	default:
		return nil, fmt.Errorf("tape: mode %q: use %s or %s", mode, ModeRecord, ModeReplay)
	}
	if err := t.index(); err != nil {
		return nil, fmt.Errorf("tape: %w", err)
	}
	if mode == ModeReplay && len(t.recorded) == 0 {
		return nil, fmt.Errorf("tape: %s holds no recordings", dir)
	}
	return t, nil
}

// Record opens a tape that records into dir.
func Record(dir string) (*Tape, error) { return New(ModeRecord, dir) }

// Replay opens a tape that answers from dir.
func Replay(dir string) (*Tape, error) { return New(ModeReplay, dir) }

// Wrap puts the tape before an HTTP transport. A replaying tape does not use it.
func (t *Tape) Wrap(next http.RoundTripper) http.RoundTripper {
	if t.mode == ModeReplay {
		return &player{t}
	}
	return &recorder{t, next}
}

// Err is the first failure to write a recording, which fails all later calls too: a tape with holes is of no use.
func (t *Tape) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *Tape) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = err
	}
}

var fileName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]{6,9})-([0-9a-f]{32})\.json$`) })

// index reads the names of the recordings. Their contents are read when they are needed.
func (t *Tape) index() error {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	type file struct {
		n            int
		digest, name string
	}
	var files []file
	for _, e := range entries {
		m := fileName().FindStringSubmatch(e.Name())
		if m == nil || !e.Type().IsRegular() {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		files = append(files, file{n, m[2], e.Name()})
		t.next = max(t.next, n+1)
	}
	if len(files) > maxFiles {
		return fmt.Errorf("%s holds more than %d recordings", t.dir, maxFiles)
	}
	slices.SortFunc(files, func(a, b file) int { return a.n - b.n })
	for _, f := range files {
		t.recorded[f.digest] = append(t.recorded[f.digest], f.name)
	}
	return nil
}

// scope counts the answers given to equal requests.
type scope struct {
	mu   sync.Mutex
	used map[string]int
}

// take gives the next recorded answer to a request. ok is false when there is no other.
func (s *scope) take(digest string, files []string) (name string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.used[digest]
	if n >= len(files) {
		return "", false
	}
	if s.used == nil {
		s.used = map[string]int{}
	}
	s.used[digest] = n + 1
	return files[n], true
}

type scopeKey struct{}

// WithScope gives the calls under ctx a replay of their own: equal requests begin again with their first recorded
// answer. Put each run into a scope, so that a run can be replayed more than once and runs beside each other do not
// take each other's answers. Recording does not look at it.
func WithScope(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, &scope{})
}

func (t *Tape) scope(ctx context.Context) *scope {
	if s, ok := ctx.Value(scopeKey{}).(*scope); ok {
		return s
	}
	return &t.shared
}
