package tool

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func keep(t *testing.T, a Artifacts, content string) string {
	t.Helper()
	w, err := a.Create(t.Context(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func contentOf(t *testing.T, a Artifacts, id string) string {
	t.Helper()
	r, err := a.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func testStore(t *testing.T, dir string, limits ArtifactLimits) *ArtifactStore {
	t.Helper()
	s, err := DirArtifacts(dir, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestAnArtifactIsReadBackAlsoAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "artifacts")
	id := keep(t, testStore(t, dir, ArtifactLimits{}).Session("s1"), "hello")
	if got := contentOf(t, testStore(t, dir, ArtifactLimits{}).Session("s1"), id); got != "hello" {
		t.Errorf("content = %q", got)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
	if len(files) != 1 {
		t.Fatalf("files = %v", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
}

func TestAnArtifactIsOpenedByItsIdInItsSessionOnly(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir, ArtifactLimits{})
	one, two := s.Session("s1"), s.Session("../s1")
	id := keep(t, one, "secret")
	outside := filepath.Join(dir, "art_"+strings.Repeat("a", 26))
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, _ := filepath.Glob(filepath.Join(dir, "*", "art_*"))
	for _, bad := range []string{
		"", ".", "..", id + "x", "../" + filepath.Base(outside), folder[0], "art_", id + partSuffix, strings.ToUpper(id), id + "\x00",
	} {
		if _, err := one.Open(t.Context(), bad); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Open(%q) = %v", bad, err)
		}
	}
	if _, err := two.Open(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another session opened it: %v", err)
	}
}

func TestAnArtifactBeyondItsBoundKeepsItsBeginning(t *testing.T) {
	a := testStore(t, t.TempDir(), ArtifactLimits{MaxBytes: 4}).Session("s")
	if got := contentOf(t, a, keep(t, a, "abcdef")); got != "abcd" {
		t.Errorf("content = %q", got)
	}
}

func TestTheArtifactsOfASessionAreBoundedTogether(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir, ArtifactLimits{MaxSessionBytes: 10})
	a := s.Session("s")
	keep(t, a, "12345678")
	w, err := a.Create(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, "xx")
	w.Discard() // gives its space back
	if got := contentOf(t, a, keep(t, a, "abcdef")); got != "ab" {
		t.Errorf("content = %q", got)
	}
	// A new view of the session counts what is there.
	again := s.Session("s")
	if got := contentOf(t, again, keep(t, again, "more")); got != "" {
		t.Errorf("content = %q", got)
	}
	other := s.Session("t")
	if got := contentOf(t, other, keep(t, other, "free")); got != "free" {
		t.Errorf("content = %q", got)
	}
}

func TestADiscardedOrRemovedArtifactLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir, ArtifactLimits{})
	a := s.Session("s")
	w, err := a.Create(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	w.Discard()
	keep(t, a, "x")
	if err := s.Remove("s"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("s"); err != nil {
		t.Errorf("removing twice: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestWhatADeadProcessLeftUnfinishedIsRemovedAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	a := testStore(t, dir, ArtifactLimits{}).Session("s")
	for range 2 {
		if _, err := a.Create(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
	}
	parts, _ := filepath.Glob(filepath.Join(dir, "*", "*"+partSuffix))
	if len(parts) != 2 {
		t.Fatalf("parts = %v", parts)
	}
	old := time.Now().Add(-2 * partAge)
	if err := os.Chtimes(parts[0], old, old); err != nil {
		t.Fatal(err)
	}
	testStore(t, dir, ArtifactLimits{})
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*"+partSuffix)); len(left) != 1 || left[0] != parts[1] {
		t.Errorf("left: %v", left) // the young one may belong to a live process
	}
}
