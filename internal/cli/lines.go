package cli

import (
	"bufio"
	"io"
	"os"
	"sync"
)

// lines reads standard input line by line beside everything else that goes on. Its goroutine ends with the input.
type lines struct {
	start sync.Once
	in    io.Reader
	ch    chan string // closed at the end of the input
}

func (a *app) input() *lines {
	if a.lines == nil {
		a.lines = &lines{in: a.in, ch: make(chan string)}
	}
	return a.lines
}

// fresh drops what was typed before a question was asked, so that no key press answers what nobody has read, and
// returns the channel of the lines that follow.
func (l *lines) fresh() <-chan string {
	if f, ok := l.in.(*os.File); ok {
		flushInput(f)
	}
	select {
	case _, ok := <-l.ch:
		if !ok {
			return l.ch
		}
	default:
	}
	return l.next()
}

// next returns the channel of lines.
func (l *lines) next() <-chan string {
	l.start.Do(func() {
		go func() {
			defer close(l.ch)
			s := bufio.NewScanner(l.in)
			s.Buffer(make([]byte, 4096), 1<<20)
			for s.Scan() {
				l.ch <- s.Text()
			}
		}()
	})
	return l.ch
}
