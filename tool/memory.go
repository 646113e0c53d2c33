package tool

import (
	"maps"
	"slices"
	"sync"

	"github.com/harness-go/harness/event"
)

// MapVersions is a Versions in memory. The zero value is ready; it is safe for concurrent use. It holds one entry for
// each file that a session read or wrote, so its size is bounded by the session's calls.
type MapVersions struct {
	mu   sync.RWMutex
	seen map[string]string
}

var _ Versions = (*MapVersions)(nil)

// Seen returns the version that the session saw last.
func (m *MapVersions) Seen(path string) (string, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.seen[path]
	return v, ok
}

// See records a version.
func (m *MapVersions) See(path, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = make(map[string]string)
	}
	m.seen[path] = version
}

// All copies the whole record, for a checkpoint; See puts it back.
func (m *MapVersions) All() map[string]string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return maps.Clone(m.seen)
}

// ListTodos is a Todos in memory. The zero value is an empty list; it is safe for concurrent use.
type ListTodos struct {
	mu   sync.RWMutex
	list []event.Todo
}

var _ Todos = (*ListTodos)(nil)

// Get copies the list.
func (l *ListTodos) Get() []event.Todo {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.list)
}

// Set replaces the list.
func (l *ListTodos) Set(todos []event.Todo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.Clone(todos)
}
