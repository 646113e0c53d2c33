package metrics

import (
	"sync"
	"unicode/utf8"
)

// What a label says where the value is not known, or is one too many.
const (
	unknown = "unknown"
	other   = "other"
)

const maxNameBytes = 120

// names bounds the values of a label: the first ones are kept, the rest are "other".
type names struct {
	mu   sync.RWMutex
	seen map[string]bool
	max  int
}

func newNames(max int, known ...string) *names {
	n := &names{seen: make(map[string]bool, len(known)), max: max + len(known)}
	for _, k := range known {
		n.seen[k] = true
	}
	return n
}

// of is the label of a value that may take a place.
func (n *names) of(value string) string {
	if value == "" {
		return unknown
	}
	if n.known(value) {
		return value
	}
	if len(value) > maxNameBytes || !utf8.ValidString(value) {
		return other
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.seen[value] && len(n.seen) >= n.max {
		return other
	}
	n.seen[value] = true
	return value
}

// only is the label of a value that takes no place.
func (n *names) only(value string) string {
	switch {
	case value == "":
		return unknown
	case n.known(value):
		return value
	}
	return other
}

func (n *names) known(value string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.seen[value]
}
