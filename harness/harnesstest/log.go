package harnesstest

import (
	"encoding/json"
	"sync"
)

// Log keeps what was called, in order. It is safe for concurrent use; the zero value is ready.
type Log struct {
	mu    sync.Mutex
	calls []Call
}

// Call is one call. In JSON it is its name, or {name: arguments} where there are any.
type Call struct {
	Name string
	Args any
}

// MarshalJSON writes the call.
func (c Call) MarshalJSON() ([]byte, error) {
	if c.Args == nil {
		return json.Marshal(c.Name)
	}
	return json.Marshal(map[string]any{c.Name: c.Args})
}

// Add appends a call.
func (l *Log) Add(name string, args any) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, Call{name, args})
}

// Calls returns the calls so far.
func (l *Log) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Call(nil), l.calls...)
}

// Names returns the names of the calls so far.
func (l *Log) Names() []string {
	var names []string
	for _, c := range l.Calls() {
		names = append(names, c.Name)
	}
	return names
}
