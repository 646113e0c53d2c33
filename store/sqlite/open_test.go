package sqlite

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/harness-go/harness/store"
)

func openDir(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSecondOpenerIsToldTheOwner(t *testing.T) {
	dir := t.TempDir()
	first := openDir(t, dir)
	_, err := Open(t.Context(), Options{Dir: dir})
	if !errors.Is(err, store.ErrLocked) {
		t.Fatalf("error is %v", err)
	}
	host, _ := os.Hostname()
	for _, part := range []string{fmt.Sprint("pid ", os.Getpid()), host, dir} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %q: %v", part, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	openDir(t, dir)
}

const ownerDir = "HARNESS_SQLITE_OWNER_DIR"

// Two processes on one state directory: the second is refused with the owner's pid and host, and the death of the
// owner by any signal frees the directory.
func TestASecondProcessIsRefusedUntilTheOwnerIsKilled(t *testing.T) {
	if dir := os.Getenv(ownerDir); dir != "" {
		openDir(t, dir)
		fmt.Println("opened")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent kills this process, or is gone itself
		return
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestASecondProcessIsRefusedUntilTheOwnerIsKilled$", "-test.v")
	cmd.Env = append(os.Environ(), ownerDir+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "opened" {
	}
	_, err = Open(t.Context(), Options{Dir: dir})
	host, _ := os.Hostname()
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d on host %s", cmd.Process.Pid, host)) {
		t.Errorf("error is %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to the end of the process
	}
	_ = cmd.Wait()
	s := openDir(t, dir)
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	s := openDir(t, dir)
	if _, err := s.CreateRun(t.Context(), store.NewRun{ID: "r", ConversationID: "c"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetRun(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			seen++
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil || seen < 4 { // database, wal, shm, lock
		t.Fatalf("%d files, %v", seen, err)
	}
}

func TestFileOfANewerVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	openDir(t, dir).Close()
	db, err := sql.Open("sqlite", filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`PRAGMA user_version = 999`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	_, err = Open(t.Context(), Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "999") || !strings.Contains(err.Error(), "upgrade the program") {
		t.Fatalf("error is %v", err)
	}
	// The refusal frees the directory.
	if l, err := lockDir(dir); err != nil {
		t.Fatal(err)
	} else {
		l.release()
	}
}

func TestLastMigrationSetsTheVersionThatOpenExpects(t *testing.T) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil || len(files) != schemaVersion {
		t.Fatalf("%d migrations, version %d, %v", len(files), schemaVersion, err)
	}
	s := openDir(t, t.TempDir())
	var have int
	if err := s.readers.row(t.Context(), `PRAGMA user_version`, nil, &have); err != nil || have != schemaVersion {
		t.Fatalf("version %d, %v", have, err)
	}
}

func TestEveryConnectionHasItsPragmas(t *testing.T) {
	s := openDir(t, t.TempDir())
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "5000"} {
		got, err := do(t.Context(), s.w, "test", 0, func(x *txn) (v string, err error) {
			err = x.row(`PRAGMA `+pragma, nil, &v)
			return v, err
		})
		if err != nil || got != want {
			t.Errorf("writer: %s is %s, want %s (%v)", pragma, got, want, err)
		}
	}
	if _, err := s.readers.db.Exec(`DELETE FROM runs`); err == nil {
		t.Error("a reading connection can write")
	}
}

func TestOpenNeedsAStateDirectory(t *testing.T) {
	if _, err := Open(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "Options.Dir") {
		t.Fatalf("error is %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Fatalf("error is %v", err)
	}
}

func TestSpecialCharactersInTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a?b#c %41 é")
	openDir(t, dir)
	if _, err := os.Stat(filepath.Join(dir, fileName)); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for _, name := range []string{"new", "existing"} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				d := dir
				if name == "new" {
					d = filepath.Join(dir, fmt.Sprint(i, time.Now().UnixNano()))
				}
				s, err := Open(b.Context(), Options{Dir: d})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				s.Close()
				b.StartTimer()
			}
		})
	}
}
