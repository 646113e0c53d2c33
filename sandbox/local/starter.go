package local

import (
	"runtime"
	"sync"
)

// starter starts processes from one thread that lives as long as any of them. The kernel ends a process with the
// thread that made it (PR_SET_PDEATHSIG), not with the whole program, and the runtime may end any other thread.
type starter struct {
	mu   sync.Mutex
	live int
	jobs chan func()
}

// do runs fn on the thread and keeps the thread until release.
func (s *starter) do(fn func()) {
	s.mu.Lock()
	s.live++
	if s.live == 1 {
		s.jobs = make(chan func())
		go serve(s.jobs)
	}
	jobs := s.jobs
	s.mu.Unlock()
	done := make(chan struct{})
	jobs <- func() { defer close(done); fn() }
	<-done
}

// release ends what one do began. It gives the thread back to the runtime with the last.
func (s *starter) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live--
	if s.live == 0 {
		close(s.jobs)
	}
}

func serve(jobs <-chan func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for job := range jobs {
		job()
	}
}
