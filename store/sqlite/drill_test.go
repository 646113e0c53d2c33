package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/harness-go/harness/event"
	"github.com/harness-go/harness/store"
)

// Of the child process of a drill: the state directory, what it does, and the commit in which it dies.
const (
	drillDir    = "HARNESS_SQLITE_DRILL_DIR"
	drillDo     = "HARNESS_SQLITE_DRILL_DO"
	drillCommit = "HARNESS_SQLITE_DRILL_COMMIT"
)

const drillItems = 300 // more than one step of a purge or a fork

// TestDeletionAndForkSurviveAKillAtEveryCommit kills a process after each of its commits, which is also before the next
// one. A conversation is then whole or gone, a fork whole or not there, and what is left over can be purged to the last row.
func TestDeletionAndForkSurviveAKillAtEveryCommit(t *testing.T) {
	if dir := os.Getenv(drillDir); dir != "" {
		drillChild(t, dir)
		return
	}
	template := t.TempDir()
	s := openDir(t, template)
	want := drillConversation(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"delete", "fork"} {
		t.Run(what, func(t *testing.T) {
			for n := 1; ; n++ {
				dir := filepath.Join(t.TempDir(), "state")
				if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
					t.Fatal(err)
				}
				killed := drillRun(t, dir, what, n)
				checkDrilled(t, dir, what, want, killed)
				if !killed {
					if n < 4 {
						t.Fatalf("only %d commits", n-1)
					}
					return
				}
			}
		})
	}
}

func drillConversation(t *testing.T, s *Store) []store.TranscriptItem {
	t.Helper()
	for i := range 2 {
		c, err := s.CreateRun(t.Context(), store.NewRun{ID: fmt.Sprint("run_", i), TenantID: "t", ConversationID: "cv", Prompt: "p", Lease: true})
		if err != nil {
			t.Fatal(err)
		}
		for range drillItems / 2 {
			s.Submit(store.Batch{RunID: c.Run.ID, Epoch: 1, Events: text(strings.Repeat("e", 100)),
				Transcript: []store.TranscriptItem{{Kind: "k", Data: []byte(`"needle ` + strings.Repeat("x", 3000) + `"`)}}})
		}
		status := store.StatusCompleted
		if _, err := s.Finish(t.Context(), store.Batch{RunID: c.Run.ID, Epoch: 1, Events: []store.NewEvent{{Type: event.RunCompleted}}, Update: &store.RunUpdate{Status: &status}}); err != nil {
			t.Fatal(err)
		}
	}
	items, err := s.Transcript(t.Context(), "t", "cv", 0, 0)
	if err != nil || len(items) != drillItems {
		t.Fatal(len(items), err)
	}
	indexAll(t, s)
	return items
}

// drillRun starts the child and reports whether it died where it should.
func drillRun(t *testing.T, dir, what string, n int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestDeletionAndForkSurviveAKillAtEveryCommit$")
	cmd.Env = append(os.Environ(), drillDir+"="+dir, drillDo+"="+what, drillCommit+"="+strconv.Itoa(n))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%s, commit %d: %v\n%s", what, n, err, &out)
	}
	return true
}

func drillChild(t *testing.T, dir string) {
	n, err := strconv.Atoi(os.Getenv(drillCommit))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	s, err := Open(t.Context(), Options{Dir: dir, FaultPoint: func(point string, _ []string) {
		if point != "commit.after" {
			return
		}
		if seen++; seen == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if os.Getenv(drillDo) == "fork" {
		if _, err := s.Fork(t.Context(), store.Fork{TenantID: "t", ConversationID: "cv", ID: "cv_fork"}); err != nil {
			t.Fatal(err)
		}
		return
	}
	d, err := s.DeleteConversation(t.Context(), "t", "cv")
	if err != nil {
		t.Fatal(err)
	}
	purgeAll(t, s, d)
}

func purgeAll(t *testing.T, s *Store, d store.Deletion) {
	t.Helper()
	if err := s.FilesRemoved(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if more, err = s.Purge(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

func checkDrilled(t *testing.T, dir, what string, want []store.TranscriptItem, killed bool) {
	t.Helper()
	s := openDir(t, dir)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	target := "cv"
	if what == "fork" {
		target = "cv_fork"
		whole(t, s, "cv", want)
	}
	_, err := s.GetConversation(t.Context(), "t", target)
	there := err == nil
	switch {
	case there:
		whole(t, s, target, want)
	case !errors.Is(err, store.ErrNotFound):
		t.Fatal(err)
	}
	if !killed && there != (what == "fork") {
		t.Fatalf("%s ended well and the conversation is there: %v", what, there)
	}
	list, err := s.Deletions(t.Context(), 10)
	if err != nil || (there && len(list) != 0) {
		t.Fatalf("there %v, deletions %+v, %v", there, list, err)
	}
	for _, d := range list {
		purgeAll(t, s, d)
	}
	runs, items, texts := 2, 0, 0
	if what == "delete" && !there {
		runs = 0
	} else {
		items, texts = drillItems, drillItems
	}
	if what == "fork" && there {
		items *= 2
	}
	for table, n := range map[string]int{
		"runs": runs, "run_inputs": runs, "transcript": items, "events": runs * (2 + drillItems/2), "tombstones": 0,
	} {
		var have int
		if err := s.readers.row(t.Context(), `SELECT count(*) FROM `+table, nil, &have); err != nil || have != n {
			t.Errorf("%s has %d rows, want %d (%v)", table, have, n, err)
		}
	}
	db, err := s.index.reading(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var have int
	if err := db.QueryRow(`SELECT count(*) FROM texts`).Scan(&have); err != nil || have != texts {
		t.Errorf("the index has %d texts, want %d (%v)", have, texts, err)
	}
}

// whole checks that a conversation has every item, byte for byte.
func whole(t *testing.T, s *Store, id string, want []store.TranscriptItem) {
	t.Helper()
	items, err := s.Transcript(t.Context(), "t", id, 0, 0)
	if err != nil || len(items) != len(want) {
		t.Fatalf("%s has %d items, want %d (%v)", id, len(items), len(want), err)
	}
	for i := range items {
		if items[i].Idx != want[i].Idx || items[i].RunID != want[i].RunID || !bytes.Equal(items[i].Data, want[i].Data) {
			t.Fatalf("%s: item %d differs", id, i)
		}
	}
}
