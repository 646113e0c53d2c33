package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// AlwaysAvailableTools pass allowed_tools whatever it lists. A run's denied_tools can still take them away,
// and a named agent must list them.
var AlwaysAvailableTools = map[string]bool{
	"AskUserQuestion": true,
	"find_tool":       true,
	"skill":           true,
}

// MaxSearchHits is how many tools a search gives at most.
const MaxSearchHits = 10

// Catalog is an immutable set of tools in order of registration. Its methods are safe for concurrent use.
type Catalog struct {
	tools  []*Tool
	byName map[string]*Tool
}

// NewCatalog makes a catalogue. A nil tool and a name that is used twice are errors.
func NewCatalog(tools ...*Tool) (*Catalog, error) {
	c := &Catalog{tools: slices.Clone(tools), byName: make(map[string]*Tool, len(tools))}
	for i, t := range tools {
		if t == nil {
			return nil, fmt.Errorf("catalog: tool %d is nil", i)
		}
		if _, dup := c.byName[t.def.Name]; dup {
			return nil, fmt.Errorf("catalog: two tools have the name %q", t.def.Name)
		}
		c.byName[t.def.Name] = t
	}
	return c, nil
}

// With returns a catalogue in which the given tools replace those of the same name, in their places; the others
// follow at the end. It is how a user's tools win over the built-in ones.
func (c *Catalog) With(tools ...*Tool) (*Catalog, error) {
	user, err := NewCatalog(tools...)
	if err != nil {
		return nil, err
	}
	merged := make([]*Tool, 0, len(c.tools)+len(tools))
	for _, t := range c.tools {
		if u, ok := user.byName[t.def.Name]; ok {
			t = u
		}
		merged = append(merged, t)
	}
	for _, t := range user.tools {
		if _, ok := c.byName[t.def.Name]; !ok {
			merged = append(merged, t)
		}
	}
	return NewCatalog(merged...)
}

// Lookup finds a tool by its exact name.
func (c *Catalog) Lookup(name string) (*Tool, bool) {
	t, ok := c.byName[name]
	return t, ok
}

// All lists every tool.
func (c *Catalog) All() []*Tool { return slices.Clone(c.tools) }

// Core lists the tools that are always in a request.
func (c *Catalog) Core() []*Tool { return c.tier(TierCore) }

// Deferred lists the tools that find_tool can activate.
func (c *Catalog) Deferred() []*Tool { return c.tier(TierDeferred) }

func (c *Catalog) tier(tier Tier) []*Tool {
	var list []*Tool
	for _, t := range c.tools {
		if t.def.Tier == tier {
			list = append(list, t)
		}
	}
	return list
}

// Search ranks the deferred tools by the words of a query, best first, at most MaxSearchHits. Words have three
// characters or more and count regardless of case: a word that is the name gives 10 and one inside it 5; a word that
// is a tag gives 8 and one inside a tag 3; a word in the description gives 1. Equal scores keep the order of
// registration, so a query always has the same answer.
func (c *Catalog) Search(query string) []Definition {
	type hit struct {
		def   Definition
		score int
	}
	terms := searchTerms(query)
	var hits []hit
	for _, t := range c.tools {
		if t.def.Tier != TierDeferred {
			continue
		}
		if s := score(t.def, terms); s > 0 {
			hits = append(hits, hit{t.def, s})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	hits = hits[:min(len(hits), MaxSearchHits)]
	defs := make([]Definition, len(hits))
	for i, h := range hits {
		defs[i] = h.def
	}
	return defs
}

func searchTerms(query string) []string {
	words := strings.FieldsFunc(strings.ToLower(query), func(r rune) bool {
		return r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	var terms []string
	for _, w := range words {
		if utf8.RuneCountInString(w) >= 3 && !slices.Contains(terms, w) {
			terms = append(terms, w)
		}
	}
	return terms
}

func score(d Definition, terms []string) int {
	name, desc := strings.ToLower(d.Name), strings.ToLower(d.Description)
	total := 0
	for _, term := range terms {
		switch {
		case name == term:
			total += 10
		case strings.Contains(name, term):
			total += 5
		}
		best := 0
		for _, tag := range d.Tags {
			switch tag = strings.ToLower(tag); {
			case tag == term:
				best = 8
			case strings.Contains(tag, term):
				best = max(best, 3)
			}
		}
		total += best
		if strings.Contains(desc, term) {
			total++
		}
	}
	return total
}
