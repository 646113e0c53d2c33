package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/harness-go/harness/store"
)

// spoken makes runs whose transcripts are one text each, and takes them into the index.
func spoken(t testing.TB, s *Store, texts ...string) {
	t.Helper()
	for i, text := range texts {
		r := mustCreate(t, s, fmt.Sprint("r", i))
		if _, err := s.Submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "k", Data: []byte(text)}}}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	indexAll(t, s)
}

// indexAll takes everything into the index that is not in it yet, which must be something.
func indexAll(t testing.TB, s *Store) {
	t.Helper()
	for n := 0; ; n++ {
		at, err := s.Indexed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		feed, err := s.TranscriptFeed(t.Context(), at, 0)
		if err != nil || (n == 0 && len(feed) == 0) {
			t.Fatal(len(feed), err)
		}
		if len(feed) == 0 {
			return
		}
		var texts []store.SearchText
		for _, it := range feed {
			texts = append(texts, store.SearchText{Cursor: it.Cursor, Role: "user", Body: string(it.Data)})
		}
		if err := s.Index(t.Context(), texts, feed[len(feed)-1].Cursor); err != nil {
			t.Fatal(err)
		}
	}
}

func hits(t testing.TB, s *Store, text string) int {
	t.Helper()
	list, _, err := s.Search(t.Context(), store.SearchQuery{TenantID: "t", Text: text, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestAnIndexThatIsNotThisStoresIsMadeAnew(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, file string){
		"garbage": func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte(strings.Repeat("garbage ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"of another store": func(t *testing.T, file string) {
			other := openDir(t, t.TempDir())
			spoken(t, other, "needle", "needle", "needle")
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(other.index.file)
			if err == nil {
				err = os.WriteFile(file, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"gone": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openDir(t, dir)
			spoken(t, s, "needle", "hay")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			spoil(t, filepath.Join(dir, searchFile))
			s = openDir(t, dir)
			if at, err := s.Indexed(t.Context()); err != nil || at != 0 {
				t.Fatalf("cursor %d, %v", at, err)
			}
			indexAll(t, s)
			if n := hits(t, s, "needle"); n != 1 {
				t.Fatalf("%d hits", n)
			}
		})
	}
}

func TestADamagedIndexIsMadeAnewWhileTheStoreIsOpen(t *testing.T) {
	s := openDir(t, t.TempDir())
	var texts []string
	for i := range 50 {
		texts = append(texts, fmt.Sprint("needle ", i, strings.Repeat(" hay", 500)))
	}
	spoken(t, s, texts...)
	db, err := s.index.reading(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	s.index.mu.Lock()
	if err := s.index.db.Close(); err != nil {
		t.Fatal(err)
	}
	s.index.db = nil
	s.index.mu.Unlock()
	data, err := os.ReadFile(s.index.file)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) / 2; i < len(data); i++ { // the texts; what an open reads stays
		data[i] = 0xa5
	}
	if err := os.WriteFile(s.index.file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Search(t.Context(), store.SearchQuery{TenantID: "t", Text: "needle"}); err == nil {
		t.Fatal("a damaged index was read")
	}
	indexAll(t, s)
	if n := hits(t, s, "needle"); n != 50 {
		t.Fatalf("%d hits", n)
	}
}

// The index must not be what a start or a run waits for.
func TestAStoreThatNobodySearchesHasNoIndex(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	mustCreate(t, s, "r")
	if _, err := os.Stat(filepath.Join(dir, searchFile)); !os.IsNotExist(err) {
		t.Fatalf("the index is there: %v", err)
	}
}

func FuzzSearchText(f *testing.F) {
	for _, s := range []string{`fox`, `"a b" c* -d`, `"`, `- -- -"`, `owner:x) OR (`, "\x00\xff", `***`} {
		f.Add(s)
	}
	s := openDir(f, f.TempDir())
	spoken(f, s, "a fox b c d", "owner x or")
	if _, err := s.CreateRun(f.Context(), store.NewRun{ID: "other", TenantID: "t2", ConversationID: "c"}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tools := range []bool{false, true} {
			if _, _, err := s.Search(t.Context(), store.SearchQuery{TenantID: "t", Text: text, Tools: tools}); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
		if terms := parseTerms(text); len(terms) > maxTerms {
			t.Fatalf("%d terms", len(terms))
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	s := openDir(b, b.TempDir())
	r := mustCreate(b, s, "r")
	body := strings.Repeat("some words of an answer that a model gave, with names_of_things and numbers 12345; ", 12)
	for i := 0; b.Loop(); i++ {
		if _, err := s.Submit(store.Batch{RunID: r.ID, Epoch: 1, Transcript: []store.TranscriptItem{{Kind: "k", Data: []byte(`1`)}}}).Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		if i%64 < 63 {
			continue
		}
		at, err := s.Indexed(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		feed, err := s.TranscriptFeed(b.Context(), at, 64)
		if err != nil {
			b.Fatal(err)
		}
		var texts []store.SearchText
		for _, it := range feed {
			texts = append(texts, store.SearchText{Cursor: it.Cursor, Role: "user", Body: body})
		}
		if err := s.Index(b.Context(), texts, feed[len(feed)-1].Cursor); err != nil {
			b.Fatal(err)
		}
	}
}
