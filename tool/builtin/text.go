package builtin

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// decode makes bytes text: each byte that is no part of valid UTF-8 becomes U+FFFD. Byte for byte, and not run for
// run, so that decoding pieces that end between runes gives the same as decoding the whole.
func decode(b []byte) (text string, invalid bool) {
	if utf8.Valid(b) {
		return string(b), false
	}
	return string([]rune(string(b))), true
}

// completeLen is the length of b without a last rune that may go on in the next bytes.
func completeLen(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

// runeBefore is the largest cut of at most n that does not split a valid rune of b.
func runeBefore(b []byte, n int) int {
	if n >= len(b) {
		return len(b)
	}
	for i := n; i >= 0 && i > n-utf8.UTFMax; i-- {
		if !utf8.RuneStart(b[i]) {
			continue
		}
		if _, size := utf8.DecodeRune(b[i:]); i+size > n {
			return i
		}
		break
	}
	return n
}

// runeAfter is the smallest cut of at least n that does not split a valid rune of b.
func runeAfter(b []byte, n int) int {
	if n <= 0 {
		return 0
	}
	at := runeBefore(b, n)
	if at == n || at >= len(b) {
		return at
	}
	_, size := utf8.DecodeRune(b[at:])
	return at + size
}

// firstLines is the length of the first n lines of s.
func firstLines(s string, n int) int {
	at := 0
	for range n {
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			return len(s)
		}
		at += i + 1
	}
	return at
}

// lastLines is where the last n lines of s begin.
func lastLines(s string, n int) int {
	at := len(s)
	if strings.HasSuffix(s, "\n") {
		at--
	}
	for range n {
		i := strings.LastIndexByte(s[:at], '\n')
		if i < 0 {
			return 0
		}
		at = i
	}
	return at + 1
}

// clip shortens text for a message.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:runeBefore([]byte(s), n)] + "…"
}

// looksBinary judges the first bytes of a file: a NUL, or mostly not UTF-8.
func looksBinary(head []byte) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	head = head[:completeLen(head)]
	bad := 0
	for i := 0; i < len(head); {
		r, size := utf8.DecodeRune(head[i:])
		if r == utf8.RuneError && size == 1 {
			bad++
		}
		i += size
	}
	return bad*10 > len(head)*3
}
