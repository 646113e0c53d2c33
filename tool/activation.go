package tool

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ActivationTracker remembers which deferred tools each run has activated. Activation ends with the run; a run that
// continues another starts afresh. The zero value is ready, and all methods are safe for concurrent use.
type ActivationTracker struct {
	mu   sync.RWMutex
	runs map[string][]string
}

// Activate makes tools callable for the run. Names that are active already stay in their place.
func (a *ActivationTracker) Activate(runID string, names ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs == nil {
		a.runs = make(map[string][]string)
	}
	active := a.runs[runID]
	for _, n := range names {
		if !slices.Contains(active, n) {
			active = append(active, n)
		}
	}
	a.runs[runID] = active
}

// IsActive reports whether the run has activated the tool.
func (a *ActivationTracker) IsActive(runID, name string) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Contains(a.runs[runID], name)
}

// Names lists the run's active tools in the order of activation.
func (a *ActivationTracker) Names(runID string) []string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.runs[runID])
}

// Cleanup forgets the run.
func (a *ActivationTracker) Cleanup(runID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.runs, runID)
}

// ErrNotDeferred is wrapped by Activate for a name that is not a deferred tool of the catalogue.
var ErrNotDeferred = errors.New("no deferred tool has this name")

// NewActivator is the Activator of one run: it searches the catalogue and activates in the tracker. allowed says why
// the run may not use a tool; nil allows all. What is not allowed is neither found nor activated.
func NewActivator(c *Catalog, tracker *ActivationTracker, runID string, allowed func(name string) error) Activator {
	if allowed == nil {
		allowed = func(string) error { return nil }
	}
	return &activator{catalog: c, tracker: tracker, runID: runID, allowed: allowed}
}

type activator struct {
	catalog *Catalog
	tracker *ActivationTracker
	runID   string
	allowed func(string) error
}

func (a *activator) Find(query string) []Definition {
	return slices.DeleteFunc(a.catalog.Search(query), func(d Definition) bool { return a.allowed(d.Name) != nil })
}

func (a *activator) Lookup(name string) (Definition, bool) {
	t, ok := a.catalog.Lookup(name)
	if !ok {
		return Definition{}, false
	}
	return t.def, true
}

// Activate activates all of the names or, with an error, none of them.
func (a *activator) Activate(names ...string) error {
	for _, n := range names {
		t, ok := a.catalog.Lookup(n)
		if !ok || t.def.Tier != TierDeferred {
			return fmt.Errorf("%s: %w", n, ErrNotDeferred)
		}
		if err := a.allowed(n); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	a.tracker.Activate(a.runID, names...)
	return nil
}
