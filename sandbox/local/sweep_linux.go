package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// A mark is <PID namespace>-<owner>-<owner's start>-<random>: enough to tell whether the owner lives, where its number
// means what it means here.

// processMark is the part of a mark that is the same for all trees of this process.
var processMark = sync.OnceValue(func() string {
	self, _ := readProc(os.Getpid())
	return fmt.Sprintf("%s-%d-%d-", pidNamespace(), os.Getpid(), self.start)
})

var pidNamespace = sync.OnceValue(func() string {
	link, err := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	if err != nil {
		return "0"
	}
	return strings.Trim(strings.TrimPrefix(link, "pid:"), "[]")
})

// owner is who started a marked process.
type owner struct {
	pid   int
	start uint64
}

// parseMark reads a mark of this PID namespace.
func parseMark(mark, namespace string) (owner, bool) {
	f := strings.Split(mark, "-")
	if len(f) != 4 || f[0] != namespace || f[3] == "" {
		return owner{}, false
	}
	pid, err := strconv.Atoi(f[1])
	start, serr := strconv.ParseUint(f[2], 10, 64)
	if err != nil || serr != nil || pid <= 0 {
		return owner{}, false
	}
	return owner{pid, start}, true
}

// Sweep kills processes that sessions of an earlier process of this machine left behind when that was killed, and
// returns how many there were. A daemon calls it when it starts. Processes of owners that live, in whatever program,
// are left alone, as are those of other PID namespaces and of other users.
func Sweep(ctx context.Context) (int, error) {
	if !procUsable() {
		return 0, errors.New("sweep: " + treeNote())
	}
	dead := make(map[string]bool)
	for _, p := range listProcs() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if p.dead() || p.pid == os.Getpid() {
			continue
		}
		mark, ok := findMark(p.pid, pidNamespace()+"-")
		if !ok || dead[mark] {
			continue
		}
		o, ok := parseMark(mark, pidNamespace())
		if !ok || o.alive() {
			continue
		}
		dead[mark] = true
	}
	killed := 0
	var errs []error
	for mark := range dead {
		if err := ctx.Err(); err != nil {
			errs = append(errs, err)
			break
		}
		n, err := (&tree{mark: mark}).killAll(killLimit)
		killed += n
		errs = append(errs, err)
	}
	return killed, errors.Join(errs...)
}

func (o owner) alive() bool {
	p, ok := readProc(o.pid)
	return ok && p.start == o.start && !p.dead()
}
