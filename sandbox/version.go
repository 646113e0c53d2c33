package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// Version names a file's content: the first 16 hex digits of its SHA-256.
func Version(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// VersionOf is the Version of what r gives, without holding it in memory.
func VersionOf(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
