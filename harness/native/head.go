package native

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// head is the lifecycle data of the adapter: where the transcript stood, and a digest over all items up to there.
type head struct {
	Session string `json:"session"`
	Head    int    `json:"head"`
	Digest  string `json:"digest"`
}

// chain is the running digest of a transcript.
type chain struct {
	n   int
	sum [sha256.Size]byte
}

func (c *chain) add(items ...Item) error {
	for _, it := range items {
		b, err := it.JSON()
		if err != nil {
			return err
		}
		h := sha256.New()
		h.Write(c.sum[:])
		h.Write(b)
		h.Sum(c.sum[:0])
		c.n++
	}
	return nil
}

func (c *chain) head(session string) head {
	return head{Session: session, Head: c.n, Digest: hex.EncodeToString(c.sum[:8])}
}

// verify checks that the items begin with those that the state was taken from, and returns the chain up to there.
func (h head) verify(session string, items []Item) (chain, error) {
	var c chain
	switch {
	case h.Session != session:
		return c, fmt.Errorf("lifecycle state belongs to session %s, not %s", h.Session, session)
	case h.Head < 0 || h.Head > len(items):
		return c, fmt.Errorf("transcript of session %s has %d items, the lifecycle state knows %d", session, len(items), h.Head)
	}
	if err := c.add(items[:h.Head]...); err != nil {
		return c, err
	}
	if c.head(session) != h {
		return c, fmt.Errorf("transcript of session %s is not the one that the lifecycle state was taken from", session)
	}
	return c, nil
}
