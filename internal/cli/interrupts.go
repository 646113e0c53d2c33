package cli

import (
	"context"
	"os"
	"sync/atomic"
)

// interrupts brings Ctrl-C to the command that handles it. Where none does, it ends the program's context.
type interrupts struct {
	ch    chan os.Signal
	taken atomic.Bool
}

// errInterrupted is the cause of a context that Ctrl-C ended.
var errInterrupted = &exitError{code: ExitInterrupted}

func (i *interrupts) distribute(signals <-chan os.Signal, cancel context.CancelCauseFunc) {
	for s := range signals {
		if !i.taken.Load() {
			cancel(errInterrupted)
			continue
		}
		i.ch <- s
	}
}

// take makes the caller handle Ctrl-C for the rest of the program.
func (i *interrupts) take() <-chan os.Signal {
	i.taken.Store(true)
	return i.ch
}
