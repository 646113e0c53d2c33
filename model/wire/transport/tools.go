package transport

import (
	"bytes"
	"hash/maphash"
	"sync"

	"github.com/harness-go/harness/model"
)

// maxToolLists bounds what a Tools remembers. Beyond it everything is forgotten, and encoded anew when it is asked for.
const maxToolLists = 64

// Tools remembers the encoded form of lists of tools: the definitions are the larger part of most requests, and nearly
// every call of a session sends the same. The zero value is ready. It is safe for concurrent use.
type Tools struct {
	mu    sync.Mutex
	seed  maphash.Seed
	lists map[uint64]toolList
}

type toolList struct {
	tools   []model.Tool
	encoded []byte
}

// JSON is what encode makes of the tools. The result is shared: it must not be changed.
func (t *Tools) JSON(tools []model.Tool, encode func([]model.Tool) ([]byte, error)) ([]byte, error) {
	t.mu.Lock()
	if t.lists == nil {
		t.seed, t.lists = maphash.MakeSeed(), map[uint64]toolList{}
	}
	key := digest(t.seed, tools)
	known := t.lists[key]
	t.mu.Unlock()
	if known.encoded != nil && same(known.tools, tools) {
		return known.encoded, nil
	}
	b, err := encode(tools)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lists) >= maxToolLists {
		clear(t.lists)
	}
	t.lists[key] = toolList{append([]model.Tool(nil), tools...), b}
	return b, nil
}

func digest(seed maphash.Seed, tools []model.Tool) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, t := range tools {
		h.WriteString(t.Name)
		h.WriteByte(0)
		h.WriteString(t.Description)
		h.WriteByte(0)
		h.Write(t.Schema)
		h.WriteByte(0)
	}
	return h.Sum64()
}

func same(a, b []model.Tool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Description != b[i].Description || !bytes.Equal(a[i].Schema, b[i].Schema) {
			return false
		}
	}
	return true
}

// WithMember is the JSON object body with one more member at its end. The body must not be {}, and value must be JSON.
func WithMember(body []byte, name string, value []byte) []byte {
	body = append(body[:len(body)-1], `,"`...)
	body = append(body, name...)
	body = append(body, `":`...)
	body = append(body, value...)
	return append(body, '}')
}
