package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/harness-go/harness/store"
	"github.com/harness-go/harness/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, dir string, clock func() time.Time) store.Store {
	s, err := Open(t.Context(), Options{Dir: dir, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) { storetest.Run(t, open) }

func TestSurvivesKill(t *testing.T) { storetest.SurvivesKill(t, open) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, open) }

// BenchmarkParked measures what a waiting run costs: memory of the process, of which the heap, and of the file.
func BenchmarkParked(b *testing.B) {
	for _, n := range []int{10_000, 20_000} {
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) {
			for b.Loop() {
				dir := b.TempDir()
				s := open(b, dir, nil)
				storetest.ParkMany(b, s, 1000) // fills the page caches
				heap, rss := memory()
				storetest.ParkMany(b, s, n)
				heap2, rss2 := memory()
				info, err := os.Stat(filepath.Join(dir, fileName))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(heap2-heap)/float64(n), "heap-B/run")
				b.ReportMetric(float64(rss2-rss)/float64(n), "rss-B/run")
				b.ReportMetric(float64(info.Size())/float64(n), "file-B/run")
				b.ReportMetric(float64(rss2)/(1<<20), "rss-MB")
				s.Close()
			}
		})
	}
}

// memory returns the live heap and the resident set in bytes; the latter is 0 where the system does not tell it.
func memory() (heap, rss int64) {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	statm, err := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(statm)); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		rss = pages * int64(os.Getpagesize())
	}
	return int64(m.HeapAlloc), rss
}
