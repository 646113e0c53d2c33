package skill

import "strings"

// values stand for a skill's placeholders.
type values struct {
	arguments string
	workspace string
	dir       string
}

// fill puts the values into a body, in one pass: what an argument says is never a placeholder itself. $1 to $9 are the
// words of the arguments, where quotes hold words together; one that was not given is empty. Where the body has no place
// for arguments they follow it.
func fill(body string, v values) string {
	var b strings.Builder
	words := split(v.arguments)
	used := false
	for {
		i := strings.IndexByte(body, '$')
		if i < 0 {
			b.WriteString(body)
			break
		}
		b.WriteString(body[:i])
		body = body[i:]
		switch n := nameLen(body[1:]); body[1 : 1+n] {
		case "ARGUMENTS":
			b.WriteString(v.arguments)
			used = true
		case "WORKSPACE":
			b.WriteString(v.workspace)
		case "SKILL_DIR":
			b.WriteString(v.dir)
		case "1", "2", "3", "4", "5", "6", "7", "8", "9":
			if k := int(body[1] - '1'); k < len(words) {
				b.WriteString(words[k])
			}
			used = true
		default:
			b.WriteString(body[:1+n])
		}
		body = body[1+nameLen(body[1:]):]
	}
	if !used && v.arguments != "" {
		b.WriteString("\n\nARGUMENTS: " + v.arguments)
	}
	return b.String()
}

// nameLen is the length of the name or number that s begins with, so that $10 is not $1 and $ARGUMENTS_2 not $ARGUMENTS.
func nameLen(s string) int {
	n := 0
	for n < len(s) {
		c := s[n]
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			break
		}
		n++
	}
	return n
}

// split cuts arguments into words. Single and double quotes hold a word together; a quote inside of a word, or
// without its end, is a character like others.
func split(s string) []string {
	var words []string
	var word strings.Builder
	in := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\n', '\r':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case '\'', '"':
			end := strings.IndexByte(s[i+1:], c)
			if in || end < 0 {
				word.WriteByte(c)
			} else {
				word.WriteString(s[i+1 : i+1+end])
				i += end + 1
			}
			in = true
		default:
			in = true
			word.WriteByte(c)
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}
