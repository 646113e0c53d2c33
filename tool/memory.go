package tool

import (
	"context"
	"fmt"
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

// MapMemory is a Memory in memory, with every scope. The zero value is ready; it is safe for concurrent use.
type MapMemory struct {
	mu     sync.RWMutex
	scopes map[MemoryScope]map[string]string
}

var _ Memory = (*MapMemory)(nil)

// Get finds a note.
func (m *MapMemory) Get(_ context.Context, scope MemoryScope, key string) (string, bool, error) {
	if err := checkScope(scope); err != nil {
		return "", false, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.scopes[orRun(scope)][key]
	return v, ok, nil
}

// Set keeps a note, within the bounds of Memory.
func (m *MapMemory) Set(_ context.Context, scope MemoryScope, key, value string) error {
	if err := checkScope(scope); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	notes := m.scopes[orRun(scope)]
	_, exists := notes[key]
	switch {
	case key == "":
		return fmt.Errorf("memory: the key is empty")
	case len(key) > MaxMemoryKeyBytes:
		return fmt.Errorf("memory: the key has %d bytes, more than %d", len(key), MaxMemoryKeyBytes)
	case len(value) > MaxMemoryValueBytes:
		return fmt.Errorf("memory: the value of %q has %d bytes, more than %d", key, len(value), MaxMemoryValueBytes)
	case !exists && len(notes) >= MaxMemoryKeys:
		return fmt.Errorf("memory: scope %s has %d keys already, which is the most; delete one first", orRun(scope), len(notes))
	}
	if notes == nil {
		notes = make(map[string]string)
		if m.scopes == nil {
			m.scopes = make(map[MemoryScope]map[string]string)
		}
		m.scopes[orRun(scope)] = notes
	}
	notes[key] = value
	return nil
}

// Delete forgets a note.
func (m *MapMemory) Delete(_ context.Context, scope MemoryScope, key string) (bool, error) {
	if err := checkScope(scope); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, existed := m.scopes[orRun(scope)][key]
	delete(m.scopes[orRun(scope)], key)
	return existed, nil
}

// List gives the keys in order.
func (m *MapMemory) List(_ context.Context, scope MemoryScope) ([]string, error) {
	if err := checkScope(scope); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.scopes[orRun(scope)])), nil
}

func orRun(s MemoryScope) MemoryScope {
	if s == "" {
		return MemoryRun
	}
	return s
}

func checkScope(s MemoryScope) error {
	switch orRun(s) {
	case MemoryRun, MemoryConversation, MemoryAgent:
		return nil
	}
	return fmt.Errorf("memory scope %q: %w", s, ErrNoMemoryScope)
}
