package tool

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// ArtifactLimits bound an ArtifactStore, in bytes. Zero fields take the defaults.
type ArtifactLimits struct {
	MaxBytes        int64 // of one artifact; 64 MiB
	MaxSessionBytes int64 // of all artifacts of a session together; 1 GiB
}

// ArtifactStore keeps artifacts as files: a folder for each session, named by a digest of the session's id, and in it
// a file for each artifact, named by its random id. Everything is opened beneath the store's folder, and only by a
// well-formed id. Folders have mode 0700, files 0600.
type ArtifactStore struct {
	root   *os.Root
	limits ArtifactLimits
}

// partSuffix marks an artifact that is being written; partAge is when one counts as left behind by a dead process.
const (
	partSuffix = ".part"
	partAge    = time.Hour
)

// DirArtifacts opens a store in dir, which is created when missing, and removes what a dead process left unfinished.
func DirArtifacts(dir string, limits ArtifactLimits) (*ArtifactStore, error) {
	if limits.MaxBytes <= 0 {
		limits.MaxBytes = 64 << 20
	}
	if limits.MaxSessionBytes <= 0 {
		limits.MaxSessionBytes = 1 << 30
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	s := &ArtifactStore{root: root, limits: limits}
	s.sweep()
	return s, nil
}

// Close releases the store's descriptor. Sessions of it must not be used afterwards.
func (s *ArtifactStore) Close() error { return s.root.Close() }

// sweep removes old unfinished files. What it cannot remove costs space and nothing else.
func (s *ArtifactStore) sweep() {
	parts, _ := fs.Glob(s.root.FS(), "*/*"+partSuffix)
	for _, p := range parts {
		if info, err := s.root.Lstat(p); err == nil && time.Since(info.ModTime()) > partAge {
			_ = s.root.Remove(p)
		}
	}
}

// Session gives the artifacts of one session. Ids of other sessions do not exist there. Its folder is made with the
// first artifact.
func (s *ArtifactStore) Session(sessionID string) Artifacts {
	return &sessionArtifacts{store: s, dir: sessionDir(sessionID)}
}

// Remove deletes everything that a session kept. A session without artifacts is no error.
func (s *ArtifactStore) Remove(sessionID string) error {
	if err := s.root.RemoveAll(sessionDir(sessionID)); err != nil {
		return fmt.Errorf("artifacts of session %s: %w", sessionID, err)
	}
	return nil
}

// RemoveOne deletes one artifact of a session. One that is not there is no error.
func (s *ArtifactStore) RemoveOne(sessionID, id string) error {
	if !artifactIDRE().MatchString(id) {
		return fmt.Errorf("artifact %q: %w", id, fs.ErrNotExist)
	}
	if err := s.root.Remove(filepath.Join(sessionDir(sessionID), id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("artifact %s: %w", id, err)
	}
	return nil
}

// sessionDir is a digest, so that no session id can lead to another place.
func sessionDir(sessionID string) string {
	sum := sha256.Sum256([]byte(sessionID))
	return hex.EncodeToString(sum[:16])
}

type sessionArtifacts struct {
	store *ArtifactStore
	dir   string
	mu    sync.Mutex
	ready bool // the folder exists and used is what it holds
	used  int64
}

func (a *sessionArtifacts) prepare() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ready {
		return nil
	}
	if err := a.store.root.Mkdir(a.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("artifacts: %w", err)
	}
	entries, err := fs.ReadDir(a.store.root.FS(), a.dir)
	if err != nil {
		return fmt.Errorf("artifacts: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			a.used += info.Size()
		}
	}
	a.ready = true
	return nil
}

var artifactIDRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^art_[a-z2-7]{26}$`) })

// Create starts an artifact.
func (a *sessionArtifacts) Create(ctx context.Context, _ string) (ArtifactWriter, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := a.prepare(); err != nil {
		return nil, err
	}
	id := "art_" + strings.ToLower(rand.Text())
	path := filepath.Join(a.dir, id)
	f, err := a.store.root.OpenFile(path+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("artifact: %w", err)
	}
	return &artifactWriter{session: a, id: id, path: path, f: f}, nil
}

// Open reads an artifact of the session.
func (a *sessionArtifacts) Open(ctx context.Context, id string) (ArtifactReader, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !artifactIDRE().MatchString(id) {
		return nil, fmt.Errorf("artifact %q: %w", id, fs.ErrNotExist)
	}
	f, err := a.store.root.Open(filepath.Join(a.dir, id))
	if err != nil {
		return nil, fmt.Errorf("artifact %s: %w", id, err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("artifact %s: %w", id, err)
	}
	return &artifactReader{File: f, size: info.Size()}, nil
}

// reserve takes up to n bytes of the session's bound.
func (a *sessionArtifacts) reserve(n int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	n = max(0, min(n, a.store.limits.MaxSessionBytes-a.used))
	a.used += n
	return n
}

type artifactReader struct {
	*os.File
	size int64
}

func (r *artifactReader) Size() int64 { return r.size }

type artifactWriter struct {
	session  *sessionArtifacts
	id, path string
	f        *os.File
	kept     int64
	err      error
}

// Write keeps what the bounds allow and drops the rest. A failure of the disk is told by Commit.
func (w *artifactWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return len(p), nil
	}
	room := min(int64(len(p)), w.session.store.limits.MaxBytes-w.kept)
	room = w.session.reserve(room)
	n, err := w.f.Write(p[:room])
	w.kept += int64(n)
	w.err = err
	return len(p), nil
}

// Commit makes the artifact durable, since the event that names it will be.
func (w *artifactWriter) Commit() (string, error) {
	err := w.err
	if err == nil {
		err = w.f.Sync()
	}
	err = errors.Join(err, w.f.Close())
	if err == nil {
		err = w.session.store.root.Rename(w.path+partSuffix, w.path)
	}
	if err != nil {
		w.remove()
		return "", fmt.Errorf("artifact: %w", err)
	}
	return w.id, nil
}

// Discard removes what was written.
func (w *artifactWriter) Discard() {
	_ = w.f.Close()
	w.remove()
}

func (w *artifactWriter) remove() {
	_ = w.session.store.root.Remove(w.path + partSuffix)
	w.session.mu.Lock()
	w.session.used -= w.kept
	w.session.mu.Unlock()
}
