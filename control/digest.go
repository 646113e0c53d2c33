package control

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// Digest binds an approval to one call: SHA-256 over the canonical JSON of the tool, the final arguments and the
// working directory (RFC 8785 in the parts that arguments use: sorted members, no blanks, numbers as written).
// Arguments that are not valid JSON are taken as text.
func Digest(tool string, arguments json.RawMessage, cwd string) string {
	doc := map[string]any{"tool": tool, "cwd": cwd}
	dec := json.NewDecoder(bytes.NewReader(arguments))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		v = string(arguments)
	}
	doc["arguments"] = v
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf) // sorts members
	enc.SetEscapeHTML(false)
	_ = enc.Encode(doc) // maps, slices, strings and numbers always encode
	sum := sha256.Sum256(bytes.TrimRight(buf.Bytes(), "\n"))
	return "sha256:" + hex.EncodeToString(sum[:])
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// randomID returns the prefix and 26 characters of 128 random bits.
func randomID(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return prefix + strings.ToLower(idEncoding.EncodeToString(b[:]))
}
