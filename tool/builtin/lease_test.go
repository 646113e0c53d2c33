package builtin

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/harness-go/harness/tool"
)

// Writers of the test below: each owns a line "name: count" and counts it up.
const (
	writerRounds = 6
	writerFolder = "BUILTIN_TEST_WRITER_FOLDER"
)

// countUp changes the writer's line with one of the tools, again and again where another writer was faster.
func countUp(t testing.TB, s *session, name string, how int) {
	for round := range writerRounds {
		from, to := fmt.Sprintf("%s: %d\n", name, round), fmt.Sprintf("%s: %d\n", name, round+1)
		for {
			page := output[readResult](t, s.call("read", args{"path": "f"}))
			var res tool.Result
			switch how % 4 {
			case 0:
				res = s.call("edit", args{"path": "f", "old_text": from, "new_text": to})
			case 1:
				res = s.call("apply_patch", args{"patch": "--- a/f\n+++ b/f\n@@\n-" + from + "+" + to})
			case 2:
				res = s.call("write", args{"path": "f", "content": strings.Replace(page.Content, from, to, 1), "expected_version": page.Version})
			case 3:
				res = s.call("apply_patch", args{"path": "f", "find": from, "replace": to, "expected_version": page.Version})
			}
			if res.Error == "" {
				break
			}
			if res.Error != tool.CodeStale {
				t.Errorf("%s: %s", name, res.Output)
				return
			}
		}
	}
}

// Updates of one file from two sessions of this process and from another process are all there in the end, and nothing
// else is in the folder.
func TestWritersOfOneFileLoseNoUpdate(t *testing.T) {
	a := newSession(t, false)
	sessions := []*session{a, a.another()}
	const here, there = 8, 4
	var names []string
	var text strings.Builder
	for i := range here {
		names = append(names, fmt.Sprintf("mine%d", i))
	}
	for i := range there {
		names = append(names, fmt.Sprintf("other%d", i))
	}
	for _, name := range names {
		text.WriteString(name + ": 0\n")
	}
	a.write("f", text.String())
	other := exec.Command(os.Args[0], "-test.run=^TestTheOtherProcessOfManyWriters$", "-test.count=1")
	other.Env = append(os.Environ(), writerFolder+"="+a.dir)
	var said strings.Builder
	other.Stdout, other.Stderr = &said, &said
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range here {
		wg.Go(func() { countUp(t, sessions[i%2], fmt.Sprintf("mine%d", i), i/2) })
	}
	wg.Wait()
	if err := other.Wait(); err != nil {
		t.Errorf("the other process: %v\n%s", err, said.String())
	}
	want := strings.ReplaceAll(text.String(), ": 0\n", ": "+strconv.Itoa(writerRounds)+"\n")
	if got := a.content("f"); got != want {
		t.Errorf("updates are lost:\n%s", got)
	}
	if list, err := os.ReadDir(a.dir); err != nil || len(list) != 1 {
		t.Errorf("the folder holds %v, %v", list, err)
	}
}

// TestTheOtherProcessOfManyWriters is run by the test above.
func TestTheOtherProcessOfManyWriters(t *testing.T) {
	dir := os.Getenv(writerFolder)
	if dir == "" {
		t.Skip("this is a part of TestWritersOfOneFileLoseNoUpdate")
	}
	s := sessionIn(t, dir, false)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { countUp(t, s, fmt.Sprintf("other%d", i), i) })
	}
	wg.Wait()
}
