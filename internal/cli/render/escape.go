package render

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hidden reports whether a terminal would not show the character as itself: controls, and the format characters that
// reorder text or take no room. The joiners of emoji and scripts are kept by text, not by exact.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) ||
		unicode.Is(unicode.Co, r) || (unicode.IsSpace(r) && r != ' ')
}

func appendEscape(b *strings.Builder, r rune) {
	switch {
	case r < 0x100:
		fmt.Fprintf(b, `\x%02x`, r)
	case r < 0x10000:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

func escape(s string, keep func(rune) bool) string {
	clean := true
	for _, r := range s {
		if r == utf8.RuneError || (hidden(r) && !keep(r)) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r) && !keep(r):
			appendEscape(&b, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// Text makes text of several lines safe to print: line breaks and tabs stay, and so do the joiners that emoji and
// some scripts need.
func Text(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return escape(s, func(r rune) bool {
		return r == '\n' || r == '\t' || r == '\u200d' || r == '\u200c' || r == '\u00a0' || r == '\u3000'
	})
}

// Exact makes text safe and keeps every character tellable: all that is hidden is escaped, but for line breaks.
func Exact(s string) string { return escape(s, func(r rune) bool { return r == '\n' }) }

// Line makes text one line of at most limit characters.
func Line(s string, limit int) string {
	s = strings.Join(strings.Fields(s), " ")
	s = escape(s, func(rune) bool { return false })
	if n := utf8.RuneCountInString(s); n > limit {
		r := []rune(s)
		s = string(r[:limit-1]) + "…"
	}
	return s
}
