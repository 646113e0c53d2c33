package engine

import "sync"

// tenantCache remembers the tenants of runs that were asked for lately. It holds at most two generations of
// tenantGeneration entries each.
type tenantCache struct {
	mu       sync.Mutex
	cur, old map[string]string
}

const tenantGeneration = 4096

func (c *tenantCache) get(runID string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.cur[runID]; ok {
		return t, true
	}
	t, ok := c.old[runID]
	return t, ok
}

// clear forgets everything: some of it may be deleted.
func (c *tenantCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cur, c.old = nil, nil
}

func (c *tenantCache) put(runID, tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur == nil || len(c.cur) >= tenantGeneration {
		c.cur, c.old = make(map[string]string), c.cur
	}
	c.cur[runID] = tenant
}
