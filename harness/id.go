package harness

import "crypto/rand"

const idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// generateID returns 16 random characters of letters and digits.
func generateID() string {
	var raw [24]byte
	out := make([]byte, 0, 16)
	for len(out) < 16 {
		_, _ = rand.Read(raw[:]) // never fails
		for _, b := range raw {
			if i := int(b) & 63; i < len(idAlphabet) && len(out) < 16 {
				out = append(out, idAlphabet[i])
			}
		}
	}
	return string(out)
}
