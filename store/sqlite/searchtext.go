package sqlite

import (
	"strings"
	"unicode"
)

// Bounds of what is searched for.
const (
	maxTerms     = 32
	maxTermRunes = 128
)

// term is one thing that must occur, or must not.
type term struct {
	text   string
	prefix bool
	not    bool
}

// matchExpr makes an expression of the index's own language from what a person typed. Every word is quoted in it, so
// that there is no text that it could misread. It is empty where there is nothing to find.
func matchExpr(text string, tools bool) string {
	var must, mustNot []string
	terms := parseTerms(text)
	for _, t := range terms {
		s := `"` + t.text + `"`
		if t.prefix {
			s += "*"
		}
		if t.not {
			mustNot = append(mustNot, s)
		} else {
			must = append(must, s)
		}
	}
	if len(must) == 0 { // "-word" alone means the word
		must, mustNot = mustNot, nil
	}
	if len(must) == 0 {
		return ""
	}
	expr := strings.Join(must, " AND ")
	if len(mustNot) > 0 {
		expr = "(" + expr + ") NOT (" + strings.Join(mustNot, " OR ") + ")"
	}
	if tools {
		return "{body tool} : (" + expr + ")"
	}
	return "{body} : (" + expr + ")"
}

// parseTerms reads words and quoted phrases. A quote without its other half is no quote.
func parseTerms(text string) []term {
	runes := []rune(strings.ToValidUTF8(text, " "))
	var terms []term
	for i := 0; i < len(runes) && len(terms) < maxTerms; {
		if unicode.IsSpace(runes[i]) {
			i++
			continue
		}
		var t term
		if runes[i] == '-' && i+1 < len(runes) && !unicode.IsSpace(runes[i+1]) {
			t.not = true
			i++
		}
		end := i
		if runes[i] == '"' {
			if n := index(runes[i+1:], '"'); n >= 0 {
				t.text = words(runes[i+1 : i+1+n])
				end = i + n + 2
			}
		}
		if end == i {
			for end < len(runes) && !unicode.IsSpace(runes[end]) {
				end++
			}
			t.text = words(runes[i:end])
			t.prefix = runes[end-1] == '*'
		} else if end < len(runes) && runes[end] == '*' {
			t.prefix = true
			end++
		}
		i = end
		if t.text != "" {
			terms = append(terms, t)
		}
	}
	return terms
}

func index(runes []rune, r rune) int {
	for i, x := range runes {
		if x == r {
			return i
		}
	}
	return -1
}

// words keeps what the index takes for words, with blanks between: letters, digits and what belongs to them.
func words(runes []rune) string {
	var b strings.Builder
	if len(runes) > maxTermRunes {
		runes = runes[:maxTermRunes]
	}
	has := false
	for _, r := range runes {
		switch {
		case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Co, r):
			has = true
			b.WriteRune(r)
		case unicode.IsMark(r):
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	if !has {
		return ""
	}
	return strings.TrimSpace(b.String())
}
